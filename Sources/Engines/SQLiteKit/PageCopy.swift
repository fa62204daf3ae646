import CSQLite
import Changes
import SystemKit

/// Copies of whole SQLite files, page by page.
///
/// Source: https://sqlite.org/backup.html
///
///     let copy = try PageCopy.open("shop.db.copy")
///     try source.transaction("BEGIN") {
///       _ = try source.integer("PRAGMA schema_version")   // begins the snapshot
///       try PageCopy.run(from: source, to: copy) { done, total in bar.update(done, total) }
///     }
package enum PageCopy {
  // Between two steps, the progress is reported and the thread can end.
  private static let pagesPerStep: Int32 = 2_000

  /// Opens or creates a file that only this process uses, with SQLite's settings for hostile files.
  package static func open(_ path: String) throws -> Database {
    let database = try Database(path: path, mode: .create, busyTimeoutMilliseconds: 0, vfs: nil)
    database.harden()
    return database
  }

  /// Copies a file as it is in the read transaction that the caller has opened.
  ///
  /// - Parameter copy: A connection to an empty file, from ``open(_:)``.
  /// - Parameter progress: Gets the numbers of pages that are copied, and of all pages. It ends the copy by an error.
  /// - Throws: ``SQLiteError``, with the path of the file that failed.
  package static func run(
    from source: Database, to copy: Database, _ progress: (_ done: UInt64, _ total: UInt64) throws -> Void
  ) throws {
    guard let backup = sqlite3_backup_init(copy.handle, "main", source.handle, "main") else {
      throw copy.error(SQLITE_ERROR, "backup")
    }
    var code = SQLITE_OK
    do {
      while code == SQLITE_OK {
        code = Pulse.inStatement { sqlite3_backup_step(backup, pagesPerStep) }
        Pulse.beat()
        let total = UInt64(max(0, sqlite3_backup_pagecount(backup)))
        try progress(total - min(total, UInt64(max(0, sqlite3_backup_remaining(backup)))), total)
      }
    } catch {
      sqlite3_backup_finish(backup)
      throw error
    }
    let end = sqlite3_backup_finish(backup)
    guard code == SQLITE_DONE, end == SQLITE_OK else {
      // The connection of the copy has the error of a write, that of the source the error of a read.
      let isWrite = sqlite3_errcode(copy.handle) & 0xff == code & 0xff
      throw isWrite ? copy.error(code, "backup") : source.error(code, "backup")
    }
    try source.checkIndex("backup")
  }
}
