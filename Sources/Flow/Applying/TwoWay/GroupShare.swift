/// The highest number of transactions in one commit of two-way apply, while applications write to the same rows.
///
/// It adapts to the largest number that can be committed before an application writes to one of the rows. A large group
/// needs fewer checks for commits of applications. A small group is committed before the next write.
struct GroupShare {
  private static let countMax: UInt64 = 1 << 20
  private(set) var count = UInt64.max

  /// Halves the limit for transactions in one commit. Called after an application has written to a row that a group was
  /// about to commit; `number`: the transactions of that group.
  mutating func shrink(_ number: UInt64) { count = max(1, min(count, number) / 2) }

  /// Raises the highest number of transactions in one commit by a quarter, after a commit.
  mutating func grow() {
    guard count != .max else { return }
    count += max(1, count / 4)
    if count > Self.countMax { count = .max }
  }
}
