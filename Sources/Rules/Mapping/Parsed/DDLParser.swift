import Changes

/// Parses names, types and expressions of DDL, and throws for all other text.
///
/// The caller prints the parsed tokens (``printed(_:)``). For PostgreSQL, functions are printed with `pg_catalog.`
/// before them.
struct DDLParser {
  let engine: Engine
  let tokens: [DDLToken]
  var at = 0
  var depth = 0
  private var qualified: Set<Int> = []
  /// For each token that is printed differently, by its index: the text to print instead, empty to print nothing.
  private var replaced: [Int: String] = [:]
  /// The columns that the parsed expressions name; for SQLite in lower case.
  private(set) var columns: Set<NameKey> = []

  /// The maximum size of the parsed expression's value, counted in column values: 3 for `a || b || a`.
  private(set) var weight = 0
  private var operandWeight = 0
  private(set) var expressionWeight = 0
  /// The size of the operands before the first operator such as `@>`, which compares every part of two values; nil if
  /// there is none.
  private var pairWeight: Int?
  /// The maximum size of each generated column's value, counted in values of other columns, by name.
  var weights: [NameKey: Int] = [:]

  /// The total size of all CHECKs parsed so far, counted in column values.
  var checkWeight = 0

  /// The number of operands of all expressions parsed so far, without those that were left out.
  private var operandCount = 0

  /// The objects of the target that the DDL may name.
  var reach = TargetReach()

  static let depthMax = 200
  /// The largest allowed size of an expression's value, counted in column values.
  static let weightMax = 64
  /// The largest allowed total size of a table's CHECKs, counted in column values.
  static let checkWeightMax = 1024
  /// The largest allowed number of operands in all expressions of a text. Each takes over 100 bytes in SQLite.
  static let operandsMax = 5000

  init(_ text: String, _ engine: Engine) throws(Unparsed) {
    self.engine = engine
    tokens = try DDLTokenizer.tokens(text, engine)
  }

  mutating func add(_ more: Int) throws(Unparsed) {
    weight += more
    guard weight <= Self.weightMax else {
      throw Unparsed("its value can be more than \(Self.weightMax) times as large as a column")
    }
  }

  /// Adds the growth of ``weight`` since `start` once more, for a function that can double the size of a value.
  mutating func double(since start: Int) throws(Unparsed) { try add(max(1, weight - start)) }

  /// Counts the last operand twice in the size of the expression.
  mutating func doubleOperand() throws(Unparsed) {
    // A literal can be as large as the text of the table allows.
    if weight > operandWeight { try double(since: operandWeight) }
  }

  mutating func forgetColumns(but names: [String] = []) {
    columns = Set(names.map { $0.key(in: engine) })
  }

  // MARK: Expressions that may be left out

  /// Reads `(expression)`. Returns true if the parser knows everything in the expression.
  ///
  /// Otherwise skips the expression, adds a notice that `what` is left out, and returns false.
  mutating func parenthesized(_ what: String, _ notices: inout [String]) throws(Unparsed) -> Bool {
    let open = self
    do throws(Unparsed) {
      try expect(symbol: "(")
      try expression()
      try expect(symbol: ")")
      return true
    } catch {
      self = open
      try skipParentheses()
      notices.append("\(what) is left out: \(error.reason)")
      return false
    }
  }

  /// Reads the `(expression)` of a CHECK. Returns true if the CHECK can be kept.
  ///
  /// Otherwise adds a notice that `what` is left out, and returns false. The reason is an unknown part of the
  /// expression, or a ``checkWeight`` above ``checkWeightMax``.
  mutating func check(_ what: String, _ notices: inout [String]) throws(Unparsed) -> Bool {
    guard try parenthesized(what, &notices) else { return false }
    let sum = checkWeight + max(1, weight)
    guard sum <= Self.checkWeightMax else {
      notices.append("\(what) is left out: all of them name columns more than \(Self.checkWeightMax) times")
      return false
    }
    checkWeight = sum
    return true
  }

  // MARK: Tokens

