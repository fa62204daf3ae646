import Changes
import SQLiteKit
import SystemKit

// Transactions that are put aside, and come back.
extension SQLiteReplay {
  /// Whether the transaction that begins is passed over. Within the group's transaction, it is noted there.
  func putAside(_ header: TransactionHeader) throws -> Bool {
    guard let shelf else { return false }
    guard scope == .main else { return shelf.contains(header.number) }
    let look = try shelf.look(
      header, at: reader.position, behind: reader.checkpoint, now: target.clock.microseconds())
    guard var one = look else { return false }
    one.id = try SQLiteQuarantineLog(database).append(one)
    shelf.add(one)
    target.progress.note(one.notice)
    return true
  }
}

extension SQLiteApply {
  private var log: SQLiteQuarantineLog { SQLiteQuarantineLog(target.database) }

  /// As the target has it.
  func loadQuarantine() throws {
    shelf.load(try log.list(), of: replay.reader.id)
    let count = shelf.count
    progress.update { $0.quarantined = count }
  }

  /// What came behind that transaction may have come out of its order.
  var heldThrough: UInt64? { (waiting.map(\.number) + [shelf.quarantine.heldThrough].compactMap { $0 }).min() }

  /// Does one thing that a person wants of what is put aside, or that has become possible by it; false when there is
  /// nothing. While a table waits, its part of a transaction could not come with the others'.
  func settleQuarantine(_ stop: StopSignal) throws -> Bool {
    let now = Clock.monotonicMilliseconds
    guard !shelf.quarantine.isEmpty, waiting.isEmpty, now >= nextLook else { return false }
    try target.checkIdentity()
    try loadQuarantine()
    guard let step = shelf.quarantine.step else {
      nextLook = now + QuarantineShelf.lookMilliseconds
      return false
    }
    switch step {
    case .forget(let one): try inTransaction(stop) { try log.remove(one.id) }
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
    guard try target.begin(stop) else { throw SQLiteReplay.Stopped() }
    do {
      try body()
      try target.commit()
    } catch {
      target.rollback()
      throw error
    }
  }

  /// Applies one at its place, in a commit of its own.
  private func retry(_ one: QuarantinedTransaction, _ stop: StopSignal) throws {
    if let desk { guard try desk.shared.enter(stop) else { throw SQLiteReplay.Stopped() } }
    defer { desk?.shared.leave() }
    while !stop.isSet {
      let replay = try SQLiteReplay(target, trail: folder, at: one.border, number: one.number - 1, desk: desk)
      do {
        guard let group = try replay.applyGroup(through: one.number, stop), replay.number == one.number else {
          throw CairnError(
            .trailDamaged, "trail \(name) does not have transaction \(one.number), which is in quarantine",
            hint: "run 'cairn trail verify \(name)'")
        }
        try log.remove(one.id)
        if group.isOfChanges {
          try write(noteOf: group, through: min(number, shelf.quarantine.heldThrough(besides: one) ?? .max), replay)
        }
        try target.state.check(name, at: checkpoint)
        try target.commit()
        noteAdopted(replay)
        try desk?.shared.window.commit(name)
        self.replay.forgetShapes()
        progress.update {
          $0.rows += UInt64(group.rows)
          $0.conflicts += replay.conflicts
        }
        return
      } catch {
        target.rollback()
        desk?.shared.window.rollback(name)
        try target.reload()
        self.replay.forgetShapes()
        switch error {
        case is LocalAhead: try desk?.waitForCapture(stop)
        case is ClockGate.Ahead: _ = stop.wait(milliseconds: 200)
        case let refusal as SQLiteReplay.Refusal: return try explain(one, refusal.error, stop)
        case let error as CairnError where TwoWay.isOfRow(error) && desk?.settle(through: one.number) ?? false: break
        case let error as CairnError where QuarantineShelf.isOfRows(error): return try explain(one, error, stop)
        default: throw error
        }
      }
    }
    throw SQLiteReplay.Stopped()
  }

  /// It stays, for this reason.
  private func explain(_ one: QuarantinedTransaction, _ error: CairnError, _ stop: StopSignal) throws {
    var one = one
    one.explain(error)
    try inTransaction(stop) { try log.save(one) }
  }
}
