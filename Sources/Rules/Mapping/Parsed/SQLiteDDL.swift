import Changes

/// A CREATE TABLE or CREATE INDEX statement of SQLite, parsed and printed again.
///
/// Clauses that the parser does not know are left out of ``text``; ``notices`` has the reasons.
///
/// Source: https://sqlite.org/lang_createtable.html, https://sqlite.org/lang_createindex.html
struct SQLiteDDL {
  private(set) var text = ""
  private(set) var notices: [String] = []

  private var parser: DDLParser
  private let table: String
  /// The columns that are left out of the printed statement, in lower case.
  private(set) var gone: Set<NameKey>
  /// The maximum size of each generated column's value, counted in values of other columns, by lower-case name.
  private(set) var generated: [NameKey: Int] = [:]
  private var uniqueCount = 0

  /// The largest allowed total size of a table's generated columns, counted in values of other columns.
  static let generatedMax = 128
  /// The maximum number of UNIQUE constraints of a table.
  static let uniquesMax = 64
  /// The maximum number of times that one statement is parsed.
  private static let passesMax = 8

  /// Parses one CREATE TABLE statement, and prints it with `name` as the name of the table. Throws for any other
  /// statement.
  static func table(_ text: String, named name: String, _ reach: TargetReach) throws(Unparsed) -> SQLiteDDL {
    var weights: [NameKey: Int] = [:]
    for _ in 0..<passesMax {
      var ddl = try SQLiteDDL(text, table: name, gone: [])
      ddl.parser.weights = weights
      ddl.parser.reach = reach
      try ddl.readTable()
      if ddl.generated == weights { return ddl }
      weights = ddl.generated
    }
    throw Unparsed("its generated columns name each other too often")
  }

  /// Returns one CREATE INDEX statement on `table`, with `name` as the name of the index. Throws for any other text, or
  /// an unknown expression.
  static func index(
    _ text: String, named name: String, on table: String, beside read: SQLiteDDL?
  ) throws(Unparsed) -> String {
    var ddl = try SQLiteDDL(text, table: table, gone: read?.gone ?? [])
    ddl.parser.weights = read?.generated ?? [:]
    try ddl.readIndex(name)
    return ddl.parser.printed(0..<ddl.parser.tokens.count)
  }

  private init(_ text: String, table: String, gone: Set<NameKey>) throws(Unparsed) {
    parser = try DDLParser(text, .sqlite)
    (self.table, self.gone) = (table, gone)
  }

  /// Reads the table's name in the statement, and prints the current name instead.
  private mutating func readTableName() throws(Unparsed) {
    let isOther = try !isSame(parser.name(), table)
    parser.print(table.quotedName, at: parser.at - 1..<parser.at, insteadOf: isOther)
  }

  private func isSame(_ one: String, _ other: String) -> Bool { one.isSameInSQLite(as: other) }

  // MARK: Indexes

  private mutating func readIndex(_ name: String) throws(Unparsed) {
    try parser.expect("CREATE")
    _ = parser.take("UNIQUE")
    try parser.expect("INDEX")
    let isOther = try !isSame(parser.name(), name)
    parser.print(name.quotedName, at: parser.at - 1..<parser.at, insteadOf: isOther)
    try parser.expect("ON")
    guard isSame(try parser.name(), table) else { throw Unparsed("it is on another table") }
    try readTerms()
    if parser.take("WHERE") { try parser.expression() }
    try parser.expectEnd()
    guard parser.columns.isDisjoint(with: gone) else { throw Unparsed("it needs a column that is left out") }
  }

  /// Reads the terms of an index or key: `(a COLLATE NOCASE DESC, lower(b))`.
  private mutating func readTerms() throws(Unparsed) {
    try parser.expect(symbol: "(")
    repeat {
      try parser.expression()
      if !parser.take("ASC") { _ = parser.take("DESC") }
      _ = parser.take("AUTOINCREMENT")
    } while parser.take(symbol: ",")
    try parser.expect(symbol: ")")
  }

  // MARK: Tables

  /// The printed definition of a column, or of a constraint of the table.
  private struct Part {
    let space: String
    var text = ""
    /// The comma before the definition; nil if there is none. SQLite requires no comma before a constraint.
    let comma: String?
    /// The column that the part defines; nil for a constraint.
    let column: String?
    var names: Set<NameKey> = []
  }

