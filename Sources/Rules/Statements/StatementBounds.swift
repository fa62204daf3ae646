import Changes

/// Refuses statements whose check or execution could take much time or memory.
///
///     try StatementBounds.check(tokens)
enum StatementBounds {
  private static let operatorsMax = 1000
  /// The maximum number of names and words in a statement.
  private static let wordsMax = 1000
  /// The maximum number of tokens in a statement.
  private static let tokensMax = 50_000
  private static let constants: Set<NameKey> = ["NULL", "TRUE", "FALSE"]
  /// The maximum number of LIKE and GLOB operators in a statement.
  private static let matchesMax = 16
  /// The maximum depth of a parsed expression, in levels.
  static let depthMax = 100
  static let tooDeep = Unreplayable("an expression has more than \(depthMax) levels")
  /// The maximum number of expressions in a statement. A slow expression counts as several.
  static let weightMax = 300_000
  /// The maximum number of `||` operators in a statement.
  private static let concatenationsMax = 8
  private static let callsMax = 500
  /// The maximum length of a pattern of LIKE or GLOB, in bytes.
  private static let patternBytesMax = 256
  /// The maximum length of the characters to remove, the second argument of `trim`, `ltrim` and `rtrim`, in bytes.
  private static let trimmedBytesMax = 16

  /// Returns the cost of an expression without its parts: 1 for most, and more for slow expressions.
  static func weight(of expression: Expression) -> Int {
    switch expression {
    case .like, .glob: 6000
    case .binary(.concatenate, _, _): 12_000
    case .function: 100
    default: 1
    }
  }

  static func check(_ tokens: [Token]) throws(Unreplayable) {
    guard tokens.count <= tokensMax else { throw Unreplayable("it has more than \(tokensMax) words and signs") }
    var (operators, words, concatenations, calls, matches) = (0, 0, 0, 0, 0)
    for (index, token) in tokens.enumerated() {
      if token.isOperator { operators += 1 }
      switch token.kind {
      case .word("LIKE", _), .word("GLOB", _):
        matches += 1
        if index + 1 < tokens.count, tokens[index + 1].kind == .symbol("(") { calls += 1 }
      case .word(let word, _) where constants.contains(word): break
      case .word, .name:
        words += 1
        if index + 1 < tokens.count, tokens[index + 1].kind == .symbol("(") { calls += 1 }
      case .symbol("||"): concatenations += 1
      default: break
      }
    }
    for (count, limit, what) in [
      (operators, operatorsMax, "operators"), (words, wordsMax, "names and words"),
      (concatenations, concatenationsMax, "concatenations"), (calls, callsMax, "calls"),
      (matches, matchesMax, "LIKE and GLOB"),
    ] where count > limit {
      throw Unreplayable("it has more than \(limit) \(what)")
    }
  }

  /// Throws for an expression with more than `depthMax` levels.
  static func check(depth expression: Expression) throws(Unreplayable) {
    guard !expression.isDeeper(than: depthMax) else { throw tooDeep }
  }

  /// Throws if the pattern is nil (not constant) or longer than `patternBytesMax`.
  static func check(pattern: Value?) throws(Unreplayable) {
    guard length(pattern) <= patternBytesMax else { throw Unreplayable("a pattern comes from a column, or is long") }
  }

  /// Throws if `trimmed`, the characters to trim, is nil (not constant) or longer than `trimmedBytesMax`.
  static func check(trimmed: Value?) throws(Unreplayable) {
    guard length(trimmed) <= trimmedBytesMax else {
      throw Unreplayable("the characters to trim come from a column, or are many")
    }
  }

  private static func length(_ value: Value?) -> Int {
    switch value {
    case .text(let bytes), .blob(let bytes): bytes.count
    case nil: .max
    default: 32
    }
  }
}
