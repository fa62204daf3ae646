import Changes
import Mapping
import PostgresKit
import SystemKit
import Trails

/// Applies a trail to a PostgreSQL database: whole transactions, in order, with the checkpoint in the same commit.
///
/// One blocking worker on one thread. If a row differs from what the trail says, apply stops with an error that names
/// the row.
///
/// If the server cannot be reached, apply waits for it, and then reads the checkpoint again. A table whose schema
/// change cannot be made is suspended.
///
///     let apply = try PostgresApply(uri: uri, trail: folder, name: trail, options: ApplyOptions())
///     try apply.run(stop: stop, drain: drain)
package final class PostgresApply {
  package typealias Options = ApplyOptions

  private static let lockedMillisecondsMax: Int64 = 5000

  private let uri: String
  let folder: String
  let name: TrailName
  let options: Options
  let clock: Clock
  let progress: ApplyProgress
  var connection: PostgresConnection?
  var replay: PostgresReplay?
  /// The catch-up in progress; nil if there is none.
  var catchUp: CatchUp?
  var attempts: [NameKey: Attempt] = [:]
  /// The statements that apply has committed before the transactions that need them, such as additions of enum labels.
  var madeAhead: Set<NameKey> = []
  /// The errors of the records at which tables must be suspended, by the record's position in the trail.
  var refusals: [Position: CairnError] = [:]
  /// The last transaction that apply sends one statement at a time, because a group with it has failed; 0: none.
  private var carefulThrough: UInt64 = 0
  let shelf: QuarantineStore
  private let statements: StatementSession?
  private let pruning = ConflictPruning()
  var nextLook: Int64 = 0
  private var purgedBelow: UInt64 = 0
  /// The conflict handling of two-way replication; nil if the apply is one-way.
  let desk: PostgresReplay.Desk?
  /// One-way: the check that no transaction's clock is too far in the future. A two-way apply checks this in its
  /// conflict handling.
  private let gate: ClockGate
  private var isDraining = false
  private var patience = ServerPatience()
  private var share = GroupShare()
  private var hasTables = false
  private var refreshWait = RefreshWait()
  private static let lookMilliseconds: Int64 = 4000

  /// Connects to a target and checks that apply could write to it. Changes nothing.
  package static func prove(_ uri: String) throws -> PostgresConnection {
    do { return try PostgresApplySession.prove(uri) } catch let error as PostgresError { throw error.asCairnError }
  }

  /// Connects to the target and opens the trail.
  ///
  /// - Throws: ``PostgresError``; `checkpoint-foreign` if the checkpoint is from another trail, or the first segment to
  ///   read is purged.
  package init(
    uri: String, trail folder: String, name: TrailName, options: Options, clock: Clock = .system,
    progress: ApplyProgress = .init()
  ) throws {
    (self.uri, self.folder, self.name, self.options, self.clock, self.progress) =
      (uri, folder, name, options, clock, progress)
    desk = options.twoWay.map { TwoWaySession($0, name, RowNames(to: .postgres, options.names), clock) }
    gate = ClockGate(name, clock, skewMicrosecondsMax: options.skewMicrosecondsMax)
    shelf = QuarantineStore(name, folder: folder, puts: options.quarantines)
    statements = try StatementSession(options, progress)
    carefulThrough = options.refused.decisions.map(\.transaction).max() ?? 0
    progress.update { ($0.guards, $0.lateKeys) = (GuardSchedule(), .due) }
    do { _ = try ready(nil) } catch let error as PostgresError { throw error.asCairnError }
  }

  /// Applies until `stop` is set, or to the end of the trail once `drain` is set.
  ///
  /// Reacts to `stop` within a second, or at once if `drain` is set too.
  ///
  /// - Throws: `schema-stopped` at the end if a table is suspended. Then also the reason why a table does not yet refuse
  ///   writes of applications, unless `stop` is set.
  package func run(stop: StopSignal, drain: StopSignal) throws {
    connection?.interrupt = stop.descriptor
    defer { close() }
    try apply(stop, drain)
    if let error = WaitingTable.error(progress.snapshot.waiting) { throw error }
    if !stop.isSet, let error = progress.snapshot.openGuards.first { throw error }
  }

  private func apply(_ stop: StopSignal, _ drain: StopSignal) throws {
    var drainedSince: Int64?
    while !stop.isSet {
      // `drain` is read before the trail: records that were appended before it was set are still found.
      let isLast = drain.isSet
      isDraining = isLast
      do {
        try refreshWait.wait(in: folder, options.rules, to: .postgres, stop)
        let replay = try ready(stop)
        if patience.isAway { progress.update { $0.isReconnecting = false } }
        patience.connected()
        for table in try GuardUpkeep(replay).make() { attempts[table] = nil }
        try LateForeignKeys(replay).make()
        if try settleQuarantine(replay, stop) { continue }
        let isMoved = try tryCatchUps(stop)
        if try step(replay, stop) || isMoved {
          patience.moved()
          continue
        }
        try replay.session.keepUpIdentities(isLast: isLast)
        progress.noteEnd(replay.reader.durableEnd.position)
        if isLast {
          if try tryCatchUps(stop, isLast: true) { continue }
          let now = Clock.monotonicMilliseconds
          let since = drainedSince ?? now
          drainedSince = since
          let isLocked = attempts.values.contains(where: \.isLocked) || progress.snapshot.guards.isLocked
          guard isLocked, now - since < Self.lockedMillisecondsMax else { return }
          if stop.wait(milliseconds: 200) { return }
          continue
        }
        try lookAtServer(replay.connection)
        if try replay.reader.wait(milliseconds: drain.isSet ? 0 : 1000, also: drain.descriptor) {
          progress.update { $0.isCaughtUp = false }
        }
      } catch is ApplyStopped {
        return
      } catch let error as PostgresError {
        forget()
        if stop.isSet { return }
        // A schema change and a two-way group have released their locks, so that waiting sessions continue.
        let fault = ServerPatience.Fault(error)
        if fault == .away {
          connection = nil
          desk?.shared.quiet.withLock { $0.forget() }
          progress.update { $0.isReconnecting = true }
        } else if fault == .locked {
          progress.update { $0.isWaitingForLock = true }
        }
        let next = patience.next(after: fault, isDraining: drain.isSet, now: Clock.monotonicMilliseconds)
        guard case .wait(let milliseconds) = next else { throw error.asCairnError }
        // The random part keeps several applies from returning at the same moment.
        if stop.wait(milliseconds: Int32(milliseconds + Int64.random(in: 0...milliseconds / 2))) { return }
      } catch let error as CairnError where [.databaseBusy, .databaseReadOnly].contains(error.code) {
        guard case .wait(let milliseconds)? = patience.nextWhileBusy() else { throw error }
        // The session that was cut off still holds the replication origin, or a standby is not yet promoted.
        close()
        if stop.wait(milliseconds: Int32(milliseconds)) { return }
        if patience.isOver(now: Clock.monotonicMilliseconds) { throw error }
      }
    }
  }

  /// Queries the server every 4 s while there is nothing to apply, to notice a lost connection.
  ///
  /// - Throws: ``PostgresError`` if the connection is lost.
  private func lookAtServer(_ connection: PostgresConnection) throws {
    let begun = Clock.monotonicMilliseconds
    guard begun - patience.lookedAt >= Self.lookMilliseconds else { return }
    let (progress, onWait) = (progress, connection.onWait)
    connection.onWait = {
      if Clock.monotonicMilliseconds - begun >= Self.lookMilliseconds { progress.update { $0.isReconnecting = true } }
      return true
    }
    defer { connection.onWait = onWait }
    _ = try connection.first("SELECT 1")
    progress.update { $0.isReconnecting = false }
    patience.lookedAt = Clock.monotonicMilliseconds
  }

  /// Applies one group. Returns false if there is nothing to apply.
  ///
  /// A transaction that the target refuses goes into quarantine if the conf allows it.
  private func step(_ replay: PostgresReplay, _ stop: StopSignal) throws -> Bool {
    do { return try stepOrSettle(replay, stop) } catch let error as CairnError
      where (shelf.puts || error.code == .tableForbidden) && QuarantineStore.isOfRows(error)
    {
      // Only a careful replay shows which transaction failed.
      if replay.isCareful, !shelf.takes(error, of: replay.cursor.present) { throw error }
      carefulThrough = max(carefulThrough, replay.cursor.present)
      forget()
      return true
    }
  }

  private func stepOrSettle(_ replay: PostgresReplay, _ stop: StopSignal) throws -> Bool {
    guard let desk else { return try stepOneWay(replay, stop) }
    switch try desk.shared.inTurn(stop, { try takeTurn(replay, desk, stop) }) {
    case .moved(let isMoved)?: return isMoved
    case .heldBack(let held)?: return try desk.gate.wait(for: held, isDraining: isDraining, stop)
    case .overtaken?:
      try waitForCapture(desk, stop)
      return true
    case nil: throw ApplyStopped()
    }
  }

  private func stepOneWay(_ replay: PostgresReplay, _ stop: StopSignal) throws -> Bool {
    do {
      let isMoved = try step(replay, stop, through: min(gate.limit() ?? .max, options.lastTransaction))
      progress.update { $0.heldUntil = gate.heldUntil }
      if !isMoved, let held = gate.heldBack { return try gate.wait(for: held, isDraining: isDraining, stop) }
      return isMoved
    } catch let ahead as ClockGate.Ahead {
      gate.holdBack(ahead.header)
      forget()
      return true
    }
  }

  private func takeTurn(_ replay: PostgresReplay, _ desk: PostgresReplay.Desk, _ stop: StopSignal) throws -> TurnEnd {
    do {
      let isMoved = try step(replay, stop, through: desk.gate.limit() ?? .max)
      if isMoved { share.grow() }
      if !isMoved { try replay.lookAtCandidates(stop) }
      try PostgresOwnWrites(replay: replay, desk: desk).resolve(isIdle: !isMoved, stop)
      try decide(desk, replay.connection)
      progress.update { $0.heldUntil = desk.gate.heldUntil }
      if !isMoved, let held = desk.gate.heldBack { return .heldBack(held) }
      return .moved(isMoved)
    } catch {
      desk.shared.window.rollback(name)
      var end = TurnEnd.moved(true)
      let mayResolve = desk.maySettle(through: replay.cursor.present)
      switch ApplyDecision(isCareful: replay.isCareful, mayResolve: mayResolve).next(after: error) {
      case .waitForCapture:
        share.shrink(replay.cursor.present - replay.applied)
        desk.overtaken(at: replay.cursor.present)
        end = .overtaken
      // A fault of a row, or of its rule, stops apply after everything before it has been applied.
      case .sendSingly: carefulThrough = max(carefulThrough, replay.cursor.present)
      case .waitForClock(let header): desk.gate.holdBack(header)
      case .resolveAll:
        desk.settle(through: replay.cursor.present)
        carefulThrough = max(carefulThrough, replay.cursor.present)
      case .refused, .fail:
        if (error as? PostgresError)?.isLockTimeout == true { share.shrink(replay.cursor.present - replay.applied) }
        desk.shared.note(error)
        throw error
      }
      forget()
      return end
    }
  }

  /// Writes open decisions in a separate session, because capture ignores what apply's own session writes.
  private func decide(_ desk: PostgresReplay.Desk, _ ours: PostgresConnection) throws {
    guard desk.shared.mayHaveDecisions else { return }
    if try Decisions(ours).isEmpty() { return desk.shared.mayHaveDecisions = false }
    let session = try PostgresConnection(uri, application: "cairn decide \(name)")
    try session.execute("SET lock_timeout = \(patience.lockMilliseconds)")
    let outcome = try Decisions(session).make(within: options.scope)
    if case .refused(let notice) = outcome { progress.note(notice) }
    desk.shared.mayHaveDecisions = outcome.isLocked
  }

  /// Rolls back the open group, which releases its locks. Then waits for capture to read commits of applications.
  func waitForCapture(_ desk: PostgresReplay.Desk, _ stop: StopSignal) throws {
    forget()
    progress.update { $0.isWaitingForCapture = true }
    defer { progress.update { $0.isWaitingForCapture = false } }
    try desk.waitForCapture(stop)
  }

  private func step(_ replay: PostgresReplay, _ stop: StopSignal, through limit: UInt64) throws -> Bool {
    do {
      let waiting = replay.waiting.map(\.source)
      guard try replay.applyAvailable(stop, through: limit, count: share.count) else { return false }
      // An open catch-up knows its tables by their former names.
      if !replay.waiting.map(\.source).hasSameBytes(as: waiting) {
        closeCatchUp()
        // It has dropped the prepared statements of the connection, also those of this replay.
        try replay.sink.rest()
        tellWaiting()
      }
    } catch let fault as PostgresSink.Fault {
      guard !replay.isCareful else {
        if fault.error?.sqlState == OwnersCode.changed { throw OwnersCode.exchanged(replay.connection.place) }
        throw fault.error ?? Self.untouched(replay)
      }
      replay.abandon()
      if let desk { try replay.commits.checkOvertaken(desk, stop) }
      carefulThrough = max(replay.cursor.present, 1)
      forget()
      return true
    } catch let refusal as SchemaStop {
      try wait(for: refusal, replay)
      return true
    } catch let due as RefreshDue {
      forget()
      refreshWait.due = due
      return true
    } catch let differs as StatementDiffers {
      statements?.note(differs)
      forget()
      return true
    } catch let ahead as Ahead {
      replay.abandon()
      self.replay = nil
      try make(ahead, replay.connection)
      return true
    }
    if replay.isCareful, replay.cursor.present >= carefulThrough { forget() }
    try purge()
    return true
  }

  static func untouched(_ replay: PostgresReplay) -> PostgresError {
    PostgresError(
      sqlState: "", message: "a statement of cairn touched no row", place: replay.connection.place,
      isConnectionLost: false)
  }

  /// Deletes the segments of the trail that no reader needs, if the options let this apply purge the trail.
  func purge() throws {
    guard let replay else { return }
    let places = replay.waiting.map(\.table.checkpoint.position) + [shelf.quarantine.needs].compactMap { $0 }
    try options.noteNeeded(places.reduce(replay.position, min))
    let needed =
      try places
      .reduce(options.needed(replay.position, of: name), min)
    progress.update { $0.needs = needed }
    guard options.purgesTrail, needed.segment > purgedBelow else { return }
    purgedBelow = needed.segment
    _ = try Trail.purge(folder: folder, below: needed)
  }

  private func close() {
    forget()
    connection = nil
    desk?.shared.quiet.withLock { $0.forget() }
  }

  func forget() {
    closeCatchUp()
    replay?.abandon()
    replay = nil
    desk?.shared.window.rollback(name)
  }

  func ready(_ stop: StopSignal?) throws -> PostgresReplay {
    if let replay { return replay }
    let connection = try self.connection ?? PostgresApplySession.open(uri, trail: name)
    if self.connection == nil, let notice = try ExchangeableSchemas(connection).notice { progress.note(notice) }
    connection.interrupt = stop?.descriptor ?? -1
    let (progress, holder) = (progress, LockHolder(uri: uri, process: connection.backendPID, progress))
    connection.onWait = {
      // Another session has a long transaction: apply reports that, and waits.
      progress.update { $0.isWaitingForLock = true }
      holder.wait()
      return true
    }
    self.connection = connection
    let applied = try Checkpoints(connection).checkpoint(of: name)?.number ?? options.begin.number
    let made = try PostgresReplay(
      connection, trail: folder, name: name, options: options, clock: clock, progress: progress,
      isCareful: applied < carefulThrough, madeAhead: madeAhead, refusals: refusals, desk: desk,
      shelf: shelf, statements: statements, pruning: pruning)
    made.cursor.waitedThrough = refreshWait.through
    try loadQuarantine(made)
    if desk == nil, !hasTables, options.localWrites.has(\.areSettled) || !options.refused.decisions.isEmpty {
      try connection.transaction { try ConflictLog(connection).install() }
      hasTables = true
    }
    if let desk {
      let state = made.state
      if !hasTables {
        try connection.transaction {
          try ConflictLog(connection).install()
          try PostgresDisplacedRows(connection).install()
          try Decisions(connection).install()
          try StoredReturns(connection).install()
        }
        hasTables = true
      }
      // The timeout is set only now: all applies to one database create these tables when they begin.
      try connection.execute("SET lock_timeout = \(patience.lockMilliseconds)")
      made.holdWindow()
      try desk.lookAtKeys { try PostgresApplyTable.foreignKeys(connection) }
      try desk.shared.prepare(
        desk.names, hasUniqueValues: PostgresDisplacedRows(connection).mayCome,
        candidates: PostgresDisplacedRows(connection).counts, returned: StoredReturns(connection).all,
        reach: { try state.reach(of: $0) ?? .init() })
      try desk.shared.check(name, made.reader.id)
    }
    replay = made
    let awaitsCopies = made.awaitsCopies
    let position = made.position
    progress.update { ($0.awaitsCopies, $0.position) = (awaitsCopies, position) }
    tellWaiting()
    try purge()
    return made
  }
}