  var isAtEnd: Bool { at >= tokens.count }
  func word(_ ahead: Int = 0) -> String { at + ahead < tokens.count ? tokens[at + ahead].word : "" }
  func isSymbol(_ symbol: String, _ ahead: Int = 0) -> Bool {
    at + ahead < tokens.count && tokens[at + ahead].kind == .symbol(symbol)
  }
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
  mutating func expect(_ words: String...) throws(Unparsed) {
    for word in words where !take(word) { throw misunderstood }
  }
  mutating func expect(symbol: String) throws(Unparsed) { if !take(symbol: symbol) { throw misunderstood } }
  func expectEnd() throws(Unparsed) { if !isAtEnd { throw misunderstood } }

  var misunderstood: Unparsed {
    guard at < tokens.count else { return Unparsed("it ends before it is whole") }
    return Unparsed("\(tokens[at].printed.prefix(40)) is not understood where it is")
  }

  /// Returns the tokens as text, without the space before the first.
  func printed(_ range: Range<Int>) -> String {
    range.map { index in
      (index == range.lowerBound ? "" : tokens[index].space) + (qualified.contains(index) ? "pg_catalog." : "")
        + (replaced[index] ?? tokens[index].printed)
    }.joined()
  }

  /// Makes the tokens in `range` print as `name`, if `isOther` is true.
  mutating func print(_ name: String, at range: Range<Int>, insteadOf isOther: Bool) {
    guard isOther else { return }
    for index in range { replaced[index] = index == range.lowerBound ? name : "" }
  }

  /// Runs `body`, and returns the printed text of the tokens that `body` has read.
  mutating func text(_ body: (inout DDLParser) throws(Unparsed) -> Void) throws(Unparsed) -> String {
    let start = at
    try body(&self)
    return printed(start..<at)
  }

  // MARK: Names

  /// Reads a name, quoted or bare. For SQLite, a text literal is also a name.
  @discardableResult mutating func name() throws(Unparsed) -> String {
    if engine == .sqlite, at < tokens.count, case .string(let text) = tokens[at].kind {
      at += 1
      return text
    }
    guard at < tokens.count, let name = tokens[at].name else { throw misunderstood }
    at += 1
    return engine == .postgres && !tokens[at - 1].word.isEmpty ? name.asciiLowercased : name
  }

  /// Reads PostgreSQL's `schema.name`; the schema is empty if there is none.
  mutating func qualifiedName() throws(Unparsed) -> (namespace: String, name: String) {
    let first = try name()
    guard take(symbol: ".") else { return ("", first) }
    return (first, try name())
  }

  /// Reads the columns of a key, such as `(a, b)`, and adds them to ``columns``.
  mutating func keyColumns() throws(Unparsed) {
    for name in try names() { columns.insert(name.key(in: engine)) }
  }

  /// Reads a list of names, such as `(a, b)`.
  @discardableResult mutating func names() throws(Unparsed) -> [String] {
    try expect(symbol: "(")
    var names = [try name()]
    while take(symbol: ",") { names.append(try name()) }
    try expect(symbol: ")")
    return names
  }

  mutating func signedNumber() throws(Unparsed) {
    if !take(symbol: "-") { _ = take(symbol: "+") }
    guard at < tokens.count, case .number = tokens[at].kind else { throw misunderstood }
    at += 1
  }

  mutating func skipParentheses() throws(Unparsed) {
    try expect(symbol: "(")
    var open = 1
    while open > 0 {
      guard at < tokens.count else { throw misunderstood }
      if isSymbol("(") { open += 1 }
      if isSymbol(")") { open -= 1 }
      at += 1
    }
  }

  // MARK: Expressions

  /// Reads an expression: operands with operators between them, without regard to precedence.
  mutating func expression() throws(Unparsed) {
    if depth == 0 { weight = 0 }
    depth += 1
    defer { depth -= 1 }
    guard depth <= Self.depthMax else { throw Unparsed("it is nested too deep") }
    let outer = (expressionWeight, pairWeight)
    (expressionWeight, pairWeight) = (weight, nil)
    defer { (expressionWeight, pairWeight) = outer }
    try operand()
    while try engine == .sqlite ? sqliteOperator() : postgresOperator() {}
    if let pairWeight, weight > pairWeight { throw Self.comparesAll }
  }

