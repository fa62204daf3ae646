import Changes

extension TableSchema {
  /// The table with all of its DDL parsed and printed again. The original texts are untrusted and never executed. Parts
  /// that the parser does not know are left out and listed in `notices`.
  ///
  ///     let (safe, notices) = record.parsed
  ///     // notices: ["table t: a CHECK of column a is left out: load_extension() is not a known function"]
  package var parsed: (schema: TableSchema, notices: [String]) { parsed(within: TargetReach()) }

  /// The functions of PostgreSQL that a table definition may call.
  package static var functionsOfPostgres: Set<NameKey> { KnownFunctions.inPostgresCatalog }

  /// Returns the table with its DDL parsed and printed again, without parts that need objects outside of `reach`.
  package func parsed(within reach: TargetReach) -> (schema: TableSchema, notices: [String]) {
    var safe = self
    var left: [String] = []
    if uniques.count > SQLiteDDL.uniquesMax {
      safe.uniques.removeLast(uniques.count - SQLiteDDL.uniquesMax)
      left.append("of \(uniques.count) unique keys only the first \(SQLiteDDL.uniquesMax) are made")
    }
    if foreignKeys.count > Self.foreignKeysMax {
      safe.foreignKeys.removeLast(foreignKeys.count - Self.foreignKeysMax)
      left.append("of \(foreignKeys.count) foreign keys only the first \(Self.foreignKeysMax) are made")
    }
    engine == .sqlite ? safe.parseSQLite(&left, reach) : safe.parsePostgres(&left, reach)
    for index in safe.foreignKeys.indices { safe.parseActions(index, &left) }
    if let original {
      let parsed = original.parsed(within: reach)
      safe.original = parsed.schema
      left += parsed.notices
    }
    // A default occurs twice: in the column and in the script. Report it once.
    var told: Set<NameKey> = []
    return (safe, left.filter { told.insert($0).inserted }.map { "table \(fullName): \($0)" })
  }

  private static let foreignKeysMax = 256

  private mutating func parseActions(_ index: Int, _ left: inout [String]) {
    func known(_ action: String) -> String? {
      let word = action.asciiUppercased
      return TableMapping.actions.contains(word) || ["NO ACTION", ""].contains(word) ? word : nil
    }
    for path in [\ForeignKey.onUpdate, \ForeignKey.onDelete] {
      let action = foreignKeys[index][keyPath: path]
      if let word = known(action) {
        foreignKeys[index][keyPath: path] = word
      } else {
        foreignKeys[index][keyPath: path] = ""
        left.append("an action of a foreign key is left out: \(action.prefix(40)) is not known")
      }
    }
  }

  // MARK: SQLite

  private mutating func parseSQLite(_ left: inout [String], _ reach: TargetReach) {
    for index in columns.indices { columns[index].parseSQLite(&left) }
    let isGiven = !createText.isEmpty
    var read: SQLiteDDL?
    do throws(Unparsed) {
      guard isGiven else { throw Unparsed("it has no statement") }
      let ddl = try SQLiteDDL.table(createText, named: name, reach)
      (createText, read) = (ddl.text, ddl)
      left += ddl.notices
    } catch {
      if isGiven {
        var known = self
        known.foreignKeys.removeAll { !reach.includes("", $0.table, in: .sqlite) }
        createText = known.ownText(typesOf: self, isWhole: true)
        left.append("it is made of its columns and keys alone, as its statement is not known: \(error.reason)")
      }
    }
    objects = parsedObjects(&left) { object throws(Unparsed) in
      try SQLiteDDL.index(object.text, named: object.name, on: name, beside: read)
    }
  }

  private static let indexesMax = 64
  /// The maximum size of all index texts of a table that are parsed, in bytes.
  private static let indexBytesMax = DDLTokenizer.bytesMax

