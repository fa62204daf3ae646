import Changes

/// The line that an operator pastes to join a node, with the node's address, a token, and the hash of the node's public
/// key.
///
///     let line = JoinLine(address: "hq.example:7420", token: token, key: key)
///     JoinLine(line.description) == line   // true
package struct JoinLine: Equatable, Sendable, CustomStringConvertible {
  /// The address of the listener, `HOST:PORT`.
  package let address: String
  /// The one-time token: 16 bytes, in lower-case hexadecimal.
  package let token: String
  /// The SHA-256 of the listener's public key, in lower-case hexadecimal.
  package let key: String

  package init(address: String, token: String, key: String) {
    (self.address, self.token, self.key) = (address, token, key)
  }

  /// The line as printed, `HOST:PORT/TOKEN/KEY`.
  package var description: String { "\(address)/\(token)/\(key)" }

  /// Parses a line `HOST:PORT/TOKEN/KEY`; nil for any other text.
  package init?(_ text: String) {
    let trimmed = text.split(whereSeparator: \.isWhitespace)
    guard trimmed.count == 1 else { return nil }
    let parts = trimmed[0].split(at: "/", omittingEmpty: false)
    guard parts.count == 3, parts[0].has(":"), Self.isHex(parts[1], 32), Self.isHex(parts[2], 64) else {
      return nil
    }
    self.init(address: parts[0], token: parts[1].asciiLowercased, key: parts[2].asciiLowercased)
  }

  var keyBytes: [UInt8] {
    let digits = key.utf8.compactMap { Character(Unicode.Scalar($0)).hexDigitValue }
    return stride(from: 0, to: digits.count - 1, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) }
  }

  static func isHex(_ text: String, _ count: Int) -> Bool {
    text.utf8.count == count && text.utf8.allSatisfy { Character(Unicode.Scalar($0)).isHexDigit }
  }
}
