import Changes

extension RowResolver {
  /// Adds table and row to the error of a rule that fails for the values of a row.
  func naming<Result>(_ key: [Value], of table: Table, _ body: () throws -> Result) throws -> Result {
    do { return try body() } catch let error as CairnError where error.code == .conflictStopped {
      let shown = table.key(key).columns.map { "\($0.name)=\($0.value.shown)" }.joined(separator: ", ")
      throw CairnError(
        error.code, "table \(table.shape.fullName), row \(shown): \(error.message)", hint: error.hint,
        context: ["table": table.shape.fullName])
    }
  }
}
