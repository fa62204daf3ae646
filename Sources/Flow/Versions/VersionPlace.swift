import Changes
import Conflicts

/// The stamp of a row version, and the position of its transaction in the trail.
///
///     VersionPlace(stamp: VersionStamp(clock: 0, origin: "", number: 0), begin: .start)
package struct VersionPlace: Hashable, Sendable {
  package var stamp: VersionStamp
  /// The position of the begin record of the transaction.
  package var begin: Position

  package init(stamp: VersionStamp, begin: Position) { (self.stamp, self.begin) = (stamp, begin) }
}

/// A row version as read from a trail: the net change of one transaction to the row.
///
///     StoredVersion(stamp: stamp, seen: ["hq.erp": 12], schema: schema, before: nil, after: [.integer(1)])
package struct StoredVersion: Equatable, Sendable {
  package var stamp: VersionStamp
  /// For each trail, by name, the last transaction that the author of this version knew.
  package var seen: [String: UInt64]
  package var schema: TableSchema
  /// The row before the transaction, with nil for values that the trail does not have; nil if the row did not exist.
  package var before: [Value?]?
  /// The row after the transaction, with nil for unchanged values; nil if the transaction deleted the row.
  package var after: [Value?]?

  package init(
    stamp: VersionStamp, seen: [String: UInt64], schema: TableSchema, before: [Value?]?, after: [Value?]?
  ) {
    (self.stamp, self.seen, self.schema) = (stamp, seen, schema)
    (self.before, self.after) = (before, after)
  }
}
