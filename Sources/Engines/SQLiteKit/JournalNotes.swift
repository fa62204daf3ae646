import Changes

/// Writes an ``AppliedNote`` into the journal of a captured SQLite file, in apply's transaction. Writes nothing if the
/// file is not captured.
///
///     try JournalNotes(database).write(note)   // false if the file is not captured
package final class JournalNotes {
  /// The `code` of a journal row with an ``AppliedNote``, in its column `v0`.
  package static let code: Int64 = 1
  /// The first version of the journal that can have an ``AppliedNote``.
  package static let versionMin: Int64 = 3
  private static let idVersionMin: Int64 = 5

  private let database: Database
  // The schema version of the file for which the statements were prepared.
  private var schemaVersion: Int64 = -1
  private var statements: (version: Statement, insert: Statement, staged: Statement, relayed: Statement)?
  /// The id of the row of `cairn_control` whose `place` says whether capture also reads the rows that apply writes.
  package static let relayRow: Int64 = 4
  package static let relayed = "include"

  package init(_ database: Database) { self.database = database }

  /// Empties the table `cairn_stage`, in which triggers keep old rows. Call it at the start of a write transaction.
  /// Does nothing if the file is not captured.
  package func clearStage() throws {
    try look()
    guard let staged = statements?.staged else { return }
    defer { staged.reset() }
    guard try staged.step() else { return }
    staged.reset()
    try database.execute("DELETE FROM cairn_stage")
  }

  /// Returns whether the file's capture also reads the rows that apply writes; false without a capture. Call it in an
  /// open write transaction.
  package func isRelayed() throws -> Bool {
    try look()
    guard let statement = statements?.relayed else { return false }
    defer { statement.reset() }
    return try statement.step()
  }

  /// Writes an ``AppliedNote`` in the caller's open write transaction. Writes nothing and returns false if the file is
  /// not captured, or if its journal's version is below 3.
  @discardableResult package func write(_ note: AppliedNote) throws -> Bool {
    try look()
    guard let statements else { return false }
    defer {
      statements.version.reset()
      statements.insert.reset()
    }
    guard try statements.version.step() else { return false }
    let version = statements.version.integer(0)
    guard version >= Self.versionMin else { return false }
    let text = version >= Self.idVersionMin ? note.text : note.withoutID.text
    try statements.insert.bind([.integer(Self.code), .text(text)])
    _ = try statements.insert.step()
    if database.lastInsertRowid & 127 == 0 { try bound() }
    return true
  }

  private func look() throws {
    let version = try database.integer("PRAGMA schema_version") ?? 0
    guard version != schemaVersion else { return }
    statements = nil
    let there = try database.integer(
      "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN ('cairn_journal', 'cairn_control', 'cairn_stage')"
    )
    if there == 3 {
      statements = (
        try database.prepare("SELECT version FROM cairn_control WHERE id = 0"),
        try database.prepare("INSERT INTO cairn_journal(code, v0) VALUES (?, ?)"),
        try database.prepare("SELECT 1 FROM cairn_stage LIMIT 1"),
        try database.prepare(
          "SELECT 1 FROM cairn_control WHERE id = \(Self.relayRow) AND place = \(Self.relayed.quotedText)")
      )
    }
    schemaVersion = version
  }

  // Triggers do this for applications, but apply fires no triggers.
  private func bound() throws {
    try database.executeScript(
      """
      UPDATE cairn_control SET purged = max(purged, (SELECT max(seq) FROM cairn_journal) - cap,
        min(taken, purged + 1024)) WHERE id = 0;
      DELETE FROM cairn_journal WHERE seq < (SELECT purged FROM cairn_control WHERE id = 0);
      """)
  }
}
