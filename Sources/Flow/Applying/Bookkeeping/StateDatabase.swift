import Changes
import Mapping

/// Access to Cairn's own tables in a target database. Apply writes them in the transaction that applies the rows.
///
/// The same statements run in both engines; only names of tables and types differ, and the protocol provides these. `?`
/// is the next parameter. Values are passed and returned as texts, even numbers; nil is NULL. Not thread-safe.
///
///     try state.run("DELETE FROM \(state.table("conflict")) WHERE at < ?", ["1700000000000000"])
protocol StateDatabase {
  /// The database, as messages name it.
  var place: String { get }
  /// Whether the target has schemas (PostgreSQL), so that a row is identified by schema, table and key.
  var hasSchemas: Bool { get }
  /// The SQL type of text columns. ``numberType`` is the type of columns for signed 64-bit numbers.
  var textType: String { get }
  var numberType: String { get }
  /// The options at the end of CREATE TABLE for a table whose key consists of text columns.
  var keyedTableOptions: String { get }

  /// Returns the full name of one of Cairn's tables in SQL, such as `cairn_conflict` or `cairn.conflict`.
  func table(_ name: String) -> String
  /// Returns the SQL definition of a column `id` that numbers the rows of a table.
  ///
  /// - Parameter isNeverUsedAgain: Whether the numbers of deleted rows must never be used again.
  func identity(isNeverUsedAgain: Bool) -> String
  func hasTable(_ name: String) throws -> Bool
  /// Returns the names of the columns of a table of Cairn.
  func columns(of name: String) throws -> [String]
  /// Takes the lock for creating Cairn's tables, so that only one apply at a time creates them. The lock is held until
  /// the transaction ends.
  func lockForInstall() throws

  /// Runs a statement and returns its rows.
  func rows(_ sql: String, _ values: [String?]) throws -> [[String?]]
  /// Runs a statement and returns the number of rows that it changed.
  @discardableResult func run(_ sql: String, _ values: [String?]) throws -> Int64
  func transaction<Result>(_ body: () throws -> Result) throws -> Result

  /// Sets the session up like an application's: triggers fire and foreign keys are checked.
  func actAsApplication() throws
  /// Replaces a row by another version, as an application would. If the version is nil, deletes the row.
  func turn(_ row: TurnedRow, to version: ConflictRow?) throws
  /// Returns the reason why a row was not written: a lock, or a refusal of the target. Nil for any other error.
  func refusal(_ error: any Error) -> DecisionOutcome.Refusal?
}

extension StateDatabase {
  func rows(_ sql: String) throws -> [[String?]] { try rows(sql, []) }

  /// Returns the first value of a statement's first row; nil if there is no row, or if the value is NULL.
  func first(_ sql: String, _ values: [String?] = []) throws -> String? {
    try rows(sql, values).first.flatMap { $0[0] }
  }

  @discardableResult func run(_ sql: String) throws -> Int64 { try run(sql, []) }

  /// The primary key of Cairn's tables in which each entry is about one row of the target, as a column list in SQL.
  var rowKey: String { hasSchemas ? "schema_name, table_name, key" : "table_name, key" }

  /// Creates a table of Cairn in which a column `id` numbers the rows.
  func create(_ name: String, isNeverUsedAgain: Bool, _ columns: [String], numbers: [String]) throws {
    let list = columns.map { definition($0, numbers) }.joined(separator: ", ")
    try run("CREATE TABLE \(table(name))(id \(identity(isNeverUsedAgain: isNeverUsedAgain)), \(list))")
  }

  /// Creates a table of Cairn whose key is ``rowKey``, unless the table exists.
  func createKeyed(_ name: String, _ columns: [String], numbers: [String] = []) throws {
    let list = columns.map { definition($0, numbers) }.joined(separator: ", ")
    try run(
      "CREATE TABLE IF NOT EXISTS \(table(name))(\(list), PRIMARY KEY (\(rowKey)))\(keyedTableOptions)")
  }

  /// Adds the columns that a table of Cairn lacks because an older version of Cairn created it.
  func add(_ columns: [String], to name: String, numbers: [String]) throws {
    let there = try self.columns(of: name)
    for column in columns where !there.contains(where: column.hasSameBytes) {
      try run("ALTER TABLE \(table(name)) ADD COLUMN \(definition(column, numbers))")
    }
  }

  private func definition(_ column: String, _ numbers: [String]) -> String {
    "\(column) \(numbers.contains(column) ? numberType : textType)"
  }

  /// Returns `count` placeholders of parameters as SQL, such as `?, ?, ?`.
  func marks(_ count: Int) -> String { Array(repeating: "?", count: count).joined(separator: ", ") }
}
