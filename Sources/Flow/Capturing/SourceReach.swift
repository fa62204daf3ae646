import Changes
import PostgresKit

/// The place in the source up to which a trail has all changes, from a progress record.
///
///     let reach = try SourceReach(decoding: header.sourcePosition, of: .sqlite)   // .journal(42)
package enum SourceReach: Equatable, Sendable {
  /// The last journal row of an SQLite source that the trail has.
  case journal(Int64)
  /// The LSN in a PostgreSQL source before which the trail has everything. `last` is the `xid` of the trail's last
  /// transaction.
  case log(LSN, last: UInt32?)

  /// Decodes the position of a progress record.
  ///
  /// - Throws: ``DecodingError``.
  package init(decoding bytes: [UInt8], of engine: Engine) throws {
    switch engine {
    case .sqlite: self = .journal(try SourcePosition(decoding: bytes).mark.taken)
    case .postgres:
      let position = try PostgresPosition(decoding: bytes)
      self = .log(max(position.reached, position.quiet), last: position.last?.xid)
    }
  }
}

/// The moment at which rows of a source were read, as a place in the order of the source's changes.
package enum SourceMoment: Sendable {
  /// The moment right after this row of the SQLite journal was written.
  case journal(Int64)
  /// The moment of a PostgreSQL snapshot. All transactions that it shows were committed before LSN `end`.
  case log(PostgresSnapshot, end: LSN)

  /// Returns whether a trail has all transactions that a read at this moment saw.
  ///
  /// - Parameter reach: The place in the source up to which the trail has everything.
  package func isBehind(_ reach: SourceReach) -> Bool {
    switch (self, reach) {
    case (.journal(let seq), .journal(let taken)): seq <= taken
    case (.log(_, let end), .log(let reached, _)): end <= reached
    default: false
    }
  }

  /// Returns whether a read at this moment saw the last transaction of a trail that has everything up to `reach`. False
  /// if that transaction combines several transactions of the source.
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
