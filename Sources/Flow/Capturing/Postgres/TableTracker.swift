import Changes
import PostgresKit
import SystemKit
import Trails

/// Follows the schema changes of the source's tables, which the stream reports or only the catalog shows.
final class TableTracker {
  private static let lockReportMilliseconds: Int64 = 3000

  let session: CaptureSession
  /// The locked tables, each with the time at which capture first found the table locked, in monotonic ms.
  private var lockedSince: [UInt32: Int64] = [:]
  /// The shortest time between two waits for an autovacuum, ms. Each wait delays the stream.
  private static let patienceIntervalMilliseconds: Int64 = 60_000
  private var patientAt: Int64 = 0
  /// How often a table had changed before capture had taken in the catalog.
  private var changedCount = 0
  /// The least such number that is reported.
  private static let changedCountReported = 16

  var room = DefinitionRoom()

  init(_ session: CaptureSession) { self.session = session }

  // MARK: Changes

  /// Writes every difference between the recorded tables and the present ones to the trail.
  ///
  /// - Parameter kept: The tables to leave as the trail has recorded them.
  /// - Parameter reason: The reason for the initial load of new tables, and for a refresh of all other tables if
  ///   `copiesAll` is true.
  func announce(
    _ tables: [PostgresTable], keeping kept: Set<UInt32>, _ reason: Refresh.Reason?, copiesAll: Bool = true
  ) throws {
    let present = kept.union(tables.map(\.oid))
    for gone in session.tables.all.sorted(by: { $0.epoch < $1.epoch }) where !present.contains(gone.relation) {
      try drop(gone)
    }
    for table in tables {
      guard let known = session.tables[table.oid] else {
        try introduce(table, reason)
        continue
      }
      try alter(known, to: .init(table), table.details, .found)
      guard copiesAll, var known = session.tables[table.oid] else { continue }
      known.refresh = reason
      session.tables.set(known)
    }
    session.showWaiting()
  }

  private func drop(_ table: PostgresRegistry.Table, _ text: String = "") throws {
    guard try hasRoom(for: [table.schema]) else { return suspend(table.relation) }
    session.endWaits(of: table.relation)
    try session.append(session.tables.drop(table, text))
  }

  private func introduce(
    _ table: PostgresTable, _ refresh: Refresh.Reason?, _ text: String = "", isPublished: Bool = true
  ) throws {
    guard !isReserved(table.schema) else { return }
    guard !isTaken(table.schema, by: table.oid) else { return session.catalog.want() }
    guard try hasRoom(for: [table.schema]) else { return room.passOver(table.oid) }
    try session.append(session.tables.introduce(.init(table), refresh, text, isPublished: isPublished))
  }

  /// Writes to the trail that a table has another shape. If a target cannot derive the new rows, the table is
  /// refreshed.
  private func alter(
    _ known: PostgresRegistry.Table, to given: PostgresRegistry.Table, _ details: [PostgresTable.Detail],
    _ word: RowFate.Word
  ) throws {
    guard let alteration = KnownTables.Alteration(known, to: given, details, word) else { return }
    if hasLike(given.schema, besides: known.relation) {
      // The next reading of the catalog reports the table.
      session.catalog.want()
      return suspend(known.relation)
    }
    if isReserved(given.schema) || isTaken(given.schema, by: known.relation) { return try drop(known, word.text) }
    if alteration.restartsRefresh { session.refreshes.restart(known.relation) }
    guard alteration.hasOtherShape else { return session.tables.set(alteration.fresh) }
    guard try hasRoom(for: [known.schema, given.schema]) else { return suspend(known.relation) }
    let change = session.tables.alter(alteration)
    if let epoch = session.tables[known.relation]?.epoch { session.refreshes.follow(known.relation, epoch: epoch) }
    try session.append(change, isHeir: word.isHeir)
  }

  /// Returns whether no target takes a table of this name.
  private func isReserved(_ schema: TableSchema) -> Bool { ReservedName.isReserved(schema.namespace, schema.name) }

  /// Returns whether another captured table has the same full name. For two-way replication, ignores the case of ASCII
  /// letters.
  ///
  /// For example, `a.b.c` is table `c` of schema `a.b`, and table `b.c` of schema `a`.
  private func isTaken(_ schema: TableSchema, by relation: UInt32) -> Bool {
    session.tables.all.contains { other in
      guard other.relation != relation else { return false }
      if other.schema.fullName.hasSameBytes(as: schema.fullName) {
        return !other.schema.namespace.hasSameBytes(as: schema.namespace)
      }
      return isLike(schema, other.schema)
    }
  }

