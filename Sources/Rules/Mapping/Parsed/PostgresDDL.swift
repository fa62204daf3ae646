import Changes

/// The script that creates a table of PostgreSQL with its schemas, types and sequences, parsed and printed again.
///
/// Statements and clauses that the parser does not know are left out of ``statements``; ``notices`` has the reasons.
struct PostgresDDL {
  private(set) var statements: [String] = []
  private(set) var notices: [String] = []
  private(set) var hasTable = false

  /// The generated columns that are left out of the script. Definitions that name such a column are left out too.
  private(set) var gone: Set<NameKey> = []

  private var parser: DDLParser
  private let table: TableSchema
  private let reach: TargetReach
  /// The table's name in the script; nil until CREATE TABLE was read. It differs from the current name if the table was
  /// renamed.
  private var named: (namespace: String, name: String)?
  private var generatedWeight = 0
  private var counts = ScriptCounts()

  /// Parses the script that creates a table. Throws if the script is no list of statements.
  init(_ table: TableSchema, _ reach: TargetReach) throws(Unparsed) {
    (self.table, self.reach) = (table, reach)
    parser = try DDLParser(table.createText, .postgres)
    parser.reach = reach
    while !parser.isAtEnd {
      if parser.take(symbol: ";") { continue }
      let start = parser.at
      do throws(Unparsed) {
        statements += try statement()
        if !parser.isAtEnd { try parser.expect(symbol: ";") }
      } catch {
        parser.at = start
        let text = parser.printed(start..<min(start + 6, parser.tokens.count))
        counts.leaveOut("'\(text) …' is left out: \(error.reason)", &notices)
        while !parser.isAtEnd, !parser.isSymbol(";") { parser.at += 1 }
      }
    }
    counts.reportRest(&notices)
  }

  /// Returns the CREATE INDEX statement of `object`, with the current names of index and table. Throws for another
  /// statement, or an unknown expression.
  ///
  /// - Parameter gone: The columns that are left out of the table's definition.
  static func index(
    _ object: TableSchema.Object, on table: TableSchema, without gone: Set<NameKey> = [], _ reach: TargetReach
  ) throws(Unparsed) -> String {
    var parser = try DDLParser(object.text, .postgres)
    parser.reach = reach
    try parser.expect("CREATE")
    _ = parser.take("UNIQUE")
    try parser.expect("INDEX")
    let isOther = try parser.name() != object.name
    parser.print(object.name.quotedName, at: parser.at - 1..<parser.at, insteadOf: isOther)
    try parser.expect("ON")
    _ = parser.take("ONLY")
    let start = parser.at
    let name = try parser.qualifiedName()
    parser.print(table.qualifiedForDDL, at: start..<parser.at, insteadOf: name != (table.namespace, table.name))
    try parser.indexTail()
    try parser.expectEnd()
    guard parser.columns.isDisjoint(with: gone) else { throw Unparsed("it needs a column that is left out") }
    return parser.printed(0..<parser.tokens.count)
  }

  /// Parses an expression, and returns it as printed from its tokens.
  static func expression(_ text: String, _ reach: TargetReach = TargetReach()) throws(Unparsed) -> String {
    var parser = try DDLParser(text, .postgres)
    parser.reach = reach
    try parser.expression()
    try parser.expectEnd()
    return parser.printed(0..<parser.tokens.count)
  }

  static func type(_ text: String) throws(Unparsed) -> String {
    var parser = try DDLParser(text, .postgres)
    try parser.postgresType()
    try parser.expectEnd()
    return parser.printed(0..<parser.tokens.count)
  }

  /// Parses a name with or without a schema, and returns it as printed from its tokens. Throws for any other text.
  static func name(_ text: String) throws(Unparsed) -> String {
    var parser = try DDLParser(text, .postgres)
    _ = try parser.qualifiedName()
    try parser.expectEnd()
    return parser.printed(0..<parser.tokens.count)
  }

  // MARK: Statements

