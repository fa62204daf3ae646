import Changes
import PostgresKit
import SystemKit
import Trails

// Suspended tables: each has a checkpoint of its own, from which a catch-up tries to continue.
extension PostgresApply {
  /// A catch-up: a second reader of the trail, which applies it to suspended tables. All tables of one catch-up have
  /// the same checkpoint.
  struct CatchUp {
    var tables: [PostgresApplyState.Waiting]
    /// The conflict handling of two-way tables; nil if the tables are one-way.
    let desk: PostgresReplay.Desk?
    var replay: PostgresReplay
    /// The errors of the records that the target refuses, by the record's position in the trail.
    var refusals: [Position: CairnError] = [:]
    /// The refreshes from which tables of the catch-up continue, by the position of the record that suspended the
    /// table.
    var overtaken: [Position: ResyncPoint] = [:]
    var carefulThrough: UInt64 = 0
    var share = GroupShare()
    /// Whether the catch-up must wait for capture: its last group was rolled back, because an application had written
    /// rows of the group.
    var isOvertaken = false
  }

  /// The attempts to continue a suspended table.
  struct Attempt {
    var schedule: CatchUpSchedule
    /// Whether the table is suspended only because a session holds a lock on it.
    var isLocked = false
  }

  func tellWaiting() {
    let waiting = (replay?.waiting ?? []).map(\.table).sorted { $0.name.nameKey < $1.name.nameKey }
    let keys = Set((replay?.waiting ?? []).map(\.source.nameKey))
    progress.update {
      $0.waiting = waiting
      $0.copiesWanted = $0.copiesWanted.filter { keys.contains($0.key) }
    }
  }

  func closeCatchUp() {
    catchUp?.replay.abandon()
    catchUp = nil
  }

  // MARK: Beginning to wait

  /// Suspends a table after the target refused a record of the table. The group is rolled back, and applied again
  /// without the table's records from the refused record on.
  func wait(for refusal: SchemaStop, _ replay: PostgresReplay) throws {
    replay.abandon()
    self.replay = nil
    refusals = refusals.filter { $0.key >= replay.position }
    // A record that is refused although its table waits would be tried without end.
    if refusals[refusal.position] != nil { throw refusal.error }
    refusals[refusal.position] = refusal.error
    attempts[refusal.key] = Attempt(
      schedule: CatchUpSchedule(from: Clock.monotonicMilliseconds), isLocked: refusal.isLocked)
  }

  // MARK: Trying again

  /// Runs the catch-up in progress. If there is none, runs each catch-up whose next attempt is due, until one has
  /// committed. Returns whether anything was committed.
  ///
  /// - Parameter isLast: Whether to run catch-ups that are not due, too.
  func tryCatchUps(_ stop: StopSignal, isLast: Bool = false) throws -> Bool {
    guard let replay, !replay.waiting.isEmpty else { return false }
    if var catchUp {
      self.catchUp = nil
      return try advanceOrSettle(&catchUp, replay, stop)
    }
    var isMoved = false
    for group in Self.groups(replay.waiting) where !stop.isSet {
      let now = Clock.monotonicMilliseconds
      let isDue = group.contains { attempts[$0.source]?.schedule.isDue(now) ?? true }
      guard isDue || isLast else { continue }
      let desk = catchUpDesk(group, replay)
      var catchUp = CatchUp(tables: group, desk: desk, replay: try open(group, desk))
      if try advanceOrSettle(&catchUp, replay, stop) {
        // Other tables are applied in between, and the state of the suspended ones has changed.
        isMoved = true
        break
      }
    }
    return isMoved
  }

  /// Groups suspended tables by their checkpoint: tables with the same checkpoint may depend on each other.
  private static func groups(_ tables: [PostgresApplyState.Waiting]) -> [[PostgresApplyState.Waiting]] {
    Dictionary(grouping: tables, by: \.table.checkpoint).values.sorted { $0[0].table.number < $1[0].table.number }
  }

  private func catchUpDesk(
    _ tables: [PostgresApplyState.Waiting], _ main: PostgresReplay
  ) -> PostgresReplay.Desk? {
    let goesBothWays = tables.contains { table in
      main.tables.tables[table.source].map { options.goesBothWays($0.schema, $0.name) } ?? true
    }
    guard let twoWay = options.twoWay, goesBothWays else { return nil }
    return .init(twoWay, name, RowNames(to: .postgres, options.names), clock)
  }

