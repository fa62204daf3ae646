/// A reader of SQL text that splits statements at commas, parentheses and keywords, but not inside quotes and comments.
package enum SQLText {
  package struct Token: Equatable {
    package let range: Range<Int>
    /// The word in upper case; empty for quoted names, literals and punctuation.
    @ByBytes package private(set) var word: String
    package let symbol: UInt8
  }

  /// Returns the tokens of SQL as SQLite's tokenizer finds them. Source: https://sqlite.org/lang.html
  package static func tokens(_ sql: [UInt8]) -> [Token] {
    var tokens: [Token] = []
    var i = 0
    func isWord(_ b: UInt8) -> Bool {
      (0x30...0x39).contains(b) || (0x41...0x5a).contains(b) || (0x61...0x7a).contains(b) || b == 0x5f || b == 0x24
        || b >= 0x80
    }
    while i < sql.count {
      let start = i
      switch sql[i] {
      case 0x20, 0x09, 0x0a, 0x0c, 0x0d: i += 1
      // A byte order mark at the start of a token is white space.
      case 0xef where i + 2 < sql.count && sql[i + 1] == 0xbb && sql[i + 2] == 0xbf: i += 3
      case UInt8(ascii: "-") where i + 1 < sql.count && sql[i + 1] == UInt8(ascii: "-"):
        while i < sql.count, sql[i] != 0x0a { i += 1 }
      case UInt8(ascii: "/") where i + 1 < sql.count && sql[i + 1] == UInt8(ascii: "*"):
        i += 2
        while i < sql.count, !(sql[i - 1] == UInt8(ascii: "*") && sql[i] == UInt8(ascii: "/") && i > start + 2) {
          i += 1
        }
        i = min(i + 1, sql.count)
      case let quote
      where [UInt8(ascii: "'"), UInt8(ascii: "\""), UInt8(ascii: "`"), UInt8(ascii: "[")].contains(quote):
        let end = quote == UInt8(ascii: "[") ? UInt8(ascii: "]") : quote
        i += 1
        while i < sql.count {
          if sql[i] == end {
            if end != UInt8(ascii: "]"), i + 1 < sql.count, sql[i + 1] == end { i += 1 } else { break }
          }
          i += 1
        }
        i = min(i + 1, sql.count)
        tokens.append(Token(range: start..<i, word: "", symbol: quote))
      case let byte where isWord(byte):
        while i < sql.count, isWord(sql[i]) { i += 1 }
        tokens.append(
          Token(range: start..<i, word: String(decoding: sql[start..<i], as: UTF8.self).asciiUppercased, symbol: 0))
      case let byte:
        i += 1
        tokens.append(Token(range: start..<i, word: "", symbol: byte))
      }
    }
    return tokens
  }

  /// Returns the expressions of a CREATE INDEX statement, without ASC and DESC, and its WHERE clause; nil for other
  /// text.
  package static func indexParts(_ sql: String) -> (terms: [String], predicate: String?)? {
    let bytes = Array(sql.utf8)
    let tokens = tokens(bytes)
    guard let on = tokens.firstIndex(where: { $0.word == "ON" }),
      let open = tokens[on...].firstIndex(where: { $0.symbol == UInt8(ascii: "(") })
    else { return nil }
    var depth = 0
    var terms: [String] = []
    var first = open + 1
    for i in open..<tokens.count {
      let symbol = tokens[i].symbol
      if symbol == UInt8(ascii: "(") { depth += 1 }
      let closes = symbol == UInt8(ascii: ")") && depth == 1
      if closes || (symbol == UInt8(ascii: ",") && depth == 1) {
        var last = i - 1
        if last >= first, ["ASC", "DESC"].contains(tokens[last].word) { last -= 1 }
        guard last >= first else { return nil }
        terms.append(text(bytes, tokens[first], tokens[last]))
        first = i + 1
      }
      if symbol == UInt8(ascii: ")") { depth -= 1 }
      if closes {
        guard i + 1 < tokens.count else { return (terms, nil) }
        guard tokens[i + 1].word == "WHERE", i + 2 < tokens.count, let end = tokens.last else { return nil }
        return (terms, text(bytes, tokens[i + 2], end))
      }
    }
    return nil
  }

  /// Returns the names of the collations that a statement uses, without quotes.
  ///
  ///     SQLText.collations("CREATE INDEX i ON t(a COLLATE de)")  // ["de"]
  package static func collations(_ sql: String) -> [String] {
    let bytes = Array(sql.utf8)
    let tokens = tokens(bytes)
    return zip(tokens, tokens.dropFirst()).compactMap { word, name in
      guard word.word == "COLLATE" else { return nil }
      return Self.name(bytes, name)
    }
  }

  /// Returns the name that a token of `bytes` is, without quotes.
  package static func name(_ bytes: [UInt8], _ token: Token) -> String {
    let text = bytes[token.range]
    guard token.symbol != 0 else { return String(decoding: text, as: UTF8.self) }
    // A quote within quotes is doubled.
    var plain: [UInt8] = []
    for byte in text.dropFirst().dropLast() where !(byte == token.symbol && plain.last == byte) { plain.append(byte) }
    return String(decoding: plain, as: UTF8.self)
  }

  private static func text(_ bytes: [UInt8], _ first: Token, _ last: Token) -> String {
    String(decoding: bytes[first.range.lowerBound..<last.range.upperBound], as: UTF8.self)
  }
}
