import Changes
import SQLiteKit

/// Triggers that refuse writes of applications, but not of apply, to a table of an SQLite target.
///
/// A table has these triggers while an apply to the table has `local_writes = "refuse"`.
package struct SQLiteGuards {
  let database: Database
  package init(_ database: Database) { self.database = database }

  private static let operations = ["insert", "update", "delete"]

  private static func name(_ table: String, _ operation: String) -> String {
    "\(SQLiteTable.guardPrefix)\(operation)_\(table)"
  }

  private static func statement(_ table: String, _ operation: String) -> String {
    let text = "table \(table) is a replica: Cairn refuses writes of other programs (local_writes)"
    return """
      CREATE TRIGGER \(name(table, operation).quotedName) BEFORE \(operation.asciiUppercased) ON \(table.quotedName)
      BEGIN SELECT RAISE(ABORT, \(text.quotedText)); END
      """
  }

  /// Creates and drops triggers, so that exactly the tables with `guarded` in `cairn_table` refuse writes of
  /// applications. Runs in the caller's transaction.
  func reconcile() throws {
    let tables = try database.query(
      """
      SELECT DISTINCT m.name FROM cairn_table AS t JOIN sqlite_master AS m ON m.type = 'table'
      AND m.name = t.name COLLATE NOCASE WHERE t.guarded
      """
    ).map { $0[0].string }
    var wanted: [NameKey: String] = [:]
    for table in tables {
      for operation in Self.operations { wanted[Self.name(table, operation)] = Self.statement(table, operation) }
    }
    // If a table was renamed, its triggers are created again under the new name.
    for name in try names() where wanted.removeValue(forKey: name.nameKey) == nil { try drop(name) }
    for name in wanted.keys.sorted() { if let statement = wanted[name] { try database.execute(statement) } }
  }

  private func names() throws -> [String] {
    try database.query(
      "SELECT name FROM sqlite_master WHERE type = 'trigger' AND substr(name, 1, ?) = ?",
      [.integer(Int64(SQLiteTable.guardPrefix.utf8.count)), .text(SQLiteTable.guardPrefix)]
    ).map { $0[0].string }
  }

  private func drop(_ name: String) throws { try database.execute("DROP TRIGGER \(name.quotedName)") }
}

extension SQLiteApplyState {
  /// Stores in `cairn_table`, for each table of the trail, whether triggers refuse writes of applications.
  func guardTables(_ isGuarded: (String) -> Bool) throws {
    for (key, table) in try tables() where table.isGuarded != isGuarded(key.text) {
      try database.run(
        "UPDATE cairn_table SET guarded = ? WHERE name = ? AND trail IN (?, '')",
        [.integer(isGuarded(key.text) ? 1 : 0), .text(key.text), owner])
    }
  }
}
