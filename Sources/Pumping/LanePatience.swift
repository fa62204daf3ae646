import Changes

/// What a lane does after an error: how long it waits before it tries again, or that it stops.
struct LanePatience: Equatable, Sendable {
  /// Bytes that do not pass are sent again; then somebody has to look.
  private static let damagedMax = 3

  private var failures = 0
  private var damaged = 0

  /// Something was achieved.
  mutating func calm() { (failures, damaged) = (0, 0) }

  /// Milliseconds until the next try; nil: stop. `chance` is between 0 and 1, so that not all come back at once.
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
