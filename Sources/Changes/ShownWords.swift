extension String {
  /// The text as one word of a shell command, in single quotes. Names come from databases: a quote in a name must not
  /// end the word in a hint that an operator copies.
  ///
  ///     "it's".shellWord   // 'it'\''s'
  package var shellWord: String { enclosed("'") { $0 == UInt8(ascii: "'") ? Array("'\\''".utf8) : nil } }

  /// The text as a string in a conf, in double quotes.
  ///
  ///     "a\"b".confText   // "a\"b"
  package var confText: String {
    enclosed("\"") { byte in
      switch byte {
      case UInt8(ascii: "\""), UInt8(ascii: "\\"): [UInt8(ascii: "\\"), byte]
      case 0..<0x20, 0x7f: Array("\\u00\(byte < 16 ? "0" : "")\(String(byte, radix: 16))".utf8)
      default: nil
      }
    }
  }

  private func enclosed(_ quote: String, _ escape: (UInt8) -> [UInt8]?) -> String {
    let inner = utf8.flatMap { escape($0) ?? [$0] }
    return quote + String(decoding: inner, as: UTF8.self) + quote
  }
}