  private mutating func statement() throws(Unparsed) -> [String] {
    let start = parser.at
    switch (parser.word(), parser.word(1)) {
    case ("DO", _): return [try guarded()]
    case ("CREATE", "TABLE"):
      let text = try createTable()
      hasTable = true
      return [text]
    case ("CREATE", "SCHEMA"):
      try parser.expect("CREATE", "SCHEMA", "IF", "NOT", "EXISTS")
      let name = try parser.name()
      guard !DDLParser.isReserved(name) else { throw Unparsed("the schema is reserved") }
      guard reach.isOpen || name.hasSameBytes(as: table.namespace) else {
        throw Unparsed("'tables' of the apply is a list, so it makes the schema of the table only")
      }
      if try !counts.isFirst(schema: name) { return [] }
    case ("CREATE", "EXTENSION"): return try readExtension()
    case ("CREATE", "SEQUENCE"):
      try counts.add(.sequence, atMost: table.columns.count)
      try parser.expect("CREATE", "SEQUENCE", "IF", "NOT", "EXISTS")
      let name = try parser.ownName()
      try parser.checkReach(of: name)
      try checkPlace(of: name)
      try parser.sequenceOptions()
    case ("CREATE", "TYPE"), ("CREATE", "DOMAIN"): return [try typeText()]
    case ("ALTER", "TYPE"):
      try counts.add(.label, atMost: ScriptCounts.labelsMax)
      try parser.expect("ALTER", "TYPE")
      _ = try parser.ownName()
      try parser.expect("ADD", "VALUE", "IF", "NOT", "EXISTS")
      try parser.string()
      if parser.take("BEFORE") || parser.take("AFTER") { try parser.string() }
    case ("ALTER", "SEQUENCE"):
      try counts.add(.owner, atMost: table.columns.count)
      try parser.expect("ALTER", "SEQUENCE")
      let sequence = try parser.ownName()
      try parser.checkReach(of: sequence)
      try parser.expect("OWNED", "BY")
      try readColumnOfTable()
      guard sequence.namespace == table.namespace else { throw Unparsed("the sequence is of another schema") }
    case ("ALTER", "TABLE"):
      try counts.add(.identity, atMost: 1)
      try parser.expect("ALTER", "TABLE")
      try readTable()
      try parser.expect("REPLICA", "IDENTITY", "FULL")
    default: throw parser.misunderstood
    }
    return [parser.printed(start..<parser.at)]
  }

  /// The extensions that a script may create.
  private static let extensions: Set<NameKey> = [
    "btree_gin", "btree_gist", "citext", "cube", "hstore", "intarray", "isn", "ltree", "pg_trgm", "pgcrypto", "postgis",
    "seg", "uuid-ossp", "vector",
  ]

  /// Parses CREATE EXTENSION. Returns an empty list if the target has the extension. Throws unless the extension is
  /// allowed and apply may write all tables.
  private mutating func readExtension() throws(Unparsed) -> [String] {
    let start = parser.at
    try parser.expect("CREATE", "EXTENSION", "IF", "NOT", "EXISTS")
    let name = try parser.name()
    guard Self.extensions.contains(name) else { throw Unparsed("\(name) is not an extension that Cairn makes") }
    try parser.expect("WITH", "SCHEMA")
    guard try !DDLParser.isReserved(parser.name()) else { throw Unparsed("the schema is reserved") }
    let text = parser.printed(start..<parser.at)
    if reach.has(extension: name) { return [] }
    guard reach.isOpen else {
      throw Unparsed("'tables' of the apply is a list; if the table needs the extension, run at the target: \(text);")
    }
    return [text]
  }

  /// Reads the table's name in the script, and prints the current name instead.
  private mutating func readTable(isNew: Bool = false) throws(Unparsed) {
    let start = parser.at
    let name = try parser.qualifiedName()
    // An ALTER TABLE is valid only after the CREATE TABLE of the same table.
    guard isNew || named.map({ $0 == name }) ?? false else { throw Unparsed("it is of another table") }
    named = name
    parser.print(table.qualifiedForDDL, at: start..<parser.at, insteadOf: name != (table.namespace, table.name))
  }

