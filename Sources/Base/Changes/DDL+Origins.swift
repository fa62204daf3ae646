extension DDL {
  /// Returns, for each column of `after`, its index in `before`; nil for a new column. The whole list is nil if the
  /// indexes are unknown.
  ///
  /// If the record lists the indexes, they are returned. Otherwise, each column keeps its index if the source is
  /// SQLite, no refresh follows, and the list of types is unchanged. Only names can have changed then.
  package func origins(from before: TableSchema, to after: TableSchema) -> [Int?]? {
    if let origins { return origins }
    let isRenamedOnly =
      !isRefreshed && before.engine == .sqlite && before.columns.count == after.columns.count
      && zip(before.columns, after.columns).allSatisfy { $0.declaredType == $1.declaredType }
    return isRenamedOnly ? Array(before.columns.indices) : nil
  }
}
