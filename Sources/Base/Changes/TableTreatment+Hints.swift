extension TableTreatment {
  /// The last words of the hint for a table that is suspended because it does not fit its rule. The target stores the
  /// hint, and the status of a node recognizes such tables by these words.
  package static let thenCopy = "then copy the table again"
}
