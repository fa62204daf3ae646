import Changes
import SQLiteKit

// Tables of Cairn that an application dropped.
extension Journal {
  /// Returns the names of Cairn's tables for capture that are missing in the file.
  package func missingTables() throws -> Set<NameKey> {
    let names = try database.query("SELECT name FROM sqlite_master WHERE type = 'table'").map { $0[0].string }
    return SQLiteTable.captureNames.subtracting(names.map(\.nameKey))
  }

  /// Returns the names of the application's tables that have Cairn's triggers for capture.
  package func orphans() throws -> [String] { Set(try triggers().map(\.table.nameKey)).sorted().map(\.text) }

  /// The names of captured tables that lack triggers of Cairn, because an application dropped the triggers, or dropped
  /// a table and created it again.
  package var tablesWithoutTriggers: [String] {
    get throws {
      guard try isInstalled() else { return [] }
      let hooks = try Hooks(database)
      let unhooked = Set(try database.query("SELECT name FROM cairn_unhooked").map { $0[0].string.sqliteKey })
      let tables = try database.userTables().filter { $0.refusal == nil && !unhooked.contains($0.name.sqliteKey) }
      return try activeLayouts().compactMap { layout in
        // Triggers follow a table through a rename.
        let name = hooks.table(of: layout.id) ?? layout.schema.name.sqliteKey
        guard let table = tables.first(where: { $0.name.sqliteKey == name }),
          !hooks.has(CaptureTriggers(table: table, layout: layout.id).base, of: layout.id)
        else { return nil }
        return table.name
      }
    }
  }

  private func triggers() throws -> [(name: String, table: String, text: String)] {
    try database.query("SELECT name, tbl_name, sql FROM sqlite_master WHERE type = 'trigger'")
      .map { (name: $0[0].string, table: $0[1].string, text: $0[2].string) }
      .filter { CaptureTriggers.layout(ofTrigger: $0.name) != nil }
  }

  /// Returns an error if an application dropped some of Cairn's tables for capture; nil if all exist, or nothing of
  /// the capture is left.
  ///
  /// SQLite rejects a write whose trigger names a missing table, so applications cannot write while triggers are left.
  package func lostTables() throws -> CairnError? {
    let missing = try missingTables()
    guard let name = missing.sorted().first else { return nil }
    let tables = try orphans()
    guard !tables.isEmpty || missing.count < SQLiteTable.captureNames.count else { return nil }
    let used = try triggers().flatMap { trigger in missing.filter { trigger.text.contains($0.text) } }.min()
    let what =
      used.map {
        "triggers of Cairn are left in \(database.path), but its table \($0) is gone: every write to \(tables.joined(separator: ", ")) fails"
      } ?? "table \(name) of Cairn is gone from \(database.path), and nothing that is written there is captured"
    return error(what, tables)
  }

  /// Throws `source-went-back` if an application dropped some of Cairn's tables. First removes the triggers that need
  /// these tables, so that applications can write.
  ///
  /// - Parameter isStarting: Whether to pass a file without `cairn_control`, in which a new capture can start.
  package func checkTables(isStarting: Bool = false) throws {
    if isStarting, try !isInstalled() { return }
    guard let error = try lostTables() else { return }
    let tables = try orphans()
    do {
      try database.transaction {
        for trigger in try triggers() { try database.execute("DROP TRIGGER \(trigger.name.quotedName)") }
      }
    } catch is SQLiteError { throw error }
    guard !tables.isEmpty else { throw error }
    throw self.error(
      "an application dropped tables of Cairn in \(database.path): Cairn has removed its triggers, so that \(tables.joined(separator: ", ")) can be written, but what is written there is not captured",
      tables)
  }

  private func error(_ what: String, _ tables: [String]) -> CairnError {
    CairnError(
      .sourceWentBack, what,
      hint:
        "an application dropped tables of Cairn: run 'cairn detach sqlite:\(database.path)', and replicate into a new --state with --existing overwrite",
      context: tables.first.map { ["table": $0] } ?? [:])
  }
}
