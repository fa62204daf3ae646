/// The changes that turn one shape of a table into another one.
///
///     let difference = TableDifference(before, after)
///     difference.renamedColumns   // [("name", "title")]
package struct TableDifference: Equatable, Sendable {
  package enum Change: Equatable, Sendable {
    case renameTable
    case addColumn(Int)
    case dropColumn(Int)
    case renameColumn(Int, to: Int)
    case retypeColumn(Int, to: Int)
    case requireColumn(Int, to: Int)
    case defaultOfColumn(Int, to: Int)
    case identityOfColumn(Int, to: Int)
    case key
    case uniques
    case addForeignKey(Int)
    case dropForeignKey(Int)
    case addIndex(NameKey)
    case dropIndex(NameKey)
    /// A property of the table itself has changed, such as WITHOUT ROWID, STRICT or AUTOINCREMENT.
    case kind
  }

  package let before: TableSchema
  package let after: TableSchema
  /// For each column of `after`, its index in `before`; nil if the column is new.
  package let origins: [Int?]
  /// The changes, in an order in which they can be executed.
  package private(set) var changes: [Change] = []

  /// Compares two shapes of a table.
  ///
  /// - Parameter origins: For each column of `after`, its index in `before`, as capture reported it. If nil or invalid,
  ///   columns are matched by name. A column without a match is matched by its place, if the number of columns and the
  ///   column's type are the same.
  package init(_ before: TableSchema, _ after: TableSchema, origins: [Int?]? = nil) {
    (self.before, self.after) = (before, after)
    let told = origins.flatMap { given in
      given.count == after.columns.count && given.allSatisfy { $0 ?? 0 < before.columns.count } ? given : nil
    }
    self.origins = told ?? Self.origins(before, after)
    findChanges()
  }

  /// Whether the shapes are equal, except perhaps in the text that creates the table, such as a CHECK or a comment.
  package var isEmpty: Bool { changes.isEmpty }

  package var onlyAddsColumns: Bool {
    !isEmpty && changes.allSatisfy { if case .addColumn = $0 { true } else { false } }
  }

  /// The columns that got another name, each with the name before and after.
  package var renamedColumns: [(String, String)] {
    changes.compactMap {
      if case .renameColumn(let old, let new) = $0 { (before.columns[old].name, after.columns[new].name) } else { nil }
    }
  }

  /// Whether a column of `after` has a name that another column has in `before`. Columns then cannot be matched by
  /// name.
  package var reusesNames: Bool {
    let places = Self.places(before)
    return zip(after.columns, origins).contains { column, origin in
      places[Self.fold(column.name, after.engine)].map { $0 != origin } ?? false
    }
  }

  /// Returns whether the renames of columns are still to be done in a table that has these column names.
  package func isOpen(in names: Set<NameKey>) -> Bool {
    let places = Self.places(before)
    return renamedColumns.allSatisfy { old, new in
      let (old, new) = (Self.fold(old, before.engine), Self.fold(new, after.engine))
      return names.contains(old) && (!names.contains(new) || places[new] != nil)
    }
  }

  private static func fold(_ name: String, _ engine: Engine) -> NameKey { name.key(in: engine) }

  private static func places(_ table: TableSchema) -> [NameKey: Int] {
    Dictionary(
      table.columns.enumerated().map { (fold($1.name, table.engine), $0) }, uniquingKeysWith: { first, _ in first })
  }

  private static func origins(_ before: TableSchema, _ after: TableSchema) -> [Int?] {
    let places = places(before)
    var origins = after.columns.map { places[fold($0.name, after.engine)] }
    let isSameCount = before.columns.count == after.columns.count
    let taken = Set(origins.compactMap { $0 })
    for index in origins.indices where isSameCount && origins[index] == nil && !taken.contains(index) {
      if before.columns[index].declaredType == after.columns[index].declaredType { origins[index] = index }
    }
    return origins
  }

  /// The time grows with the sizes of both shapes, not with their product: a shape may have 10,000 indexes.
  private mutating func findChanges() {
    if !before.name.hasSameBytes(as: after.name) || !before.namespace.hasSameBytes(as: after.namespace) {
      changes.append(.renameTable)
    }
    let pairs = origins.enumerated().compactMap { new, old in old.map { (old: $0, new: new) } }
    for (old, new) in pairs where !before.columns[old].name.hasSameBytes(as: after.columns[new].name) {
      changes.append(.renameColumn(old, to: new))
    }
    let kept = Set(pairs.map(\.old))
    for index in before.columns.indices where !kept.contains(index) { changes.append(.dropColumn(index)) }
    for index in after.columns.indices where origins[index] == nil { changes.append(.addColumn(index)) }
    for (old, new) in pairs {
      let (was, now) = (before.columns[old], after.columns[new])
      if was.declaredType != now.declaredType || was.collation != now.collation || was.baseType != now.baseType {
        changes.append(.retypeColumn(old, to: new))
      }
      if was.isNotNull != now.isNotNull { changes.append(.requireColumn(old, to: new)) }
      if was.defaultText != now.defaultText { changes.append(.defaultOfColumn(old, to: new)) }
      if was.identity != now.identity { changes.append(.identityOfColumn(old, to: new)) }
    }
    if before.key != moved(after.key) { changes.append(.key) }
    if Set(before.uniques) != Set(after.uniques.map { moved($0) ?? [] }) { changes.append(.uniques) }
    let (keysBefore, keysAfter) = (Set(before.foreignKeys), after.foreignKeys.map(moved))
    let keysLeft = Set(keysAfter.compactMap { $0 })
    for (index, key) in before.foreignKeys.enumerated() where !keysLeft.contains(key) {
      changes.append(.dropForeignKey(index))
    }
    for (index, key) in keysAfter.enumerated() where !(key.map(keysBefore.contains) ?? false) {
      changes.append(.addForeignKey(index))
    }
    let (objectsBefore, objectsAfter) = (Set(before.objects), Set(after.objects))
    for object in before.objects where !objectsAfter.contains(object) {
      changes.append(.dropIndex(object.name.nameKey))
    }
    for object in after.objects where !objectsBefore.contains(object) {
      changes.append(.addIndex(object.name.nameKey))
    }
    let kinds: TableSchema.Flags = [.strict, .withoutRowid, .autoincrement, .partitioned, .wholeRow]
    if before.flags.intersection(kinds) != after.flags.intersection(kinds) { changes.append(.kind) }
  }

  private func moved(_ columns: [Int]) -> [Int]? {
    let found = columns.compactMap { origins[$0] }
    return found.count == columns.count ? found : nil
  }

  /// Returns a foreign key of `after` with the places of its columns in `before`; nil if one of them is new.
  private func moved(_ key: TableSchema.ForeignKey) -> TableSchema.ForeignKey? {
    var key = key
    guard let columns = moved(key.columns) else { return nil }
    key.columns = columns
    return key
  }

  // MARK: For people

  /// One short phrase for each change, for messages, such as `add column note text`.
  package var phrases: [String] { changes.map(phrase) }

  private func phrase(_ change: Change) -> String {
    func old(_ index: Int) -> String { before.columns[index].name }
    func new(_ index: Int) -> String { after.columns[index].name }
    func type(_ column: TableSchema.Column) -> String { column.declaredType.isEmpty ? "no type" : column.declaredType }
    switch change {
    case .renameTable: return "rename table \(before.fullName) to \(after.fullName)"
    case .addColumn(let index): return "add column \(new(index)) \(type(after.columns[index]))"
    case .dropColumn(let index): return "drop column \(old(index))"
    case .renameColumn(let was, let now): return "rename column \(old(was)) to \(new(now))"
    case .retypeColumn(let was, let now):
      return "change column \(new(now)) from \(type(before.columns[was])) to \(type(after.columns[now]))"
    case .requireColumn(_, let now):
      return "column \(new(now)) \(after.columns[now].isNotNull ? "set" : "drop") not null"
    case .defaultOfColumn(_, let now):
      return "column \(new(now)) " + (after.columns[now].defaultText.map { "default \($0)" } ?? "drop default")
    case .identityOfColumn(_, let now):
      return "column \(new(now)) " + (after.columns[now].identity == .none ? "drop identity" : "identity")
    case .key:
      let names = after.key.map(new).joined(separator: ", ")
      return names.isEmpty ? "drop key" : "key (\(names))"
    case .uniques: return "change unique keys"
    case .addForeignKey(let index): return "add foreign key to \(after.foreignKeys[index].table)"
    case .dropForeignKey(let index): return "drop foreign key to \(before.foreignKeys[index].table)"
    case .addIndex(let name): return "add index \(name)"
    case .dropIndex(let name): return "drop index \(name)"
    case .kind: return "change the kind of table"
    }
  }
}
