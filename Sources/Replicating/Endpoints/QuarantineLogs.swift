import Applying
import Changes
import PostgresKit
import SQLiteKit

/// Opens the quarantine of a database.
package enum QuarantineLogs {
  package static func open(_ url: DatabaseURL) throws -> QuarantineLog {
    switch url {
    case .sqlite(let path): QuarantineLog(try Ends.open(path, mode: .readWrite))
    case .postgres(let uri): QuarantineLog(try PostgresConnection(uri))
    }
  }
}