  private func isLike(_ schema: TableSchema, _ other: TableSchema) -> Bool {
    session.options.goesBothWays && schema.fullName.isSameInSQLite(as: other.fullName)
  }

  /// Returns whether another captured table has the same full name, ignoring the case of ASCII letters. False unless
  /// replication is two-way.
  private func hasLike(_ schema: TableSchema, besides relation: UInt32) -> Bool {
    session.tables.all.contains { $0.relation != relation && isLike(schema, $0.schema) }
  }

  func copyAgain(_ table: PostgresRegistry.Table, notBefore: UInt64? = nil) {
    var table = table
    table.refresh = table.refresh ?? .lostChanges
    if let notBefore { table.copyNotBefore = notBefore }
    session.tables.set(table)
    session.refreshes.restart(table.relation)
  }

  // MARK: The stream

  /// Returns the description for decoding rows of a table. Writes the shape first if the trail lacks it.
  func capture(_ relation: PgOutput.Relation) throws -> Captured {
    guard let known = try session.tables[relation.id] ?? introduced(relation) else {
      return Captured(ignored: relation.id)
    }
    if !known.isDescribed(by: relation) {
      session.catalog.noteReport()
      session.catalog.want()
      guard let table = try definition(relation.id), table.map({ $0.refusal?.isHarmless != false }) ?? true else {
        // The next reading of the catalog decides about the table. A copy brings the changes left out until then.
        suspend(known.relation)
        return Captured(ignored: relation.id)
      }
      var shape = try table.map { .init($0) } ?? session.source.catalog.shape(of: relation)
      if !shape.isDescribed(by: relation) { shape = try session.source.catalog.shape(of: relation) }
      try alter(known, to: shape, [], .found)
    }
    return session.tables.form(of: relation, isBeingCopied: session.refreshes.isCurrent(relation.id))
      ?? Captured(ignored: relation.id)
  }

  /// Records a new table that an apply created, if no event trigger has reported it. Returns nil for any other table.
  private func introduced(_ relation: PgOutput.Relation) throws -> PostgresRegistry.Table? {
    guard session.options.tables.includes(namespace: relation.namespace, name: relation.name),
      try session.source.isPublishedByApply(relation.id)
    else { return nil }
    guard let definition = try definition(relation.id) else {
      // The next reading of the catalog adds to the shape what the stream lacks, and a copy brings the rows.
      session.catalog.want()
      let shape = try session.source.catalog.shape(of: relation)
      guard !isReserved(shape.schema), !isTaken(shape.schema, by: relation.id) else { return nil }
      guard try hasRoom(for: [shape.schema]) else {
        room.passOver(relation.id)
        return nil
      }
      try session.append(session.tables.introduce(shape, .lostChanges, "", isPublished: true))
      return session.tables[relation.id]
    }
    guard let table = definition, session.options.tables.includes(table), table.refusal == nil else { return nil }
    try introduce(table, nil)
    return session.tables[relation.id]
  }

  /// Returns the definition of a table; `.some(nil)` if it does not exist, and nil if another session keeps it locked.
  private func definition(_ relation: UInt32) throws -> PostgresTable?? {
    do { return .some(try session.source.catalog.table(relation)) } catch let error as PostgresError
      where error.isLockTimeout
    { return nil }
  }

  private func suspend(_ relation: UInt32) {
    session.tables.suspend(relation)
    session.refreshes.restart(relation)
    session.waits.end(relation, .copyHeldUp)
    session.waits.end(relation, .unreadable)
  }

  /// Returns whether the stream has all values of an old row that the replica identity promises. If not, schedules a
  /// refresh of the table.
  func logsEnough(_ old: PgOutput.OldTuple?, of table: Captured) throws -> Bool {
    if try session.tables.logsEnough(old, of: table) { return true }
    session.catalog.want()
    guard var known = session.tables[table.relation] else { return false }
    session.progress.tell(
      "a partition of table \(known.schema.fullName) logged too little of an old row: copying the table again")
    known.refresh = .lostChanges
    session.tables.set(known)
    session.refreshes.restart(known.relation)
    return false
  }

