import Changes
import PostgresKit
import SystemKit
import Trails

/// Captures one PostgreSQL database into a trail: by logical slot, `pgoutput` and refresh
/// (`docs/explanation/postgres-capture.md`).
///
/// The capture is one blocking worker on one thread. A transaction of the source is one transaction of the trail. The
/// slot is confirmed only to positions that are durable in the trail.
///
/// The class opens connections, passes each message to the types that decide (``SlotProgress``,
/// ``IncomingTransaction``, ``KnownTables``, ``RefreshQueue``, ``CatalogWatch``), and does what they return.
package final class PostgresCapture {
  package struct Options: Sendable {
    package var tables = TablePatterns()
    /// The state folder of the node, in which the known tables are stored.
    package var place = ""
    /// Whether every table is copied again, and a lost slot is replaced by a new one.
    package var copiesAgain = false
    /// Whether rows from before capture began are copied. If not, the targets must get these rows in another way.
    package var copiesRows = true
    /// Whether it is an error if the source has no tables.
    package var needsTables = true
    /// The object through which an apply learns how far capture has read; nil if no apply needs it.
    package var watch: LocalWatch?
    /// The lock that keeps capture from reading rows for a copy while a two-way apply writes; nil if there is no
    /// two-way apply.
    package var turns: AlternatingLock?
    /// The trails whose applied transactions stay out of this trail, because this trail goes to the nodes from which
    /// those trails come. All other applied transactions go into this trail as if an application had made them. Nil:
    /// all applied transactions stay out.
    package var applies: Set<String>?
    /// Whether rows that an apply writes also go into the trail, if the applied note in the log names the origin of the
    /// rows.
    package var relays = false
    /// Whether the replication is two-way: rows also come from the nodes to which the trail goes. If so, the names of
    /// tables, and of a table's columns, must differ in more than the case of ASCII letters.
    package var goesBothWays = false
    /// The largest allowed lead of another node's clock, µs. A clock in an applied note that leads by more is reduced
    /// to this limit, so that the trail's clock does not follow it.
    package var skewMicrosecondsMax: Int64 = 60_000_000
    package init() {}
  }

  static let barrierPrefix = "cairn.barrier"
  /// The prefix of the logical messages that request to record the position of capture in the trail at once.
  package static let progressPrefix = "cairn.progress"
  /// The least time between two reconnections that only free the connection's memory, ms.
  private static let giveBackMilliseconds: Int64 = 60_000
  /// The longest wait for an unreachable server, ms, in a run that ends once it has caught up.
  private static let patienceMilliseconds: Int64 = 60_000

  let session: CaptureSession
  let tracker: TableTracker
  let refresher: PostgresRefresher
  /// The keys by which capture recognizes messages that Cairn wrote.
  var keys: MessageKeys
  private var silence = ServerSilence(now: 0)
  private var isConnected = true
  /// The random text of the message that capture committed at the start of a run. Everything committed before the run
  /// comes earlier in the stream than this message. Nil once it has arrived.
  var goal: String?
  /// Whether capture had nothing left to do when the stream last had no message.
  private var isCaughtUp = false
  /// The next time at which capture may reconnect to free the connection's memory, in monotonic ms.
  private var giveBackAt: Int64 = 0
  var image = ByteWriter()
  var scratch = ByteWriter()

  /// Connects, creates a missing publication and slot, and checks that no change after the end of the trail is missing
  /// at the server.
  ///
  /// Errors: the errors of ``PostgresError``; `server-setting`, `privilege-missing`, `table-refused`, `slot-lost`,
  /// `source-went-back`.
  package init(
    uri: String, trail: TrailWriter, options: Options, clock: Clock = .system, progress: CaptureProgress = .init()
  ) throws {
    session = try CaptureSession(uri: uri, trail: trail, options: options, clock: clock, progress: progress)
    (tracker, refresher) = (TableTracker(session), PostgresRefresher(session))
    keys = try MessageKeys()
    // This check comes first: other roles could have put objects there that are read next.
    try tracker.installTriggers()
    try OwnSchema.check(MessageKey.Place.own.rawValue, session.source.connection)
    try readKeys()
    try start()
  }

  // MARK: The run

  /// Captures the commits of the source until `stop` is set. Waits while the server is unreachable. Suspends a table
  /// that can no longer be captured, and continues with all others.
  ///
  /// With `untilCaughtUp`, the run ends once everything committed before the call is in the trail and every table is
  /// copied. It waits at most one minute for an unreachable server, and at its end throws the error of a suspended
  /// table.
  package func run(stop: StopSignal, untilCaughtUp: Bool) throws {
    let progress = session.progress
    progress.noteDurable(session.trail.end.position)
    var failures = 0
    var goneSince: Int64 = 0
    defer { refresher.giveTurnBack() }
    while !stop.isSet {
      do {
        if !isConnected {
          try reconnect(stop)
          isConnected = true
        }
        if failures > 0 { progress.tell("connected to \(session.place) again") }
        failures = 0
        progress.update { $0.isReconnecting = false }
        if try follow(stop, untilCaughtUp: untilCaughtUp) == .isOver {
          // Everything else is in the trail.
          if untilCaughtUp, !stop.isSet, let error = session.waits.error { throw error }
          return
        }
      } catch let error as PostgresError where error.sqlState == "42704" && error.sql.hasPrefix("START_REPLICATION") {
        throw session.lost(.withoutPublication)
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
        if untilCaughtUp, now - goneSince > Self.patienceMilliseconds { throw error }
        let most = min(100 << min(failures, 6), 5000)
        _ = stop.wait(milliseconds: Int32(most / 2 + Int(session.clock.microseconds() % Int64(most / 2 + 1))))
      }
    }
  }

  /// Ends the connection, and drops the unfinished transaction of the trail.
  private func disconnect() throws {
    session.stream = nil
    // A server that shuts down would wait for a stream that is not read.
    session.replication.cut()
    session.source.connection.cut()
    try session.abandon()
    if session.slot.hasUnsynced { try session.sync() }
    refresher.disconnect()
    session.incoming.drop()
    // The server sends everything after the recorded position again.
    session.slot.disconnect()
    session.refreshes.disconnect(session.tables)
    refresher.giveTurnBack()
    isConnected = false
  }

  private enum FollowEnd {
    case isOver
    /// The run continues on another connection.
    case isToGoOn
  }

  /// Processes the messages of one replication connection until the connection ends. Returns whether the run ends too.
  private func follow(_ stop: StopSignal, untilCaughtUp: Bool) throws -> FollowEnd {
    session.source.connection.interrupt = stop.descriptor
    session.replication.interrupt = stop.descriptor
    try session.source.connection.executeScript(
      "SET statement_timeout = 0; SET lock_timeout = 0; SET synchronous_commit = on; SET row_security = off")
    try session.source.endOwnStream()
    let stream = try openStream()
    session.catalog.reconnect()
    goal = try session.emitBarrier()
    while !stop.isSet {
      let message = try stream.next(milliseconds: waitMilliseconds, interrupt: stop.descriptor)
      noteHeard(message)
      switch message {
      case .data(let bytes): try take(PgOutput(bytes))
      case .keepalive(let end, let wantsReply):
        if !session.incoming.isOpen {
          try reach(end)
          // A server that shuts down asks until everything that it sent has been confirmed.
          try session.recordProgressInTime(isWanted: wantsReply)
        }
        if wantsReply { try session.report() }
      case .nothing:
        if canSync { try session.sync() }
        if !session.incoming.isOpen, try rest() {
          if untilCaughtUp, isFinished { break }
          if stream.hasGrown, try giveMemoryBack() { return .isToGoOn }
        }
      }
      try refresher.endTurn()
      if untilCaughtUp, isFinished { break }
      try session.reportInTime()
    }
    try finish()
    return .isOver
  }

  private func openStream() throws -> ReplicationStream {
    silence = ServerSilence(now: Clock.monotonicMilliseconds)
    session.tables.beginStream()
    let stream = try ReplicationStream(session.replication, slot: session.slotName, publication: session.slotName)
    session.stream = stream
    return stream
  }

  /// Ends the connection to free its memory, which is as large as the largest message so far: any role can send 1 GB.
  ///
  /// Everything received is confirmed first, so that the server does not send it again. Returns false if capture has
  /// other work, or reconnected less than a minute ago.
  private func giveMemoryBack() throws -> Bool {
    let now = Clock.monotonicMilliseconds
    guard !refresher.isReading, !session.incoming.isOpen, !session.hasRefreshes, now >= giveBackAt else { return false }
    giveBackAt = now + Self.giveBackMilliseconds
    if session.slot.isBeyondTrail { try session.recordProgress() }
    try session.sync()
    try session.report()
    try disconnect()
    return true
  }

  /// Updates whether the server counts as silent, after a message or after a wait without a message.
  private func noteHeard(_ message: ReplicationStream.Event) {
    let now = Clock.monotonicMilliseconds
    if case .nothing = message {
      guard !session.incoming.isOpen, silence.heardNothing(now: now) else { return }
      session.progress.update { $0.isReconnecting = true }
    } else if silence.heard(now: now) {
      session.progress.update { $0.isReconnecting = false }
    }
  }

  /// The longest time to wait for the next message, ms. A single commit is made durable at once; if many transactions
  /// arrive, the sync waits a moment for more of them.
  private var waitMilliseconds: Int32 {
    if canSync { return session.slot.syncDelayMilliseconds }
    if !refresher.isReading && session.hasRefreshes || session.catalog.isPending { return 5 }
    // A caller may wait for the report that capture has caught up.
    return min(
      session.slot.untilNotesAreRecorded(now: Clock.monotonicMilliseconds) ?? 1000, isCaughtUp ? 1000 : 20)
  }

  private var canSync: Bool { session.slot.hasUnsynced && !session.isTrailOpen }

  private var isFinished: Bool {
    goal == nil && !refresher.isReading && !session.incoming.isOpen && !session.slot.hasUnsynced
      && !session.awaitsRefreshes
      && session.catalog.isDone
  }

  /// Does pending work while the stream has no message: begins to read a chunk, reads the catalog, writes the position
  /// to the trail. Returns true if there was nothing to do.
  private func rest() throws -> Bool {
    if !refresher.isReading, session.hasRefreshes {
      try refresher.beginChunk()
      if refresher.isReading { return false }
    }
    if try tracker.readCatalog() { return false }
    if !refresher.isReading {
      try appendSequences(isLast: false)
      try session.recordProgressInTime(isWanted: false)
    }
    isCaughtUp = isFinished
    session.progress.update { $0.isCaughtUp = self.isCaughtUp }
    return true
  }

  private func finish() throws {
    try session.abandon()
    session.incoming.drop()
    refresher.dropChunk()
    try appendSequences(isLast: true)
    if session.slot.hasUnrecorded { try session.recordProgress() }
    try session.sync()
    try session.saveTables()
    try session.report()
    session.stream = nil
    isConnected = false
  }

  /// Writes the present values of the captured tables' sequences to the trail.
  private func appendSequences(isLast: Bool) throws {
    let source = session.source
    guard source.connection.isUsable, session.sequences.isDue(isLast: isLast, now: Clock.monotonicMilliseconds)
    else { return }
    let wanted = session.tables.sequenceNames
    guard !wanted.isEmpty else { return }
    let found: [SequenceState]
    do {
      let read = try source.catalog.sequences(wanted)
      if !read.isWhole { session.sequences.noteChanges() }
      found = read.found
    } catch let error as PostgresError
      where ["XX000", "42P01"].contains(error.sqlState) || error.isTransient
    {
      // A sequence was dropped while it was read ("could not open relation with OID"), or another session has just
      // locked it.
      return session.sequences.noteChanges()
    }
    let moved = session.sequences.news(found, of: wanted)
    guard !moved.isEmpty else { return }
    try session.openTransaction()
    try session.append(moved)
    try session.endTransaction()
    try session.sync()
  }
}

extension PostgresCapture.Options {
  /// Returns whether the transactions that an apply of `trail` wrote are left out of capture's own trail.
  func leavesOut(_ trail: String) -> Bool { applies.map { $0.contains(trail) } ?? true }
}
