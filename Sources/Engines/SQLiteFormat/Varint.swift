/// The integers of variable length in cells and records: 1 to 9 bytes, the most significant first.
///
/// The first eight bytes have 7 bits each, and the highest bit is set if another byte follows. A ninth byte has 8 bits.
/// Source: https://sqlite.org/fileformat2.html#varint
extension PageBytes {
  /// Reads a varint at `offset`, and moves `offset` to the byte after it.
  ///
  /// - Parameter end: The offset that the varint must not reach.
  package func varint(at offset: inout Int, before end: Int) throws(FormatError) -> UInt64 {
    let limit = min(end, bytes.count)
    guard offset >= 0, offset < limit else { throw error("the end of a varint", at: offset) }
    var byte = bytes[offset]
    offset += 1
    if byte < 0x80 { return UInt64(byte) }
    var value = UInt64(byte & 0x7f)
    for _ in 0..<7 {
      guard offset < limit else { throw error("the end of a varint", at: offset) }
      byte = bytes[offset]
      offset += 1
      value = value << 7 | UInt64(byte & 0x7f)
      if byte < 0x80 { return value }
    }
    guard offset < limit else { throw error("the end of a varint", at: offset) }
    value = value << 8 | UInt64(bytes[offset])
    offset += 1
    return value
  }
}