  func take(_ message: SchemaMessage) throws {
    let known = session.tables[message.relation]
    switch message.event {
    case .made(let kind, let name):
      if session.catalog.isNews("\(kind) \(name)") {
        let kinds = kind.hasSuffix("y") ? kind.dropLast() + "ies" : kind + "s"
        session.progress.tell("\(kind) \(name) was created: \(kinds) are not replicated")
      }
      return
    case .doubt:
      session.incoming.doubtRewrites()
      session.catalog.want()
    case .rewritten(let reasons):
      session.incoming.noteRewrite(
        of: message.relation, .init(reasons: reasons, tag: message.tag, mayCompute: message.mayCompute))
    case .dropped:
      guard try message.tag == "ALTER TABLE" || isGone(message.relation) else { return session.catalog.want() }
      if let known { try drop(known, message.text) }
    case .unpublished(let publication):
      guard publication == session.slotName, let known else { return }
      if known.refresh == nil {
        session.progress.tell(
          "table \(known.schema.fullName) was removed from the publication: copying it again")
      }
      copyAgain(known, notBefore: PostgresRegistry.Table.unpublished)
      session.catalog.want()
    case .shape(let table): try take(table, message, known)
    }
    session.catalog.noteReport()
  }

  private func isGone(_ relation: UInt32) throws -> Bool {
    guard let transaction = session.incoming.transaction?.xid else { return false }
    return try !session.source.isTable(relation, after: transaction)
  }

  private func take(_ given: PostgresTable, _ message: SchemaMessage, _ known: PostgresRegistry.Table?) throws {
    var table = given
    if session.options.goesBothWays { table.refuseLikeColumns() }
    let rewrite = session.incoming.takeRewrite(of: table.oid)
    let isOurs = session.options.tables.includes(table) && table.refusal?.isHarmless != true
    guard let known else {
      guard isOurs, table.refusal == nil else { return session.catalog.want() }
      // An apply that creates a table publishes it at once: the stream has every change of it.
      var isWhole = false
      if session.incoming.isApplied, let xid = session.incoming.transaction?.xid {
        isWhole = try session.source.isPublished(table.oid, since: xid)
      }
      try introduce(table, isWhole ? nil : .firstCopy, message.text, isPublished: isWhole)
      session.catalog.want()
      return session.showWaiting()
    }
    guard isOurs else { return try drop(known, message.text) }
    // As long as the table has no replica identity, the server refuses the application's own updates. It may get one
    // right away.
    if table.refusal != nil { session.catalog.want() }
    session.tables.note(table.oid, isUnsure: table.refusal?.isOfPartition == true)
    let word = RowFate.Word(
      isExact: true, mayCompute: message.mayCompute || rewrite?.mayCompute == true, rewrites: rewrite?.reasons ?? 0,
      isCreation: message.tag == "CREATE TABLE", isApplied: session.incoming.isApplied && !message.isHeir,
      isHeir: message.isHeir, text: message.text)
    if word.isCreation, known.partitions != table.partitions { session.incoming.notePartition(of: table.oid) }
    try alter(known, to: .init(table), table.details, word)
    if let refusal = table.refusal, refusal.isOfGenerated || refusal.isOfColumns { suspend(table.oid) }
    session.showWaiting()
  }

  // MARK: Event triggers

  func installTriggers() throws {
    let connection = session.source.connection
    do {
      try SchemaTriggers(connection: connection).install()
      session.catalog.note(hasTriggers: try MessageKey.read(.triggers, connection) != nil)
      guard !session.catalog.hasTriggers else { return }
      let role = try connection.first("SELECT current_user") ?? ""
      session.progress.tell(SchemaTriggers.unreadable(connection.place, role))
    } catch let error as PostgresError where !error.isServerGone {
      session.catalog.note(hasTriggers: false)
      session.progress.tell(SchemaTriggers.absence(connection.place, error.message))
    }
  }

  private func checkTriggers() throws {
    guard session.catalog.hasTriggers,
      try !SchemaTriggers(connection: session.source.connection).isComplete()
    else { return }
    session.catalog.note(hasTriggers: false)
    session.progress.tell(SchemaTriggers.absence(session.place, "they were dropped or disabled"))
  }

  // MARK: The catalog

