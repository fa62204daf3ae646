import Changes
import Conflicts

/// An entry of the conflict log: the versions of a row that conflicted, and the resulting row.
///
/// Rows have the target's column names, and values as a capture of the target would write them.
package struct ConflictRecord: Equatable, Sendable {
  package enum Winner: String, Sendable, CaseIterable {
    case local
    case incoming
    /// Neither side alone: the resulting row has values of both versions.
    case merged
  }

  /// The conflict's number in the log; 0 until it is logged.
  package var id: Int64 = 0
  /// The time when apply found the conflict, in µs since 1970 UTC.
  package var at: Int64
  /// The trail of the incoming transaction.
  package var trail: TrailName
  package var position: Position
  package var number: UInt64
  package var clock: UInt64
  package var kind: Conflict.Kind
  /// The rule that resolved the conflict, as written in the conf.
  @ByBytes package var rule: String
  @ByBytes package var namespace: String
  @ByBytes package var table: String
  package var key: ConflictRow
  /// The row at the target before the incoming transaction; nil: the row did not exist.
  package var local: ConflictRow?
  /// The row as the incoming transaction writes it; nil: the transaction deletes it.
  package var incoming: ConflictRow?
  /// The row before the incoming transaction changed it, at that transaction's origin. Nil if the transaction inserted
  /// the row, or if the values are not known.
  package var before: ConflictRow?
  /// The resulting row after the conflict was resolved; nil: the row was deleted.
  package var settled: ConflictRow?
  package var winner: Winner
  /// The stamp of the version that conflicted with the transaction; nil if no stamp is known.
  package var other: VersionStamp?
  /// The time when an operator overturned the result, in µs since 1970 UTC; nil: not overturned.
  package var overturnedAt: Int64?

  package init(
    at: Int64, trail: TrailName, position: Position, number: UInt64, clock: UInt64, kind: Conflict.Kind, rule: String,
    namespace: String = "", table: String, key: ConflictRow, local: ConflictRow?, incoming: ConflictRow?,
    before: ConflictRow?, settled: ConflictRow?, winner: Winner, other: VersionStamp?
  ) {
    (self.at, self.trail, self.position, self.number, self.clock) = (at, trail, position, number, clock)
    (self.kind, self.rule, self.namespace, self.table, self.key) = (kind, rule, namespace, table, key)
    (self.local, self.incoming, self.before, self.settled) = (local, incoming, before, settled)
    (self.winner, self.other) = (winner, other)
  }

  package var fullName: String { namespace.isEmpty ? table : "\(namespace).\(table)" }

  /// The side that did not win; nil for a merged row, in which no side lost.
  package var loser: Winner? {
    switch winner {
    case .local: .incoming
    case .incoming: .local
    case .merged: nil
    }
  }
}
