/// Whether statements that a program executed are executed once more at a target, in place of the rows that they wrote.
package enum ReplayPolicy: String, Sendable, CaseIterable {
  /// Never: rows are applied.
  case rows
  /// Those that wrote many rows, where that is proven to be safe.
  case auto
  /// All for which it is.
  case statements
}
