import Changes

/// An expression of a rule: its text, and the columns of the table that it may name.
struct Expression {
  enum Fault: Error { case notOne }

  let text: String
  /// The indexes of the columns whose names occur in the text, ascending.
  let references: [Int]
  /// The column, if the expression is only a column name; otherwise nil.
  let column: Int?
  /// The result type, as declared in SQLite; empty if unknown.
  let type: String

  /// Whether the expression uses `typeof()`, so that a text and an equal number can give different results.
  let asksForTypes: Bool

  var isConstant: Bool { references.isEmpty }

  /// Parses an expression. A bare TRUE or FALSE is the number 1 or 0, even if the table has a column of that name.
  init(_ text: String, of schema: TableSchema) throws(Fault) {
    let bytes = Array(text.utf8)
    let tokens = SQLText.tokens(bytes)
    guard Self.isOne(tokens), Self.isClosed(tokens, bytes) else { throw .notOne }
    let truths = Self.truths(tokens)
    self.text = Self.text(bytes, tokens, truths)
    let words = tokens.map { Word($0, bytes) }
    var references = Set<Int>()
    for (index, word) in words.enumerated() where !truths.contains(index) {
      // A name before a parenthesis is that of a function.
      if words.indices.contains(index + 1), words[index + 1].is("(") { continue }
      guard let name = word.name, let column = Self.column(name, of: schema) else { continue }
      references.insert(column)
    }
    self.references = references.sorted()
    asksForTypes = words.contains { $0.word == "TYPEOF" }
    column = words.count == 1 && truths.isEmpty ? words[0].name.flatMap { Self.column($0, of: schema) } : nil
    type = Self.type(words[...], of: schema)
  }

  /// Returns the indexes of the words TRUE and FALSE that mean numbers, unlike those in `x IS TRUE` and `t.true`.
  private static func truths(_ tokens: [SQLText.Token]) -> Set<Int> {
    let point = UInt8(ascii: ".")
    func symbol(_ index: Int) -> UInt8? { tokens.indices.contains(index) ? tokens[index].symbol : nil }
    return Set(
      tokens.indices.filter { index in
        guard ["TRUE", "FALSE"].contains(tokens[index].word), symbol(index - 1) != point, symbol(index + 1) != point
        else { return false }
        let before = tokens[..<index].suffix(2).map(\.word)
        return before.last != "IS" && before != ["IS", "NOT"]
      })
  }

  private static func text(_ bytes: [UInt8], _ tokens: [SQLText.Token], _ truths: Set<Int>) -> String {
    var bytes = bytes
    for index in truths.sorted(by: >) {
      bytes.replaceSubrange(tokens[index].range, with: [UInt8(ascii: tokens[index].word == "TRUE" ? "1" : "0")])
    }
    return String(decoding: bytes, as: UTF8.self)
  }

  /// Returns whether the tokens form a single expression.
  private static func isOne(_ tokens: [SQLText.Token]) -> Bool {
    var depth = 0
    for token in tokens {
      switch token.symbol {
      case UInt8(ascii: "("): depth += 1
      case UInt8(ascii: ")"): depth -= 1
      case UInt8(ascii: ";"): return false
      case UInt8(ascii: ",") where depth == 0: return false
      default: break
      }
      if depth < 0 { return false }
    }
    return depth == 0 && !tokens.isEmpty
  }

  /// Returns whether all text literals, names and comments are closed.
  private static func isClosed(_ tokens: [SQLText.Token], _ bytes: [UInt8]) -> Bool {
    var end = 0
    for token in tokens {
      if bytes[end..<token.range.lowerBound].contains(UInt8(ascii: "*")) { return false }
      end = token.range.upperBound
      let quotes: [UInt8] = [UInt8(ascii: "'"), UInt8(ascii: "\""), UInt8(ascii: "`"), UInt8(ascii: "[")]
      guard quotes.contains(token.symbol) else { continue }
      let close = token.symbol == UInt8(ascii: "[") ? UInt8(ascii: "]") : token.symbol
      guard token.range.count > 1, bytes[token.range.upperBound - 1] == close else { return false }
    }
    return !bytes[end...].contains(UInt8(ascii: "*"))
  }

  /// Returns the index of the column with exactly this name. If there is none, returns the first column whose name
  /// differs only in case; otherwise nil.
  static func column(_ name: String, of schema: TableSchema) -> Int? {
    schema.columns.firstIndex { $0.name.hasSameBytes(as: name) }
      ?? schema.columns.firstIndex { $0.name.sqliteKey == name.sqliteKey }
  }

  // MARK: Its type

  private struct Word {
    let word: String
    let symbol: UInt8
    let name: String?
    let isNumber: Bool
    let isReal: Bool

