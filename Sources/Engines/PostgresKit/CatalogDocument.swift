import Changes

/// The catalog rows of one table as one text, from which Cairn builds the table's ``TableSchema``. Cairn's event
/// triggers write the same text into the log.
///
/// Source: https://www.postgresql.org/docs/15/catalogs.html
///
///     let table = try PostgresTable(CatalogDocument(text))
package struct CatalogDocument: Sendable {
  package enum Section: UInt8, Sendable {
    /// The row of the table, from pg_class, and the rights of the session's role on it.
    case table = 0x74  // t
    /// The row of a column, with the column's value in rows that are older than the column.
    case column = 0x63  // c
    /// A row that describes an index which is unique or belongs to a constraint.
    case index = 0x69  // i
    /// The name and definition of an index that is not unique and belongs to no constraint.
    case object = 0x6f  // o
    /// The row of a foreign key: its column numbers, the referenced table and columns, its actions, and its timing
    /// (deferrable, deferred).
    case foreignKey = 0x66  // f
    /// The row of a sequence: schema, name, number of the owning column, kind of dependency on this column, options.
    case sequence = 0x73  // s
    /// The row of a leaf partition, with the replica identity that decides which old values PostgreSQL logs.
    case partition = 0x70  // p
    case check = 0x6b  // k
    /// The row of a type that is not built in.
    case type = 0x79  // y
    /// The row of one label of an enum: type, oid, text.
    case label = 0x65  // e
    /// The row of a CHECK constraint of a domain: the type, and the text.
    case domainCheck = 0x64  // d
    /// The row of one attribute of a composite type.
    case attribute = 0x6d  // m
    /// The row of a range type.
    case range = 0x72  // r
  }

  private var rows: [Section: [[String?]]] = [:]

  package subscript(section: Section) -> [[String?]] { rows[section] ?? [] }

  /// Reads a document from its text. Throws ``DecodingError`` for any other text.
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

/// Reads the rows of a ``CatalogDocument``, and checks the length of every field.
///
///     var reader = CatalogReader(bytes)
///     while let (letter, fields) = try reader.row() { print(letter, fields) }
package struct CatalogReader {
  private var reader: ByteReader

  package init(_ bytes: UnsafeRawBufferPointer) { reader = ByteReader(bytes) }

  /// The bytes of the document that were not read yet.
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
