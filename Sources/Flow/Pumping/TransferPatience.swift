import Changes

/// Decides when a transfer tries again after an error, or whether it stops.
struct TransferPatience: Equatable, Sendable {
  /// The number of times that damaged bytes arrive, without a success in between, until the transfer stops.
  private static let damagedMax = 3

  private var failures = 0
  private var damaged = 0

  mutating func calm() { (failures, damaged) = (0, 0) }

  /// Returns the milliseconds until the transfer tries again; nil if it must stop.
  ///
  /// - Parameter chance: A random number from 0 to 1, which spreads the attempts of several transfers.
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
