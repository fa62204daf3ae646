import Changes

/// Parses one statement of SQLite that writes rows. Throws for all text that is not understood.
///
/// Source: https://sqlite.org/lang.html
struct StatementParser {
  let tokens: [Token]
  var at = 0
  var depth = 0
  static let depthMax = 100

  static func parse(_ text: String, _ parameters: [Value]) throws(Unreplayable) -> WritingStatement {
    let tokens = try Tokenizer.tokens(text)
    try StatementBounds.check(tokens)
    try StatementBounds.check(parameters, in: tokens)
    var parser = StatementParser(tokens: tokens)
    return try parser.statement()
  }

  // MARK: Tokens

  var kind: Token.Kind? { at < tokens.count ? tokens[at].kind : nil }
  /// Returns the bare word that is `ahead` tokens after the current token; empty for any other token.
  func word(_ ahead: Int = 0) -> String {
    guard at + ahead < tokens.count, case .word(let word, _) = tokens[at + ahead].kind else { return "" }
    return word
  }
  func isSymbol(_ symbol: String, _ ahead: Int = 0) -> Bool {
    at + ahead < tokens.count && tokens[at + ahead].kind == .symbol(symbol)
  }
  var start: Int { at < tokens.count ? tokens[at].range.lowerBound : (tokens.last?.range.upperBound ?? 0) }
  var end: Int { at > 0 ? tokens[at - 1].range.upperBound : 0 }

  mutating func take(_ words: String...) -> Bool {
    for (ahead, wanted) in words.enumerated() where word(ahead) != wanted { return false }
    at += words.count
    return true
  }
  mutating func take(symbol: String) -> Bool {
    guard isSymbol(symbol) else { return false }
    at += 1
    return true
  }
  mutating func expect(_ word: String) throws(Unreplayable) { if !take(word) { throw misunderstood } }
  mutating func expect(symbol: String) throws(Unreplayable) { if !take(symbol: symbol) { throw misunderstood } }

  var misunderstood: Unreplayable {
    switch kind {
    case nil: Unreplayable("it ends before it is whole")
    case .word(let word, _): Unreplayable("\(word) is not understood at this place")
    case .symbol(let symbol): Unreplayable("'\(symbol)' is not understood at this place")
    default: Unreplayable("a name, number or text is not understood at this place")
    }
  }

  /// Reads a quoted or bare name. Throws for a reserved word.
  mutating func name() throws(Unreplayable) -> String {
    guard let name = nameIfAny() else { throw misunderstood }
    return name
  }
  mutating func nameIfAny() -> String? {
    switch kind {
    case .name(let name):
      at += 1
      return name
    case .word(let word, let written) where !Self.reserved.contains(word):
      at += 1
      return written
    default: return nil
    }
  }

  /// Words that are never read as a name. If a statement uses one of these words as a name, apply writes the changed
  /// rows instead of executing the statement.
  static let reserved: Set<NameKey> = [
    "ABORT", "ADD", "ALL", "ALTER", "AND", "AS", "ASC", "BETWEEN", "BY", "CASE", "CAST", "CHECK", "COLLATE", "COMMIT",
    "CONSTRAINT", "CREATE", "CROSS", "CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "DEFAULT", "DEFERRABLE",
    "DELETE", "DESC", "DISTINCT", "DO", "DROP", "ELSE", "END", "ESCAPE", "EXCEPT", "EXISTS", "FILTER", "FOREIGN",
    "FROM",
    "FULL", "GLOB", "GROUP", "HAVING", "IN", "INDEX", "INDEXED", "INNER", "INSERT", "INTERSECT", "INTO", "IS", "ISNULL",
    "JOIN", "LEFT", "LIKE", "LIMIT", "MATCH", "MATERIALIZED", "NATURAL", "NOT", "NOTHING", "NOTNULL", "NULL", "NULLS",
    "OFFSET", "ON", "OR", "ORDER", "OUTER", "OVER", "PRIMARY", "RAISE", "RECURSIVE", "REFERENCES", "REGEXP", "REPLACE",
    "RETURNING", "RIGHT", "ROLLBACK", "SELECT", "SET", "TABLE", "THEN", "TO", "TRANSACTION", "UNION", "UNIQUE",
    "UPDATE",
    "USING", "VALUES", "WHEN", "WHERE", "WINDOW", "WITH",
  ]

  /// The words with which a query begins.
  static let queries: Set<NameKey> = ["SELECT", "VALUES", "WITH"]

  /// Reads the name of a table in the main database.
  mutating func tableName() throws(Unreplayable) -> String {
    let first = try name()
    guard take(symbol: ".") else { return first }
    guard first.asciiUppercased == "MAIN" else { throw Unreplayable("it names a database other than main") }
    return try name()
  }

  mutating func list<T>(_ element: (inout StatementParser) throws(Unreplayable) -> T) throws(Unreplayable) -> [T] {
    var all = [try element(&self)]
    while take(symbol: ",") { all.append(try element(&self)) }
    return all
  }

  mutating func columnList() throws(Unreplayable) -> [String] {
    try expect(symbol: "(")
    let names = try list { parser throws(Unreplayable) in try parser.name() }
    try expect(symbol: ")")
    return names
  }

