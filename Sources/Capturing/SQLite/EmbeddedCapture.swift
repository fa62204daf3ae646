import Changes
import CodecKit
import SQLiteKit
import SystemKit

/// The capture of an SQLite file that a program puts in by itself, through the embedded API: the same journal and triggers,
/// which whoever captures the file into a trail finds there and takes over.
///
/// Until then the journal belongs to no trail, and keeps what is committed up to its cap.
package struct EmbeddedCapture {
  let journal: Journal
  private let clock: Clock
  var database: Database { journal.database }

  package init(_ database: Database, clock: Clock = .system) {
    journal = Journal(database)
    self.clock = clock
  }

  /// Puts journal and triggers in where they are not, brings an older journal up, and triggers in step with the schema.
  /// A file where all is in place is only read.
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

  /// Makes the tables where they are not. Returns how many rows the journal may hold.
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

  /// Before a statement that changes the schema, in its transaction: brings triggers and layouts in step with what other
  /// programs have changed, so that whatever differs behind the statement is its own. Returns the schema's version.
  package func prepareSchemaChange() throws -> Int64 {
    let version = try database.integer("PRAGMA schema_version") ?? 0
    guard try database.integer("SELECT schema_version FROM cairn_control WHERE id = 0") != version else {
      return version
    }
    try journal.adopt(try journal.patterns(), written: journal.writtenLayouts(), copies: .rowsOnly)
    return try database.integer("PRAGMA schema_version") ?? 0
  }

  /// Takes the triggers off a table of which a column is to be dropped, as SQLite refuses that as long as they name it.
  package func release(_ table: String) throws { try journal.dropTriggers(onTable: table) }

  /// Behind the statement.
  package func adopt() throws { try journal.adoptApplied(try journal.patterns(), copies: .rowsOnly) }

  /// What waits in the journal.
  package struct Waiting {
    /// Transactions of the embedded API that no trail has yet.
    package var transactions: Int
    /// Journal rows of all programs that no trail has yet.
    package var rows: Int
    /// The journal has reached its cap, and dropped rows that no trail has.
    package var hasDropped: Bool
  }

  /// The last journal row that the file is marked with as taken.
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
    // What apply has noted is nothing that a program did.
    let rows = try database.integer(
      "SELECT count(*) FROM cairn_journal WHERE seq > ? AND code <> \(JournalNotes.code)", [.integer(taken)])
    return Waiting(
      transactions: Int(ended ?? 0), rows: Int(rows ?? 0),
      hasDropped: last > taken && first > taken + 1)
  }
}

extension Journal {
  /// Whether a program has used the embedded API on the file: then statements and ends of transactions are among the rows.
  func isEmbedded() throws -> Bool { try database.integer("SELECT 1 FROM cairn_control WHERE id = 2") != nil }

  func noteEmbedded() throws { try database.run("INSERT OR IGNORE INTO cairn_control(id) VALUES (2)") }

  /// A journal that belongs to no trail becomes that of one. Rows that were there when it was made are copied only where
  /// `copiesRows`.
  func claim(trail: TrailID, place: String, copiesRows: Bool) throws {
    try database.run(
      "UPDATE cairn_control SET trail = ?, place = ? WHERE id = 0", [.blob(trail.bytes), .text(place)])
    guard !copiesRows else { return }
    try database.run(
      "UPDATE cairn_layout SET refresh = NULL WHERE refresh = ?", [.integer(Int64(Refresh.Reason.firstCopy.rawValue))])
  }

  /// Whether it was made by a program, and belongs to no trail yet.
  func isUnclaimed() throws -> Bool {
    guard try isInstalled() else { return false }
    return try database.integer("SELECT trail IS NULL FROM cairn_control WHERE id = 0") == 1
  }
}
