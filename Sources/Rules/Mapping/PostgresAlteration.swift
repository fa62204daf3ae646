import Changes

/// The statements that give a PostgreSQL target's table the new shape of the source's table. Parts that already have
/// the new shape are not changed. Nothing is dropped with CASCADE, so objects of applications stay.
///
///     for statement in PostgresAlteration(before, after).all { try connection.execute(statement) }
package struct PostgresAlteration {
  /// A table of the target, from PostgreSQL's catalog.
  package struct Target {
    package struct Constraint: Equatable {
      package enum Kind: Equatable, Sendable {
        case primary, unique, check, foreign, exclude
      }
      @ByBytes package var name: String
      package var kind: Kind
      @ByBytes package var columns: [String]
      @ByBytes package var text: String
      package init(name: String, kind: Kind, columns: [String], text: String) {
        (self.name, self.kind, self.columns, self.text) = (name, kind, columns, text)
      }
    }

    package struct Column: Equatable {
      @ByBytes package var name: String
      @ByBytes package var type: String
      package var isNotNull: Bool
      package var isGenerated: Bool
      package var identity: TableSchema.Identity
      /// The collation, in SQL, if it is not the one of the type; otherwise empty.
      @ByBytes package var collation: String = ""
      /// The default, in SQL, except that of a generated column.
      @ByBytes package var defaultText: String? = nil
      package init(
        name: String, type: String, isNotNull: Bool, isGenerated: Bool = false, identity: TableSchema.Identity = .none
      ) {
        (self.name, self.type, self.isNotNull) = (name, type, isNotNull)
        (self.isGenerated, self.identity) = (isGenerated, identity)
      }
    }

    package var namespace: String
    package var name: String
    package var columns: [Column]
    package var constraints: [Constraint]
    package var indexes: [TableSchema.Object]
    /// The table's user-defined types that may be altered.
    package var types: [PostgresUserType] = []
    /// The names in the table's schema that are in use, among those that its indexes lack.
    package var takenNames: Set<NameKey> = []
    /// The statements before a move to another schema: they rename indexes and sequences of other tables there.
    package var makesRoom: [String] = []
    /// The statements after a rename or a move: they give indexes and sequences the names that they had before
    /// another table took these names.
    package var restoresNames: [String] = []
    /// Whether Cairn created the table.
    package var isCreated = true
    package init(
      namespace: String, name: String, columns: [Column], constraints: [Constraint], indexes: [TableSchema.Object]
    ) {
      (self.namespace, self.name, self.columns) = (namespace, name, columns)
      (self.constraints, self.indexes) = (constraints, indexes)
    }
  }

  package let before: TableSchema
  package let after: TableSchema
  package let difference: TableDifference
  let target: Target
  /// The names of indexes at the target that differ from their names at the source, by the latter.
  let indexNames: [NameKey: String]
  /// Whether the target was examined. If not, its table is assumed to have the shape `before`.
  let isKnown: Bool
  /// Whether a refresh brings the rows again. Capture refreshes a table whose generated column becomes a plain one. If
  /// there is no refresh, the plain column is another column with the same name.
  let isRefreshed: Bool
  let old: PostgresScript
  let new: PostgresScript
  private(set) var constraints = PairedConstraints()

  /// The statements that add labels to enums. Commit them first: PostgreSQL cannot use a label in the transaction that
  /// adds it.
  package private(set) var labels: [String] = []
  /// The statements for types, sequences, columns, keys and checks, in the order in which they must run.
  package private(set) var statements: [String] = []
  /// The indexes to create after ``statements`` have dropped the old indexes.
  package private(set) var newIndexes: [TableSchema.Object] = []
  package private(set) var newForeignKeys: [PostgresForeignKey] = []

  /// The generated columns that are dropped and added again.
  private(set) var remade = RemadeColumns()
  /// The indexes and constraints of the target that ``statements`` drop.
  package internal(set) var dropped = DroppedObjects()

  /// Computes the statements that give the target's table the shape `after`.
  ///
  /// - Parameter origins: For each column of `after`, its index in `before`, from the trail (``DDL/origins``).
  /// - Parameter target: The table at the target; nil if the target was not examined.
  /// - Parameter types: The user-defined types at the target. They are used only if `target` is nil.
  /// - Parameter isRefreshed: Whether a refresh brings the rows again.
  package init(
    _ before: TableSchema, _ after: TableSchema, origins: [Int?]? = nil, target: Target? = nil,
    types: [PostgresUserType] = [], isRefreshed: Bool = true
  ) {
    (self.before, self.after, self.isRefreshed) = (before, after, isRefreshed)
    difference = TableDifference(before, after, origins: origins)
    // The table was renamed and its new script is not known yet: compare columns and keys only.
    var known = before
    if after.createText.isEmpty { known.createText = "" }
    (old, new) = (PostgresScript(known), PostgresScript(after))
    isKnown = target != nil
    var there = target ?? Target(expecting: before, old, types: types)
    indexNames = IndexNames.adopt(&there, before, after)
    self.target = there
    remade = remadeColumns
    if after.createText.isEmpty {
      dropped.constraints = Set(PostgresScript(before).constraints.compactMap { $0.name?.nameKey })
    }
    constraints = PairedConstraints(old, new, at: self.target, renamed: renamed, remade: remade)
    labels = labelStatements()
    var lines = moves()
    lines += preamble()
    lines += drops()
    lines += renames()
    lines += typeChanges()
    lines += columnChanges()
    lines += additions()
    statements = lines
    newIndexes = after.objects.filter {
      remade.takes($0, self.target) || (!isKept($0) && !isMade($0) && !wasBefore($0))
    }
    newForeignKeys = PostgresForeignKey.all(of: after).filter { !has($0) && !wasBefore($0) }
  }

  package var all: [String] { labels + statements + newIndexes.map(\.text) + newForeignKeys.map(\.statement) }

  /// Whether the statements drop columns, or give them other types.
  package var replacesColumns: Bool {
    statements.contains { $0.contains(" DROP COLUMN ") || $0.contains(" TYPE ") }
  }

  /// The former names of the columns that the table no longer has after the schema change.
  package var goneColumns: Set<NameKey> {
    let all = before.columns.indices.filter { !difference.origins.contains($0) }.map { before.columns[$0].name }
    return Set((all + old.columns.filter(\.isGenerated).map(\.name)).map(\.nameKey)).subtracting(remade.names)
  }

  /// The name by which the target has the table before the schema change, in SQL.
  package var place: String { "\(target.namespace.quotedName).\(target.name.quotedName)" }

  var name: String { after.postgresIdentifier }
  func alter(_ action: String) -> String { "ALTER TABLE \(name) \(action)" }

  /// The new names of renamed columns and of the renamed table, by old name.
  var renamedWithTable: [NameKey: String] {
    var names = renamed
    if !before.name.hasSameBytes(as: after.name) { names[before.name] = after.name }
    if !before.namespace.hasSameBytes(as: after.namespace) { names[before.namespace] = after.namespace }
    return names
  }

  /// The new names of renamed columns, by old name.
  var renamed: [NameKey: String] {
    var names: [NameKey: String] = [:]
    for (index, origin) in difference.origins.enumerated() {
      guard let origin, !before.columns[origin].name.hasSameBytes(as: after.columns[index].name) else { continue }
      names[before.columns[origin].name] = after.columns[index].name
    }
    return names
  }

  // MARK: The table itself

  private func moves() -> [String] {
    let (from, to) = ((target.namespace, target.name), (after.namespace, after.name))
    let (isMoved, isRenamed) = (!from.0.hasSameBytes(as: to.0), !from.1.hasSameBytes(as: to.1))
    var lines = target.makesRoom
    var name = target.name
    func place(_ namespace: String, _ name: String) -> String {
      namespace.postgresIdentifier + "." + name.postgresIdentifier
    }
    // Between the two steps, another table may have one of the two names in the other schema: use a temporary name.
    if isMoved, isRenamed {
      name = "cairn_moving"
      lines.append("ALTER TABLE \(place(from.0, from.1)) RENAME TO \(name)")
    }
    if isMoved {
      if to.0 != "public" { lines.append("CREATE SCHEMA IF NOT EXISTS \(to.0.postgresIdentifier)") }
      lines.append("ALTER TABLE \(place(from.0, name)) SET SCHEMA \(to.0.postgresIdentifier)")
    }
    if !name.hasSameBytes(as: to.1) {
      lines.append("ALTER TABLE \(place(to.0, name)) RENAME TO \(to.1.postgresIdentifier)")
    }
    return lines + target.restoresNames
  }

  /// Returns the statements that create the types and sequences of new columns, or change the options of existing
  /// sequences.
  private func preamble() -> [String] {
    let known = Set(old.preamble.map { Words($0) })
    let sequences = Dictionary(
      old.preamble.compactMap { text in Self.sequence(text).map { ($0, text) } },
      uniquingKeysWith: { first, _ in first })
    return new.preamble.compactMap { text in
      if known.contains(Words(text)) || isOfType(text) { return nil }
      guard let sequence = Self.sequence(text), sequences[sequence] != nil else { return text }
      return "ALTER SEQUENCE \(sequence) " + Self.sequenceOptions(text)
    }
  }

  /// Returns whether the statement alters a user-defined type, or creates one that the target already has.
  private func isOfType(_ text: String) -> Bool {
    let script = PostgresScript.bare(text)
    let words = script.tokens.prefix(2).map(\.word)
    if words == ["alter", "type"] { return true }
    guard words == ["create", "type"] || words == ["create", "domain"] else { return false }
    let name = script.tokens.dropFirst(2).prefix { $0.word != "as" }.compactMap(\.name)
    return target.types.contains { $0.name.hasSameBytes(as: name.map(\.quotedName).joined(separator: ".")) }
  }

  private static func sequenceWords(_ text: String) -> (script: PostgresTokens, name: Range<Int>)? {
    let script = PostgresTokens(text)
    guard script.tokens.prefix(5).map(\.word) == ["create", "sequence", "if", "not", "exists"] else { return nil }
    var end = 6
    while end + 1 < script.tokens.count, script.tokens[end].isSymbol(".") { end += 2 }
    return end <= script.tokens.count ? (script, 5..<end) : nil
  }

  private static func sequence(_ text: String) -> String? {
    sequenceWords(text).map { $0.script.text($0.script.tokens[$0.name]) }
  }

  private static func sequenceOptions(_ text: String) -> String {
    guard let (script, name) = sequenceWords(text) else { return "" }
    return script.text(script.tokens[name.upperBound...])
  }

  // MARK: Types

  private func typeChanges() -> [String] {
    changedTypes.flatMap { there, wanted in there.statements(to: wanted) }
  }

  private var changedTypes: [(there: PostgresUserType, wanted: PostgresUserType)] {
    new.types.filter { !old.types.contains($0) }.compactMap { wanted in
      guard let there = target.types.first(where: { $0.name.hasSameBytes(as: wanted.name) }) else { return nil }
      if let was = old.types.first(where: { $0.name.hasSameBytes(as: wanted.name) }) {
        return (there.compared(to: was, wanted), wanted)
      }
      // A domain that the table did not use before stays unchanged.
      if case .domain = there.kind { return nil }
      return (there, wanted)
    }
  }

  /// The names of types that ``statements`` alter. Other tables may use these types too.
  package var alteredTypes: [String] {
    changedTypes.filter { there, wanted in !there.statements(to: wanted).isEmpty }.map(\.wanted.name)
  }

  // MARK: Labels of enums

  package static func isLabel(_ text: String) -> Bool {
    let words = PostgresTokens(text).tokens.map(\.word)
    return words.starts(with: ["alter", "type"]) && words.contains("add") && words.contains("value")
  }

  private func labelStatements() -> [String] {
    new.types.flatMap { type -> [String] in
      guard case .enumeration(let labels) = type.kind,
        case .enumeration(let was)? = old.types.first(where: { $0.name.hasSameBytes(as: type.name) })?.kind
      else { return [] }
      if case .enumeration(let there)? = target.types.first(where: { $0.name.hasSameBytes(as: type.name) })?.kind,
        labels.allSatisfy(there.contains)
      {
        return []
      }
      return Self.labelStatements(type.name, from: was, to: labels)
    }
  }

  /// Returns the statements that change the labels of an enum from `old` to `new`. Labels are renamed if only their
  /// names differ. Otherwise, missing labels are added.
  static func labelStatements(_ type: String, from old: [NameKey], to new: [NameKey]) -> [String] {
    let (was, now) = (Set(old), Set(new))
    if old.count == new.count, was != now,
      zip(old, new).allSatisfy({ $0 == $1 || (!now.contains($0) && !was.contains($1)) })
    {
      return zip(old, new).filter { $0 != $1 }.map {
        "ALTER TYPE \(type) RENAME VALUE \($0.text.postgresLiteral) TO \($1.text.postgresLiteral)"
      }
    }
    return additions(type, to: old, from: new)
  }

  /// Returns the statements that add the missing labels of an enum, each after the preceding label.
  ///
  ///     additions("mood", to: ["ok"], from: ["ok", "new"])
  ///     // ["ALTER TYPE mood ADD VALUE IF NOT EXISTS 'new' AFTER 'ok'"]
  private static func additions(_ type: String, to old: [NameKey], from new: [NameKey]) -> [String] {
    let known = Set(old)
    return new.indices.filter { !known.contains(new[$0]) }.map { index in
      let place: String
      if index > 0 {
        place = " AFTER \(new[index - 1].text.postgresLiteral)"
      } else {
        place = new.first { known.contains($0) }.map { " BEFORE \($0.text.postgresLiteral)" } ?? ""
      }
      return "ALTER TYPE \(type) ADD VALUE IF NOT EXISTS \(new[index].text.postgresLiteral)\(place)"
    }
  }

  /// Returns the statements that add missing labels to the enums of a table (`ALTER TYPE … ADD VALUE`).
  ///
  /// - Parameter there: A function that returns the target's labels of a type; nil if the type does not exist.
  package static func missingLabels(of schema: TableSchema, there: (String) throws -> [NameKey]?) rethrows -> [String] {
    try PostgresScript(schema).types.flatMap { type -> [String] in
      guard case .enumeration(let wanted) = type.kind, let labels = try there(type.name) else { return [] }
      // Never rename a label here: other tables may use the existing one.
      return Self.additions(type.name, to: labels, from: wanted)
    }
  }
}

/// The words of a statement without spaces and quotes, for a comparison with another statement.
struct Words: Hashable {
  private let text: NameKey
  init(_ statement: String, renamed: [NameKey: String] = [:]) {
    let words = PostgresTokens.meaning(statement, renamed: renamed).map { kind in
      switch kind {
      case .name(let name, _): "n\(name)"
      case .string(let text): "s\(text)"
      case .symbol(let byte): "y\(byte)"
      }
    }.joined(separator: "\u{1}")
    text = NameKey(words)
  }
}
