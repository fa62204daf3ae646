import Changes
import PostgresKit
import SystemKit

// Transactions in quarantine, and how they are retried.
extension PostgresReplay {
  /// Returns whether the transaction must go into quarantine. If so, adds it to the quarantine log in the group's
  /// transaction. In a catch-up, the log already has the transaction.
  func putAside(_ header: TransactionHeader) throws -> Bool {
    guard let shelf = notes.shelf, notes.retried == nil else { return false }
    guard !tables.scope.isCatchUp else { return shelf.contains(header.number) }
    let look = try shelf.look(header, at: reader.position, behind: reader.checkpoint, now: clock.microseconds())
    guard var one = look else { return false }
    if session.head == nil { try begin(header, as: header.number - 1) }
    try refresh.endChunk()
    try sink.settle()
    one.id = try QuarantineLog(connection).append(one)
    shelf.add(one)
    desk?.shared.putAside(one.number, of: name)
    progress.note(one.notice)
    return true
  }
}

extension PostgresApply {
  func loadQuarantine(_ replay: PostgresReplay) throws {
    let (log, id) = (QuarantineLog(replay.connection), replay.reader.id)
    shelf.load(try log.list(), of: id)
    if let desk { desk.shared.note(aside: shelf.quarantine.numbers.union(try log.discarded(of: name, id)), of: name) }
    let count = shelf.count
    progress.update { $0.quarantined = count }
  }

  /// Carries out one request of the operator about a quarantined transaction, or tries such a transaction again.
  /// Returns false if there was nothing to do.
  ///
  /// Does nothing and returns false while a table is suspended.
  func settleQuarantine(_ replay: PostgresReplay, _ stop: StopSignal) throws -> Bool {
    let now = Clock.monotonicMilliseconds
    guard !shelf.quarantine.isEmpty, replay.waiting.isEmpty, now >= nextLook else { return false }
    try replay.sink.rest()
    try loadQuarantine(replay)
    guard let step = shelf.quarantine.step else {
      nextLook = now + QuarantineStore.lookMilliseconds
      return false
    }
    // Another replay needs the connection. The main one has to read the state again afterwards.
    let connection = replay.connection
    let log = QuarantineLog(connection)
    forget()
    switch step {
    case .forget(let one): try connection.transaction { try log.discard(one) }
    case .hold(var one, let holder):
      one.wait(for: holder)
      try log.save(one)
    case .apply(let one): try retry(one, connection, stop)
    }
    return true
  }

  private func retry(_ one: QuarantinedTransaction, _ connection: PostgresConnection, _ stop: StopSignal) throws {
    let isDone = try TwoWay.retryInTurns(desk?.shared, stop) { try attempt(one, connection, stop, &$0) }
    if !isDone { throw ApplyStopped() }
  }

  /// Tries to apply a quarantined transaction.
  ///
  /// - Parameter wait: Set to the function that the caller must call before the next attempt; nil: no function.
  /// - Returns: True if the transaction was applied or stays in quarantine. False if the caller must try again.
  private func attempt(
    _ one: QuarantinedTransaction, _ connection: PostgresConnection, _ stop: StopSignal,
    _ wait: inout (() throws -> Void)?
  ) throws -> Bool {
    let replay = try PostgresReplay(
      connection, trail: folder, name: name, options: options, clock: clock, progress: progress, isCareful: true,
      madeAhead: madeAhead, refusals: [:], desk: desk, shelf: shelf, retried: one)
    do {
      guard try replay.applyAvailable(stop, through: one.number), replay.cursor.present == one.number else {
        throw CairnError(
          .trailDamaged, "trail \(name) does not have transaction \(one.number), which is in quarantine",
          hint: "run 'cairn trail verify \(name)'")
      }
      desk?.shared.bringBack(one.number, of: name)
      replay.abandon()
      return true
    } catch {
      replay.abandon()
      desk?.shared.window.rollback(name)
      switch error {
      case let ahead as Ahead:
        try make(ahead, connection)
        return false
      // Apply waits for the sessions that use the table.
      case let refusal as SchemaStop where refusal.isLocked:
        wait = { _ = stop.wait(milliseconds: 200) }
        return false
      case let refusal as SchemaStop:
        try explain(one, refusal.error, connection)
        return true
      case let fault as PostgresSink.Fault: throw fault.error ?? Self.untouched(replay)
      default: break
      }
      let mayResolve = desk?.maySettle(through: one.number) ?? false
      switch ApplyDecision(isCareful: true, mayResolve: mayResolve).next(after: error) {
      case .waitForCapture: wait = { [self] in if let desk { try waitForCapture(desk, stop) } }
      case .waitForClock: wait = { _ = stop.wait(milliseconds: 200) }
      case .resolveAll: desk?.settle(through: one.number)
      case .refused:
        if let error = error as? CairnError { try explain(one, error, connection) }
        return true
      case .sendSingly, .fail: throw error
      }
      return false
    }
  }

  private func explain(_ one: QuarantinedTransaction, _ error: CairnError, _ connection: PostgresConnection) throws {
    var one = one
    one.explain(error)
    try QuarantineLog(connection).save(one)
  }
}
