import Changes
import Configuring
import ControlAPI
import TestServers
import Testing
@testable import Trails

@testable import Daemon

/// The history that trails keep besides what their readers need.
@Suite struct TrailHistoryTests {
  private static let day: Int64 = 86_400_000_000

  /// Segments of 100 bytes, begun a day apart, the last one on day `count`.
  private func trail(
    _ name: String, _ numbers: ClosedRange<UInt64>, days: Int? = nil, bytes: Int64? = nil
  ) -> RetentionPlan.Trail {
    RetentionPlan.Trail(
      name: name,
      segments: numbers.map {
        TrailInfo.Segment(
          number: $0, bytes: 100, isSealed: $0 < numbers.upperBound, firstTransaction: $0,
          created: Int64($0) * Self.day)
      }, keep: .init(age: days.map { .seconds($0 * 86_400) }, bytes: bytes))
  }

  private func reader(_ name: String, _ trail: String, _ segment: UInt64?) -> RetentionPlan.Reader {
    RetentionPlan.Reader(name: WorkerName(.apply, name), trail: trail, segment: segment, isExpired: false)
  }

  private func limits(disk: Int64? = nil, days: Int? = nil) -> Configuration.Limits {
    var limits = Configuration.Limits()
    limits.diskBytes = disk
    limits.retain = days.map { .seconds($0 * 86_400) }
    return limits
  }

  private func below(
    _ trail: RetentionPlan.Trail, _ readers: [RetentionPlan.Reader], _ limits: Configuration.Limits? = nil
  ) -> UInt64? {
    RetentionPlan(
      limits ?? self.limits(), trails: [trail], readers: readers, isPaused: false, now: 20 * Self.day
    ).purgeBelow[trail.name]
  }

  @Test func `segments stay for the time that the conf says, after all readers have passed`() {
    let there = [reader("x", "n.a", 20)]
    #expect(below(trail("n.a", 1...20, days: 7), there) == 13)
    #expect(below(trail("n.a", 1...20, days: 100), there) == 1)
    #expect(below(trail("n.a", 1...20, bytes: 450), there) == 17)
    #expect(below(trail("n.a", 1...20, bytes: 10), there) == 20)
    #expect(below(trail("n.a", 1...20, days: 7, bytes: 450), there) == 17)
    #expect(below(trail("n.a", 1...20, days: 2, bytes: 450), there) == 18)
  }

  @Test func `what a reader needs stays, whatever the history is`() {
    #expect(below(trail("n.a", 1...20, days: 7), [reader("x", "n.a", 3)]) == 3)
    #expect(below(trail("n.a", 1...20, bytes: 100), [reader("x", "n.a", nil), reader("y", "n.a", 20)]) == 0)
  }

  @Test func `a trail without readers is history alone`() {
    #expect(below(trail("n.a", 1...20, days: 7), []) == 13)
    #expect(below(trail("n.a", 1...20, days: 7), [], limits(days: 14)) == 13)
  }

  @Test func `a reader that lags for too long is not given up while its segments are history`() {
    let plan = RetentionPlan(
      limits(days: 5), trails: [trail("n.a", 1...20, days: 10)], readers: [reader("x", "n.a", 12)], isPaused: false,
      now: 20 * Self.day)
    #expect(plan.expired.isEmpty && plan.purgeBelow == ["n.a": 10])
    let late = RetentionPlan(
      limits(days: 5), trails: [trail("n.a", 1...20, days: 10)], readers: [reader("x", "n.a", 8)], isPaused: false,
      now: 20 * Self.day)
    #expect(late.expired == [.init(WorkerName(.apply, "x"), "n.a")])
  }

