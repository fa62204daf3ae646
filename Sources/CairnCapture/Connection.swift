import SQLiteKit

/// The one connection of a ``CapturedDatabase``, for one thread at a time. The thread that has it may come again: what a
/// closure does with the database is part of what the closure is part of.
final class Connection: @unchecked Sendable {
  private let lock = ReentrantLock()
  /// Nil once it is closed. Only with the lock held.
  private var session: Session?

  init(_ session: Session) { self.session = session }

  @inline(__always)
  func alone<T>(_ body: (Session) throws -> T) throws -> T {
    lock.lock()
    defer { lock.unlock() }
    guard let session else { throw DatabaseError(.closed, "the database is closed") }
    // Threads of the program that use its own handle wait too.
    session.program.enter()
    defer { session.program.leave() }
    return try DatabaseError.wrapping { try body(session) }
  }

  func close() throws {
    lock.lock()
    defer { lock.unlock() }
    guard let open = session else { return }
    guard !open.isTransacting else {
      throw DatabaseError(.openTransaction, "a database cannot be closed inside of its transaction")
    }
    guard !open.isReading else {
      throw DatabaseError(.openTransaction, "a database cannot be closed while one of its queries gives rows")
    }
    session = nil
  }
}
