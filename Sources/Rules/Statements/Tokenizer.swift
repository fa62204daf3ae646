import Changes

/// Splits a statement into tokens. Throws for text that SQLite would not accept, and for syntax of its Tcl interface.
struct Tokenizer {
  private let bytes: [UInt8]
  private var at = 0
  private var tokens: [Token] = []
  /// The numbers of named parameters, by name with its first character, such as `:a`.
  private var parameters: [NameKey: Int] = [:]
  private var lastParameter = 0

  /// The maximum size, in bytes, of a statement that is executed again.
  private static let bytesMax = 1 << 20
  private static let firstBytesMax = 16 << 10
  /// The highest number of a parameter in SQLite as Debian builds it.
  static let parametersMax = 250_000

  static func tokens(_ text: String) throws(Unreplayable) -> [Token] {
    guard text.utf8.count <= bytesMax else { throw Unreplayable("it has more than 1 MiB") }
    guard !text.utf8.contains(0) else { throw Unreplayable("it has a NUL character, where SQLite ends the statement") }
    var tokenizer = Tokenizer(text)
    while try tokenizer.readToken() {}
    return tokenizer.tokens
  }

  /// Returns the first token. Reads at most `firstBytesMax` bytes; nil if these have no token.
  static func first(_ text: String) throws(Unreplayable) -> Token? {
    var tokenizer = Tokenizer(String(decoding: text.utf8.prefix(firstBytesMax), as: UTF8.self))
    _ = try tokenizer.readToken()
    return tokenizer.tokens.first
  }

  private init(_ text: String) { bytes = Array(text.utf8) }

  private func byte(_ offset: Int = 0) -> UInt8 { at + offset < bytes.count ? bytes[at + offset] : 0 }

  private func text(_ range: Range<Int>) -> String { String(decoding: bytes[range], as: UTF8.self) }

  private mutating func add(_ kind: Token.Kind, from start: Int) {
    tokens.append(Token(kind: kind, range: start..<at))
  }

  private mutating func readToken() throws(Unreplayable) -> Bool {
    skipSpaces()
    guard at < bytes.count else { return false }
    let start = at
    switch bytes[at] {
    case UInt8(ascii: "'"): add(.string(try readQuoted(UInt8(ascii: "'"))), from: start)
    case UInt8(ascii: "\""), UInt8(ascii: "`"): add(.name(try readQuoted(bytes[at])), from: start)
    case UInt8(ascii: "["): add(.name(try readQuoted(UInt8(ascii: "]"))), from: start)
    case UInt8(ascii: "x") where byte(1) == UInt8(ascii: "'"), UInt8(ascii: "X") where byte(1) == UInt8(ascii: "'"):
      at += 1
      add(.blob(try Self.blob(try readQuoted(UInt8(ascii: "'")))), from: start)
    case UInt8(ascii: "0")...UInt8(ascii: "9"): add(try readNumber(), from: start)
    case UInt8(ascii: ".") where Self.isDigit(byte(1)): add(try readNumber(), from: start)
    case UInt8(ascii: "?"), UInt8(ascii: ":"), UInt8(ascii: "@"), UInt8(ascii: "$"):
      add(.parameter(try readParameter()), from: start)
    case let first where Self.isWord(first):
      while Self.isWord(byte()) || byte() == UInt8(ascii: "$") { at += 1 }
      let word = text(start..<at)
      // SQLite reads this mark before a word as a space.
      guard !word.unicodeScalars.contains("\u{FEFF}") else { throw Unreplayable("it has a byte order mark") }
      add(.word(word.asciiUppercased, written: word), from: start)
    default:
      for symbol in Self.symbols where bytes[at...].starts(with: symbol.utf8) {
        at += symbol.utf8.count
        add(.symbol(symbol), from: start)
        return true
      }
      throw Unreplayable("it has a character that is not of SQL")
    }
    return true
  }

  /// The operators and punctuation marks of SQLite, longer ones first.
  private static let symbols = [
    "->>", "->", "||", "<<", ">>", "<=", ">=", "<>", "!=", "==", "(", ")", ",", ";", ".", "+", "-", "*", "/", "%", "&",
    "|", "~", "=", "<", ">",
  ]

  private static func isDigit(_ byte: UInt8) -> Bool { (0x30...0x39).contains(byte) }
  private static func isWord(_ byte: UInt8) -> Bool {
    isDigit(byte) || (0x41...0x5a).contains(byte) || (0x61...0x7a).contains(byte) || byte == 0x5f || byte >= 0x80
  }

