/// The maximum number of transactions in one commit of a two-way apply to PostgreSQL.
///
/// The number shrinks while applications write the same rows as apply. It grows again after successful commits.
struct GroupShare {
  private static let countMax: UInt64 = 1 << 20
  private(set) var count = UInt64.max

  /// Halves the maximum number of transactions, after a group failed because an application had written or locked one
  /// of its rows.
  ///
  /// - Parameter number: The number of transactions of that group.
  mutating func shrink(_ number: UInt64) { count = max(1, min(count, number) / 2) }

  mutating func grow() {
    guard count != .max else { return }
    count += max(1, count / 4)
    if count > Self.countMax { count = .max }
  }
}
