extension String {
  /// The text as one word of a shell command, in single quotes.
  ///
  ///     "it's".shellWord   // 'it'\''s'
  package var shellWord: String { enclosed("'") { $0 == UInt8(ascii: "'") ? Array("'\\''".utf8) : nil } }

  /// Whether the text is a word without a special meaning for a shell or systemd. It has only letters of ASCII, digits,
  /// `_`, `-`, `.` and `/`.
  package var isPlainWord: Bool {
    !isEmpty
      && utf8.allSatisfy { byte in
        (0x61...0x7a).contains(byte) || (0x41...0x5a).contains(byte) || (0x2d...0x39).contains(byte) || byte == 0x5f
      }
  }

  /// The text as one word of a shell command, in quotes only if it needs them.
  ///
  ///     "/srv/pos".shellArgument   // /srv/pos
  package var shellArgument: String { isPlainWord ? self : shellWord }

  /// The text as a TOML string of a conf, in double quotes.
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

extension BinaryInteger {
  /// Returns the number with its noun, in singular or plural.
  ///
  /// ```swift
  /// 1.counted("row")               // "1 row"
  /// 0.counted("row")               // "0 rows"
  /// 2.counted("apply", "applies")  // "2 applies"
  /// 1.counted("table waits", "tables wait")  // "1 table waits"
  /// ```
  ///
  /// - Parameter one: The words for the number one.
  /// - Parameter many: The words for any other number; nil if they are `one` with an "s".
  package func counted(_ one: String, _ many: String? = nil) -> String {
    "\(self) \(self == 1 ? one : many ?? one + "s")"
  }
}

extension [String] {
  /// The setting that excludes the tables with these names, as written in the conf and on a command line.
  ///
  /// ```swift
  /// ["note"].leftOut  // tables = ["*", "!note"] (--tables '*,!note')
  /// ```
  package var leftOut: String {
    let patterns = ["*"] + map { "!" + $0 }
    return "tables = [\(patterns.map(\.confText).joined(separator: ", "))] "
      + "(--tables \(patterns.joined(separator: ",").shellWord))"
  }
}
