import Changes

/// The reason why a piece of DDL is not used at the target, such as `"load_extension() is not a known function"`.
struct Unparsed: Error, Equatable {
  let reason: String
  init(_ reason: String) { self.reason = reason }
}

/// A token of DDL, with the white space before it. Tokens are printed from their decoded content, so that no unchecked
/// text reaches a database.
struct DDLToken {
  enum Kind: Equatable {
    /// A bare word, in upper case and as written.
    case word(String, written: String)
    /// A quoted name, and its opening quote: `"`, or in SQLite also a back quote or `[`.
    case name(String, quote: UInt8)
    case string(String)
    /// The content of PostgreSQL's `E'…'`, with its escapes.
    case escaped(String)
    /// The digits of `x'…'` or `B'…'`, and the letter.
    case digits(String, letter: String)
    case number(String)
    /// The text between PostgreSQL's dollar quotes.
    case dollars(String)
    case symbol(String)

    static func == (a: Kind, b: Kind) -> Bool {
      switch (a, b) {
      case (.word(_, let a), .word(_, let b)), (.string(let a), .string(let b)), (.escaped(let a), .escaped(let b)),
        (.number(let a), .number(let b)), (.dollars(let a), .dollars(let b)), (.symbol(let a), .symbol(let b)):
        a == b
      case (.name(let a, let quote), .name(let b, let other)): a == b && quote == other
      case (.digits(let a, let letter), .digits(let b, let other)): a == b && letter == other
      default: false
      }
    }
  }

  let kind: Kind
  /// The white space before the token, in SQLite with comments.
  @ByBytes var space: String

  var word: String { if case .word(let word, _) = kind { word } else { "" } }

  /// The name: a bare word as written, or a quoted name without quotes; nil for other tokens.
  var name: String? {
    switch kind {
    case .word(_, let written): written
    case .name(let name, _): name
    default: nil
    }
  }

  var printed: String {
    switch kind {
    case .word(_, let written): return written
    case .name(let name, UInt8(ascii: "[")): return "[" + name + "]"
    case .name(let name, UInt8(ascii: "`")): return name.backQuotedName
    case .name(let name, _): return name.quotedName
    case .string(let text): return text.quotedText
    case .escaped(let text): return "E'" + text + "'"
    case .digits(let text, let letter): return letter + "'" + text + "'"
    case .number(let text), .symbol(let text): return text
    case .dollars(let text): return text.dollarQuoted
    }
  }
}

/// Splits DDL of one engine into tokens. Throws for text that is no known token.
///
/// Source: https://sqlite.org/lang.html, https://www.postgresql.org/docs/15/sql-syntax-lexical.html
struct DDLTokenizer {
  private let bytes: [UInt8]
  private let engine: Engine
  private var at = 0
  private var tokens: [DDLToken] = []

  /// The maximum size of a DDL text, in bytes.
  static let bytesMax = 1 << 20

  static func tokens(_ text: String, _ engine: Engine) throws(Unparsed) -> [DDLToken] {
    var tokenizer = DDLTokenizer(bytes: Array(text.utf8), engine: engine)
    guard tokenizer.bytes.count <= bytesMax else { throw Unparsed("its text is longer than \(bytesMax) bytes") }
    guard !tokenizer.bytes.contains(0) else { throw Unparsed("its text has a NUL character") }
    while try tokenizer.readToken() {}
    return tokenizer.tokens
  }

  private init(bytes: [UInt8], engine: Engine) { (self.bytes, self.engine) = (bytes, engine) }

  private func byte(_ offset: Int = 0) -> UInt8 { at + offset < bytes.count ? bytes[at + offset] : 0 }
  private func text(_ range: Range<Int>) -> String { String(decoding: bytes[range], as: UTF8.self) }

  private mutating func readToken() throws(Unparsed) -> Bool {
    var space = try readSpace()
    guard at < bytes.count else { return false }
    // psql replaces the `:b` of `a[1:b]` by a variable of its own.
    if space.isEmpty, tokens.last?.kind == .symbol(":") { space = " " }
    tokens.append(DDLToken(kind: try readKind(), space: space))
    return true
  }

