import Changes

/// A condition on the rows of one table, as an operator writes it: `where` of a rule, or of a snapshot.
///
///     RowCondition("price > 10", of: schema)?.text   // "price > 10"
///     RowCondition("price > 10; DROP TABLE item", of: schema)   // nil: not one expression
package struct RowCondition {
  /// One SQL expression, without comments or unbalanced parentheses.
  package let text: String

  /// Reads a condition; nil if the text is not one expression.
  package init?(_ text: String, of schema: TableSchema) {
    guard let expression = try? Expression(text, of: schema) else { return nil }
    self.text = expression.text
  }
}
