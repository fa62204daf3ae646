import CSQLite
import Glibc
import SystemKit

/// Writes the write-ahead log (WAL) of an SQLite file back into the file, on its own thread instead of in the
/// application's commits.
///
/// Source: https://sqlite.org/wal.html#checkpointing
package final class Checkpointer: @unchecked Sendable {
  // Pages.
  static let pagesStep: Int32 = 500
  // Pages: 16 MiB with pages of the usual size, four times SQLite's default.
  static let pagesMax: Int32 = 4000

  private let path: String
  private let condition = Condition()
  private var isDue = false
  private var isAtWork = false
  private var isEnding = false
  // Created when there is work, so a rare writer has no thread.
  private var thread: WorkerThread<Void>?
  // In pages, when the thread was last woken. Only the application's thread uses it.
  private var told: Int32 = 0

  private init(_ path: String) { self.path = path }

  /// Creates a checkpointer that replaces SQLite's own `wal_autocheckpoint` on a connection. Returns nil, and changes
  /// nothing, for a database without a file.
  static func watch(_ handle: OpaquePointer) -> Checkpointer? {
    guard let path = sqlite3_db_filename(handle, "main").map({ String(cString: $0) }), !path.isEmpty else { return nil }
    let checkpointer = Checkpointer(path)
    sqlite3_wal_hook(
      handle,
      { context, handle, name, pages in
        guard let context, let handle, let name else { return SQLITE_OK }
        Unmanaged<Checkpointer>.fromOpaque(context).takeUnretainedValue().committed(handle, name, pages)
        return SQLITE_OK
      }, Unmanaged.passUnretained(checkpointer).toOpaque())
    return checkpointer
  }

  // SQLite calls this after a commit, with the size of the log in pages. A failed checkpoint does not fail the commit.
  private func committed(_ handle: OpaquePointer, _ name: UnsafePointer<CChar>, _ pages: Int32) {
    let isMain = strcmp(name, "main") == 0
    guard isMain, pages < Self.pagesMax else {
      if pages >= (isMain ? Self.pagesMax : 1000) { Self.checkpoint(handle, name) }
      return
    }
    if pages < told { told = 0 }
    guard pages >= told + Self.pagesStep else { return }
    told = pages
    condition.lock()
    defer { condition.unlock() }
    if thread == nil { thread = try? WorkerThread { self.work() } }
    isDue = thread != nil
    condition.tell()
  }

  private static func checkpoint(_ handle: OpaquePointer, _ name: UnsafePointer<CChar>) {
    sqlite3_wal_checkpoint_v2(handle, name, SQLITE_CHECKPOINT_PASSIVE, nil, nil)
  }

  private func work() {
    // Signals are for the application's own threads.
    var all = sigset_t()
    sigfillset(&all)
    pthread_sigmask(SIG_BLOCK, &all, nil)
    condition.lock()
    defer { condition.unlock() }
    while !isEnding {
      guard isDue else {
        condition.wait()
        continue
      }
      (isDue, isAtWork) = (false, true)
      condition.unlock()
      checkpoint()
      condition.lock()
      isAtWork = false
      condition.tell()
    }
  }

  private func checkpoint() { Self.checkpoint(path) }

  /// Writes the write-ahead log of a file back into the file, on connections that this function opens. Holds a read
  /// transaction during the checkpoint, against SQLite's WAL-reset bug (https://sqlite.org/wal.html#walresetbug).
  ///
  /// - Parameter whileHeld: Called after the read transaction has begun, before the checkpoint.
  package static func checkpoint(_ path: String, whileHeld: () -> Void = {}) {
    guard let holder = try? Database(path: path, mode: .readWrite, busyTimeoutMilliseconds: 0),
      let database = try? Database(path: path, mode: .readWrite, busyTimeoutMilliseconds: 0)
    else { return }
    // The first read takes the mark. Without a mark there is no checkpoint.
    guard (try? holder.execute("BEGIN")) != nil,
      (try? holder.integer("SELECT count(*) FROM sqlite_master WHERE rowid = 0")) != nil
    else { return }
    // A connection knows of the log only after it has read something.
    guard (try? database.integer("PRAGMA user_version")) != nil else { return }
    whileHeld()
    checkpoint(database.handle, "main")
    try? holder.execute("COMMIT")
  }

  /// Waits until no checkpoint is running.
  func settle() {
    condition.lock()
    defer { condition.unlock() }
    while isDue || isAtWork { condition.wait() }
  }

  /// Ends the thread. Call it after the WAL hook of the connection was removed, and before the connection is closed.
  func end() {
    condition.lock()
    isEnding = true
    condition.tell()
    condition.unlock()
    _ = thread?.join()
  }
}
