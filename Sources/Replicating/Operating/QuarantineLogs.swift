import Applying
import Changes
import PostgresKit
import SQLiteKit

/// The transactions that databases hold in quarantine.
package enum QuarantineLogs {
  /// Opens the log of a database for reading and writing, since retry and discard write to it.
  package static func open(_ url: DatabaseURL) throws -> QuarantineLog {
    switch url {
    case .sqlite(let path): QuarantineLog(try Ends.open(path, mode: .readWrite))
    case .postgres(let uri): QuarantineLog(try PostgresConnection(uri))
    }
  }
}
