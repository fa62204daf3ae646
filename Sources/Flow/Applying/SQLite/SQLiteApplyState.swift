import Changes
import Mapping
import SQLiteKit

/// Cairn's own tables in an SQLite target: the checkpoint of each trail, and the state of each table.
///
/// They are written in the transaction that applies the changes. `cairn_origin` has a table's definition in PostgreSQL.
///
/// ```
/// cairn_table(trail, name, created, refreshing, existing, source, claim, guarded, wait_…): SQLiteApplyState+Waiting.swift
/// cairn_origin(name, shape): the definition that a table from PostgreSQL has there
/// ```
package struct SQLiteApplyState {
  /// The highest number of trails that are applied to one table.
  private static let feedersMax = 10_000

  struct Table {
    /// Whether Cairn created the table, so that its columns follow the source.
    var isCreated = false
    var refreshing: Refresh.Method?
    /// Whether a refresh of the table was requested and has not begun. Until then, apply skips changes that the refresh
    /// will bring.
    var isAwaited = false
    var existing: ExistingRows = .overwrite
    /// The full name of the PostgreSQL table that is replicated to this one; empty for an SQLite source.
    var source = ""
    /// The part of the table's rows that this trail writes; nil: not known.
    var claim: TableClaim?
    /// Whether triggers at the target refuse writes of applications to the table.
    var isGuarded = false
    var waiting: Waiting?
  }

  let database: Database
  /// The trail whose state is read and written; nil if only functions for all trails are called.
  let trail: TrailName?
  package init(_ database: Database, of trail: TrailName? = nil) { (self.database, self.trail) = (database, trail) }

  var checkpoints: Checkpoints { Checkpoints(database) }

  package func isInstalled() throws -> Bool { try checkpoints.isInstalled() }

  func install() throws {
    try database.execute(
      """
      CREATE TABLE IF NOT EXISTS cairn_checkpoint(trail TEXT PRIMARY KEY, trail_id BLOB, segment INTEGER, offset INTEGER,
        chain BLOB, number INTEGER, applied_at INTEGER, version INTEGER) WITHOUT ROWID
      """)
    try database.execute(Self.tableOfTables)
    try upgrade()
  }

  private static let tableOfTables = """
    CREATE TABLE IF NOT EXISTS cairn_table(trail TEXT DEFAULT '', name TEXT COLLATE NOCASE, created INTEGER,
      refreshing INTEGER, existing TEXT, source TEXT DEFAULT '', PRIMARY KEY (name, trail)) WITHOUT ROWID;
    """

  private static let added = [("claim", "TEXT"), ("guarded", "INTEGER DEFAULT 0")]

  /// Adds to the table `cairn_table` the columns that an older version of Cairn did not create.
  func upgrade() throws {
    let there = Set(try database.query("SELECT name FROM pragma_table_info('cairn_table')").map { $0[0].string })
    for (name, declaration) in [("source", "TEXT DEFAULT ''")] + Self.added + Waiting.columns
    where !there.contains(name) {
      try database.execute("ALTER TABLE cairn_table ADD COLUMN \(name) \(declaration)")
    }
    guard !there.contains("trail") else { return }
    // The state of a table was shared by all trails; without a trail yet, it goes to the first one.
    let columns = (["name", "created", "refreshing", "existing", "source"] + Waiting.columns.map(\.name))
      .joined(separator: ", ")
    // SQLite checks every view of the file.
    try database.readingAsPrograms { try database.execute("ALTER TABLE cairn_table RENAME TO cairn_table_before") }
    try database.execute(Self.tableOfTables)
    for (name, declaration) in Self.added + Waiting.columns {
      try database.execute("ALTER TABLE cairn_table ADD COLUMN \(name) \(declaration)")
    }
    try database.execute(
      """
      INSERT INTO cairn_table(trail, \(columns)) SELECT coalesce(c.trail, ''), \(columns)
        FROM cairn_table_before AS t LEFT JOIN cairn_checkpoint AS c
      """)
    try database.execute("DROP TABLE cairn_table_before")
  }

  var owner: Value { .text(trail?.description ?? "") }

  func tables() throws -> [NameKey: Table] {
    var tables: [NameKey: Table] = [:]
    let columns =
      ["name", "created", "refreshing", "existing", "source", "claim", "guarded"] + Waiting.columns.map(\.name)
    let sql = "SELECT \(columns.joined(separator: ", ")) FROM cairn_table WHERE trail IN (?, '') ORDER BY trail"
    // A program can add rows after the sizes were checked.
    try database.forEachRow(sql, [owner], rowsMax: 100_000) { row in
      var table = Table()
      table.isCreated = row[1] == .integer(1)
      if case .integer(let code) = row[2] {
        table.refreshing = Refresh.method(UInt8(clamping: code))
        table.isAwaited = code == Refresh.awaited
      }
      table.existing = ExistingRows(rawValue: row[3].string) ?? .overwrite
      table.source = row[4].string
      if row[5] != .null { table.claim = TableClaim(text: row[5].string) }
      table.isGuarded = row[6] == .integer(1)
      table.waiting = try Waiting(row[0].string, Array(row[7...]))
      tables[row[0].string.sqliteKey] = table
    }
    return tables
  }

  func save(_ name: String, _ table: Table) throws {
    let columns =
      ["trail", "name", "created", "refreshing", "existing", "source", "claim", "guarded"] + Waiting.columns.map(\.name)
    let marks = columns.map { _ in "?" }.joined(separator: ", ")
    try database.run(
      "INSERT OR REPLACE INTO cairn_table(\(columns.joined(separator: ", "))) VALUES (\(marks))",
      [
        owner, .text(name), .integer(table.isCreated ? 1 : 0),
        .integer(Int64(Refresh.code(table.refreshing, isAwaited: table.isAwaited))),
        .text(table.existing.rawValue), .text(table.source), table.claim.map { .text($0.text) } ?? .null,
        .integer(table.isGuarded ? 1 : 0),
      ] + (table.waiting?.values ?? Waiting.columns.map { _ in .null }))
  }

  /// Returns the trails, except this one, that are applied to a table, with the rows that each of them writes.
  package func feeders(of name: String) throws -> [TableClaim.Feeder] {
    guard try isInstalled() else { return [] }
    let there = try database.query("SELECT name FROM pragma_table_info('cairn_table')").map { $0[0].string }
    guard there.contains("trail") else { return [] }
    let claim = there.contains("claim") ? "claim" : "NULL"
    var feeders: [TableClaim.Feeder] = []
    try database.forEachRow(
      """
      SELECT trail, \(claim) FROM cairn_table WHERE name = ? AND trail NOT IN (?, '') ORDER BY trail
      """, [.text(name), owner], rowsMax: Self.feedersMax
    ) { feeders.append(($0[0].string, $0[1] == .null ? nil : TableClaim(text: $0[1].string))) }
    return feeders
  }

  func isCreatedElsewhere(_ name: String) throws -> Bool {
    try !database.query(
      "SELECT 1 FROM cairn_table WHERE name = ? AND created = 1 AND trail NOT IN (?, '') LIMIT 1", [.text(name), owner]
    ).isEmpty
  }

  func forget(_ name: String) throws {
    try database.run("DELETE FROM cairn_table WHERE name = ? AND trail IN (?, '')", [.text(name), owner])
  }

  // MARK: Where tables came from

  private func hasOrigins() throws -> Bool {
    try database.integer("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'cairn_origin'") != nil
  }

  /// Stores the definition that a table has in PostgreSQL; removes the stored one if `shape` is nil.
  func saveOrigin(_ name: String, _ shape: TableSchema?) throws {
    guard let shape else {
      if try hasOrigins() { try database.run("DELETE FROM cairn_origin WHERE name = ?", [.text(name)]) }
      return
    }
    try database.execute(
      "CREATE TABLE IF NOT EXISTS cairn_origin(name TEXT PRIMARY KEY COLLATE NOCASE, shape BLOB) WITHOUT ROWID")
    var bytes = ByteWriter()
    bytes.append(shape)
    try database.run(
      "INSERT OR REPLACE INTO cairn_origin VALUES (?, ?)", [.text(name), .blob(Array(bytes.bytes))])
  }

  /// Returns whether apply's state in the target has any table of this trail.
  package func knowsTables() throws -> Bool {
    guard try isInstalled() else { return false }
    let hasTrail = try database.integer("SELECT 1 FROM pragma_table_info('cairn_table') WHERE name = 'trail'") != nil
    return try database.integer(
      "SELECT 1 FROM cairn_table \(hasTrail ? "WHERE trail = ?" : "WHERE '' <> ?") LIMIT 1", [owner]) != nil
  }

  /// Returns the names of the trail's tables in apply's state.
  package func tableNames() throws -> [String] {
    guard try isInstalled() else { return [] }
    try upgrade()
    return try tables().map { name, table in
      table.waiting?.table.name ?? (table.source.isEmpty ? name.text : table.source)
    }
  }

  /// Returns the names of the target tables of the trail, as in apply's state.
  package func targetNames() throws -> [String] {
    guard try isInstalled() else { return [] }
    try upgrade()
    return try tables().flatMap { name, table in [name.text] + (table.waiting?.names ?? []) }
  }

  /// Makes apply skip the changes of every table of the trail until the table's next refresh begins. Without ``trail``,
  /// does so for all trails.
  package func expectRefreshOfAll() throws {
    guard try isInstalled() else { return }
    try upgrade()
    let sql = "UPDATE cairn_table SET refreshing = \(Refresh.awaited), existing = 'overwrite'"
    // The copies include the effect of transactions in quarantine.
    try QuarantineLog(database).forget(trail)
    if trail == nil { return try database.run(sql) }
    try database.run(sql + " WHERE trail IN (?, '')", [owner])
  }

  /// Makes apply skip the changes of single tables of the trail until the next refresh of each begins.
  ///
  /// - Parameter isMeant: Returns whether a table is meant, from its names at the source and at the target.
  package func expectRefresh(where isMeant: ([String]) -> Bool) throws {
    for (name, _) in try namedTables().filter({ isMeant($0.names) }) {
      try database.run(
        "UPDATE cairn_table SET refreshing = \(Refresh.awaited), existing = 'overwrite' WHERE name = ? AND trail IN (?, '')",
        [.text(name), owner])
    }
  }

  /// Returns the tables of the trail that are not suspended, with their names at the source and at the target.
  package func namedTables() throws -> [(key: String, names: [String])] {
    guard try isInstalled() else { return [] }
    try upgrade()
    return try tables().filter { $0.value.waiting == nil }.map { name, table in
      (name.text, [name.text] + (table.source.isEmpty ? [] : [table.source]))
    }
  }

  /// Deletes the checkpoint of a trail that no longer exists. The state of its tables stays.
  package func forgetCheckpoint(of trail: TrailName) throws {
    if let id = try checkpoints.checkpoint(of: trail)?.checkpoint.trail { try forgetWaiting(in: id) }
    try QuarantineLog(database).forget(trail)
    try checkpoints.forget(trail)
  }
}
