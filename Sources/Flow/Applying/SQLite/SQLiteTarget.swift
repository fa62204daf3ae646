import Changes
import Mapping
import SQLiteKit
import SystemKit
import Trails

/// The SQLite file that an apply writes, and what apply knows of its tables.
final class SQLiteTarget {
  let database: Database
  let trail: TrailName
  let options: ApplyOptions
  let progress: ApplyProgress
  let clock: Clock
  let state: SQLiteApplyState
  let shape: SQLiteSchemaChanges
  let notes: JournalNotes
  let fired: FiredTriggers
  /// Whether the file's encoding is UTF-16. If so, SQLite alters text that is not valid UTF-8.
  let isUTF16: Bool
  private let identity: FileIdentity?
  private var schemaVersion: Int64 = 0
  /// SQLite's schema version when Cairn's own tables were last checked; -1: not checked yet.
  private var provedSchema: Int64 = -1
  /// Whether the target's own trail gets the rows that the open transaction writes.
  private var isRelaying = false
  /// Whether the open transaction has already written the origin of its rows into the journal.
  private var hasBegunRelay = false
  /// SQLite's schema version for which the TEMP capture triggers were created; nil if there may be none.
  private var hooked: Int64?
  /// Whether the connection may have TEMP capture triggers.
  private var mayHaveHooks = false
  /// Apply's state of the tables in the open transaction, by table name in lower case.
  var tables: [NameKey: SQLiteApplyState.Table] = [:]
  /// Whether the triggers that refuse writes of applications must be updated before the commit.
  var guardsAreDue = false
  /// The tables whose changed rule in the conf has taken effect since apply started.
  var adopted: Set<NameKey> = []

  init(path: String, trail: TrailName, options: ApplyOptions, clock: Clock, progress: ApplyProgress) throws {
    (self.trail, self.options, self.clock, self.progress) = (trail, options, clock, progress)
    database = try Self.open(path)
    if let bytes = options.valueBytesMax { database.limitValues(bytes: bytes) }
    // The checkpoint must never be less durable than the trail's purge believes.
    let isWAL = try database.text("PRAGMA journal_mode") == "wal"
    try database.execute("PRAGMA synchronous = \(isWAL ? "FULL" : "EXTRA")")
    try database.executeScript(
      """
      PRAGMA foreign_keys = OFF; PRAGMA recursive_triggers = OFF; PRAGMA cache_size = -16384;
      PRAGMA wal_autocheckpoint = 4000
      """)
    database.setTriggersEnabled(false)
    fired = try FiredTriggers(database, patterns: options.fireTriggers)
    identity = FileIdentity(path: path)
    try database.readEncoding()
    isUTF16 = database.isUTF16
    state = SQLiteApplyState(database, of: trail)
    shape = SQLiteSchemaChanges(database: database, trail: trail.description, progress: progress)
    notes = JournalNotes(database)
    let (state, database) = (state, database)
    try database.transaction {
      let version = try database.integer("PRAGMA schema_version") ?? 0
      try database.checkOwnTables()
      try database.checkOwnSizes()
      try state.isInstalled() ? state.upgrade() : state.install()
      if options.twoWay != nil || options.localWrites.has(\.areSettled) || !options.refused.decisions.isEmpty {
        try ConflictLog(database).install()
      }
      if options.twoWay != nil {
        try SQLiteDisplacedRows(database: database).install()
        try Decisions(database).install()
        try StoredReturns(database).install()
      }
      try state.guardTables { options.isGuarded("", $0) }
      try SQLiteGuards(database).reconcile()
      if let follower = options.schemaFollower, try database.integer("PRAGMA schema_version") != version {
        try follower.adopt(database, version)
      }
    }
    try reload()
  }

  static func open(_ path: String) throws -> Database {
    let isNew = !Folder.exists(path)
    let database = try Database(path: path, mode: .create)
    if isNew { try database.execute("PRAGMA journal_mode = WAL") }
    return database
  }

  /// Throws `database-missing` if the target's path no longer leads to the file that apply has open.
  func checkIdentity() throws {
    let found = FileIdentity(path: database.path)
    if found == identity { return }
    throw CairnError(
      .databaseMissing,
      found == nil
        ? "database \(database.path) no longer exists"
        : "the database \(database.path) is another file than the one that was opened",
      hint: found == nil
        ? "put it back: apply continues where it stopped"
        : "start apply again: it continues at the position that this file has in the trail",
      remedy: .retry)
  }

