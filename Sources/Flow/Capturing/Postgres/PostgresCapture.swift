import Changes
import PostgresKit
import SystemKit
import Trails

/// Captures one PostgreSQL database into a trail through a logical slot with `pgoutput`
/// (`docs/explanation/postgres-capture.md`). A capture blocks one thread. Each transaction of the source becomes one
/// transaction of the trail.
///
///     let capture = try PostgresCapture(uri: uri, trail: writer, options: .init())
///     try capture.run(stop: stop, untilCaughtUp: false)
package final class PostgresCapture {
  /// The settings of one capture.
  ///
  ///     var options = PostgresCapture.Options()
  ///     options.tables = TablePatterns(["public.*"])
  package struct Options: Sendable {
    package var tables = TablePatterns()
    /// The state folder of the node.
    package var place = ""
    /// Whether to refresh every table, and to replace a lost slot by a new one.
    package var copiesAgain = false
    /// Whether to send the rows that exist when capture begins, in an initial load of each table.
    package var copiesRows = true
    /// Whether a source without tables is an error.
    package var needsTables = true
    /// Reports to an apply how far capture has read; nil if no apply needs it.
    package var watch: LocalWatch?
    /// The lock that keeps capture from reading table rows while a two-way apply writes; nil without two-way apply.
    package var turns: AlternatingLock?
    /// The trails whose applied transactions stay out of this trail. Nil keeps out all applied transactions.
    package var applies: Set<String>?
    /// Whether rows that an apply writes also go into the trail, if an applied note names their origin.
    package var relays = false
    /// Whether replication is two-way. If so, tables whose names differ only in the case of ASCII letters are refused.
    package var goesBothWays = false
    /// The largest allowed lead of another node's clock, µs. A larger lead in an applied note is reduced to this value.
    package var skewMicrosecondsMax: Int64 = 60_000_000
    package init() {}
  }

  static let barrierPrefix = "cairn.barrier"
  /// The prefix of logical messages that ask capture to record its position at once.
  package static let progressPrefix = "cairn.progress"
  /// The shortest time between two reconnections that only free memory, ms.
  private static let giveBackMilliseconds: Int64 = 60_000
  /// The longest wait for an unreachable server in a run that ends when it has caught up, ms.
  private static let patienceMilliseconds: Int64 = 60_000

  let session: CaptureSession
  let tracker: TableTracker
  let refresher: PostgresRefresher
  var keys: MessageKeys
  private var silence = ServerSilence(now: 0)
  private var quietWork = QuietWork(now: 0)
  private var isConnected = true
  /// The text of the message that capture committed at the start of a run; nil after the stream has brought it.
  var goal: String?
  private var isCaughtUp = false
  private var giveBackAt: Int64 = 0
  var image = ByteWriter()
  var scratch = ByteWriter()

  /// Connects, creates a missing publication and slot, and checks that the server lacks no change after the end of the
  /// trail.
  ///
  /// - Throws: ``PostgresError``; `server-setting`, `privilege-missing`, `table-refused`, `slot-lost`,
  ///   `source-went-back`.
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

  /// Captures the commits of the source until `stop` is set, also across disconnections.
  ///
  /// - Parameter untilCaughtUp: Whether to end when the trail has all commits from before the call, and no table waits
  ///   for a refresh.
  /// - Throws: The error of a suspended table, at the end of a run with `untilCaughtUp`.
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
          if untilCaughtUp, !stop.isSet, let error = session.waits.error {
            progress.update { $0.endedBesidesTables = true }
            throw error
          }
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
    case isToGoOn
  }

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
        quietWork.isSilent(now: Clock.monotonicMilliseconds)
        if canSync { try session.sync() }
        if !session.incoming.isOpen, try rest() {
          if untilCaughtUp, isFinished { break }
          if stream.hasGrown, try giveMemoryBack() { return .isToGoOn }
        }
      }
      if !session.incoming.isOpen, quietWork.isDue(now: Clock.monotonicMilliseconds) {
        if canSync { try session.sync() }
        _ = try rest()
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
    quietWork = QuietWork(now: Clock.monotonicMilliseconds)
    session.tables.beginStream()
    let stream = try ReplicationStream(session.replication, slot: session.slotName, publication: session.slotName)
    session.stream = stream
    return stream
  }

  /// Reconnects to free the connection's memory, which is as large as the largest message so far. Returns false if
  /// capture is busy, or has freed memory less than a minute ago.
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

  private func noteHeard(_ message: ReplicationStream.Event) {
    let now = Clock.monotonicMilliseconds
    if case .nothing = message {
      guard !session.incoming.isOpen, silence.heardNothing(now: now) else { return }
      session.progress.update { $0.isReconnecting = true }
    } else if silence.heard(now: now) {
      session.progress.update { $0.isReconnecting = false }
    }
  }

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

  /// Begins a chunk or reads the catalog, and then returns false. If neither is due, writes sequences and progress.
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
    let moved = session.sequences.news(found, of: wanted).filter { sequence in
      guard ReservedName.isReserved(sequence.namespace, sequence.name) else { return true }
      let name = sequence.shownName
      if session.catalog.isNews("sequence \(name)") {
        session.progress.tell(
          "sequence \(name) is not captured: names that begin with cairn_ or sqlite_ are reserved; rename it")
      }
      return false
    }
    guard !moved.isEmpty else { return }
    try session.openTransaction()
    try session.append(moved)
    try session.endTransaction()
    try session.sync()
  }
}

extension PostgresCapture.Options {
  /// Returns whether transactions that an apply of `trail` wrote stay out of capture's own trail.
  func leavesOut(_ trail: String) -> Bool { applies.map { $0.contains(trail) } ?? true }
}