  private mutating func readSpace() throws(Unparsed) -> String {
    var kept = ""
    while at < bytes.count {
      let start = at
      switch bytes[at] {
      case 0x20, 0x09, 0x0a, 0x0c, 0x0d:
        at += 1
        kept += text(start..<at)
      case UInt8(ascii: "-") where byte(1) == UInt8(ascii: "-"):
        while at < bytes.count, bytes[at] != 0x0a, engine == .sqlite || bytes[at] != 0x0d { at += 1 }
        guard at < bytes.count else { throw Unparsed("a comment ends its text") }
        kept += engine == .sqlite ? text(start..<at) : " "
      case UInt8(ascii: "/") where byte(1) == UInt8(ascii: "*"):
        at += 2
        while at < bytes.count, !(bytes[at] == UInt8(ascii: "*") && byte(1) == UInt8(ascii: "/")) { at += 1 }
        guard at < bytes.count else { throw Unparsed("a comment is not closed") }
        at += 2
        let comment = text(start..<at)
        // PostgreSQL nests comments; SQLite does not. If the two differ, the text is refused.
        guard !comment.dropFirst(2).utf8.contains(UInt8(ascii: "/")) || !Self.isNested(bytes[start..<at]) else {
          throw Unparsed("a comment opens within a comment")
        }
        kept += engine == .sqlite ? comment : " "
      default: return kept
      }
    }
    return kept
  }

  private static func isNested(_ comment: ArraySlice<UInt8>) -> Bool {
    let inner = Array(comment.dropFirst(2))
    return zip(inner, inner.dropFirst()).contains { $0 == UInt8(ascii: "/") && $1 == UInt8(ascii: "*") }
  }

  private mutating func readKind() throws(Unparsed) -> DDLToken.Kind {
    let start = at
    switch bytes[at] {
    case UInt8(ascii: "'"): return .string(try readQuoted(UInt8(ascii: "'")))
    case UInt8(ascii: "\""):
      let name = try readQuoted(UInt8(ascii: "\""))
      guard engine == .sqlite || !name.isEmpty else { throw Unparsed("a name in it is empty") }
      return .name(name, quote: UInt8(ascii: "\""))
    case UInt8(ascii: "`") where engine == .sqlite:
      return .name(try readQuoted(UInt8(ascii: "`")), quote: UInt8(ascii: "`"))
    case UInt8(ascii: "[") where engine == .sqlite:
      return .name(try readQuoted(UInt8(ascii: "]")), quote: UInt8(ascii: "["))
    case let letter where byte(1) == UInt8(ascii: "'") && isPrefix(letter): return try readPrefixed(letter)
    case UInt8(ascii: "$") where engine == .postgres: return .dollars(try readDollars())
    case UInt8(ascii: "0")...UInt8(ascii: "9"): return .number(try readNumber())
    case UInt8(ascii: ".") where Self.isDigit(byte(1)): return .number(try readNumber())
    case let first where Self.isWord(first):
      while Self.isWord(byte()) || byte() == UInt8(ascii: "$") { at += 1 }
      let word = text(start..<at)
      guard word.unicodeScalars.first != "\u{feff}" else { throw Unparsed("it has a byte order mark") }
      // U&'…' has escapes of its own.
      let isUnicode = engine == .postgres && word.asciiUppercased == "U" && byte() == UInt8(ascii: "&")
      guard !isUnicode || !["'", "\""].contains(UnicodeScalar(byte(1))) else { throw Unparsed("it has a U& literal") }
      return .word(word.asciiUppercased, written: word)
    default: return .symbol(try readSymbol())
    }
  }

  private func isPrefix(_ letter: UInt8) -> Bool {
    let letters = engine == .sqlite ? "xX" : "eExXbB"
    return letters.utf8.contains(letter)
  }

  private mutating func readPrefixed(_ letter: UInt8) throws(Unparsed) -> DDLToken.Kind {
    at += 1
    guard letter | 0x20 == UInt8(ascii: "e") else {
      let digits = try readQuoted(UInt8(ascii: "'"))
      let isBits = letter | 0x20 == UInt8(ascii: "b")
      guard digits.utf8.allSatisfy({ isBits ? $0 == 0x30 || $0 == 0x31 : Self.isHex($0) }),
        engine == .postgres || digits.utf8.count.isMultiple(of: 2)
      else { throw Unparsed("a blob in it is not whole") }
      return .digits(digits, letter: isBits ? "B" : String(UnicodeScalar(letter)))
    }
    // Every byte is kept; an escape is a backslash with one byte after it.
    at += 1
    let start = at
    while at < bytes.count {
      if bytes[at] == UInt8(ascii: "\\"), at + 1 < bytes.count {
        at += 2
      } else if bytes[at] == UInt8(ascii: "'"), byte(1) == UInt8(ascii: "'") {
        at += 2
      } else if bytes[at] == UInt8(ascii: "'") {
        at += 1
        return .escaped(text(start..<at - 1))
      } else {
        at += 1
      }
    }
    throw Unparsed("a quote in it is not closed")
  }

