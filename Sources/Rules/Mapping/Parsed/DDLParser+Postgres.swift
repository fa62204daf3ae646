import Changes

// Grammar that only PostgreSQL has.
//
// Source: https://www.postgresql.org/docs/15/sql-expressions.html, https://www.postgresql.org/docs/15/datatype.html
extension DDLParser {
  /// Reads an operator and its right operand. Returns false if no operator follows. Only operators of `pg_catalog` are
  /// accepted.
  mutating func postgresOperator() throws(Unparsed) -> Bool {
    guard at < tokens.count else { return false }
    if case .symbol(let symbol) = tokens[at].kind {
      switch symbol {
      case "::":
        at += 1
        try castType()
        try doubleOperand()
        return true
      case "[":
        at += 1
        if !isSymbol(":") { try expression() }
        if take(symbol: ":"), !isSymbol("]") { try expression() }
        try expect(symbol: "]")
        return true
      case ".": throw Unparsed("it selects a field, by which PostgreSQL also calls functions")
      case "(", ")", "]", ",", ";", ":": return false
      default:
        at += 1
        try operation(symbol)
        return true
      }
    }
    let isNot = word() == "NOT"
    switch word(isNot ? 1 : 0) {
    case "AND" where !isNot, "OR" where !isNot:
      at += 1
      try operand()
    case "ISNULL" where !isNot, "NOTNULL" where !isNot: at += 1
    case "IS" where !isNot: try test()
    case "COLLATE" where !isNot:
      at += 1
      _ = try qualifiedName()
    case "AT" where !isNot:
      try expect("AT", "TIME", "ZONE")
      try operand()
    case "BETWEEN":
      at += isNot ? 2 : 1
      _ = take("SYMMETRIC")
      try operand()
    case "LIKE", "ILIKE":
      at += isNot ? 2 : 1
      try quantified(.like)
    case "SIMILAR": throw Unparsed("SIMILAR TO is not known")
    case "ESCAPE" where !isNot:
      at += 1
      try operand()
    case "IN":
      at += isNot ? 2 : 1
      try expect(symbol: "(")
      try expressions()
      try expect(symbol: ")")
    case "OPERATOR" where !isNot:
      try expect("OPERATOR")
      try expect(symbol: "(")
      guard try name() == "pg_catalog", take(symbol: "."), at < tokens.count,
        case .symbol(let symbol) = tokens[at].kind, isSymbol(")", 1)
      else { throw Unparsed("it has an operator that is not built in") }
      at += 2
      try operation(symbol)
    default: return false
    }
    return true
  }

  /// Operators whose time grows linearly with their operands. `@?` and `@@` are excluded, because a jsonpath can take
  /// longer.
  ///
  /// Source: https://www.postgresql.org/docs/15/functions.html
  private static let linear: Set<NameKey> = [
    "=", "<>", "!=", "<", ">", "<=", ">=", "+", "-", "*", "/", "%", "^", "||", "&", "|", "#", "<<", ">>", "<<=", ">>=",
    "->", "->>", "#>", "#>>", "#-", "?", "-|-", "&<", "&>", "^@", "~<~", "~<=~", "~>=~", "~>~",
  ]
  /// Operators that compare every part of one operand with every part of the other.
  private static let pairwise: Set<NameKey> = ["@>", "<@", "&&", "?|", "?&"]

  private mutating func operation(_ symbol: String) throws(Unparsed) {
    switch symbol {
    case "~~", "!~~", "~~*", "!~~*": return try quantified(.like)
    case "~", "!~", "~*", "!~*": return try quantified(.regular)
    case "^": try add(1)
    default:
      if Self.pairwise.contains(symbol) {
        notePairs()
      } else if !Self.linear.contains(symbol) {
        throw Unparsed("the operator \(symbol.prefix(40)) is not known")
      }
    }
    try quantified()
  }

  /// Reads an operand: `x`, or `ANY (x)`.
  private mutating func quantified(_ kind: PatternKind? = nil) throws(Unparsed) {
    guard take("ANY") || take("ALL") || take("SOME") else {
      if let kind { return try pattern(kind) }
      return try operand()
    }
    try expect(symbol: "(")
    if let kind { try pattern(kind) } else { try expression() }
    try expect(symbol: ")")
  }

