import Changes
import Reshaping

/// A table whose rule is another one than that under which its rows came.
///
/// It is met with the first of its records that is read: then it gets the shape that the new rule means, and takes
/// nothing until a copy of it begins.
package struct ChangedRule: Equatable, Sendable {
  /// The table's ``TableSchema/plainName`` at the source.
  @ByBytes package var table: String
  /// The rules by one of which the target's table has its shape, the oldest first; nil: none. Empty: no rows of the table
  /// came before, as the list of the apply did not include it.
  package var before: [ReshapeRule?]
  /// Its rows come again; otherwise those that are there stay as they are.
  package var isCopied: Bool

  package init(_ table: String, before: [ReshapeRule?], isCopied: Bool) {
    (self.table, self.before, self.isCopied) = (table, before, isCopied)
  }

  /// From what a table was under one rule to what it is under the next.
  struct Step {
    var was: TableSchema
    var now: TableSchema
    /// For each column: which one it was.
    var origins: [Int?]
    var isElsewhere: Bool { was.sourceKey.nameKey != now.sourceKey.nameKey }
  }

  /// From the rules that were to `rule`; `given` is the table at the source. What a rule that could not be kept made of
  /// it is left out.
  func steps(of given: TableSchema, to rule: ReshapeRule?, in target: Engine) -> [Step] {
    guard let now = ReshapePlan.shape(of: given, under: rule, to: target) else { return [] }
    let were = before.compactMap { ReshapePlan.shape(of: given, under: $0, to: target) }
    // A table whose constant is another one was refused, and never made.
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

/// Which of the tables with another rule a replay has met, and of which a copy has begun.
struct ChangedRules {
  private var pending: [NameKey: ChangedRule]
  private var met: Set<NameKey> = []
  /// Done with, since the last commit.
  private(set) var fresh: Set<NameKey> = []

  /// `done`: those that an earlier replay of this run has done with.
  init(_ rules: [ChangedRule], besides done: Set<NameKey>) {
    pending = Dictionary(rules.filter { !done.contains($0.table) }.map { ($0.table.nameKey, $0) }) { first, _ in first }
  }

  func isPending(_ given: TableSchema) -> Bool {
    !pending.isEmpty && pending[given.plainName] != nil && !fresh.contains(given.plainName)
  }

  /// Nil for a table with the rule that it had, and for one that was met before.
  mutating func meet(_ given: TableSchema) -> ChangedRule? {
    guard isPending(given), let rule = pending[given.plainName], met.insert(rule.table).inserted else { return nil }
    return rule
  }

  /// Its copy begins, or it needs none.
  mutating func finish(_ given: TableSchema) {
    if isPending(given) { fresh.insert(given.plainName) }
  }

  /// Another replay has done with them.
  mutating func leave(_ done: Set<NameKey>) {
    if !pending.isEmpty { pending = pending.filter { !done.contains($0.key) } }
  }

  mutating func noteCommit() -> Set<NameKey> {
    defer { fresh.removeAll() }
    return fresh
  }
}

extension CairnError {
  /// The target's rows of a table are told from others' by its constant, so no copy replaces them under another one.
  static func shareChanged(_ source: TableSchema) -> CairnError {
    CairnError(
      .ruleRefused,
      "the rule of table \(source.fullName) gives its rows another constant than they have at the target, where it tells them from those of others",
      hint:
        "put the constant back; or give the rule another `to` as well, or `share = false` where nobody else feeds the table",
      context: ["table": source.fullName])
  }
}
