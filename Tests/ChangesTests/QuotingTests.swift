import Changes
import TestServers
import Testing

/// Every text is quoted so that a reader of bytes, as both engines are, gets it back. (C1 of the threat model.)
@Suite struct QuotingTests {
  /// Reads a quoted text as a lexer of SQL does: the content, and the bytes after it.
  private func read(_ sql: String, _ mark: UInt8, escapes: Bool) -> (content: [UInt8], rest: [UInt8])? {
    let bytes = Array(sql.utf8)
    guard bytes.first == mark else { return nil }
    var content: [UInt8] = []
    var i = 1
    while i < bytes.count {
      let next = i + 1 < bytes.count ? bytes[i + 1] : 0
      switch bytes[i] {
      case UInt8(ascii: "\\") where escapes:
        guard next == UInt8(ascii: "\\") else { return nil }
        content.append(next)
        i += 2
      case mark where next == mark:
        content.append(mark)
        i += 2
      case mark: return (content, Array(bytes[(i + 1)...]))
      default:
        content.append(bytes[i])
        i += 1
      }
    }
    return nil
  }

  private func isSafe(_ text: String) -> Bool {
    func holds(_ sql: String, _ mark: UInt8, escapes: Bool = false) -> Bool {
      guard let (content, rest) = read(sql, mark, escapes: escapes) else { return false }
      return content == Array(text.utf8) && rest.isEmpty
    }
    let postgres = text.postgresLiteral
    let isEscaped = text.utf8.contains(UInt8(ascii: "\\"))
    let inner = isEscaped ? String(decoding: postgres.utf8.dropFirst(), as: UTF8.self) : postgres
    // Without a backslash a literal means the same under either setting of standard_conforming_strings.
    return holds(text.quotedName, UInt8(ascii: "\"")) && holds(text.quotedText, UInt8(ascii: "'"))
      && postgres.utf8.starts(with: isEscaped ? "E'".utf8 : "'".utf8)
      && holds(inner, UInt8(ascii: "'"), escapes: isEscaped)
  }

  @Test(arguments: HostileText.classes.map(\.name))
  func `a quote beside a scalar of any class is doubled`(name: String) throws {
    let scalars = try #require(HostileText.classes.first { $0.name == name }?.scalars).compactMap(Unicode.Scalar.init)
    for scalar in scalars {
      for quote in ["'", "\"", "\\"] as [Unicode.Scalar] {
        for other in HostileText.scalars {
          for text in [
            [scalar, quote, other], [other, quote, scalar], [scalar, quote, quote, other], [quote, scalar],
          ] {
            let text = HostileText.string(text)
            if !isSafe(text) { Issue.record("\(text.unicodeScalars.map { String($0.value, radix: 16) })") }
          }
        }
      }
    }
  }

  @Test func `random text is read back`() {
    let seed = UInt64.random(in: .min ... .max)
    var random = Seeded(seed)
    for _ in 0..<(isSoak ? 1_000_000 : 20_000) {
      let text = random.hostileText(upTo: 12)
      guard isSafe(text) else {
        Issue.record("seed \(seed): \(text.unicodeScalars.map { String($0.value, radix: 16) })")
        return
      }
      let name = text.quotedName.utf8.dropFirst().dropLast()
      #expect(String(undoubling: name, UInt8(ascii: "\"")).utf8.elementsEqual(text.utf8), "seed \(seed)")
      let literal = text.quotedText.utf8.dropFirst().dropLast()
      #expect(String(undoubling: literal, UInt8(ascii: "'")).utf8.elementsEqual(text.utf8), "seed \(seed)")
    }
  }

  @Test func `nothing ends a comment`() {
    for ending in ["\n", "\r", "\r\n", "\n\u{301}", "\u{600}\n"] {
      let comment = "a\(ending)DROP TABLE b".sqlComment
      #expect(!comment.utf8.contains { $0 < 0x20 } && comment.utf8.starts(with: "-- a".utf8))
    }
  }
}
