import Changes

extension TableMapping {
  /// Returns whether the default of a new column gives existing rows of the target the same value as at the source.
  /// - Parameter value: The value in the source's rows.
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

  private func unquoted(_ literal: String) -> Substring {
    literal.hasPrefix("'") ? literal.dropFirst().dropLast() : literal[...]
  }
}