  private mutating func test() throws(Unparsed) {
    try expect("IS")
    _ = take("NOT")
    if take("DISTINCT") {
      try expect("FROM")
      return try operand()
    }
    if take("DOCUMENT") || take("NULL") || take("TRUE") || take("FALSE") || take("UNKNOWN") || take("NORMALIZED") {
      return
    }
    guard ["NFC", "NFD", "NFKC", "NFKD"].contains(word()), word(1) == "NORMALIZED" else { throw misunderstood }
    at += 2
  }

  /// Reads an expression with a special syntax, such as `ARRAY[…]`, `ROW(…)` or `EXTRACT(… FROM …)`. Returns false for
  /// a plain name or function call.
  mutating func postgresSyntax(_ word: String) throws(Unparsed) -> Bool {
    switch word {
    case "ARRAY" where isSymbol("[", 1):
      at += 1
      try array()
    case "ROW" where isSymbol("(", 1):
      at += 2
      if take(symbol: ")") { return true }
      try expressions()
      try expect(symbol: ")")
    case "CURRENT_TIME", "CURRENT_TIMESTAMP", "LOCALTIME", "LOCALTIMESTAMP":
      at += 1
      if take(symbol: "(") {
        try signedNumber()
        try expect(symbol: ")")
      }
    case "EXTRACT" where isSymbol("(", 1):
      at += 2
      try fieldName()
      try expect("FROM")
      try expression()
      try expect(symbol: ")")
    case "POSITION" where isSymbol("(", 1):
      at += 2
      let before = weight
      try operand()
      while word0IsNotIn, try postgresOperator() {}
      let isOfColumns = weight > before
      try expect("IN")
      let middle = weight
      try expression()
      if isOfColumns, weight > middle { throw Self.comparesAll }
      try expect(symbol: ")")
    case "SUBSTRING" where isSymbol("(", 1), "OVERLAY" where isSymbol("(", 1), "TRIM" where isSymbol("(", 1):
      try clauses(of: word)
    default: return false
    }
    return true
  }

  /// Reads the arguments of a function with its own clauses: `SUBSTRING(a FROM 1 FOR 2)`, `TRIM(BOTH 'x' FROM a)`.
  private mutating func clauses(of function: String) throws(Unparsed) {
    at += 2
    if !take("BOTH"), !take("LEADING") { _ = take("TRAILING") }
    var arguments: [Range<Int>] = []
    var naming = 0
    var hasMore = word() != "FROM" || take("FROM")
    while hasMore {
      let (start, was) = (at, weight)
      try expression()
      arguments.append(start..<at)
      if weight > was { naming += 1 }
      hasMore = take("FROM") || take("FOR") || take("PLACING") || take(symbol: ",")
    }
    try expect(symbol: ")")
    if function == "TRIM", naming > 1 { throw Self.comparesAll }
    if function == "SUBSTRING" { try checkSubstring(arguments) }
  }

  private var word0IsNotIn: Bool { word() != "IN" }

  private mutating func fieldName() throws(Unparsed) {
    if at < tokens.count, case .string = tokens[at].kind {
      at += 1
    } else {
      try name()
    }
  }

  private mutating func array() throws(Unparsed) {
    depth += 1
    defer { depth -= 1 }
    guard depth <= Self.depthMax else { throw Unparsed("it is nested too deep") }
    try expect(symbol: "[")
    if take(symbol: "]") { return }
    repeat { isSymbol("[") ? try array() : try expression() } while take(symbol: ",")
    try expect(symbol: "]")
  }

  // MARK: Types

  /// Reads the type after CAST. Throws for types such as `regclass`, whose literals name objects of the database.
  mutating func castType() throws(Unparsed) {
    let start = at
    try type()
    guard engine == .postgres else { return }
    let objects: Set<NameKey> = [
      "REGCLASS", "REGCOLLATION", "REGNAMESPACE", "REGOPER", "REGOPERATOR", "REGPROC", "REGPROCEDURE", "REGROLE",
      "REGTYPE",
    ]
    for token in tokens[start..<at] where objects.contains(token.name?.asciiUppercased ?? "") {
      throw Unparsed("it names another object of the database")
    }
  }

