/// The address of a listener: scheme, host and port of a URL.
///
///     HTTPBase("https://[::1]:7420")?.port   // 7420
///     HTTPBase("https://hq.example/path")    // nil
package struct HTTPBase: Equatable, Sendable {
  package let isTLS: Bool
  /// A host name, an IPv4 address, or an IPv6 address without brackets.
  package let host: String
  package let port: UInt16

  /// Reads `https://host:port` or `http://host:port`. The default ports are 443 and 80. Nil for any other text, such as
  /// a URL with a path.
  package init?(_ text: String) {
    var rest = Substring(text)
    if rest.hasPrefix("https://") {
      (isTLS, rest) = (true, rest.dropFirst(8))
    } else if rest.hasPrefix("http://") {
      (isTLS, rest) = (false, rest.dropFirst(7))
    } else {
      return nil
    }
    if rest.hasSuffix("/") { rest = rest.dropLast() }
    let end: Substring
    if rest.hasPrefix("[") {
      guard let close = rest.firstIndex(of: "]") else { return nil }
      host = String(rest[rest.index(after: rest.startIndex)..<close])
      end = rest[rest.index(after: close)...]
      guard host.utf8.allSatisfy({ Self.isAddressByte($0) }) else { return nil }
    } else {
      let colon = rest.firstIndex(of: ":") ?? rest.endIndex
      host = String(rest[..<colon])
      end = rest[colon...]
      guard host.utf8.allSatisfy({ Self.isNameByte($0) }) else { return nil }
    }
    guard !host.isEmpty else { return nil }
    if end.isEmpty {
      port = isTLS ? 443 : 80
    } else {
      guard end.hasPrefix(":"), let number = UInt16(end.dropFirst()), number > 0, !end.dropFirst().hasPrefix("+") else {
        return nil
      }
      port = number
    }
  }

  /// The host as a URL has it: an IPv6 address is in brackets.
  package var hostInURL: String { host.utf8.contains(UInt8(ascii: ":")) ? "[\(host)]" : host }
  package var address: String { "\(hostInURL):\(port)" }
  package var url: String { "\(isTLS ? "https" : "http")://\(address)" }

  /// Whether a connection to the address cannot leave this machine.
  package var isLoopback: Bool { host == "localhost" || host == "::1" || Self.isLoopbackIPv4(host) }

  private static func isLoopbackIPv4(_ host: String) -> Bool {
    let parts = host.split(separator: ".", omittingEmptySubsequences: false)
    return parts.count == 4 && parts[0] == "127" && parts.allSatisfy { UInt8($0) != nil }
  }

  private static func isNameByte(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"):
      true
    default: false
    }
  }

  private static func isAddressByte(_ byte: UInt8) -> Bool {
    byte == UInt8(ascii: ":") || byte == UInt8(ascii: ".") || Character(Unicode.Scalar(byte)).isHexDigit
  }
}
