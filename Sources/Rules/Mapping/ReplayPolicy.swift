/// Whether apply executes the application's statements again, instead of writing changed rows.
package enum ReplayPolicy: String, Sendable, CaseIterable {
  /// Apply writes rows and executes no statement.
  case rows
  /// Apply executes the statements that wrote many rows, if they are proven to be safe.
  case auto
  /// Apply executes all statements that are proven to be safe.
  case statements
}
