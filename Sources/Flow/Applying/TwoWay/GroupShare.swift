/// The number of transactions that share a commit while applications write to the same rows.
///
/// It adapts to the largest number that can be applied before an application writes to one of the rows. A large group
/// locks its rows at once, and looks for local commits once. A small group is done before the next write.
struct GroupShare {
  private static let countMax: UInt64 = 1 << 20
  private(set) var count = UInt64.max

  /// Halves the number after applications wrote to rows of a group of `number` transactions before its commit.
  mutating func shrink(_ number: UInt64) { count = max(1, min(count, number) / 2) }

  /// Raises the number by a quarter after a commit.
  mutating func grow() {
    guard count != .max else { return }
    count += max(1, count / 4)
    if count > Self.countMax { count = .max }
  }
}
