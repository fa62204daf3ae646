import CSQLite
import Glibc
import SystemKit

/// Writes what stands in the write-ahead log of an SQLite file back into the file, on a thread of its own, so that the commits
/// of a captured program, which write twice as much as they did before, do not wait for it.
///
/// The log can begin anew only at a moment at which the file has all of it, which may never come while somebody writes
/// without a pause. So from ``pagesMax`` on the commit itself does the rest, as SQLite has it without this.
///
/// Source: https://sqlite.org/wal.html#checkpointing
package final class Checkpointer: @unchecked Sendable {
  /// Pages of the log behind which the thread sets to work again.
  static let pagesStep: Int32 = 500
  /// From so many pages on, 16 MiB of the usual size, the commit does it: four times what is SQLite's default.
  static let pagesMax: Int32 = 4000

  private let path: String
  private let condition = Condition()
  private var isDue = false
  private var isAtWork = false
  private var isEnding = false
  /// Made when there is something to do for it: a program that writes little has none.
  private var thread: WorkerThread<Void>?
  /// How long the log was when the thread was last told. Of the program's connection.
  private var told: Int32 = 0

  private init(_ path: String) { self.path = path }

  /// From here on in place of SQLite's own `wal_autocheckpoint`, as long as the program does not set that. Nil for what has no file.
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

  /// Whatever stops a checkpoint is no failure of the commit, which stands: the next one tries again.
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
    if thread == nil { thread = WorkerThread.ifPossible { self.work() } }
    isDue = thread != nil
    condition.tell()
  }

  private static func checkpoint(_ handle: OpaquePointer, _ name: UnsafePointer<CChar>) {
    sqlite3_wal_checkpoint_v2(handle, name, SQLITE_CHECKPOINT_PASSIVE, nil, nil)
  }

  private func work() {
    // Signals are for threads of the program.
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

  /// Writes the log back on connections that are there no longer than it takes, as some of what a program may do needs the
  /// file for itself.
  ///
  /// A second connection holds a read mark meanwhile, so no commit of the program can restart the log. Up to SQLite
  /// 3.51.2 a checkpoint that another connection's reset meets may take pages for written that are not, and damage the file.
  /// Source: https://sqlite.org/wal.html#walresetbug
  ///
  /// - Parameter whileHeld: called when the mark is held, before the checkpoint.
  package static func checkpoint(_ path: String, whileHeld: () -> Void = {}) {
    guard let holder = try? Database(path: path, mode: .readWrite, busyTimeoutMilliseconds: 0),
      let database = try? Database(path: path, mode: .readWrite, busyTimeoutMilliseconds: 0)
    else { return }
    // The mark is taken by the first read. Without one there is no checkpoint.
    guard (try? holder.execute("BEGIN")) != nil,
      (try? holder.integer("SELECT count(*) FROM sqlite_master WHERE rowid = 0")) != nil
    else { return }
    // Only a connection that has read something knows of the log.
    guard (try? database.integer("PRAGMA user_version")) != nil else { return }
    whileHeld()
    checkpoint(database.handle, "main")
    try? holder.execute("COMMIT")
  }

  /// Waits until the file is the program's alone.
  func settle() {
    condition.lock()
    defer { condition.unlock() }
    while isDue || isAtWork { condition.wait() }
  }

  /// Before the connection is closed; the hook is no longer set.
  func end() {
    condition.lock()
    isEnding = true
    condition.tell()
    condition.unlock()
    _ = thread?.join()
  }
}
