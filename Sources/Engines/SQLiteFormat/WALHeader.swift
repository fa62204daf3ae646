/// The first 32 bytes of a write-ahead log (`-wal`).
///
/// Source: https://sqlite.org/fileformat2.html#the_write_ahead_log
///
///     let pageSize = try WALHeader(bytes).pageSize
package struct WALHeader: Equatable, Sendable {
  package static let size = 32
  /// The only version of the format.
  package static let version: UInt32 = 3_007_000

  package let pageSize: Int
  /// Whether checksums take words as big endian.
  package let isBigEndian: Bool
  /// The number of checkpoints.
  package let sequence: UInt32
  package let salts: WALSalts
  /// The checksum of the header, with which that of the first frame begins.
  package let checksum: WALChecksum

  /// - Throws: ``FormatError`` if a byte is wrong, and so the checksum. SQLite ignores such a log.
  package init(_ bytes: UnsafeRawBufferPointer) throws(FormatError) {
    let log = PageBytes(number: 0, bytes: bytes)
    let magic = try log.uint32(at: 0)
    guard magic & ~1 == 0x377f_0682 else { throw log.error("no write-ahead log: the magic number", at: 0) }
    isBigEndian = magic & 1 == 1
    guard try log.uint32(at: 4) == Self.version else { throw log.error("the version", at: 4) }
    let size = Int(try log.uint32(at: 8))
    guard PageLayout(pageSize: size, reserved: 0) != nil else { throw log.error("the page size", at: 8) }
    pageSize = size
    sequence = try log.uint32(at: 12)
    salts = WALSalts(first: try log.uint32(at: 16), second: try log.uint32(at: 20))
    checksum = WALChecksum(first: try log.uint32(at: 24), second: try log.uint32(at: 28))
    var computed = WALChecksum()
    computed.add(try log.slice(0..<24), isBigEndian: isBigEndian)
    guard computed == checksum else { throw log.error("the checksum", at: 24) }
  }

  /// Returns the offset of a frame in the file. Frames are counted from 1.
  package func offset(ofFrame frame: UInt32) -> Int64 { WALFrame.offset(ofFrame: frame, pageSize: pageSize) }
}