  private mutating func readTable() throws(Unparsed) {
    try parser.expect("CREATE", "TABLE")
    try readTableName()
    let head = parser.printed(0..<parser.at)
    let open = parser.at
    try parser.expect(symbol: "(")
    var parts: [Part] = []
    var comma: String?
    while true {
      let before = gone
      if let part = try readPart(comma) { parts.append(part) }
      if gone != before, let last = parts.last, last.column != nil, gone.contains(last.column ?? "") {
        parts.removeLast()
      }
      comma = parser.isSymbol(",") ? parser.tokens[parser.at].space + "," : nil
      if parser.take(symbol: ",") { continue }
      if parser.isSymbol(")") { break }
      guard parts.last.map({ $0.column == nil }) ?? false || isConstraint else { throw parser.misunderstood }
    }
    let close = parser.at
    try parser.expect(symbol: ")")
    try readOptions()
    // If a generated column is left out, all definitions that name it are left out too.
    while let index = parts.firstIndex(where: { !$0.names.isDisjoint(with: gone) }) {
      let part = parts.remove(at: index)
      let what = part.column.map { "the generated column \($0)" } ?? "a constraint"
      notices.append("\(what) is left out: it needs a column that is left out")
      if let column = part.column {
        gone.insert(column)
        generated[column] = nil
      }
    }
    guard parts.contains(where: { $0.column != nil }) else { throw Unparsed("all its columns are left out") }
    text = head + parser.tokens[open].space + "("
    for (index, part) in parts.enumerated() {
      text += index == 0 ? "" : part.comma ?? (part.space.isEmpty ? " " : "")
      text += part.space + part.text
    }
    text += parser.tokens[close].space + parser.printed(close..<parser.tokens.count)
  }

  private var isConstraint: Bool {
    ["CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN"].contains(parser.word())
  }

  private mutating func readOptions() throws(Unparsed) {
    while !parser.isAtEnd {
      guard parser.take("WITHOUT", "ROWID") || parser.take("STRICT") else { throw parser.misunderstood }
      guard parser.take(symbol: ",") else { break }
    }
    try parser.expectEnd()
  }

  /// Reads the definition of a column or constraint; nil for a constraint that is left out.
  private mutating func readPart(_ comma: String?) throws(Unparsed) -> Part? {
    guard parser.at < parser.tokens.count else { throw parser.misunderstood }
    let space = parser.tokens[parser.at].space
    guard isConstraint else { return try readColumn(space, comma) }
    let start = parser.at
    parser.forgetColumns()
    if parser.take("CONSTRAINT") { try parser.name() }
    switch parser.word() {
    case "PRIMARY", "UNIQUE":
      if parser.take("UNIQUE") { try countUnique() } else { try parser.expect("PRIMARY", "KEY") }
      try readTerms()
      try readConflict()
    case "FOREIGN":
      try parser.expect("FOREIGN", "KEY")
      let columns = try parser.names()
      guard try readReferences() else { return nil }
      parser.forgetColumns(but: columns)
    case "CHECK":
      parser.at += 1
      guard try parser.check("a CHECK", &notices) else { return nil }
      try readConflict()
    default: break
    }
    guard parser.at > start else { throw parser.misunderstood }
    return Part(
      space: space, text: parser.printed(start..<parser.at), comma: comma, column: nil,
      names: parser.columns)
  }

  private mutating func readConflict() throws(Unparsed) {
    guard parser.take("ON") else { return }
    try parser.expect("CONFLICT")
    guard ["ROLLBACK", "ABORT", "FAIL", "IGNORE", "REPLACE"].contains(parser.word()) else { throw parser.misunderstood }
    parser.at += 1
  }

  /// Reads a reference: `REFERENCES t(a) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED`. If apply may not write to
  /// the referenced table, adds a notice and returns false.
  private mutating func readReferences() throws(Unparsed) -> Bool {
    try parser.expect("REFERENCES")
    let other = try parser.name()
    let isKept = parser.reach.includes("", other, in: .sqlite)
    if !isKept { notices.append("a foreign key is left out: \(TargetReach.why(other))") }
    if parser.isSymbol("(") { try parser.names() }
    while true {
      if parser.take("ON", "DELETE") || parser.take("ON", "UPDATE") || parser.take("ON", "INSERT") {
        let isKnown =
          parser.take("SET", "NULL") || parser.take("SET", "DEFAULT") || parser.take("CASCADE")
          || parser.take("RESTRICT") || parser.take("NO", "ACTION")
        guard isKnown else { throw parser.misunderstood }
      } else if parser.take("MATCH") {
        try parser.name()
      } else if parser.take("NOT", "DEFERRABLE") || parser.take("DEFERRABLE") {
        if parser.take("INITIALLY"), !parser.take("DEFERRED") { try parser.expect("IMMEDIATE") }
      } else {
        return isKept
      }
    }
  }