  /// Does what is due for the catalog: reads it, compares it with the last reading, or writes its changes to the trail.
  /// Returns true if the catalog was read or its changes were written.
  func readCatalog() throws -> Bool {
    let now = Clock.monotonicMilliseconds
    do { return try readCatalog(now) } catch let error as PostgresError where error.isLockTimeout {
      // The stream continues meanwhile.
      session.catalog.postpone(now: now)
      return false
    }
  }

  private func readCatalog(_ now: Int64) throws -> Bool {
    let source = session.source
    switch session.catalog.next(now: now) {
    case .nothing: return false
    case .compare:
      let found = try source.connection.catalog(patience: PostgresCopier.patience) { try source.catalog.fingerprint() }
      session.catalog.compare(found, now: now, took: Clock.monotonicMilliseconds - now)
      return false
    case .read:
      let fingerprint = try source.catalog.fingerprint()
      var (tables, locked) = try source.connection.userTables(
        patience: PostgresCopier.patience, session.options.tables.includes)
      if session.options.goesBothWays { PostgresTable.refuseLookAlikes(&tables) }
      let took = Clock.monotonicMilliseconds - now
      session.catalog.wait(
        for: try session.emitBarrier(),
        .init(fingerprint: fingerprint, tables: tables, locked: locked, tookMilliseconds: took))
      return true
    case .adopt(let catalog):
      do { try adopt(catalog, now) } catch let error as PostgresError
        where error.sqlState.hasPrefix("42") && !error.isPrivilege
      {
        // A table has changed since the catalog was read.
        changedCount += 1
        if changedCount.nonzeroBitCount == 1, changedCount >= Self.changedCountReported {
          session.progress.tell("the tables changed \(changedCount) times while capture took them in: \(error)")
        }
        try session.abandon()
        session.catalog.noteReport()
      }
      return true
    }
  }

  private func adopt(_ catalog: CatalogWatch.Catalog, _ now: Int64) throws {
    try checkTriggers()
    var (tables, refused) = sort(catalog.tables)
    for table in tables where table.refusal == nil { session.tables.note(table.oid, isUnsure: false) }
    var refusals = Dictionary(uniqueKeysWithValues: refused.map { ($0.oid, wait(of: $0)) })
    var locked = try letGo(refused) + catalog.locked
    var published = try session.source.published() ?? []
    // New tables, and tables that another role removed: the changes to them since then are unknown.
    let missing = Set(tables.map(\.oid)).subtracting(published)
    if !missing.isEmpty {
      // Which tables must be copied is saved before they are published: a start after a crash sees them as published.
      try saveUnpublished(session.tables.all.filter { missing.contains($0.relation) })
      let failures = try session.source.publish(tables, isPatient: now >= patientAt)
      let isLocked = failures.values.contains { if case .locked = $0 { true } else { false } }
      if isLocked, now >= patientAt { patientAt = now + Self.patienceIntervalMilliseconds }
      published.formUnion(missing.subtracting(failures.keys))
      for table in tables {
        switch failures[table.oid] {
        case .forbidden(let error)?: refusals[table.oid] = wait(of: table, error)
        case .locked?: locked.append(table)
        case nil: break
        }
      }
      tables.removeAll { failures[$0.oid] != nil }
    }
    session.set(refusals, .refused)
    // If an apply created a table and published it at once, the stream has all its changes. A copy would send the other
    // nodes rows that they have, and rows that this node did not have yet.
    for table in tables
    where session.tables[table.oid] == nil && !missing.contains(table.oid) && !room.passedOver.contains(table.oid) {
      if try session.source.isPublishedByApply(table.oid) { try introduce(table, nil) }
    }
    let known = Set(session.tables.all.map(\.relation))
    let kept = Set(locked.map(\.oid)).union(refusals.keys)
    try announce(tables, keeping: kept, .firstCopy, copiesAll: false)
    let adopted = Set(tables.map(\.oid))
    let late = session.tables.all.filter { table in
      published.contains(table.relation) && adopted.contains(table.relation)
        && (missing.contains(table.relation) || table.copyNotBefore == PostgresRegistry.Table.unpublished
          || table.refresh != nil && !known.contains(table.relation))
    }
    if !late.isEmpty {
      // Open transactions may have written to the tables before these were published. All of them have a smaller number
      // than one assigned now. The end of a snapshot would not do: it is the number after the last ended transaction,
      // and larger ones may be running (procarray.c, GetSnapshotData).
      let xid = try session.source.connection.first("SELECT pg_current_xact_id()").flatMap { UInt64($0) } ?? 0
      for table in late {
        if known.contains(table.relation) {
          session.progress.tell(
            "the publication no longer covered every change of table \(table.schema.fullName): copying it again")
        }
        // The copy begins again even if chunks are in the trail: changes to the copied rows may be missing.
        copyAgain(table, notBefore: xid)
      }
    }
    try endAnnouncement()
    room = DefinitionRoom()
    try report(locked: locked, now)
    session.catalog.adopted(
      now: now, isWhole: locked.isEmpty, looksAgain: refusals.keys.contains { session.tables[$0] != nil })
    session.showWaiting()
  }

