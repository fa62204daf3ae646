import Changes
import PostgresKit
import SystemKit
import Trails

/// Follows the tables of the source: schema changes that the stream reports, and those that only the catalog shows.
/// ``KnownTables`` decides what they mean for the trail, and ``CatalogWatch`` when the catalog is read.
final class TableTracker {
  private let session: CaptureSession

  init(_ session: CaptureSession) { self.session = session }

  // MARK: Changes

  /// Writes every difference between the tables that the trail knows and `tables`. New tables, and tables whose rows
  /// may have changed unseen, are to be copied for `reason`.
  func announce(_ tables: [PostgresTable], _ reason: Refresh.Reason?, copiesAll: Bool = true) throws {
    let present = Set(tables.map(\.oid))
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
    try session.openTransaction()
    try session.append(session.tables.drop(table, text))
  }

  private func introduce(
    _ table: PostgresTable, _ refresh: Refresh.Reason?, _ text: String = "", isPublished: Bool = true
  ) throws {
    guard !isTaken(table.schema, by: table.oid) else { return session.catalog.want() }
    try session.openTransaction()
    try session.append(session.tables.introduce(.init(table), refresh, text, isPublished: isPublished))
  }

  /// Records a table in another shape than before. If the reader cannot derive the new rows from the rows that it has,
  /// the table is copied again.
  private func alter(
    _ known: PostgresRegistry.Table, to given: PostgresRegistry.Table, _ details: [PostgresTable.Detail],
    _ word: RowFate.Word
  ) throws {
    guard let alteration = KnownTables.Alteration(known, to: given, details, word) else { return }
    if isTaken(given.schema, by: known.relation) { return try drop(known, word.text) }
    if alteration.restartsRefresh { session.refreshes.restart(known.relation) }
    guard alteration.hasOtherShape else { return session.tables.set(alteration.fresh) }
    try session.openTransaction()
    let change = session.tables.alter(alteration)
    if let epoch = session.tables[known.relation]?.epoch { session.refreshes.follow(known.relation, epoch: epoch) }
    try session.append(change)
  }

  /// Returns whether a captured table of another schema has the same full name, as a dot is part of one of them. The
  /// trail would not distinguish their rows.
  private func isTaken(_ schema: TableSchema, by relation: UInt32) -> Bool {
    session.tables.all.contains {
      $0.relation != relation && $0.schema.fullName.hasSameBytes(as: schema.fullName)
        && !$0.schema.namespace.hasSameBytes(as: schema.namespace)
    }
  }

  /// Copies a table again, of which changes may be missing.
  private func copyAgain(_ table: PostgresRegistry.Table, notBefore: UInt64? = nil) {
    var table = table
    table.refresh = table.refresh ?? .lostChanges
    if let notBefore { table.copyNotBefore = notBefore }
    session.tables.set(table)
    session.refreshes.restart(table.relation)
  }

  // MARK: The stream

  /// Returns the form of a table that the stream describes. A shape that the trail does not know is written to the
  /// trail first.
  func capture(_ relation: PgOutput.Relation) throws -> Captured {
    guard let known = try session.tables[relation.id] ?? introduced(relation) else {
      return Captured(ignored: relation.id)
    }
    if !known.isDescribed(by: relation) {
      let table = try session.source.catalog.table(relation.id)
      var shape = try table.map { .init($0) } ?? session.source.catalog.shape(of: relation)
      if !shape.isDescribed(by: relation) { shape = try session.source.catalog.shape(of: relation) }
      if let table, let refusal = table.refusal, !refusal.isHarmless {
        throw session.source.catalog.refuse(table, refusal)
      }
      session.catalog.noteReport()
      session.catalog.want()
      try alter(known, to: shape, [], .found)
    }
    return session.tables.form(of: relation, isBeingCopied: session.refreshes.isCurrent(relation.id))
      ?? Captured(ignored: relation.id)
  }

