import Changes

// Patterns of LIKE, GLOB and regular expressions. Matching can take polynomial or even unbounded time in the size of
// the value. So a pattern must be a literal that is known to be harmless.
extension DDLParser {
  enum PatternKind {
    case like, glob, regular
  }

  private static let likeBytesMax = 1024
  private static let wildcardsMax = 8
  private static let regularBytesMax = 256
  /// The maximum number of automaton states for the repetitions in a regular expression, such as `{1,100}`.
  private static let regularStatesMax = 4096

  /// Reads a pattern: `'x%'::text`, or in PostgreSQL `ARRAY['x%', 'y%']`.
  mutating func pattern(_ kind: PatternKind) throws(Unparsed) {
    try innerPattern(kind)
    // An operator that binds more tightly would change the pattern.
    guard at < tokens.count else { return }
    switch tokens[at].kind {
    case .symbol(")"), .symbol("]"), .symbol(","), .symbol(";"): return
    case .word(let word, _) where word != "OPERATOR": return
    default: throw Unparsed("its pattern is no literal")
    }
  }

  private mutating func innerPattern(_ kind: PatternKind) throws(Unparsed) {
    depth += 1
    defer { depth -= 1 }
    guard depth <= Self.depthMax else { throw Unparsed("it is nested too deep") }
    if take(symbol: "(") {
      try innerPattern(kind)
      try expect(symbol: ")")
    } else if engine == .postgres, word() == "ARRAY", isSymbol("[", 1) {
      at += 2
      repeat { try innerPattern(kind) } while take(symbol: ",")
      try expect(symbol: "]")
    } else {
      guard at < tokens.count, case .string(let text) = tokens[at].kind else {
        throw Unparsed("its pattern is no literal")
      }
      try Self.check(kind, text)
      at += 1
    }
    while engine == .postgres, take(symbol: "::") { try castType() }
  }

  /// Throws if matching a value against the pattern may take too long.
  static func check(_ kind: PatternKind, _ text: String) throws(Unparsed) {
    let isBounded =
      switch kind {
      case .like: isBounded(text, wildcard: UInt8(ascii: "%"))
      case .glob: isBounded(text, wildcard: UInt8(ascii: "*"))
      case .regular: isBounded(regular: Array(text.utf8))
      }
    guard isBounded else { throw Unparsed("its pattern '\(text.prefix(40))' can take long to match") }
  }

  private static func isBounded(_ text: String, wildcard: UInt8) -> Bool {
    text.utf8.count <= likeBytesMax && text.utf8.count { $0 == wildcard } <= wildcardsMax
  }

  /// Returns whether a regular expression has no back reference, no look-around, and few repetitions. PostgreSQL
  /// matches such expressions in linear time.
  ///
  /// Source: https://www.postgresql.org/docs/15/functions-matching.html#POSIX-SYNTAX-DETAILS
  private static func isBounded(regular text: [UInt8]) -> Bool {
    func byte(_ index: Int) -> UInt8 { text.indices.contains(index) ? text[index] : 0 }
    func isDigit(_ byte: UInt8) -> Bool { (0x30...0x39).contains(byte) }
    guard text.count <= regularBytesMax, !text.starts(with: "***".utf8) else { return false }
    var (states, factor) = (text.count, 1)
    for index in text.indices {
      switch text[index] {
      case UInt8(ascii: "\\") where isDigit(byte(index + 1)): return false
      case UInt8(ascii: "(") where byte(index + 1) == UInt8(ascii: "?"):
        let isGroup = byte(index + 2) == UInt8(ascii: ":")
        let isCase = byte(index + 2) == UInt8(ascii: "i") && byte(index + 3) == UInt8(ascii: ")")
        guard isGroup || isCase else { return false }
      case UInt8(ascii: "{"):
        let numbers = text[(index + 1)...].prefix { isDigit($0) || $0 == UInt8(ascii: ",") }
          .split(separator: UInt8(ascii: ",")).map { Int(String(decoding: $0, as: UTF8.self)) ?? .max }
        let most = numbers.max() ?? 1
        guard most <= 255 else { return false }
        if byte(index - 1) == UInt8(ascii: ")") { factor *= max(1, most) } else { states += most }
        guard factor <= regularStatesMax else { return false }
      default: break
      }
    }
    return states * factor <= regularStatesMax
  }

  // MARK: substring()

  /// Throws if the pattern of `substring` is no literal, or may take too long to match.
  func checkSubstring(_ arguments: [Range<Int>]) throws(Unparsed) {
    if arguments.count == 2, case .string(let text)? = literal(arguments[1]) { return try Self.check(.regular, text) }
    guard arguments.dropFirst().allSatisfy(isNumber) else { throw Unparsed("its pattern is no literal") }
  }

  private static let counting: Set<NameKey> = [
    "char_length", "character_length", "length", "octet_length", "position", "strpos",
  ]

  /// Returns whether a PostgreSQL expression is a number, arithmetic, or a length.
  private func isNumber(_ range: Range<Int>) -> Bool {
    var range = range
    while isEnclosed(range) { range = range.dropFirst().dropLast() }
    guard let last = range.last, let first = range.first else { return false }
    var (open, operators) = (0, 0)
    for index in range {
      switch tokens[index].kind {
      case .symbol("("), .symbol("["): open += 1
      case .symbol(")"), .symbol("]"): open -= 1
      case .symbol("+"), .symbol("-"), .symbol("*"), .symbol("/"): if open == 0, index > first { operators += 1 }
      case .symbol where open == 0 && tokens[index].kind != .symbol("."): return false
      case .word("CASE", _), .word("OPERATOR", _): if open == 0 { return false }
      default: break
      }
    }
    if operators > 0 { return true }
    if case .number = tokens[last].kind { return range.count <= 2 }
    let name = tokens[first].name?.asciiLowercased == "pg_catalog" ? first + 2 : first
    return name < last && Self.counting.contains(tokens[name].name?.asciiLowercased ?? "")
      && isEnclosed(name + 1..<range.upperBound)
  }

  private func isEnclosed(_ range: Range<Int>) -> Bool {
    guard range.count > 2, tokens[range.lowerBound].kind == .symbol("(") else { return false }
    var open = 0
    for index in range {
      if tokens[index].kind == .symbol("(") { open += 1 }
      if tokens[index].kind == .symbol(")") { open -= 1 }
      if open == 0 { return index == range.upperBound - 1 }
    }
    return false
  }
}
