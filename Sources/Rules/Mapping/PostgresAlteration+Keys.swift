import Changes

// Keys, checks and indexes.
extension PostgresAlteration {
  private func renamedColumns(_ columns: [String]) -> [String] { columns.map { renamed[$0] ?? $0 } }

  mutating func dropsOfKeys() -> [String] {
    var lines: [String] = []
    func drop(_ there: Target.Constraint) {
      dropped.add(there)
      lines.append(alter("DROP CONSTRAINT \(there.name.postgresIdentifier)"))
    }
    let wanted = PostgresForeignKey.all(of: after)
    for key in PostgresForeignKey.all(of: before) {
      guard let there = foreign(key),
        !wanted.contains(where: { foreign($0).map { $0.name.hasSameBytes(as: there.name) } ?? false })
      else { continue }
      drop(there)
    }
    for constraint in constraints.gone {
      guard let there = constraints.found[constraint], remade.isNamed(in: there.text) || !isWanted(there) else {
        continue
      }
      drop(there)
    }
    let kept = keptIndexes.map(\.0)
    for object in before.objects where remade.takes(object, target) || !kept.contains(object) {
      guard target.indexes.contains(where: { $0.name.hasSameBytes(as: object.name) }) else { continue }
      // The operator has already made the new index under this name.
      if !remade.takes(object, target),
        after.objects.contains(where: { $0.name.hasSameBytes(as: object.name) && isMade($0) })
      {
        continue
      }
      let name = indexNames[object.name.nameKey] ?? object.name
      dropped.indexes.insert(name.nameKey)
      lines.append("DROP INDEX \(after.namespace.postgresIdentifier).\(name.postgresIdentifier)")
    }
    return lines
  }

  /// Returns whether the target's constraint already has its new definition.
  private func isWanted(_ there: Target.Constraint) -> Bool {
    let pairs = Set(constraints.kept.values)
    return isKnown
      && new.constraints.indices.contains { index in
        let wanted = new.constraints[index]
        return !pairs.contains(index) && wanted.kind.target == there.kind && isMade(wanted, there)
      }
  }

  private func isMade(_ wanted: PostgresScript.Constraint, _ there: Target.Constraint) -> Bool {
    switch wanted.kind {
    case .primary, .unique: there.columns == wanted.columns && !target.columns.isEmpty && renamed.isEmpty
    case .check, .exclude: Words(there.text) == Words(wanted.text)
    }
  }

  /// Returns the statements that add generated columns and constraints, rename constraints and indexes, and set the
  /// replica identity and the owners of sequences.
  func additions() -> [String] {
    var lines = newGenerated()
    let gone = Set(constraints.gone.compactMap { constraints.found[$0]?.name.nameKey })
    let claimed = Set(constraints.kept.keys.compactMap { constraints.found[$0]?.name.nameKey })
    for (index, constraint) in new.constraints.enumerated() {
      if let place = constraints.kept.first(where: { $0.value == index })?.key {
        let was = old.constraints[place]
        guard let there = constraints.found[place], let name = constraint.name, was.name != nil,
          !there.name.hasSameBytes(as: name), there.name.hasSameBytes(as: was.name ?? "")
        else { continue }
        lines.append(alter("RENAME CONSTRAINT \(there.name.postgresIdentifier) TO \(name.postgresIdentifier)"))
        continue
      }
      let isThere = target.constraints.contains { there in
        guard there.kind == constraint.kind.target, !claimed.contains(there.name),
          !gone.contains(there.name) || (isWanted(there) && !remade.isNamed(in: there.text))
        else { return false }
        switch constraint.kind {
        case .primary, .unique: return renamedColumns(there.columns) == constraint.columns
        case .check, .exclude: return Words(there.text, renamed: renamed) == Words(constraint.text)
        }
      }
      if isThere { continue }
      lines.append(
        alter("ADD \(constraint.name.map { "CONSTRAINT \($0.postgresIdentifier) " } ?? "")\(constraint.text)"))
    }
    for (was, now) in keptIndexes
    where !was.name.hasSameBytes(as: now.name) && target.indexes.contains(where: { $0.name.hasSameBytes(as: was.name) })
    {
      let name = indexNames[was.name.nameKey] ?? was.name
      let free = ([now.name] + IndexNames.spare(for: now.name)).first {
        $0.hasSameBytes(as: name) || !target.takenNames.contains($0.nameKey)
      }
      guard let free, !free.hasSameBytes(as: name) else { continue }
      lines.append(
        "ALTER INDEX \(after.namespace.postgresIdentifier).\(name.postgresIdentifier)"
          + " RENAME TO \(free.postgresIdentifier)")
    }
    return lines + postscript()
  }

  private func postscript() -> [String] {
    let known = Set(old.postscript.map { Words($0, renamed: renamedWithTable) })
    func identifiesByAll(_ lines: [String]) -> Bool {
      lines.contains { PostgresTokens($0).tokens.map(\.word).suffix(3) == ["replica", "identity", "full"] }
    }
    let (was, now) = (identifiesByAll(old.postscript), identifiesByAll(new.postscript))
    let owners = new.postscript.filter { PostgresTokens($0).tokens.first?.word == "alter" && !identifiesByAll([$0]) }
    return owners.filter { !known.contains(Words($0)) }
      + (was == now || new.columns.isEmpty ? [] : [alter("REPLICA IDENTITY \(now ? "FULL" : "DEFAULT")")])
  }

