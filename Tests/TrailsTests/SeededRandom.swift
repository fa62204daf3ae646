import Changes

/// SplitMix64: the same numbers for the same seed.
struct SeededRandom: RandomNumberGenerator {
  private var state: UInt64
  init(seed: UInt64) { state = seed }

  mutating func next() -> UInt64 {
    state &+= 0x9e37_79b9_7f4a_7c15
    var z = state
    z = (z ^ (z >> 30)) &* 0xbf58_476d_1ce4_e5b9
    z = (z ^ (z >> 27)) &* 0x94d0_49bb_1331_11eb
    return z ^ (z >> 31)
  }

  mutating func bytes(_ count: Int) -> [UInt8] { (0..<count).map { _ in UInt8.random(in: 0...255, using: &self) } }

  mutating func value() -> Value? {
    switch Int.random(in: 0...8, using: &self) {
    case 0: nil
    case 1: .null
    case 2: .integer([0, 1, -1, .min, .max].randomElement(using: &self) ?? 0)
    case 3: .real([0.1, -1e300, .infinity, Double.leastNonzeroMagnitude, 2].randomElement(using: &self) ?? 0)
    case 4: .text(bytes(Int.random(in: 0...40, using: &self)))
    case 5: .blob(bytes(Int.random(in: 0...200, using: &self)))
    case 6: .integer(Int64.random(in: -300...300, using: &self))
    case 7: .exact(Array("12.340000".utf8))
    default: .text(Array(repeating: 0x61, count: Int.random(in: 0...3000, using: &self)))
    }
  }
}
