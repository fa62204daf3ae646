import Changes
import Mapping

// Expressions, by the precedence that SQLite gives its operators.
//
// Source: https://sqlite.org/lang_expr.html
extension StatementParser {
  mutating func expression() throws(Unreplayable) -> Expression {
    let expression = try nested { parser throws(Unreplayable) in try parser.disjunction() }
    try StatementBounds.check(depth: expression)
    return expression
  }

  private mutating func disjunction() throws(Unreplayable) -> Expression {
    var left = try conjunction()
    while take("OR") { left = .binary(.or, left, try conjunction()) }
    return left
  }

  private mutating func conjunction() throws(Unreplayable) -> Expression {
    var left = try negation()
    while take("AND") { left = .binary(.and, left, try negation()) }
    return left
  }

  private mutating func negation() throws(Unreplayable) -> Expression {
    guard take("NOT") else { return try equality() }
    return try nested { parser throws(Unreplayable) in .unary(.not, try parser.negation()) }
  }

  private mutating func equality() throws(Unreplayable) -> Expression {
    var left = try comparison()
    while true {
      if take(symbol: "=") || take(symbol: "==") {
        left = .binary(.equal, left, try comparison())
      } else if take(symbol: "<>") || take(symbol: "!=") {
        left = .binary(.unequal, left, try comparison())
      } else if take("ISNULL") {
        left = .isNull(left, isNot: false)
      } else if take("NOTNULL") || take("NOT", "NULL") {
        left = .isNull(left, isNot: true)
      } else if take("IS") {
        var isNot = take("NOT")
        if take("DISTINCT") {
          try expect("FROM")
          isNot.toggle()
        }
        let from = at
        let right = try comparison()
        if tokens[from..<at].contains(where: \.isTruth) { throw Unreplayable("IS TRUE and IS FALSE are not replayed") }
        left = right == .literal(.null) ? .isNull(left, isNot: isNot) : .binary(isNot ? .notSame : .same, left, right)
      } else if let tested = try test(left) {
        left = tested
      } else {
        return left
      }
    }
  }

  /// Reads [NOT] BETWEEN, IN, LIKE or GLOB; nil if none of them follows.
  private mutating func test(_ left: Expression) throws(Unreplayable) -> Expression? {
    let isNot = word() == "NOT"
    switch word(isNot ? 1 : 0) {
    case "BETWEEN":
      at += isNot ? 2 : 1
      let low = try comparison()
      try expect("AND")
      return .between(left, low, try comparison(), isNot: isNot)
    case "LIKE":
      at += isNot ? 2 : 1
      let pattern = try comparison()
      return .like(left, pattern: pattern, escape: take("ESCAPE") ? try comparison() : nil, isNot: isNot)
    case "GLOB":
      at += isNot ? 2 : 1
      return .glob(left, pattern: try comparison(), isNot: isNot)
    case "IN":
      at += isNot ? 2 : 1
      guard take(symbol: "(") else { throw Unreplayable("IN is followed by a table") }
      if Self.queries.contains(word()) { throw .query }
      if take(symbol: ")") { return .inList(left, [], isNot: isNot) }
      let all = try list { parser throws(Unreplayable) in try parser.expression() }
      try expect(symbol: ")")
      return .inList(left, all, isNot: isNot)
    case "MATCH", "REGEXP": throw Unreplayable("MATCH and REGEXP are functions of the program")
    default: return nil
    }
  }

  private mutating func comparison() throws(Unreplayable) -> Expression {
    var left = try bits()
    while let operation = takeOperator([
      "<": .less, "<=": .lessOrEqual, ">": .greater, ">=": .greaterOrEqual,
    ]) {
      left = .binary(operation, left, try bits())
    }
    return left
  }

  private mutating func bits() throws(Unreplayable) -> Expression {
    var left = try sum()
    while let operation = takeOperator(["&": .bitAnd, "|": .bitOr, "<<": .shiftLeft, ">>": .shiftRight]) {
      left = .binary(operation, left, try sum())
    }
    return left
  }

  private mutating func sum() throws(Unreplayable) -> Expression {
    var left = try product()
    while let operation = takeOperator(["+": .add, "-": .subtract]) { left = .binary(operation, left, try product()) }
    return left
  }

  private mutating func product() throws(Unreplayable) -> Expression {
    var left = try concatenation()
    while let operation = takeOperator(["*": .multiply, "/": .divide, "%": .remainder]) {
      left = .binary(operation, left, try concatenation())
    }
    return left
  }

  private mutating func concatenation() throws(Unreplayable) -> Expression {
    var left = try collated()
    while take(symbol: "||") { left = .binary(.concatenate, left, try collated()) }
    if isSymbol("->") || isSymbol("->>") { throw Unreplayable("-> is not replayed") }
    return left
  }

