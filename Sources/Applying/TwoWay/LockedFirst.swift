/// Which transactions have their rows locked before it is asked what programs did to them. Elsewhere it is asked when the
/// rows have been written; of rows that programs write all the time, one of them is ahead by then, again and again.
struct LockedFirst {
  private static let aheadMax: UInt64 = 256
  private var through: UInt64 = 0
  /// How many behind the one that was overtaken: twice as many where that was soon behind those before.
  private var ahead: UInt64 = 1

  func contains(_ number: UInt64) -> Bool { number <= through }

  /// A group through that transaction was overtaken. `isAgain`: for the second time, with nothing committed in between.
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
