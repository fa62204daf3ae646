extension DDL {
  /// Which column each was before, as told. Where it is not told and no copy of the rows follows, only names can have
  /// changed if the columns have their types in their places: then a column is the one that stood in its place.
  package func origins(from before: TableSchema, to after: TableSchema) -> [Int?]? {
    if let origins { return origins }
    let isRenamedOnly =
      !isRefreshed && before.engine == .sqlite && before.columns.count == after.columns.count
      && zip(before.columns, after.columns).allSatisfy { $0.declaredType == $1.declaredType }
    return isRenamedOnly ? Array(before.columns.indices) : nil
  }
}
