import Changes
import Mapping

/// The database of a target, as apply keeps its books there: the tables of Cairn, written in the transaction that
/// applies the rows.
///
/// Each statement is written once, in the SQL that both engines share. `?` is the next parameter. The protocol gives
/// the names of tables and types. Values are passed and returned as texts, even numbers; nil is NULL. For one thread.
///
///     try state.run("DELETE FROM \(state.table("conflict")) WHERE at < ?", ["1700000000000000"])
protocol StateDatabase {
  /// The database, as messages name it.
  var place: String { get }
  /// Whether tables of the target are in schemas, so that a row is named by schema, table and key.
  var hasSchemas: Bool { get }
  /// The SQL types of columns with texts and with signed numbers of 64 bits.
  var textType: String { get }
  var numberType: String { get }
  /// The options at the end of CREATE TABLE for a table with a key of texts.
  var keyedTableOptions: String { get }

  /// Returns the name that statements use for a table of Cairn.
  func table(_ name: String) -> String
  /// Returns the SQL definition of a column `id` that numbers the rows of a table.
  ///
  /// - Parameter isNeverUsedAgain: Whether the numbers of deleted rows stay unused.
  func identity(isNeverUsedAgain: Bool) -> String
  func hasTable(_ name: String) throws -> Bool
  /// Returns the names of the columns of a table of Cairn.
  func columns(of name: String) throws -> [String]
  /// Waits until no other apply creates tables of Cairn. No other apply creates any until the transaction ends.
  func lockForInstall() throws

  /// Runs a statement and returns its rows.
  func rows(_ sql: String, _ values: [String?]) throws -> [[String?]]
  /// Runs a statement and returns the number of rows that it changed.
  @discardableResult func run(_ sql: String, _ values: [String?]) throws -> Int64
  func transaction<Result>(_ body: () throws -> Result) throws -> Result

  /// Prepares a session in which triggers fire and foreign keys hold, as for an application.
  func actAsApplication() throws
  /// Replaces a row by another version, as an application would; nil: deletes it.
  func turn(_ row: TurnedRow, to version: ConflictRow?) throws
  /// Returns the reason why the target did not take a row; nil if the error is of another kind.
  func refusal(_ error: any Error) -> DecisionOutcome.Refusal?
}

extension StateDatabase {
  func rows(_ sql: String) throws -> [[String?]] { try rows(sql, []) }

  /// Returns the first value of a statement's first row; nil if there is no row, or if the value is NULL.
  func first(_ sql: String, _ values: [String?] = []) throws -> String? {
    try rows(sql, values).first.flatMap { $0[0] }
  }

  @discardableResult func run(_ sql: String) throws -> Int64 { try run(sql, []) }

  /// The columns of a table of Cairn that name a row of the target, as its key.
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

  /// Adds the columns that a table of Cairn lacks because an older version created it.
  func add(_ columns: [String], to name: String, numbers: [String]) throws {
    let there = try self.columns(of: name)
    for column in columns where !there.contains(where: column.hasSameBytes) {
      try run("ALTER TABLE \(table(name)) ADD COLUMN \(definition(column, numbers))")
    }
  }

  private func definition(_ column: String, _ numbers: [String]) -> String {
    "\(column) \(numbers.contains(column) ? numberType : textType)"
  }

  /// Returns a list of `count` parameter marks.
  func marks(_ count: Int) -> String { Array(repeating: "?", count: count).joined(separator: ", ") }
}
