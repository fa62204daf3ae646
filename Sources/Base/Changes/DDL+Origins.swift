extension DDL {
  /// Returns, for each column after the change, its index before; nil if that is unknown.
  ///
  /// The origins in the record take precedence. Without them, each column keeps its place if only names can have
  /// changed. That needs an SQLite source, no refresh that follows, and the same types place by place.
  package func origins(from before: TableSchema, to after: TableSchema) -> [Int?]? {
    if let origins { return origins }
    let isRenamedOnly =
      !isRefreshed && before.engine == .sqlite && before.columns.count == after.columns.count
      && zip(before.columns, after.columns).allSatisfy { $0.declaredType == $1.declaredType }
    return isRenamedOnly ? Array(before.columns.indices) : nil
  }
}
