import Changes
import Configuring
import ControlAPI
import Testing
@testable import Trails

@testable import Daemon

@Suite struct RetentionPlanTests {
  private static let day: Int64 = 86_400_000_000

  /// Segments of 100 bytes, begun a day apart, the last one on day `count`.
  private func trail(_ name: String, _ numbers: ClosedRange<UInt64>) -> RetentionPlan.Trail {
    RetentionPlan.Trail(
      name: name,
      segments: numbers.map {
        TrailInfo.Segment(
          number: $0, bytes: 100, isSealed: $0 < numbers.upperBound, firstTransaction: $0,
          created: Int64($0) * Self.day)
      })
  }

  private func reader(_ name: String, _ trail: String, _ segment: UInt64?, isExpired: Bool = false)
    -> RetentionPlan.Reader
  {
    RetentionPlan.Reader(
      name: WorkerName(.apply, name), trail: trail, segment: segment, isExpired: isExpired)
  }

  private func limits(disk: Int64? = nil, days: Int? = nil) -> Configuration.Limits {
    var limits = Configuration.Limits()
    limits.diskBytes = disk
    limits.retain = days.map { .seconds($0 * 86_400) }
    return limits
  }

  @Test func `segments go that every reader has passed`() {
    let plan = RetentionPlan(
      limits(), trails: [trail("n.a", 1...9)], readers: [reader("x", "n.a", 7), reader("y", "n.a", 4)],
      isPaused: false, now: 0)
    #expect(plan.purgeBelow == ["n.a": 4])
    #expect(plan.bytes == 600)
    #expect(plan.expired.isEmpty && !plan.pausesCaptures)
  }

  @Test func `a reader of whom nothing is known keeps all`() {
    let plan = RetentionPlan(
      limits(), trails: [trail("n.a", 3...9)], readers: [reader("x", "n.a", nil), reader("y", "n.a", 9)],
      isPaused: false, now: 0)
    #expect(plan.purgeBelow == ["n.a": 0])
  }

  @Test func `a trail without readers is kept for as long as it may be`() {
    let unlimited = RetentionPlan(
      limits(), trails: [trail("n.a", 1...9)], readers: [], isPaused: false, now: 20 * Self.day)
    #expect(unlimited.purgeBelow == ["n.a": 0])
    let limited = RetentionPlan(
      limits(days: 14), trails: [trail("n.a", 1...9)], readers: [], isPaused: false, now: 20 * Self.day)
    #expect(limited.purgeBelow == ["n.a": 6])
  }

  @Test func `a reader that is away for longer than allowed is given up`() {
    let readers = [reader("x", "n.a", 2), reader("y", "n.a", 9)]
    let soon = RetentionPlan(
      limits(days: 14), trails: [trail("n.a", 1...9)], readers: readers, isPaused: false, now: 16 * Self.day)
    #expect(soon.expired.isEmpty)
    let late = RetentionPlan(
      limits(days: 14), trails: [trail("n.a", 1...9)], readers: readers, isPaused: false, now: 18 * Self.day)
    #expect(late.expired == [.init(WorkerName(.apply, "x"), "n.a")])
    #expect(late.purgeBelow == ["n.a": 9])
  }

  @Test func `one that reads the live segment is never given up, whatever the clock says`() {
    let plan = RetentionPlan(
      limits(days: 1), trails: [trail("n.a", 1...9)], readers: [reader("y", "n.a", 9)], isPaused: false,
      now: 9999 * Self.day)
    #expect(plan.expired.isEmpty)
  }

  @Test func `over budget, the slowest goes first and no more than is needed`() {
    let plan = RetentionPlan(
      limits(disk: 1000), trails: [trail("n.a", 1...9), trail("n.b", 4...9)],
      readers: [reader("x", "n.a", 1), reader("y", "n.b", 4), reader("z", "n.a", 8)], isPaused: false, now: 0)
    #expect(plan.expired == [.init(WorkerName(.apply, "x"), "n.a")])
    #expect(plan.purgeBelow == ["n.a": 8, "n.b": 4])
    #expect(plan.bytes == 800)
    #expect(!plan.pausesCaptures)
  }

