/// The transactions whose rows apply locks before it checks whether applications have changed them.
///
/// Rows of all other transactions are checked after apply has written them.
struct LockedFirst {
  private static let aheadMax: UInt64 = 256
  private var through: UInt64 = 0
  /// After a failed group, apply also locks the rows of this number of transactions first. Doubled if another group
  /// fails soon.
  private var ahead: UInt64 = 1

  func contains(_ number: UInt64) -> Bool { number <= through }

  /// Notes that a group through transaction `number` failed because applications had changed its rows.
  ///
  /// - Parameter isAgain: Whether an earlier group since apply's last commit has failed too.
  mutating func note(_ number: UInt64, isAgain: Bool) {
    let isSoon = through > 0 && number > through && number - through <= ahead
    guard isAgain || isSoon else { return }
    if isSoon {
      ahead = min(ahead * 2, Self.aheadMax)
    } else if number > through {
      ahead = 1
    }
    through = max(through, number + ahead)
  }
}
