import Changes
import Mapping
import SQLiteKit
import Transforming

extension TargetDatabase {
  /// Checks that an initial load would overwrite no rows of the target: the target may hold only rows that the source
  /// has too.
  ///
  /// Two SQLite files are compared row by row. For other databases, and if a rule reshapes the table, the target's
  /// table must be empty. Rows of other trails, of history tables and of tables outside of `scope` do not count.
  ///
  /// - Throws: `target-differs` with the first table that holds other rows.
  package func checkHoldsNothingElse(
    _ source: SourceDatabase, _ patterns: TablePatterns, _ names: NamePolicy, _ rules: [TableRule] = [],
    within scope: TargetScope = TargetScope()
  ) throws {
    var isCompared = false
    if case (.sqlite(let one), .sqlite(let other)) = (source.handle, handle) {
      if let other {
        try ExistingCheck(source: one, target: other, patterns: patterns, rules: rules, scope: scope).run()
      }
      isCompared = true
    }
    for table in try source.tables(patterns) where table.refusal == nil {
      let rule = rules.rule(for: table.schema)
      if rule == nil ? isCompared : rule?.mode == .history { continue }
      let schema = try rule.map { try ReshapePlan($0, table.schema, to: url.engine).schema } ?? table.schema
      let mapped = try TableMapping(schema, to: url.engine, names: names).target
      guard scope.verdict(mapped.namespace, mapped.name, in: url.engine) == .allowed else { continue }
      guard try holdsRows(mapped, sharedBy: schema) else { continue }
      throw CairnError(
        .targetDiffers, "the target \(url.place) already holds rows in table \(mapped.name)",
        hint:
          "choose with --existing: keep (these rows stay), overwrite (the target becomes equal to the source) or merge (the source's rows win)",
        remedy: .badInput, context: ["table": mapped.name])
    }
  }
}

/// The comparison of two SQLite files before an initial load, so that the load overwrites no different rows.
struct ExistingCheck {
  let source: Database
  let target: Database
  let patterns: TablePatterns
  let rules: [TableRule]
  let scope: TargetScope

  /// Throws `target-differs` with the first row that differs. An empty table of the target counts as equal.
  func run() throws {
    try source.execute("BEGIN")
    try target.execute("BEGIN")
    defer {
      try? source.execute("ROLLBACK")
      try? target.execute("ROLLBACK")
    }
    let theirs = try target.userTables()
    for table in try source.userTables() where table.refusal == nil && patterns.includes(table.name) {
      if rules.rule(for: table.schema) != nil { continue }
      guard scope.verdict("", table.name, in: .sqlite) == .allowed else { continue }
      guard let other = theirs.first(where: { $0.name.isSameInSQLite(as: table.name) }) else { continue }
      try compare(table, other)
    }
  }

  private func compare(_ table: SQLiteTable, _ other: SQLiteTable) throws {
    let name = table.name.quotedName
    guard try target.integer("SELECT 1 FROM \(name) LIMIT 1") != nil else { return }
    let names = Set(other.schema.columns.map { $0.name.sqliteKey })
    guard let missing = table.schema.columns.first(where: { !names.contains($0.name.sqliteKey) }) else {
      return try compareRows(table)
    }
    throw differs(table, "has rows, but no column \(missing.name)")
  }

  private func compareRows(_ table: SQLiteTable) throws {
    let columns = table.schema.columns.map(\.name.quotedName)
    let order = (table.schema.key + table.schema.columns.indices.filter { !table.schema.key.contains($0) })
      .map { "\(columns[$0]) COLLATE BINARY" }.joined(separator: ",")
    let sql = "SELECT \(columns.joined(separator: ",")) FROM \(table.name.quotedName) ORDER BY \(order)"
    let (a, b) = (try source.prepare(sql), try target.prepare(sql))
    var rows = 0
    while true {
      let (hasA, hasB) = (try a.step(), try b.step())
      if !hasA && !hasB { return }
      guard hasA == hasB else {
        throw differs(
          table, hasA ? "has only \(rows.counted("row")), fewer than the source" : "has more rows than the source")
      }
      for index in columns.indices where a.value(index) != b.value(index) {
        throw differs(table, "differs at row \(rows + 1) in key order, column \(table.schema.columns[index].name)")
      }
      rows += 1
    }
  }

  private func differs(_ table: SQLiteTable, _ how: String) -> CairnError {
    CairnError(
      .targetDiffers, "the target \(target.path) already holds other rows: table \(table.name) \(how)",
      hint:
        "choose with --existing: keep (these rows stay), overwrite (the target becomes equal to the source) or merge (the source's rows win)",
      remedy: .badInput, context: ["table": table.name])
  }
}
