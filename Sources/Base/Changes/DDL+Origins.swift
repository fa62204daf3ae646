extension DDL {
  /// Returns, for each column of `after`, its index in `before`; nil for a new column. The whole list is nil if the
  /// indexes are unknown.
  package func origins(from before: TableSchema, to after: TableSchema) -> [Int?]? {
    if let origins { return origins }
    let isRenamedOnly =
      !isRefreshed && before.engine == .sqlite && before.columns.count == after.columns.count
      && zip(before.columns, after.columns).allSatisfy { $0.declaredType == $1.declaredType }
    return isRenamedOnly ? Array(before.columns.indices) : nil
  }
}
