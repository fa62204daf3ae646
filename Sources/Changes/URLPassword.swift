/// Passwords in libpq URIs: where there is one, and the URI without it. A password is never shown.
///
/// Source: https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-CONNSTRING-URIS
package enum URLPassword {
  /// Options that hold one, in the part behind the question mark.
  private static let options = ["password", "sslpassword"]

  /// Whether a password stands before the host or behind the question mark.
  package static func isIn(_ uri: String) -> Bool {
    let bytes = Array(uri.utf8)
    guard let start = end(of: "://", in: bytes) else { return false }
    let authority = bytes[start...].prefix { $0 != UInt8(ascii: "/") }
    if let at = authority.firstIndex(of: UInt8(ascii: "@")),
      let colon = authority[..<at].firstIndex(of: UInt8(ascii: ":")), colon + 1 < at
    {
      return true
    }
    return uri.drop { $0 != "?" }.dropFirst().split(separator: "&").contains { option in
      options.contains(decoded(option.prefix { $0 != "=" }))
    }
  }

  /// For people: with `…` in the place of a password, of text that may be no URI at all.
  package static func hidden(in uri: String) -> String {
    let bytes = Array(uri.utf8)
    var shown = bytes
    if let start = end(of: "://", in: bytes), let at = bytes.lastIndex(of: UInt8(ascii: "@")), start < at,
      let colon = bytes[start..<at].firstIndex(of: UInt8(ascii: ":"))
    {
      shown.replaceSubrange((colon + 1)..<at, with: "…".utf8)
    }
    let text = String(decoding: shown, as: UTF8.self)
    guard let mark = text.firstIndex(of: "?") else { return text }
    let query = text[text.index(after: mark)...].split(separator: "&", omittingEmptySubsequences: false).map { option in
      let name = option.prefix { $0 != "=" }
      return options.contains(decoded(name)) ? name + "=…" : option
    }
    return text[...mark] + query.joined(separator: "&")
  }

  private static func end(of mark: String, in bytes: [UInt8]) -> Int? {
    let mark = Array(mark.utf8)
    return (0...max(0, bytes.count - mark.count)).first { bytes[$0...].starts(with: mark) }.map { $0 + mark.count }
  }

  private static func decoded(_ name: some StringProtocol) -> String {
    var bytes: [UInt8] = []
    var rest = Array(name.utf8)[...]
    while let byte = rest.popFirst() {
      if byte == UInt8(ascii: "%"), rest.count >= 2,
        let value = UInt8(String(decoding: rest.prefix(2), as: UTF8.self), radix: 16)
      {
        bytes.append(value)
        rest = rest.dropFirst(2)
      } else {
        bytes.append(byte)
      }
    }
    return String(decoding: bytes, as: UTF8.self)
  }
}
