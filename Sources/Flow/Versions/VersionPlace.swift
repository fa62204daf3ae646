import Changes
import Conflicts

/// A version in the window: its stamp, and its place in the origin's trail.
package struct VersionPlace: Hashable, Sendable {
  package var stamp: Stamp
  /// The position in the trail of the begin record of the version's transaction.
  package var begin: Position

  package init(stamp: Stamp, begin: Position) { (self.stamp, self.begin) = (stamp, begin) }
}

/// A version as a trail stores it: the total effect of one transaction on the row, in the trail's own representation.
package struct StoredVersion: Equatable, Sendable {
  package var stamp: Stamp
  /// The number of the last transaction that the version's author knew, by name of the trail.
  package var seen: [String: UInt64]
  /// The schema of the values in `before` and `after`.
  package var schema: TableSchema
  /// The row before the transaction, as far as the trail has its values; nil if the row did not exist.
  package var before: [Value?]?
  /// The row after the transaction, with nil for unchanged values; nil if the row is deleted.
  package var after: [Value?]?

  package init(
    stamp: Stamp, seen: [String: UInt64], schema: TableSchema, before: [Value?]?, after: [Value?]?
  ) {
    (self.stamp, self.seen, self.schema) = (stamp, seen, schema)
    (self.before, self.after) = (before, after)
  }
}
