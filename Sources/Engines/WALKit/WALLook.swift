import SQLiteFormat

/// The committed state of a log, as the header of the wal-index has it. Two equal heads are the same commit.
///
/// Source: https://sqlite.org/walformat.html#the_wal_index_file_format
package struct WALHead: Hashable, Sendable {
  package var salts: WALSalts
  /// The number of the last committed frame; 0 if the log is empty (mxFrame).
  package var frames: UInt32
  /// The pages of the database after that frame. An empty log has 0.
  package var pages: UInt32
  /// The checksum of that frame.
  package var checksum: WALChecksum
  /// The number of transactions, as SQLite counts them in the wal-index.
  package var change: UInt32

  package init(
    salts: WALSalts, frames: UInt32, pages: UInt32 = 0, checksum: WALChecksum = WALChecksum(), change: UInt32 = 0
  ) {
    self.salts = salts
    self.frames = frames
    self.pages = pages
    self.checksum = checksum
    self.change = change
  }

  var position: WALPosition { WALPosition(salts: salts, frame: frames) }
}

/// A place in a log: the last frame that was read, and the salts of its log.
package struct WALPosition: Hashable, Sendable {
  package var salts: WALSalts
  package var frame: UInt32

  package init(salts: WALSalts, frame: UInt32) {
    self.salts = salts
    self.frame = frame
  }
}

/// The locks that a program holds while it writes and while it checkpoints.
package struct WALLocks: Hashable, Sendable {
  package var isWriting: Bool
  package var isCheckpointing: Bool

  package init(isWriting: Bool, isCheckpointing: Bool) {
    self.isWriting = isWriting
    self.isCheckpointing = isCheckpointing
  }
}

/// One look at the wal-index of a database.
package struct WALLook: Hashable, Sendable {
  /// The value of a slot that no reader has used since the log began (READMARK_NOT_USED).
  package static let unused: UInt32 = 0xffff_ffff

  package var head: WALHead
  /// The number of frames that checkpoints have copied into the database file (nBackfill).
  package var backfilled: UInt32
  /// The last frame that the readers of each slot need. SQLite has five slots.
  package var marks: SIMD8<UInt32>
  /// The locks of programs; nil if they were not asked for.
  package var locks: WALLocks?
  /// The time since the look before, in microseconds.
  package var elapsed: Int64

  package init(
    head: WALHead, backfilled: UInt32, marks: SIMD8<UInt32>, locks: WALLocks? = nil, elapsed: Int64 = 0
  ) {
    self.head = head
    self.backfilled = backfilled
    self.marks = marks
    self.locks = locks
    self.elapsed = elapsed
  }

  /// Whether the database file has all frames of the log.
  var isWhollyBackfilled: Bool { backfilled == head.frames }
}