  /// Reads the name of a table, followed by the name of a column.
  private mutating func readColumnOfTable() throws(Unparsed) {
    let start = parser.at
    let first = try parser.name()
    try parser.expect(symbol: ".")
    let second = try parser.name()
    let hasSchema = parser.isSymbol(".", 0)
    let name = hasSchema ? (namespace: first, name: second) : (namespace: "", name: first)
    guard named.map({ $0 == name }) ?? false else { throw Unparsed("it is of another table") }
    let end = hasSchema ? parser.at : parser.at - 2
    parser.print(table.qualifiedForDDL, at: start..<end, insteadOf: name != (table.namespace, table.name))
    guard hasSchema else { return }
    try parser.expect(symbol: ".")
    try parser.name()
  }

  /// Reads a type that the script creates unless it exists, since a type has no IF NOT EXISTS: `DO $cairn$ BEGIN CREATE
  /// TYPE …; EXCEPTION WHEN duplicate_object THEN NULL; END $cairn$`
  private mutating func guarded() throws(Unparsed) -> String {
    try parser.expect("DO")
    guard parser.at < parser.tokens.count, case .dollars(let body) = parser.tokens[parser.at].kind else {
      throw parser.misunderstood
    }
    parser.at += 1
    let (outer, inner) = (parser, try DDLParser(body, .postgres))
    parser = inner
    (parser.reach, parser.checkWeight) = (reach, outer.checkWeight)
    defer {
      let spent = parser.checkWeight
      parser = outer
      parser.checkWeight = spent
    }
    try parser.expect("BEGIN")
    let text = try typeText()
    try parser.expect(symbol: ";")
    try parser.expect("EXCEPTION", "WHEN", "DUPLICATE_OBJECT", "THEN", "NULL")
    try parser.expect(symbol: ";")
    try parser.expect("END")
    try parser.expectEnd()
    return "DO " + " BEGIN \(text); EXCEPTION WHEN duplicate_object THEN NULL; END ".dollarQuoted
  }

  /// Throws unless the script may create a type or a sequence in this schema. Allowed are the table's own schema, and
  /// schemas with tables that apply may write.
  private func checkPlace(of name: (namespace: String, name: String)) throws(Unparsed) {
    guard !reach.includes(schema: name.namespace, of: table) else { return }
    throw Unparsed(
      "'tables' of the apply lists no table of schema \(name.namespace), so \(name.name) is not made there; make it at the target if the table needs it"
    )
  }

  private mutating func typeText() throws(Unparsed) -> String {
    let start = parser.at
    try counts.add(.type, atMost: ScriptCounts.typesMax)
    if parser.take("CREATE", "DOMAIN") { return try domainText(start) }
    try parser.expect("CREATE", "TYPE")
    try checkPlace(of: try parser.ownName())
    try parser.expect("AS")
    if parser.take("ENUM") {
      try parser.expect(symbol: "(")
      if !parser.isSymbol(")") { repeat { try parser.string() } while parser.take(symbol: ",") }
      try parser.expect(symbol: ")")
    } else if parser.take("RANGE") {
      try parser.expect(symbol: "(")
      repeat { try rangeOption() } while parser.take(symbol: ",")
      try parser.expect(symbol: ")")
    } else {
      try parser.expect(symbol: "(")
      if !parser.isSymbol(")") {
        repeat {
          try parser.name()
          try parser.postgresType()
          if parser.take("COLLATE") { _ = try parser.qualifiedName() }
        } while parser.take(symbol: ",")
      }
      try parser.expect(symbol: ")")
    }
    return parser.printed(start..<parser.at)
  }

  private mutating func rangeOption() throws(Unparsed) {
    let option = try parser.name()
    try parser.expect(symbol: "=")
    switch option {
    case "subtype": try parser.postgresType()
    case "multirange_type_name": try checkPlace(of: try parser.ownName())
    case "collation": _ = try parser.qualifiedName()
    case "subtype_diff":
      let name = try parser.name()
      let known: Set<NameKey> = [
        "daterange_subdiff", "float4mi", "float8mi", "int4range_subdiff", "int8range_subdiff", "numrange_subdiff",
        "tsrange_subdiff", "tstzrange_subdiff",
      ]
      guard known.contains(name) else { throw Unparsed("\(name)() is not a known function") }
    default: throw Unparsed("\(option) of a range type is not known")
    }
  }

