extension TableTreatment {
  /// The last words of the hint for a table that is suspended until its rule is met: after the steps before them, a
  /// copy resumes it. The target stores the hint with the table. A reader recognizes such a table by these words.
  package static let thenCopy = "then copy the table again"
}
