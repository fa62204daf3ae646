import Changes
import PostgresKit
import SQLiteKit
import SystemKit

/// What a database is, by whatever URL it is reached.
package enum DatabaseIdentity: Hashable, Sendable {
  case file(FileIdentity)
  /// Of a server the system identifier and its start: one that was cloned has the identifier of the other.
  case server(cluster: NameKey, database: NameKey)

  /// Nil where that cannot be told: there is no such file, or no server answers.
  package init?(_ url: DatabaseURL) {
    switch url {
    case .sqlite(let path):
      guard let file = FileIdentity(path: path) else { return nil }
      self = .file(file)
    case .postgres(let uri):
      guard let connection = try? PostgresConnection(uri), let identity = try? Self(connection) else { return nil }
      self = identity
    }
  }

  package init(_ connection: PostgresConnection) throws {
    let row =
      try connection.query(
        """
        SELECT system_identifier || ' ' || extract(epoch FROM pg_postmaster_start_time()), current_database()
        FROM pg_control_system()
        """
      ).first ?? []
    self = .server(cluster: NameKey(row.first.flatMap { $0 } ?? ""), database: NameKey(row.last.flatMap { $0 } ?? ""))
  }

  /// The server that it is on.
  package var cluster: String? { if case .server(let cluster, _) = self { cluster.text } else { nil } }
}
