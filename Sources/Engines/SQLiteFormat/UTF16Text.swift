/// The conversion of UTF-16 to UTF-8 exactly as SQLite does it, also for ill-formed text.
///
/// A surrogate takes the following unit as its second half, whatever that unit is. A surrogate at the end of the text
/// becomes three bytes. An odd last byte is dropped. Source: sqlite3VdbeMemTranslate.
package enum UTF16Text {
  /// Appends the text in UTF-8.
  ///
  /// - Parameter bytes: The text in UTF-16.
  package static func append(_ bytes: UnsafeRawBufferPointer, isBigEndian: Bool, to text: inout [UInt8]) {
    let end = bytes.count & ~1
    text.reserveCapacity(text.count + end)
    var offset = 0
    func unit() -> UInt32 {
      let raw = bytes.loadUnaligned(fromByteOffset: offset, as: UInt16.self)
      offset += 2
      return UInt32(isBigEndian ? UInt16(bigEndian: raw) : UInt16(littleEndian: raw))
    }
    while offset < end {
      var code = unit()
      if code >= 0xd800, code < 0xe000, offset < end {
        let low = unit()
        code = (low & 0x3ff) + ((code & 0x3f) << 10) + (((code & 0x3c0) + 0x40) << 10)
      }
      appendUTF8(code, to: &text)
    }
  }

  private static func appendUTF8(_ code: UInt32, to text: inout [UInt8]) {
    func continuation(_ shift: UInt32) -> UInt8 { UInt8(0x80 | (code >> shift & 0x3f)) }
    switch code {
    case 0..<0x80: text.append(UInt8(code))
    case 0x80..<0x800:
      text.append(UInt8(0xc0 | (code >> 6 & 0x1f)))
      text.append(continuation(0))
    case 0x800..<0x10000:
      text.append(UInt8(0xe0 | (code >> 12 & 0x0f)))
      text.append(continuation(6))
      text.append(continuation(0))
    default:
      text.append(UInt8(0xf0 | (code >> 18 & 0x07)))
      text.append(continuation(12))
      text.append(continuation(6))
      text.append(continuation(0))
    }
  }
}
