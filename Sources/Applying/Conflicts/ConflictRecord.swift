import Changes
import Conflicts

/// One conflict, as the node that met it keeps it: what clashed, what each had made of the row, and what the row is now.
///
/// Rows are in the target's own form: names of its columns, and values as a capture of the target would give them.
package struct ConflictRecord: Equatable, Sendable {
  /// Whose version the row is now.
  package enum Winner: String, Sendable, CaseIterable {
    case local
    case incoming
    /// It has something of both.
    case merged
  }

  /// Of the log; 0 until it is there.
  package var id: Int64 = 0
  /// When it was met, µs.
  package var at: Int64
  /// The transaction that came: its trail, its place and its number there, its clock.
  package var trail: TrailName
  package var position: Position
  package var number: UInt64
  package var clock: UInt64
  package var kind: Conflict.Kind
  /// That settled it, as the conf has it.
  @ByBytes package var rule: String
  /// PostgreSQL: the schema of the table; empty in SQLite.
  @ByBytes package var namespace: String
  @ByBytes package var table: String
  package var key: ConflictRow
  /// The row as it was here before the transaction came; nil: it was not there.
  package var local: ConflictRow?
  /// The row as the transaction would have it; nil: not there.
  package var incoming: ConflictRow?
  /// The row as the author of the transaction knew it; nil where he made it, or it is not known.
  package var before: ConflictRow?
  /// The row as it was settled; nil: it is not there.
  package var settled: ConflictRow?
  package var winner: Winner
  /// The version that the transaction clashed with; nil where it is known of none, such as of a row that is missing.
  package var other: Stamp?
  /// When somebody put the other version in its place, µs.
  package var overturnedAt: Int64?

  package init(
    at: Int64, trail: TrailName, position: Position, number: UInt64, clock: UInt64, kind: Conflict.Kind, rule: String,
    namespace: String = "", table: String, key: ConflictRow, local: ConflictRow?, incoming: ConflictRow?,
    before: ConflictRow?, settled: ConflictRow?, winner: Winner, other: Stamp?
  ) {
    (self.at, self.trail, self.position, self.number, self.clock) = (at, trail, position, number, clock)
    (self.kind, self.rule, self.namespace, self.table, self.key) = (kind, rule, namespace, table, key)
    (self.local, self.incoming, self.before, self.settled) = (local, incoming, before, settled)
    (self.winner, self.other) = (winner, other)
  }

  /// As people name the table.
  package var fullName: String { namespace.isEmpty ? table : "\(namespace).\(table)" }

  /// The row that did not win; nil: there it is not. Of a merged one neither did.
  package var loser: Winner? {
    switch winner {
    case .local: .incoming
    case .incoming: .local
    case .merged: nil
    }
  }
}