  private mutating func skipSpaces() {
    while at < bytes.count {
      switch bytes[at] {
      case 0x20, 0x09, 0x0a, 0x0c, 0x0d: at += 1
      case UInt8(ascii: "-") where byte(1) == UInt8(ascii: "-"):
        while at < bytes.count, bytes[at] != 0x0a { at += 1 }
      case UInt8(ascii: "/") where byte(1) == UInt8(ascii: "*"):
        at += 2
        while at < bytes.count, !(bytes[at] == UInt8(ascii: "*") && byte(1) == UInt8(ascii: "/")) { at += 1 }
        at = min(at + 2, bytes.count)
      default: return
      }
    }
  }

  /// Reads the text up to the closing quote. A doubled quote is one quote, except `]`.
  private mutating func readQuoted(_ close: UInt8) throws(Unreplayable) -> String {
    at += 1
    var content: [UInt8] = []
    while at < bytes.count {
      if bytes[at] == close {
        guard close != UInt8(ascii: "]"), byte(1) == close else {
          at += 1
          return String(decoding: content, as: UTF8.self)
        }
        at += 1
      }
      content.append(bytes[at])
      at += 1
    }
    throw Unreplayable("a quote in it is not closed")
  }

  private static func blob(_ digits: String) throws(Unreplayable) -> [UInt8] {
    let digits = digits.utf8.map { Character(Unicode.Scalar($0)).hexDigitValue }
    guard digits.count.isMultiple(of: 2), !digits.contains(nil) else { throw Unreplayable("a blob in it is not whole") }
    return stride(from: 0, to: digits.count, by: 2).map { UInt8((digits[$0] ?? 0) << 4 | (digits[$0 + 1] ?? 0)) }
  }

  private mutating func readNumber() throws(Unreplayable) -> Token.Kind {
    let start = at
    if byte() == UInt8(ascii: "0"), byte(1) | 0x20 == UInt8(ascii: "x") {
      at += 2
      while Self.isWord(byte()) { at += 1 }
      guard let bits = UInt64(text(start + 2..<at), radix: 16) else { throw Unreplayable("a number in it is not one") }
      return .integer(Int64(bitPattern: bits))
    }
    var isReal = false
    while Self.isDigit(byte()) { at += 1 }
    if byte() == UInt8(ascii: ".") {
      isReal = true
      at += 1
      while Self.isDigit(byte()) { at += 1 }
    }
    if byte() | 0x20 == UInt8(ascii: "e") {
      let sign = byte(1) == UInt8(ascii: "+") || byte(1) == UInt8(ascii: "-") ? 1 : 0
      if Self.isDigit(byte(1 + sign)) {
        isReal = true
        at += 1 + sign
        while Self.isDigit(byte()) { at += 1 }
      }
    }
    // `12ab` is neither a number nor any other token.
    guard !Self.isWord(byte()) else { throw Unreplayable("a number in it is not one") }
    if !isReal, let number = Int64(text(start..<at)) { return .integer(number) }
    var digits = text(start..<at)
    if digits.hasPrefix(".") { digits = "0" + digits }
    guard let number = Double(digits.hasSuffix(".") ? digits + "0" : digits.replacingPointBeforeExponent) else {
      throw Unreplayable("a number in it is not one")
    }
    return .real(number)
  }

  private mutating func readParameter() throws(Unreplayable) -> Int {
    let start = at
    at += 1
    while Self.isWord(byte()) || byte() == UInt8(ascii: "$") { at += 1 }
    let name = text(start..<at)
    if name == "?" { return try nextParameter() }
    if name.hasPrefix("?") {
      guard let number = Int(name.dropFirst()), (1...Self.parametersMax).contains(number) else {
        throw Unreplayable("it has a parameter without a number")
      }
      lastParameter = max(lastParameter, number)
      return number
    }
    guard name.utf8.count > 1, byte() != UInt8(ascii: ":"), !(name.hasPrefix("$") && byte() == UInt8(ascii: "(")) else {
      throw Unreplayable("it has a parameter with a name of Tcl")
    }
    if let known = parameters[name] { return known }
    let number = try nextParameter()
    parameters[name] = number
    return number
  }

  private mutating func nextParameter() throws(Unreplayable) -> Int {
    guard lastParameter < Self.parametersMax else { throw Unreplayable("it has too many parameters") }
    lastParameter += 1
    return lastParameter
  }
}

extension String {
  /// The number in the form that Swift reads: `1.e5` as `1.0e5`.
  fileprivate var replacingPointBeforeExponent: String {
    guard let point = firstIndex(of: "."), let next = index(point, offsetBy: 1, limitedBy: endIndex), next < endIndex,
      self[next] == "e" || self[next] == "E"
    else { return self }
    return self[..<next] + "0" + self[next...]
  }
}