  // MARK: Indexes

  /// Returns whether an index is unchanged, except for renamed tables and columns.
  private func isSame(_ was: TableSchema.Object, _ now: TableSchema.Object) -> Bool {
    let isRenamed =
      !after.objects.contains { $0.name.hasSameBytes(as: was.name) }
      && !before.objects.contains { $0.name.hasSameBytes(as: now.name) }
    guard was.name.hasSameBytes(as: now.name) || isRenamed else { return false }
    var names = renamedWithTable
    if !was.name.hasSameBytes(as: now.name) { names[was.name] = now.name }
    return was == now || Words(was.text, renamed: names) == Words(now.text)
  }

  private var keptIndexes: [(TableSchema.Object, TableSchema.Object)] {
    var free = after.objects
    return before.objects.compactMap { was in
      // If several indexes are alike, one of them gets the new name.
      free.firstIndex { isSame(was, $0) }.map { (was, free.remove(at: $0)) }
    }
  }

  /// Returns whether the target already has an index with the name, columns and uniqueness of `wanted`.
  func isMade(_ wanted: TableSchema.Object) -> Bool {
    guard isKnown, let there = target.indexes.first(where: { $0.name.hasSameBytes(as: wanted.name) }) else {
      return false
    }
    return IndexNames.isAlike(there, wanted, in: after)
  }

  /// Returns whether the target already has this index, perhaps with old names of the index, the table or the columns.
  func isKept(_ object: TableSchema.Object) -> Bool {
    keptIndexes.contains { was, now in now == object && target.indexes.contains { $0.name.hasSameBytes(as: was.name) } }
  }

  /// Returns whether the source's table had the index before the schema change.
  func wasBefore(_ object: TableSchema.Object) -> Bool {
    isKnown && before.objects.contains { $0.name.hasSameBytes(as: object.name) && isSame($0, object) }
  }

  // MARK: Foreign keys

  private func foreign(_ key: PostgresForeignKey) -> Target.Constraint? {
    let wanted = Words(key.text)
    return target.constraints.first { there in
      guard there.kind == .foreign else { return false }
      let text = key.meansPrimaryKey ? Self.withoutReferences(there.text) : there.text
      return Words(text) == wanted || Words(text, renamed: renamed) == wanted
    }
  }

  /// Returns a foreign key without the names of the referenced columns: `REFERENCES t` instead of `REFERENCES t(id)`.
  private static func withoutReferences(_ text: String) -> String {
    let script = PostgresTokens(text)
    guard let place = script.tokens.firstIndex(where: { $0.word == "references" }),
      let open = script.tokens[place...].firstIndex(where: { $0.isSymbol("(") }),
      let close = script.tokens[open...].firstIndex(where: { $0.isSymbol(")") })
    else { return text }
    return script.text(script.tokens[..<open]) + " " + script.text(script.tokens[(close + 1)...])
  }

  /// Returns whether the source's table had the foreign key before the schema change.
  func wasBefore(_ key: PostgresForeignKey) -> Bool {
    isKnown
      && PostgresForeignKey.all(of: before).contains {
        $0.name.hasSameBytes(as: key.name) && Words($0.text, renamed: renamed) == Words(key.text)
      }
  }

  /// Returns whether the target has the foreign key, in its definition from before or after the schema change.
  func has(_ key: PostgresForeignKey) -> Bool { foreign(key) != nil }
}

extension PostgresScript.Constraint.Kind {
  var target: PostgresAlteration.Target.Constraint.Kind {
    switch self {
    case .primary: .primary
    case .unique: .unique
    case .check: .check
    case .exclude: .exclude
    }
  }
}

extension PostgresAlteration.Target {
  /// Creates the description of the table that PostgreSQL makes from `schema`. Constraints without a name get the name
  /// that PostgreSQL would choose.
  init(expecting schema: TableSchema, _ script: PostgresScript, types known: [PostgresUserType]) {
    self.init(
      namespace: schema.namespace, name: schema.name,
      columns: schema.columns.map {
        .init(name: $0.name, type: $0.declaredType, isNotNull: $0.isNotNull, identity: $0.identity)
      }, constraints: [], indexes: schema.objects)
    columns += script.columns.filter(\.isGenerated).map {
      .init(name: $0.name, type: "", isNotNull: false, isGenerated: true)
    }
    for constraint in script.constraints {
      let parts =
        switch constraint.kind {
        case .primary: [schema.name, "pkey"]
        case .unique: [schema.name] + constraint.columns + ["key"]
        case .check: [schema.name, "check"]
        case .exclude: [schema.name, "excl"]
        }
      constraints.append(
        .init(
          name: constraint.name ?? PostgresForeignKey.constraintName(parts), kind: constraint.kind.target,
          columns: constraint.columns, text: constraint.text))
    }
    types = known + script.types
    constraints += PostgresForeignKey.all(of: schema).map {
      .init(name: $0.name, kind: .foreign, columns: $0.columns, text: $0.text)
    }
  }
}
