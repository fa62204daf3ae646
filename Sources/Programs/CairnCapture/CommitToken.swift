/// A token that identifies a committed transaction and all commits before it, for ``Synchronizer/isApplied(_:)`` and
/// ``Synchronizer/waitUntilApplied(_:timeout:)``.
///
/// ```swift
/// let token = try shop.transaction { try $0.execute("DELETE FROM sale") }
/// ```
public struct CommitToken: Hashable, Comparable, Sendable {
  /// The position of the commit in the journal of the file; 0 if the database is not captured.
  public let sequence: Int64

  package init(sequence: Int64) { self.sequence = sequence }

  public static func < (left: CommitToken, right: CommitToken) -> Bool { left.sequence < right.sequence }
}

/// The commits that are not yet known to be in a trail.
///
/// ```swift
/// print(try shop.pending.rows)
/// ```
public struct Pending: Hashable, Sendable {
  /// The number of transactions that are not yet known to be in a trail. Transactions of programs that do not use this
  /// API are not counted.
  public let transactions: Int
  /// The number of journal rows of all programs that are not yet known to be in a trail. Each changed row has at least
  /// one.
  public let rows: Int
  /// Whether the journal reached its maximum size before capture read it. If so, its oldest rows are lost, and capture
  /// refreshes all tables when it runs next.
  public let isIncomplete: Bool

  package init(transactions: Int, rows: Int, isIncomplete: Bool) {
    (self.transactions, self.rows, self.isIncomplete) = (transactions, rows, isIncomplete)
  }
}
