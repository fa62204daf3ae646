import Changes

/// A user-defined type that can be altered: an enum, a composite type or a domain. Types are compared by the bytes of
/// their texts.
package struct PostgresUserType: Equatable {
  package struct Attribute: Equatable {
    package var name: String
    /// The type of the attribute, from `format_type()`.
    package var type: String
    package init(name: String, type: String) { (self.name, self.type) = (name, type) }
    package static func == (a: Self, b: Self) -> Bool {
      a.name.hasSameBytes(as: b.name) && a.type.hasSameBytes(as: b.type)
    }
    var definition: String { "\(name.postgresIdentifier) \(type)" }
  }

  package struct Check: Equatable {
    package var name: String
    /// The definition of the CHECK constraint, from `pg_get_constraintdef()`.
    package var text: String
    package init(name: String, text: String) { (self.name, self.text) = (name, text) }
    package static func == (a: Check, b: Check) -> Bool {
      a.name.hasSameBytes(as: b.name) && Words(a.text) == Words(b.text)
    }
  }

  package struct Domain: Equatable {
    package var defaultText: String?
    package var isNotNull: Bool
    package var checks: [Check]
    package init(defaultText: String?, isNotNull: Bool, checks: [Check]) {
      (self.defaultText, self.isNotNull) = (defaultText, isNotNull)
      self.checks = checks.sorted { $0.name.nameKey < $1.name.nameKey }
    }
    package static func == (a: Self, b: Self) -> Bool {
      a.defaultText.hasSameBytes(as: b.defaultText) && a.isNotNull == b.isNotNull && a.checks == b.checks
    }
  }

  package enum Kind: Equatable {
    case enumeration([NameKey])
    case composite([Attribute])
    case domain(Domain)
  }

  /// The schema and the name of the type, each in double quotes: `"shop"."money"`.
  package var name: String
  package var kind: Kind
  package init(name: String, kind: Kind) { (self.name, self.kind) = (name, kind) }

  package static func == (a: Self, b: Self) -> Bool { a.name.hasSameBytes(as: b.name) && a.kind == b.kind }

  /// Returns the user-defined types that the columns of a table use.
  package static func all(of schema: TableSchema) -> [PostgresUserType] { PostgresScript(schema).types }

  /// Returns this type of the target without the CHECKs whose names neither `was` nor `wanted` has, for a comparison
  /// with these types.
  package func compared(to was: PostgresUserType, _ wanted: PostgresUserType) -> PostgresUserType {
    guard case .domain(var domain) = kind, case .domain(let old) = was.kind, case .domain(let new) = wanted.kind else {
      return self
    }
    domain.checks.removeAll { check in !(old.checks + new.checks).contains { $0.name.hasSameBytes(as: check.name) } }
    return .init(name: name, kind: .domain(domain))
  }

  /// Returns the statements that change this type into `wanted`, except for enum labels. Empty if the kinds differ.
  package func statements(to wanted: PostgresUserType) -> [String] {
    switch (kind, wanted.kind) {
    case (.composite(let old), .composite(let new)): composite(from: old, to: new)
    case (.domain(let old), .domain(let new)): domain(from: old, to: new)
    default: []
    }
  }

  // MARK: Composite types

  /// Returns the statements for dropped, renamed, retyped and added attributes. New attributes must be at the end.
  private func composite(from old: [Attribute], to new: [Attribute]) -> [String] {
    let survivors = Self.survivors(old, new)
    let kept = Set(survivors)
    var lines = old.indices.filter { !kept.contains($0) }.map { "DROP ATTRIBUTE \(old[$0].name.postgresIdentifier)" }
    lines += Self.renames(survivors.enumerated().map { (old[$1].name, new[$0].name) })
    for (place, origin) in survivors.enumerated() where !old[origin].type.hasSameBytes(as: new[place].type) {
      lines.append("ALTER ATTRIBUTE \(new[place].name.postgresIdentifier) TYPE \(new[place].type)")
    }
    lines += new[survivors.count...].map { "ADD ATTRIBUTE \($0.definition)" }
    return lines.map { "ALTER TYPE \(name) \($0)" }
  }

  /// Returns the index in `old` of each attribute of `new` that already existed. All new attributes come after these.
  private static func survivors(_ old: [Attribute], _ new: [Attribute]) -> [Int] {
    let (before, after) = (Set(old.map(\.name.nameKey)), Set(new.map(\.name.nameKey)))
    var survivors: [Int] = []
    var next = 0
    for (place, attribute) in new.enumerated() {
      let rest = old.indices.dropFirst(next)
      // The old attributes before it that no longer exist, and the attribute that it comes from.
      let gone = rest.prefix { !after.contains(old[$0].name) }
      let found: Int?
      if let same = rest.first(where: { old[$0] == attribute }) {
        found = same
      } else if before.contains(attribute.name) {
        // An attribute of another type: at the end, it may also have been dropped and added.
        let behind = rest.dropFirst(gone.count + 1)
        let isInside = behind.contains { new[(place + 1)...].contains(old[$0]) }
        found = rest.dropFirst(gone.count).first.flatMap {
          isInside && old[$0].name.hasSameBytes(as: attribute.name) ? $0 : nil
        }
      } else {
        found = gone.first { old[$0].type.hasSameBytes(as: attribute.type) }
      }
      guard let found else { break }
      survivors.append(found)
      next = found + 1
    }
    return survivors
  }

  /// Returns the rename statements in an order in which each new name is free. In a cycle, one attribute gets a
  /// temporary name.
  private static func renames(_ pairs: [(String, String)]) -> [String] {
    let renames = pairs.filter { !$0.0.hasSameBytes(as: $0.1) }.map { (old: $0.0, new: $0.1) }
    return RenameOrder(renames, taken: Set(renames.map(\.old.nameKey))).steps.map { old, new in
      "RENAME ATTRIBUTE \(old.postgresIdentifier) TO \(new.postgresIdentifier)"
    }
  }

  // MARK: Domains

  private func domain(from old: Domain, to new: Domain) -> [String] {
    var lines = old.checks.filter { !new.checks.contains($0) }.map { "DROP CONSTRAINT \($0.name.postgresIdentifier)" }
    if !old.defaultText.hasSameBytes(as: new.defaultText) {
      lines.append(new.defaultText.map { "SET DEFAULT \($0)" } ?? "DROP DEFAULT")
    }
    if old.isNotNull != new.isNotNull { lines.append("\(new.isNotNull ? "SET" : "DROP") NOT NULL") }
    lines += new.checks.filter { !old.checks.contains($0) }.map {
      "ADD CONSTRAINT \($0.name.postgresIdentifier) \($0.text)"
    }
    return lines.map { "ALTER DOMAIN \(name) \($0)" }
  }
}

