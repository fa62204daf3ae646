import Changes
import Mapping

/// Access to Cairn's own tables in a target database, with the same statements in both engines.
///
/// `?` is the next parameter. Values are passed and returned as texts; nil is NULL. Not thread-safe.
///
///     try state.run("DELETE FROM \(state.table("conflict")) WHERE at < ?", ["1700000000000000"])
protocol StateDatabase {
  var place: String { get }
  /// Whether the target has schemas (PostgreSQL), so that a row is identified by schema, table and key.
  var hasSchemas: Bool { get }
  /// The SQL type of text columns.
  var textType: String { get }
  var numberType: String { get }
  var keyedTableOptions: String { get }

  func table(_ name: String) -> String
  func identity(isNeverUsedAgain: Bool) -> String
  /// The name of the column with the offset of a checkpoint.
  var offsetColumn: String { get }
  /// The SQL expression for a time column's value, from the next parameter: µs since 1970 UTC.
  var time: String { get }
  /// Returns the SQL expression of a column with bytes, whose values ``rows(_:_:)`` returns in lower-case hexadecimal.
  func hex(_ column: String) -> String
  /// Returns the SQL expression for the number of bytes of a text.
  func byteCount(of text: String) -> String
  func hasTable(_ name: String) throws -> Bool
  func columns(of name: String) throws -> [String]
  /// Takes the lock that lets only one apply at a time create Cairn's tables. The lock is held until the caller's
  /// transaction ends.
  func lockForInstall() throws

  /// Returns the rows of a statement. The values of a PostgreSQL database are texts.
  func query(_ sql: String, _ values: [Value]) throws -> [[Value]]
  /// Runs a statement, and returns the number of changed rows.
  @discardableResult func execute(_ sql: String, _ values: [Value]) throws -> Int64
  func transaction<Result>(_ body: () throws -> Result) throws -> Result

  func actAsApplication() throws
  /// Replaces a row by another version, as an application would. If the version is nil, deletes the row.
  func turn(_ row: OverriddenRow, to version: ConflictRow?) throws
  /// Returns the reason why the target did not write a row: a lock, or a refusal. Nil for any other error.
  func refusal(_ error: any Error) -> DecisionOutcome.Refusal?
}

extension StateDatabase {
  func rows(_ sql: String, _ values: [String?] = []) throws -> [[String?]] {
    try query(sql, values.map { $0.map { .text($0) } ?? .null }).map { $0.map(\.stateText) }
  }

  /// Returns the first value of a statement's first row. Nil if there is no row, or if the value is NULL.
  func first(_ sql: String, _ values: [String?] = []) throws -> String? {
    try rows(sql, values).first.flatMap { $0[0] }
  }

  /// Runs a statement, and returns the number of changed rows.
  @discardableResult func run(_ sql: String, _ values: [String?] = []) throws -> Int64 {
    try execute(sql, values.map { $0.map { .text($0) } ?? .null })
  }

  /// The columns of Cairn's tables that identify one row of the target, as an SQL list such as `table_name, key`.
  var rowKey: String { hasSchemas ? "schema_name, table_name, key" : "table_name, key" }

  var rowKeyCount: Int { hasSchemas ? 3 : 2 }

  /// The SQL condition that ``rowKey`` has the values of the next parameters.
  var isRow: String { "(\(rowKey)) = (\(marks(rowKeyCount)))" }

  func rowKey(_ namespace: String, _ table: String, _ key: ConflictRow) -> [String?] {
    Array([namespace, table, key.json].suffix(rowKeyCount))
  }

  /// Creates a table of Cairn in which a column `id` numbers the rows.
  ///
  /// - Parameter isNeverUsedAgain: Whether the number of a deleted row is never given to another row.
  /// - Parameter numbers: The columns that hold integers; all others hold texts.
  func create(_ name: String, isNeverUsedAgain: Bool, _ columns: [String], numbers: [String]) throws {
    let list = columns.map { definition($0, numbers) }.joined(separator: ", ")
    try run("CREATE TABLE \(table(name))(id \(identity(isNeverUsedAgain: isNeverUsedAgain)), \(list))")
  }

  /// Creates a table of Cairn in which the key of a row of the target identifies each entry, unless the table exists.
  func createKeyed(_ name: String, _ columns: [String], numbers: [String] = []) throws {
    let list = columns.map { definition($0, numbers) }.joined(separator: ", ")
    try run(
      "CREATE TABLE IF NOT EXISTS \(table(name))(\(list), PRIMARY KEY (\(rowKey)))\(keyedTableOptions)")
  }

  /// Adds the given columns to a table of Cairn, except columns that the table already has. An older version of Cairn
  /// may have created the table.
  func add(_ columns: [String], to name: String, numbers: [String]) throws {
    let there = try self.columns(of: name)
    for column in columns where !there.contains(where: column.hasSameBytes) {
      try run("ALTER TABLE \(table(name)) ADD COLUMN \(definition(column, numbers))")
    }
  }

  private func definition(_ column: String, _ numbers: [String]) -> String {
    "\(column) \(numbers.contains(column) ? numberType : textType)"
  }

  func marks(_ count: Int) -> String { Array(repeating: "?", count: count).joined(separator: ", ") }
}

extension Value {
  /// The value of a table of Cairn as a text, bytes in lower-case hexadecimal. Nil for NULL, and for types that Cairn
  /// does not store.
  var stateText: String? {
    switch self {
    case .text(let bytes): String(decoding: bytes, as: UTF8.self)
    case .integer(let number): String(number)
    case .blob(let bytes): bytes.hex
    default: nil
    }
  }
}
