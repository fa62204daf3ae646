/// The maximum number of transactions in one commit of two-way apply, while applications write the same rows.
///
/// A large group needs fewer checks. A small group is committed before the next write.
struct GroupShare {
  private static let countMax: UInt64 = 1 << 20
  private(set) var count = UInt64.max

  /// Halves the limit, after an application has written a row of the group.
  ///
  /// - Parameter number: The number of transactions of that group.
  mutating func shrink(_ number: UInt64) { count = max(1, min(count, number) / 2) }

  mutating func grow() {
    guard count != .max else { return }
    count += max(1, count / 4)
    if count > Self.countMax { count = .max }
  }
}