  private mutating func domainText(_ start: Int) throws(Unparsed) -> String {
    let name = try parser.ownName()
    try checkPlace(of: name)
    try parser.expect("AS")
    try parser.postgresType()
    var text = parser.printed(start..<parser.at)
    while parser.at < parser.tokens.count, !parser.isSymbol(";") {
      let part = parser.at
      switch parser.word() {
      case "COLLATE":
        parser.at += 1
        _ = try parser.qualifiedName()
      case "DEFAULT":
        parser.at += 1
        guard try readExpression("the default of domain \(name.name)", until: ["NOT", "CONSTRAINT", "CHECK"]) else {
          continue
        }
      case "NOT": try parser.expect("NOT", "NULL")
      case "CONSTRAINT", "CHECK":
        if parser.take("CONSTRAINT") { try parser.name() }
        try parser.expect("CHECK")
        let isKept = try parser.check("a CHECK of domain \(name.name)", &notices)
        _ = parser.take("NOT", "VALID")
        if !isKept { continue }
      default: throw parser.misunderstood
      }
      text += " " + parser.printed(part..<parser.at)
    }
    return text
  }

  // MARK: Expressions

  /// Reads an expression up to a comma or one of `words`. If it has an unknown part, adds a notice and returns false.
  private mutating func readExpression(_ what: String, until words: Set<NameKey>) throws(Unparsed) -> Bool {
    let start = parser
    do throws(Unparsed) {
      try parser.expression()
      let isDone = parser.isAtEnd || parser.isSymbol(",") || parser.isSymbol(")") || parser.isSymbol(";")
      guard isDone || words.contains(parser.word()) else { throw parser.misunderstood }
      return true
    } catch {
      parser = start
      while !parser.isAtEnd, !words.contains(parser.word()), !parser.isSymbol(","), !parser.isSymbol(")"),
        !parser.isSymbol(";")
      {
        if parser.isSymbol("(") { try parser.skipParentheses() } else { parser.at += 1 }
      }
      notices.append("\(what) is left out: \(error.reason)")
      return false
    }
  }

  // MARK: The table

  private mutating func createTable() throws(Unparsed) -> String {
    guard !hasTable else { throw Unparsed("it makes another table") }
    let start = parser.at
    try parser.expect("CREATE", "TABLE")
    if parser.take("IF") { try parser.expect("NOT", "EXISTS") }
    try readTable(isNew: true)
    try parser.expect(symbol: "(")
    let head = parser.printed(start..<parser.at)
    var parts: [(text: String, name: String?, columns: Set<NameKey>)] = []
    repeat {
      guard parser.at < parser.tokens.count else { throw parser.misunderstood }
      let space = parser.tokens[parser.at].space
      if let part = try tablePart() { parts.append((space + part.text, part.constraint, part.columns)) }
    } while parser.take(symbol: ",")
    for part in parts where !part.columns.isDisjoint(with: gone) {
      notices.append("the constraint \(part.name ?? "") is left out: it needs a column that is left out")
    }
    parts.removeAll { !$0.columns.isDisjoint(with: gone) }
    let close = parser.at
    try parser.expect(symbol: ")")
    return head + parts.map(\.text).joined(separator: ",") + parser.tokens[close].space + ")"
  }

  /// Reads a column or constraint, with the columns that a constraint names; nil if the definition is left out.
  private mutating func tablePart() throws(Unparsed) -> (text: String, constraint: String?, columns: Set<NameKey>)? {
    let start = parser.at
    switch parser.word() {
    case "CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "EXCLUDE":
      var name: String?
      if parser.take("CONSTRAINT") { name = try parser.name() }
      parser.forgetColumns()
      guard try constraint(name) else { return nil }
      return (parser.printed(start..<parser.at), name ?? "", parser.columns)
    default: return try column(start).map { ($0, nil, []) }
    }
  }

