import Changes
import SQLiteKit
import SystemKit
import Trails

// Suspended tables: each has a checkpoint of its own, from which a catch-up tries to continue.
extension SQLiteApply {
  /// A catch-up: a second reader of the trail, which applies it to one suspended table.
  struct CatchUp {
    /// The conflict handling of a two-way table; nil if the table is one-way.
    let desk: SQLiteReplay.Desk?
    var replay: SQLiteReplay?
    var schedule: CatchUpSchedule
  }

  private enum Progress {
    case resumed
    case moved
    case refused
  }

  var waiting: [WaitingTable] {
    target.waiting(in: replay.reader.id).sorted { $0.key < $1.key }.map(\.value.table)
  }

  func tellWaiting() {
    let waiting = waiting
    let keys = Set(target.waiting(in: replay.reader.id).keys)
    progress.update {
      $0.waiting = waiting
      $0.copiesWanted = $0.copiesWanted.filter { keys.contains($0.key) }
    }
  }

  // MARK: Beginning to wait

  /// Suspends a table after the target refused a record. Apply then reads the group again from its begin, and skips the
  /// table from that record on.
  func wait(for refusal: SQLiteReplay.Refusal) throws {
    var refusals = replay.refusals.filter { $0.key >= replay.groupStart.position }
    // A record that is refused although its table waits would be tried without end.
    if refusals[refusal.position] != nil { throw refusal.error }
    refusals[refusal.position] = refusal.error
    try reopen(refusals)
  }

  /// Reads the trail again from apply's last commit on.
  ///
  /// - Parameter refusals: The errors of records, by position in the trail. Apply suspends the table of each such
  ///   record.
  func reopen(_ refusals: [Position: CairnError]) throws {
    try target.reload()
    try loadQuarantine()
    replay = try SQLiteReplay(
      target, trail: folder, at: checkpoint, number: number, refusals: refusals, desk: desk, shelf: shelf,
      statements: statements)
  }

  /// Creates the catch-ups of tables that were suspended in the last group.
  func noteWaiting() {
    let schedule = CatchUpSchedule(from: Clock.monotonicMilliseconds)
    for key in target.waiting(in: replay.reader.id).keys where catchUps[key] == nil {
      catchUps[key] = catchUp(key, schedule)
    }
    tellWaiting()
  }

  // MARK: Trying again

  private func catchUp(_ key: NameKey, _ schedule: CatchUpSchedule) -> CatchUp {
    let names = target.tables[key]?.waiting?.names ?? []
    guard let twoWay = options.twoWay, names.contains(where: { options.goesBothWays("", $0) }) else {
      return CatchUp(desk: nil, schedule: schedule)
    }
    let desk = SQLiteReplay.Desk(twoWay, name, RowNames(to: .sqlite, options.names), target.clock)
    return CatchUp(desk: desk, schedule: schedule)
  }

  /// Runs the catch-ups that are in progress or whose next attempt is due. Returns whether any of them has made
  /// progress.
  ///
  /// - Parameter isLast: Whether to run all catch-ups, even if their next attempt is not due.
  func tryCatchUps(_ stop: StopSignal, isLast: Bool = false) throws -> Bool {
    var isMoved = false
    let keys = target.waiting(in: replay.reader.id).keys.sorted()
    for key in catchUps.keys where !keys.contains(key) { catchUps[key] = nil }
    for key in keys where !stop.isSet {
      var catchUp = catchUps[key] ?? catchUp(key, .due)
      guard isLast || catchUp.replay != nil || catchUp.schedule.isDue(Clock.monotonicMilliseconds) else { continue }
      let result = try advanceOrSettle(key, &catchUp, stop)
      switch result {
      case .resumed: catchUps[key] = nil
      case .moved: catchUps[key] = catchUp
      case .refused:
        catchUp.replay = nil
        catchUp.schedule.postpone(Clock.monotonicMilliseconds)
        catchUps[key] = catchUp
      }
      isMoved = isMoved || result != .refused
    }
    if isMoved {
      tellWaiting()
      let awaitsCopies = awaitsCopies
      progress.update { $0.awaitsCopies = awaitsCopies }
      try purge()
    }
    return isMoved
  }

