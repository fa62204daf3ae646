/// The treatment of rows that a target table holds before the first copy.
package enum ExistingRows: String, Sendable, CaseIterable {
  case keep
  case overwrite
  /// The source's rows replace rows with the same key. All other rows stay.
  case merge
}