  /// Reads a constraint. If it must be left out, adds a notice and returns false.
  private mutating func constraint(_ name: String?) throws(Unparsed) -> Bool {
    let what = "the constraint \(name ?? "CHECK")"
    var isKept = true
    let isCheck = parser.word() == "CHECK"
    switch parser.word() {
    case "PRIMARY", "UNIQUE":
      if !parser.take("UNIQUE") { try parser.expect("PRIMARY", "KEY") }
      if parser.take("NULLS") {
        _ = parser.take("NOT")
        try parser.expect("DISTINCT")
      }
      try parser.keyColumns()
      if parser.take("INCLUDE") { try parser.keyColumns() }
    case "CHECK":
      parser.at += 1
      isKept = try parser.check(what, &notices)
      _ = parser.take("NO", "INHERIT")
      _ = parser.take("NOT", "VALID")
    case "EXCLUDE":
      let open = parser
      do throws(Unparsed) { try parser.exclusion() } catch {
        parser = open
        while !parser.isAtEnd, !parser.isSymbol(","), !parser.isSymbol(")") {
          if parser.isSymbol("(") { try parser.skipParentheses() } else { parser.at += 1 }
        }
        notices.append("\(what) is left out: \(error.reason)")
        isKept = false
      }
    default: throw parser.misunderstood
    }
    if parser.take("DEFERRABLE"), parser.take("INITIALLY") { try parser.expect("DEFERRED") }
    if isKept {
      do throws(Unparsed) {
        try isCheck
          ? counts.add(.check, atMost: ScriptCounts.checksMax) : counts.add(.key, atMost: SQLiteDDL.uniquesMax)
      } catch {
        counts.leaveOut("\(what) is left out: \(error.reason)", &notices)
        return false
      }
    }
    return isKept
  }

  /// Adds the size of a generated column's value to the total size of the table's generated columns. If the total would
  /// exceed ``SQLiteDDL/generatedMax``, adds a notice and returns false.
  private mutating func weigh(generated column: String) -> Bool {
    generatedWeight += max(1, parser.weight)
    guard generatedWeight > SQLiteDDL.generatedMax else { return true }
    generatedWeight -= max(1, parser.weight)
    notices.append(
      "the generated column \(column) is left out: all of them can be more than \(SQLiteDDL.generatedMax) times as large as a column"
    )
    return false
  }

  private mutating func column(_ start: Int) throws(Unparsed) -> String? {
    let name = try parser.name()
    try parser.postgresType()
    var text = parser.printed(start..<parser.at)
    while !parser.isSymbol(","), !parser.isSymbol(")") {
      let part = parser.at
      switch parser.word() {
      case "COLLATE":
        parser.at += 1
        _ = try parser.qualifiedName()
      case "NOT": try parser.expect("NOT", "NULL")
      case "DEFAULT":
        parser.at += 1
        guard try readExpression("the default of column \(name)", until: ["NOT", "GENERATED", "COLLATE"]) else {
          continue
        }
      case "GENERATED":
        parser.at += 1
        if !parser.take("ALWAYS") { try parser.expect("BY", "DEFAULT") }
        try parser.expect("AS")
        if parser.take("IDENTITY") {
          if parser.isSymbol("(") { try parser.identityOptions() }
        } else {
          let isKnown = parser.word(1) != "NULL" || !parser.isSymbol(")", 2)
          if !isKnown {
            notices.append("the generated column \(name) is left out: an earlier version did not record its expression")
          }
          var isKept = try parser.parenthesized("the generated column \(name)", &notices) && isKnown
          if isKept { isKept = weigh(generated: name) }
          try parser.expect("STORED")
          if !isKept {
            _ = parser.take("NOT", "NULL")
            gone.insert(name.nameKey)
            return nil
          }
        }
      default: throw parser.misunderstood
      }
      text += " " + parser.printed(part..<parser.at)
    }
    return text
  }
}

extension DDLParser {
  mutating func string() throws(Unparsed) {
    guard at < tokens.count else { throw misunderstood }
    switch tokens[at].kind {
    case .string, .escaped: at += 1
    default: throw misunderstood
    }
  }

