/// The treatment of rows that a target table holds before the initial load.
package enum ExistingRows: String, Sendable, CaseIterable {
  case keep
  case overwrite
  /// The source's rows replace the target's rows with the same key. All other rows of the target stay.
  case merge
}
