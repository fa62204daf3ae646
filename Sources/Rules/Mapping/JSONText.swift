import Changes

/// A check whether PostgreSQL's `json` accepts a text.
///
/// Source: RFC 8259; https://www.postgresql.org/docs/current/datatype-json.html
enum JSONText {
  private static let depthMax = 1000

  /// Returns whether the text is valid JSON. Also returns true for text nested deeper than `depthMax`.
  /// - Parameter allowsNUL: Whether `\u0000` is accepted, which jsonb refuses.
  static func isValid(_ bytes: UnsafeRawBufferPointer, allowsNUL: Bool = true) -> Bool {
    var cursor = Cursor(bytes: bytes, allowsNUL: allowsNUL)
    guard cursor.value(depth: 0) else { return cursor.isTooDeep }
    cursor.space()
    return cursor.at == bytes.count
  }

  private struct Cursor {
    let bytes: UnsafeRawBufferPointer
    let allowsNUL: Bool
    var at = 0
    var isTooDeep = false

    init(bytes: UnsafeRawBufferPointer, allowsNUL: Bool) { (self.bytes, self.allowsNUL) = (bytes, allowsNUL) }

    var next: UInt8 { at < bytes.count ? bytes[at] : 0 }

    mutating func space() { while [0x20, 0x09, 0x0a, 0x0d].contains(next) { at += 1 } }

    mutating func skip(_ letter: Unicode.Scalar) -> Bool {
      guard next == UInt8(ascii: letter) else { return false }
      at += 1
      return true
    }

    mutating func word(_ word: StaticString) -> Bool {
      let text = UnsafeRawBufferPointer(start: word.utf8Start, count: word.utf8CodeUnitCount)
      guard bytes.count - at >= text.count, bytes[at..<at + text.count].elementsEqual(text) else { return false }
      at += text.count
      return true
    }

    mutating func value(depth: Int) -> Bool {
      guard depth < depthMax else {
        isTooDeep = true
        return false
      }
      space()
      switch next {
      case UInt8(ascii: "{"): return list(closing: "}", depth: depth, hasNames: true)
      case UInt8(ascii: "["): return list(closing: "]", depth: depth, hasNames: false)
      case UInt8(ascii: "\""): return string()
      case UInt8(ascii: "t"): return word("true")
      case UInt8(ascii: "f"): return word("false")
      case UInt8(ascii: "n"): return word("null")
      default: return number()
      }
    }

    mutating func list(closing: Unicode.Scalar, depth: Int, hasNames: Bool) -> Bool {
      at += 1
      space()
      if skip(closing) { return true }
      repeat {
        if hasNames {
          space()
          guard string() else { return false }
          space()
          guard skip(":") else { return false }
        }
        guard value(depth: depth + 1) else { return false }
        space()
      } while skip(",")
      return skip(closing)
    }

    mutating func string() -> Bool {
      guard skip("\"") else { return false }
      while at < bytes.count {
        let byte = bytes[at]
        at += 1
        switch byte {
        case UInt8(ascii: "\""): return true
        case 0..<0x20: return false
        case UInt8(ascii: "\\"): guard escape() else { return false }
        default: break
        }
      }
      return false
    }

    mutating func escape() -> Bool {
      let byte = next
      at += 1
      guard byte == UInt8(ascii: "u") else { return "\"\\/bfnrt".utf8.contains(byte) }
      var code = 0
      for _ in 0..<4 {
        guard let digit = Character(Unicode.Scalar(next)).hexDigitValue else { return false }
        code = code * 16 + digit
        at += 1
      }
      return code != 0 || allowsNUL
    }

    mutating func number() -> Bool {
      _ = skip("-")
      guard skip("0") || digits() else { return false }
      if skip("."), !digits() { return false }
      guard next | 0x20 == UInt8(ascii: "e") else { return true }
      at += 1
      if !skip("+") { _ = skip("-") }
      return digits()
    }

    mutating func digits() -> Bool {
      let start = at
      while (0x30...0x39).contains(next) { at += 1 }
      return at > start
    }
  }
}
