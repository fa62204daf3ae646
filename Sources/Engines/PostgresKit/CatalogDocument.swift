import Changes

/// The catalog rows of one table as one text. Cairn builds the table's definition (``TableSchema``) from them.
///
/// The same query returns the text on a connection of Cairn and in an event trigger. The trigger writes the text into
/// the replication stream. The text is a sequence of rows: a letter for the kind of row, the number of its fields, `;`,
/// and the fields. Each field is its length in bytes of UTF-8, `:` and its text, or `-` for NULL.
///
/// Source: https://www.postgresql.org/docs/15/catalogs.html
package struct CatalogDocument: Sendable {
  package enum Section: UInt8, Sendable {
    /// The row of the table: oid, schema, name, kind, persistence, replica identity, estimated rows, owner. Then
    /// whether the session's role is or may become the owner, whether row level security hides rows, and the name of
    /// the session's role.
    case table = 0x74  // t
    /// The row of a column: number, name, type, NOT NULL, generated, type oid, modifier, collation, default, base type,
    /// identity. Then its value in rows that are older than the column, and whether its type may have a default.
    case column = 0x63  // c
    /// The row of an index that is unique or has a constraint. It begins with four flags: primary key, replica
    /// identity, unique without expression and WHERE, deferrable. Then the column numbers, name, definition, and text
    /// as a constraint.
    case index = 0x69  // i
    /// The row of an index that belongs to no constraint: name and definition.
    case object = 0x6f  // o
    /// The row of a foreign key: column numbers, schema, table, columns, on update, on delete, deferred, deferrable.
    case foreignKey = 0x66  // f
    /// The row of a sequence: schema, name, number of the owning column, kind of dependency, options.
    case sequence = 0x73  // s
    /// The row of a leaf partition: oid and file, schema, name, whether it has a replica identity, and of which kind
    /// (`d`, `i`, `f` or `n`). Then the columns of the index of that identity, by their numbers in the partitioned
    /// table, and the persistence. Event triggers of earlier versions of Cairn give only four fields.
    case partition = 0x70  // p
    /// The row of a CHECK constraint of the table.
    case check = 0x6b  // k
    /// The row of a type: oid, schema, name, kind, element, base, base with modifier, NOT NULL, default, extension,
    /// schema of the extension, category, collation.
    case type = 0x79  // y
    /// The row of an enum's label: type, oid, text.
    case label = 0x65  // e
    /// The row of a CHECK constraint of a domain: the type, and the text.
    case domainCheck = 0x64  // d
    /// The row of a composite type's attribute: type, number, name, attribute's type, its oid and modifier.
    case attribute = 0x6d  // m
    /// The row of a range type: oid, oid of its multirange, oid and name of its subtype, qualified name, name and
    /// schema of the multirange, collation, difference function.
    case range = 0x72  // r
  }

  private var rows: [Section: [[String?]]] = [:]

  package subscript(section: Section) -> [[String?]] { rows[section] ?? [] }

  /// Reads the text that ``sql(of:types:)`` returned. Throws ``DecodingError`` for any other text.
  package init(_ text: String) throws {
    var text = text
    self = try text.withUTF8 { try CatalogDocument(UnsafeRawBufferPointer($0)) }
  }

  package init(_ bytes: UnsafeRawBufferPointer) throws {
    var reader = CatalogReader(bytes)
    while let (letter, fields) = try reader.row() {
      // This version has no use for sections that a newer version adds.
      guard let section = Section(rawValue: letter) else { continue }
      rows[section, default: []].append(fields)
    }
  }
}

/// Reads the rows of a document, and the line that an event trigger writes before them. Checks every length.
package struct CatalogReader {
  private var reader: ByteReader

  package init(_ bytes: UnsafeRawBufferPointer) { reader = ByteReader(bytes) }

  /// The bytes of the document that have not been read.
  package var rest: UnsafeRawBufferPointer {
    get throws {
      var rest = reader
      return try rest.read(rest.remaining)
    }
  }

  /// Returns the next row of the document; nil at the end.
  package mutating func row() throws -> (letter: UInt8, fields: [String?])? {
    guard !reader.isAtEnd else { return nil }
    let letter = try reader.readByte()
    let count = try number(before: UInt8(ascii: ";"), first: reader.readByte())
    var fields: [String?] = []
    for _ in 0..<count {
      let first = try reader.readByte()
      guard first != UInt8(ascii: "-") else {
        fields.append(nil)
        continue
      }
      let length = try number(before: UInt8(ascii: ":"), first: first)
      fields.append(String(decoding: try reader.read(length), as: UTF8.self))
    }
    return (letter, fields)
  }

  private mutating func number(before end: UInt8, first: UInt8) throws -> Int {
    var (value, byte) = (0, first)
    while byte != end {
      guard (0x30...0x39).contains(byte), value < 1 << 40 else {
        throw DecodingError(offset: reader.offset, problem: "a catalog row has no length")
      }
      value = value * 10 + Int(byte - 0x30)
      byte = try reader.readByte()
    }
    return value
  }
}
