import Changes

/// SQL split into tokens as PostgreSQL reads it.
///
/// Source: https://www.postgresql.org/docs/15/sql-syntax-lexical.html
package struct PostgresTokens {
  enum Kind: Equatable {
    /// A bare word in lower case, or a quoted name without quotes.
    case name(String, isQuoted: Bool)
    /// A literal as written, with its quotes. For a dollar-quoted literal, the text between the quotes.
    case string(String)
    case symbol(UInt8)

    /// Compares names and strings by their bytes, not by Unicode equivalence.
    static func == (a: Self, b: Self) -> Bool {
      switch (a, b) {
      case (.name(let a, let isQuoted), .name(let b, let isOtherQuoted)):
        isQuoted == isOtherQuoted && a.hasSameBytes(as: b)
      case (.string(let a), .string(let b)): a.hasSameBytes(as: b)
      case (.symbol(let a), .symbol(let b)): a == b
      default: false
      }
    }
  }

  struct Token: Equatable {
    let range: Range<Int>
    let kind: Kind

    var word: String { if case .name(let name, false) = kind { name } else { "" } }
    var name: String? { if case .name(let name, _) = kind { name } else { nil } }
    func isSymbol(_ symbol: Character) -> Bool { kind == .symbol(symbol.asciiValue ?? 0) }
  }

  let bytes: [UInt8]
  private(set) var tokens: [Token] = []

  init(_ text: String) {
    bytes = Array(text.utf8)
    read()
  }

  func text(_ range: Range<Int>) -> String { String(decoding: bytes[range], as: UTF8.self) }

  func text(_ part: ArraySlice<Token>) -> String {
    guard let first = part.first, let last = part.last else { return "" }
    return text(first.range.lowerBound..<last.range.upperBound)
  }

  /// Splits tokens at separators outside of parentheses.
  static func split(_ tokens: ArraySlice<Token>, at separator: Character) -> [ArraySlice<Token>] {
    var parts: [ArraySlice<Token>] = []
    var depth = 0
    var start = tokens.startIndex
    for index in tokens.indices {
      if tokens[index].isSymbol("(") || tokens[index].isSymbol("[") { depth += 1 }
      if tokens[index].isSymbol(")") || tokens[index].isSymbol("]") { depth -= 1 }
      guard depth == 0, tokens[index].isSymbol(separator) else { continue }
      parts.append(tokens[start..<index])
      start = index + 1
    }
    parts.append(tokens[start...])
    return parts.filter { !$0.isEmpty }
  }

  /// Returns the statements of a script, without semicolons.
  ///
  ///     PostgresTokens.statements(of: "CREATE SCHEMA a; CREATE TABLE a.\"b;\"()")  // two statements
  package static func statements(of script: String) -> [String] {
    let script = PostgresTokens(script)
    return split(script.tokens[...], at: ";").map { script.text($0) }
  }

  // MARK: Reading

  private mutating func read() {
    var i = 0
    while i < bytes.count {
      let start = i
      switch bytes[i] {
      case 0x20, 0x09...0x0d: i += 1
      case UInt8(ascii: "-") where at(i + 1) == UInt8(ascii: "-"): while i < bytes.count, bytes[i] != 0x0a { i += 1 }
      case UInt8(ascii: "/") where at(i + 1) == UInt8(ascii: "*"): i = endOfComment(i)
      case UInt8(ascii: "'"):
        i = endOfQuotes(i, escapes: false)
        add(start..<i, .string(text(start..<i)))
      case UInt8(ascii: "\""):
        i = endOfQuotes(i, escapes: false)
        let inner = bytes[start + 1..<max(start + 1, i - 1)]
        add(start..<i, .name(String(undoubling: inner, UInt8(ascii: "\"")), isQuoted: true))
      case UInt8(ascii: "E"), UInt8(ascii: "e"):
        guard at(i + 1) == UInt8(ascii: "'") else {
          i = addWord(i)
          break
        }
        i = endOfQuotes(i + 1, escapes: true)
        add(start..<i, .string(text(start..<i)))
      case UInt8(ascii: "$"):
        guard let tag = dollarTag(i) else {
          i += 1
          add(start..<i, .symbol(UInt8(ascii: "$")))
          break
        }
        let end = endOfDollars(tag)
        add(start..<end.after, .string(text(tag.upperBound..<end.at)))
        i = end.after
      case let byte where Self.isWord(byte): i = addWord(i)
      case let byte:
        i += 1
        add(start..<i, .symbol(byte))
      }
    }
  }

  private func at(_ index: Int) -> UInt8 { index < bytes.count ? bytes[index] : 0 }

  private mutating func add(_ range: Range<Int>, _ kind: Kind) { tokens.append(Token(range: range, kind: kind)) }

  private mutating func addWord(_ start: Int) -> Int {
    var i = start
    while i < bytes.count, Self.isWord(bytes[i]) || bytes[i] == UInt8(ascii: "$") { i += 1 }
    add(start..<i, .name(text(start..<i).asciiLowercased, isQuoted: false))
    return i
  }

  private static func isWord(_ b: UInt8) -> Bool {
    (0x30...0x39).contains(b) || (0x41...0x5a).contains(b) || (0x61...0x7a).contains(b) || b == 0x5f || b >= 0x80
  }

  /// Returns the offset after a block comment, which may be nested.
  private func endOfComment(_ start: Int) -> Int {
    var (i, depth) = (start, 0)
    repeat {
      if at(i) == UInt8(ascii: "/"), at(i + 1) == UInt8(ascii: "*") {
        (i, depth) = (i + 2, depth + 1)
      } else if at(i) == UInt8(ascii: "*"), at(i + 1) == UInt8(ascii: "/") {
        (i, depth) = (i + 2, depth - 1)
      } else {
        i += 1
      }
    } while depth > 0 && i < bytes.count
    return min(i, bytes.count)
  }

  private func endOfQuotes(_ start: Int, escapes: Bool) -> Int {
    let quote = bytes[start]
    var i = start + 1
    while i < bytes.count {
      if escapes, bytes[i] == UInt8(ascii: "\\") {
        i += 2
      } else if bytes[i] == quote, at(i + 1) == quote {
        i += 2
      } else if bytes[i] == quote {
        return i + 1
      } else {
        i += 1
      }
    }
    return bytes.count
  }

  private func dollarTag(_ start: Int) -> Range<Int>? {
    var i = start + 1
    while i < bytes.count, Self.isWord(bytes[i]) { i += 1 }
    guard at(i) == UInt8(ascii: "$"), !(0x30...0x39).contains(at(start + 1)) else { return nil }
    return start..<i + 1
  }

  private func endOfDollars(_ tag: Range<Int>) -> (at: Int, after: Int) {
    var i = tag.upperBound
    while i + tag.count <= bytes.count {
      if bytes[i..<i + tag.count].elementsEqual(bytes[tag]) { return (i, i + tag.count) }
      i += 1
    }
    return (bytes.count, bytes.count)
  }
}

extension PostgresTokens {
  /// Returns the tokens of a statement without spaces, quotes and `pg_catalog.`, with `renamed` names replaced. Equal
  /// results mean equal statements.
  static func meaning(_ text: String, renamed: [NameKey: String] = [:]) -> [Kind] {
    let tokens = PostgresTokens(text).tokens
    return tokens.indices.compactMap { index in
      func isCatalog(_ place: Int) -> Bool {
        tokens.indices.contains(place) && tokens[place].name == "pg_catalog" && place + 1 < tokens.count
          && tokens[place + 1].isSymbol(".")
      }
      if isCatalog(index) || isCatalog(index - 1) { return nil }
      guard let name = tokens[index].name else { return tokens[index].kind }
      return .name(renamed[name] ?? name, isQuoted: false)
    }
  }
}