  /// Commits the open transaction. Before that, updates Cairn's triggers if tables have changed.
  ///
  /// - Throws: `database-missing` if the target's path no longer leads to the open file.
  func commit() throws {
    try checkIdentity()
    if guardsAreDue { try SQLiteGuards(database).reconcile() }
    guardsAreDue = false
    if let follower = options.schemaFollower, try database.integer("PRAGMA schema_version") != schemaVersion {
      try follower.adopt(database, schemaVersion)
    }
    if hasBegunRelay {
      try notes.write(AppliedNote(trail: trail.description, number: 0, clock: 0, position: .start))
      hasBegunRelay = false
    }
    try database.execute("COMMIT")
  }

  // MARK: Rows that go on

  /// Finds out whether this database's capture takes the rows that apply writes. If so, creates the connection's TEMP
  /// capture triggers; if not, drops them.
  private func lookForCapture() throws {
    guard let follower = options.schemaFollower else { return }
    (isRelaying, hasBegunRelay) = (try options.relays && notes.isRelayed(), false)
    if !isRelaying {
      if mayHaveHooks { try follower.unhook(database) }
      hooked = nil
    } else if try hooked != database.integer("PRAGMA schema_version") {
      try hook(follower)
    }
  }

  private func hook(_ follower: SchemaFollower) throws {
    (hooked, mayHaveHooks) = (nil, true)
    try follower.hook(database)
    hooked = try database.integer("PRAGMA schema_version")
    schemaVersion = hooked ?? schemaVersion
  }

  /// Writes the origin of a transaction's rows into the journal, before the first of these rows.
  func beginRelay(_ header: TransactionHeader, at position: Position) throws {
    guard isRelaying, !hasBegunRelay, let origin = options.origin(of: header, in: trail) else { return }
    hasBegunRelay = try notes.write(
      AppliedNote(
        trail: trail.description, number: header.number, clock: header.clock, position: position, origin: origin))
  }

  /// Drops the TEMP capture triggers of apply's connection before a schema change.
  func releaseHooks() throws {
    guard hooked != nil else { return }
    hooked = nil
    try options.schemaFollower?.unhook(database)
  }

  /// Updates capture's triggers after a schema change, before apply writes a row.
  func keepHooked() throws {
    guard isRelaying, hooked == nil, let follower = options.schemaFollower else { return }
    if try database.integer("PRAGMA schema_version") != schemaVersion { try follower.adopt(database, schemaVersion) }
    try hook(follower)
  }

  /// Drops capture's triggers on a table before apply changes the table's schema. SQLite cannot drop a column that a
  /// trigger names.
  func release(_ table: String) throws { try options.schemaFollower?.release(table, database, schemaVersion) }

  /// Throws `database-unsafe` if an application has changed Cairn's own tables. Checks them once for each schema
  /// version, in apply's write transaction.
  private func checkOwnTables() throws {
    let version = try database.integer("PRAGMA schema_version") ?? 0
    guard version != provedSchema else { return }
    try database.checkOwnTables()
    provedSchema = version
  }

  func reload() throws { tables = try state.tables() }

  func rollback() {
    // The connection's own triggers go with the transaction that made them.
    hooked = nil
    if database.isInTransaction { try? database.execute("ROLLBACK") }
  }

  func waiting(in trail: TrailID) -> [NameKey: SQLiteApplyState.Waiting] {
    tables.compactMapValues { $0.waiting.flatMap { $0.table.checkpoint.trail == trail ? $0 : nil } }
  }

  /// Begins a write transaction. Waits for SQLite's write lock without a time limit; returns false, without a
  /// transaction, if `stop` is set first.
  func begin(_ stop: StopSignal) throws -> Bool {
    database.setBusyTimeout(milliseconds: 200)
    defer { database.setBusyTimeout(milliseconds: 10_000) }
    while !stop.isSet {
      do {
        try database.execute("BEGIN IMMEDIATE")
        try checkOwnTables()
        try notes.clearStage()
        try fired.keepInStep()
        if options.schemaFollower != nil { schemaVersion = try database.integer("PRAGMA schema_version") ?? 0 }
        try lookForCapture()
        progress.update { $0.isWaitingForLock = false }
        return true
      } catch let error as SQLiteError where error.isBusy {
        // Another connection has a long transaction: apply reports that, and waits.
        progress.update { $0.isWaitingForLock = true }
        Pulse.beat()
      }
    }
    return false
  }
}
