/// The running checksum of a write-ahead log, over 32-bit words in pairs.
///
/// Source: https://sqlite.org/fileformat2.html#checksum_algorithm
///
///     var checksum = WALChecksum()
///     checksum.add(bytes, isBigEndian: header.isBigEndian)
package struct WALChecksum: Hashable, Sendable {
  package var first: UInt32
  package var second: UInt32

  package init(first: UInt32 = 0, second: UInt32 = 0) {
    self.first = first
    self.second = second
  }

  /// Continues the checksum. Bytes after the last multiple of eight are ignored.
  package mutating func add(_ bytes: UnsafeRawBufferPointer, isBigEndian: Bool) {
    var (one, two) = (first, second)
    var offset = 0
    let end = bytes.count & ~7
    while offset < end {
      var left = UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt32.self))
      var right = UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: offset + 4, as: UInt32.self))
      if isBigEndian { (left, right) = (left.byteSwapped, right.byteSwapped) }
      one = one &+ left &+ two
      two = two &+ right &+ one
      offset += 8
    }
    (first, second) = (one, two)
  }
}

/// The two numbers that change whenever a log begins again. A frame with other salts is from an earlier time.
///
///     WALSalts(first: 0, second: 0) == .none   // true
package struct WALSalts: Hashable, Sendable {
  package let first: UInt32
  package let second: UInt32

  package init(first: UInt32, second: UInt32) {
    self.first = first
    self.second = second
  }

  package static let none = WALSalts(first: 0, second: 0)
}
