/// The 24 bytes before each page in a write-ahead log.
///
/// Source: https://sqlite.org/fileformat2.html#walformat
///
///     let isCommit = try WALFrame(bytes).isCommit
package struct WALFrame: Equatable, Sendable {
  package static let size = 24

  package let page: UInt32
  /// The pages of the database after the transaction, in its last frame; 0 in the others.
  package let commitPages: UInt32
  package let salts: WALSalts
  package let checksum: WALChecksum

  package var isCommit: Bool { commitPages != 0 }
  /// Whether the frame has neither salts nor a checksum. SQLite before 3.51.0 commits such frames after ROLLBACK TO.
  package var isUnsigned: Bool { salts == .none && checksum == WALChecksum() }

  /// - Parameter bytes: A frame's header. The page may follow.
  package init(_ bytes: UnsafeRawBufferPointer) throws(FormatError) {
    let frame = PageBytes(number: 0, bytes: bytes)
    page = try frame.uint32(at: 0)
    commitPages = try frame.uint32(at: 4)
    salts = WALSalts(first: try frame.uint32(at: 8), second: try frame.uint32(at: 12))
    checksum = WALChecksum(first: try frame.uint32(at: 16), second: try frame.uint32(at: 20))
    guard page != 0 else { throw frame.error("page 0 of a frame", at: 0) }
  }

  /// Returns the offset of a frame in the file. Frames are counted from 1.
  package static func offset(ofFrame frame: UInt32, pageSize: Int) -> Int64 {
    Int64(WALHeader.size) + (Int64(frame) - 1) * Int64(size + pageSize)
  }
}

/// The frames of a log one after the other, as far as salts and checksums prove that they belong to it.
///
/// Only the wal-index says which frames are committed while a program uses the file. This is for logs at rest.
///
/// ```swift
/// var frames = try WALFrames(log)
/// while let (frame, page) = try frames.next() where frame.isCommit { … }
/// ```
package struct WALFrames {
  package let header: WALHeader
  private let log: PageBytes
  private var checksum: WALChecksum
  private var offset = WALHeader.size

  package init(_ log: UnsafeRawBufferPointer) throws(FormatError) {
    header = try WALHeader(log)
    self.log = PageBytes(number: 0, bytes: log)
    checksum = header.checksum
  }

  /// Returns the next frame and its page; nil if no valid frame follows.
  package mutating func next() throws(FormatError) -> (frame: WALFrame, page: PageBytes)? {
    let end = offset + WALFrame.size + header.pageSize
    guard end <= log.bytes.count else { return nil }
    let bytes = try log.slice(offset..<end)
    guard let frame = try? WALFrame(bytes), frame.salts == header.salts else { return nil }
    let page = UnsafeRawBufferPointer(rebasing: bytes[WALFrame.size...])
    checksum.add(UnsafeRawBufferPointer(rebasing: bytes[..<8]), isBigEndian: header.isBigEndian)
    checksum.add(page, isBigEndian: header.isBigEndian)
    guard checksum == frame.checksum else { return nil }
    offset = end
    return (frame, PageBytes(number: frame.page, bytes: page))
  }
}
