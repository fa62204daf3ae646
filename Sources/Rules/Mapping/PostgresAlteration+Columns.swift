import Changes

// Dropped, added and changed columns.
extension PostgresAlteration {
  private func has(_ column: String) -> Bool { target.columns.contains { $0.name.hasSameBytes(as: column) } }

  /// The generated columns that must be dropped and added again. Their expression has changed, or a column in the
  /// expression gets another type.
  private var staleGenerated: [PostgresScript.Column] {
    let kept = Set(new.columns.filter(\.isGenerated).map { Words($0.text) })
    let retyped = difference.changes.compactMap { change -> String? in
      if case .retypeColumn(let old, _) = change { before.columns[old].name } else { nil }
    }
    return old.columns.filter { column in
      guard column.isGenerated else { return false }
      let words = PostgresTokens(column.text).tokens.compactMap(\.name)
      return !kept.contains(Words(column.text, renamed: renamed)) || retyped.contains(where: words.contains)
    }
  }

  /// The generated columns that ``drops()`` drops and ``newGenerated()`` adds again.
  var remadeColumns: RemadeColumns {
    let names = staleGenerated.map(\.name).filter { name in
      has(name) && new.columns.contains { $0.name.hasSameBytes(as: name) && $0.isGenerated }
    }
    return RemadeColumns(names: Set(names.map(\.nameKey)))
  }

  private enum Fate { case kept, plain, dropped }

  /// The generated columns of the target that do not stay as they are, each with what ``drops()`` does with it.
  private var fates: [(name: String, fate: Fate)] {
    staleGenerated.map(\.name).filter(has).map { name in
      guard let index = after.columns.firstIndex(where: { $0.name.hasSameBytes(as: name) }), !new.hasGenerated(name)
      else { return (name, .dropped) }
      // If the operator has made the change, the column is plain already.
      if !isGenerated(name, in: target.columns) { return (name, .kept) }
      // A column whose generation expression was removed keeps its values, unless a renamed column takes its name.
      return (name, isRefreshed && difference.origins[index] == nil ? .plain : .dropped)
    }
  }

  mutating func drops() -> [String] {
    var lines = dropsOfKeys()
    for (name, fate) in fates {
      switch fate {
      case .kept: continue
      case .plain: lines.append(alter("ALTER COLUMN \(name.postgresIdentifier) DROP EXPRESSION"))
      case .dropped: lines.append(alter("DROP COLUMN \(name.postgresIdentifier)"))
      }
    }
    for index in before.columns.indices where !difference.origins.contains(index) {
      let name = before.columns[index].name
      guard isThere(before: index) else { continue }
      lines.append(alter("DROP COLUMN \(name.postgresIdentifier)"))
    }
    return lines
  }

  /// Returns whether the target still has the column with this index in the shape `before`, under its old name.
  private func isThere(before index: Int) -> Bool {
    let name = before.columns[index].name
    guard has(name) else { return false }
    // If the operator has made the change, a generated column has the name of this one.
    if new.hasGenerated(name), isGenerated(name, in: target.columns) { return false }
    guard isKnown, let fresh = after.columns.firstIndex(where: { $0.name.hasSameBytes(as: name) }) else { return true }
    // If the operator has made the change, the new column exists with its type, and no rename is left to do.
    let there = target.columns.first { $0.name.hasSameBytes(as: name) }
    let isDone = there?.type == after.columns[fresh].declaredType && isRenamed
    return !isDone || before.columns[index].declaredType == after.columns[fresh].declaredType
  }

  private var isRenamed: Bool {
    renamed.allSatisfy { isRenamed($0.key.text, to: $0.value) } && after.columns.allSatisfy { has($0.name) }
  }

  private func isRenamed(_ old: String, to new: String) -> Bool {
    guard has(new), has(old) else { return has(new) }
    guard after.columns.contains(where: { $0.name.hasSameBytes(as: old) }) else { return false }
    // The new name belonged to another column before: then only the types distinguish the two.
    guard let was = before.columns.first(where: { $0.name.hasSameBytes(as: new) })?.declaredType else { return true }
    let now = after.columns.first { $0.name.hasSameBytes(as: new) }?.declaredType
    return was != now && target.columns.first { $0.name.hasSameBytes(as: new) }?.type == now
  }

  /// Returns the statements that rename columns. A temporary name is used if two columns exchange their names.
  func renames() -> [String] {
    if isKnown, !renamed.isEmpty, isRenamed { return [] }
    var there = Set(target.columns.map(\.name.nameKey))
    for index in before.columns.indices where !difference.origins.contains(index) {
      there.remove(before.columns[index].name.nameKey)
    }
    for (name, fate) in fates where fate == .dropped { there.remove(name.nameKey) }
    let waiting = difference.renamedColumns.filter { there.contains($0.0) }
    return RenameOrder(waiting.map { (old: $0.0, new: $0.1) }, taken: there).steps.map { old, new in
      alter("RENAME COLUMN \(old.postgresIdentifier) TO \(new.postgresIdentifier)")
    }
  }

