import Changes
import PostgresKit

/// The place in its source that a trail has reached, from the progress record at the end of a transaction.
package enum SourceReach: Equatable, Sendable {
  /// All rows of an SQLite source's journal through this one.
  case journal(Int64)
  /// All of PostgreSQL's log before this place. `last` is the transaction id of the trail's last transaction; nil if
  /// none.
  case log(LSN, last: UInt32?)

  /// Decodes the position of a progress record. Errors: ``DecodingError``.
  package init(decoding bytes: [UInt8], of engine: Engine) throws {
    switch engine {
    case .sqlite: self = .journal(try SourcePosition(decoding: bytes).mark.taken)
    case .postgres:
      let position = try PostgresPosition(decoding: bytes)
      self = .log(max(position.reached, position.quiet), last: position.last?.xid)
    }
  }
}

/// A moment at which rows of a source were read, relative to the source's changes.
package enum SourceMoment: Sendable {
  /// The moment right after this row of the journal was written.
  case journal(Int64)
  /// The moment of a PostgreSQL snapshot: all transactions that it shows committed before place `end` of the log.
  case log(PostgresSnapshot, end: LSN)

  /// Returns whether a trail that has reached this place has all transactions that a read at this moment saw.
  package func isBehind(_ reach: SourceReach) -> Bool {
    switch (self, reach) {
    case (.journal(let seq), .journal(let taken)): seq <= taken
    case (.log(_, let end), .log(let reached, _)): end <= reached
    default: false
    }
  }

  /// Returns whether a read at this moment saw the transaction that ends with this progress record. False for a group
  /// of transactions, because the read may have seen only some of them.
  package func shows(_ reach: SourceReach) -> Bool {
    switch (self, reach) {
    case (.journal(let seq), .journal(let taken)): taken <= seq
    case (.log(let snapshot, _), .log(_, let last?)): snapshot.shows(last)
    default: false
    }
  }
}

extension PostgresSnapshot {
  /// Returns the snapshot of the connection's open transaction, and the end of the log.
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
