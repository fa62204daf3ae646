import Changes
import Conflicts

/// A row version in the version window: its stamp (clock, trail and transaction number), and its position in that
/// trail.
package struct VersionPlace: Hashable, Sendable {
  package var stamp: Stamp
  /// The position in the trail of the begin record of the transaction that made the version.
  package var begin: Position

  package init(stamp: Stamp, begin: Position) { (self.stamp, self.begin) = (stamp, begin) }
}

/// A row version as a trail stores it: the net change of one transaction to the row, with values as in the trail.
package struct StoredVersion: Equatable, Sendable {
  package var stamp: Stamp
  /// For each trail, by name: the last of its transactions that the version's author knew.
  package var seen: [String: UInt64]
  /// The table definition, with the columns of the rows `before` and `after`.
  package var schema: TableSchema
  /// The row before the transaction, as far as the trail has its values; nil if the row did not exist then.
  package var before: [Value?]?
  /// The row after the transaction, with nil for unchanged values; nil if the transaction deleted the row.
  package var after: [Value?]?

  package init(
    stamp: Stamp, seen: [String: UInt64], schema: TableSchema, before: [Value?]?, after: [Value?]?
  ) {
    (self.stamp, self.seen, self.schema) = (stamp, seen, schema)
    (self.before, self.after) = (before, after)
  }
}
