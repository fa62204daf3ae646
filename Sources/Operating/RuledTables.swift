import Changes
import Mapping
import PostgresKit
import Reshaping

/// The tables of a source under the rules of an apply, proved before anything is written.
package struct RuledTables {
  /// All of them, each as the target is to get it.
  package private(set) var tables: [SourceEnd.Table] = []
  /// What is left out of them, for people.
  package private(set) var notices: [String] = []

  /// Throws `rule-refused` where a rule cannot be kept for a table, or needs the source to log whole rows; what `refused`
  /// does not throw leaves the table out.
  package init(
    _ tables: [SourceEnd.Table], _ rules: [ReshapeRule], _ source: SourceEnd, to target: Engine,
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
    for rule in rules where !rule.from.contains(where: { $0 == "*" || $0 == "?" }) {
      guard !tables.contains(where: { [rule].rule(for: $0.schema) != nil || $0.refusal != nil }) else { continue }
      notices.append("the rule for table \(rule.from) is for none: \(source.url.place) has no such table")
    }
  }

  private mutating func add(
    _ table: SourceEnd.Table, _ rule: ReshapeRule, _ source: SourceEnd, _ target: Engine
  ) throws {
    let plan = try ReshapePlan(rule, table.schema, to: target)
    if let why = plan.fullIdentity, let server = source.server, try !server.logsWholeRows(of: table.schema) {
      throw CairnError(
        .ruleRefused, "the rule for table \(table.name) cannot be kept by what \(source.url.place) logs: \(why)",
        hint: "run at the source: ALTER TABLE \(table.schema.postgresIdentifier) REPLICA IDENTITY FULL",
        context: ["table": table.name])
    }
    tables.append(.init(name: table.name, schema: plan.schema, refusal: nil))
    notices += plan.notices
  }
}

extension PostgresConnection {
  /// Whether updates and deletes of a table, and of its partitions, tell the whole row.
  func logsWholeRows(of table: TableSchema) throws -> Bool {
    try first(
      """
      SELECT count(*) FROM pg_class AS c WHERE c.relkind = 'r' AND c.relreplident <> 'f' AND (c.oid = to_regclass($1)
        OR c.oid IN (SELECT relid FROM pg_partition_tree(to_regclass($1))))
      """, [table.qualifiedName]) == "0"
  }
}