  private func parsedObjects(
    _ left: inout [String], _ parse: (Object) throws(Unparsed) -> String
  ) -> [Object] {
    var kept: [Object] = []
    var bytesLeft = Self.indexBytesMax
    for object in objects {
      do throws(Unparsed) {
        // SQLite holds a copy of its columns for each index while it writes a row.
        guard kept.count < Self.indexesMax else { throw Unparsed("the table has \(Self.indexesMax) already") }
        guard object.text.utf8.count <= bytesLeft else {
          throw Unparsed("the texts of the table's indexes are longer than \(Self.indexBytesMax) bytes")
        }
        bytesLeft -= object.text.utf8.count
        kept.append(.init(name: object.name, text: try parse(object)))
      } catch {
        left.append("the index \(object.name) is left out: \(error.reason)")
      }
    }
    return kept
  }

  // MARK: PostgreSQL

  private mutating func parsePostgres(_ left: inout [String], _ reach: TargetReach) {
    for index in columns.indices { columns[index].parsePostgres(&left, reach) }
    var gone: Set<NameKey> = []
    defer {
      objects = parsedObjects(&left) { object throws(Unparsed) in
        try PostgresDDL.index(object, on: self, without: gone, reach)
      }
    }
    guard !createText.isEmpty else { return }
    do throws(Unparsed) {
      let script = try PostgresDDL(self, reach)
      left += script.notices
      gone = script.gone
      createText = script.statements.map { $0 + ";" }.joined(separator: "\n")
      if script.hasTable { return }
      left.append("it is made of its columns and keys alone: its script has no CREATE TABLE that is known")
    } catch {
      // The statements that make types are taken from the script, so this one may have none.
      createText = ""
      left.append("it is made of its columns and keys alone: \(error.reason)")
    }
    createText = ownText(typesOf: self, isWhole: true)
  }
}

extension TableSchema.Column {
  fileprivate mutating func parseSQLite(_ left: inout [String]) {
    if let printed = try? Self.sqliteType(declaredType) {
      declaredType = printed
    } else {
      left.append("the type of column \(name) is \(affinity): '\(declaredType.prefix(40))' is not known")
      declaredType = affinity
    }
    // An unknown type still has an affinity.
    if !collation.isEmpty, !["BINARY", "NOCASE", "RTRIM"].contains(collation.asciiUppercased) {
      collation = (try? Self.sqliteName(collation)) ?? ""
    }
    guard let text = defaultText else { return }
    do throws(Unparsed) { defaultText = try Self.sqliteExpression(text) } catch {
      defaultText = nil
      left.append("the default of column \(name) is left out: \(error.reason)")
    }
  }

  private static func sqliteType(_ text: String) throws(Unparsed) -> String {
    if text.isEmpty { return "" }
    var parser = try DDLParser(text, .sqlite)
    try parser.sqliteType()
    try parser.expectEnd()
    return parser.printed(0..<parser.tokens.count)
  }

  private static func sqliteName(_ text: String) throws(Unparsed) -> String {
    var parser = try DDLParser(text, .sqlite)
    try parser.name()
    try parser.expectEnd()
    return parser.printed(0..<parser.tokens.count)
  }

  private static func sqliteExpression(_ text: String) throws(Unparsed) -> String {
    var parser = try DDLParser(text, .sqlite)
    try parser.expression()
    try parser.expectEnd()
    return parser.printed(0..<parser.tokens.count)
  }

  fileprivate mutating func parsePostgres(_ left: inout [String], _ reach: TargetReach) {
    func kept(_ text: String, _ what: String, _ parse: (String) throws(Unparsed) -> String) -> String? {
      do throws(Unparsed) { return try parse(text) } catch {
        left.append("\(what) of column \(name) is left out: \(error.reason)")
        return nil
      }
    }
    if let type = kept(declaredType, "the type", PostgresDDL.type) {
      declaredType = type
    } else {
      (declaredType, baseType) = ("text", "")
    }
    if !["", "enum", "record", "range", "multirange", "array"].contains(baseType) {
      baseType = kept(baseType, "the base type", PostgresDDL.type) ?? ""
    }
    if collation.has(".") { collation = kept(collation, "the collation", PostgresDDL.name) ?? "" }
    if let text = defaultText {
      defaultText = kept(text, "the default") { text throws(Unparsed) in
        try PostgresDDL.expression(text, reach)
      }
    }
  }
}
