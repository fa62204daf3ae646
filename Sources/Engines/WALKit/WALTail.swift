import Glibc
import SQLiteFormat
import SystemKit

/// One committed transaction of a log: the last frame of each page that it wrote.
package struct WALTransaction: Sendable {
  /// Its frames in the log, without those of transactions before it.
  package let frames: ClosedRange<UInt32>
  /// The pages of the database after the transaction.
  package let pageCount: UInt32
  package let pages: [UInt32: UInt32]
}

/// Reads the committed frames of a log. They must be held (``WALHolds``) while they are read.
///
/// A frame must have the salts of its log, and the checksum that follows from the frames before it. Frames without both
/// are accepted: SQLite before 3.51.0 commits them after ROLLBACK TO.
package final class WALTail {
  /// The bytes that are read at a time, at least one frame.
  static let blockSize = 1 << 20

  private let path: String
  private let pageSize: Int
  private var descriptor: Int32 = -1
  private let block: UnsafeMutableRawBufferPointer
  /// The place of the last frame that was read, and the checksum up to it; nil if the chain is yet to begin.
  private var end: (position: WALPosition, checksum: WALChecksum)?
  private var isBigEndian = false

  package init(database path: String, pageSize: Int) {
    self.path = path + "-wal"
    self.pageSize = pageSize
    block = .allocate(byteCount: max(Self.blockSize, WALFrame.size + pageSize), alignment: 16)
  }

  deinit {
    block.deallocate()
    if descriptor >= 0 { close(descriptor) }
  }

  private var frameSize: Int { WALFrame.size + pageSize }

  /// Reads the frames after `position` up to `head`, and calls `body` for each of them.
  ///
  /// - Throws: ``FormatError`` if a frame is not of this log, ``FileError`` if the log cannot be read.
  package func forEachFrame(
    after position: WALPosition, upTo head: WALHead, _ body: (UInt32, WALFrame, PageBytes) throws -> Void
  ) throws {
    var frame = position.salts == head.salts ? position.frame : 0
    guard frame < head.frames else { return }
    var checksum = try self.checksum(at: WALPosition(salts: head.salts, frame: frame))
    let perBlock = UInt32(block.count / frameSize)
    while frame < head.frames {
      let count = Int(min(perBlock, head.frames - frame))
      let bytes = try read(count * frameSize, at: WALFrame.offset(ofFrame: frame + 1, pageSize: pageSize))
      for index in 0..<count {
        let start = index * frameSize
        let whole = UnsafeRawBufferPointer(rebasing: bytes[start..<start + frameSize])
        let header = try WALFrame(whole)
        let page = UnsafeRawBufferPointer(rebasing: whole[WALFrame.size...])
        frame += 1
        try check(header, whole, page, head.salts, frame, &checksum)
        try body(frame, header, PageBytes(number: header.page, bytes: page))
      }
    }
    end = checksum.map { (head.position, $0) }
  }

  /// Reads the transactions after `position` up to `head`. `position` must be the end of a transaction.
  package func forEachTransaction(
    after position: WALPosition, upTo head: WALHead, _ body: (WALTransaction) throws -> Void
  ) throws {
    var pages: [UInt32: UInt32] = [:]
    var first: UInt32?
    try forEachFrame(after: position, upTo: head) { frame, header, _ in
      pages[header.page] = frame
      if first == nil { first = frame }
      guard header.isCommit else { return }
      try body(WALTransaction(frames: (first ?? frame)...frame, pageCount: header.commitPages, pages: pages))
      pages.removeAll(keepingCapacity: true)
      first = nil
    }
    guard first == nil else { throw error("a transaction without its last frame", head.frames) }
  }

  /// Calls `body` with the page of one frame. The bytes are valid only during the call.
  package func withPage<T>(ofFrame frame: UInt32, number: UInt32, _ body: (PageBytes) throws -> T) throws -> T {
    try withUnsafeTemporaryAllocation(byteCount: pageSize, alignment: 16) { memory in
      let offset = WALFrame.offset(ofFrame: frame, pageSize: pageSize) + Int64(WALFrame.size)
      try fill(memory, at: offset)
      return try body(PageBytes(number: number, bytes: UnsafeRawBufferPointer(memory)))
    }
  }

  private func error(_ what: String, _ frame: UInt32) -> FormatError {
    FormatError(page: 0, offset: Int(WALFrame.offset(ofFrame: frame, pageSize: pageSize)), what: what)
  }

  private func check(
    _ header: WALFrame, _ whole: UnsafeRawBufferPointer, _ page: UnsafeRawBufferPointer, _ salts: WALSalts,
    _ frame: UInt32, _ checksum: inout WALChecksum?
  ) throws {
    guard !header.isUnsigned else {
      // The chain begins again with the frame after the last one without a checksum.
      checksum = nil
      return
    }
    guard header.salts == salts else { throw error("the salts of frame \(frame)", frame) }
    if checksum != nil {
      checksum?.add(UnsafeRawBufferPointer(rebasing: whole[..<8]), isBigEndian: isBigEndian)
      checksum?.add(page, isBigEndian: isBigEndian)
      guard checksum == header.checksum else { throw error("the checksum of frame \(frame)", frame) }
    }
    checksum = header.checksum
  }

  /// Returns the checksum up to a frame, with which that of the next one begins; nil if the frame has none.
  private func checksum(at position: WALPosition) throws -> WALChecksum? {
    if let end, end.position == position { return end.checksum }
    let header = try WALHeader(try read(WALHeader.size, at: 0))
    guard header.pageSize == pageSize else { throw error("the page size of the log", 1) }
    guard header.salts == position.salts else { throw error("the salts of the log", 1) }
    isBigEndian = header.isBigEndian
    guard position.frame > 0 else { return header.checksum }
    let frame = try WALFrame(
      try read(WALFrame.size, at: WALFrame.offset(ofFrame: position.frame, pageSize: pageSize)))
    return frame.isUnsigned ? nil : frame.checksum
  }

  // MARK: File

  private func read(_ count: Int, at offset: Int64) throws -> UnsafeRawBufferPointer {
    let part = UnsafeMutableRawBufferPointer(rebasing: block[..<count])
    try fill(part, at: offset)
    return UnsafeRawBufferPointer(part)
  }

  private func fill(_ memory: UnsafeMutableRawBufferPointer, at offset: Int64) throws {
    if descriptor < 0 { try openLog() }
    var done = 0
    var didReopen = false
    while done < memory.count {
      let n = pread(
        descriptor, memory.baseAddress.map { $0 + done }, memory.count - done, off_t(offset) + off_t(done))
      if n < 0, errno == EINTR { continue }
      if n < 0 { throw FileError(code: errno, operation: "pread", path: path) }
      done += n
      guard n == 0 else { continue }
      // A last connection may have deleted the log before this reader attached.
      guard !didReopen else { throw error("the end of the log", 1) }
      (didReopen, done) = (true, 0)
      try openLog()
    }
  }

  // The log has no locks, so that closing a descriptor releases none.
  private func openLog() throws {
    if descriptor >= 0 { close(descriptor) }
    descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
    guard descriptor >= 0 else { throw FileError(code: errno, operation: "open", path: path) }
  }
}
