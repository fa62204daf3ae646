import Changes
import SQLiteKit

/// Logs in the journal the rows that an apply writes to a captured SQLite file, as for a chain. The apply switches the
/// file's triggers off, so its connection has TEMP triggers in their place.
///
/// Source: https://sqlite.org/c3ref/c_dbconfig_defensive.html, SQLITE_DBCONFIG_ENABLE_TRIGGER
package enum AppliedRows {
  private static let prefix = "cairn_applied_"

  /// Creates TEMP triggers for the present schema, in a transaction that the apply has opened. First records schema
  /// changes of applications that capture has not processed.
  package static func hook(in database: Database) throws {
    try unhook(in: database)
    let journal = Journal(database)
    guard try journal.isInstalled() else { return }
    let seen = try database.integer("SELECT schema_version FROM cairn_control WHERE id = 0")
    // An application has changed the schema, and capture has not seen that yet.
    if try seen != database.integer("PRAGMA schema_version") { try journal.adopt(try journal.patterns()) }
    let hooks = try Hooks(database)
    let tables = try database.userTables()
    for layout in try journal.activeLayouts() {
      guard let name = hooks.table(of: layout.id), let table = tables.first(where: { $0.name.sqliteKey == name })
      else { continue }
      let named = CaptureTriggers(table: table, layout: layout.id, prefix: prefix, isTemporary: true)
      for trigger in named.statements { try database.execute(trigger.text) }
    }
  }

  package static func unhook(in database: Database) throws {
    let names = try database.query("SELECT name FROM sqlite_temp_master WHERE type = 'trigger'").map(\.[0].string)
    for name in names where name.hasPrefix(prefix) { try database.execute("DROP TRIGGER temp.\(name.quotedName)") }
  }
}

extension Journal {
  /// Stores whether the journal logs the rows that an apply writes. The caller must have opened a write transaction.
  func setRelay(_ isRelayed: Bool) throws {
    let row: [Value] = [.integer(JournalNotes.relayRow)]
    let there = try database.text("SELECT place FROM cairn_control WHERE id = ?", row)
    guard there != (isRelayed ? JournalNotes.relayed : nil) else { return }
    try database.run("DELETE FROM cairn_control WHERE id = ?", row)
    if isRelayed {
      try database.run("INSERT INTO cairn_control(id, place) VALUES (?, ?)", row + [.text(JournalNotes.relayed)])
    }
  }
}
