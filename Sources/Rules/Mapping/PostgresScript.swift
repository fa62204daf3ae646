import Changes

/// The statements that create a PostgreSQL table (``TableSchema/createText``), split into parts.
package struct PostgresScript {
  struct Column: Equatable {
    @ByBytes var name: String
    /// The name and definition of a column in CREATE TABLE.
    @ByBytes var text: String
    var isGenerated: Bool
  }

  struct Constraint: Equatable {
    enum Kind: Equatable {
      case primary, unique, check, exclude
    }
    /// The name of the constraint; nil if PostgreSQL chooses one.
    @ByBytes var name: String? = nil
    /// The definition of the constraint without its name.
    @ByBytes var text: String
    var kind: Kind
    /// The columns of a PRIMARY KEY or UNIQUE constraint.
    @ByBytes var columns: [String]
  }

  /// The statements before CREATE TABLE, which create schemas, types and sequences.
  private(set) var preamble: [String] = []
  private(set) var columns: [Column] = []
  private(set) var constraints: [Constraint] = []
  private(set) var types: [PostgresUserType] = []
  /// The statements after CREATE TABLE, such as those that set the owners of sequences.
  private(set) var postscript: [String] = []

  init(_ schema: TableSchema) {
    let script = PostgresTokens(schema.createText)
    var isBehind = false
    for statement in PostgresTokens.split(script.tokens[...], at: ";") {
      if statement.prefix(2).map(\.word) == ["create", "table"] {
        read(statement, script)
        isBehind = true
      } else if isBehind {
        postscript.append(script.text(statement))
      } else {
        let text = script.text(statement)
        preamble.append(text)
        readType(text)
      }
    }
    if !isBehind { imagine(schema) }
  }

  /// Returns all statements that create a table, for messages.
  package static func statements(_ schema: TableSchema) -> [String] {
    creation(of: schema) + schema.objects.map(\.text) + PostgresForeignKey.all(of: schema).map(\.statement)
  }

  /// Returns the statements that create a table, its schemas, types and sequences, but not its indexes and foreign
  /// keys.
  package static func creation(of schema: TableSchema) -> [String] {
    let text = schema.createText.isEmpty ? schema.ownText(typesOf: schema, isWhole: true) : schema.createText
    let script = PostgresTokens(text)
    return PostgresTokens.split(script.tokens[...], at: ";").map { script.text($0) }
  }

  // MARK: The table

  private mutating func read(_ statement: ArraySlice<PostgresTokens.Token>, _ script: PostgresTokens) {
    guard let open = statement.firstIndex(where: { $0.isSymbol("(") }),
      let close = statement.lastIndex(where: { $0.isSymbol(")") }), open < close
    else { return }
    for part in PostgresTokens.split(statement[(open + 1)..<close], at: ",") {
      guard let first = part.first else { continue }
      switch first.word {
      case "constraint" where part.count > 2:
        add(part.dropFirst(2), name: part[part.startIndex + 1].name, script)
      case "primary", "unique", "check", "exclude": add(part, name: nil, script)
      default:
        let words = part.map(\.word)
        let isGenerated = words.indices.contains { index in
          words[index...].starts(with: ["generated", "always", "as", ""])
        }
        columns.append(.init(name: first.name ?? "", text: script.text(part), isGenerated: isGenerated))
      }
    }
  }

  private mutating func add(_ part: ArraySlice<PostgresTokens.Token>, name: String?, _ script: PostgresTokens) {
    let kinds: [NameKey: Constraint.Kind] = [
      "primary": .primary, "unique": .unique, "check": .check, "exclude": .exclude,
    ]
    guard let kind = kinds[part.first?.word ?? ""] else { return }
    var columns: [String] = []
    if kind == .primary || kind == .unique, let open = part.firstIndex(where: { $0.isSymbol("(") }),
      let close = part[open...].firstIndex(where: { $0.isSymbol(")") })
    {
      columns = part[(open + 1)..<close].compactMap(\.name)
    }
    constraints.append(.init(name: name, text: script.text(part), kind: kind, columns: columns))
  }

  private mutating func imagine(_ schema: TableSchema) {
    columns = schema.columns.map { .init(name: $0.name, text: $0.postgresDefinition, isGenerated: false) }
    func add(_ kind: Constraint.Kind, _ word: String, _ key: [Int]) {
      let names = key.map { schema.columns[$0].name }
      let list = names.map(\.postgresIdentifier).joined(separator: ", ")
      constraints.append(.init(name: nil, text: "\(word) (\(list))", kind: kind, columns: names))
    }
    if !schema.key.isEmpty {
      schema.flags.contains(.nullableKey)
        ? add(.unique, "UNIQUE", schema.key) : add(.primary, "PRIMARY KEY", schema.key)
    }
    let indexed = schema.objects.compactMap {
      IndexText($0.text, columns: schema.columns.map(\.name), engine: .postgres)
    }.filter(\.isUnique).map { $0.terms.map(\.column) }
    for unique in schema.uniques where !indexed.contains(unique) { add(.unique, "UNIQUE", unique) }
  }

  // MARK: Types

  /// Returns the statement that creates or alters a type, without the DO block around it.
  static func bare(_ statement: String) -> PostgresTokens {
    let script = PostgresTokens(statement)
    guard script.tokens.first?.word == "do", case .string(let body)? = script.tokens.dropFirst().first?.kind else {
      return script
    }
    let inner = PostgresTokens(body)
    let end = inner.tokens.firstIndex { $0.isSymbol(";") } ?? inner.tokens.endIndex
    return PostgresTokens(inner.text(inner.tokens[..<end].drop { $0.word == "begin" }))
  }

  /// Reads `CREATE TYPE … AS ENUM`, `CREATE TYPE … AS (…)` or `CREATE DOMAIN`, alone or in a DO block.
  private mutating func readType(_ statement: String) {
    let script = Self.bare(statement)
    let tokens = script.tokens[...]
    let words = tokens.prefix(2).map(\.word)
    guard words == ["create", "type"] || words == ["create", "domain"],
      let place = tokens.firstIndex(where: { $0.word == "as" }), place > 2, place + 1 < tokens.count
    else { return }
    let name = tokens[2..<place].compactMap(\.name).map(\.quotedName).joined(separator: ".")
    let rest = tokens[(place + 1)...]
    let kind: PostgresUserType.Kind
    if words[1] == "domain" {
      kind = .domain(Self.domain(rest, script))
    } else if rest.first?.word == "enum" {
      let labels = rest.compactMap { token -> NameKey? in
        if case .string(let text) = token.kind { NameKey(Self.unquoted(text)) } else { nil }
      }
      kind = .enumeration(labels)
    } else if rest.first?.isSymbol("(") == true {
      let attributes = PostgresTokens.split(rest.dropFirst().dropLast(), at: ",").compactMap { part in
        part.first?.name.map { PostgresUserType.Attribute(name: $0, type: script.text(part.dropFirst())) }
      }
      kind = .composite(attributes)
    } else {
      return
    }
    types.append(.init(name: name, kind: kind))
  }

  /// Reads the definition of a domain: `integer DEFAULT 3 NOT NULL CONSTRAINT d_check CHECK (…)`.
  private static func domain(_ tokens: ArraySlice<PostgresTokens.Token>, _ script: PostgresTokens)
    -> PostgresUserType.Domain
  {
    var depth = 0
    var starts: [Int] = []
    for index in tokens.indices {
      if tokens[index].isSymbol("(") { depth += 1 }
      if tokens[index].isSymbol(")") { depth -= 1 }
      if depth == 0, ["default", "not", "constraint"].contains(tokens[index].word) { starts.append(index) }
    }
    var domain = PostgresUserType.Domain(defaultText: nil, isNotNull: false, checks: [])
    for (start, end) in zip(starts, starts.dropFirst() + [tokens.endIndex]) {
      let part = tokens[(start + 1)..<end]
      switch tokens[start].word {
      case "default": domain.defaultText = script.text(part)
      case "not": domain.isNotNull = true
      default: domain.checks.append(.init(name: part.first?.name ?? "", text: script.text(part.dropFirst())))
      }
    }
    return .init(defaultText: domain.defaultText, isNotNull: domain.isNotNull, checks: domain.checks)
  }

  private static func unquoted(_ literal: String) -> String {
    let isEscaped = literal.utf8.first != UInt8(ascii: "'")
    let inner = literal.utf8.dropFirst(isEscaped ? 2 : 1).dropLast()
    return String(undoubling: inner, UInt8(ascii: "'"), escape: isEscaped)
  }
}

extension TableSchema.Column {
  /// The definition of the column in CREATE TABLE.
  var postgresDefinition: String {
    let kind = identity == .always ? "ALWAYS" : "BY DEFAULT"
    return name.postgresIdentifier + " " + declaredType + collationClause
      + (identity == .none ? "" : " GENERATED \(kind) AS IDENTITY") + (defaultText.map { " DEFAULT \($0)" } ?? "")
      + (isNotNull ? " NOT NULL" : "")
  }

  /// The COLLATE clause of the column. A collation of PostgreSQL is already quoted.
  var collationClause: String {
    if collation.isEmpty { return "" }
    return " COLLATE " + (collation.has(".") ? collation : collation.quotedName)
  }
}
