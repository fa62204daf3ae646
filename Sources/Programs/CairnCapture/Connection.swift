import SQLiteKit

/// The connection of a ``CapturedDatabase``. One thread uses it at a time, and may call it again from a closure.
final class Connection: @unchecked Sendable {
  private let lock = ReentrantLock()
  /// The open session; nil after the database is closed. The lock guards it.
  private var session: Session?

  init(_ session: Session) { self.session = session }

  @inline(__always)
  func alone<T>(_ body: (Session) throws -> T) throws -> T {
    lock.lock()
    defer { lock.unlock() }
    guard let session else { throw DatabaseError(.closed, "the database is closed") }
    // If the connection is shared, threads of the program that use its `sqlite3 *` directly wait too.
    session.program.enter()
    defer { session.program.leave() }
    return try DatabaseError.wrapping { try body(session) }
  }

  func close() throws {
    lock.lock()
    defer { lock.unlock() }
    guard let open = session else { return }
    guard !open.isTransacting else {
      throw DatabaseError(.openTransaction, "a database cannot be closed inside its own transaction")
    }
    guard !open.isReading else {
      throw DatabaseError(.openTransaction, "a database cannot be closed while one of its queries returns rows")
    }
    session = nil
  }
}
