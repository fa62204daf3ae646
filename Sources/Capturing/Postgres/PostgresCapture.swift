import Changes
import PostgresKit
import SystemKit
import Trails

/// Captures one PostgreSQL database into a trail: by logical slot, `pgoutput` and refresh (`docs/postgres-capture.md`).
///
/// One blocking worker on one thread. A transaction of the source is one of the trail. The slot is confirmed only up to
/// what the trail has synced, and only to positions that stand in the trail.
package final class PostgresCapture {
  package struct Options: Sendable {
    package var tables = TablePatterns()
    /// The state folder: what is known of the tables is kept there.
    package var place = ""
    /// Every table is copied again, and a lost slot is made anew.
    package var copiesAgain = false
    package init() {}
  }

  /// The transaction whose messages are coming in.
  struct Incoming {
    var transaction: PostgresPosition.Transaction
    /// In the trail already, or ours.
    var isSkipped: Bool
    /// Nothing of it was seen but its begin, and messages.
    var isFresh = true
    /// What a barrier of ours says; nil for all others.
    var barrier: String?
    /// Somebody waits until the trail tells that it has come this far.
    var wantsProgress = false
  }

  let uri: String
  let options: Options
  let trail: TrailWriter
  let clock: Clock
  let progress: CaptureProgress
  let slotName: String
  var source: PostgresSource
  private var replication: PostgresConnection
  var stream: ReplicationStream?
  var registry: PostgresRegistry
  /// As the trail's last whole transaction left it.
  private var committedRegistry: PostgresRegistry
  var isRegistrySaved = true
  var position: PostgresPosition

  /// Of log that the server keeps for us without need.
  private static let distanceBytesMax: UInt64 = 16 << 20

  // Of one connection
  var relations: [UInt32: PgOutput.Relation] = [:]
  var captured: [UInt32: Captured] = [:]
  var incoming: Incoming?
  var isTrailOpen = false
  var hasUnsynced = false
  /// Every transaction that committed before has been dealt with.
  private(set) var received = LSN(0)
  private var confirmed = LSN(0)
  /// Must come again before anything newer does.
  private var expected: PostgresPosition.Transaction?
  var reportedAt: Int64 = 0
  private var syncedAt: Int64 = 0
  private var progressAt: Int64 = 0

  // Copying
  var copier: PostgresCopier?
  var chunk: PostgresChunk?
  var wantedRows: [(relation: UInt32, key: [String])] = []
  var copyNotBefore: Int64 = 0
  var requests: PostgresRequests
  /// Tables of which rows were asked for: the start is in the trail, the end is not.
  var repairing: Set<UInt32> = []
  private var committedRepairing: Set<UInt32> = []
  private var barrierNumber = 0
  /// What the barrier says behind which everything was committed before the run began.
  private var goal: String?
  var look = SchemaLook()
  private var isConnected = true
  var sequences: [String: Int64] = [:]
  var sequencesAt: Int64 = 0
  var hasChangedSinceSequences = true

  private var image = ByteWriter()
  var record = ByteWriter()

  // MARK: Opening

  /// Connects, makes publication and slot where there are none, and proves that the server is where the trail ends.
  ///
  /// Errors: what ``PostgresError`` maps to; `server-setting`, `privilege-missing`, `table-refused`, `slot-lost`,
  /// `source-went-back`.
  package init(
    uri: String, trail: TrailWriter, options: Options, clock: Clock = .system, progress: CaptureProgress = .init()
  ) throws {
    (self.uri, self.trail, self.options, self.clock, self.progress) = (uri, trail, options, clock, progress)
    slotName = PostgresSource.name(of: trail.id)
    let application = PostgresSource.application(slotName)
    let connection = try PostgresConnection(uri, application: application)
    source = PostgresSource(connection, uri: uri, trail: trail.id)
    let stored = try trail.lastHeader.map { try PostgresPosition(decoding: $0.sourcePosition) }
    try PostgresSource.check(connection, needsSlot: stored == nil)
    replication = try PostgresConnection(uri, purpose: .replication, application: application)
    registry = try PostgresRegistry(folder: options.place)
    requests = try PostgresRequests(folder: options.place)
    committedRegistry = registry
    let identity = try PostgresSource.identity(replication)
    position = stored ?? PostgresPosition(system: identity.system, timeline: identity.timeline, reached: LSN(0))
    if stored == nil {
      try beginAnew(.firstCopy)
    } else {
      try resume(identity.system, copiesAgain: options.copiesAgain)
      forgetUnfinishedCopy()
    }
    try tellOfRefusals()
  }

  /// Publication first, then the slot: a slot does not know publications that came after it.
  private func beginAnew(_ reason: Refresh.Reason) throws {
    let identity = try PostgresSource.identity(replication)
    let tables = try wantedTables()
    guard !tables.isEmpty else {
      throw CairnError(
        .noTables, "\(source.connection.place) has no table that could be captured",
        hint: "create a table first, or look at --tables", remedy: .badInput)
    }
    _ = try source.publish(tables)
    try source.dropSlot()
    let start = try source.createSlot(replication, tell: progress.tell)
    position = PostgresPosition(system: identity.system, timeline: identity.timeline, reached: start)
    received = start
    _ = try trail.begin(TransactionHeader(commitTime: clock.microseconds(), flags: [.late]))
    isTrailOpen = true
    try announce(tables, reason)
    try endTransaction()
    try sync()
  }

  /// Ends what ``announce(_:_:copiesAll:)`` began, if it had anything to tell.
  func endAnnouncement() throws {
    guard isTrailOpen else { return }
    try endTransaction()
    try sync()
  }

  private func resume(_ system: UInt64, copiesAgain: Bool) throws {
    let place = source.connection.place
    guard system == position.system else {
      throw Self.wentBack(place, "it is another cluster, \(system)")
    }
    guard let slot = try source.slot(), !slot.isLost else {
      if copiesAgain { return try beginAnew(.asked) }
      throw CairnError(
        .slotLost,
        "\(place): slot \(slotName) \(try source.slot() == nil ? "is gone" : "was invalidated by the server")",
        hint: "run again with --existing overwrite: a new slot is made and every table is copied again")
    }
    guard try source.published() != nil else {
      if copiesAgain { return try beginAnew(.asked) }
      throw publicationLost()
    }
    let here = try source.connection.first("SELECT current_database()") ?? ""
    guard slot.database == here, slot.plugin == "pgoutput" else {
      throw CairnError(
        .slotLost, "\(place): slot \(slotName) is one of database \(slot.database) with plugin \(slot.plugin)",
        hint: "look who made it; run again with --existing overwrite once it is gone")
    }
    guard slot.confirmed <= position.reached else {
      if copiesAgain { return try beginAnew(.asked) }
      throw CairnError(
        .slotLost,
        "\(place): slot \(slotName) was moved on to \(slot.confirmed), the trail ends at \(position.reached)",
        hint: "run again with --existing overwrite: a new slot is made and every table is copied again")
    }
    let current = try source.connection.first("SELECT pg_current_wal_lsn()").flatMap { LSN($0) } ?? LSN(0)
    guard current >= position.reached else {
      throw Self.wentBack(place, "its WAL ends at \(current), the trail at \(position.reached)")
    }
    expected = position.last.flatMap { slot.confirmed <= $0.commit ? $0 : nil }
    received = position.reached
    confirmed = slot.confirmed
    if copiesAgain { try askForCopies() }
  }

  /// A stream looks it up as it was at each moment of the log: one that is made again does not help.
  private func publicationLost() -> CairnError {
    CairnError(
      .slotLost, "\(source.connection.place): publication \(slotName) is gone",
      hint: "run again with --existing overwrite: publication and slot are made anew and every table is copied again")
  }

  private static func wentBack(_ place: String, _ how: String) -> CairnError {
    CairnError(
      .sourceWentBack, "the source \(place) is not where the trail ends: \(how)",
      hint: "it was restored or replaced; replicate into a new --state with --existing overwrite")
  }

  /// A copy goes on by its cursor; one of a table without key, or that wants rows that nobody remembers, begins anew. So
  /// does one that is done and yet wanted.
  private func forgetUnfinishedCopy() {
    guard let refresh = position.refresh else { return }
    let table = registry.tables[refresh.relation]
    if refresh.isDone || table?.epoch != refresh.epoch || table?.isKeyed != true || refresh.wantsRows
      || table?.refresh == nil
    {
      position.refresh = nil
    }
  }

  private func askForCopies() throws {
    for var table in registry.tables.values {
      table.refresh = .asked
      registry.set(table)
    }
    position.refresh = nil
    isRegistrySaved = false
    settleRegistry()
    try saveRegistry()
  }

  // MARK: Running

  /// Takes what the source commits until `stop` is set; with `untilCaughtUp`, until everything that was committed
  /// before the call is in the trail and every table is copied. A server that goes away is waited for; with
  /// `untilCaughtUp`, for a minute.
  package func run(stop: StopSignal, untilCaughtUp: Bool) throws {
    var failures = 0
    var goneSince: Int64 = 0
    while !stop.isSet {
      do {
        if !isConnected { try reconnect(stop) }
        if failures > 0 { progress.tell("connected to \(source.connection.place) again") }
        failures = 0
        try follow(stop, untilCaughtUp: untilCaughtUp)
        return
      } catch let error as PostgresError where error.sqlState == "42704" && error.sql.hasPrefix("START_REPLICATION") {
        throw publicationLost()
      } catch let error as PostgresError where error.isServerGone || (error.isCancelled && stop.isSet) {
        try disconnect()
        if stop.isSet { return }
        let now = Clock.monotonicMilliseconds
        if failures == 0 {
          goneSince = now
          progress.tell("lost \(error.place) (\(error.message)): connecting again")
        }
        failures += 1
        if untilCaughtUp, now - goneSince > 60_000 { throw error }
        let most = min(100 << min(failures, 6), 5000)
        _ = stop.wait(milliseconds: Int32(most / 2 + Int(clock.microseconds() % Int64(most / 2 + 1))))
      }
    }
  }

  /// Drops what was under way; the trail keeps whole transactions only.
  private func disconnect() throws {
    stream = nil
    // A server that shuts down waits for a stream that nobody reads.
    replication.cut()
    source.connection.cut()
    try abandon()
    if hasUnsynced { try sync() }
    copier = nil
    chunk = nil
    incoming = nil
    isConnected = false
    wantedRows = []
    if position.refresh?.wantsRows == true { position.refresh = nil }
    if let refresh = position.refresh, registry.tables[refresh.relation]?.isKeyed != true { position.refresh = nil }
  }

  func abandon() throws {
    guard isTrailOpen else { return }
    try trail.abandon()
    isTrailOpen = false
    // What the dropped transaction would have told of the tables is still to be told.
    registry = committedRegistry
    repairing = committedRepairing
    captured = [:]
  }

  private func reconnect(_ stop: StopSignal) throws {
    let application = PostgresSource.application(slotName)
    let connection = try PostgresConnection(uri, application: application)
    connection.interrupt = stop.descriptor
    source = PostgresSource(connection, uri: uri, trail: trail.id)
    replication = try PostgresConnection(uri, purpose: .replication, application: application)
    replication.interrupt = stop.descriptor
    try resume(PostgresSource.identity(replication).system, copiesAgain: false)
    isConnected = true
  }

  /// One connection's life.
  private func follow(_ stop: StopSignal, untilCaughtUp: Bool) throws {
    source.connection.interrupt = stop.descriptor
    replication.interrupt = stop.descriptor
    try source.connection.execute(
      "SET statement_timeout = 0; SET lock_timeout = 0; SET synchronous_commit = on; SET row_security = off")
    try source.endOwnStream()
    relations = [:]
    captured = [:]
    let stream = try ReplicationStream(replication, slot: slotName, publication: slotName)
    self.stream = stream
    look = SchemaLook()
    goal = try emitBarrier()
    while !stop.isSet {
      switch try stream.next(milliseconds: canSync ? 0 : idleMilliseconds, interrupt: stop.descriptor) {
      case .data(let bytes): try take(PgOutput(bytes))
      case .keepalive(let end, let wantsReply):
        if incoming == nil {
          try reach(end)
          // A server that shuts down asks until everything that it sent has been confirmed.
          try appendProgressInTime(isDue: wantsReply)
        }
        if wantsReply { try report() }
      case .nothing:
        if canSync { try sync() }
        if incoming == nil, try rest(), untilCaughtUp, isFinished { break }
      }
      if untilCaughtUp, isFinished { break }
      try reportInTime()
    }
    try finish()
  }

  private var canSync: Bool { hasUnsynced && !isTrailOpen }

  private var idleMilliseconds: Int32 {
    chunk == nil && hasCopies || look.isPending ? 5 : 1000
  }

  var hasCopies: Bool {
    !wantedRows.isEmpty || !requests.isEmpty || registry.tables.values.contains { $0.refresh != nil }
  }

  private var isFinished: Bool {
    goal == nil && chunk == nil && incoming == nil && !hasUnsynced && !hasCopies && look.isDone
  }

  private func finish() throws {
    try abandon()
    incoming = nil
    chunk = nil
    copier?.close()
    try appendSequences(isLast: true)
    if received > position.reached { try appendProgress() }
    try sync()
    try saveRegistry()
    try report()
    stream = nil
    isConnected = false
  }

  /// In a quiet moment: begins a chunk, looks at the catalog, moves the slot on. True when there was nothing to do.
  private func rest() throws -> Bool {
    if chunk == nil, hasCopies {
      try beginChunk()
      if chunk != nil { return false }
    }
    if try lookAtCatalog() { return false }
    if chunk == nil {
      try appendSequences(isLast: false)
      try appendProgressInTime(isDue: false)
    }
    progress.update { $0.isCaughtUp = self.isFinished }
    return true
  }

  // MARK: The stream

  private func take(_ message: PgOutput) throws {
    switch message {
    case .begin(let commit, let time, let xid):
      if let chunk, !chunk.isPlaced, !chunk.snapshot.shows(xid) { try placeChunk() }
      if let chunk, chunk.isPlaced, chunk.snapshot.shows(xid) { self.chunk?.isRaced = true }
      let transaction = PostgresPosition.Transaction(commit: commit, xid: xid, time: time)
      try checkExpected(transaction)
      let isSkipped = commit < position.reached
      incoming = Incoming(transaction: transaction, isSkipped: isSkipped)
    case .origin(let name):
      // What our apply writes here started elsewhere.
      if name.hasPrefix("cairn_") { incoming?.isSkipped = true }
    case .message(let isTransactional, let prefix, let content):
      guard isTransactional else { return }
      if prefix == Self.barrierPrefix { incoming?.barrier = String(decoding: content, as: UTF8.self) }
      if prefix == PostgresRequests.prefix, incoming?.isSkipped == false { try takeRequest(content) }
      if prefix == Self.progressPrefix { incoming?.wantsProgress = true }
      if prefix == "cairn", incoming?.isFresh == true { incoming?.isSkipped = true }
    case .relation(let relation):
      relations[relation.id] = relation
      captured[relation.id] = nil
    case .type: break
    case .insert(let id, let new):
      guard let table = try table(id) else { return }
      image.removeAll()
      try new.appendImage(to: &image, scratch: &record)
      try append(.insert, [.after], table)
    case .update(let id, let old, let new):
      guard let table = try table(id) else { return }
      image.removeAll()
      if let old { try appendOld(old, table) }
      try new.appendImage(to: &image, scratch: &record)
      try append(.update, old == nil ? [.after] : [.before, .after], table)
      if case .key? = old, try new.hasUnchanged() { try wantRow(of: table, new) }
    case .delete(let id, let old):
      guard let table = try table(id) else { return }
      image.removeAll()
      try appendOld(old, table)
      try append(.delete, [.before], table)
    case .truncate(let ids):
      for id in ids {
        guard let table = try table(id) else { continue }
        image.removeAll()
        try append(.truncate, [], table)
      }
    case .commit(_, let end, _): try endIncoming(end)
    }
  }

  /// A server that was restored from a backup does not send again what it no longer has.
  private func checkExpected(_ transaction: PostgresPosition.Transaction) throws {
    guard let expected, transaction.commit >= expected.commit else { return }
    guard transaction == expected else {
      throw Self.wentBack(
        source.connection.place, "its transaction at \(expected.commit) is not the one that the trail has")
    }
    self.expected = nil
  }

  private func appendOld(_ old: PgOutput.OldTuple, _ table: Captured) throws {
    switch old {
    case .key(let tuple): try tuple.appendImage(to: &image, scratch: &record, given: table.isKey)
    case .full(let tuple): try tuple.appendImage(to: &image, scratch: &record)
    }
  }

  /// The table of a change that belongs into the trail; nil for one that does not.
  private func table(_ id: UInt32) throws -> Captured? {
    guard let incoming, !incoming.isSkipped else { return nil }
    self.incoming?.isFresh = false
    if let known = captured[id] { return known.isWanted ? known : nil }
    guard let relation = relations[id] else {
      throw DecodingError(offset: 0, problem: "a change of relation \(id), which was not described")
    }
    let made = try capture(relation)
    captured[id] = made
    return made.isWanted ? made : nil
  }

  private func append(_ operation: Operation, _ flags: ChangeFlags, _ table: Captured) throws {
    try openTransaction()
    let id = try trail.schemaID(table.schema, token: table.epoch)
    record.removeAll()
    record.append(operation.rawValue)
    record.append(flags.rawValue)
    record.appendVarint(id)
    record.append(image.bytes)
    try trail.append(kind: RecordKind.change, record.bytes)
    progress.update { $0.changes += 1 }
  }

  /// Begins the trail's transaction when something of the incoming one belongs into it.
  func openTransaction() throws {
    guard !isTrailOpen else { return }
    var header = TransactionHeader(commitTime: clock.microseconds(), flags: [.late])
    if let incoming { header = TransactionHeader(commitTime: incoming.transaction.time) }
    _ = try trail.begin(header)
    isTrailOpen = true
  }

  private func endIncoming(_ end: LSN) throws {
    guard let transaction = incoming?.transaction else { return }
    let barrier = incoming?.barrier
    let wantsProgress = incoming?.wantsProgress == true
    incoming = nil
    if isTrailOpen {
      position.last = transaction
      position.reached = end
      hasChangedSinceSequences = true
      try endTransaction()
    }
    if let barrier, barrier == goal { goal = nil }
    if let barrier { look.reached(barrier) }
    try reach(end)
    if wantsProgress { try appendProgressInTime(isDue: true) }
    if hasUnsynced, Clock.monotonicMilliseconds - syncedAt > 50 { try sync() }
  }

  /// Every transaction that committed before `end` has been dealt with.
  private func reach(_ end: LSN) throws {
    if end > received { received = end }
    guard let chunk, received >= chunk.end else { return }
    if !chunk.isPlaced { try placeChunk() }
    try endChunk()
  }

  func endTransaction() throws {
    // Also what was left out, since a chunk shows it, is not to come again behind that chunk.
    if incoming == nil { position.reached = max(position.reached, received) }
    if let refresh = position.refresh {
      position.refresh?.wantsRows = wantedRows.contains { $0.relation == refresh.relation }
    }
    record.removeAll()
    record.appendCounted(position.encoded)
    record.appendZigzag(clock.microseconds())
    try trail.append(kind: RecordKind.progress, record.bytes)
    try trail.commit()
    isTrailOpen = false
    hasUnsynced = true
    settleRegistry()
    progress.update { $0.transactions += 1 }
  }

  /// Keeps the slot moving where nothing of what the server logs is ours.
  private func appendProgressInTime(isDue: Bool) throws {
    guard received > position.reached, incoming == nil, !isTrailOpen else { return }
    let isFar = received.value - position.reached.value > Self.distanceBytesMax
    guard isDue || isFar || Clock.monotonicMilliseconds - progressAt > 10_000 else { return }
    try appendProgress()
    try sync()
  }

  private func appendProgress() throws {
    try openTransaction()
    try endTransaction()
  }

  func sync() throws {
    try trail.sync()
    hasUnsynced = false
    syncedAt = Clock.monotonicMilliseconds
    progressAt = syncedAt
    try saveRegistry()
    confirmed = max(confirmed, position.reached)
    if stream != nil { try report() }
  }

  func saveRegistry() throws {
    guard !isRegistrySaved else { return }
    try registry.save()
    isRegistrySaved = true
  }

  func registryChanged() { isRegistrySaved = false }

  /// What is known of the tables holds also when a transaction of the trail is dropped.
  func settleRegistry() { (committedRegistry, committedRepairing) = (registry, repairing) }

  /// Tells the server what it may forget.
  func report() throws {
    try stream?.report(received: max(received, confirmed), flushed: confirmed)
    reportedAt = Clock.monotonicMilliseconds
  }

  private func reportInTime() throws {
    let now = Clock.monotonicMilliseconds
    guard now - reportedAt > 5000 else { return }
    // An answer tells us how far an otherwise idle server has come.
    try stream?.report(received: max(received, confirmed), flushed: confirmed, wantsReply: incoming == nil)
    reportedAt = now
  }

  // MARK: Barriers

  private static let barrierPrefix = "cairn.barrier"
  /// Of a message after which the trail tells at once how far it has come.
  package static let progressPrefix = "cairn.progress"

  /// Commits a message of ours: what comes before it in the stream committed before this call.
  func emitBarrier() throws -> String {
    barrierNumber += 1
    let text = "\(slotName) \(source.connection.backendPID) \(barrierNumber) \(clock.microseconds())"
    try source.connection.query("SELECT pg_logical_emit_message(true, $1, $2)", [Self.barrierPrefix, text])
    return text
  }
}
