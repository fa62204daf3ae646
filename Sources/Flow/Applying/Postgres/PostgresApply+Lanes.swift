import Changes
import PostgresKit
import SystemKit
import Trails

// Tables that wait: each has a checkpoint of its own, from which a lane tries to continue.
extension PostgresApply {
  /// A lane: a second reader of the trail, which applies it to suspended tables. All tables of a lane wait at the same
  /// place.
  struct Lane {
    /// The time for which a lane runs before the other tables have their turn, in ms.
    static let sliceMilliseconds: Int64 = 500

    var tables: [PostgresTargetState.Waiting]
    /// The conflict handling of two-way tables; nil for one-way tables.
    let desk: PostgresReplay.Desk?
    var replay: PostgresReplay
    /// The records that the target refuses, with the reasons.
    var refusals: [Position: CairnError] = [:]
    /// The later copies with which tables of the lane continue, by the records with which the tables wait.
    var overtaken: [Position: LaterCopy] = [:]
    var carefulThrough: UInt64 = 0
    var share = GroupShare()
    /// Whether apply waits for capture, after its turn, before it runs the lane again.
    var isOvertaken = false
  }

  /// The time and delay of the next attempt to continue a suspended table.
  struct Attempt {
    static let delayMin: Int64 = 2_000
    static let delayMax: Int64 = 60_000
    /// The time of the next attempt, in monotonic ms. ``delay`` is the wait after a failed one.
    var next: Int64
    var delay: Int64 = delayMin
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

  func closeLane() {
    lane?.replay.abandon()
    lane = nil
  }

  // MARK: Beginning to wait

  /// Suspends a table. The group is rolled back and applied again, from the refused record on without the table.
  func wait(for refusal: SchemaStop, _ replay: PostgresReplay) throws {
    replay.abandon()
    self.replay = nil
    refusals = refusals.filter { $0.key >= replay.position }
    // A record that is refused although its table waits would be tried without end.
    if refusals[refusal.position] != nil { throw refusal.error }
    refusals[refusal.position] = refusal.error
    attempts[refusal.key] = Attempt(
      next: Clock.monotonicMilliseconds + Attempt.delayMin, isLocked: refusal.isLocked)
  }

  // MARK: Trying again

  /// Runs a lane that is due. Returns whether the lane has committed something.
  ///
  /// - Parameter isLast: Whether all lanes run, as far as they can.
  func tryLanes(_ stop: StopSignal, isLast: Bool = false) throws -> Bool {
    guard let replay, !replay.waiting.isEmpty else { return false }
    if var lane {
      self.lane = nil
      return try advanceOrSettle(&lane, replay, stop)
    }
    var isMoved = false
    for group in Self.groups(replay.waiting) where !stop.isSet {
      let isDue = group.contains { table in
        attempts[table.source].map { Clock.monotonicMilliseconds >= $0.next } ?? true
      }
      guard isDue || isLast else { continue }
      let desk = laneDesk(group, replay)
      var lane = Lane(tables: group, desk: desk, replay: try open(group, desk))
      if try advanceOrSettle(&lane, replay, stop) {
        // The other tables have their turn, and the state of the waiting ones has changed.
        isMoved = true
        break
      }
    }
    return isMoved
  }

  /// Groups suspended tables by the place at which they wait. Tables that wait at one place may need each other, such
  /// as tables that swapped names.
  private static func groups(_ tables: [PostgresTargetState.Waiting]) -> [[PostgresTargetState.Waiting]] {
    Dictionary(grouping: tables, by: \.table.checkpoint).values.sorted { $0[0].table.number < $1[0].table.number }
  }

  /// Returns the conflict handling of a lane; nil if all of its tables are one-way.
  private func laneDesk(
    _ tables: [PostgresTargetState.Waiting], _ main: PostgresReplay
  ) -> PostgresReplay.Desk? {
    let goesBothWays = tables.contains { table in
      main.tables[table.source].map { options.goesBothWays($0.schema, $0.name) } ?? true
    }
    guard let twoWay = options.twoWay, goesBothWays else { return nil }
    return .init(twoWay, name, RowNames(to: .postgres, options.names), clock)
  }

