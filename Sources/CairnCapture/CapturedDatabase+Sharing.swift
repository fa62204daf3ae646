import Operating
import SystemKit

// What the synchroniser and the C library ask of a database.
extension CapturedDatabase {
  /// The path of its file. Errors: `refused` where it is in memory.
  var file: String {
    get throws {
      let path = try connection.alone { $0.program.database.path }
      guard !path.isEmpty, path != ":memory:" else {
        throw DatabaseError(.refused, "a database in memory cannot be synchronised")
      }
      return FileIdentity.canonical(path.hasPrefix("/") ? path : "./" + path)
    }
  }

  /// Waits for the transaction of another thread. Errors: `openTransaction` in one of this thread, `closed`.
  func checkIsFree() throws {
    try connection.alone { session in
      guard !session.program.database.isInTransaction, !session.isReading else {
        throw DatabaseError(
          .openTransaction,
          "a transaction or a query of this thread is under way, for which a synchronisation would wait")
      }
    }
  }

  /// From here on, its commits leave the file free for a moment.
  func beginSynchronization() throws { try connection.alone { $0.synchronizations += 1 } }

  /// One that has been closed meanwhile commits nothing.
  func endSynchronization() { try? connection.alone { $0.synchronizations -= 1 } }

  /// Runs `body` with no other thread in the database.
  package func alone<T>(_ body: () throws -> T) throws -> T { try connection.alone { _ in try body() } }
}

/// What this library is.
public enum Cairn {
  public static let version = Product.version
}