  private mutating func takeOperator(_ known: [NameKey: Expression.Binary]) -> Expression.Binary? {
    guard case .symbol(let symbol)? = kind, let operation = known[symbol] else { return nil }
    at += 1
    return operation
  }

  private mutating func collated() throws(Unreplayable) -> Expression {
    var value = try signed()
    while take("COLLATE") { value = .collate(value, try name()) }
    return value
  }

  private mutating func signed() throws(Unreplayable) -> Expression {
    for sign in [Expression.Unary.minus, .plus, .complement] where take(symbol: sign.rawValue) {
      let value = try nested { parser throws(Unreplayable) in try parser.signed() }
      switch (sign, value) {
      case (.minus, .literal(.integer(let number))) where number != .min: return .literal(.integer(-number))
      case (.minus, .literal(.real(let number))):
        // The least integer: its digits alone, without the sign, are out of range.
        return .literal(number == 0x1p63 && isWholeInteger(at - 1) ? .integer(.min) : .real(-number))
      default: return .unary(sign, value)
      }
    }
    return try primary()
  }

  /// Returns whether a number token with the value 2^63 is written as digits only, without a point or an exponent.
  private func isWholeInteger(_ index: Int) -> Bool { tokens[index].range.count == 19 }

  private mutating func primary() throws(Unreplayable) -> Expression {
    guard let kind else { throw misunderstood }
    switch kind {
    case .integer(let number): return literal(.integer(number))
    case .real(let number): return literal(.real(number))
    case .string(let text): return literal(.text(text))
    case .blob(let bytes): return literal(.blob(bytes))
    case .parameter(let number):
      at += 1
      return .parameter(number)
    case .symbol("("):
      at += 1
      if Self.queries.contains(word()) { throw .query }
      let value = try expression()
      if isSymbol(",") { throw Unreplayable("it compares rows of values") }
      try expect(symbol: ")")
      return value
    case .symbol, .name: return try column()
    case .word(let word, _): return try keyword(word)
    }
  }

  private mutating func literal(_ value: Value) -> Expression {
    at += 1
    return .literal(value)
  }

  private mutating func keyword(_ word: String) throws(Unreplayable) -> Expression {
    switch word {
    case "NULL": return literal(.null)
    case "TRUE" where !isSymbol(".", 1): return literal(.integer(1))
    case "FALSE" where !isSymbol(".", 1): return literal(.integer(0))
    case "CURRENT_TIMESTAMP", "CURRENT_DATE", "CURRENT_TIME":
      at += 1
      return .clock(word, tokens[at - 1].range)
    case "CASE":
      at += 1
      let value = self.word() == "WHEN" ? nil : try expression()
      var branches: [Expression.Branch] = []
      while take("WHEN") {
        let when = try expression()
        try expect("THEN")
        branches.append(.init(when: when, then: try expression()))
      }
      if branches.isEmpty { throw misunderstood }
      let otherwise = take("ELSE") ? try expression() : nil
      try expect("END")
      return .conditional(of: value, branches, otherwise: otherwise)
    case "CAST":
      at += 1
      try expect(symbol: "(")
      let value = try expression()
      try expect("AS")
      let type = try name()
      try expect(symbol: ")")
      return .cast(value, type: type.asciiUppercased)
    case "EXISTS": throw .query
    default:
      // Function names that are also keywords.
      let isFunction =
        isSymbol("(", 1) && (["REPLACE", "GLOB", "LIKE"].contains(word) || !Self.reserved.contains(word))
      return isFunction ? try call() : try column()
    }
  }

  private mutating func call() throws(Unreplayable) -> Expression {
    let from = start
    var call = Expression.Call(name: word().asciiLowercased, arguments: [])
    at += 2
    if !isSymbol(")") {
      repeat {
        let begin = start
        call.arguments.append(try expression())
        call.ranges.append(begin..<end)
        try StatementBounds.check(argumentCount: call.arguments.count)
      } while take(symbol: ",")
    }
    try expect(symbol: ")")
    call.range = from..<end
    return .function(call)
  }

  private mutating func column() throws(Unreplayable) -> Expression {
    let first = try name()
    guard take(symbol: ".") else { return .column(table: nil, name: first.nameKey) }
    let second = try name()
    guard take(symbol: ".") else { return .column(table: first.nameKey, name: second.nameKey) }
    guard first.asciiUppercased == "MAIN" else { throw Unreplayable("it names a database other than main") }
    return .column(table: second.nameKey, name: try name().nameKey)
  }
}
