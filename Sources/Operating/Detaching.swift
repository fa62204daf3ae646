import Applying
import Capturing
import Changes
import PostgresKit
import SQLiteKit

/// Leaves a database as it was before Cairn came; user tables and rows stay.
package enum Detaching {
  /// False when there was nothing of Cairn's.
  package static func run(_ url: DatabaseURL) throws -> Bool {
    switch url {
    case .sqlite(let path): return try Journal(Ends.open(path, mode: .readWrite)).detach()
    case .postgres(let uri):
      let connection = try PostgresConnection(uri)
      let hadSource = try PostgresSource.detach(connection)
      let hadTarget = try PostgresTargetState(connection).detach()
      return hadSource || hadTarget
    }
  }
}
