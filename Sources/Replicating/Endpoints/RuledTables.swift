import Changes
import Mapping
import PostgresKit
import Transforming

/// The tables of a source in the form that an apply's rules give them.
///
///     let ruled = try RuledTables(source.tables(TablePatterns()), rules, source, to: .postgres)
package struct RuledTables {
  /// The captured tables, each in the form that the target gets.
  package private(set) var tables: [SourceDatabase.Table] = []
  /// Messages about properties of source tables that are missing at the target because of a rule.
  package private(set) var notices: [String] = []
  /// The errors of rules whose table the source does not have, one for each rule.
  package private(set) var unused: [CairnError] = []

  /// Applies rules to tables.
  /// - Parameter refused: Called with the error of a table. If it does not throw, the table is left out.
  /// - Throws: `rule-refused` if a rule is impossible for a table, or if the rule needs the source to log whole rows.
  package init(
    _ tables: [SourceDatabase.Table], _ rules: [TableRule], _ source: SourceDatabase, to target: Engine,
    refused: (CairnError) throws -> Void = { throw $0 }
  ) throws {
    for table in tables {
      guard table.refusal == nil, let rule = rules.rule(for: table.schema) else {
        self.tables.append(table)
        continue
      }
      do { try add(table, rule, source, target) } catch let error as CairnError where error.code == .ruleRefused {
        try refused(error)
      }
    }
    unused = Self.unused(rules, in: tables, of: source).map(\.error)
  }

  /// Returns the rules that name a table which the source does not have, each with its error.
  package static func unused(_ rules: [TableRule], in tables: [SourceDatabase.Table], of source: SourceDatabase)
    -> [(rule: TableRule, error: CairnError)]
  {
    missing(
      rules, among: tables.map(\.schema),
      "matches nothing: no captured table of \(source.url.place) has that name",
      hint: "create the table, add it to 'tables' of the capture, or remove the rule")
  }

  /// Returns the rules for tables that a trail of another node has not brought so far, each with its error.
  ///
  /// - Parameter known: The tables of the trail that the target has; if empty, no rule is judged.
  package static func unused(_ rules: [TableRule], known: [TableSchema], of trail: TrailName)
    -> [(rule: TableRule, error: CairnError)]
  {
    guard !known.isEmpty else { return [] }
    return missing(
      rules, among: known, "has matched nothing: trail \(trail) has not brought a table with that name",
      hint: "check the name at node \(trail.origin), and 'tables' of the capture there; or remove the rule")
  }

  private static func missing(_ rules: [TableRule], among tables: [TableSchema], _ what: String, hint: String)
    -> [(rule: TableRule, error: CairnError)]
  {
    let open = rules.filter { rule in
      !TablePatterns.isPattern(rule.from) && !tables.contains { $0.matches(rule.from) }
    }
    let names = tables.map { ($0.namespace.isEmpty ? $0.name : $0.displayName).asciiLowercased }
    return open.map { rule in
      let near = rule.from.asciiLowercased.nearest(in: names)
      let error = CairnError(
        .tableMissing, "the rule for table \(rule.from) \(what)",
        hint: near.map { "did you mean from = \"\($0)\"?" } ?? hint, remedy: .badInput, context: ["table": rule.from])
      return (rule, error)
    }
  }

  private mutating func add(
    _ table: SourceDatabase.Table, _ rule: TableRule, _ source: SourceDatabase, _ target: Engine
  ) throws {
    let plan = try ReshapePlan(rule, table.schema, to: target)
    if let why = plan.fullIdentity, let server = source.server, try !server.logsWholeRows(of: table.schema) {
      throw CairnError(
        .ruleRefused, "the rule for table \(table.name) needs more than \(source.url.place) logs: \(why)",
        hint: "run at the source: \(try server.fullIdentityScript(of: [table.schema]))",
        context: ["table": table.name])
    }
    tables.append(.init(name: table.name, schema: plan.schema, refusal: nil))
    notices += plan.notices
  }
}

extension PostgresConnection {
  /// Returns whether updates and deletes of a table log the whole row. The table and each of its partitions need
  /// `REPLICA IDENTITY FULL`.
  package func logsWholeRows(of table: TableSchema) throws -> Bool { try tablesWithoutFullIdentity(table).isEmpty }

  /// Returns the statements that make updates and deletes log whole rows, joined with "; ". Each partition needs its
  /// own statement.
  package func fullIdentityScript(of tables: [TableSchema]) throws -> String {
    try tables.flatMap(tablesWithoutFullIdentity).map { "ALTER TABLE \($0) REPLICA IDENTITY FULL" }
      .joined(separator: "; ")
  }

  private func tablesWithoutFullIdentity(_ table: TableSchema) throws -> [String] {
    try query(
      """
      SELECT n.nspname, c.relname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
      WHERE c.relreplident <> 'f' AND (c.oid = to_regclass($1)
        OR c.relkind = 'r' AND c.oid IN (SELECT relid FROM pg_partition_tree(to_regclass($1))))
      ORDER BY c.relispartition, 1, 2
      """, [table.qualifiedName]
    ).map { "\(($0[0] ?? "").postgresIdentifier).\(($0[1] ?? "").postgresIdentifier)" }
  }
}

extension TableSchema {
  /// Creates a table that has only a name, such as `"public.item"`, to check which rules match it.
  package init(named name: String) {
    let (namespace, own) = name.cut(at: ".") ?? ("", name)
    self.init(epoch: 0, engine: .postgres, namespace: namespace, name: own, columns: [])
  }
}
