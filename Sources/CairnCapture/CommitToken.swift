/// Stands for a transaction that has committed, and for all before it: by it can be asked what has become of them.
public struct CommitToken: Hashable, Comparable, Sendable {
  /// The place of the commit in the journal of the file; 0 where nothing is captured.
  public let sequence: Int64

  package init(sequence: Int64) { self.sequence = sequence }

  public static func < (left: CommitToken, right: CommitToken) -> Bool { left.sequence < right.sequence }
}

/// What was committed, and no trail has yet.
public struct Pending: Hashable, Sendable {
  /// Transactions through this API that wait, of any program.
  public let transactions: Int
  /// Rows of the journal that wait, of all programs: at least one for each changed row.
  public let rows: Int
  /// The journal has reached its cap before anybody took from it. Its oldest rows are gone, so all tables are copied by
  /// whoever takes it next.
  public let isIncomplete: Bool

  package init(transactions: Int, rows: Int, isIncomplete: Bool) {
    (self.transactions, self.rows, self.isIncomplete) = (transactions, rows, isIncomplete)
  }
}
