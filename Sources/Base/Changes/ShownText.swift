/// Makes text from databases, peers and files safe to show in a terminal, a log or a page of metrics.
///
/// ```swift
/// "a\u{1b}[31m\nb".oneLine  // "a\x1b[31m b"
/// ```
extension String {
  /// The text on one line. Line breaks and tabs become spaces, other control characters become their codes.
  package var oneLine: String { isPlain ? self : cleaned(keepsBreaks: false) }

  /// The text with its line breaks; other control characters become their codes.
  package var severalLines: String { isPlain ? self : cleaned(keepsBreaks: true) }

  /// The text up to its first line feed.
  package var firstLine: String { String(unicodeScalars.prefix { $0 != "\n" }) }

  private var isPlain: Bool { utf8.allSatisfy { (0x20..<0x7f).contains($0) } }

  private func cleaned(keepsBreaks: Bool) -> String {
    var scalars = String.UnicodeScalarView()
    for scalar in unicodeScalars {
      switch scalar.value {
      case 0x0a where keepsBreaks: scalars.append(scalar)
      case 0x09...0x0d, 0x85, 0x2028, 0x2029: scalars.append(" ")
      case _ where scalar.isObeyed: scalars.append(contentsOf: scalar.code.unicodeScalars)
      default: scalars.append(scalar)
      }
    }
    return String(scalars)
  }
}

extension Unicode.Scalar {
  /// Whether a terminal obeys the character instead of showing it, as with a control character or a mark of text
  /// direction (UAX #9, table 4).
  package var isObeyed: Bool {
    switch value {
    case 0..<0x20, 0x7f..<0xa0, 0x61c, 0x200e, 0x200f, 0x2028...0x202e, 0x2066...0x2069, 0xfff9...0xfffb: true
    default: false
    }
  }

  /// The code of the character as text, such as `\x1b` or `\u202e`.
  package var code: String {
    let digits = String(value, radix: 16)
    return value < 0x100
      ? "\\x" + String(repeating: "0", count: 2 - digits.count) + digits
      : "\\u" + String(repeating: "0", count: max(0, 4 - digits.count)) + digits
  }
}