  private func open(
    _ tables: [PostgresTargetState.Waiting], _ desk: PostgresReplay.Desk?, isCareful: Bool = false,
    _ refusals: [Position: CairnError] = [:], _ overtaken: [Position: LaterCopy] = [:]
  ) throws -> PostgresReplay {
    guard let connection else { throw ApplyStopped() }
    let own = Set(tables.map(\.source.nameKey))
    let others = (replay?.waiting ?? []).filter { !own.contains($0.source) }
    do {
      return try PostgresReplay(
        connection, trail: folder, name: name, options: options, clock: clock, progress: progress,
        isCareful: isCareful, madeAhead: madeAhead, refusals: refusals, lane: tables,
        heldElsewhere: others.map(\.table.number).min(), overtaken: overtaken, desk: desk, shelf: shelf)
    } catch let error as CairnError where error.code == .checkpointForeign {
      let names = tables.map(\.table.name).joined(separator: ", ")
      throw CairnError(
        .checkpointForeign, "table \(names) needs changes that the trail no longer has: \(error.message)",
        hint: "copy all tables again: with the daemon 'cairn copy APPLY', else run again with --existing overwrite")
    }
  }

  /// Applies the next transactions of a lane, and returns whether anything was committed. Conflicts of its rows are
  /// resolved as for other tables, with all versions that are known by now.
  private func advanceOrSettle(_ lane: inout Lane, _ main: PostgresReplay, _ stop: StopSignal) throws -> Bool {
    guard let desk = lane.desk else { return try advance(&lane, main, stop) }
    let isMoved = try desk.shared.inTurn(stop) {
      do { return try advance(&lane, main, stop) } catch {
        desk.shared.window.rollback(name)
        desk.shared.note(error)
        throw error
      }
    }
    guard let isMoved else { throw ApplyStopped() }
    // Apply waits after its turn, because other applies wait for the turn.
    if lane.isOvertaken {
      self.lane?.isOvertaken = false
      progress.update { $0.isWaitingForCapture = true }
      defer { progress.update { $0.isWaitingForCapture = false } }
      try desk.waitForCapture(stop)
    }
    return isMoved
  }

