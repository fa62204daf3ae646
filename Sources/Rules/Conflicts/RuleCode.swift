import Changes

/// Two versions of a row in conflict: the earlier one as resolved so far, and the incoming one. Their common ancestor
/// is nil if it is unknown.
package struct MetRows {
  package var local: RowVersion.Row
  package var incoming: RowVersion.Row
  package var before: RowVersion.Row?
  /// The column whose value is wanted; nil if the rule is for rows.
  package var column: Int?

  package init(local: RowVersion.Row, incoming: RowVersion.Row, before: RowVersion.Row?, column: Int?) {
    (self.local, self.incoming, self.before, self.column) = (local, incoming, before, column)
  }
}

/// The functions that evaluate rules which are written in SQL.
package struct RuleCode {
  /// Evaluates an expression (`sql:`). Returns the value of the column; for whole rows, 1 if the later version wins.
  /// Nil: the later version wins.
  package typealias Expression = (_ text: String, _ rows: MetRows) throws -> Value?
  /// Calls a PostgreSQL function (`function:`) with two rows. Returns the resulting row; nil: the later version wins.
  package typealias Function = (_ name: String, _ rows: MetRows) throws -> RowVersion.Row?

  var expression: Expression
  var function: Function

  package init(expression: @escaping Expression, function: @escaping Function) {
    (self.expression, self.function) = (expression, function)
  }

  /// An evaluator for rules that contain no SQL.
  package static var none: RuleCode { RuleCode(expression: { _, _ in nil }, function: { _, _ in nil }) }
}
