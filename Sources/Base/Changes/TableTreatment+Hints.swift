extension TableTreatment {
  /// The last words of the hint for a suspended table to which its rule cannot be applied. The target stores the hint,
  /// and `cairn status` recognizes such a table by these words.
  package static let thenCopy = "then copy the table again"
}