  // MARK: Columns

  private mutating func readColumn(_ space: String, _ comma: String?) throws(Unparsed) -> Part {
    let start = parser.at
    parser.forgetColumns()
    let name = try parser.name()
    try parser.sqliteType()
    var kept = [start..<parser.at]
    while let constraint = try readColumnConstraint(name) {
      if constraint.isKept { kept.append(constraint.range) }
    }
    let text = kept.filter { !$0.isEmpty }.map { range in
      (range.lowerBound == start ? "" : spaced(range.lowerBound)) + parser.printed(range)
    }.joined()
    let folded = name.asciiLowercased
    return Part(
      space: space, text: text, comma: comma, column: folded, names: generated[folded] == nil ? [] : parser.columns)
  }

  private mutating func countUnique() throws(Unparsed) {
    uniqueCount += 1
    guard uniqueCount <= Self.uniquesMax else { throw Unparsed("it has more than \(Self.uniquesMax) unique keys") }
  }

  private mutating func readGenerated(_ column: String) throws(Unparsed) {
    let folded = column.asciiLowercased
    guard try parser.parenthesized("the generated column \(column)", &notices) else {
      gone.insert(folded)
      return
    }
    let weight = max(1, parser.weight)
    guard generated.values.reduce(weight, +) <= Self.generatedMax else {
      gone.insert(folded)
      notices.append(
        "the generated column \(column) is left out: all of them can be more than \(Self.generatedMax) times as large as a column"
      )
      return
    }
    generated[folded] = weight
    parser.weights[folded] = weight
  }

  private func spaced(_ index: Int) -> String { parser.tokens[index].space }

  private struct Constraint {
    let range: Range<Int>
    var isKept = true
  }

  /// Reads a constraint of a column; nil if there is none.
  private mutating func readColumnConstraint(_ column: String) throws(Unparsed) -> Constraint? {
    let start = parser.at
    if parser.isAtEnd || parser.isSymbol(",") || parser.isSymbol(")") { return nil }
    if parser.word() == "CONSTRAINT" {
      parser.at += 1
      try parser.name()
    }
    switch parser.word() {
    case "PRIMARY":
      try parser.expect("PRIMARY", "KEY")
      if !parser.take("ASC") { _ = parser.take("DESC") }
      try readConflict()
      _ = parser.take("AUTOINCREMENT")
    case "NOT", "NULL", "UNIQUE":
      if parser.word() == "NOT", parser.word(1) != "NULL" {
        try readReferencesTail()
      } else {
        if parser.take("UNIQUE") {
          try countUnique()
        } else {
          _ = parser.take("NOT", "NULL") || parser.take("NULL")
        }
        try readConflict()
      }
    case "CHECK":
      parser.at += 1
      let isKept = try parser.check("a CHECK of column \(column)", &notices)
      try readConflict()
      return Constraint(range: start..<parser.at, isKept: isKept)
    case "DEFAULT":
      parser.at += 1
      let isKept = try readDefault(column)
      return Constraint(range: start..<parser.at, isKept: isKept)
    case "COLLATE":
      parser.at += 1
      try parser.name()
    case "REFERENCES":
      let isKept = try readReferences()
      return Constraint(range: start..<parser.at, isKept: isKept)
    case "GENERATED", "AS":
      if parser.word() == "GENERATED" { try parser.expect("GENERATED", "ALWAYS") }
      try parser.expect("AS")
      try readGenerated(column)
      if !parser.take("STORED") { _ = parser.take("VIRTUAL") }
    case "CONSTRAINT": break
    default:
      guard parser.at > start else { throw parser.misunderstood }
    }
    return Constraint(range: start..<parser.at)
  }

  /// Reads `NOT DEFERRABLE`, which SQLite's grammar accepts as a separate constraint.
  private mutating func readReferencesTail() throws(Unparsed) {
    try parser.expect("NOT", "DEFERRABLE")
    if parser.take("INITIALLY"), !parser.take("DEFERRED") { try parser.expect("IMMEDIATE") }
  }

  /// Reads a default. If it must be left out, adds a notice and returns false.
  private mutating func readDefault(_ column: String) throws(Unparsed) -> Bool {
    if parser.isSymbol("(") { return try parser.parenthesized("the default of column \(column)", &notices) }
    if !parser.take(symbol: "-") { _ = parser.take(symbol: "+") }
    guard parser.at < parser.tokens.count else { throw parser.misunderstood }
    switch parser.tokens[parser.at].kind {
    case .string, .digits, .number, .name, .word: parser.at += 1
    default: throw parser.misunderstood
    }
    return true
  }
}
