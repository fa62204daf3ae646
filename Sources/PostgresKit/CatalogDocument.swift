import Changes

/// What the catalogs say of one table, as one text: every row that its schema is put together from.
///
/// One query makes it, whether a connection asks or an event trigger writes it into the stream, so that a table looks the
/// same from both. It is a sequence of rows: a letter for the kind of row, the number of its fields, `;`, and each field as
/// its length in bytes of UTF-8, `:` and its text, or `-` for NULL.
///
/// Source: https://www.postgresql.org/docs/15/catalogs.html
package struct CatalogDocument: Sendable {
  package enum Section: UInt8, Sendable {
    /// oid, schema, name, kind, persistence, replica identity, estimated rows, owner, whether this role is or may be the
    /// owner, whether row level security hides rows, this role.
    case table = 0x74  // t
    /// Number, name, type, NOT NULL, generated, type oid, modifier, collation, default, base type, identity, the value of
    /// rows that were there before the column, whether its type may have a default.
    case column = 0x63  // c
    /// Primary, replica identity, plain and unique, deferrable, column numbers, name, definition, as a constraint.
    case index = 0x69  // i
    /// Name and definition of an index that is no constraint.
    case object = 0x6f  // o
    /// Column numbers, schema, table, columns, on update, on delete, deferred, deferrable.
    case foreignKey = 0x66  // f
    /// Schema, name, number of the column that owns it, how, options.
    case sequence = 0x73  // s
    /// oid and file, schema, name, whether it has a replica identity, which (`d`, `i`, `f` or `n`), and the columns of its
    /// index by the numbers that they have in the partitioned table. Event triggers of earlier versions give four fields.
    case partition = 0x70  // p
    /// A CHECK of the table.
    case check = 0x6b  // k
    /// oid, schema, name, kind, element, base, base with modifier, NOT NULL, default, extension, its schema, category,
    /// collation.
    case type = 0x79  // y
    /// Type, oid, text.
    case label = 0x65  // e
    /// Type, and a CHECK of it.
    case domainCheck = 0x64  // d
    /// Type, number, name, type, its oid and modifier.
    case attribute = 0x6d  // m
    /// Range, multirange, subtype, its name, qualified name, multirange's name and schema, collation, difference function.
    case range = 0x72  // r
  }

  private var rows: [Section: [[String?]]] = [:]

  package subscript(section: Section) -> [[String?]] { rows[section] ?? [] }

  /// Reads what ``sql(of:)`` gave.
  package init(_ text: String) throws {
    var text = text
    self = try text.withUTF8 { try CatalogDocument(UnsafeRawBufferPointer($0)) }
  }

  package init(_ bytes: UnsafeRawBufferPointer) throws {
    var reader = CatalogReader(bytes)
    while let (letter, fields) = try reader.row() {
      // What a newer version adds is of no use to this one.
      guard let section = Section(rawValue: letter) else { continue }
      rows[section, default: []].append(fields)
    }
  }
}

/// Reads the rows of a document, and the line before it that an event trigger writes; every length is checked.
package struct CatalogReader {
  private var reader: ByteReader

  package init(_ bytes: UnsafeRawBufferPointer) { reader = ByteReader(bytes) }

  /// The bytes that were not read yet.
  package var rest: UnsafeRawBufferPointer {
    get throws {
      var rest = reader
      return try rest.read(rest.remaining)
    }
  }

  /// The next row; nil at the end.
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