    init(_ token: SQLText.Token, _ bytes: [UInt8]) {
      (word, symbol) = (token.word, token.symbol)
      let text = String(decoding: bytes[token.range], as: UTF8.self)
      isNumber = token.word.utf8.first.map { (0x30...0x39).contains($0) } ?? false
      isReal = isNumber && token.word.contains("E") && !token.word.hasPrefix("0X")
      switch token.symbol {
      case 0: name = isNumber || token.word.isEmpty ? nil : text
      case UInt8(ascii: "\""): name = Self.unquoted(text, "\"")
      case UInt8(ascii: "`"): name = Self.unquoted(text, "`")
      case UInt8(ascii: "["): name = String(text.dropFirst().dropLast())
      default: name = nil
      }
    }

    func `is`(_ symbol: Character) -> Bool { self.symbol == symbol.asciiValue }

    private static func unquoted(_ text: String, _ quote: String) -> String {
      text.dropFirst().dropLast().split(separator: quote + quote, omittingEmptySubsequences: false)
        .joined(separator: quote)
    }
  }

  private static let textFunctions: Set<NameKey> = [
    "CHAR", "CONCAT", "DATE", "DATETIME", "FORMAT", "HEX", "LOWER", "LTRIM", "PRINTF", "QUOTE", "REPLACE", "RTRIM",
    "STRFTIME", "SUBSTR", "SUBSTRING", "TIME", "TRIM", "TYPEOF", "UPPER",
  ]
  private static let integerFunctions: Set<NameKey> = [
    "GLOB", "INSTR", "LENGTH", "LIKE", "SIGN", "UNICODE", "UNIXEPOCH",
  ]
  private static let realFunctions: Set<NameKey> = ["JULIANDAY", "ROUND", "SQRT", "EXP", "LN", "LOG", "POW", "POWER"]
  private static let conditions: Set<NameKey> = [
    "AND", "OR", "NOT", "IS", "IN", "LIKE", "GLOB", "BETWEEN", "ISNULL", "NOTNULL",
  ]

  private static func type(_ words: ArraySlice<Word>, of schema: TableSchema) -> String {
    guard let first = words.first, let last = words.last else { return "" }
    if words.count == 1 {
      if first.is("'") { return "TEXT" }
      if first.isNumber { return first.isReal ? "REAL" : "INTEGER" }
      return ""
    }
    if first.is("("), last.is(")"), closes(words) == words.endIndex - 1 {
      return type(words.dropFirst().dropLast(), of: schema)
    }
    if let known = operators(words) { return known }
    guard words.count > 2, !first.word.isEmpty, words[words.startIndex + 1].is("("),
      closes(words.dropFirst()) == words.endIndex - 1
    else { return "" }
    if textFunctions.contains(first.word) { return "TEXT" }
    if integerFunctions.contains(first.word) { return "INTEGER" }
    if realFunctions.contains(first.word) { return "REAL" }
    if first.word == "CAST", let place = words.lastIndex(where: { $0.word == "AS" }) {
      return words[(place + 1)...].dropLast().map(\.word).filter { !$0.isEmpty }.joined(separator: " ")
    }
    return ""
  }

  /// Returns the result type of an expression from its words outside of parentheses; empty if they include CASE. Nil if
  /// these words do not determine the type.
  private static func operators(_ words: ArraySlice<Word>) -> String? {
    var depth = 0
    var isCondition = false
    var isNumber = false
    var isText = false
    var hasPoint = false
    for (index, word) in zip(words.indices, words) {
      if word.is("(") { depth += 1 }
      if word.is(")") { depth -= 1 }
      guard depth == 0 else { continue }
      if word.word == "CASE" { return "" }
      if conditions.contains(word.word) || word.is("=") || word.is("<") || word.is(">") { isCondition = true }
      if word.is("|"), index + 1 < words.endIndex, words[index + 1].is("|") { isText = true }
      if word.is("+") || word.is("-") || word.is("*") || word.is("/") || word.is("%") { isNumber = true }
      if word.is(".") { hasPoint = true }
    }
    if isCondition { return "INTEGER" }
    if isText { return "TEXT" }
    if isNumber { return "NUMERIC" }
    // A number with a point consists of three tokens.
    return hasPoint && words.allSatisfy { $0.isNumber || $0.is(".") } ? "REAL" : nil
  }

  private static func closes(_ words: ArraySlice<Word>) -> Int? {
    var depth = 0
    for (index, word) in zip(words.indices, words) {
      if word.is("(") { depth += 1 }
      if word.is(")") { depth -= 1 }
      if depth == 0 { return index }
    }
    return nil
  }
}