  /// Applies the next transactions of a catch-up, and returns its progress. For a two-way table, takes the lock that
  /// lets one apply of the database at a time write.
  private func advanceOrSettle(_ key: NameKey, _ catchUp: inout CatchUp, _ stop: StopSignal) throws -> Progress {
    guard let desk = catchUp.desk else { return try advance(key, &catchUp, stop) }
    // Apply waits after it has released the lock of the applies, because other applies wait for the lock.
    var wait: (() throws -> Void)?
    let progress = try desk.shared.inTurn(stop) { try takeTurn(key, &catchUp, desk, stop, &wait) }
    guard let progress else { throw ApplyStopped() }
    try wait?()
    return progress
  }

  private func takeTurn(
    _ key: NameKey, _ catchUp: inout CatchUp, _ desk: SQLiteReplay.Desk, _ stop: StopSignal,
    _ wait: inout (() throws -> Void)?
  ) throws -> Progress {
    do { return try advance(key, &catchUp, stop) } catch {
      target.rollback()
      desk.shared.window.rollback(name)
      let number = desk.place.stamp.number
      switch ApplyDecision(isCareful: true, mayResolve: desk.maySettle(through: number)).next(after: error) {
      case .waitForCapture:
        progress.update { $0.isWaitingForCapture = true }
        wait = { try desk.waitForCapture(stop) }
      case .waitForClock: wait = { _ = stop.wait(milliseconds: 200) }
      case .resolveAll: desk.settle(through: number)
      case .sendSingly, .refused, .fail:
        desk.shared.note(error)
        throw error
      }
      try target.reload()
      catchUp.replay = nil
      return .moved
    }
  }

  private func advance(_ key: NameKey, _ catchUp: inout CatchUp, _ stop: StopSignal) throws -> Progress {
    guard let waiting = target.tables[key]?.waiting else { return .resumed }
    let shape = target.shape
    let isOver = try waiting.isGone && !waiting.names.contains(where: shape.exists)
    if isOver || waiting.table.number >= number { return try resume(key, waiting, stop, isKept: !isOver) }
    let replay =
      try catchUp.replay
      ?? SQLiteReplay(
        target, trail: folder, at: waiting.table.checkpoint, number: waiting.table.number, scope: .catchUp(key),
        desk: catchUp.desk, shelf: shelf)
    catchUp.replay = replay
    let end = Clock.monotonicMilliseconds + CatchUpSchedule.slice
    do {
      while let group = try replay.applyGroup(through: number, stop) {
        if try commit(group, of: replay, key) { return .resumed }
        if Clock.monotonicMilliseconds > end || stop.isSet { return .moved }
      }
      throw CairnError(
        .trailDamaged, "trail \(name) ends before transaction \(number), which was applied",
        hint: "run 'cairn trail verify \(name)'")
    } catch let refusal as SQLiteReplay.Refusal {
      target.rollback()
      try target.reload()
      try tell(refusal.error, key)
      catchUp.replay = nil
      try advance(key, to: refusal, catchUp.desk, stop)
      return try overtake(key, refusal, catchUp.desk, stop) ? .moved : .refused
    } catch {
      target.rollback()
      throw error
    }
  }

  private func advance(
    _ key: NameKey, to refusal: SQLiteReplay.Refusal, _ desk: SQLiteReplay.Desk?, _ stop: StopSignal
  ) throws {
    guard let waiting = target.tables[key]?.waiting, waiting.from != refusal.position else { return }
    let replay = try SQLiteReplay(
      target, trail: folder, at: waiting.table.checkpoint, number: waiting.table.number, scope: .catchUp(key),
      refusals: [refusal.position: refusal.error], desk: desk, shelf: shelf)
    do {
      while replay.halt == nil, let group = try replay.applyGroup(through: number, stop) {
        if try commit(group, of: replay, key) { return }
      }
    } catch is SQLiteReplay.Refusal {
      // The target has been changed since the refusal.
      target.rollback()
      try target.reload()
    } catch {
      target.rollback()
      throw error
    }
  }

