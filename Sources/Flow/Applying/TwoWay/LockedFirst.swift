/// The transactions whose rows are locked before apply looks for local commits.
///
/// For other transactions apply looks after it has written the rows. If an application writes to the same rows all the
/// time, it would overtake apply again and again.
struct LockedFirst {
  private static let aheadMax: UInt64 = 256
  private var through: UInt64 = 0
  /// The number of transactions after an overtaken one whose rows are locked first. It doubles if a second one follows
  /// soon.
  private var ahead: UInt64 = 1

  func contains(_ number: UInt64) -> Bool { number <= through }

  /// Records that applications overtook a group through transaction `number`.
  ///
  /// - Parameter isAgain: Whether it is the second time, without a commit in between.
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
