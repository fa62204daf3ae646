import Changes
import SQLiteKit

/// Access to Cairn's own tables in an SQLite file, whose names begin with `cairn_`.
struct SQLiteStateDatabase: StateDatabase {
  let database: Database

  var place: String { database.path }
  var hasSchemas: Bool { false }
  var textType: String { "TEXT" }
  var numberType: String { "INTEGER" }
  var keyedTableOptions: String { " WITHOUT ROWID" }

  func table(_ name: String) -> String { "cairn_\(name)" }

  func identity(isNeverUsedAgain: Bool) -> String {
    isNeverUsedAgain ? "INTEGER PRIMARY KEY AUTOINCREMENT" : "INTEGER PRIMARY KEY"
  }

  func hasTable(_ name: String) throws -> Bool {
    try database.integer(
      "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", [.text(table(name))]) != nil
  }

  func columns(of name: String) throws -> [String] {
    try database.query("SELECT name FROM pragma_table_info(?)", [.text(table(name))]).map { $0[0].string }
  }

  /// Does nothing: in SQLite, a transaction that writes excludes all other writing transactions.
  func lockForInstall() {}

  var offsetColumn: String { "offset" }
  var time: String { "?" }

  func hex(_ column: String) -> String { column }

  func byteCount(of text: String) -> String { "length(CAST(\(text) AS BLOB))" }

  func query(_ sql: String, _ values: [Value]) throws -> [[Value]] { try database.query(sql, values) }

  @discardableResult func execute(_ sql: String, _ values: [Value]) throws -> Int64 {
    try database.run(sql, values)
    return database.changes
  }

  func transaction<Result>(_ body: () throws -> Result) throws -> Result { try database.transaction { try body() } }

  func actAsApplication() throws { try database.execute("PRAGMA foreign_keys = ON") }

  func turn(_ row: OverriddenRow, to version: ConflictRow?) throws {
    try SQLiteOverriddenRow(database, row).put(version)
  }

  func refusal(_ error: any Error) -> DecisionOutcome.Refusal? {
    switch error {
    case let error as SQLiteError where error.isBusy: .locked
    case let error as SQLiteError where error.isOfRow: .refused(error.message)
    case let error as CairnError where error.code == .tableForbidden: .refused(error.message)
    default: nil
    }
  }
}

extension Checkpoints {
  package init(_ database: Database) { self.init(SQLiteStateDatabase(database: database)) }
}

extension ConflictLog {
  package init(_ database: Database) { self.init(SQLiteStateDatabase(database: database)) }
}

extension QuarantineLog {
  package init(_ database: Database) { self.init(SQLiteStateDatabase(database: database)) }
}

extension StoredReturns {
  init(_ database: Database) { self.init(SQLiteStateDatabase(database: database)) }
}

extension Decisions {
  init(_ database: Database) { self.init(SQLiteStateDatabase(database: database)) }
}
