extension TableTreatment {
  /// The last words of the hint for a table that is suspended until it fits its rule: a copy resumes it. The target
  /// stores the hint with the table, and a reader recognizes such a table by these words.
  package static let thenCopy = "then copy the table again"
}
