import Changes
import PostgresKit
import SystemKit
import Trails

// The run of a capture: one connection after the other, until the stop signal.
extension PostgresCapture {
  /// Captures the commits of the source until `stop` is set. With `untilCaughtUp`, it ends once everything committed
  /// before the call is in the trail and every table is copied. It waits for an unreachable server; with
  /// `untilCaughtUp`, for one minute.
  package func run(stop: StopSignal, untilCaughtUp: Bool) throws {
    progress.noteDurable(trail.end.position)
    var failures = 0
    var goneSince: Int64 = 0
    while !stop.isSet {
      do {
        if !isConnected { try reconnect(stop) }
        if failures > 0 { progress.tell("connected to \(source.connection.place) again") }
        failures = 0
        progress.update { $0.isReconnecting = false }
        if try follow(stop, untilCaughtUp: untilCaughtUp) == .isOver { return }
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
        progress.update { $0.isReconnecting = true }
        if untilCaughtUp, now - goneSince > 60_000 { throw error }
        let most = min(100 << min(failures, 6), 5000)
        _ = stop.wait(milliseconds: Int32(most / 2 + Int(clock.microseconds() % Int64(most / 2 + 1))))
      }
    }
  }

  /// Drops the unfinished transaction; the trail keeps whole transactions only.
  private func disconnect() throws {
    stream = nil
    // A server that shuts down would wait for a stream that is not read.
    replication.cut()
    source.connection.cut()
    try abandon()
    if hasUnsynced { try sync() }
    copier = nil
    chunk = nil
    incoming = nil
    // The server sends everything after it again.
    position.knowledge = toldKnowledge
    isConnected = false
    wantedRows = []
    if position.refresh?.wantsRows == true { position.refresh = nil }
    if let refresh = position.refresh, registry.tables[refresh.relation]?.isKeyed != true { position.refresh = nil }
  }

  private func reconnect(_ stop: StopSignal) throws {
    let connection = try PostgresConnection(uri, application: PostgresSource.application(slotName))
    connection.interrupt = stop.descriptor
    source = PostgresSource(connection, uri: uri, trail: trail.id)
    replication = try PostgresConnection(
      uri, purpose: .replication, application: PostgresSource.application(slotName))
    replication.interrupt = stop.descriptor
    try readKeys()
    try resume(PostgresSource.identity(replication), copiesAgain: false)
    isConnected = true
  }

  private enum FollowEnd {
    case isOver
    /// The run continues on another connection.
    case isToGoOn
  }

  /// Follows the stream of one connection.
  private func follow(_ stop: StopSignal, untilCaughtUp: Bool) throws -> FollowEnd {
    source.connection.interrupt = stop.descriptor
    replication.interrupt = stop.descriptor
    try source.connection.executeScript(
      "SET statement_timeout = 0; SET lock_timeout = 0; SET synchronous_commit = on; SET row_security = off")
    try source.endOwnStream()
    let stream = try openStream()
    look = SchemaLook()
    goal = try emitBarrier()
    while !stop.isSet {
      let message = try stream.next(milliseconds: waitMilliseconds, interrupt: stop.descriptor)
      noteHeard(message)
      switch message {
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
        if incoming == nil, try rest() {
          if untilCaughtUp, isFinished { break }
          if stream.hasGrown, try giveMemoryBack() { return .isToGoOn }
        }
      }
      if untilCaughtUp, isFinished { break }
      try reportInTime()
    }
    try finish()
    return .isOver
  }

  /// Ends the connection, whose memory has the size of the largest message so far: any role can send one of 1 GB.
  ///
  /// Everything received is confirmed first, so that the server does not send it again. Returns false if it is too
  /// early.
  private func giveMemoryBack() throws -> Bool {
    let now = Clock.monotonicMilliseconds
    guard chunk == nil, incoming == nil, !hasCopies, now >= giveBackAt else { return false }
    giveBackAt = now + Self.giveBackMilliseconds
    if received > position.reached { try appendProgress() }
    try sync()
    try report()
    try disconnect()
    return true
  }

  /// Notes that the server sent something, or that it was silent. A server that did not answer a request counts as gone
  /// until it sends something.
  private func noteHeard(_ message: ReplicationStream.Event) {
    let now = Clock.monotonicMilliseconds
    if case .nothing = message {
      guard !isSilent, incoming == nil, now - heardAt > Self.silentMilliseconds else { return }
      isSilent = true
      progress.update { $0.isReconnecting = true }
      return
    }
    heardAt = now
    guard isSilent else { return }
    isSilent = false
    progress.update { $0.isReconnecting = false }
  }

  private func openStream() throws -> ReplicationStream {
    (heardAt, isSilent) = (Clock.monotonicMilliseconds, false)
    (relations, captured) = ([:], [:])
    let stream = try ReplicationStream(replication, slot: slotName, publication: slotName)
    self.stream = stream
    return stream
  }

  /// The wait for the next message. With nothing to read, commits are made durable at once; in a stream of
  /// transactions, a moment later.
  private var waitMilliseconds: Int32 {
    guard canSync else { return idleMilliseconds }
    return unsyncedCount > Self.unsyncedMany ? 10 : unsyncedCount > Self.unsyncedFew ? 2 : 0
  }

  private var canSync: Bool { hasUnsynced && !isTrailOpen }

  private var idleMilliseconds: Int32 {
    if chunk == nil && hasCopies || look.isPending { return 5 }
    // A caller may wait for the report that capture has caught up.
    return min(untilNotesAreToldMilliseconds ?? 1000, isCaughtUp ? 1000 : 20)
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
    if received > position.quiet { try appendProgress() }
    try sync()
    try saveRegistry()
    try report()
    stream = nil
    isConnected = false
  }

  /// Uses a quiet moment: begins a chunk, looks at the catalog, advances the slot. Returns true if there was nothing to
  /// do.
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
    isCaughtUp = isFinished
    progress.update { $0.isCaughtUp = self.isCaughtUp }
    return true
  }
}
