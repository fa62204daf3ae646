/// How conflicts of one table are settled.
package struct ConflictRules: Equatable, Sendable {
  /// What two versions of a row may both have changed without being in conflict.
  package enum Tracking: Sendable {
    /// Nothing: the row is one thing.
    case row
    /// Different columns: both changes are kept.
    case column
  }

  /// Which of several versions, or of their values in one column, stands.
  package enum Rule: Equatable, Sendable {
    /// The latest one; of equal clocks that of the node whose name comes last.
    case newest
    /// The earliest one.
    case oldest
    /// That of the node that comes first here; nodes that are not named come last, and by `newest` among themselves.
    case priority([String])
    /// The greatest value; NULL is the least.
    case max
    case min
    /// The sum of what each one added. Columns of numbers.
    case delta
    /// The mean of the values. Columns of numbers.
    case average
    /// All different values, from the earliest to the latest, with this between them. Columns of text.
    case combine(separator: String)
  }

  /// What becomes of a row that one deleted and another one updated.
  package enum DeleteRule: Equatable, Sendable {
    /// It is gone.
    case deleteWins
    /// It stays, as it was updated.
    case updateWins
    /// The later of both wins.
    case newest
  }

  package var tracking: Tracking
  /// Of rows, or of columns that have no rule of their own. `newest`, `oldest` or `priority`.
  package var rule: Rule
  /// By index of the column. Such a column is tracked by itself.
  package var columns: [Int: Rule]
  package var deletes: DeleteRule

  package init(
    tracking: Tracking = .row, rule: Rule = .newest, columns: [Int: Rule] = [:], deletes: DeleteRule = .newest
  ) {
    (self.tracking, self.rule, self.columns, self.deletes) = (tracking, rule, columns, deletes)
  }

  func isTrackedByItself(_ column: Int) -> Bool { tracking == .column || columns[column] != nil }
}
