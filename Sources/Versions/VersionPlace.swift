import Changes
import Conflicts

/// A version in the window: which one, and where in its origin's trail it stands.
package struct VersionPlace: Hashable, Sendable {
  package var stamp: Stamp
  /// Of the begin record of its transaction.
  package var begin: Position

  package init(stamp: Stamp, begin: Position) { (self.stamp, self.begin) = (stamp, begin) }
}

/// A version as it stands in a trail: what its transaction made of the row, as one step, in that trail's own form.
package struct StoredVersion: Equatable, Sendable {
  package var stamp: Stamp
  /// The number of the last transaction of each other origin that its author knew.
  package var seen: [String: UInt64]
  /// What names and explains the values of both rows.
  package var schema: TableSchema
  /// The row before, as far as the trail says; nil: it was not there.
  package var before: [Value?]?
  /// The row afterwards, nil in it where it is as before; nil: it is not there any more.
  package var after: [Value?]?

  package init(
    stamp: Stamp, seen: [String: UInt64], schema: TableSchema, before: [Value?]?, after: [Value?]?
  ) {
    (self.stamp, self.seen, self.schema) = (stamp, seen, schema)
    (self.before, self.after) = (before, after)
  }
}