  mutating func nested<T>(_ body: (inout StatementParser) throws(Unreplayable) -> T) throws(Unreplayable) -> T {
    depth += 1
    defer { depth -= 1 }
    guard depth <= Self.depthMax else { throw Unreplayable("it is nested too deep") }
    return try body(&self)
  }

  // MARK: Statements

  private mutating func statement() throws(Unreplayable) -> WritingStatement {
    var statement: WritingStatement
    switch word() {
    case "INSERT", "REPLACE": statement = try insert()
    case "UPDATE": statement = try update()
    case "DELETE": statement = try delete()
    case "CREATE", "ALTER", "DROP": throw .schemaChange
    case "WITH": throw .query
    default: throw Unreplayable("it is no INSERT, UPDATE or DELETE")
    }
    statement.end = end
    if word() == "RETURNING" {
      let from = start
      at += 1
      repeat {
        if take(symbol: "*") { continue }
        _ = try expression()
        if take("AS") || isName { _ = try name() }
      } while take(symbol: ",")
      statement.returning = from..<end
    }
    if word() == "ORDER" || word() == "LIMIT" { throw Unreplayable("LIMIT takes some rows of many") }
    _ = take(symbol: ";")
    guard kind == nil else { throw misunderstood }
    return statement
  }

  private var isName: Bool {
    switch kind {
    case .name: true
    case .word(let word, _): !Self.reserved.contains(word)
    default: false
    }
  }

  private mutating func resolution() throws(Unreplayable) -> WritingStatement.Resolution {
    guard take("OR") else { return .abort }
    guard let resolution = WritingStatement.Resolution(rawValue: word()) else {
      throw Unreplayable("OR \(word()) may leave it partly done")
    }
    at += 1
    return resolution
  }

  private mutating func target(_ statement: inout WritingStatement) throws(Unreplayable) {
    let from = start
    statement.table = try tableName()
    statement.tableRange = from..<end
    if take("AS") { statement.alias = try name() }
    if word() == "INDEXED" || word(1) == "INDEXED" { throw Unreplayable("it names an index") }
  }

  private mutating func insert() throws(Unreplayable) -> WritingStatement {
    var statement = WritingStatement(kind: .insert, table: "")
    if take("REPLACE") {
      statement.resolution = .replace
    } else {
      try expect("INSERT")
      statement.resolution = try resolution()
    }
    try expect("INTO")
    try target(&statement)
    if isSymbol("(") { statement.columns = try columnList() }
    if word() == "DEFAULT" { throw Unreplayable("DEFAULT VALUES has the target's defaults") }
    statement.rows = try rows()
    if take("ON") {
      try expect("CONFLICT")
      var upsert = WritingStatement.Upsert()
      if isSymbol("(") { upsert.columns = try columnList() }
      if word() == "WHERE" { throw Unreplayable("its conflict is one with a part of an index") }
      try expect("DO")
      if !take("NOTHING") {
        try expect("UPDATE")
        try expect("SET")
        upsert.assignments = try assignments()
        if take("WHERE") { upsert.condition = try expression() }
        if upsert.columns.isEmpty { throw Unreplayable("it does not say which conflict it settles") }
      }
      if word() == "ON" { throw Unreplayable("it has several ON CONFLICT clauses") }
      guard statement.resolution == .abort else { throw Unreplayable("it settles conflicts in two ways") }
      statement.upsert = upsert
    }
    return statement
  }

  private mutating func rows() throws(Unreplayable) -> [[Expression]] {
    if word() == "SELECT" || word() == "WITH" { throw .query }
    try expect("VALUES")
    let rows = try list { parser throws(Unreplayable) in
      try parser.expect(symbol: "(")
      let row = try parser.list { parser throws(Unreplayable) in try parser.expression() }
      try parser.expect(symbol: ")")
      return row
    }
    guard rows.allSatisfy({ $0.count == rows[0].count }) else { throw Unreplayable("its rows are not alike") }
    return rows
  }

  private mutating func update() throws(Unreplayable) -> WritingStatement {
    try expect("UPDATE")
    var statement = WritingStatement(kind: .update, table: "")
    statement.resolution = try resolution()
    guard statement.resolution == .abort else {
      throw Unreplayable("which rows an UPDATE OR \(statement.resolution.rawValue) leaves depends on their order")
    }
    try target(&statement)
    try expect("SET")
    statement.assignments = try assignments()
    if word() == "FROM" { throw .query }
    if take("WHERE") { statement.condition = try expression() }
    return statement
  }

  private mutating func delete() throws(Unreplayable) -> WritingStatement {
    try expect("DELETE")
    try expect("FROM")
    var statement = WritingStatement(kind: .delete, table: "")
    try target(&statement)
    if take("WHERE") { statement.condition = try expression() }
    return statement
  }

  private mutating func assignments() throws(Unreplayable) -> [WritingStatement.Assignment] {
    try list { parser throws(Unreplayable) in
      if parser.isSymbol("(") { throw Unreplayable("it sets several columns from one row of values") }
      let column = try parser.name()
      try parser.expect(symbol: "=")
      return WritingStatement.Assignment(columns: [column], value: try parser.expression())
    }
  }
}
