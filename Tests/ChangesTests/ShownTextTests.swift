import Changes
import Testing

@Suite struct ShownTextTests {
  /// Everything that the Unicode standard calls a control or a mark of direction.
  private static let obeyed: [Unicode.Scalar] =
    (Array(0..<0x20) + Array(0x7f..<0xa0) + [0x61c, 0x200e, 0x200f] + Array(0x2028...0x202e) + Array(0x2066...0x2069))
    .compactMap { Unicode.Scalar(UInt32($0)) }

  @Test func `nothing that a terminal obeys is left, whatever is beside it`() {
    let neighbours = ["", "a", "\u{301}", "\u{600}", "\u{200d}", "\u{fe0f}", "\u{1f1e9}"]
    for scalar in Self.obeyed {
      for before in neighbours {
        for after in neighbours {
          let text = before + String(scalar) + after
          #expect(!text.oneLine.unicodeScalars.contains { $0.isObeyed }, "\(scalar.value)")
          #expect(!text.severalLines.unicodeScalars.contains { $0.isObeyed && $0 != "\n" }, "\(scalar.value)")
        }
      }
    }
    #expect("a\r\nb\u{1b}[2J\u{9b}c\u{202e}d".oneLine == "a  b\\x1b[2J\\x9bc\\u202ed")
    #expect("ünï 東京 😀 e\u{301}".oneLine == "ünï 東京 😀 e\u{301}")
  }

  @Test func `JSON holds them as escapes, and gives them back`() throws {
    let text = String(String.UnicodeScalarView(Self.obeyed)) + "\u{301}\"\u{301}\\\u{600}\""
    let line = JSONObject([("a\u{9b}", .text(text))]).line
    #expect(!line.unicodeScalars.contains { $0.isObeyed })
    guard case .object(let object) = try JSONReader.read(line) else {
      Issue.record("no object")
      return
    }
    #expect(object.text("a\u{9b}").map { Array($0.utf8) } == Array(text.utf8))
  }
}
