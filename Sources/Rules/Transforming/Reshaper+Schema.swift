import Changes

// Schema changes: created, dropped and altered tables.
extension Reshaper {
  func reshape(_ ddl: DDL, _ given: (UInt64) -> TableSchema?) throws -> Record? {
    let record = Record.ddl(ddl)
    let before = ddl.before == 0 ? nil : given(ddl.before)
    let after = ddl.after == 0 ? nil : given(ddl.after)
    switch (before, after) {
    case (.some, nil):
      guard case .shaped(let table) = find(ddl.before, given) else { return record }
      // Kept rows stay if the source drops the table. If other trails have rows in the target's table, it is only
      // emptied of this trail's rows.
      if table.removal != .applied { return nil }
      return table.hasShare ? .change(ChangeView(.truncate, schemaID: ddl.before)) : record
    case (let before?, let after?):
      switch (find(ddl.before, given), find(ddl.after, given)) {
      case (.shaped(let old), .shaped(let new)): return reshape(ddl, old, new, after)
      case (.untouched, .shaped): return enter(ddl, before, after)
      case (.shaped, .untouched), (.refused, .untouched):
        refuse(
          ddl.after, after, "table \(before.fullName) is now called \(after.fullName), which no rule names",
          hint:
            "write from = \"\(after.fullName)\" in its rule, and to = the name of its table at the target, and reload: it is copied again"
        )
        return record
      default: return record
      }
    default: return record
    }
  }

  private func reshape(_ ddl: DDL, _ old: ShapedTable, _ new: ShapedTable, _ after: TableSchema) -> Record? {
    let (was, now) = (old.plan.schema, new.plan.schema)
    var same = was
    same.epoch = now.epoch
    if same == now { return nil }
    let difference = TableDifference(old.plan.source, after, origins: ddl.origins(from: old.plan.source, to: after))
    let origins = new.plan.origins(from: old.plan, difference.origins)
    if new.plan.rule.mode == .history {
      let lost = was.columns.indices.filter { !origins.contains($0) }.map { was.columns[$0].name }
      if !lost.isEmpty {
        refuse(
          ddl.after, now,
          "table \(after.fullName) no longer has column \(lost.joined(separator: ", ")), which its history keeps",
          hint: "name the remaining columns in the rule for the table, with columns = { … }")
      }
    }
    var derived = ddl
    derived.origins = origins
    if new.removal != .applied || new.hasShare { derived.isRefreshed = false }
    return .ddl(derived)
  }

  /// Handles the rename of a source table to a name that has a rule. If a refresh follows, the target's table is
  /// dropped and created again by the rule. Otherwise apply writes no more changes to the table.
  private func enter(_ ddl: DDL, _ before: TableSchema, _ after: TableSchema) -> Record {
    guard ddl.isRefreshed else {
      refuse(
        ddl.after, after,
        "table \(before.fullName) is now called \(after.fullName), which a rule names, but its rows were written without that rule",
        hint: "give table \(before.fullName) the same rule with to, or copy table \(after.fullName) again")
      return .ddl(ddl)
    }
    follow(with: .ddl(DDL(action: .create, before: 0, after: ddl.after)))
    return .ddl(DDL(action: .drop, before: ddl.before, after: 0))
  }
}
