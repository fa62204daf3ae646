/// How names of one engine become names of the other (`names` in conf).
package enum NamePolicy: String, Sendable, CaseIterable {
  /// SQLite to PostgreSQL folds to lower case.
  case fold
  /// As they are.
  case keep
}
