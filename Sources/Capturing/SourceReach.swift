import Changes
import PostgresKit

/// The place in its source that a trail has reached, from the progress record at the end of each of its transactions.
package enum SourceReach: Equatable, Sendable {
  /// The rows of an SQLite source's journal, through this one.
  case journal(Int64)
  /// All of PostgreSQL's log before this place; `last` is the last transaction in the trail.
  case log(LSN, last: UInt32?)

  /// Decodes a progress record's position. Errors: ``DecodingError``.
  package init(decoding bytes: [UInt8], of engine: Engine) throws {
    switch engine {
    case .sqlite: self = .journal(try SourcePosition(decoding: bytes).mark.taken)
    case .postgres:
      let position = try PostgresPosition(decoding: bytes)
      self = .log(max(position.reached, position.quiet), last: position.last?.xid)
    }
  }
}

/// The moment at which rows of a source were read.
package enum SourceMoment: Sendable {
  /// After this row of the journal.
  case journal(Int64)
  /// The transactions that the snapshot shows; all of them committed before the place.
  case log(PostgresSnapshot, end: LSN)

  /// Returns whether a trail that has reached this place has all transactions that the read saw.
  package func isBehind(_ reach: SourceReach) -> Bool {
    switch (self, reach) {
    case (.journal(let seq), .journal(let taken)): seq <= taken
    case (.log(_, let end), .log(let reached, _)): end <= reached
    default: false
    }
  }

  /// Returns whether the read shows the transaction that ends with this progress. False for a group of transactions,
  /// because the read may show only some of them.
  package func shows(_ reach: SourceReach) -> Bool {
    switch (self, reach) {
    case (.journal(let seq), .journal(let taken)): taken <= seq
    case (.log(let snapshot, _), .log(_, let last?)): snapshot.shows(last)
    default: false
    }
  }
}

extension PostgresSnapshot {
  /// Returns the snapshot of the open transaction.
  package static func current(_ connection: PostgresConnection) throws -> (snapshot: PostgresSnapshot, end: LSN) {
    let row = try connection.query("SELECT pg_current_snapshot(), pg_current_wal_insert_lsn()").first ?? []
    guard row.count == 2, let snapshot = row[0].flatMap(PostgresSnapshot.init), let end = row[1].flatMap({ LSN($0) })
    else {
      throw PostgresError(
        sqlState: "08P01", message: "the server gave no snapshot", place: connection.place, isConnectionLost: true)
    }
    return (snapshot, end)
  }
}
