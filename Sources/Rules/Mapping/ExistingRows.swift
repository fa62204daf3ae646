/// The treatment of rows that a target table holds before Cairn copies into it.
package enum ExistingRows: String, Sendable, CaseIterable {
  /// The target's rows stay as they are; missing ones are added.
  case keep
  /// The target becomes equal to the source.
  case overwrite
  /// The source's rows win; rows that only the target has stay.
  case merge
}
