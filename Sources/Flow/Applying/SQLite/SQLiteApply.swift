import Changes
import SQLiteKit
import SystemKit
import Trails

/// Applies a trail to an SQLite file: whole transactions, in order, with the checkpoint in the same commit.
///
/// Apply runs on the caller's thread, which it blocks. If a row differs from what the trail says, apply stops with an
/// error that names the row.
///
/// A table whose schema change cannot be made is suspended.
///
///     let apply = try SQLiteApply(path: "copy.db", trail: folder, name: trail, options: ApplyOptions())
///     try apply.run(stop: stop, drain: drain)
package final class SQLiteApply {
  package typealias Options = ApplyOptions

  let folder: String
  let target: SQLiteTarget
  var replay: SQLiteReplay
  var checkpoint: Checkpoint?
  /// The last transaction that was committed to the target.
  var number: UInt64
  var catchUps: [NameKey: CatchUp] = [:]
  /// The conflict handling of two-way replication; nil if the apply is one-way.
  let desk: SQLiteReplay.Desk?
  /// One-way: the check that no transaction's clock is too far ahead of this node's clock. A two-way apply checks this
  /// in its conflict handling.
  private let gate: ClockGate
  let shelf: QuarantineStore
  let statements: StatementSession?
  var nextLook: Int64 = 0
  private var isDraining = false
  private var refreshWait = RefreshWait()
  private var purgedBelow: UInt64 = 0

  var name: TrailName { target.trail }
  var options: Options { target.options }
  var progress: ApplyProgress { target.progress }

  /// Opens the target and the trail. Creates the target's file if it does not exist.
  ///
  /// - Throws: The errors of ``SQLiteError``. `checkpoint-foreign` if the checkpoint is from another trail, or the next
  ///   segment is purged.
  package init(
    path: String, trail folder: String, name: TrailName, options: Options, clock: Clock = .system,
    progress: ApplyProgress = .init()
  ) throws {
    self.folder = folder
    target = try SQLiteTarget(path: path, trail: name, options: options, clock: clock, progress: progress)
    let stored = try target.state.checkpoints.checkpoint(of: name)
    checkpoint = stored?.checkpoint
    number = stored?.number ?? 0
    desk = options.twoWay.map { TwoWaySession($0, name, RowNames(to: .sqlite, options.names), clock) }
    gate = ClockGate(name, clock, skewMicrosecondsMax: options.skewMicrosecondsMax)
    shelf = QuarantineStore(name, folder: folder, puts: options.quarantines)
    statements = try StatementSession(options, progress)
    replay = try SQLiteReplay(
      target, trail: folder, at: checkpoint, number: number, desk: desk, shelf: shelf, statements: statements)
    try loadQuarantine()
    if let desk {
      let (state, database) = (target.state, target.database)
      desk.shared.hold(name, through: heldThrough)
      try desk.lookAtKeys { try SQLiteApplyTable.foreignKeys(database) }
      try desk.shared.prepare(
        desk.names, hasUniqueValues: SQLiteDisplacedRows(database: database).mayCome,
        candidates: SQLiteDisplacedRows(database: database).counts, returned: StoredReturns(database).all,
        reach: { try state.reach(of: $0) ?? .init() })
      try desk.shared.check(name, replay.reader.id)
    }
    let awaitsCopies = awaitsCopies
    let needs = checkpoint == nil ? options.askedAt?.position : progress.snapshot.needs
    let position = checkpoint?.position ?? .start
    progress.update { ($0.awaitsCopies, $0.needs, $0.position) = (awaitsCopies, needs, position) }
  }

  /// Creates the target's file if it does not exist, so that it can be captured before it has tables.
  package static func makeFile(_ path: String) throws { _ = try SQLiteTarget.open(path) }

  var awaitsCopies: Bool {
    options.askedBehind > 0 && number <= options.askedBehind || target.tables.values.contains(where: \.isAwaited)
  }

  // MARK: The loop

  /// Applies until `stop` is set, or to the end of the trail once `drain` is set.
  ///
  /// If `stop` is set while apply waits for the trail, this function returns within a second.
  ///
  /// - Throws: `schema-stopped` at the end if a table is suspended.
  package func run(stop: StopSignal, drain: StopSignal) throws {
    do {
      try purge()
      while !stop.isSet {
        // `drain` is read before the trail: records that were appended before it was set are still found.
        let isLast = drain.isSet
        isDraining = isLast
        let isMoved = try tryCatchUps(stop) || settleQuarantine(stop)
        tellWaiting()
        try refreshWait.wait(in: folder, options.rules, to: .sqlite, stop)
        replay.cursor.waitedThrough = refreshWait.through
        if try step(stop) || isMoved { continue }
        try target.checkIdentity()
        progress.noteEnd(replay.reader.durableEnd.position)
        if isLast {
          if try tryCatchUps(stop, isLast: true) { continue }
          break
        }
        if try replay.reader.wait(milliseconds: drain.isSet ? 0 : 1000, also: drain.descriptor) {
          progress.update { $0.isCaughtUp = false }
        }
      }
    } catch is ApplyStopped {}
    if let error = WaitingTable.error(waiting) { throw error }
  }

  /// Applies the next available transactions in one commit. Returns false if there are none.
  ///
  /// A transaction that the target refuses goes into quarantine if the conf allows it. If not, the error is thrown.
  private func step(_ stop: StopSignal) throws -> Bool {
    do { return try stepOrSettle(stop) } catch let error as CairnError
      where shelf.takes(error, of: replay.cursor.present)
    {
      try reopen(replay.refusals.filter { $0.key >= replay.groupStart.position })
      return true
    }
  }

  private func stepOrSettle(_ stop: StopSignal) throws -> Bool {
    guard let desk else { return try stepOneWay(stop) }
    switch try desk.shared.inTurn(stop, { try takeTurn(desk, stop) }) {
    case .moved(let isMoved)?: return isMoved
    case .heldBack(let held)?: return try desk.gate.wait(for: held, isDraining: isDraining, stop)
    case .overtaken?:
      progress.update { $0.isWaitingForCapture = true }
      try desk.waitForCapture(stop)
      return true
    case nil: return false
    }
  }

  private func stepOneWay(_ stop: StopSignal) throws -> Bool {
    do {
      let isMoved = try step(stop, through: min(gate.limit() ?? .max, options.lastTransaction))
      progress.update { $0.heldUntil = gate.heldUntil }
      if !isMoved, let held = gate.heldBack { return try gate.wait(for: held, isDraining: isDraining, stop) }
      return isMoved
    } catch let ahead as ClockGate.Ahead {
      gate.holdBack(ahead.header)
      try reopen(replay.refusals.filter { $0.key >= replay.groupStart.position })
      return true
    }
  }

  private func takeTurn(_ desk: SQLiteReplay.Desk, _ stop: StopSignal) throws -> TurnEnd {
    do {
      let isMoved = try step(stop, through: desk.gate.limit() ?? .max)
      if !isMoved { try lookAtCandidates(stop) }
      try SQLiteOwnWrites(replay: replay, desk: desk).resolve(isIdle: !isMoved, stop)
      try decide(desk)
      progress.update { $0.heldUntil = desk.gate.heldUntil }
      if !isMoved, let held = desk.gate.heldBack { return .heldBack(held) }
      return .moved(isMoved)
    } catch {
      desk.shared.window.rollback(name)
      let number = replay.cursor.whole + 1
      var end = TurnEnd.moved(true)
      switch ApplyDecision(isCareful: true, mayResolve: desk.maySettle(through: number)).next(after: error) {
      case .waitForCapture:
        target.rollback()
        end = .overtaken
      case .waitForClock(let header): desk.gate.holdBack(header)
      case .resolveAll: desk.settle(through: number)
      case .sendSingly, .refused, .fail:
        desk.shared.note(error)
        throw error
      }
      try reopen(replay.refusals.filter { $0.key >= replay.groupStart.position })
      return end
    }
  }

  /// Writes open decisions on a separate connection, because capture ignores the rows that apply's own connection
  /// writes.
  private func decide(_ desk: SQLiteReplay.Desk) throws {
    guard desk.shared.mayHaveDecisions else { return }
    if try Decisions(target.database).isEmpty() { return desk.shared.mayHaveDecisions = false }
    let session = try Database(path: target.database.path, mode: .readWrite)
    // The application's own triggers fire here, and write to its full-text tables.
    session.trustSchema()
    session.setBusyTimeout(milliseconds: 200)
    try session.execute("PRAGMA foreign_keys = ON")
    let outcome = try Decisions(session).make(within: options.scope)
    if case .refused(let notice) = outcome { progress.note(notice) }
    desk.shared.mayHaveDecisions = outcome.isLocked
  }

  /// Writes waiting rows to their tables if their unique values are free, in a separate transaction.
  private func lookAtCandidates(_ stop: StopSignal) throws {
    guard desk?.shared.mayHaveCandidates == true, try target.begin(stop) else { return }
    defer { target.rollback() }
    if let desk {
      desk.beginGroup()
      try replay.inform(desk)
    }
    if try replay.resolver?.judge() ?? false { try target.commit() }
    desk?.noteCandidates()
  }

  private func step(_ stop: StopSignal, through limit: UInt64) throws -> Bool {
    let begun = Clock.monotonicMilliseconds
    do {
      guard let group = try replay.applyGroup(through: limit, stop) else { return false }
      try commit(group)
      return true
    } catch let refusal as SQLiteReplay.Refusal {
      target.rollback()
      try wait(for: refusal)
      // Each table that begins to wait repeats the group. Applications get the lock for as long as apply had it.
      _ = stop.wait(milliseconds: Int32(clamping: min(Clock.monotonicMilliseconds - begun, 1000)))
      return true
    } catch let due as RefreshDue {
      target.rollback()
      desk?.shared.window.rollback(name)
      try reopen(replay.refusals.filter { $0.key >= replay.groupStart.position })
      refreshWait.due = due
      return true
    } catch let differs as StatementDiffers {
      statements?.note(differs)
      target.rollback()
      try reopen(replay.refusals.filter { $0.key >= replay.groupStart.position })
      return true
    } catch {
      target.rollback()
      throw error
    }
  }

  /// Writes the applied note of a group into the target's journal, for the target's capture. Called in the group's
  /// transaction.
  ///
  /// - Parameter number: The last transaction up to which the target lacks nothing.
  func write(noteOf group: ApplyGroup, through number: UInt64, _ replay: SQLiteReplay) throws {
    try target.notes.write(
      AppliedNote(
        trail: name.description, id: replay.reader.id, number: number, clock: group.last.clock,
        position: replay.reader.position))
  }

  private func commit(_ group: ApplyGroup) throws {
    let reached = replay.reader.checkpoint
    let now = target.clock.microseconds()
    let (checkpoints, whole) = (target.state.checkpoints, replay.cursor.whole)
    if let checkpoint {
      try checkpoints.move(name, from: checkpoint, to: reached, number: whole, now: now)
    } else {
      try checkpoints.begin(name, at: reached, number: whole, now: now)
    }
    desk?.shared.hold(name, through: heldThrough)
    // A group that changes nothing is not noted: two databases would otherwise report such notes to each other for
    // ever.
    if group.isOfChanges { try write(noteOf: group, through: min(replay.cursor.whole, heldThrough ?? .max), replay) }
    try target.commit()
    noteAdopted(replay)
    statements?.committed(through: reached.position)
    (checkpoint, number) = (reached, replay.cursor.whole)
    shelf.forgetFailed(through: number)
    if let desk {
      progress.update { $0.isWaitingForCapture = false }
      try desk.committed(number)
    }
    let (replay, awaitsCopies, quarantined) = (replay, awaitsCopies, shelf.count)
    progress.noteLag(
      group.last.commitTime, now: target.clock.microseconds(), isCopying: replay.refreshes.current != nil)
    progress.update {
      $0.rows += UInt64(group.rows)
      $0.transactions = replay.cursor.whole
      $0.position = reached.position
      $0.copying = replay.refreshes.shown { $0.schema.name }
      replay.refreshes.report(to: &$0)
      $0.conflicts += replay.rows.conflicts
      $0.quarantined = quarantined
      $0.isCaughtUp = false
      $0.awaitsCopies = awaitsCopies
    }
    replay.rows.conflicts = 0
    noteWaiting()
    try purge()
  }

  func noteAdopted(_ replay: SQLiteReplay) {
    let adopted = replay.changedRules.noteCommit()
    guard !adopted.isEmpty else { return }
    target.adopted.formUnion(adopted)
    self.replay.changedRules.leave(adopted)
    progress.update { $0.rulesAdopted.formUnion(adopted) }
  }

  /// Deletes the segments of the trail that no reader needs.
  func purge() throws {
    guard let checkpoint else { return }
    try target.checkIdentity()
    let places = waiting.map(\.checkpoint.position) + [shelf.quarantine.needs].compactMap { $0 }
    try options.noteNeeded(places.reduce(checkpoint.position, min))
    let needed = try places.reduce(options.needed(checkpoint.position, of: name), min)
    progress.update { $0.needs = needed }
    guard options.purgesTrail, needed.segment > purgedBelow else { return }
    purgedBelow = needed.segment
    _ = try Trail.purge(folder: folder, below: needed)
  }
}
