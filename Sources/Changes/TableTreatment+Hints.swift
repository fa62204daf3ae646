extension TableTreatment {
  /// Ends the hint of a table that waits for its rule and goes on with a copy, once what stands before it is done. It is kept
  /// with the table at the target: these words tell such a table from one that waits for something else.
  package static let thenCopy = "then copy the table again"
}