  @Test func `each step of the budget names limit, use, who holds it and what to do`() {
    let plan = RetentionPlan(
      limits(disk: 250), trails: [trail("n.a", 1...9), trail("n.b", 1...3)], readers: [reader("x", "n.a", 1)],
      isPaused: false, now: 0)
    let words = BudgetWords(plan, limits(disk: 250))
    #expect(
      plan.expired.map { words.expiry(of: $0) } == [
        "no longer holds trail n.a: the trails hold 1.2 KiB, [limits] disk allows 250 B, and it lags most; its missed changes are copied when it returns"
      ])
    #expect(
      words.pause
        == "the trails hold 400 B, [limits] disk allows 250 B, and no more can be deleted: captures pause; n.b is kept, as nothing reads it here"
    )
    #expect(words.pauseHint.contains("[limits] retain"))
    let busy = RetentionPlan(
      limits(disk: 50), trails: [trail("n.a", 9...9)], readers: [reader("x", "n.a", 9)], isPaused: false, now: 0)
    #expect(BudgetWords(busy, limits(disk: 50)).pause.hasSuffix("n.a is needed by apply.x"))
    let old = RetentionPlan(
      limits(days: 14), trails: [trail("n.a", 1...9)], readers: [reader("x", "n.a", 2)], isPaused: false,
      now: 18 * Self.day)
    #expect(
      BudgetWords(old, limits(days: 14)).expiry(of: .init(WorkerName(.apply, "x"), "n.a")).contains(
        "longer than [limits] retain allows (336 h)"))
  }

  @Test func `when no reader is left to give up, captures rest`() {
    let plan = RetentionPlan(
      limits(disk: 90), trails: [trail("n.a", 1...9)], readers: [reader("x", "n.a", 9)], isPaused: false, now: 0)
    #expect(plan.expired.isEmpty)
    #expect(plan.pausesCaptures)
  }

  @Test func `when all is applied, captures go on: what they write lets the rest go`() {
    var ready = reader("x", "n.a", 9)
    ready.isAtEnd = true
    let plan = RetentionPlan(
      limits(disk: 90), trails: [trail("n.a", 1...9)], readers: [ready], isPaused: true, now: 0)
    #expect(!plan.pausesCaptures)
    let unread = RetentionPlan(limits(disk: 90), trails: [trail("n.a", 1...9)], readers: [], isPaused: false, now: 0)
    #expect(unread.pausesCaptures)
  }

  @Test func `captures go on only when there is some room`() {
    func pauses(_ disk: Int64, _ isPaused: Bool) -> Bool {
      RetentionPlan(
        limits(disk: disk), trails: [trail("n.a", 9...9)], readers: [reader("x", "n.a", 9)], isPaused: isPaused,
        now: 0
      ).pausesCaptures
    }
    #expect(!pauses(105, false))
    #expect(pauses(105, true))
    #expect(!pauses(112, true))
  }

  @Test func `one that was given up before is reported once`() {
    let plan = RetentionPlan(
      limits(disk: 100), trails: [trail("n.a", 1...9)], readers: [reader("x", "n.a", 1, isExpired: true)],
      isPaused: false, now: 0)
    #expect(plan.expired.isEmpty)
    #expect(plan.purgeBelow == ["n.a": 9])
  }

  @Test func `the time until full follows the last minutes`() {
    var forecast = FillForecast()
    forecast.note(used: 0, now: 0)
    #expect(forecast.secondsUntil(100) == nil)
    forecast.note(used: 50, now: 25_000)
    #expect(forecast.secondsUntil(100) == 25)
    forecast.note(used: 50, now: 340_000)
    #expect(forecast.secondsUntil(100) == nil)
  }

  @Test func `a slot is given up last, and only where the conf says so`() {
    var source = NodeStatus.Source(capture: "erp")
    (source.slotBytes, source.slotSafeBytes) = (5 << 30, 100 << 20)
    var limits = limits(disk: 1 << 30)
    func givesUp(_ isPaused: Bool = true) -> Bool {
      SlotVerdict.givesUp(source, isPaused: isPaused, limits: limits)
    }
    #expect(!givesUp())
    limits.givesUpSlot = true
    #expect(givesUp())
    #expect(!givesUp(false))
    source.slotSafeBytes = 1 << 40
    #expect(!givesUp())
    source.slotSafeBytes = nil
    #expect(givesUp())
    source.slotBytes = 1 << 20
    #expect(!givesUp())
  }
}