  /// Continues a suspended table with a later refresh in the trail. Returns false if the trail has no such refresh, or
  /// if the target refuses it.
  private func overtake(
    _ key: NameKey, _ refusal: SQLiteReplay.Refusal, _ desk: SQLiteReplay.Desk?, _ stop: StopSignal
  ) throws -> Bool {
    guard let waiting = target.tables[key]?.waiting, waiting.from == refusal.position else { return false }
    let outcome = try ResyncPoint.find(
      refusal.error.code, at: refusal.position, in: folder, from: waiting.table, through: number, options: options,
      to: .sqlite)
    progress.update { $0.copiesWanted[key.text] = outcome.wanted }
    guard case .found(let copy) = outcome else { return false }
    let replay = try SQLiteReplay(
      target, trail: folder, at: waiting.table.checkpoint, number: waiting.table.number, scope: .catchUp(key),
      overtaken: [refusal.position: copy], desk: desk, shelf: shelf)
    do {
      while replay.halt == nil, let group = try replay.applyGroup(through: number, stop) {
        if try commit(group, of: replay, key) { break }
      }
      return replay.halt != nil
    } catch let refusal as SQLiteReplay.Refusal {
      target.rollback()
      try target.reload()
      try tell(refusal.error, key)
      return false
    } catch {
      target.rollback()
      throw error
    }
  }

  private func resume(
    _ key: NameKey, _ waiting: SQLiteApplyState.Waiting, _ stop: StopSignal, isKept: Bool
  ) throws -> Progress {
    guard try target.begin(stop) else { throw ApplyStopped() }
    do {
      try end(key, waiting, isKept: isKept)
      try target.commit()
    } catch {
      target.rollback()
      throw error
    }
    replay.tables.forgetShapes()
    options.twoWay?.hold(name, through: heldThrough)
    return .resumed
  }

  private func commit(_ group: ApplyGroup, of replay: SQLiteReplay, _ key: NameKey) throws -> Bool {
    guard var known = target.tables[key], var waiting = known.waiting else { return true }
    let row = waiting.names.last ?? key.text
    try target.state.checkWaiting(row, at: replay.groupStart, waiting.from)
    if let halt = replay.halt {
      (waiting.table.checkpoint, waiting.table.number, waiting.from) = (halt.checkpoint, halt.number, halt.from)
    } else {
      (waiting.table.checkpoint, waiting.table.number) = (replay.reader.checkpoint, replay.cursor.whole)
      if replay.tables.catchUpName != nil { waiting.from = nil }
    }
    let hasReached = replay.halt == nil && replay.cursor.whole >= number
    if hasReached {
      try end(key, waiting, isKept: options.ddl == .ignore)
    } else {
      known.waiting = waiting
      try target.state.save(row, known)
      target.tables[key] = known
    }
    if replay.desk != nil, group.isOfChanges {
      try write(noteOf: group, through: min(number, heldThrough ?? .max), replay)
    }
    try target.commit()
    noteAdopted(replay)
    self.replay.tables.forgetShapes()
    replay.tables.forgetShapes()
    // This must follow the commit: until then, no more transactions count as known.
    options.twoWay?.hold(name, through: heldThrough)
    if let desk = replay.desk {
      progress.update { $0.isWaitingForCapture = false }
      try desk.committed(nil)
    }
    let rows = UInt64(group.rows)
    progress.update {
      $0.rows += rows
      replay.refreshes.report(to: &$0)
      $0.conflicts += replay.rows.conflicts
    }
    replay.rows.conflicts = 0
    return hasReached
  }

  private func end(_ key: NameKey, _ waiting: SQLiteApplyState.Waiting, isKept: Bool) throws {
    try target.state.checkpoints.check(name, at: checkpoint)
    var row = waiting.names.last ?? key.text
    var known = target.tables[key] ?? .init()
    known.waiting = nil
    target.guardsAreDue = true
    let wanted = SQLiteTables.wanted(row)
    if !wanted.hasSameBytes(as: row), target.tables[wanted.sqliteKey] == nil {
      // The table now has the name that it could not have while it waited.
      try target.state.forget(row)
      target.tables[key] = nil
      row = wanted
    }
    if try known.claim != TableClaim.none && (isKept || target.shape.exists(row)) {
      try target.state.save(row, known)
      target.tables[row.sqliteKey] = known
    } else {
      try target.state.forget(row)
      target.tables[row.sqliteKey] = nil
    }
  }

  private func tell(_ error: CairnError, _ key: NameKey) throws {
    guard var known = target.tables[key], known.waiting?.table.isSuspended(by: error) == false else { return }
    known.waiting?.table.code = error.code
    known.waiting?.table.message = error.message
    known.waiting?.table.hint = error.hint
    let (state, row, saved) = (target.state, known.waiting?.names.last ?? key.text, known)
    try target.database.transaction { try state.save(row, saved) }
    target.tables[key] = known
    tellWaiting()
  }
}
