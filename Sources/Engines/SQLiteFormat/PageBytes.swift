/// The bytes of one page, with loads that throw beyond its end. All numbers of SQLite's format are big endian.
///
/// The bytes must outlive the value. Every decoder of this module reads through these functions.
///
/// ```swift
/// let page = PageBytes(number: 1, bytes: buffer)
/// let size = try page.uint16(at: 16)
/// ```
package struct PageBytes {
  /// The number of the page, counted from 1; 0 for bytes that are no page.
  package let number: UInt32
  package let bytes: UnsafeRawBufferPointer

  package init(number: UInt32, bytes: UnsafeRawBufferPointer) {
    self.number = number
    self.bytes = bytes
  }

  package func error(_ what: String, at offset: Int) -> FormatError {
    FormatError(page: number, offset: offset, what: what)
  }

  package func byte(at offset: Int) throws(FormatError) -> UInt8 {
    guard offset >= 0, offset < bytes.count else { throw error("the end of the bytes", at: offset) }
    return bytes[offset]
  }

  package func uint16(at offset: Int) throws(FormatError) -> Int {
    guard offset >= 0, offset <= bytes.count - 2 else { throw error("the end of the bytes", at: offset) }
    return Int(UInt16(bigEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt16.self)))
  }

  package func uint32(at offset: Int) throws(FormatError) -> UInt32 {
    guard offset >= 0, offset <= bytes.count - 4 else { throw error("the end of the bytes", at: offset) }
    return UInt32(bigEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt32.self))
  }

  /// Returns the bytes of a range; throws if the range extends beyond the end.
  package func slice(_ range: Range<Int>) throws(FormatError) -> UnsafeRawBufferPointer {
    guard range.lowerBound >= 0, range.upperBound <= bytes.count else {
      throw error("the end of the bytes", at: range.lowerBound)
    }
    return UnsafeRawBufferPointer(rebasing: bytes[range])
  }
}
