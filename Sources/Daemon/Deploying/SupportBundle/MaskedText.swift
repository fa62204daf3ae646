import Changes

/// Hides in the text of a message everything that may be a value of a row.
///
/// Values have quotes, parentheses and line breaks of their own, and long messages are cut. Therefore nothing closes a
/// value: the text is shown only up to the first sign that may begin one. Signs are quotes, brackets, `=`, a colon
/// before a space, and everything outside of printable ASCII. Digits are hidden in the rest too. Commands of Cairn that
/// the message names are listed at its end by their names alone.
///
/// ```swift
/// MaskedText.masked("row id='b2' is gone: run 'cairn copy pos'")   // row id=… ('cairn copy')
/// MaskedText.masked("connected to hq after 3 s")                   // connected to hq after # s
/// ```
package enum MaskedText {
  private static let commands = [
    "check", "compare", "config", "conflicts", "copy", "detach", "explain", "identity", "pause", "peer", "quarantine",
    "rehook", "reload", "replicate", "restart", "resume", "snapshot", "start", "status", "stop", "trail", "undo",
    "unhook",
  ].map { (name: $0, bytes: Array("'cairn \($0)".utf8)) }

  // The punctuation that is shown.
  private static let marks = Set(".,;:-_/+*!?&%@<>~".utf8)

  /// Returns the text with its values hidden.
  package static func masked(_ text: String) -> String {
    let bytes = Array(text.utf8)
    let end = endOfShown(bytes)
    let shown = withoutDigits(bytes[..<end])
    guard end < bytes.count else { return shown }
    let named = commands(in: bytes[end...])
    return shown + "…" + (named.isEmpty ? "" : " (\(named.map { "'cairn \($0)'" }.joined(separator: ", ")))")
  }

  private static func endOfShown(_ bytes: [UInt8]) -> Int {
    for (index, byte) in bytes.enumerated() {
      if byte == UInt8(ascii: "="), index + 1 < bytes.count { return index + 1 }
      if byte == UInt8(ascii: ":"), index + 1 < bytes.count, bytes[index + 1] == UInt8(ascii: " ") { return index + 2 }
      let isLetter = (0x61...0x7a).contains(byte | 0x20)
      let isDigit = (0x30...0x39).contains(byte)
      guard isLetter || isDigit || byte == UInt8(ascii: " ") || marks.contains(byte) else { return index }
    }
    return bytes.count
  }

  private static func withoutDigits(_ bytes: ArraySlice<UInt8>) -> String {
    var shown: [UInt8] = []
    for byte in bytes {
      guard (0x30...0x39).contains(byte) else {
        shown.append(byte)
        continue
      }
      if shown.last != UInt8(ascii: "#") { shown.append(UInt8(ascii: "#")) }
    }
    return String(decoding: shown, as: UTF8.self)
  }

  // A value that has the name of a command shows nothing but that name.
  private static func commands(in bytes: ArraySlice<UInt8>) -> [String] {
    var named: [String] = []
    for start in bytes.indices where bytes[start] == UInt8(ascii: "'") {
      let found = commands.first { command in
        let rest = bytes[start...]
        guard rest.starts(with: command.bytes) else { return false }
        let next = rest.dropFirst(command.bytes.count).first
        return next == UInt8(ascii: "'") || next == UInt8(ascii: " ")
      }
      if let found, !named.contains(where: { $0.hasSameBytes(as: found.name) }) { named.append(found.name) }
    }
    return named
  }

  /// The members of a status whose texts may have values of rows.
  private static let members = ["message", "hint", "detail", "reason"]

  /// Returns the JSON with the texts of messages masked.
  package static func masked(_ object: JSONObject) -> JSONObject {
    JSONObject(
      object.members.map { name, value in
        if case .text(let text) = value, members.contains(where: { $0.hasSameBytes(as: name) }) {
          return (name, .text(masked(text)))
        }
        return (name, masked(value))
      })
  }

  private static func masked(_ value: JSONObject.Value) -> JSONObject.Value {
    switch value {
    case .object(let object): .object(masked(object))
    case .list(let list): .list(list.map(masked))
    default: value
    }
  }
}
