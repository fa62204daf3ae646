import Changes
import Synchronization
import SystemKit
import TestServers
import Testing

@testable import Applying

/// Trails whose clocks are ahead, at applies that go one way.
@Suite struct ClockGateTests {
  private final class Time: Sendable {
    let now = Atomic<Int64>(1_800_000_000_000_000)
    var clock: Clock { Clock(microseconds: { self.now.load(ordering: .relaxed) }) }
  }

  @Test func `a trail is held back exactly as far as it may be ahead`() throws {
    let time = Time()
    let gate = ClockGate(Handmade.name, time.clock, skewMicrosecondsMax: 60_000_000)
    var header = TransactionHeader(commitTime: 0)
    header.number = 7
    for (lead, isHeld) in [(0, false), (60_000_000, false), (60_000_001, true)] as [(UInt64, Bool)] {
      header.clock = 1_800_000_000_000_000 + lead
      let isPassed: Bool = (try? gate.check(header)) != nil
      #expect(isPassed != isHeld)
    }
    gate.holdBack(header)
    #expect(gate.limit() == 6)
    #expect(gate.heldUntil == 1_800_000_000_000_001)
    time.now.add(1, ordering: .relaxed)
    #expect(gate.limit() == nil)
    #expect(gate.heldUntil == nil)
    // A trail of this node is never held back.
    header.clock = NumberBounds.clocks - 1
    try ClockGate(Handmade.name, time.clock, skewMicrosecondsMax: nil).check(header)
  }

  private func check(_ made: Handmade, _ replay: () throws -> Void, _ count: () throws -> Int) throws {
    try made.begin("CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT)", "item", [[1, "tea"]])
    try made.transaction { try made.insert("item", [2, "milk"]) }
    try made.transaction(clock: NumberBounds.followedClock) { try made.insert("item", [3, "far"]) }
    try made.transaction { try made.insert("item", [4, "behind it"]) }
    let error = failure { try replay() }
    #expect(error?.code == .clockAhead, "\(error?.message ?? "applied")")
    #expect(try count() == 2, "what stands before it is applied")
    #expect(failure { try replay() }?.code == .clockAhead)
    #expect(try count() == 2)
  }

  @Test func `a clock of the far future does not come into a file`() throws {
    let made = try Handmade(TempFolder())
    made.options.skewMicrosecondsMax = 60_000_000
    try check(made, { try made.replay() }) { try made.rows("SELECT 1 FROM item").count }
    made.options.skewMicrosecondsMax = nil
    try made.replay()
    #expect(try made.rows("SELECT 1 FROM item").count == 4)
  }

  @Test(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
  func `a clock of the far future does not come into a server`() throws {
    let target = try PostgresTarget()
    target.options.skewMicrosecondsMax = 60_000_000
    try check(target.trail, { try target.replay() }) {
      Int(try target.psql("SELECT count(*) FROM item")) ?? -1
    }
    target.options.skewMicrosecondsMax = nil
    try target.replay()
    #expect(try target.psql("SELECT count(*) FROM item") == "4")
  }
}
