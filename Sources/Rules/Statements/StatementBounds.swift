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
  /// The maximum number of arguments of a call.
  private static let argumentsMax = 127
  /// The maximum length of one parameter, in bytes.
  private static let parameterBytesMax = 256 << 10
  /// The maximum length of all values that a statement mentions, in bytes. A value counts once for each mention.
  static let mentionedBytesMax = 8 << 20
  static let tooManyBytes = Unreplayable(
    "its values have more than \(mentionedBytesMax >> 20) MiB where it mentions them")
  /// The maximum length of the parts of a table's definition that are read for one statement, in bytes.
  private static let definitionBytesMax = 512 << 10
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

  /// Throws if a parameter is long, or if all mentions of parameters in the statement are long together.
  static func check(_ parameters: [Value], in tokens: [Token]) throws(Unreplayable) {
    let lengths = parameters.map(\.byteCount)
    guard lengths.allSatisfy({ $0 <= parameterBytesMax }) else {
      throw Unreplayable("a parameter has more than \(parameterBytesMax >> 10) KiB")
    }
    var mentioned = 0
    for token in tokens {
      guard case .parameter(let number) = token.kind, lengths.indices.contains(number - 1) else { continue }
      mentioned += lengths[number - 1]
    }
    guard mentioned <= mentionedBytesMax else { throw tooManyBytes }
  }

  /// Throws for a call with more than `argumentsMax` arguments.
  static func check(argumentCount: Int) throws(Unreplayable) {
    guard argumentCount <= argumentsMax else { throw Unreplayable("a call has more than \(argumentsMax) arguments") }
  }

  /// Throws if the DEFAULT clauses of the columns that an INSERT leaves out are long together.
  static func check(defaultBytes: Int) throws(Unreplayable) {
    guard defaultBytes <= definitionBytesMax else {
      throw Unreplayable("the defaults of its table have more than \(definitionBytesMax >> 10) KiB")
    }
  }

  /// Returns whether the definitions of a table's indexes and triggers are too long to be read for each statement.
  static func areLong(_ definitions: [String]) -> Bool {
    var bytes = 0
    return definitions.contains { definition in
      bytes += definition.utf8.count
      return bytes > definitionBytesMax
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
    case .text(let bytes), .exact(let bytes), .blob(let bytes): bytes.count
    case nil: .max
    default: 32
    }
  }
}