  /// Reads the text up to the closing quote. A doubled quote is one quote, except `]`.
  private mutating func readQuoted(_ close: UInt8) throws(Unparsed) -> String {
    at += 1
    var content: [UInt8] = []
    while at < bytes.count {
      if bytes[at] == close {
        at += 1
        guard close != UInt8(ascii: "]"), byte() == close else { return String(decoding: content, as: UTF8.self) }
      }
      content.append(bytes[at])
      at += 1
    }
    throw Unparsed("a quote in it is not closed")
  }

  private mutating func readDollars() throws(Unparsed) -> String {
    let start = at
    at += 1
    guard !Self.isDigit(byte()) else { throw Unparsed("it has a parameter") }
    while Self.isWord(byte()) { at += 1 }
    guard byte() == UInt8(ascii: "$") else { throw Unparsed("it has a character that is not of SQL") }
    at += 1
    let tag = bytes[start..<at]
    let inner = at
    while at + tag.count <= bytes.count {
      if bytes[at..<at + tag.count].elementsEqual(tag) {
        at += tag.count
        return text(inner..<at - tag.count)
      }
      at += 1
    }
    throw Unparsed("a quote in it is not closed")
  }

  private mutating func readNumber() throws(Unparsed) -> String {
    let start = at
    if byte() == UInt8(ascii: "0"), byte(1) | 0x20 == UInt8(ascii: "x"), engine == .sqlite {
      at += 2
      while Self.isHex(byte()) { at += 1 }
      guard at - start > 2 else { throw Unparsed("a number in it is not one") }
    } else {
      while Self.isDigit(byte()) { at += 1 }
      if byte() == UInt8(ascii: ".") {
        at += 1
        while Self.isDigit(byte()) { at += 1 }
      }
      if byte() | 0x20 == UInt8(ascii: "e") {
        let sign = byte(1) == UInt8(ascii: "+") || byte(1) == UInt8(ascii: "-") ? 1 : 0
        if Self.isDigit(byte(1 + sign)) {
          at += 1 + sign
          while Self.isDigit(byte()) { at += 1 }
        }
      }
    }
    guard !Self.isWord(byte()), byte() != UInt8(ascii: "$") else { throw Unparsed("a number in it is not one") }
    return text(start..<at)
  }

  /// Reads an operator or a punctuation mark.
  private mutating func readSymbol() throws(Unparsed) -> String {
    let start = at
    if engine == .postgres, Self.operators.contains(bytes[at]) {
      while Self.operators.contains(byte()), !isComment { at += 1 }
      // Unless the operator contains one of these characters, a final + or - is the sign of its operand.
      while at - start > 1, bytes[at - 1] == UInt8(ascii: "+") || bytes[at - 1] == UInt8(ascii: "-"),
        !bytes[start..<at].contains(where: { "~!@#%^&|`?".utf8.contains($0) })
      { at -= 1 }
      return text(start..<at)
    }
    for symbol in engine == .sqlite ? Self.sqliteSymbols : Self.postgresSymbols
    where bytes[at...].starts(with: symbol.utf8) {
      at += symbol.utf8.count
      return symbol
    }
    throw Unparsed("it has a character that is not of SQL")
  }

  private var isComment: Bool {
    (byte() == UInt8(ascii: "-") && byte(1) == UInt8(ascii: "-"))
      || (byte() == UInt8(ascii: "/") && byte(1) == UInt8(ascii: "*"))
  }

  private static let operators = Array("+-*/<>=~!@#%^&|`?".utf8)
  private static let postgresSymbols = ["::", "(", ")", "[", "]", ",", ";", ".", ":"]
  /// The operators and punctuation marks of SQLite, longer ones first.
  private static let sqliteSymbols = [
    "->>", "->", "||", "<<", ">>", "<=", ">=", "<>", "!=", "==", "(", ")", ",", ";", ".", "+", "-", "*", "/", "%", "&",
    "|", "~", "=", "<", ">",
  ]

  private static func isDigit(_ byte: UInt8) -> Bool { (0x30...0x39).contains(byte) }
  private static func isHex(_ byte: UInt8) -> Bool { isDigit(byte) || (0x61...0x66).contains(byte | 0x20) }
  private static func isWord(_ byte: UInt8) -> Bool {
    isDigit(byte) || (0x41...0x5a).contains(byte) || (0x61...0x7a).contains(byte) || byte == 0x5f || byte >= 0x80
  }
}
