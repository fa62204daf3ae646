import Changes

extension TableMapping {
  /// Returns whether the default of a new column gives the target's existing rows the same value as the source's rows.
  /// - Parameter value: the value in the source's rows.
  package func takesDefault(_ value: Value, column index: Int) -> Bool {
    guard source.engine == .sqlite, index < target.columns.count else { return false }
    guard target.engine == .postgres else { return true }
    let column = target.columns[index]
    guard column.identity == .none else { return false }
    if value == .null { return column.defaultText == nil }
    guard let text = column.defaultText else { return false }
    guard let wanted = DefaultText.literal(value, source.columns[index], PostgresType(column)) else { return false }
    return unquoted(wanted) == unquoted(text)
  }

  /// Returns a literal without its quotes, because a column's type reads `0` and `'0'` as the same value.
  private func unquoted(_ literal: String) -> Substring {
    literal.hasPrefix("'") ? literal.dropFirst().dropLast() : literal[...]
  }
}
