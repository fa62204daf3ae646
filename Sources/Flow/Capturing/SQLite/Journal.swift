import Changes
import SQLiteKit
import SystemKit

/// Cairn's tables and triggers in an SQLite source (`docs/explanation/sqlite-capture.md`). Every change to them is one
/// transaction of the source.
///
///     let owner = try Journal(try Database(path: "shop.db")).owner()   // nil if no capture owns the journal
package struct Journal {
  /// The version of the journal. An older cairn rejects a newer version; a newer cairn upgrades an older one.
  static let version: Int64 = 5
  /// The highest number of journal rows that wait for capture. Above it, the oldest rows are dropped, and capture
  /// refreshes all tables.
  package static let defaultCapRows: Int64 = 5_000_000
  /// The highest estimated size of the journal rows that wait for capture, 4 GiB. Above it, the oldest rows are
  /// dropped.
  package static let capBytes: Int64 = 4 << 30
  /// The lowest row limit that a journal may have.
  private static let capRowsMin: Int64 = 1000

  /// Returns the row limit of a journal: `bytes / bytesPerRow`, but at least 1000 and at most `rows`.
  package static func cap(rows: Int64, bytesPerRow: Int64, bytes: Int64 = capBytes) -> Int64 {
    min(rows, max(capRowsMin, bytes / max(1, bytesPerRow)))
  }

  let database: Database

  package init(_ database: Database) { self.database = database }

  // MARK: Who captures

  /// Returns the trail of the source's capture, and capture's state folder; nil if the source is not captured.
  ///
  /// - Throws: `source-went-back` if an application dropped some of Cairn's tables.
  package func owner() throws -> (trail: TrailID, place: String)? {
    guard try isInstalled() else { return nil }
    if let error = try lostTables() { throw error }
    let rows = try database.query("SELECT version, trail, place FROM cairn_control WHERE id = 0")
    guard let row = rows.first, case .integer(let version) = row[0] else { return nil }
    guard (1...Self.version).contains(version) else {
      throw CairnError(
        .trailVersion, "the journal in \(database.path) has version \(version), and this Cairn writes \(Self.version)",
        hint: "use the newer version of Cairn, or run 'cairn detach' and replicate again")
    }
    guard case .blob(let bytes) = row[1], let trail = TrailID(bytes) else { return nil }
    return (trail, row[2].string)
  }

  func isInstalled() throws -> Bool {
    try database.integer("SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'cairn_control'") == 1
  }

  // MARK: Coming and going

  /// Creates Cairn's tables for capture. The caller adds the triggers with ``adopt(_:)`` in the same transaction.
  func install(
    trail: TrailID?, place: String, capRows: Int64, mark: SourcePosition.Mark, tables: TablePatterns
  ) throws {
    try checkNamesAreFree()
    // The journal gets all columns that it needs now: to add one later makes SQLite read its whole schema again.
    let width =
      try database.userTables().filter { $0.refusal == nil && tables.includes($0.name) }
      .map { $0.schema.columns.count + 1 }.max() ?? 1
    for text in [
      OwnTables.journal(values: width), OwnTables.stage(values: width), OwnTables.layout, OwnTables.unhooked,
      OwnTables.control,
    ] { try database.execute(text) }
    try database.run(
      "INSERT INTO cairn_control VALUES (0, ?, ?, ?, ?, ?, ?, 0, NULL)",
      [
        .integer(Self.version), trail.map { .blob($0.bytes) } ?? .null, .text(place), .integer(mark.taken),
        .integer(mark.nonce),
        .integer(capRows),
      ])
  }

  private func checkNamesAreFree() throws {
    let names = try database.query("SELECT name FROM sqlite_master WHERE type IN ('table', 'view', 'index')")
    guard let taken = names.map(\.[0].string).first(where: { SQLiteTable.captureNames.contains($0.asciiLowercased) })
    else {
      return
    }
    throw CairnError(
      .nameCollision, "\(database.path) has a \(taken) that is not Cairn's",
      hint: "rename it: names that begin with cairn_ are reserved", remedy: .badInput, context: ["table": taken])
  }

  /// Upgrades a journal to the present version. If the journal lacks the applied notes of earlier transactions, writes
  /// these notes.
  func upgrade(capRows: Int64, _ clock: Clock) throws {
    let isNew = try database.integer("SELECT max(seq) FROM cairn_journal") == nil
    let version = try database.integer("SELECT version FROM cairn_control WHERE id = 0") ?? 0
    let cap = Self.cap(rows: capRows, bytesPerRow: try rowBytes())
    try database.run(
      "UPDATE cairn_control SET cap = ?, version = ? WHERE id = 0", [.integer(cap), .integer(Self.version)])
    guard isNew || version < JournalNotes.versionMin else { return }
    let notes = JournalNotes(database)
    for note in try applied(clock) { try notes.write(note) }
  }

  func rowBytes() throws -> Int64 {
    max(0, try database.integer("SELECT cap FROM cairn_control WHERE id = \(Self.rowBytesID)") ?? 0)
  }

  /// Stores the estimated bytes of a journal row, and the row limit. The caller must have opened a write transaction.
  func note(rowBytes: Int64, capRows: Int64, capBytes: Int64) throws {
    try database.run(
      "INSERT OR REPLACE INTO cairn_control(id, cap) VALUES (\(Self.rowBytesID), ?)", [.integer(rowBytes)])
    try database.run(
      "UPDATE cairn_control SET cap = ? WHERE id = 0",
      [.integer(Self.cap(rows: capRows, bytesPerRow: rowBytes, bytes: capBytes))])
  }

  private static let rowBytesID = 3

  /// Removes everything that Cairn added to the file. Returns false if there was nothing.
  @discardableResult
  package func detach() throws -> Bool { try remove(SQLiteTable.ownNames, withGuards: true) }

  func uninstall() throws { _ = try remove(SQLiteTable.captureNames) }

  private func remove(_ own: Set<NameKey>, withGuards: Bool = false) throws -> Bool {
    try database.transaction {
      let own = try OwnObjects(database, own, withGuards: withGuards)
      for name in own.triggers { try database.execute("DROP TRIGGER \(name.quotedName)") }
      for name in own.tables { try database.execute("DROP TABLE \(name.quotedName)") }
      return !own.isEmpty
    }
  }

  /// Stops the capture of a table, or of all tables if nil, until ``rehook(_:)``. Returns the names of the tables.
  package func unhook(_ table: String?) throws -> [String] {
    try database.transaction {
      let names = try hookedNames(table)
      for name in names {
        try database.run("INSERT OR IGNORE INTO cairn_unhooked VALUES (?)", [.text(name)])
        try dropTriggers(onTable: name)
      }
      // A table that was renamed after the layouts were written has its triggers under another name.
      let unhooked = Set(names.map(\.nameKey))
      for layout in try activeLayouts() where unhooked.contains(layout.schema.name) {
        try dropTriggers(layout: layout.id)
      }
      return names
    }
  }

  /// Resumes the capture of a table, or of all tables if nil, and schedules refreshes that send the missed changes.
  /// Returns the names of the tables.
  package func rehook(_ table: String?, patterns: TablePatterns) throws -> [String] {
    try database.transaction {
      var names = try database.query("SELECT name FROM cairn_unhooked").map { $0[0].string }
      if let table {
        names = names.filter { $0.sqliteKey == table.sqliteKey }
        guard !names.isEmpty else { throw missing(table, "is not unhooked") }
      }
      for name in names { try database.run("DELETE FROM cairn_unhooked WHERE name = ?", [.text(name)]) }
      try adopt(patterns)
      return names
    }
  }

  package func isUnhooked(_ table: String) throws -> Bool {
    try database.integer("SELECT 1 FROM cairn_unhooked WHERE name = ?", [.text(table)]) != nil
  }

  /// Returns the names of the tables whose capture was stopped by ``unhook(_:)``.
  package func unhooked() throws -> [String] {
    guard try isInstalled() else { return [] }
    return try database.query("SELECT name FROM cairn_unhooked ORDER BY name").map { $0[0].string }
  }

  /// Returns the number of journal rows that the trail lacks, the limit of that number, and whether rows were dropped.
  /// Nil if the source is not captured.
  ///
  /// - Parameter taken: The last journal row in the trail, if known. The source may store an earlier one.
  package func fill(taken: Int64 = 0) throws -> (rows: Int64, cap: Int64, hasDropped: Bool)? {
    guard try isInstalled() else { return nil }
    return try database.transaction("BEGIN") {
      // An application can write to the file, so numbers are limited to values that cannot overflow.
      func bounded(_ sql: String) throws -> Int64 { min(max(0, try database.integer(sql) ?? 0), 1 << 61) }
      let taken = max(taken, try bounded("SELECT taken FROM cairn_control WHERE id = 0"))
      let first = try bounded("SELECT min(seq) FROM cairn_journal")
      let last = try bounded("SELECT max(seq) FROM cairn_journal")
      let cap = try bounded("SELECT cap FROM cairn_control WHERE id = 0")
      return (max(0, last - max(taken, first - 1)), cap, last > taken && first > taken + 1)
    }
  }

  private func hookedNames(_ table: String?) throws -> [String] {
    let names = try activeLayouts().map(\.schema.name)
    guard let table else { return names }
    guard let name = names.first(where: { $0.sqliteKey == table.sqliteKey }) else {
      throw missing(table, "is not captured")
    }
    return [name]
  }

  func missing(_ table: String, _ what: String) -> CairnError {
    CairnError(
      .tableMissing, "table \(table) of \(database.path) \(what)",
      hint: "run 'cairn check --from URL' to see the captured tables", remedy: .badInput)
  }

  // MARK: Rows

  static func valueCount(_ code: Int64, _ layouts: [Int64: CaptureInstance]) -> Int {
    switch code {
    case JournalNotes.code, JournalStatements.endCode, JournalStatements.partCode: 1
    default: layouts[code / 8]?.valueCount ?? 0
    }
  }

  /// Returns an applied note for each trail that apply writes to the file, with the present time as its clock.
  /// Transactions that suspended tables lack, or that are in quarantine, do not count as applied.
  func applied(_ clock: Clock) throws -> [AppliedNote] {
    guard
      try database.integer("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'cairn_checkpoint'") != nil
    else { return [] }
    var numbers = ["number"]
    for (table, column, number) in [
      ("cairn_table", "wait_number", "wait_number"), ("cairn_quarantine", "number", "number - 1"),
    ]
    where try database.integer(
      "SELECT 1 FROM pragma_table_info(?) WHERE name = ?", [.text(table), .text(column)]) != nil
    {
      numbers.append("coalesce((SELECT min(\(number)) FROM \(table) AS held WHERE held.trail = c.trail), number)")
    }
    let least = numbers.count == 1 ? numbers[0] : "min(\(numbers.joined(separator: ", ")))"
    return try database.query("SELECT trail, \(least), trail_id FROM cairn_checkpoint AS c").compactMap { row in
      guard case .integer(let stored) = row[1], let number = NumberBounds.number(stored) else { return nil }
      var id: TrailID?
      if case .blob(let bytes) = row[2] { id = TrailID(bytes) }
      return AppliedNote(
        trail: row[0].string, id: id, number: number, clock: UInt64(clamping: clock.microseconds()),
        position: .start)
    }
  }

  // MARK: Layouts

  func remember(_ patterns: TablePatterns) throws {
    let text = patterns.text
    guard try database.text("SELECT place FROM cairn_control WHERE id = 1") != text else { return }
    try database.run("INSERT OR REPLACE INTO cairn_control(id, place) VALUES (1, ?)", [.text(text)])
  }

  /// Returns the journal row number that a query gives; 0 if it gives none.
  ///
  /// - Throws: `database-damaged` for a number that Cairn assigns to no row.
  func place(_ sql: String) throws -> Int64 {
    guard let value = try database.first(sql), value != .null else { return 0 }
    guard case .integer(let number) = value, SourcePosition.places.contains(number) else {
      throw CairnError(
        .databaseDamaged,
        "a table of \(database.path) whose name begins with cairn_ holds a number that Cairn did not write",
        hint: "run 'cairn detach' on the source and replicate again")
    }
    return number
  }

  func setRefresh(_ reason: Refresh.Reason?, layout: Int64) throws {
    try database.run(
      "UPDATE cairn_layout SET refresh = ? WHERE id = ?", [CaptureInstance.code(reason), .integer(layout)])
  }

  /// Stores that the refresh of this layout's table has ended, unless the file has recorded a new reason for a refresh.
  func finishRefresh(_ layout: CaptureInstance) throws {
    try database.run(
      "UPDATE cairn_layout SET refresh = NULL WHERE id = ? AND refresh = ?",
      [.integer(layout.id), CaptureInstance.code(layout.refresh, firstNew: layout.firstNew)])
  }

  // MARK: Schema

  /// Adapts the triggers and the layouts to the present schema, in a write transaction that the caller has opened.
  ///
  /// Journal rows may be wrong if the schema changed more than once since Cairn recorded it, or if an application's
  /// trigger ran before Cairn's. In both cases, tables with inserts or updates that the trail lacks are refreshed.
  ///
  /// - Parameter written: The result of ``writtenLayouts()`` before the transaction.
  /// - Returns: The layouts of the tables that must be refreshed because their journal rows may be wrong.
  @discardableResult
  func adopt(
    _ patterns: TablePatterns, written: Written? = nil, copies: TriggerSync.Copies = .all
  ) throws -> Set<Int64> {
    let version = try database.integer("PRAGMA schema_version") ?? 0
    let known = try database.integer("SELECT schema_version FROM cairn_control WHERE id = 0")
    guard version != known else {
      try adopt(patterns, doubtful: [], hooks: Hooks(database), copies: copies)
      return []
    }
    let touched = try writtenLayouts(since: written).layouts
    let hooks = try Hooks(database)
    // If a trigger of the application ran before Cairn's, journal rows come after their own effects.
    // An application can write any number there: to subtract it could overflow.
    let doubtful = touched.filter { !hooks.areFirst(layout: $0) || known.map { $0 <= version - 2 } ?? false }
    try adopt(patterns, doubtful: doubtful, hooks: hooks, copies: copies)
    try noteSchema()
    return doubtful
  }

  /// Adapts the triggers and the layouts to the schema changes of the open transaction. No other transaction may have
  /// changed the schema since Cairn last adapted the triggers.
  ///
  /// - Parameter copies: Whether all, no, or only non-empty new tables get an initial load.
  func adoptApplied(_ patterns: TablePatterns, copies: TriggerSync.Copies = .none, by trail: TrailName? = nil) throws {
    try adopt(patterns, doubtful: [], hooks: Hooks(database), copies: copies, isApplied: true, by: trail)
    try noteSchema()
  }

  private func noteSchema() throws {
    let now = try database.integer("PRAGMA schema_version") ?? 0
    try database.run(
      "UPDATE cairn_control SET schema_version = ? WHERE id = 0 AND schema_version IS NOT ?",
      [.integer(now), .integer(now)])
  }

  /// The layouts with inserts or updates that the trail lacks, up to journal row `through`.
  struct Written {
    var through: Int64 = 0
    var layouts: Set<Int64> = []
  }

  func writtenLayouts(since before: Written? = nil) throws -> Written {
    var written = before ?? Written()
    let from = try before?.through ?? place("SELECT taken FROM cairn_control WHERE id = 0")
    written.through = max(from, try place("SELECT max(seq) FROM cairn_journal"))
    let rows = try database.query(
      "SELECT DISTINCT code / 8 FROM cairn_journal WHERE seq > ? AND seq <= ? AND code >= 8 AND code % 8 IN (1, 3)",
      [.integer(from), .integer(written.through)])
    for row in rows { if case .integer(let layout) = row[0] { written.layouts.insert(layout) } }
    return written
  }

  /// Returns the layouts whose journal rows may have wrong old values, because no trigger saved the old rows.
  private func layoutsWithWrongOld(_ tables: [SQLiteTable], _ hooks: Hooks) throws -> Set<Int64> {
    let suspects = hooks.layouts.filter { layout in
      guard let name = hooks.table(of: layout), let table = tables.first(where: { $0.name.sqliteKey == name }) else {
        return false
      }
      return table.givesWrongOld && !hooks.has(CaptureTriggers(table: table, layout: layout).keepers, of: layout)
    }
    guard !suspects.isEmpty else { return [] }
    let rows = try database.query(
      """
      SELECT DISTINCT code / 8 FROM cairn_journal
      WHERE seq > (SELECT taken FROM cairn_control WHERE id = 0) AND code >= 8 AND code % 8 IN (2, 4)
      """)
    return suspects.intersection(rows.compactMap { if case .integer(let layout) = $0[0] { layout } else { nil } })
  }

  private func adopt(
    _ patterns: TablePatterns, doubtful: Set<Int64>, hooks: Hooks, copies: TriggerSync.Copies, isApplied: Bool = false,
    by trail: TrailName? = nil
  ) throws {
    let tables = try database.userTables()
    let unhooked = Set(try database.query("SELECT name FROM cairn_unhooked").map { $0[0].string.sqliteKey })
    let captured = tables.filter {
      // The patterns may come from the file, and each is compared with each table.
      Pulse.beat()
      return $0.refusal == nil && patterns.includes($0.name) && !unhooked.contains($0.name.sqliteKey)
    }
    let doubtful = try doubtful.union(layoutsWithWrongOld(captured, hooks))
    let capturedNames = Set(captured.map { $0.name.sqliteKey })
    var free = Dictionary(captured.map { ($0.name.sqliteKey, $0) }, uniquingKeysWith: { first, _ in first })
    var adoption = TriggerSync(database, doubtful: doubtful, copies: copies, isApplied: isApplied, trail: trail)

    // Triggers follow their table through a rename, so existing triggers show which table is which.
    let active = try activeLayouts().filter { !unhooked.contains($0.schema.name.sqliteKey) }
    let claims = active.map { layout in hooks.table(of: layout.id).flatMap { free.removeValue(forKey: $0) } }
    for (layout, hooked) in zip(active, claims) {
      if let table = hooked {
        // A table that lacks one of its triggers is not hooked: an application dropped the trigger, and capture has
        // missed changes.
        let isHooked = hooks.has(CaptureTriggers(table: table, layout: layout.id).base, of: layout.id)
        if !isHooked { try dropTriggers(layout: layout.id) }
        try adoption.update(layout, to: table, isHooked: isHooked, hooks: hooks)
        continue
      }
      let name = layout.schema.name.sqliteKey
      // The table of this layout now has a name that is not captured; a table with the layout's name is another table.
      let hasLeft = hooks.table(of: layout.id).map { $0 != name } ?? false
      if !hasLeft, let table = free.removeValue(forKey: name) {
        try adoption.update(layout, to: table, isHooked: false, hooks: hooks)
      } else {
        // A captured table of that name belongs to another layout.
        let isDropped = hasLeft || !tables.contains { $0.name.sqliteKey == name && !capturedNames.contains(name) }
        try adoption.end(layout, isDropped: isDropped)
        try dropTriggers(layout: layout.id)
      }
    }
    for table in captured where free[table.name.sqliteKey] != nil { try adoption.add(table) }
    for layout in hooks.layouts.subtracting(active.map(\.id)) { try dropTriggers(layout: layout) }
  }

  /// Asks the next run of capture to refresh every captured table.
  package func askForRefresh() throws {
    guard try isInstalled() else { return }
    try database.transaction { try refreshAll(.asked) }
  }

  /// Asks the next run of capture to refresh the tables that `tables` includes. Returns false if nothing is captured
  /// yet.
  @discardableResult
  package func askForRefresh(of tables: TablePatterns) throws -> Bool {
    guard try isInstalled() else { return false }
    try database.transaction {
      for layout in try activeLayouts() where tables.includes(layout.schema.name) {
        try setRefresh(.asked, layout: layout.id)
      }
    }
    return true
  }

  /// Returns the sequence number of the last journal row; 0 if the journal is empty.
  package func lastRow() throws -> Int64 { try place("SELECT max(seq) FROM cairn_journal") }

  /// Returns the progress of a capture in another process.
  ///
  /// - Parameter row: The journal row up to which the trail must have all rows.
  /// - Returns: Whether the trail has those rows and no table waits for a refresh; and the number of tables that wait
  ///   for one.
  package func standing(of tables: TablePatterns, through row: Int64) throws -> (isReached: Bool, tablesToCopy: Int) {
    try database.transaction("BEGIN") {
      guard try isInstalled() else { return (false, 0) }
      let count = try activeLayouts().filter {
        try $0.refresh != nil && tables.includes($0.schema.name) && !isUnhooked($0.schema.name)
      }.count
      let version = try database.integer("PRAGMA schema_version") ?? 0
      let isInStep = try database.integer("SELECT schema_version FROM cairn_control WHERE id = 0") == version
      let taken = try place("SELECT taken FROM cairn_control WHERE id = 0")
      return (try count == 0 && isInStep && taken >= row && patterns().covers(tables), count)
    }
  }

  func refreshAll(_ reason: Refresh.Reason) throws {
    try database.run(
      "UPDATE cairn_layout SET refresh = ? WHERE ended IS NULL", [.integer(Int64(reason.rawValue))])
  }

  func dropTriggers(onTable table: String) throws {
    let rows = try database.query(
      "SELECT name FROM sqlite_master WHERE type = 'trigger' AND lower(tbl_name) = lower(?)", [.text(table)])
    for row in rows where CaptureTriggers.layout(ofTrigger: row[0].string) != nil {
      try database.execute("DROP TRIGGER \(row[0].string.quotedName)")
    }
  }

  func dropTriggers(layout: Int64) throws {
    let rows = try database.query("SELECT name FROM sqlite_master WHERE type = 'trigger'")
    for row in rows where CaptureTriggers.layout(ofTrigger: row[0].string) == layout {
      try database.execute("DROP TRIGGER \(row[0].string.quotedName)")
    }
  }
}

