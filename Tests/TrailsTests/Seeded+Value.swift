import Changes
import TestServers

extension Seeded {
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
