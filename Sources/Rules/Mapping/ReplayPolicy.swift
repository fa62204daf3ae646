/// Whether the target executes the application's statements instead of applying the rows that they wrote.
package enum ReplayPolicy: String, Sendable, CaseIterable {
  /// No statement is executed: rows are applied.
  case rows
  /// Statements that wrote many rows are executed, if that is proven to be safe.
  case auto
  /// All statements are executed for which it is proven to be safe.
  case statements
}