  private func open(
    _ tables: [PostgresApplyState.Waiting], _ desk: PostgresReplay.Desk?, isCareful: Bool = false,
    _ refusals: [Position: CairnError] = [:], _ overtaken: [Position: ResyncPoint] = [:]
  ) throws -> PostgresReplay {
    guard let connection else { throw ApplyStopped() }
    let own = Set(tables.map(\.source.nameKey))
    let others = (replay?.waiting ?? []).filter { !own.contains($0.source) }
    do {
      return try PostgresReplay(
        connection, trail: folder, name: name, options: options, clock: clock, progress: progress,
        isCareful: isCareful, madeAhead: madeAhead, refusals: refusals, catchUp: tables,
        heldElsewhere: others.map(\.table.number).min(), overtaken: overtaken, desk: desk, shelf: shelf)
    } catch let error as CairnError where error.code == .checkpointForeign {
      let names = tables.map(\.table.name).joined(separator: ", ")
      throw CairnError(
        .checkpointForeign, "table \(names) needs changes that the trail no longer has: \(error.message)",
        hint: "copy all tables again: \(CopyHint.either)")
    }
  }

  /// Applies the next transactions of a catch-up, for about half a second. Returns whether anything was committed.
  private func advanceOrSettle(_ catchUp: inout CatchUp, _ main: PostgresReplay, _ stop: StopSignal) throws -> Bool {
    guard let desk = catchUp.desk else { return try advance(&catchUp, main, stop) }
    let isMoved = try desk.shared.inTurn(stop) {
      do { return try advance(&catchUp, main, stop) } catch {
        desk.shared.window.rollback(name)
        desk.shared.note(error)
        throw error
      }
    }
    guard let isMoved else { throw ApplyStopped() }
    // Apply waits after it has released the lock of the applies, because other applies wait for the lock.
    if catchUp.isOvertaken {
      self.catchUp?.isOvertaken = false
      progress.update { $0.isWaitingForCapture = true }
      defer { progress.update { $0.isWaitingForCapture = false } }
      try desk.waitForCapture(stop)
    }
    return isMoved
  }

  private func advance(_ catchUp: inout CatchUp, _ main: PostgresReplay, _ stop: StopSignal) throws -> Bool {
    try main.sink.rest()
    let deadline = Clock.monotonicMilliseconds + CatchUpSchedule.slice
    let last = main.applied
    var isMoved = false
    try catchUp.replay.reload()
    while !stop.isSet {
      if catchUp.replay.applied >= last {
        // The trail has nothing for these tables between their place and that of the others.
        try end(catchUp, main)
        isMoved = true
        break
      }
      do {
        guard
          try catchUp.replay.applyAvailable(stop, through: last, count: catchUp.share.count, isCatchUpDone: true)
        else { break }
        isMoved = true
        catchUp.share.grow()
        catchUp.tables = catchUp.replay.waiting
        if catchUp.replay.applied >= last { try catchUp.replay.session.keepUpIdentities(isLast: true) }
        if catchUp.tables.isEmpty || catchUp.replay.applied >= last { break }
        if Clock.monotonicMilliseconds > deadline {
          try catchUp.replay.sink.rest()
          self.catchUp = catchUp
          break
        }
        if catchUp.replay.isCareful, catchUp.replay.applied >= catchUp.carefulThrough { try reopen(&catchUp) }
      } catch {
        guard try recover(&catchUp, from: error, stop) else { break }
        if catchUp.isOvertaken {
          try catchUp.replay.sink.rest()
          self.catchUp = catchUp
          isMoved = true
          break
        }
      }
    }
    if self.catchUp == nil { catchUp.replay.abandon() }
    if isMoved {
      try main.reload()
      // This must follow the commit: until then, no more transactions count as known.
      main.holdWindow()
      let waiting = Set(main.waiting.map(\.source.nameKey))
      for key in attempts.keys where !waiting.contains(key) { attempts[key] = nil }
      tellWaiting()
      let awaitsCopies = main.awaitsCopies
      progress.update { $0.awaitsCopies = awaitsCopies }
      try purge()
    }
    return isMoved
  }

  private func end(_ catchUp: CatchUp, _ main: PostgresReplay) throws {
    let state = main.state
    try main.connection.transaction { for table in catchUp.tables { try state.move(table, to: nil) } }
  }

  private func reopen(_ catchUp: inout CatchUp) throws {
    catchUp.replay.abandon()
    catchUp.replay = try open(
      catchUp.tables, catchUp.desk, isCareful: catchUp.replay.applied < catchUp.carefulThrough, catchUp.refusals,
      catchUp.overtaken)
  }

