import Changes

// Grammar that only SQLite has.
//
// Source: https://sqlite.org/lang_expr.html, https://sqlite.org/datatype3.html
extension DDLParser {
  private static let operators: Set<NameKey> = [
    "->>", "->", "||", "<<", ">>", "<=", ">=", "<>", "!=", "==", "+", "-", "*", "/", "%", "&", "|", "=", "<", ">",
  ]

  /// Reads an operator and its right operand. Returns false if no operator follows.
  mutating func sqliteOperator() throws(Unparsed) -> Bool {
    guard at < tokens.count else { return false }
    if case .symbol(let symbol) = tokens[at].kind {
      guard Self.operators.contains(symbol) else { return false }
      at += 1
      try operand()
      return true
    }
    let isNot = word() == "NOT"
    switch word(isNot ? 1 : 0) {
    case "AND" where !isNot, "OR" where !isNot:
      at += 1
      try operand()
    case "ISNULL" where !isNot, "NOTNULL" where !isNot: at += 1
    case "NULL" where isNot: at += 2
    case "IS" where !isNot:
      at += 1
      _ = take("NOT")
      if take("DISTINCT") { try expect("FROM") }
      try operand()
    case "COLLATE" where !isNot:
      at += 1
      try name()
    case "BETWEEN":
      at += isNot ? 2 : 1
      try operand()
    case "LIKE", "GLOB":
      at += isNot ? 2 : 1
      try pattern(word(-1) == "LIKE" ? .like : .glob)
    case "ESCAPE" where !isNot:
      at += 1
      try operand()
    case "IN":
      at += isNot ? 2 : 1
      try expect(symbol: "(")
      if !take(symbol: ")") {
        try expressions()
        try expect(symbol: ")")
      }
    case "MATCH", "REGEXP": throw Unparsed("\(word(isNot ? 1 : 0)) is a function of the program")
    default: return false
    }
    return true
  }

  /// Reads a type, such as `DECIMAL(10, 2)` or `"my type"`. The type may be empty.
  mutating func sqliteType() throws(Unparsed) {
    var count = 0
    while at < tokens.count {
      switch tokens[at].kind {
      case .word(let word, _) where !Self.afterType.contains(word): at += 1
      case .name, .string: at += 1
      default:
        guard count > 0, take(symbol: "(") else { return }
        try signedNumber()
        if take(symbol: ",") { try signedNumber() }
        return try expect(symbol: ")")
      }
      count += 1
    }
  }

  private static let afterType: Set<NameKey> = [
    "AS", "CHECK", "COLLATE", "CONSTRAINT", "DEFAULT", "GENERATED", "NOT", "NULL", "PRIMARY", "REFERENCES", "UNIQUE",
  ]

  /// The words that cannot begin an operand of SQLite without quotes.
  static let refusedBySQLite: Set<NameKey> = [
    "ADD", "ALL", "ALTER", "AND", "AS", "BETWEEN", "CHECK", "COLLATE", "COMMIT", "CONSTRAINT", "CREATE", "DEFAULT",
    "DEFERRABLE", "DELETE", "DISTINCT", "DROP", "ELSE", "ESCAPE", "EXCEPT", "EXISTS", "FOREIGN", "FROM", "GROUP",
    "HAVING", "IN", "INDEX", "INSERT", "INTERSECT", "INTO", "IS", "ISNULL", "JOIN", "LIMIT", "NOTNULL", "ON", "OR",
    "ORDER", "PRIMARY", "REFERENCES", "RETURNING", "SELECT", "SET", "TABLE", "THEN", "TO", "TRANSACTION", "UNION",
    "UNIQUE", "UPDATE", "USING", "VALUES", "WHEN", "WHERE",
  ]
}
