import Changes
import Testing

@testable import Applying

/// The reaction of apply to the errors of a group, decided from values.
@Suite struct ApplyDecisionTests {
  struct Unknown: Error {}

  private func next(_ code: ErrorCode, isCareful: Bool = true, mayResolve: Bool = false) -> ApplyDecision.Next {
    ApplyDecision(isCareful: isCareful, mayResolve: mayResolve).next(after: error(code))
  }

  private func error(_ code: ErrorCode) -> CairnError { CairnError(code, "", hint: "") }

  @Test(arguments: [(true, true), (true, false), (false, true), (false, false)])
  func `a group waits for capture and for clocks, however it was sent`(isCareful: Bool, mayResolve: Bool) {
    let decision = ApplyDecision(isCareful: isCareful, mayResolve: mayResolve)
    #expect(decision.next(after: LocalAhead()) == .waitForCapture)
    let header = TransactionHeader(commitTime: 5)
    #expect(decision.next(after: ClockGate.Ahead(header: header)) == .waitForClock(header))
    #expect(decision.next(after: Unknown()) == .fail)
  }

  @Test(arguments: [ErrorCode.rowMissing, .rowDiffers, .rowExists])
  func `a row that differs is found, then resolved, then refused`(code: ErrorCode) {
    #expect(next(code, isCareful: false, mayResolve: true) == .sendSingly)
    #expect(next(code, mayResolve: true) == .resolveAll)
    #expect(next(code) == .refused)
  }

  @Test(arguments: [ErrorCode.constraintFailed, .valueMisfit, .conflictStopped, .tableForbidden])
  func `a row that the target refuses is found, and not resolved`(code: ErrorCode) {
    #expect(next(code, isCareful: false, mayResolve: true) == .sendSingly)
    #expect(next(code, mayResolve: true) == .refused)
  }

  @Test func `a refused rule stops apply at its transaction`() {
    #expect(next(.ruleRefused, isCareful: false) == .sendSingly)
    #expect(next(.ruleRefused, mayResolve: true) == .fail)
  }

  @Test(arguments: [ErrorCode.trailDamaged, .checkpointMoved, .databaseBusy])
  func `an error that is not of rows ends apply`(code: ErrorCode) {
    #expect(next(code, isCareful: false, mayResolve: true) == .fail)
    #expect(next(code, mayResolve: true) == .fail)
  }
}

@Suite struct CatchUpScheduleTests {
  @Test func `attempts come later each time, at most a minute`() {
    var schedule = CatchUpSchedule(from: 1_000)
    #expect(!schedule.isDue(2_999) && schedule.isDue(3_000))
    var (now, waits): (Int64, [Int64]) = (3_000, [])
    for _ in 0..<7 {
      schedule.postpone(now)
      let from = now
      while !schedule.isDue(now) { now += 500 }
      waits.append(now - from)
    }
    #expect(waits == [2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000])
  }

  @Test func `a table that was suspended before is tried at once`() { #expect(CatchUpSchedule.due.isDue(0)) }
}

/// A patience, and what it has answered so far.
@Suite struct ServerPatienceTests {
  private var patience = ServerPatience()

  private mutating func waits(_ fault: ServerPatience.Fault, _ count: Int) -> [Int64] {
    (0..<count).compactMap { _ in
      guard case .wait(let milliseconds) = next(fault) else { return nil }
      return milliseconds
    }
  }

  private mutating func next(_ fault: ServerPatience.Fault, isDraining: Bool = false, at now: Int64 = 0)
    -> ServerPatience.Next
  {
    patience.next(after: fault, isDraining: isDraining, now: now)
  }

  @Test mutating func `waits double up to five seconds, and begin again after an answer`() {
    let waits = waits(.away, 8)
    #expect(waits == [100, 200, 400, 800, 1600, 3200, 5000, 5000] && patience.isAway)
    patience.connected()
    #expect(!patience.isAway)
    let again = self.waits(.away, 1)
    #expect(again == [100])
  }

  @Test mutating func `a drain gives a lost server up after a minute, a service never`() {
    _ = next(.away, isDraining: true, at: 1_000)
    let service = next(.away, at: 500_000)
    let (early, late) = (next(.away, isDraining: true, at: 61_000), next(.away, isDraining: true, at: 61_001))
    #expect(service != .fail && early != .fail && late == .fail)
    #expect(!patience.isOver(now: 61_000) && patience.isOver(now: 61_001))
  }

  @Test mutating func `the lock timeout stays below the deadlock timeout`() {
    var timeouts = [patience.lockMilliseconds]
    for _ in 0..<6 {
      _ = next(.locked)
      timeouts.append(patience.lockMilliseconds)
    }
    #expect(timeouts == [50, 100, 200, 400, 800, 800, 800])
    patience.moved()
    #expect(patience.lockMilliseconds == 50)
  }

  @Test mutating func `the tenth failure without a commit ends apply`() {
    let first = waits(.passing, 9).count
    patience.moved()
    let second = waits(.passing, 9).count
    let tenth = next(.passing)
    #expect(first == 9 && second == 9 && tenth == .fail)
    let other = next(.other)
    #expect(other == .fail)
  }

  @Test mutating func `a busy server is waited for only after it was lost`() {
    let before = patience.nextWhileBusy()
    _ = next(.away)
    let after = patience.nextWhileBusy()
    #expect(before == nil && after == .wait(milliseconds: 200))
  }
}