extension TableSchema {
  /// The names in the definition of a PostgreSQL table that are or may be types, by quoted schema and name.
  ///
  /// The types in `certain` are the types of columns and casts. The names in `possible` may also name tables, columns
  /// and functions.
  ///
  ///     // CREATE TABLE public.t (id integer, price shop.money DEFAULT '0'::shop.money, CHECK (shop.f(price)))
  ///     table.namedTypes.certain   // ["\"shop\".\"money\""]
  ///     table.namedTypes.possible  // ["\"public\".\"t\"", "\"shop\".\"f\"", "\"shop\".\"money\""]
  package var namedTypes: (certain: Set<NameKey>, possible: Set<NameKey>) {
    var (certain, possible): (Set<NameKey>, Set<NameKey>) = ([], [])
    func read(_ script: PostgresTokens, isType: Bool = false) {
      let tokens = script.tokens
      for index in tokens.indices.dropLast(2) {
        guard let schema = tokens[index].name, tokens[index + 1].isSymbol("."), let name = tokens[index + 2].name else {
          continue
        }
        let full = NameKey("\(schema.quotedName).\(name.quotedName)")
        let isCast = index > 1 && tokens[index - 1].isSymbol(":") && tokens[index - 2].isSymbol(":")
        if isType || isCast { certain.insert(full) } else { possible.insert(full) }
      }
    }
    for column in columns {
      read(PostgresTokens(column.declaredType), isType: true)
      if let text = column.defaultText { read(PostgresTokens(text)) }
    }
    let script = PostgresTokens(createText)
    for statement in PostgresTokens.split(script.tokens[...], at: ";") {
      read(PostgresScript.bare(script.text(statement)))
    }
    for object in objects { read(PostgresTokens(object.text)) }
    return (certain, possible)
  }
}
