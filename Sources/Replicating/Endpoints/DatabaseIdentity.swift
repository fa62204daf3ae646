import Changes
import PostgresKit
import SQLiteKit
import SystemKit

/// The identity of a database. All URLs that lead to the database have the same identity.
///
///     DatabaseIdentity(.sqlite(path: "shop.db")) == DatabaseIdentity(.sqlite(path: "./shop.db"))   // true
package enum DatabaseIdentity: Hashable, Sendable {
  case file(FileIdentity)
  /// A database of a PostgreSQL server. `cluster` has the server's system identifier and start time, because a cloned
  /// server has the same identifier.
  case server(cluster: NameKey, database: NameKey)

  /// Reads the identity of a database. Returns nil if the file does not exist, or if the server does not answer.
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

  /// The system identifier and start time of the database's server; nil for a file.
  package var cluster: String? { if case .server(let cluster, _) = self { cluster.text } else { nil } }
}
