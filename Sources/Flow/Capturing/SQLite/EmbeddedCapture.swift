import Changes
import CodecKit
import SQLiteKit
import SystemKit

/// The setup of capture for an SQLite file through the embedded API. The journal belongs to no trail until a capture
/// takes it over.
///
///     let capture = EmbeddedCapture(try Database(path: "shop.db"))
///     try capture.install()
package struct EmbeddedCapture {
  let journal: Journal
  private let clock: Clock
  var database: Database { journal.database }

  package init(_ database: Database, clock: Clock = .system) {
    journal = Journal(database)
    self.clock = clock
  }

  /// Creates a missing journal and triggers, upgrades an older journal, and adapts the triggers to the schema, in one
  /// transaction of its own.
  package func install() throws {
    guard try !isInPlace() else { return }
    let isInstalled = try journal.isInstalled()
    if isInstalled { _ = try journal.owner() }
    let written = isInstalled ? try journal.writtenLayouts() : nil
    try database.transaction {
      let cap = try prepare()
      try journal.upgrade(capRows: cap, clock)
      try journal.noteEmbedded()
      try journal.adopt(try journal.patterns(), written: written, copies: .rowsOnly)
    }
  }

  private func isInPlace() throws -> Bool {
    guard try journal.isInstalled() else { return false }
    let rows = try database.query("SELECT version, schema_version FROM cairn_control WHERE id = 0")
    let version = try database.integer("PRAGMA schema_version") ?? 0
    return try rows.first == [.integer(Journal.version), .integer(version)] && journal.isEmbedded()
  }

  /// Creates Cairn's tables for capture if they are missing, and returns the highest allowed number of journal rows.
  private func prepare() throws -> Int64 {
    guard try !journal.isInstalled() else {
      return try database.integer("SELECT cap FROM cairn_control WHERE id = 0") ?? Journal.defaultCapRows
    }
    let nonce = randomBytes(8).withUnsafeBytes { $0.loadUnaligned(as: Int64.self) }
    try journal.install(
      trail: nil, place: "", capRows: Journal.defaultCapRows, mark: .init(taken: 0, nonce: nonce),
      tables: TablePatterns())
    return Journal.defaultCapRows
  }

  /// Before a statement that changes the schema: adapts the triggers to earlier schema changes of other applications.
  /// Uses the statement's open transaction.
  ///
  /// - Returns: The schema version after the adaptation.
  package func prepareSchemaChange() throws -> Int64 {
    let version = try database.integer("PRAGMA schema_version") ?? 0
    guard try database.integer("SELECT schema_version FROM cairn_control WHERE id = 0") != version else {
      return version
    }
    try journal.adopt(try journal.patterns(), written: journal.writtenLayouts(), copies: .rowsOnly)
    return try database.integer("PRAGMA schema_version") ?? 0
  }

  /// Drops Cairn's triggers on a table that will lose a column. SQLite does not drop a column that a trigger names.
  package func release(_ table: String) throws { try journal.dropTriggers(onTable: table) }

  /// Adapts triggers and recorded table shapes to the schema change of the last statement, in its open transaction.
  package func adopt() throws { try journal.adoptApplied(try journal.patterns(), copies: .rowsOnly) }

  /// The numbers of changes in the journal that no trail has yet.
  package struct Waiting {
    /// The number of transactions of the embedded API that no trail has.
    package var transactions: Int
    /// The number of journal rows of all applications that no trail has.
    package var rows: Int
    /// Whether the journal reached its size limit and dropped rows that no trail has.
    package var hasDropped: Bool
  }

  /// Returns the sequence number of the last journal row that is in a trail; 0 without a journal.
  package func taken() throws -> Int64 {
    guard try journal.isInstalled() else { return 0 }
    return try journal.place("SELECT taken FROM cairn_control WHERE id = 0")
  }

  package func waiting() throws -> Waiting {
    guard database.isInTransaction else { return try database.transaction("BEGIN") { try waiting() } }
    return try count()
  }

  private func count() throws -> Waiting {
    let taken = try journal.place("SELECT taken FROM cairn_control WHERE id = 0")
    let first = try journal.place("SELECT min(seq) FROM cairn_journal")
    let last = try journal.place("SELECT max(seq) FROM cairn_journal")
    let ended = try database.integer(
      "SELECT count(*) FROM cairn_journal WHERE seq > ? AND code = \(JournalStatements.endCode)", [.integer(taken)])
    // Apply's notes are not changes of an application.
    let rows = try database.integer(
      "SELECT count(*) FROM cairn_journal WHERE seq > ? AND code <> \(JournalNotes.code)", [.integer(taken)])
    return Waiting(
      transactions: Int(ended ?? 0), rows: Int(rows ?? 0),
      hasDropped: last > taken && first > taken + 1)
  }
}

extension Journal {
  func isEmbedded() throws -> Bool { try database.integer("SELECT 1 FROM cairn_control WHERE id = 2") != nil }

  func noteEmbedded() throws { try database.run("INSERT OR IGNORE INTO cairn_control(id) VALUES (2)") }

  /// Assigns a journal without a trail to a trail.
  ///
  /// - Parameter copiesRows: Whether an initial load sends the table rows that existed before the journal.
  func claim(trail: TrailID, place: String, copiesRows: Bool) throws {
    try database.run(
      "UPDATE cairn_control SET trail = ?, place = ? WHERE id = 0", [.blob(trail.bytes), .text(place)])
    guard !copiesRows else { return }
    try database.run(
      "UPDATE cairn_layout SET refresh = NULL WHERE refresh = ?", [.integer(Int64(Refresh.Reason.firstCopy.rawValue))])
  }

  func isUnclaimed() throws -> Bool {
    guard try isInstalled() else { return false }
    return try database.integer("SELECT trail IS NULL FROM cairn_control WHERE id = 0") == 1
  }
}
