import Applying
import Capturing
import Changes
import PostgresKit
import SQLiteKit

/// Removes everything that Cairn added to a database; user tables and rows stay.
package enum Detaching {
  /// Removes everything that Cairn added to a database. Returns false if there was nothing.
  /// - Throws: `constraint-failed` if the database has waiting rows, which would be lost.
  package static func run(_ url: DatabaseURL) throws -> Bool {
    switch url {
    case .sqlite(let path):
      let database = try Ends.open(path, mode: .readWrite, checksOwn: false)
      try WaitingRows(database).checkNone(at: url.place, url.shown, in: "cairn_candidate")
      return try Journal(database).detach()
    case .postgres(let uri):
      let connection = try PostgresConnection(uri)
      try WaitingRows(connection).checkNone(at: url.place, url.shown, in: "cairn.candidate")
      let hadSource = try PostgresSource.detach(connection)
      let hadTarget = try PostgresApplyState(connection).detach()
      return hadSource || hadTarget
    }
  }

  /// Returns whether an SQLite file has triggers or tables of Cairn. Writes nothing.
  package static func isAttached(sqlite path: String) throws -> Bool {
    try !OwnObjects(Ends.open(path, mode: .readOnly, checksOwn: false)).isEmpty
  }

  /// Returns the waiting rows of a database.
  package static func waitingRows(at url: DatabaseURL) throws -> WaitingRows {
    switch url {
    case .sqlite(let path): try WaitingRows(Ends.open(path, mode: .readOnly))
    case .postgres(let uri): try WaitingRows(PostgresConnection(uri))
    }
  }

  /// Drops the slot and the publication of a capture that was removed from the conf.
  package static func drop(slot name: String, at url: DatabaseURL) throws {
    guard case .postgres(let uri) = url else {
      throw CairnError(
        .unsupported, "\(url.place) is an SQLite file, which has no slots",
        hint: "name the PostgreSQL database that was captured", remedy: .badInput)
    }
    try PostgresSource.detach(slot: name, PostgresConnection(uri))
  }

  /// Removes Cairn's records about one trail from a target, with the checkpoint. The trail's rows stay. Returns false
  /// if there was nothing to remove.
  /// - Throws: `database-busy` if a PostgreSQL session applies the trail at the moment.
  package static func forget(_ trail: TrailName, at url: DatabaseURL) throws -> Bool {
    switch url {
    case .sqlite(let path):
      let database = try Ends.open(path, mode: .readWrite, checksOwn: false)
      return try SQLiteApplyState(database, of: trail).forgetTrail()
    case .postgres(let uri): return try PostgresApplyState(PostgresConnection(uri), of: trail).forgetTrail()
    }
  }
}