  @Test func `the oldest history of all trails gives way to the disk limit, and readers do not`() {
    let trails = [trail("n.a", 1...20, days: 100), trail("n.b", 15...20, days: 100)]
    let readers = [reader("x", "n.a", 18), reader("y", "n.b", 15)]
    let plan = RetentionPlan(
      limits(disk: 1300), trails: trails, readers: readers, isPaused: false, now: 20 * Self.day)
    #expect(plan.purgeBelow == ["n.a": 15, "n.b": 15])
    #expect(plan.bytes == 1200 && plan.parts["n.a"]?.history == 300)
    #expect(plan.expired.isEmpty && !plan.pausesCaptures)
    #expect(plan.shortened == ["n.a"])
    let words = BudgetWords(plan, limits(disk: 1300))
    #expect(
      words.shortened("n.a", .init(age: .seconds(86_400)), since: 0)
        == "trail n.a keeps its history since 1970-01-01T00:00:00.000000Z only, instead of 1 d: the trails hold 2.5 KiB, and a disk limit (1.3 KiB for all trails) leaves no room for more"
    )
  }

  @Test func `history that was shortened is reported until it is whole again`() {
    func shortened(_ first: UInt64, _ days: Int) -> Set<NameKey> {
      RetentionPlan(
        limits(disk: 3000), trails: [trail("n.a", first...20, days: days)], readers: [], shortened: ["n.a"],
        isPaused: false, now: 20 * Self.day
      ).shortened
    }
    #expect(shortened(15, 7) == ["n.a"])
    #expect(shortened(13, 7) == [])
    #expect(shortened(15, 5) == [])
  }

  @Test func `history of a peer's trails leaves room for what the peer brings`() {
    let plan = RetentionPlan(
      limits(), trails: [trail("p.a", 1...20, days: 100), trail("n.a", 1...20, days: 100)],
      readers: [reader("x", "p.a", 19)], shares: [.init(trails: ["p.a"], bytes: 1000)], isPaused: false,
      now: 20 * Self.day)
    #expect(plan.purgeBelow == ["p.a": 12, "n.a": 1])
    #expect(plan.shortened == ["p.a"])
  }

  @Test(arguments: 0..<20)
  func `random plans keep what a model keeps`(seed: UInt64) {
    var random = Seeded(seed)
    for _ in 0..<200 {
      let now = Int64.random(in: 0...60, using: &random) * Self.day
      var trails: [RetentionPlan.Trail] = []
      var readers: [RetentionPlan.Reader] = []
      for name in ["n.a", "n.b", "p.c"].prefix(Int.random(in: 1...3, using: &random)) {
        let first = UInt64.random(in: 1...30, using: &random)
        let last = first + UInt64.random(in: 0...25, using: &random)
        var trail = trail(
          name, first...last, days: Bool.random(using: &random) ? Int.random(in: 1...40, using: &random) : nil,
          bytes: Bool.random(using: &random) ? Int64.random(in: 1...4000, using: &random) : nil)
        if trail.keep == .init() { trail.keep = nil }
        trails.append(trail)
        for reader in 0..<Int.random(in: 0...3, using: &random) {
          let segment =
            Int.random(in: 0..<8, using: &random) == 0 ? nil : UInt64.random(in: first...last, using: &random)
          readers.append(self.reader("r\(reader)", name, segment))
        }
      }
      let limits = limits(
        disk: Bool.random(using: &random) ? Int64.random(in: 100...6000, using: &random) : nil,
        days: Bool.random(using: &random) ? Int.random(in: 1...60, using: &random) : nil)
      let plan = RetentionPlan(limits, trails: trails, readers: readers, isPaused: false, now: now)
      check(plan, limits, trails, readers, now)
    }
  }

  // The model decides on each segment alone.
  private func check(
    _ plan: RetentionPlan, _ limits: Configuration.Limits, _ trails: [RetentionPlan.Trail],
    _ readers: [RetentionPlan.Reader], _ now: Int64
  ) {
    var bytes: UInt64 = 0
    var oldestHistory: Int64?
    var youngestCut: Int64?
    for trail in trails {
      let below = plan.purgeBelow[trail.name] ?? 0
      let live = trail.segments.last?.number ?? 0
      #expect(below <= live)
      let kept = trail.segments.filter { $0.number >= below }
      bytes += UInt64(kept.count) * 100
      let own = readers.filter { $0.trail == trail.name }
      for (index, segment) in trail.segments.enumerated() {
        let isKept = segment.number >= below
        let isNeeded = own.contains { !plan.expired.contains($0.id) && ($0.segment ?? 0) <= segment.number }
        if isNeeded { #expect(isKept, "\(trail.name) \(segment.number) is needed") }
        guard let keep = trail.keep, segment.number < live else { continue }
        // The segment has a transaction that is young enough, and it is among the newest of the size.
        let end = trail.segments[index + 1].created
        let isYoung = keep.age.map { end > now - Int64($0.components.seconds) * 1_000_000 } ?? true
        let isNew = keep.bytes.map { UInt64(trail.segments.count - index) * 100 <= UInt64($0) } ?? true
        if isYoung, isNew {
          if !isKept { youngestCut = max(youngestCut ?? .min, segment.created) }
          let isHistory = !own.contains { ($0.segment ?? 0) <= segment.number }
          if isKept, isHistory { oldestHistory = min(oldestHistory ?? .max, segment.created) }
        } else if isKept {
          #expect(
            own.contains { ($0.segment ?? 0) <= segment.number }, "\(trail.name) \(segment.number) is kept for nothing")
        }
      }
    }
    #expect(bytes == plan.bytes)
    if let cut = youngestCut {
      #expect(limits.diskBytes != nil && !plan.shortened.isEmpty)
      // History is a queue over all trails: nothing older is left than what was cut.
      if let oldest = oldestHistory, plan.expired.isEmpty { #expect(oldest >= cut) }
      if !plan.expiredForRoom.isEmpty { #expect(!plan.expired.isEmpty) }
    }
    if let disk = limits.diskBytes, trails.allSatisfy({ $0.keep != nil }) {
      let pinned = trails.reduce(UInt64(0)) { sum, trail in
        let own = readers.filter { $0.trail == trail.name && !plan.expired.contains($0.id) }
        let live = trail.segments.last?.number ?? 0
        let need = min(own.map { $0.segment ?? 0 }.min() ?? live, live)
        return sum + UInt64(trail.segments.count { $0.number >= need }) * 100
      }
      // Either all is within the limit, or no history is left.
      #expect(plan.bytes <= UInt64(disk) || plan.bytes == pinned)
    }
  }
}