/// Cairn's triggers in the captured file, by layout id.
struct Hooks {
  private var tables: [Int64: NameKey] = [:]
  private var oldest: [Int64: Int64] = [:]
  private var names: [Int64: Set<NameKey>] = [:]
  private var texts: [Int64: Set<NameKey>] = [:]
  private var newestOfProgram: [NameKey: Int64] = [:]

  init(_ database: Database) throws {
    for row in try database.query("SELECT name, tbl_name, rowid, sql FROM sqlite_master WHERE type = 'trigger'") {
      guard case .integer(let rowid) = row[2] else { continue }
      let table = row[1].string.sqliteKey
      if let layout = CaptureTriggers.layout(ofTrigger: row[0].string) {
        tables[layout] = table
        oldest[layout] = min(oldest[layout] ?? rowid, rowid)
        texts[layout, default: []].insert(row[3].string.nameKey)
        names[layout, default: []].insert(row[0].string.nameKey)
      } else if !row[0].string.hasPrefix(SQLiteTable.guardPrefix) {
        // The triggers by which apply guards its tables write nothing.
        newestOfProgram[table] = max(newestOfProgram[table] ?? rowid, rowid)
      }
    }
  }

  var layouts: Set<Int64> { Set(tables.keys) }

  /// Returns the lower-case name of the table that has Cairn's triggers for a layout id; nil if there is none.
  func table(of layout: Int64) -> NameKey? { tables[layout] }

  func has(_ statements: [CaptureTriggers.Trigger], of layout: Int64) -> Bool {
    statements.allSatisfy { names[layout]?.contains($0.name.nameKey) ?? false }
  }

  func are(_ statements: [CaptureTriggers.Trigger], of layout: Int64) -> Bool {
    texts[layout] == Set(statements.map(\.text.nameKey))
  }

  /// Returns whether Cairn's triggers for a layout id fire before those of the application. SQLite fires the newest
  /// trigger first.
  func areFirst(layout: Int64) -> Bool {
    guard let table = tables[layout], let theirs = newestOfProgram[table] else { return true }
    return (oldest[layout] ?? 0) > theirs
  }
}
