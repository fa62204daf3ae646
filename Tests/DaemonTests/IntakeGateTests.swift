import Configuring
import Synchronization
import SystemKit
import Testing

@testable import Daemon

/// Room for what peers bring.
@Suite struct IntakeGateTests {
  @Test func `bytes are taken until the trails hold more than they may, and again when there is room`() {
    let gate = IntakeGate()
    var (looks, held, left) = (0, UInt64(90), UInt64(90))
    func isFull(_ now: Int64) -> Bool {
      gate.isFull(now: now) {
        looks += 1
        return IntakeRoom(allowed: 100, held: held, left: left)
      }
    }
    #expect(!isFull(0) && looks == 1)
    gate.note(10)
    #expect(!isFull(1))
    gate.note(1)
    #expect(isFull(2) && isFull(999) && looks == 1 && !gate.takePurgeDue())
    (held, left) = (101, 40)
    #expect(isFull(1000) && looks == 2)
    // Once for each look.
    #expect(gate.takePurgeDue() && !gate.takePurgeDue())
    held = 40
    #expect(isFull(1999) && !isFull(2000) && looks == 3)
  }

  @Test func `slow measurements take a fifth of the time at most`() {
    let gate = IntakeGate()
    var (time, looks) = (Int64(0), 0)
    func ask(_ now: Int64) {
      time = now
      _ = gate.isFull(now: time) {
        looks += 1
        time += 3_000
        return IntakeRoom()
      }
    }
    ask(0)
    for now in [3_000, 3_999, 4_001, 14_999] { ask(Int64(now)) }
    #expect(looks == 1)
    ask(15_000)
    #expect(looks == 2)
  }

  @Test func `a measurement holds up no other thread, and keeps the bytes that arrive meanwhile`() throws {
    let gate = IntakeGate()
    _ = gate.isFull(now: 0) { IntakeRoom(allowed: 100, held: 10, peers: ["store": .init(allowed: 50, held: 10)]) }
    gate.note(30, of: "store")
    let (begun, ended) = (StopSignal(), StopSignal())
    let looker = try WorkerThread<Bool> {
      gate.isFull(now: 1_000) {
        begun.set()
        _ = ended.rest(.seconds(20))
        return IntakeRoom(allowed: 100, held: 40, peers: ["store": .init(allowed: 50, held: 40)])
      }
    }
    #expect(begun.rest(.seconds(20)))
    // Another thread goes on with the last figures, and does not measure too.
    #expect(!gate.isFull(now: 1_001) { IntakeRoom(allowed: 1, held: 2) })
    gate.note(15, of: "store")
    #expect(gate.isFull(for: "store") && gate.crowd(of: "store") == nil)
    ended.set()
    #expect(looker.join() == false)
    #expect(gate.isFull(for: "store"))
    gate.note(46)
    #expect(gate.isFull(now: 1_002) { IntakeRoom() })
  }

  @Test func `without a budget, and where all is applied, there is room`() {
    #expect(!IntakeRoom(held: .max, left: .max).isFull(1))
    #expect(!IntakeRoom(allowed: 100, held: 150, left: 150, live: 60).isFull(10))
    #expect(IntakeRoom(allowed: 100, held: 150, left: 150, live: 60).isFull(11))
    #expect(IntakeRoom(allowed: 100, held: 95, left: 95, isPaused: true).isFull(0))
    #expect(IntakeRoom(allowed: 100, held: 150, left: 120).isFull(0))
  }
}
