import Changes
import PostgresKit
import SystemKit
import Trails

// The start, and each new connection: the server continues where the trail ends, or the capture begins with a new slot.
extension PostgresCapture {
  func start() throws {
    let (trail, clock) = (session.trail, session.clock)
    guard trail.lastHeader != nil else { return try begin(.firstCopy) }
    if session.slot.position.knowledge.hasUnnamed {
      session.slot.nameKnowledge(by: try session.source.applied(clock: UInt64(clamping: clock.microseconds())))
    }
    try resume(copiesAgain: session.options.copiesAgain)
    session.refreshes.restart(session.tables)
    try refresher.beginAwaitedCopies()
  }

  func reconnect(_ stop: StopSignal) throws {
    let connection = try session.connect()
    connection.interrupt = stop.descriptor
    session.source = PostgresSource(connection, uri: session.uri, trail: session.trail.id)
    session.replication = try PostgresConnection(
      session.uri, purpose: .replication, application: PostgresSource.application(session.slotName))
    session.replication.interrupt = stop.descriptor
    try readKeys()
    try resume(copiesAgain: false)
  }

  /// Publishes the tables, creates a new slot, and begins the capture at the start of the slot.
  private func begin(_ reason: Refresh.Reason) throws {
    let (source, options, trail) = (session.source, session.options, session.trail.name.description)
    let identity = try PostgresSource.identity(session.replication)
    var found = try source.unlockedTables(options.tables, tell: session.progress.tell)
    if options.goesBothWays { PostgresTable.refuseLookAlikes(&found) }
    // A capture that has a trail goes on without a table that its owner altered.
    let tables = try session.trail.lastHeader == nil ? source.catalog.capturable(found) : tracker.usable(found)
    let kept = Set(found.map(\.oid)).subtracting(tables.map(\.oid))
    guard !tables.isEmpty || !options.needsTables else {
      throw CairnError(
        .noTables, "\(session.place) has no table that can be captured",
        hint: "create a table first, or check the patterns of 'tables' (--tables)", remedy: .badInput)
    }
    try source.publishFirst(tables, tell: session.progress.tell)
    try source.dropSlot()
    session.slot.note(streamTime: try source.time())
    let (start, snapshot) = try source.createSlot(session.replication, tell: session.progress.tell)
    let notes = try source.applied(asOf: snapshot, clock: UInt64(clamping: session.clock.microseconds()))
    session.slot.begin(
      at: start, system: identity.system, timeline: identity.timeline,
      notes: notes.filter { $0.trail != trail && options.leavesOut($0.trail) })
    session.refreshes.restartAll()
    try session.openTransaction()
    // From here on the slot has every change.
    try tracker.announce(tables, keeping: kept, reason == .firstCopy && !options.copiesRows ? nil : reason)
    try session.endTransaction()
    try session.sync()
  }

  /// Continues with an existing slot. Throws if the server lacks changes that the trail has.
  private func resume(copiesAgain: Bool) throws {
    let source = session.source
    let identity = try PostgresSource.identity(session.replication)
    if let how = try Self.departure(of: session.slot, identity, session.replication) { throw session.wentBack(how) }
    session.slot.follow(identity.timeline)
    let slot = try source.slot()
    let loss = session.slot.loss(
      of: slot, hasPublication: try source.published() != nil,
      database: try source.connection.first("SELECT current_database()") ?? "")
    if let loss {
      guard copiesAgain, loss.canBeReplaced else { throw session.lost(loss) }
      return try begin(.asked)
    }
    if let how = try Self.shortage(of: session.slot, source) { throw session.wentBack(how) }
    if let slot { session.slot.resume(confirmed: slot.confirmed) }
    if copiesAgain { try copyAll() }
  }

  private func copyAll() throws {
    for var table in session.tables.all {
      table.refresh = .asked
      session.tables.set(table)
    }
    session.refreshes.restartAll()
    try session.saveTables()
  }
}