  /// Reads the options of a sequence: `AS bigint INCREMENT BY 1 MINVALUE 1 MAXVALUE 9 START WITH 1 CACHE 1 CYCLE`.
  mutating func sequenceOptions() throws(Unparsed) {
    while true {
      if take("AS") {
        try postgresType()
      } else if take("INCREMENT", "BY") || take("MINVALUE") || take("MAXVALUE") || take("START", "WITH")
        || take("CACHE")
      {
        try signedNumber()
      } else if !take("CYCLE") {
        return
      }
    }
  }

  mutating func identityOptions() throws(Unparsed) {
    try expect(symbol: "(")
    if take("SEQUENCE", "NAME") { _ = try ownName() }
    try sequenceOptions()
    try expect(symbol: ")")
  }

  private static let indexMethods: Set<NameKey> = ["btree", "hash", "gist", "spgist", "gin", "brin"]

  /// Reads an exclusion constraint: `USING gist (a WITH =, b range_ops WITH &&) WHERE (…)`.
  mutating func exclusion() throws(Unparsed) {
    try expect("EXCLUDE", "USING")
    guard Self.indexMethods.contains(try name()) else { throw Unparsed("its index method is not known") }
    try expect(symbol: "(")
    repeat {
      try indexTerm()
      try expect("WITH")
      if take("OPERATOR") {
        try expect(symbol: "(")
        _ = try name()
        try expect(symbol: ".")
        try exclusionOperator()
        try expect(symbol: ")")
      } else {
        try exclusionOperator()
      }
    } while take(symbol: ",")
    try expect(symbol: ")")
    if take("INCLUDE") { try keyColumns() }
    if take("WHERE") { try expression() }
  }

  private mutating func exclusionOperator() throws(Unparsed) {
    let known: Set<NameKey> = ["=", "<>", "&&", "-|-", "@>", "<@", "~=", "<<", ">>", "&<", "&>", "<", "<=", ">", ">="]
    guard at < tokens.count, case .symbol(let symbol) = tokens[at].kind, known.contains(symbol) else {
      throw misunderstood
    }
    at += 1
  }

  /// Reads the part of CREATE INDEX after the table's name.
  mutating func indexTail() throws(Unparsed) {
    if take("USING") {
      guard Self.indexMethods.contains(try name()) else { throw Unparsed("its method is not known") }
    }
    try expect(symbol: "(")
    repeat { try indexTerm() } while take(symbol: ",")
    try expect(symbol: ")")
    if take("INCLUDE") { try keyColumns() }
    if take("NULLS") {
      _ = take("NOT")
      try expect("DISTINCT")
    }
    if take("WITH") { try parameters() }
    if take("WHERE") { try expression() }
  }

  /// Reads a term of an index: `lower(a) COLLATE "C" public.text_ops DESC NULLS LAST`.
  private mutating func indexTerm() throws(Unparsed) {
    try expression()
    if !["ASC", "DESC", "NULLS", "WITH", ""].contains(word()) || isQuotedName {
      _ = try qualifiedName()
      if isSymbol("(") { try parameters() }
    }
    if !take("ASC") { _ = take("DESC") }
    if take("NULLS"), !take("FIRST") { try expect("LAST") }
  }

  private var isQuotedName: Bool {
    if at < tokens.count, case .name = tokens[at].kind { true } else { false }
  }

  /// Reads storage parameters: `(fillfactor='70', autosummarize=true)`.
  private mutating func parameters() throws(Unparsed) {
    try expect(symbol: "(")
    repeat {
      try name()
      guard take(symbol: "=") else { continue }
      guard at < tokens.count else { throw misunderstood }
      switch tokens[at].kind {
      case .string, .word: at += 1
      default: try signedNumber()
      }
    } while take(symbol: ",")
    try expect(symbol: ")")
  }
}

extension TableSchema {
  fileprivate var qualifiedForDDL: String { (namespace.isEmpty ? "" : namespace.quotedName + ".") + name.quotedName }
}
