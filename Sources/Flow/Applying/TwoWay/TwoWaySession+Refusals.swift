import Changes

// Changes that cannot go both ways.
extension TwoWaySession {
  /// Throws `table-refused` for an update that lacks the former value of a column with the rule `delta`.
  ///
  /// PostgreSQL logs that value only with REPLICA IDENTITY FULL.
  static func checkSums(_ change: ChangeView, _ schema: TableSchema, _ summed: [Int]) throws {
    guard !summed.isEmpty, change.operation == .update, schema.engine == .postgres else { return }
    let before = try change.before?.values() ?? []
    guard let index = summed.first(where: { $0 >= before.count || before[$0] == nil }) else { return }
    let name = "\(schema.namespace.isEmpty ? "" : schema.namespace.quotedName + ".")\(schema.name.quotedName)"
    throw CairnError(
      .tableRefused,
      "column \(schema.columns[index].name) of table \(schema.fullName) has the rule delta, and its source logged a change without the former value",
      hint: "run at the source: ALTER TABLE \(name) REPLICA IDENTITY FULL; then copy the table again",
      context: ["table": schema.fullName])
  }

  /// Returns the error for a table without a key: its rows in two databases cannot be matched.
  static func keyless(_ schema: TableSchema) -> CairnError {
    let what =
      schema.key.isEmpty || schema.flags.contains(.wholeRow) ? "the table has no key" : "a row has NULL in its key"
    return CairnError(
      .constraintFailed, "table \(schema.fullName) cannot be replicated two-way: \(what)",
      hint:
        "give every row a key that is not NULL, or leave the table out: \([schema.fullName].leftOut)",
      context: ["table": schema.fullName])
  }
}