  static let comparesAll = Unparsed("it compares every part of one value with every part of another")

  /// Marks the current expression as one that compares every part of one operand with every part of another.
  mutating func notePairs() { if weight > expressionWeight, pairWeight == nil { pairWeight = weight } }

  mutating func expressions() throws(Unparsed) {
    try expression()
    while take(symbol: ",") { try expression() }
  }

  mutating func operand() throws(Unparsed) {
    operandCount += 1
    guard operandCount <= Self.operandsMax else { throw Unparsed("it has more than \(Self.operandsMax) parts") }
    depth += 1
    defer { depth -= 1 }
    guard depth <= Self.depthMax else { throw Unparsed("it is nested too deep") }
    let before = weight
    defer { operandWeight = before }
    while take("NOT") || takeSign() {}
    guard at < tokens.count else { throw misunderstood }
    switch tokens[at].kind {
    case .string, .escaped, .digits, .number: at += 1
    case .symbol("("):
      at += 1
      try expressions()
      try expect(symbol: ")")
    case .word("CASE", _): try conditional()
    case .word("CAST", _) where isSymbol("(", 1):
      at += 2
      try expression()
      if weight > before { try double(since: before) }
      try expect("AS")
      try castType()
      try expect(symbol: ")")
    case .word(let word, _):
      if engine == .postgres, try postgresSyntax(word) { return }
      guard !refused.contains(word) else { throw misunderstood }
      try nameOrCall()
    case .name: try nameOrCall()
    default: throw misunderstood
    }
  }

  private mutating func takeSign() -> Bool {
    take(symbol: "-") || take(symbol: "+") || take(symbol: "~")
      || (engine == .postgres && (take(symbol: "@") || take(symbol: "|/") || take(symbol: "||/")))
  }

  private mutating func conditional() throws(Unparsed) {
    try expect("CASE")
    if word() != "WHEN" { try expression() }
    repeat {
      try expect("WHEN")
      try expression()
      try expect("THEN")
      try expression()
    } while word() == "WHEN"
    if take("ELSE") { try expression() }
    try expect("END")
  }

  private mutating func nameOrCall() throws(Unparsed) {
    let first = at
    guard let name = tokens[at].name else { throw misunderstood }
    at += 1
    if isSymbol("(") { return try call(name.asciiLowercased, first) }
    if engine == .postgres, isSymbol("."), name == "pg_catalog", let function = tokens.dropFirst(at + 1).first?.name,
      isSymbol("(", 2)
    {
      at += 2
      return try call(function.asciiLowercased, nil)
    }
    columns.insert(name.key(in: engine))
    var last = name
    while take(symbol: ".") {
      last = try self.name()
      columns.insert(last.key(in: engine))
    }
    try add(weights[last.key(in: engine)] ?? 1)
    if isSymbol("(") { throw Unparsed("\(printed(first..<at))() is not a known function") }
  }

  /// Reads the arguments of a function call.
  /// - Parameter first: The token before which `pg_catalog.` is printed; nil if the call has a schema.
  private mutating func call(_ name: String, _ first: Int?) throws(Unparsed) {
    let isKnown = engine == .sqlite ? KnownFunctions.sqlite.contains(name) : KnownFunctions.postgres.contains(name)
    guard isKnown else { throw Unparsed("\(name)() is not a known function") }
    if engine == .postgres, reach.lacks(name) { throw Unparsed("the target has no function \(name)()") }
    if engine == .postgres, let first, !KnownFunctions.postgresSyntax.contains(name) { qualified.insert(first) }
    try expect(symbol: "(")
    if name == "nextval" { return try sequence() }
    if take(symbol: ")") { return }
    let before = weight
    var arguments: [Range<Int>] = []
    // Arguments that name columns.
    var naming = 0
    repeat {
      let (start, was) = (at, weight)
      try expression()
      arguments.append(start..<at)
      if weight > was { naming += 1 }
    } while take(symbol: ",")
    try expect(symbol: ")")
    if naming > 1, KnownFunctions.searching.contains(name) { throw Self.comparesAll }
    if let (place, kind) = KnownFunctions.matching[name] {
      guard arguments.count > place, case .string(let text)? = literal(arguments[place]) else {
        throw Unparsed("the pattern of \(name)() is no literal")
      }
      try Self.check(kind, text)
    }
    if engine == .postgres, name == "substring" { try checkSubstring(arguments) }
    if KnownFunctions.enlarging.contains(name) { try double(since: before) }
    if KnownFunctions.making.contains(name) { try add(1) }
    guard isBounded(name, arguments) else {
      throw Unparsed("\(name)() can make a value that is much larger than a column")
    }
  }

