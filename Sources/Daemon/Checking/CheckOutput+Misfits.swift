import Changes
import Endpoints
import Mapping
import Replicating
import SystemKit

/// The functions that print values of source rows that do not fit the target's columns.
extension CheckOutput {
  /// The time for the rows of all tables of a source, in ms.
  package static let scanMilliseconds: Int64 = 30_000
  /// The number of rows of each table that are read, if the operator does not choose another one.
  package static let scanRows = 100_000

  /// Reads rows of an SQLite source, and prints the values that do not fit their columns in PostgreSQL. Does nothing
  /// for other pairs of engines.
  ///
  /// - Parameter tables: Tables whose rows reach the target as they are, without rules.
  /// - Parameter policies: The policies of the apply for such values.
  /// - Parameter rows: The number of rows of each table to read; 0: none.
  package func tellMisfits(
    _ tables: [SourceDatabase.Table], _ source: SourceDatabase, _ target: TargetDatabase, _ names: NamePolicy,
    policies: MisfitPolicies = MisfitPolicies(), rows: Int = scanRows, within scope: TargetScope = TargetScope()
  ) throws {
    guard case .sqlite(let database) = source.handle, target.server != nil, rows > 0 else { return }
    let limits = ValueScan.Limits(rows: rows, deadline: Clock.monotonicMilliseconds + Self.scanMilliseconds)
    for table in tables {
      let mapping = try target.mapping(of: table.schema, names, within: scope)
      guard scope.verdict(mapping.target.namespace, mapping.target.name, in: .postgres) != .leftOut else { continue }
      let isCreated = try !target.hasTable(mapping.target)
      let outcome = try ValueScan(mapping, in: database, created: isCreated).run(limits)
      tell(outcome, table.name)
      for finding in outcome.findings { tell(finding, table.name, policies) }
    }
  }

  private func tell(_ outcome: ValueScan.Outcome, _ table: String) {
    let rows = outcome.rows.counted("row")
    let extent = outcome.isWhole ? "all \(rows)" : "the first \(rows), up to the limit of rows or time"
    let result = outcome.findings.isEmpty ? "every value fits" : "some values do not fit"
    say(
      "\(table): looked at \(extent): \(result)",
      [
        ("event", .text("scan")), ("table", .text(table)), ("rows", .integer(Int64(outcome.rows))),
        ("whole", .bool(outcome.isWhole)), ("columns", .list(outcome.findings.map { .text($0.column) })),
      ])
  }

  private func tell(_ finding: ValueScan.Finding, _ table: String, _ policies: MisfitPolicies) {
    let policy = policies.policy(table: table, column: finding.column)
    let taken = policy != .stop && finding.policies.contains(policy)
    let settings = finding.policies.map { "\(table).\(finding.column)=\($0.rawValue)" }
    let effect: String =
      switch policy {
      case .null where taken: "'misfits' writes NULL instead"
      case .widen where taken: "'misfits' makes the column text"
      default:
        settings.isEmpty
          ? "the apply stops there: correct the values at the source, or leave the table out"
          : "the apply stops there: correct the values at the source, or set misfits = [\(settings.map { "\"\($0)\"" }.joined(separator: "] or ["))] in [apply.NAME] (--misfit)"
      }
    say(
      "  \(finding.column): \(finding.rows.counted("row")) with a value that does not fit, first row \(finding.key), value \(finding.value): \(finding.reason); \(effect)",
      [
        ("event", .text("misfit")), ("table", .text(table)), ("column", .text(finding.column)),
        ("rows", .integer(Int64(finding.rows))), ("key", .text(finding.key)), ("value", .text(finding.value)),
        ("reason", .text(finding.reason)), ("policy", .text(taken ? policy.rawValue : MisfitPolicy.stop.rawValue)),
        ("settings", .list(settings.map { .text($0) })),
      ])
  }
}
