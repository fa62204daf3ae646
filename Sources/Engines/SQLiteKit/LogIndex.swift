import CSQLite
import CShims
import Glibc
import SystemKit

/// The index of a write-ahead log (wal-index, `-shm`), through a connection of this process.
///
/// All locks and reads go through SQLite's own file layer, so its table of this process's locks has ours too. Source:
/// https://sqlite.org/walformat.html
///
/// ```swift
/// let index = try LogIndex(database)
/// let isHeld = try index.lock(slot: 4)
/// ```
package final class LogIndex {
  /// The words of the index, in the byte order of the machine.
  package struct Words {
    package let header: [UInt32]
    /// The number of frames that are in the database file (nBackfill).
    package let backfilled: UInt32
    package let marks: SIMD8<UInt32>
  }

  private let database: Database
  private var log = cairn_log()
  private let descriptor: Int32

  /// - Parameter database: A connection that runs no statement from now on. It reads once here.
  /// - Throws: ``SQLiteError`` with SQLITE_CANTOPEN if the database has no wal-index.
  package init(_ database: Database) throws {
    self.database = database
    _ = try database.integer("SELECT count(*) FROM sqlite_master WHERE rowid = 0")
    let code = cairn_log_open(database.handle, &log)
    guard code == SQLITE_OK else { throw database.error(code, "xShmMap") }
    descriptor = try LogDescriptors.shared.descriptor(database.path + "-shm")
  }

  /// Reads the index; nil if a program writes its header at the moment.
  package func words() throws -> Words? {
    var look = cairn_log_look()
    let isRead = cairn_log_look(&log, &look) != 0
    try database.checkIndex("")
    guard isRead else { return nil }
    let h = look.header
    let m = look.marks
    return Words(
      header: [h.0, h.1, h.2, h.3, h.4, h.5, h.6, h.7, h.8, h.9, h.10, h.11], backfilled: look.backfilled,
      marks: SIMD8(m.0, m.1, m.2, m.3, m.4, 0, 0, 0))
  }

  /// Takes a shared lock on a slot for readers. Returns false if another connection has it alone.
  package func lock(slot: Int) throws -> Bool {
    let code = cairn_log_lock(&log, Int32(slot), 1)
    guard code & 0xff != SQLITE_BUSY else { return false }
    guard code == SQLITE_OK else { throw database.error(code, "xShmLock") }
    return true
  }

  package func unlock(slot: Int) { _ = cairn_log_lock(&log, Int32(slot), 0) }

  /// Whether a program is in a write transaction, and whether one is in a checkpoint.
  package func locks() throws -> (isWriting: Bool, isCheckpointing: Bool) {
    let answers = [CAIRN_LOG_WRITE, CAIRN_LOG_CHECKPOINT].map { cairn_log_is_locked(descriptor, Int32($0)) }
    if let failed = answers.first(where: { $0 < 0 }) {
      throw FileError(code: -failed, operation: "fcntl F_OFD_GETLK", path: database.path + "-shm")
    }
    return (answers[0] == 1, answers[1] == 1)
  }
}
