import Changes
import Mapping
import Transforming

/// A table whose rule in the conf has changed since apply wrote its rows.
///
/// If ``isCopied``, apply skips the table's changes until a refresh of the table begins.
///
///     options.changedRules = [ChangedRule("orders", before: [nil], isCopied: true)]   // a new rule
package struct ChangedRule: Equatable, Sendable {
  @ByBytes package var table: String
  /// The former rules of the target table, the oldest first; nil for a time without a rule. The array is empty if the
  /// setting `tables` left the table out until now.
  package var before: [TableRule?]
  /// Whether a refresh replaces the table's rows; otherwise the present rows stay as they are.
  package var isCopied: Bool

  package init(_ table: String, before: [TableRule?], isCopied: Bool) {
    (self.table, self.before, self.isCopied) = (table, before, isCopied)
  }

  /// The change of a table from its columns under one rule to its columns under the next rule.
  struct Step {
    var was: TableSchema
    var now: TableSchema
    /// For each column under the next rule, the index of the same column under the former rule; nil for a new column.
    var origins: [Int?]
    var isElsewhere: Bool { was.sourceKey.nameKey != now.sourceKey.nameKey }
  }

  /// Returns the changes of the table from each earlier rule to the next, and from the last earlier rule to `rule`.
  ///
  /// - Parameter given: The table at the source.
  func steps(of given: TableSchema, to rule: TableRule?, in target: Engine) -> [Step] {
    guard let now = ReshapePlan.shape(of: given, under: rule, to: target) else { return [] }
    let were = before.compactMap { ReshapePlan.shape(of: given, under: $0, to: target) }
    // A rule that changes the constant of a shared table was refused, so no table was created by it.
    let others = were.dropFirst().filter {
      $0.schema.sourceKey.nameKey != now.schema.sourceKey.nameKey || $0.schema.shares == now.schema.shares
    }
    let shapes = were.prefix(1) + others + [now]
    return zip(shapes, shapes.dropFirst()).map { was, now in
      let origins = now.schema.columns.indices.map { index in
        let name = now.schema.columns[index].name.sqliteKey
        let same = was.schema.columns.firstIndex { $0.name.sqliteKey == name }
        guard index < now.columns.count, let column = now.columns[index] else { return same }
        return same.flatMap { $0 < was.columns.count && was.columns[$0] == column ? $0 : nil }
          ?? was.columns.firstIndex(of: column) ?? same
      }
      return Step(was: was.schema, now: now.schema, origins: origins)
    }
  }
}

extension TableSchema {
  var shares: [TableTreatment.Share] { treatment?.shares ?? [] }
}

/// The tables with a changed rule that apply has not carried out yet.
struct ChangedRules {
  private var pending: [NameKey: ChangedRule]
  private var met: Set<NameKey> = []
  /// The tables whose changed rule has taken effect since apply's last commit.
  private(set) var fresh: Set<NameKey> = []

  /// Creates the list of the changed rules.
  ///
  /// - Parameter done: The tables whose rules apply has already carried out in this run.
  init(_ rules: [ChangedRule], besides done: Set<NameKey>) {
    pending = Dictionary(rules.filter { !done.contains($0.table) }.map { ($0.table.nameKey, $0) }) { first, _ in first }
  }

  func isPending(_ given: TableSchema) -> Bool {
    !pending.isEmpty && pending[given.plainName] != nil && !fresh.contains(given.plainName)
  }

  /// Returns the changed rule of a table at the table's first record. Returns nil at later records, and if the rule has
  /// not changed.
  mutating func meet(_ given: TableSchema) -> ChangedRule? {
    guard isPending(given), let rule = pending[given.plainName], met.insert(rule.table).inserted else { return nil }
    return rule
  }

  /// Returns whether a changed rule sends a table's rows to another target table, which by the options must be empty.
  func isLedElsewhere(_ given: TableSchema, _ options: ApplyOptions, to engine: Engine) -> Bool {
    guard options.refusesRowsElsewhere, isPending(given),
      let rule = options.changedRules.first(where: { $0.table.hasSameBytes(as: given.plainName) })
    else { return false }
    if rule.before.isEmpty { return true }
    return rule.steps(of: given, to: options.rules.rule(for: given), in: engine).contains(where: \.isElsewhere)
  }

  /// Notes that the changed rule of a table has taken effect.
  mutating func finish(_ given: TableSchema) {
    if isPending(given) { fresh.insert(given.plainName) }
  }

  /// Removes the tables `done`, whose changed rules have taken effect in another reader of the trail.
  mutating func leave(_ done: Set<NameKey>) {
    if !pending.isEmpty { pending = pending.filter { !done.contains($0.key) } }
  }

  mutating func noteCommit() -> Set<NameKey> {
    defer { fresh.removeAll() }
    return fresh
  }
}

extension CairnError {
  /// Returns the error for a rule that changes the constant column by which several trails share one table.
  ///
  /// A refresh with the new constant would leave the rows with the old constant in the table.
  static func shareChanged(_ source: TableSchema) -> CairnError {
    CairnError(
      .ruleRefused,
      "the rule of table \(source.fullName) changes the constant that separates its rows at the target from rows of other trails",
      hint:
        "put the constant back; or give the rule another `to` as well, or `share = false` if no other trail writes the table",
      context: ["table": source.fullName])
  }
}