  /// Introduces an apply's table that no event trigger has reported, because the role is no superuser. Returns nil for
  /// any other table.
  private func introduced(_ relation: PgOutput.Relation) throws -> PostgresRegistry.Table? {
    guard let table = try session.source.catalog.table(relation.id), session.options.tables.includes(table),
      table.refusal == nil, try session.source.isPublishedByApply(relation.id)
    else { return nil }
    try introduce(table, nil)
    return session.tables[relation.id]
  }

  /// Returns whether the stream has enough of an old row. If not, the table is copied again, once its partitions log
  /// enough.
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

  /// Takes a schema change that an event trigger reports, at its place in the stream.
  func take(_ message: SchemaMessage) throws {
    let known = session.tables[message.relation]
    switch message.event {
    case .made(let kind, let name):
      if session.catalog.isNews("\(kind) \(name)") {
        let kinds = kind.hasSuffix("y") ? kind.dropLast() + "ies" : kind + "s"
        session.progress.tell("\(kind) \(name) was created: \(kinds) are not replicated")
      }
      return
    case .doubt: session.catalog.want()
    case .rewritten(let reason): session.incoming.noteRewrite(of: message.relation, reason)
    case .dropped:
      guard try message.tag == "ALTER TABLE" || isGone(message.relation) else { return session.catalog.want() }
      if let known { try drop(known, message.text) }
    case .unpublished(let publication):
      guard publication == session.slotName, let known else { return }
      if known.refresh == nil {
        session.progress.tell(
          "table \(known.schema.fullName) was taken out of the publication: copying it again")
      }
      copyAgain(known, notBefore: PostgresRegistry.Table.unpublished)
      session.catalog.want()
    case .shape(let table): try take(table, message, known)
    }
    session.catalog.noteReport()
  }

  /// Returns whether a table no longer exists: objects that a command dropped are missing in the catalog after its
  /// commit.
  private func isGone(_ relation: UInt32) throws -> Bool {
    guard let transaction = session.incoming.transaction?.xid else { return false }
    return try !session.source.isTable(relation, after: transaction)
  }

