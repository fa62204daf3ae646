import Changes
import Synchronization
import SystemKit
import TestServers
import Testing

@testable import Pumping

@Suite struct PieceHandoverTests {
  private struct Bad: Error {}

  private func put(_ handover: PieceHandover, _ byte: UInt8, _ count: Int) throws {
    try [UInt8](repeating: byte, count: count).withUnsafeBytes { try handover.put($0) }
  }

  @Test func `pieces are worked on one after the other, in order, and all of them`() throws {
    let seen = Mutex<[(UInt8, UInt8, Int)]>([])
    let busy = Mutex<Int>(0)
    let handover = PieceHandover { bytes in
      #expect(
        busy.withLock { busy in
          busy += 1
          return busy == 1
        })
      Clock.sleep(milliseconds: 5)
      seen.withLock { $0.append((bytes.first ?? 0, bytes.last ?? 0, bytes.count)) }
      busy.withLock { $0 -= 1 }
    }
    for byte in UInt8(1)...8 { try put(handover, byte, 300_000) }
    try handover.finish()
    let pieces = seen.withLock { $0 }
    #expect(pieces.map(\.0) == [1, 4, 7] && pieces.map(\.1) == [3, 6, 8])
    #expect(pieces.map(\.2) == [900_000, 900_000, 600_000])
    let few = PieceHandover { bytes in seen.withLock { $0.append((bytes[0], bytes[0], bytes.count)) } }
    try put(few, 9, 10)
    #expect(seen.withLock { $0.count } == 3)
    try few.finish()
    #expect(seen.withLock { $0.last?.2 } == 10)
  }

  @Test func `an error of a piece comes with the next one, and no later piece is worked on`() throws {
    let count = Mutex<Int>(0)
    let handover = PieceHandover { _ in
      count.withLock { $0 += 1 }
      throw Bad()
    }
    try put(handover, 1, 1 << 20)
    try put(handover, 2, 10)
    #expect(throws: Bad.self) { try put(handover, 2, 1 << 20) }
    try handover.settle()
    #expect(count.withLock { $0 } == 1)
  }
}
