/// How many transactions share a commit where programs write to the same rows meanwhile: as many as come through without
/// one of them in between. A large group has its rows locked at once and looks for local commits once; a small one is
/// done before the next comes.
struct GroupShare {
  private static let countMax: UInt64 = 1 << 20
  private(set) var count = UInt64.max

  /// A group of so many was overtaken.
  mutating func shrink(_ number: UInt64) { count = max(1, min(count, number) / 2) }

  /// A group was committed.
  mutating func grow() {
    guard count != .max else { return }
    count += max(1, count / 4)
    if count > Self.countMax { count = .max }
  }
}
