import Changes

/// A schema change in the target's form: the table before and after, and which column became which.
struct ShapeChange {
  var action: DDL.Action
  var before: TableSchema?
  var after: TableSchema?
  /// For each column after the schema change, the index of the same column before; nil: columns are matched by name.
  var origins: [Int?]?
  var isRefreshed: Bool
  /// Whether an apply made the schema change at the source, and not an application.
  var isApplied = false

  init(_ ddl: DDL, before: TableSchema?, after: TableSchema?, origins: [Int?]?) {
    (action, isRefreshed, isApplied) = (ddl.action, ddl.isRefreshed, !ddl.applied.isEmpty)
    (self.before, self.after, self.origins) = (before, after, origins)
  }

  /// The difference between the table before and after; nil for a create or drop.
  var difference: TableDifference? {
    guard let before, let after else { return nil }
    return TableDifference(before, after, origins: origins)
  }

  /// Replaces former names of columns by their present names at the target, if the author of the schema change did not
  /// know the renames. Alters only new tables, and schema changes that only add columns.
  ///
  /// - Parameter part: Returns the columns of a schema that the target still has; nil: all are unchanged.
  mutating func takeNames(_ part: (TableSchema) -> NextFittingSchema.Part?) {
    guard let after, let now = part(after), now.schema.fullName.hasSameBytes(as: after.fullName) else { return }
    guard let before else {
      self.after = now.schema
      return
    }
    let difference = TableDifference(before, after, origins: origins)
    guard difference.onlyAddsColumns, let was = part(before) else { return }
    origins = now.positions.map { index in difference.origins[index].flatMap { was.positions.firstIndex(of: $0) } }
    (self.before, self.after) = (was.schema, now.schema)
  }

  /// Replaces a schema that the target cannot have by a later schema in the trail. Used only in a catch-up.
  ///
  /// - Returns: False if the schema change needs nothing at the target.
  mutating func skipUnfit(
    _ ddl: DDL, fits: (TableSchema) -> Bool, later find: (TableSchema) throws -> NextFittingSchema?
  ) rethrows -> Bool {
    // The target already made this part together with the change to the earlier schema.
    if let before, !fits(before) { return false }
    guard let after, !fits(after), let later = try find(after) else { return true }
    guard let shape = later.schema else {
      guard before != nil else { return false }
      (action, self.after) = (.drop, nil)
      return true
    }
    if let before {
      let were = NextFittingSchema.origins(ddl, before, after)
      origins = later.origins.map { $0.flatMap { were[$0] } }
      action = .reshape
    }
    self.after = shape
    isRefreshed = isRefreshed || later.isRefreshed
    return true
  }
}

extension ShapeChange {
  /// Creates the schema change from a table's columns under one rule to those under the next rule; nil if nothing
  /// changes.
  ///
  /// - Parameter isNamed: Whether a new table name without other differences counts as a change.
  init?(_ step: ChangedRule.Step, isCopied: Bool, isNamed: Bool = false) {
    let (was, now) = (step.was, step.now)
    let treatment = now.treatment ?? .init()
    // Columns that alone record removed rows, in a history or as a mark, are kept.
    let kept = was.columns.indices.filter { index in
      if step.origins.contains(index) { return true }
      if treatment.isHistory { return false }
      if treatment.removal == .kept, case .marked(let mark) = was.treatment?.removal {
        return !was.columns[index].name.hasSameBytes(as: mark)
      }
      return true
    }
    let left = was.keeping(kept)
    let isSame =
      (!isNamed || was.sourceKey.hasSameBytes(as: now.sourceKey)) && left.columns == now.columns
      && left.uniques == now.uniques
      && left.flags == now.flags
      && left.objects == now.objects && left.foreignKeys == now.foreignKeys
    if isSame { return nil }
    self.init(
      DDL(
        action: .reshape, before: 0, after: 0,
        isRefreshed: isCopied && treatment.removal == .applied && treatment.shares.isEmpty),
      before: left, after: now, origins: step.origins.map { $0.flatMap { kept.firstIndex(of: $0) } })
  }
}
