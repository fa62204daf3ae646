import Changes
import SQLiteKit

/// The views and triggers of an SQLite target that work before a schema change. The change must not break them.
struct TargetDependents {
  private let works: Set<NameKey>

  /// Finds the views and triggers that work now, before the schema change. Leaves out Cairn's own triggers.
  init(_ database: Database) throws {
    var works: Set<NameKey> = []
    let objects = try database.query(
      """
      SELECT type, name, tbl_name, sql FROM sqlite_master WHERE type IN ('view', 'trigger')
      AND name NOT LIKE 'cairn\\_%' ESCAPE '\\'
      """)
    guard !objects.isEmpty else {
      self.works = []
      return
    }
    database.setTriggersEnabled(true)
    defer { database.setTriggersEnabled(false) }
    self.works = try database.readingAsPrograms {
      for row in objects {
        let statements =
          try row[0].string == "view"
          ? ["SELECT * FROM \(row[1].string.quotedName)"] : Self.uses(of: row[2].string, database)
        if statements.allSatisfy({ (try? database.prepare($0)) != nil }) {
          works.insert("\(row[0].string) \(row[1].string)")
        }
      }
      return works
    }
  }

  /// Returns statements that would fire every trigger of a table. They are prepared, never executed.
  private static func uses(of table: String, _ database: Database) throws -> [String] {
    let columns = try database.query("SELECT name FROM pragma_table_info(?)", [.text(table)]).map { $0[0].string }
    let set = columns.map { "\($0.quotedName) = \($0.quotedName)" }.joined(separator: ", ")
    let name = table.quotedName
    let isView =
      try database.text("SELECT type FROM sqlite_master WHERE name = ? COLLATE NOCASE", [.text(table)]) == "view"
    let all = [
      ("INSERT", "INSERT INTO \(name) DEFAULT VALUES"), ("DELETE", "DELETE FROM \(name)"),
      ("UPDATE", "UPDATE \(name) SET \(set)"),
    ]
    // A view accepts only the statements for which it has a trigger.
    return isView ? all.map(\.1).filter { (try? database.prepare($0)) != nil } : all.map(\.1)
  }

  /// Returns a view or trigger that worked before the schema change, still exists and no longer works, such as `view
  /// recent`. Nil if there is none.
  func broken(in database: Database) throws -> String? {
    guard !works.isEmpty else { return nil }
    let now = try TargetDependents(database).works
    let there = Set(
      try database.query("SELECT type, name FROM sqlite_master WHERE type IN ('view', 'trigger')").map {
        NameKey("\($0[0].string) \($0[1].string)")
      })
    return works.subtracting(now).intersection(there).min()?.text
  }
}