  /// Reads the argument of nextval() and the parenthesis after it: `'sales.orders_id_seq'::regclass)`.
  private mutating func sequence() throws(Unparsed) {
    guard at < tokens.count, case .string(let text) = tokens[at].kind else {
      throw Unparsed("the sequence of nextval() is no literal")
    }
    at += 1
    if take(symbol: "::") { try expect("REGCLASS") }
    try expect(symbol: ")")
    var parser = try DDLParser(text, .postgres)
    let name = try parser.ownName()
    try parser.expectEnd()
    guard !name.namespace.isEmpty else { throw Unparsed("the sequence \(text.prefix(40)) has no schema") }
    try checkReach(of: name)
  }

  func checkReach(of sequence: (namespace: String, name: String)) throws(Unparsed) {
    guard !reach.includes(sequence: sequence) else { return }
    throw Unparsed(
      "the sequence \(sequence.namespace).\(sequence.name) belongs to no table that 'tables' of the apply includes")
  }

  /// Returns whether constant arguments of a function call limit the size of the function's value.
  private func isBounded(_ name: String, _ arguments: [Range<Int>]) -> Bool {
    if let place = KnownFunctions.counted[name] {
      guard arguments.count > place, case .number(let text)? = literal(arguments[place]) else { return false }
      return Int(text).map { $0 <= KnownFunctions.bytesMax } ?? false
    }
    // The separator is repeated between all other arguments.
    if name == "concat_ws" { return arguments.first.flatMap(literal) != nil }
    guard KnownFunctions.replacing.contains(name) else { return true }
    guard arguments.count > 2, case .string(let new)? = literal(arguments[2]) else { return false }
    // A pattern can be found between any two letters.
    if name == "regexp_replace" { return new.isEmpty }
    guard case .string(let old)? = literal(arguments[1]) else { return false }
    return new.utf8.count <= old.utf8.count
  }

  /// Returns the literal if an argument is only a literal, with or without a cast; otherwise nil.
  func literal(_ range: Range<Int>) -> DDLToken.Kind? {
    guard let first = range.first else { return nil }
    guard range.count == 1 || (range.count == 3 && tokens[first + 1].kind == .symbol("::")) else { return nil }
    switch tokens[first].kind {
    case .string, .number: return tokens[first].kind
    default: return nil
    }
  }

  /// The words that cannot begin an operand without quotes.
  private var refused: Set<NameKey> { engine == .sqlite ? Self.refusedBySQLite : Self.refusedByPostgres }

  private static let refusedByPostgres: Set<NameKey> = [
    "ALL", "AND", "ANY", "AS", "ASC", "CHECK", "COLLATE", "CONSTRAINT", "CREATE", "DEFAULT", "DEFERRABLE", "DESC",
    "DISTINCT", "DO", "ELSE", "END", "EXCEPT", "FOR", "FOREIGN", "FROM", "GRANT", "GROUP", "HAVING", "IN", "INTERSECT",
    "INTO", "IS", "LIMIT", "OFFSET", "ON", "OR", "ORDER", "PRIMARY", "REFERENCES", "RETURNING", "SELECT", "SOME",
    "TABLE",
    "THEN", "TO", "UNION", "UNIQUE", "USING", "WHEN", "WHERE", "WINDOW", "WITH",
  ]
}
