import Changes

/// The decision of a transfer after an error: how long it waits before it tries again, or that it stops.
struct TransferPatience: Equatable, Sendable {
  /// The number of failures with damaged bytes after which the transfer stops for the operator. Until then the bytes are
  /// sent again.
  private static let damagedMax = 3

  private var failures = 0
  private var damaged = 0

  /// Resets the counts of failures, after a success.
  mutating func calm() { (failures, damaged) = (0, 0) }

  /// Returns the milliseconds until the next try; nil: stop. `chance`, between 0 and 1, spreads the tries of several
  /// transfers over time.
  mutating func next(_ error: CairnError, chance: Double) -> Int? {
    failures += 1
    let longest: Int
    switch error.code {
    case .trailForked, .trailVersion, .stateForeign: return nil
    case .trailDamaged:
      damaged += 1
      if damaged >= Self.damagedMax { return nil }
      longest = 5000
    case .trailElsewhere, .trailPurged: longest = 2000
    case .trailMissing: longest = 5000
    case .peerUnknown, .peerRefused, .usage: longest = 60_000
    default:
      if error.remedy == .badInput || error.remedy == .bug { return nil }
      longest = 30_000
    }
    let base = min(Double(longest), 200 * Double(1 << min(failures - 1, 12)))
    return Int(base * (0.5 + chance / 2))
  }
}
