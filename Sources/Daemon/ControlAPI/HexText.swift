/// Converts between bytes and hexadecimal digits.
package enum HexText {
  private static let digits = Array("0123456789abcdef".utf8)

  package static func text(_ bytes: [UInt8]) -> String {
    String(unsafeUninitializedCapacity: bytes.count * 2) { room in
      for (index, byte) in bytes.enumerated() {
        room[index * 2] = digits[Int(byte >> 4)]
        room[index * 2 + 1] = digits[Int(byte & 15)]
      }
      return bytes.count * 2
    }
  }

  /// Returns the bytes of lower-case hexadecimal digits; nil for any other text.
  package static func bytes(_ text: String) -> [UInt8]? {
    let digits = Array(text.utf8)
    guard digits.count.isMultiple(of: 2) else { return nil }
    func value(_ digit: UInt8) -> UInt8? {
      switch digit {
      case 0x30...0x39: digit - 0x30
      case 0x61...0x66: digit - 0x57
      default: nil
      }
    }
    var bytes: [UInt8] = []
    bytes.reserveCapacity(digits.count / 2)
    for at in stride(from: 0, to: digits.count, by: 2) {
      guard let high = value(digits[at]), let low = value(digits[at + 1]) else { return nil }
      bytes.append(high << 4 | low)
    }
    return bytes
  }
}
