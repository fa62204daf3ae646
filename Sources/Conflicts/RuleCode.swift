import Changes

/// Two versions of a row that met, the earlier one as settled so far, and what both came from; nil: not known.
package struct MetRows {
  package var local: RowVersion.Row
  package var incoming: RowVersion.Row
  package var before: RowVersion.Row?
  /// Of which the value is wanted; nil: it is about the rows.
  package var column: Int?

  package init(local: RowVersion.Row, incoming: RowVersion.Row, before: RowVersion.Row?, column: Int?) {
    (self.local, self.incoming, self.before, self.column) = (local, incoming, before, column)
  }
}

/// Evaluates rules that people write in SQL.
package struct RuleCode {
  /// What an expression (`sql:`) makes of a column; nil: nothing, and the later one stands. Of rows: 1 where that of
  /// the later version is to stand.
  package typealias Expression = (_ text: String, _ rows: MetRows) throws -> Value?
  /// What a function (`function:`) makes of two rows; nil: nothing, and the later one stands.
  package typealias Function = (_ name: String, _ rows: MetRows) throws -> RowVersion.Row?

  var expression: Expression
  var function: Function

  package init(expression: @escaping Expression, function: @escaping Function) {
    (self.expression, self.function) = (expression, function)
  }

  /// Where rules have none.
  package static var none: RuleCode { RuleCode(expression: { _, _ in nil }, function: { _, _ in nil }) }
}
