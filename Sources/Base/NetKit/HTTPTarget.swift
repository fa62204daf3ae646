/// The path and query of a request, decoded.
///
/// Source: RFC 3986, sections 2.1, 3.3 and 3.4.
package struct HTTPTarget: Equatable, Sendable {
  package let path: String
  package let query: [String: String]

  /// Parses an escaped path and query. Nil for invalid text, and for a path with an empty, `.` or `..` part, or with an
  /// escaped slash.
  package init?(_ text: String) {
    let halves = text.utf8.split(separator: UInt8(ascii: "?"), maxSplits: 1, omittingEmptySubsequences: false)
    guard let first = halves.first, first.first == UInt8(ascii: "/") else { return nil }
    var parts: [String] = []
    for part in first.dropFirst().split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false) {
      guard let name = Self.decode(part, plusIsBlank: false), !name.utf8.contains(UInt8(ascii: "/")) else { return nil }
      parts.append(name)
    }
    // A slash at the end is left out; "/" is one empty part.
    if parts.last == "" { parts.removeLast() }
    guard parts.allSatisfy({ !$0.isEmpty && $0 != "." && $0 != ".." }) else { return nil }
    path = "/" + parts.joined(separator: "/")
    var query: [String: String] = [:]
    if halves.count == 2 {
      for pair in halves[1].split(separator: UInt8(ascii: "&")) {
        let sides = pair.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
        guard let name = Self.decode(sides[0], plusIsBlank: true) else { return nil }
        guard let value = sides.count == 2 ? Self.decode(sides[1], plusIsBlank: true) : "" else { return nil }
        if query[name] == nil { query[name] = value }
      }
    }
    self.query = query
  }

  /// Returns a text in which every byte is escaped, except ASCII letters, digits, and `-._~`.
  package static func escape(_ text: String) -> String {
    var escaped = ""
    for byte in text.utf8 {
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
        UInt8(ascii: "~"):
        escaped.unicodeScalars.append(Unicode.Scalar(byte))
      default:
        let digits = String(byte, radix: 16, uppercase: true)
        escaped += digits.utf8.count == 1 ? "%0" + digits : "%" + digits
      }
    }
    return escaped
  }

  private static func decode(_ text: Substring.UTF8View.SubSequence, plusIsBlank: Bool) -> String? {
    var bytes: [UInt8] = []
    var rest = text
    while let byte = rest.popFirst() {
      if byte == UInt8(ascii: "%") {
        guard let high = rest.popFirst().flatMap(digit), let low = rest.popFirst().flatMap(digit) else { return nil }
        bytes.append(high << 4 | low)
      } else if byte == UInt8(ascii: "+"), plusIsBlank {
        bytes.append(UInt8(ascii: " "))
      } else {
        bytes.append(byte)
      }
    }
    guard bytes.allSatisfy({ $0 >= 0x20 && $0 != 0x7f }) else { return nil }
    return String(validating: bytes, as: UTF8.self)
  }

  private static func digit(_ byte: UInt8) -> UInt8? {
    Character(Unicode.Scalar(byte)).hexDigitValue.map { UInt8($0) }
  }
}
