extension TableTreatment {
  /// The last words of the hint for a suspended table whose rule cannot be applied to it. The target stores the hint.
  /// The status of a node finds such tables by these words.
  package static let thenCopy = "then copy the table again"
}
