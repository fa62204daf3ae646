import Applying
import Changes
import PostgresKit
import SQLiteKit

/// Opens the quarantine of a database: the transactions that apply has put aside there.
package enum QuarantineLogs {
  /// Opens the quarantine of a database. The connection can write, because the commands `retry` and `discard` write to
  /// it.
  package static func open(_ url: DatabaseURL) throws -> QuarantineLog {
    switch url {
    case .sqlite(let path): QuarantineLog(try Ends.open(path, mode: .readWrite))
    case .postgres(let uri): QuarantineLog(try PostgresConnection(uri))
    }
  }
}
