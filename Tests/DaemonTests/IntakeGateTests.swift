import Configuring
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

  @Test func `without a budget, and where all is applied, there is room`() {
    #expect(!IntakeRoom(held: .max, left: .max).isFull(1))
    #expect(!IntakeRoom(allowed: 100, held: 150, left: 150, live: 60).isFull(10))
    #expect(IntakeRoom(allowed: 100, held: 150, left: 150, live: 60).isFull(11))
    #expect(IntakeRoom(allowed: 100, held: 95, left: 95, isPaused: true).isFull(0))
    #expect(IntakeRoom(allowed: 100, held: 150, left: 120).isFull(0))
  }
}