  /// Separates tables that can be captured from tables that must be suspended. Reports and leaves out unsupported
  /// tables, and new ones whose name another captured table has.
  private func sort(_ found: [PostgresTable]) -> (usable: [PostgresTable], refused: [PostgresTable]) {
    var (usable, refused): ([PostgresTable], [PostgresTable]) = ([], [])
    for table in found {
      guard let refusal = table.refusal else {
        usable.append(table)
        continue
      }
      let isCaptured = session.tables[table.oid] != nil
      if refusal.isHarmless || refusal.isOfName && !isCaptured && isTaken(table.schema, by: table.oid) {
        if session.catalog.isNews("\(table.oid) \(refusal.reason)") {
          let mend = refusal.mend.isEmpty ? "" : "; run: \(refusal.mend)"
          session.progress.tell("table \(table.displayName) is not captured: \(refusal.reason)\(mend)")
        }
      } else if refusal.isOfName, isCaptured, !hasLike(table.schema, besides: table.oid) {
        // If another table gets the same name, the capture of this one does not end.
        usable.append(table)
      } else {
        refused.append(table)
      }
    }
    return (usable, refused)
  }

  /// Suspends captured tables that can no longer be captured, and unpublishes them. Returns those that stay published,
  /// because another session keeps them locked.
  private func letGo(_ refused: [PostgresTable]) throws -> [PostgresTable] {
    let captured = refused.filter { session.tables[$0.oid] != nil }
    guard !captured.isEmpty else { return [] }
    for table in captured { suspend(table.oid) }
    // This is saved before the tables are unpublished: a start after a crash then knows that changes are missing.
    try session.saveTables()
    let published = try session.source.publication()?.tables ?? []
    return try captured.filter { table in
      guard published.contains(table.oid), let reason = try session.source.unpublish(table) else { return false }
      switch reason {
      case .locked: return true
      case .forbidden(let error):
        if session.catalog.isNews("\(table.oid) \(error.message)") {
          session.progress.tell("\(error.message); \(error.hint)")
        }
        return false
      }
    }
  }

  private func report(locked: [PostgresTable], _ now: Int64) throws {
    let present = Set(locked.map(\.oid))
    lockedSince = lockedSince.filter { present.contains($0.key) }
    for table in locked where lockedSince[table.oid] == nil { lockedSince[table.oid] = now }
    let late = locked.filter { now - (lockedSince[$0.oid] ?? now) > Self.lockReportMilliseconds }
    guard !late.isEmpty else { return session.set([:], .locked) }
    let holders = try session.source.catalog.lockHolders(of: late.map(\.oid))
    let waits = late.map { table in
      let holder = holders[table.oid]
      return (
        table.oid,
        TableWait(
          table: table.displayName, code: .databaseBusy,
          message:
            "\(session.place): \(holder.map(\.description) ?? "another session") keeps table \(table.displayName) locked: whether it is new or was altered is seen after that",
          hint: holder?.hint ?? "see pg_locks")
      )
    }
    session.set(Dictionary(uniqueKeysWithValues: waits), .locked)
  }

  private func saveUnpublished(_ tables: [PostgresRegistry.Table]) throws {
    guard !tables.isEmpty else { return }
    for table in tables { session.tables.suspend(table.relation) }
    try session.saveTables()
  }

  /// Returns the tables that can be captured, and suspends the others.
  func usable(_ found: [PostgresTable]) -> [PostgresTable] {
    let (usable, refused) = sort(found)
    for table in refused { suspend(table.oid) }
    return usable
  }

  func endAnnouncement() throws {
    guard session.isTrailOpen else { return }
    try session.endTransaction()
    try session.sync()
  }
}
