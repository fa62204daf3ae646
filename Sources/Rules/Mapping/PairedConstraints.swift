import Changes

/// The constraints of the source's table before and after a schema change, and those of the target, each with its
/// counterpart. Several constraints may say the same: those of the same name belong together first.
struct PairedConstraints {
  /// For each constraint before that stays, by its index, the index of its counterpart after the schema change.
  private(set) var kept: [Int: Int] = [:]
  /// For each constraint before, by its index, the target's constraint that corresponds to it.
  private(set) var found: [Int: PostgresAlteration.Target.Constraint] = [:]
  /// The constraints before that have no counterpart after the schema change, by their index.
  private(set) var gone: [Int] = []

  init() {}

  /// - Parameter renamed: The new names of renamed columns, by old name.
  init(
    _ old: PostgresScript, _ new: PostgresScript, at target: PostgresAlteration.Target, renamed: [NameKey: String],
    remade: RemadeColumns
  ) {
    pair(old.constraints, new.constraints) { was, now in
      was.kind == now.kind && !remade.isNamed(in: was.text) && Words(was.text, renamed: renamed) == Words(now.text)
    }
    gone = old.constraints.indices.filter { kept[$0] == nil }
    find(old.constraints, target.constraints)
  }

  private mutating func pair(
    _ old: [PostgresScript.Constraint], _ new: [PostgresScript.Constraint],
    _ isSame: (PostgresScript.Constraint, PostgresScript.Constraint) -> Bool
  ) {
    var free = Array(new.indices)
    for isNamed in [true, false] {
      for (index, was) in old.enumerated() where kept[index] == nil {
        let place = free.firstIndex { now in
          isSame(was, new[now]) && (!isNamed || was.name.hasSameBytes(as: new[now].name))
        }
        if let place { kept[index] = free.remove(at: place) }
      }
    }
  }

  private mutating func find(_ old: [PostgresScript.Constraint], _ there: [PostgresAlteration.Target.Constraint]) {
    var free = there
    func take(
      _ indices: [Int], _ fits: (PostgresScript.Constraint, PostgresAlteration.Target.Constraint) -> Bool
    ) {
      for index in indices where found[index] == nil {
        let place = free.firstIndex { $0.kind == old[index].kind.target && fits(old[index], $0) }
        if let place { found[index] = free.remove(at: place) }
      }
    }
    take(Array(old.indices)) { was, there in was.name.map { $0.hasSameBytes(as: there.name) } ?? false }
    for indices in [old.indices.filter { kept[$0] != nil }, gone] {
      take(indices) { was, there in
        switch was.kind {
        case .primary: true
        case .unique: there.columns == was.columns
        case .check, .exclude: Words(there.text) == Words(was.text)
        }
      }
    }
  }
}

/// The generated columns that a schema change drops and adds again. PostgreSQL drops their indexes and constraints.
struct RemadeColumns {
  var names: Set<NameKey> = []

  /// Returns whether a definition names one of the columns.
  func isNamed(in text: String) -> Bool {
    !names.isEmpty && PostgresTokens(text).tokens.contains { $0.name.map { names.contains($0.nameKey) } ?? false }
  }

  /// Returns whether the target has an index that goes with one of the columns.
  func takes(_ object: TableSchema.Object, _ target: PostgresAlteration.Target) -> Bool {
    isNamed(in: object.text) && target.indexes.contains { $0.name.hasSameBytes(as: object.name) }
  }
}

/// The names of the target's objects that a schema change drops by name.
package struct DroppedObjects {
  /// Foreign keys of other tables may need these indexes.
  package internal(set) var indexes: Set<NameKey> = []
  var constraints: Set<NameKey> = []

  mutating func add(_ constraint: PostgresAlteration.Target.Constraint) {
    constraints.insert(constraint.name.nameKey)
    if [.primary, .unique, .exclude].contains(constraint.kind) { indexes.insert(constraint.name.nameKey) }
  }

  package func contains(_ name: String) -> Bool {
    indexes.contains(name.nameKey) || constraints.contains(name.nameKey)
  }
}

/// A column that gets another type. Whatever else the schema change does not alter stays as the target has it.
struct RetypedColumn {
  let was: TableSchema.Column
  let now: TableSchema.Column
  /// The column at the target; nil if it was not examined.
  let there: PostgresAlteration.Target.Column?

  /// The default after the change, in SQL.
  var defaultText: String? {
    guard let there, let old = was.defaultText, let new = now.defaultText, Self.isSameDefault(old, new),
      !Self.isSameDefault(there.defaultText ?? "", old)
    else { return now.defaultText }
    return there.defaultText
  }

  /// Returns whether two defaults are equal apart from a cast at the end, such as `'x'::text`.
  private static func isSameDefault(_ one: String, _ other: String) -> Bool {
    func bare(_ text: String) -> Words {
      let script = PostgresTokens(text)
      let end = script.tokens.indices.first { index in
        script.tokens[index].isSymbol(":") && index + 1 < script.tokens.count && script.tokens[index + 1].isSymbol(":")
      }
      return Words(script.text(script.tokens[..<(end ?? script.tokens.endIndex)]))
    }
    return bare(one) == bare(other)
  }

  /// The COLLATE clause.
  var collation: String {
    guard let there, was.collation.hasSameBytes(as: now.collation), PostgresType(was).isText, PostgresType(now).isText
    else { return now.collationClause }
    return there.collation.isEmpty ? "" : " COLLATE \(there.collation)"
  }

  /// The USING clause; empty if PostgreSQL can cast the values without changing them.
  var conversion: String {
    let (from, to) = (PostgresType(was), PostgresType(now))
    if from.name.hasSameBytes(as: to.name) || (!from.isUserDefined && !to.isUserDefined && from.isHeld(by: to)) {
      return ""
    }
    let name = now.name.postgresIdentifier
    // In SQLite, booleans are the integers 0 and 1.
    if from.kind == .bool, to.isNumeric { return " USING \(name)::integer::\(now.declaredType)" }
    return " USING \(name)::text::\(now.declaredType)"
  }
}
