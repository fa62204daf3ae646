import Applying
import Changes
import PostgresKit
import SQLiteKit

/// What databases have put aside.
package enum QuarantineLogs {
  /// Opens the log of a database; to read and write, as to retry and to discard is to write.
  package static func open(_ url: DatabaseURL) throws -> any QuarantineLog {
    switch url {
    case .sqlite(let path): SQLiteQuarantineLog(try Ends.open(path, mode: .readWrite))
    case .postgres(let uri): PostgresQuarantineLog(try PostgresConnection(uri))
    }
  }
}
