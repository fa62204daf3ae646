import Endpoints
import SystemKit

// The parts of a database that the synchroniser and the C library use.
extension CapturedDatabase {
  /// The absolute path of the database file.
  /// - Throws: ``DatabaseError`` of kind `refused` for a database in memory.
  var file: String {
    get throws {
      let path = try connection.alone { $0.program.database.path }
      guard !path.isEmpty, path != ":memory:" else {
        throw DatabaseError(.refused, "a database in memory cannot be synchronised")
      }
      return FileIdentity.canonical(path.hasPrefix("/") ? path : "./" + path)
    }
  }

  /// Throws if this thread has an open transaction or query. Waits first until no other thread uses the database.
  /// - Throws: ``DatabaseError`` of kind `openTransaction` or `closed`.
  func checkIsFree() throws {
    try connection.alone { session in
      guard !session.program.database.isInTransaction, !session.isReading else {
        throw DatabaseError(
          .openTransaction,
          "this thread has an open transaction or query, for which a synchronisation would wait")
      }
    }
  }

  /// Makes the program's threads pause for 1 ms after each commit, so that a synchronisation can get SQLite's write
  /// lock.
  func beginSynchronization() throws { try connection.alone { $0.synchronizations += 1 } }

  /// Ends the pauses that the program's threads make after each commit during a synchronisation.
  func endSynchronization() { try? connection.alone { $0.synchronizations -= 1 } }

  /// Runs `body` while no other thread uses the database.
  package func alone<T>(_ body: () throws -> T) throws -> T { try connection.alone { _ in try body() } }
}

/// The version of the library.
public enum Cairn {
  public static let version = Product.version
}
