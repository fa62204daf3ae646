extension TableTreatment {
  /// The last words of the hint for a suspended table whose rule cannot be applied. `cairn status` looks for these
  /// words.
  package static let thenCopy = "then copy the table again"
}
