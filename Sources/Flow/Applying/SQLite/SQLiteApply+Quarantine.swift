import Changes
import SQLiteKit
import SystemKit

// Transactions in quarantine, and how they are retried.
extension SQLiteReplay {
  /// Returns whether the transaction is in quarantine. If it must go there, adds it to the quarantine log first.
  func putAside(_ header: TransactionHeader) throws -> Bool {
    guard let shelf else { return false }
    guard scope == .main else { return shelf.contains(header.number) }
    let look = try shelf.look(
      header, at: reader.position, behind: reader.checkpoint, now: file.clock.microseconds())
    guard var one = look else { return false }
    one.id = try QuarantineLog(database).append(one)
    shelf.add(one)
    desk?.shared.putAside(one.number, of: file.trail)
    file.progress.note(one.notice)
    return true
  }
}

extension SQLiteApply {
  private var log: QuarantineLog { QuarantineLog(target.database) }

  func loadQuarantine() throws {
    shelf.load(try log.list(), of: replay.reader.id)
    if let desk {
      let discarded = try log.discarded(of: name, replay.reader.id)
      desk.shared.note(aside: shelf.quarantine.numbers.union(discarded), of: name)
    }
    let count = shelf.count
    progress.update { $0.quarantined = count }
  }

  /// The transaction after which the target may lack changes, because of suspended tables or the quarantine. Nil if the
  /// target lacks no changes.
  var heldThrough: UInt64? { (waiting.map(\.number) + [shelf.quarantine.heldThrough].compactMap { $0 }).min() }

  /// Handles one transaction of the quarantine: removes it, retries it, or lets it wait for another one. Returns false
  /// if there was nothing to do.
  ///
  /// Does nothing while a table is suspended.
  func settleQuarantine(_ stop: StopSignal) throws -> Bool {
    let now = Clock.monotonicMilliseconds
    guard !shelf.quarantine.isEmpty, waiting.isEmpty, now >= nextLook else { return false }
    try target.checkIdentity()
    try loadQuarantine()
    guard let step = shelf.quarantine.step else {
      nextLook = now + QuarantineStore.lookMilliseconds
      return false
    }
    switch step {
    case .forget(let one): try inTransaction(stop) { try log.discard(one) }
    case .hold(var one, let holder):
      one.wait(for: holder)
      try inTransaction(stop) { try log.save(one) }
    case .apply(let one): try retry(one, stop)
    }
    try loadQuarantine()
    try purge()
    return true
  }

  private func inTransaction(_ stop: StopSignal, _ body: () throws -> Void) throws {
    guard try target.begin(stop) else { throw ApplyStopped() }
    do {
      try body()
      try target.commit()
    } catch {
      target.rollback()
      throw error
    }
  }

  private func retry(_ one: QuarantinedTransaction, _ stop: StopSignal) throws {
    let isDone = try TwoWay.retryInTurns(desk?.shared, stop) { try attempt(one, stop, &$0) }
    if !isDone { throw ApplyStopped() }
  }

  /// Tries to apply a quarantined transaction. Returns false if the caller must call `wait` and then try it once more.
  private func attempt(_ one: QuarantinedTransaction, _ stop: StopSignal, _ wait: inout (() throws -> Void)?) throws
    -> Bool
  {
    let replay = try SQLiteReplay(target, trail: folder, at: one.border, number: one.number - 1, desk: desk)
    do {
      guard let group = try replay.applyGroup(through: one.number, stop), replay.cursor.whole == one.number else {
        throw CairnError(
          .trailDamaged, "trail \(name) does not have transaction \(one.number), which is in quarantine",
          hint: "run 'cairn trail verify \(name)'")
      }
      try log.remove(one.id)
      if group.isOfChanges {
        try write(noteOf: group, through: min(number, shelf.quarantine.heldThrough(besides: one) ?? .max), replay)
      }
      try target.state.checkpoints.check(name, at: checkpoint)
      try target.commit()
      desk?.shared.bringBack(one.number, of: name)
      noteAdopted(replay)
      try desk?.shared.window.commit(name)
      self.replay.tables.forgetShapes()
      progress.update {
        $0.rows += UInt64(group.rows)
        $0.conflicts += replay.rows.conflicts
      }
      return true
    } catch {
      target.rollback()
      desk?.shared.window.rollback(name)
      try target.reload()
      self.replay.tables.forgetShapes()
      if let refusal = error as? SQLiteReplay.Refusal {
        try explain(one, refusal.error, stop)
        return true
      }
      let mayResolve = desk?.maySettle(through: one.number) ?? false
      switch ApplyDecision(isCareful: true, mayResolve: mayResolve).next(after: error) {
      case .waitForCapture: wait = { [desk] in try desk?.waitForCapture(stop) }
      case .waitForClock: wait = { _ = stop.wait(milliseconds: 200) }
      case .resolveAll: desk?.settle(through: one.number)
      case .refused:
        if let error = error as? CairnError { try explain(one, error, stop) }
        return true
      case .sendSingly, .fail: throw error
      }
      return false
    }
  }

  private func explain(_ one: QuarantinedTransaction, _ error: CairnError, _ stop: StopSignal) throws {
    var one = one
    one.explain(error)
    try inTransaction(stop) { try log.save(one) }
  }
}