  mutating func type() throws(Unparsed) {
    if engine == .postgres { return try postgresType() }
    let start = at
    try sqliteType()
    if at == start { throw misunderstood }
  }

  /// Reads a built-in type, or a type with a schema: `numeric(10,2)`, `timestamp(3) without time zone`, `sales.mood[]`.
  mutating func postgresType() throws(Unparsed) {
    let start = at
    if isSymbol(".", 1) {
      let name = try qualifiedName()
      guard !name.namespace.isEmpty, !name.name.isEmpty else { throw misunderstood }
      try typeNumbers()
    } else {
      try builtInType(start)
    }
    while take(symbol: "[") {
      if !take(symbol: "]") {
        try signedNumber()
        try expect(symbol: "]")
      }
    }
  }

  private mutating func builtInType(_ start: Int) throws(Unparsed) {
    let name = try name()
    guard Self.types.contains(name) else { throw Unparsed("\(name.prefix(40)) is not a known type") }
    guard !tokens[start].word.isEmpty else { return try typeNumbers(isPadded: ["bit", "bpchar"].contains(name)) }
    switch name {
    case "double": try expect("PRECISION")
    case "character", "char", "bit", "national":
      try typeNumbers(isPadded: !take("VARYING"))
    case "time", "timestamp":
      try typeNumbers()
      if take("WITH") || take("WITHOUT") { try expect("TIME", "ZONE") }
    case "interval":
      let fields: Set<NameKey> = ["YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND"]
      if fields.contains(word()) {
        at += 1
        if take("TO") {
          guard fields.contains(word()) else { throw misunderstood }
          at += 1
        }
      }
      try typeNumbers()
    default: try typeNumbers(isPadded: name == "bpchar")
    }
  }

  /// The largest n in `character(n)` and `bit(n)`. PostgreSQL stores n characters or bits in each row.
  private static let paddedMax = 65_536

  private mutating func typeNumbers(isPadded: Bool = false) throws(Unparsed) {
    guard take(symbol: "(") else { return }
    if isPadded, at < tokens.count, case .number(let text) = tokens[at].kind,
      Int(text).map({ $0 > Self.paddedMax }) ?? true
    {
      throw Unparsed("a type is filled up to \(text.prefix(20)) characters")
    }
    repeat {
      // PostGIS: geometry(Point,4326).
      if !word().isEmpty { try name() } else { try signedNumber() }
    } while take(symbol: ",")
    try expect(symbol: ")")
  }

  private static let types = Set(
    """
    aclitem bigint bit bool boolean box bpchar bytea char character cid cidr circle date datemultirange daterange dec
    decimal double float4 float8 inet int int2 int2vector int4 int4multirange int4range int8 int8multirange int8range
    integer interval json jsonb jsonpath line lseg macaddr macaddr8 money name numeric nummultirange numrange oid
    oidvector path pg_lsn pg_snapshot point polygon real regclass regcollation regconfig regdictionary regnamespace
    regoper regoperator regproc regprocedure regrole regtype smallint text tid time timestamp timestamptz timetz
    tsmultirange tsquery tsrange tstzmultirange tstzrange tsvector txid_snapshot uuid varbit varchar xid xid8 xml
    """.split(whereSeparator: \.isWhitespace).map(String.init))

  // MARK: Names

  /// Returns whether a schema belongs to PostgreSQL or to Cairn, so that replicated DDL may create nothing in it.
  static func isReserved(_ namespace: String) -> Bool {
    let name = namespace.asciiLowercased
    return name == "cairn" || name == "information_schema" || name.utf8.starts(with: "pg_".utf8)
      || name.utf8.starts(with: "cairn_".utf8)
  }

  /// Reads the name of a type, sequence or table that a script creates. Throws for a reserved schema.
  mutating func ownName() throws(Unparsed) -> (namespace: String, name: String) {
    let name = try qualifiedName()
    guard !Self.isReserved(name.namespace) else { throw Unparsed("the schema \(name.namespace) is reserved") }
    return name
  }
}
