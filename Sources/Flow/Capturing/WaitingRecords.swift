import Changes
import PostgresKit
import SQLiteKit
import Trails

/// The waiting rows of a captured table, from `cairn_candidate` (SQLite) or `cairn.candidate` (PostgreSQL). A chunk of
/// the table sends them after its own rows.
///
///     try WaitingRecords(schema, id).append(within: .all, from: source, to: trail)
struct WaitingRecords {
  /// The bounds of a chunk, by values of the first key column.
  struct Range {
    var from: Value?
    var through: Value?

    static let all = Range()

    /// Returns whether a value is surely outside of the bounds, in the key order of SQLite and PostgreSQL.
    func excludes(_ value: Value, comparesBytes: Bool) -> Bool {
      func precedes(_ a: Value, _ b: Value) -> Bool {
        switch (a, b) {
        case (.integer(let a), .integer(let b)): a < b
        case (.text(let a), .text(let b)): comparesBytes && a.lexicographicallyPrecedes(b)
        default: false
        }
      }
      return from.map { precedes(value, $0) } ?? false || through.map { precedes($0, value) } ?? false
    }
  }

  private let schema: TableSchema
  private let id: UInt64

  /// Prepares to write the waiting rows of a table.
  ///
  /// - Parameter id: The number of the table's shape in the open segment.
  init(_ schema: TableSchema, _ id: UInt64) { (self.schema, self.id) = (schema, id) }

  // MARK: SQLite

  func append(within range: Range, from source: Database, to trail: TrailWriter) throws {
    // A view or a virtual table would run code of the file.
    let isTable = try source.integer(
      "SELECT 1 FROM sqlite_schema WHERE name = 'cairn_candidate' AND type = 'table' AND rootpage > 0")
    guard isTable != nil else { return }
    let rows = try source.prepare(
      "SELECT content, clock, origin, number FROM cairn_candidate WHERE table_name = ? COLLATE NOCASE")
    try rows.bind([.text(schema.name)])
    while try rows.step() {
      let texts = (0..<4).map { column in
        let value = rows.value(column)
        return if case .integer(let number) = value { String(number) } else { value.string }
      }
      try append(texts, range, trail)
    }
  }

  // MARK: PostgreSQL

  func append(within range: Range, from connection: PostgresConnection, to trail: TrailWriter) throws {
    let isReadable = try connection.first(
      """
      SELECT 1 FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
      WHERE n.nspname = 'cairn' AND c.relname = 'candidate' AND c.relkind = 'r'
        AND has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')
      """)
    guard isReadable != nil else { return }
    let rows = try connection.query(
      "SELECT content, clock, origin, number FROM cairn.candidate WHERE schema_name = $1 AND table_name = $2",
      [schema.namespace, schema.name])
    for row in rows { try append(row.map { $0 ?? "" }, range, trail) }
  }

  // MARK: Records

  /// Appends a waiting row to the trail. Leaves out a row that cannot be parsed, or whose key is not in the range.
  private func append(_ texts: [String], _ range: Range, _ trail: TrailWriter) throws {
    guard texts.count == 4, let row = ConflictRow(json: texts[0]),
      let clock = Int64(texts[1]).flatMap(NumberBounds.clock), texts[2].isEmpty || TrailName(texts[2]) != nil,
      let number = Int64(texts[3]).flatMap(NumberBounds.number)
    else { return }
    var found: [NameKey: Value] = [:]
    for column in row.columns { found[column.name.key(in: schema.engine)] = column.value }
    let values = schema.columns.map { found[$0.name.key(in: schema.engine)] }
    guard let first = schema.key.first, schema.key.allSatisfy({ values[$0] != nil && values[$0] != .null }),
      let key = values[first], !range.excludes(ordered(key, schema.columns[first]), comparesBytes: sortsByBytes(first))
    else { return }
    var record = ByteWriter()
    record.appendWaitingRow(
      schema: id, schema.engine == .sqlite ? values : values.map { $0.map(Self.printed) }, clock: clock,
      origin: texts[2], number: number)
    try trail.append(kind: RecordKind.waitingRow, record.bytes)
  }

  /// Returns a value of the key column in the form in which it is compared with the bounds of a chunk.
  func ordered(_ value: Value, _ column: TableSchema.Column) -> Value {
    guard schema.engine == .postgres else { return value }
    switch value {
    case .text(let bytes), .exact(let bytes):
      let isInteger = ["smallint", "integer", "bigint"].contains(column.declaredType)
      return isInteger ? Int64(String(decoding: bytes, as: UTF8.self)).map { .integer($0) } ?? .null : .text(bytes)
    default: return value
    }
  }

  private func sortsByBytes(_ column: Int) -> Bool {
    let column = schema.columns[column]
    return schema.engine == .postgres
      ? ChunkOrder(column) == .text : ["", "BINARY"].contains(column.collation.asciiUppercased)
  }

  private static func printed(_ value: Value) -> Value {
    switch value {
    case .null, .exact: value
    case .text(let bytes): .exact(bytes)
    case .integer(let number): .exact(Array(String(number).utf8))
    case .real(let number): .exact(Array(String(number).utf8))
    case .blob(let bytes): .exact(Array("\\x\(bytes.hex)".utf8))
    }
  }
}
