import Foundation

/// Random numbers that come again with their seed: streams of neighbouring seeds have nothing in common. Source: SplitMix64.
package struct Seeded: RandomNumberGenerator {
  private var state: UInt64
  package init(_ seed: UInt64) { state = seed }

  package mutating func next() -> UInt64 {
    state &+= 0x9e37_79b9_7f4a_7c15
    var z = state
    z = (z ^ z >> 30) &* 0xbf58_476d_1ce4_e5b9
    z = (z ^ z >> 27) &* 0x94d0_49bb_1331_11eb
    return z ^ z >> 31
  }

  package mutating func below(_ count: Int) -> Int { Int.random(in: 0..<count, using: &self) }

  package mutating func bytes(_ count: Int) -> [UInt8] {
    (0..<count).map { _ in UInt8.random(in: 0...255, using: &self) }
  }
}

/// The full size of tests that are reduced otherwise: where `CAIRN_SOAK` is set, to whatever.
package let isSoak = ProcessInfo.processInfo.environment["CAIRN_SOAK"] != nil
