import Changes

/// Writes what apply has brought into the journal of a captured SQLite file, as a row of its own in apply's transaction:
/// so capture meets it in its place among the changes.
///
/// Nothing is written where the file is not captured, or by an older cairn.
package final class JournalNotes {
  /// Of a journal row that holds a note, in `v0`: a kind that no table has, as no layout has number 0.
  package static let code: Int64 = 1
  /// The first version of the journal that knows such rows.
  package static let versionMin: Int64 = 3
  /// The first one whose capture reads the id of a trail.
  private static let idVersionMin: Int64 = 5

  private let database: Database
  /// Of the schema that was looked at.
  private var schemaVersion: Int64 = -1
  private var statements: (version: Statement, insert: Statement, staged: Statement, relayed: Statement)?
  /// The row of `cairn_control` that says that what applies write goes on into the trail, in `place`.
  package static let relayRow: Int64 = 4
  package static let relayed = "include"

  package init(_ database: Database) { self.database = database }

  /// When a transaction that writes has begun: rows that a program's write has left on the stage, as it replaced nothing,
  /// go. Apply fires no trigger that would keep them there as they are, and the program's next write would take them for
  /// replaced.
  package func clearStage() throws {
    try look()
    guard let staged = statements?.staged else { return }
    defer { staged.reset() }
    guard try staged.step() else { return }
    staged.reset()
    try database.execute("DELETE FROM cairn_stage")
  }

  /// Whether the capture of the file takes what applies write; in a transaction that writes.
  package func isRelayed() throws -> Bool {
    try look()
    guard let statement = statements?.relayed else { return false }
    defer { statement.reset() }
    return try statement.step()
  }

  /// In a transaction that writes; false when nobody captures the file.
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

  /// As the triggers do, which apply does not fire: removes rows that have been taken, or that are past the cap.
  private func bound() throws {
    try database.executeScript(
      """
      UPDATE cairn_control SET purged = max(purged, (SELECT max(seq) FROM cairn_journal) - cap,
        min(taken, purged + 1024)) WHERE id = 0;
      DELETE FROM cairn_journal WHERE seq < (SELECT purged FROM cairn_control WHERE id = 0);
      """)
  }
}
