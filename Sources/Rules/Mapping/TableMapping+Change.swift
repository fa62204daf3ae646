import Changes

extension TableMapping {
  /// Returns the shapes of a table before and after a schema change, as the target's engine has them.
  ///
  /// Both shapes are mapped in the same way, so that they differ exactly as the source's shapes do.
  ///
  ///     // sale came from PostgreSQL with CHECK (pieces > 0); ALTER TABLE sale ADD COLUMN note TEXT in SQLite
  ///     let (before, after) = try TableMapping.change(was, now, origins: nil, to: .postgres)
  ///     TableDifference(before.target, after.target).phrases  // ["add column note text"]
  ///
  /// - Parameter reach: the objects that the definition may use beside the table.
  /// - Parameter origins: for each column of `after`, its index in `before`, nil for a new column; nil if unknown.
  package static func change(
    _ before: TableSchema, _ after: TableSchema, origins: [Int?]?, to engine: Engine, names: NamePolicy = .fold,
    reach: TargetReach = TargetReach()
  ) throws(CairnError) -> (before: TableMapping, after: TableMapping) {
    var after = after
    guard before.engine == .sqlite, engine == .postgres, before.original != nil || after.original != nil else {
      return (
        try TableMapping(before, to: engine, names: names, reach: reach),
        try TableMapping(after, to: engine, names: names, reach: reach)
      )
    }
    let restores = [before, after].allSatisfy { PostgresDraft($0, names: names).isOriginal }
    if !restores, let original = before.original, after.original == nil || after.original == original {
      after.original = original.renamed(by: TableDifference(before, after, origins: origins))
    }
    return (
      try TableMapping(before, to: engine, names: names, restores: restores, reach: reach),
      try TableMapping(after, to: engine, names: names, restores: restores, reach: reach)
    )
  }
}

extension TableSchema {
  /// Returns this table with renamed columns under their new names.
  fileprivate func renamed(by difference: TableDifference) -> TableSchema {
    var names: [NameKey: String] = [:]
    for (was, now) in difference.renamedColumns { names[was.sqliteKey] = now }
    var copy = self
    let fresh = Set(names.values.map(\.sqliteKey))
    for index in copy.columns.indices {
      let name = copy.columns[index].name.sqliteKey
      if let now = names[name] {
        copy.columns[index].name = now
      } else if fresh.contains(name) {
        // Another column has this name now.
        copy.columns[index].name = ""
      }
    }
    return copy
  }
}