  func columnChanges() -> [String] {
    var actions: [String] = []
    var identities: [String] = []
    for (index, column) in after.columns.enumerated() {
      let quoted = column.name.postgresIdentifier
      guard let origin = difference.origins[index] else {
        let wasGenerated = isRefreshed && old.hasGenerated(column.name) && has(column.name)
        if !wasGenerated, !isAdded(index) { actions.append("ADD COLUMN \(definition(column))") }
        continue
      }
      let was = before.columns[origin]
      let there =
        isKnown
        ? target.columns.first { $0.name.hasSameBytes(as: column.name) || $0.name.hasSameBytes(as: was.name) } : nil
      let isRetyped = was.declaredType != column.declaredType || was.collation != column.collation
      if isRetyped, there.map({ $0.type != column.declaredType || was.declaredType == $0.type }) ?? true {
        let retyped = RetypedColumn(was: was, now: column, there: there)
        if was.defaultText != nil, there.map({ $0.defaultText != nil }) ?? true {
          actions.append("ALTER COLUMN \(quoted) DROP DEFAULT")
        }
        let type = column.declaredType + retyped.collation
        actions.append("ALTER COLUMN \(quoted) TYPE \(type)\(retyped.conversion)")
        if let value = retyped.defaultText { actions.append("ALTER COLUMN \(quoted) SET DEFAULT \(value)") }
      } else if was.defaultText != column.defaultText {
        actions.append(
          "ALTER COLUMN \(quoted) " + (column.defaultText.map { "SET DEFAULT \($0)" } ?? "DROP DEFAULT"))
      }
      identities += identity(was, column, there)
      let isRequired = column.isNotNull
      if was.isNotNull != isRequired, isRequired || column.keyOrdinal == 0 || after.flags.contains(.nullableKey),
        there.map({ $0.isNotNull != isRequired }) ?? true
      {
        actions.append("ALTER COLUMN \(quoted) \(isRequired ? "SET" : "DROP") NOT NULL")
      }
    }
    let grouped = actions.isEmpty ? [] : [alter(actions.joined(separator: ",\n  "))]
    return lostIdentities() + grouped + identities
  }

  /// Returns whether the target already has the new column with this index in the shape `after`.
  private func isAdded(_ index: Int) -> Bool {
    let name = after.columns[index].name
    guard isKnown, has(name), !old.hasGenerated(name) || !isGenerated(name, in: target.columns) else { return false }
    // A dropped or renamed column has this name: then this may be the old column.
    guard let namesake = before.columns.firstIndex(where: { $0.name.hasSameBytes(as: after.columns[index].name) })
    else { return true }
    return !difference.origins.contains(namesake) ? !isThere(before: namesake) : isRenamed
  }

  private func definition(_ column: TableSchema.Column) -> String {
    new.columns.first { $0.name.hasSameBytes(as: column.name) && !$0.isGenerated }?.text ?? column.postgresDefinition
  }

  private func identity(_ was: TableSchema.Column, _ now: TableSchema.Column, _ there: Target.Column?) -> [String] {
    guard was.identity != now.identity else { return [] }
    let quoted = now.name.postgresIdentifier
    let kind = now.identity == .always ? "ALWAYS" : "BY DEFAULT"
    if let there, there.identity == now.identity { return [] }
    if now.identity == .none { return [] }
    if was.identity != .none { return [alter("ALTER COLUMN \(quoted) SET GENERATED \(kind)")] }
    let isRequired = there?.isNotNull ?? was.isNotNull || now.isNotNull
    return (isRequired ? [] : [alter("ALTER COLUMN \(quoted) SET NOT NULL")])
      + [alter("ALTER COLUMN \(quoted) ADD GENERATED \(kind) AS IDENTITY")]
  }

  /// Returns the statements that remove the IDENTITY property from columns. Run these before the types of columns
  /// change.
  private func lostIdentities() -> [String] {
    difference.changes.compactMap { change in
      guard case .identityOfColumn(_, let index) = change, after.columns[index].identity == .none else { return nil }
      let name = after.columns[index].name
      if isKnown, target.columns.contains(where: { $0.name.hasSameBytes(as: name) && $0.identity == .none }) {
        return nil
      }
      return alter("ALTER COLUMN \(name.postgresIdentifier) DROP IDENTITY IF EXISTS")
    }
  }

  /// Returns the statements that add the new generated columns, and add the dropped generated columns again.
  func newGenerated() -> [String] {
    let stale = staleGenerated.map(\.name)
    return new.columns.filter { column in
      column.isGenerated && (stale.contains(column.name) || !isGenerated(column.name, in: target.columns))
    }.map { alter("ADD COLUMN \($0.text)") }
  }
}

private func isGenerated(_ name: String, in columns: [PostgresAlteration.Target.Column]) -> Bool {
  columns.contains { $0.isGenerated && $0.name.hasSameBytes(as: name) }
}

extension PostgresScript {
  fileprivate func hasGenerated(_ name: String) -> Bool {
    columns.contains { $0.isGenerated && $0.name.hasSameBytes(as: name) }
  }
}

extension PostgresType {
  var isNumeric: Bool {
    switch kind {
    case .int2, .int4, .int8, .numeric, .float4, .float8: true
    default: false
    }
  }

  /// Returns whether an assignment cast from this type to `other` leaves the text of every value unchanged.
  func isHeld(by other: PostgresType) -> Bool {
    switch (kind, other.kind) {
    case (.int2, .int4), (.int2, .int8), (.int4, .int8), (.text, .text), (.varchar, .text), (.text, .varchar(nil)),
      (.varchar, .varchar(nil)):
      true
    case (.int2, .numeric(nil)), (.int4, .numeric(nil)), (.int8, .numeric(nil)): true
    case (.varchar(let few?), .varchar(let more?)): more >= few
    case (.numeric(let few?), .numeric(let more?)): more.scale == few.scale && more.precision >= few.precision
    case (.numeric, .numeric(nil)): true
    case (.timestamp(let few), .timestamp(let more)), (.timestamptz(let few), .timestamptz(let more)),
      (.time(let few), .time(let more)):
      more >= few
    default: false
    }
  }
}