  /// Runs a lane for a slice of time. Returns whether anything was committed.
  private func advance(_ lane: inout Lane, _ main: PostgresReplay, _ stop: StopSignal) throws -> Bool {
    try main.sink.rest()
    let deadline = Clock.monotonicMilliseconds + Lane.sliceMilliseconds
    let last = main.applied
    var isMoved = false
    try lane.replay.reload()
    while !stop.isSet {
      if lane.replay.applied >= last {
        // The trail has nothing for these tables between their place and that of the others.
        try end(lane, main)
        isMoved = true
        break
      }
      do {
        guard
          try lane.replay.applyAvailable(stop, through: last, count: lane.share.count, isLaneDone: true)
        else { break }
        isMoved = true
        lane.share.grow()
        lane.tables = lane.replay.waiting
        if lane.replay.applied >= last { try lane.replay.keepUpIdentities(isLast: true) }
        if lane.tables.isEmpty || lane.replay.applied >= last { break }
        if Clock.monotonicMilliseconds > deadline {
          try lane.replay.sink.rest()
          self.lane = lane
          break
        }
        if lane.replay.isCareful, lane.replay.applied >= lane.carefulThrough { try reopen(&lane) }
      } catch {
        guard try recover(&lane, from: error, stop) else { break }
        if lane.isOvertaken {
          try lane.replay.sink.rest()
          self.lane = lane
          isMoved = true
          break
        }
      }
    }
    if self.lane == nil { lane.replay.abandon() }
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

  private func end(_ lane: Lane, _ main: PostgresReplay) throws {
    let state = main.state
    try main.connection.transaction { for table in lane.tables { try state.move(table, to: nil) } }
  }

  private func reopen(_ lane: inout Lane) throws {
    lane.replay.abandon()
    lane.replay = try open(
      lane.tables, lane.desk, isCareful: lane.replay.applied < lane.carefulThrough, lane.refusals, lane.overtaken)
  }

  /// Recovers from an error in a lane, whose group was rolled back. Returns false if its tables continue to wait.
  private func recover(_ lane: inout Lane, from error: any Error, _ stop: StopSignal) throws -> Bool {
    let (number, applied) = (lane.replay.number, lane.replay.applied)
    lane.replay.abandon()
    lane.desk?.shared.window.rollback(name)
    switch error {
    case let fault as PostgresSink.Fault:
      guard !lane.replay.isCareful else { throw fault.error ?? Self.untouched(lane.replay) }
      lane.carefulThrough = max(number, 1)
      do {
        if let desk = lane.desk { try lane.replay.checkOvertaken(desk, stop) }
      } catch is LocalAhead { overtake(&lane, number - applied) }
    case is LocalAhead: overtake(&lane, number - applied)
    case is ClockGate.Ahead:
      postpone(lane.tables.map(\.source))
      return false
    case let failed as CairnError
    where lane.desk != nil && !lane.replay.isCareful && QuarantineShelf.isOfRows(failed):
      lane.carefulThrough = max(lane.carefulThrough, number)
    case let failed as CairnError where TwoWay.isOfRow(failed) && lane.desk?.settle(through: number) ?? false:
      lane.carefulThrough = max(lane.carefulThrough, number)
    case let ahead as Ahead: try make(ahead, lane.replay.connection)
    case let refusal as SchemaStop:
      try tell(refusal.error, refusal.key, lane)
      postpone([refusal.key], isLocked: refusal.isLocked)
      let here = lane.tables.first { $0.source.hasSameBytes(as: refusal.key) && $0.from == refusal.position }
      if let here, let copy = try laterCopy(than: refusal, here, lane) {
        lane.overtaken[refusal.position] = copy
        attempts[refusal.key] = nil
      } else if here != nil {
        lane.tables.removeAll { $0.source.hasSameBytes(as: refusal.key) }
        guard !lane.tables.isEmpty else { return false }
      } else {
        // Everything before this record is applied for good.
        lane.refusals[refusal.position] = refusal.error
      }
    case let failed as PostgresError where failed.isTransient:
      postpone(lane.tables.map(\.source))
      return false
    case let failed as CairnError where Self.isOfRow(failed):
      for table in lane.tables { try tell(failed, table.source, lane) }
      postpone(lane.tables.map(\.source))
      return false
    default: throw error
    }
    lane.replay = try open(
      lane.tables, lane.desk, isCareful: applied < lane.carefulThrough, lane.refusals, lane.overtaken)
    return true
  }

  /// Notes that applications overtook a group of `count` transactions, which is rolled back: apply waits for capture.
  private func overtake(_ lane: inout Lane, _ count: UInt64) {
    guard let desk = lane.desk else { return }
    lane.share.shrink(count)
    desk.overtaken(at: lane.replay.number)
    lane.isOvertaken = true
  }

  /// Returns a later copy with which a table can continue whose rule could not be kept. Nil if there is none, or it was
  /// tried.
  private func laterCopy(
    than refusal: SchemaStop, _ table: PostgresTargetState.Waiting, _ lane: Lane
  ) throws -> LaterCopy? {
    guard !refusal.isLocked, lane.overtaken[refusal.position] == nil, let replay else { return nil }
    let outcome = try LaterCopy.find(
      refusal.error.code, at: refusal.position, in: folder, from: table.table, through: replay.applied,
      options: options, to: .postgres)
    progress.update { $0.copiesWanted[refusal.key] = outcome.wanted }
    if case .found(let copy) = outcome { return copy }
    return nil
  }

  /// Returns whether an error is about a row or a table: in a lane, the table continues to wait for that reason.
  private static func isOfRow(_ error: CairnError) -> Bool {
    [
      .rowMissing, .rowDiffers, .rowExists, .constraintFailed, .valueMisfit, .schemaStopped, .nameCollision,
      .tableRefused, .targetDiffers, .privilegeMissing,
    ].contains(error.code)
  }

  private func postpone(_ keys: [String], isLocked: Bool = false) {
    for key in keys {
      let delay = attempts[key]?.delay ?? Attempt.delayMin
      attempts[key] = Attempt(
        next: Clock.monotonicMilliseconds + delay, delay: min(delay * 2, Attempt.delayMax), isLocked: isLocked)
    }
  }

  /// Stores the reason why a table is suspended, if the reason has changed.
  private func tell(_ error: CairnError, _ key: String, _ lane: Lane) throws {
    guard let table = lane.tables.first(where: { $0.source.hasSameBytes(as: key) }),
      !table.table.isSuspended(by: error)
    else { return }
    try lane.replay.state.tell(table, error)
    try replay?.reload()
    tellWaiting()
  }
}
