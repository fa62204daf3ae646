import Changes
import SQLiteFormat
import SQLiteKit
import SystemKit

/// The locks of a reader on one database in WAL mode: the only place with I/O for ``WALHolds``.
///
/// One connection has the shared memory, and takes the locks. It runs no statement, so it never meets a program's write
/// lock. Another one runs the few checkpoints. Use it on one thread.
package final class WALFile {
  package let path: String
  private let holder: Database
  private let index: LogIndex
  private var checkpointer: Database?
  /// The size of a page in bytes.
  package let pageSize: Int
  private var lastLook: Int64

  package init(path: String) throws {
    self.path = path
    holder = try Database(path: path, busyTimeoutMilliseconds: 10_000)
    pageSize = Int(try holder.integer("PRAGMA page_size") ?? 0)
    index = try LogIndex(holder)
    lastLook = Clock.system.microseconds()
  }

  // MARK: Looks

  /// Reads the wal-index.
  ///
  /// - Parameter withLocks: Whether the locks of programs are asked for, which takes two system calls.
  package func look(withLocks: Bool = false) throws -> WALLook {
    let words = try validWords()
    let now = Clock.system.microseconds()
    defer { lastLook = now }
    let locks = try withLocks ? index.locks() : nil
    return WALLook(
      head: WALHead(words: words.header), backfilled: words.backfilled, marks: words.marks,
      locks: locks.map { WALLocks(isWriting: $0.isWriting, isCheckpointing: $0.isCheckpointing) },
      elapsed: max(0, now - lastLook))
  }

  /// Reads the wal-index until its header is complete.
  private func validWords() throws -> LogIndex.Words {
    for attempt in 1...Self.attemptsMax {
      if let words = try index.words(), WALHead.isValid(words.header) { return words }
      // A program that was killed may leave half a header. SQLite then makes the index again for the next reader.
      if attempt % (Self.attemptsMax / 10) == 0 {
        _ = try ownCheckpointer().integer("SELECT count(*) FROM sqlite_master")
      }
      sleepMicroseconds(20)
    }
    throw FormatError(page: 0, offset: 0, what: "the header of the wal-index")
  }

  private static let attemptsMax = 10_000

  // MARK: Actions

  /// Takes or releases a hold. Returns whether the action succeeded; true for all actions without a lock.
  package func perform(_ action: WALHolds.Action) throws -> Bool {
    switch action {
    case .lock(let slot): return try index.lock(slot: slot)
    case .unlock(let slot): index.unlock(slot: slot)
    case .checkpoint: try checkpoint()
    case .read, .askLocks, .pause, .sleep, .lost: break
    }
    return true
  }

  private func checkpoint() throws {
    _ = try ownCheckpointer().query("PRAGMA wal_checkpoint(PASSIVE)")
  }

  /// The second connection, which is opened when it is needed.
  private func ownCheckpointer() throws -> Database {
    if let checkpointer { return checkpointer }
    let opened = try Database(path: path, busyTimeoutMilliseconds: 0)
    checkpointer = opened
    return opened
  }
}

extension WALHead {
  /// Reads the header of a wal-index. Source: https://sqlite.org/walformat.html
  init(words: [UInt32]) {
    self.init(
      salts: WALSalts(first: UInt32(bigEndian: words[8]), second: UInt32(bigEndian: words[9])), frames: words[4],
      pages: words[5], checksum: WALChecksum(first: words[6], second: words[7]), change: words[2])
  }

  /// Whether the header is complete, of the known version, and has its own checksum.
  static func isValid(_ words: [UInt32]) -> Bool {
    guard words.count == 12, words[0] == WALHeader.version, words[3] & 0xff == 1 else { return false }
    var checksum = WALChecksum()
    words.withUnsafeBytes { checksum.add(UnsafeRawBufferPointer(rebasing: $0[..<40]), isBigEndian: false) }
    return checksum == WALChecksum(first: words[10], second: words[11])
  }
}
