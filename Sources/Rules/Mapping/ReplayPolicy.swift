/// Whether apply executes the application's statements again, instead of writing changed rows.
package enum ReplayPolicy: String, Sendable, CaseIterable {
  /// Apply writes rows and executes no statement.
  case rows
  /// Apply executes a statement if it wrote at least 1,000 rows and is proven to be safe. Otherwise it writes rows.
  case auto
  /// Apply executes each statement that is proven to be safe. For any other statement it writes rows.
  case statements
}
