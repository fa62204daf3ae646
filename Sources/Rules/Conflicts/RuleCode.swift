import Changes

/// Two versions of a row in conflict, as arguments for a rule in SQL. `local` is the version with the earlier stamp, or
/// the row to which earlier versions were resolved. `before` is the common ancestor; nil if unknown.
package struct MetRows {
  package var local: RowVersion.Row
  package var incoming: RowVersion.Row
  package var before: RowVersion.Row?
  /// The column to resolve; nil for whole rows.
  package var column: Int?

  package init(local: RowVersion.Row, incoming: RowVersion.Row, before: RowVersion.Row?, column: Int?) {
    (self.local, self.incoming, self.before, self.column) = (local, incoming, before, column)
  }
}

/// The functions that evaluate rules in SQL.
///
///     RuleCode(expression: { _, _ in nil }, function: { _, _ in nil })
package struct RuleCode {
  /// A function that evaluates the expression of a rule `sql:`. For a column, it returns the resolved value; nil if the
  /// later version's value wins. For a row, the later version wins if the result is 1, otherwise the earlier version.
  package typealias Expression = (_ text: String, _ rows: MetRows) throws -> Value?
  /// A function that calls the PostgreSQL function of a rule `function:`. It returns the resolved row; nil if the later
  /// version wins.
  package typealias Function = (_ name: String, _ rows: MetRows) throws -> RowVersion.Row?

  var expression: Expression
  var function: Function

  package init(expression: @escaping Expression, function: @escaping Function) {
    (self.expression, self.function) = (expression, function)
  }

  /// An evaluator for rules without SQL: both of its functions return nil.
  package static var none: RuleCode { RuleCode(expression: { _, _ in nil }, function: { _, _ in nil }) }
}