  private func take(_ table: PostgresTable, _ message: SchemaMessage, _ known: PostgresRegistry.Table?) throws {
    let rewrites = session.incoming.takeRewrites(of: table.oid)
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
      isExact: true, mayCompute: message.mayCompute, rewrites: rewrites, isCreation: message.tag == "CREATE TABLE",
      isApplied: session.incoming.isApplied, text: message.text)
    try alter(known, to: .init(table), table.details, word)
    session.showWaiting()
  }

  // MARK: Event triggers

  /// Creates the event triggers if they are missing, and reports once if that is impossible.
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

  /// Reports if the event triggers were dropped or disabled.
  private func checkTriggers() throws {
    guard session.catalog.hasTriggers,
      try !SchemaTriggers(connection: session.source.connection).isComplete()
    else { return }
    session.catalog.note(hasTriggers: false)
    session.progress.tell(SchemaTriggers.absence(session.place, "they were dropped or disabled"))
  }

  // MARK: The catalog

  /// Reports the tables that cannot be captured. Throws `table-refused` as
  /// ``PostgresCatalog/capturableTables(_:known:)`` does.
  func reportRefusals() throws {
    for table in try session.source.catalog.tables(session.options.tables) {
      if let refusal = table.refusal, refusal.isHarmless {
        session.progress.tell("table \(table.displayName) is not captured: \(refusal.reason)")
      }
    }
    _ = try session.source.catalog.capturableTables(session.options.tables, known: session.tables)
  }

  /// Takes one step of comparing the catalog; returns whether it adopted something.
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
      let catalog = try source.connection.catalog(patience: PostgresCopier.patience) {
        CatalogWatch.Catalog(
          fingerprint: try source.catalog.fingerprint(),
          tables: try source.connection.userTables(session.options.tables.includes))
      }
      session.catalog.wait(for: try session.emitBarrier(), catalog)
      return true
    case .adopt(let catalog):
      do { try adopt(catalog.tables) } catch let error as PostgresError
        where error.sqlState.hasPrefix("42") && !error.isPrivilege
      {
        // A table has changed since the catalog was read.
        try session.abandon()
        session.catalog.noteReport()
        return true
      }
      session.catalog.adopted(now: now)
      return true
    }
  }

  /// Brings publication and trail in step with the existing tables.
  private func adopt(_ found: [PostgresTable]) throws {
    try checkTriggers()
    var tables = try found.filter(canCapture)
    var published = try session.source.published() ?? []
    // New tables, and tables that another role took out: the changes to them since then are unknown.
    let missing = Set(tables.map(\.oid)).subtracting(published)
    if !missing.isEmpty {
      do {
        // After a crash between the two, the next start sees published tables: what must be copied is saved before.
        try saveUnpublished(session.tables.all.filter { missing.contains($0.relation) })
        _ = try session.source.publish(tables)
        published.formUnion(missing)
      } catch let error as CairnError where error.code == .privilegeMissing {
        try waitForPublication(session.tables.all.filter { missing.contains($0.relation) }, error)
        session.progress.tell("\(error.message); \(error.hint)")
        tables.removeAll { missing.contains($0.oid) }
      }
    }
    // If an apply created a table and published it at once, the stream has all its changes. A copy would send the other
    // nodes rows that they have, and rows that this node did not have yet.
    for table in tables where session.tables[table.oid] == nil && !missing.contains(table.oid) {
      if try session.source.isPublishedByApply(table.oid) { try introduce(table, nil) }
    }
    let known = Set(session.tables.all.map(\.relation))
    try announce(tables, .firstCopy, copiesAll: false)
    let late = session.tables.all.filter { table in
      published.contains(table.relation)
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
            "not every change of table \(table.schema.fullName) was published any more: copying it again")
        }
        // Also if chunks are in the trail: changes to rows before the cursor may be missing.
        copyAgain(table, notBefore: xid)
      }
    }
    try endAnnouncement()
  }

  /// Returns whether a table can be captured, and reports one that cannot be. Throws `table-refused` for a captured
  /// table that no longer can be.
  private func canCapture(_ table: PostgresTable) throws -> Bool {
    guard let refusal = table.refusal else { return true }
    guard !refusal.isHarmless else { return false }
    // Whoever gives another table the same name does not end the capture of this one.
    if refusal.isOfName, session.tables[table.oid] != nil { return true }
    if session.tables[table.oid] != nil, let now = try session.source.catalog.table(table.oid)?.refusal, !now.isHarmless
    {
      throw session.source.catalog.refuse(table, now)
    }
    if session.catalog.isNews("\(table.oid) \(refusal.reason)") {
      session.progress.tell(
        "table \(table.displayName) is not captured: \(refusal.reason); run: \(refusal.mend)")
    }
    return false
  }

  /// Marks tables that are captured but not completely published, and throws: this role may not fix the publication.
  /// After another role has fixed it, the tables are copied again.
  private func waitForPublication(_ tables: [PostgresRegistry.Table], _ error: CairnError) throws {
    guard let first = tables.first else { return }
    try saveUnpublished(tables)
    throw CairnError(
      .privilegeMissing,
      "not every change of table \(first.schema.fullName) is published any more\(tables.count > 1 ? ", nor of \(tables.count - 1) others" : ""), and that cannot be mended: \(error.message)",
      hint: error.hint, context: ["table": first.schema.fullName])
  }

  /// Saves that tables are captured but not completely published: once they are, they are copied again.
  private func saveUnpublished(_ tables: [PostgresRegistry.Table]) throws {
    guard !tables.isEmpty else { return }
    for var table in tables {
      table.refresh = table.refresh ?? .lostChanges
      table.copyNotBefore = PostgresRegistry.Table.unpublished
      session.tables.set(table)
    }
    try session.saveTables()
  }

  /// Ends the transaction of the trail that a change of tables began, if it had something to write.
  private func endAnnouncement() throws {
    guard session.isTrailOpen else { return }
    try session.endTransaction()
    try session.sync()
  }
}
