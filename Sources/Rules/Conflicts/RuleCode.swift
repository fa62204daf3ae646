import Changes

/// Two versions of a row in conflict, as arguments for a rule that is written in SQL: `local`, the result so far, and
/// `incoming`. `before`, their common ancestor, is nil if it is unknown.
package struct MetRows {
  package var local: RowVersion.Row
  package var incoming: RowVersion.Row
  package var before: RowVersion.Row?
  /// The column to resolve; nil if the rule resolves whole rows.
  package var column: Int?

  package init(local: RowVersion.Row, incoming: RowVersion.Row, before: RowVersion.Row?, column: Int?) {
    (self.local, self.incoming, self.before, self.column) = (local, incoming, before, column)
  }
}

/// The functions that evaluate rules which are written in SQL.
package struct RuleCode {
  /// A function that evaluates the expression of a rule `sql:`. It returns the column's value; nil: the later version
  /// wins. For a rule of whole rows, the later version wins if it returns 1, else the earlier one.
  package typealias Expression = (_ text: String, _ rows: MetRows) throws -> Value?
  /// A function that calls the PostgreSQL function of a rule `function:` with two rows. It returns the resulting row;
  /// nil: the later version wins.
  package typealias Function = (_ name: String, _ rows: MetRows) throws -> RowVersion.Row?

  var expression: Expression
  var function: Function

  package init(expression: @escaping Expression, function: @escaping Function) {
    (self.expression, self.function) = (expression, function)
  }

  /// An evaluator for rules that contain no SQL.
  package static var none: RuleCode { RuleCode(expression: { _, _ in nil }, function: { _, _ in nil }) }
}
