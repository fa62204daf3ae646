extension DDL {
  /// Returns, for each column after the change, its index before; nil if that is unknown.
  ///
  /// Origins in the record come first. Without them, only names can have changed if three things hold: the source is
  /// SQLite, no refresh follows, and the types are the same place by place. Then each column keeps its place.
  package func origins(from before: TableSchema, to after: TableSchema) -> [Int?]? {
    if let origins { return origins }
    let isRenamedOnly =
      !isRefreshed && before.engine == .sqlite && before.columns.count == after.columns.count
      && zip(before.columns, after.columns).allSatisfy { $0.declaredType == $1.declaredType }
    return isRenamedOnly ? Array(before.columns.indices) : nil
  }
}