  private func recover(_ catchUp: inout CatchUp, from error: any Error, _ stop: StopSignal) throws -> Bool {
    let (number, applied) = (catchUp.replay.cursor.present, catchUp.replay.applied)
    catchUp.replay.abandon()
    catchUp.desk?.shared.window.rollback(name)
    switch error {
    case let fault as PostgresSink.Fault:
      guard !catchUp.replay.isCareful else { throw fault.error ?? Self.untouched(catchUp.replay) }
      catchUp.carefulThrough = max(number, 1)
      do {
        if let desk = catchUp.desk { try catchUp.replay.commits.checkOvertaken(desk, stop) }
      } catch is LocalAhead { overtake(&catchUp, number - applied) }
    case let ahead as Ahead: try make(ahead, catchUp.replay.connection)
    case let refusal as SchemaStop:
      try tell(refusal.error, refusal.key, catchUp)
      postpone([refusal.key], isLocked: refusal.isLocked)
      let here = catchUp.tables.first { $0.source.hasSameBytes(as: refusal.key) && $0.from == refusal.position }
      if let here, let copy = try resyncPoint(than: refusal, here, catchUp) {
        catchUp.overtaken[refusal.position] = copy
        attempts[refusal.key] = nil
      } else if here != nil {
        catchUp.tables.removeAll { $0.source.hasSameBytes(as: refusal.key) }
        guard !catchUp.tables.isEmpty else { return false }
      } else {
        // Everything before this record is applied for good.
        catchUp.refusals[refusal.position] = refusal.error
      }
    case let failed as PostgresError where failed.isTransient:
      postpone(catchUp.tables.map(\.source))
      return false
    default: guard try recover(&catchUp, fromRows: error) else { return false }
    }
    catchUp.replay = try open(
      catchUp.tables, catchUp.desk, isCareful: applied < catchUp.carefulThrough, catchUp.refusals, catchUp.overtaken)
    return true
  }

  /// Handles an error that is not of the server and not of a schema change. Returns false if the catch-up must wait for
  /// its next attempt.
  private func recover(_ catchUp: inout CatchUp, fromRows error: any Error) throws -> Bool {
    let number = catchUp.replay.cursor.present
    // One-way, a row that fails is known already: the group is sent singly after a fault of the server only.
    let isCareful = catchUp.desk == nil || catchUp.replay.isCareful
    let mayResolve = catchUp.desk?.maySettle(through: number) ?? false
    switch ApplyDecision(isCareful: isCareful, mayResolve: mayResolve).next(after: error) {
    case .waitForCapture: overtake(&catchUp, number - catchUp.replay.applied)
    case .waitForClock:
      postpone(catchUp.tables.map(\.source))
      return false
    case .sendSingly: catchUp.carefulThrough = max(catchUp.carefulThrough, number)
    case .resolveAll:
      catchUp.desk?.settle(through: number)
      catchUp.carefulThrough = max(catchUp.carefulThrough, number)
    case .refused, .fail:
      guard let failed = error as? CairnError, Self.isOfRow(failed) else { throw error }
      for table in catchUp.tables { try tell(failed, table.source, catchUp) }
      postpone(catchUp.tables.map(\.source))
      return false
    }
    return true
  }

  /// Notes that a catch-up's group of `count` transactions was rolled back, because applications wrote some of its
  /// rows.
  private func overtake(_ catchUp: inout CatchUp, _ count: UInt64) {
    guard let desk = catchUp.desk else { return }
    catchUp.share.shrink(count)
    desk.overtaken(at: catchUp.replay.cursor.present)
    catchUp.isOvertaken = true
  }

  /// Returns a refresh, later in the trail than the refused record, with which a suspended table can continue. Nil if
  /// there is none, or if a refresh was already tried for that record.
  private func resyncPoint(
    than refusal: SchemaStop, _ table: PostgresApplyState.Waiting, _ catchUp: CatchUp
  ) throws -> ResyncPoint? {
    guard !refusal.isLocked, catchUp.overtaken[refusal.position] == nil, let replay else { return nil }
    let outcome = try ResyncPoint.find(
      refusal.error.code, at: refusal.position, in: folder, from: table.table, through: replay.applied,
      options: options, to: .postgres)
    progress.update { $0.copiesWanted[refusal.key] = outcome.wanted }
    if case .found(let copy) = outcome { return copy }
    return nil
  }

  private static func isOfRow(_ error: CairnError) -> Bool {
    [
      .rowMissing, .rowDiffers, .rowExists, .constraintFailed, .valueMisfit, .schemaStopped, .nameCollision,
      .tableRefused, .targetDiffers, .privilegeMissing,
    ].contains(error.code)
  }

  private func postpone(_ keys: [String], isLocked: Bool = false) {
    for key in keys {
      var attempt = attempts[key] ?? Attempt(schedule: .due)
      attempt.schedule.postpone(Clock.monotonicMilliseconds)
      attempt.isLocked = isLocked
      attempts[key] = attempt
    }
  }

  private func tell(_ error: CairnError, _ key: String, _ catchUp: CatchUp) throws {
    guard let table = catchUp.tables.first(where: { $0.source.hasSameBytes(as: key) }),
      !table.table.isSuspended(by: error)
    else { return }
    try catchUp.replay.state.tell(table, error)
    try replay?.reload()
    tellWaiting()
  }

  // MARK: Statements before a group

  /// Runs and commits statements before the group that needs them, each in its own transaction. The group runs again
  /// what the server refuses here, such as a statement about a type that the group creates.
  func make(_ ahead: Ahead, _ connection: PostgresConnection) throws {
    for statement in ahead.statements {
      do { try connection.execute(statement) } catch let error as PostgresError where error.isOfShape {}
      madeAhead.insert(statement)
    }
  }
}
