import Changes
import PostgresKit

/// How far in its source a trail has come, as the progress record at the end of each of its transactions tells.
package enum SourceReach: Equatable, Sendable {
  /// Rows of an SQLite source's journal, up to and with this one.
  case journal(Int64)
  /// All of PostgreSQL's log before this place; the last transaction that is in the trail.
  case log(LSN, last: UInt32?)

  /// Errors: ``DecodingError``.
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
  /// Which transactions the snapshot shows; all of them committed before the place.
  case log(PostgresSnapshot, end: LSN)

  /// Whether a trail that has come this far has all that was seen.
  package func isBehind(_ reach: SourceReach) -> Bool {
    switch (self, reach) {
    case (.journal(let seq), .journal(let taken)): seq <= taken
    case (.log(_, let end), .log(let reached, _)): end <= reached
    default: false
    }
  }

  /// Whether what was read shows the transaction that ends with this progress. A group of transactions, of which some
  /// may be shown, is not.
  package func shows(_ reach: SourceReach) -> Bool {
    switch (self, reach) {
    case (.journal(let seq), .journal(let taken)): taken <= seq
    case (.log(let snapshot, _), .log(_, let last?)): snapshot.shows(last)
    default: false
    }
  }
}

extension PostgresSnapshot {
  /// Of the open transaction.
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
