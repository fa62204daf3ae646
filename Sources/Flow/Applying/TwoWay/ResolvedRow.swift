import Changes
import Conflicts
import Transforming
import Versions

/// The resolved row: the result of all versions of a row, converted for the target.
struct ResolvedRow {
  let incoming: RowVersion
  let history: RowHistory
  /// The resolved row; nil: deleted. Columns that no version gives are nil.
  let row: RowVersion.Row?
  let local: [Value]?
  let conflicts: [Conflict]
  let rules: ConflictRules
  /// The row that this node decides for all nodes; nil if it decides nothing, or if the resolved row is the same.
  let decision: Decision?
  private let deciding: ConflictRules?
  private let columns: [String]
  /// Whether the target's row stays unchanged because the rule `insert-only` lets only another node change the row.
  let isKept: Bool
  /// Whether the incoming version has no effect, because the rule `insert-only` does not let its author change the row.
  private let isLeftOut: Bool

  struct Decision: Equatable {
    let row: RowVersion.Row?
  }

  /// Resolves a row from its versions, by conflict rules.
  ///
  /// - Parameter versions: All known versions of the row, the incoming one last.
  /// - Parameter deciding: The rules by which this node decides for all nodes; nil: it is not the decider.
  /// - Parameter columns: The columns of the table at the target.
  /// - Parameter function: Calls the database function of a rule `function:` with two rows.
  /// - Parameter counts: Returns whether a version has effect. A delete has no effect if another node referenced the
  ///   row concurrently.
  /// - Throws: `rule-refused` if an expression of a rule cannot be evaluated.
  init(
    _ versions: [RowVersion], local: [Value]?, _ rules: ConflictRules, deciding: ConflictRules? = nil,
    columns: [String], function: @escaping RuleCode.Function = Self.noFunction, counts: (RowVersion) throws -> Bool
  ) throws {
    let history = RowHistory(versions)
    incoming = versions[versions.count - 1]
    (self.history, self.local, self.rules, self.deciding) = (history, local, rules, deciding)
    self.columns = columns
    let stamp = incoming.stamp
    func settled(_ rules: ConflictRules) throws -> (row: RowVersion.Row?, isKept: Bool, isLeftOut: Bool) {
      let code = Self.code(rules, columns, local: local, function)
      let settlement = try ConflictResolution(history, rules, columnCount: columns.count, code: code)
      let isLeftOut = settlement.leftOut.contains(stamp)
      if settlement.isKept { return (local, true, isLeftOut) }
      return (try Self.row(history, rules, columns, settlement.row, code, counts), false, isLeftOut)
    }
    let (row, decided) = (try settled(rules), try deciding.map(settled))
    self.row = row.row
    (isKept, isLeftOut) = decided.map { ($0.isKept, $0.isLeftOut) } ?? (row.isKept, row.isLeftOut)
    decision = decided.flatMap { $0.row == row.row ? nil : Decision(row: $0.row) }
    conflicts = Conflict.all(of: incoming, in: history, rules, columnCount: columns.count)
  }

  /// Resolves a row without using the target's values, and returns its known values; nil: deleted.
  ///
  /// - Parameter counts: Returns whether a version has effect. A delete has no effect if a reference needs the row.
  static func row(
    _ history: RowHistory, _ rules: ConflictRules, columns: [String], counts: (RowVersion) throws -> Bool
  ) throws -> RowVersion.Row? {
    let code = code(rules, columns, local: nil, noFunction)
    let settled = try ConflictResolution(history, rules, columnCount: columns.count, code: code).row
    return try row(history, rules, columns, settled, code, counts)
  }

  private static func row(
    _ history: RowHistory, _ rules: ConflictRules, _ columns: [String], _ settled: RowVersion.Row?, _ code: RuleCode,
    _ counts: (RowVersion) throws -> Bool
  ) throws -> RowVersion.Row? {
    if let settled { return settled }
    var history = history
    // The last delete has an image of the row before the delete, even if earlier versions are no longer known here.
    while let left = try history.withoutHeads(where: { try !counts($0) }) {
      if left.versions.isEmpty { return history.versions.last?.before }
      if let row = try ConflictResolution(left, rules, columnCount: columns.count, code: code).row { return row }
      history = left
    }
    return nil
  }

  /// Throws `constraint-failed` if a column of a deleted row that must be restored has no known value.
  ///
  /// A column that the table of the delete's author lacks may be without a value.
  static func checkWhole(_ row: RowVersion.Row, _ history: RowHistory, _ table: TableSchema, _ key: [Value]) throws {
    let deleted = history.versions.last(where: \.isDelete)
    let lacks = (deleted ?? history.versions.last)?.lacks ?? []
    guard let missing = row.indices.first(where: { row[$0] == nil && !lacks.contains($0) }) else { return }
    let shown = zip(table.key, key).map { "\(table.columns[$0].name)=\($1.shown)" }.joined(separator: ", ")
    throw CairnError(
      .constraintFailed,
      "table \(table.fullName), row \(shown): another row refers to it, but it was deleted at \(deleted?.stamp.origin ?? "another node"), whose trail does not have the value of column \(table.columns[missing].name)",
      hint:
        "insert the row here; and at the node that deleted it, make PostgreSQL log whole rows: ALTER TABLE ... REPLICA IDENTITY FULL",
      context: ["table": table.fullName, "key": shown])
  }

  private static func code(
    _ rules: ConflictRules, _ columns: [String], local: [Value]?, _ function: @escaping RuleCode.Function
  ) -> RuleCode {
    func whole(_ rows: MetRows) -> MetRows {
      guard let local else { return rows }
      var rows = rows
      rows.local = zip(rows.local, local).map { $0 ?? $1 }
      rows.incoming = zip(rows.incoming, local).map { $0 ?? $1 }
      rows.before = rows.before.map { zip($0, local).map { $0 ?? $1 } }
      return rows
    }
    return RuleCode(
      expression: { text, rows in
        try ConflictExpression(text, columns: columns, isOfRows: rows.column == nil).value(whole(rows))
      }, function: { try function($0, whole($1)) })
  }

  /// Throws `rule-refused`: an SQLite database cannot run the function of a rule `function:`.
  static func noFunction(_ name: String, _ rows: MetRows) throws -> RowVersion.Row? {
    throw CairnError(
      .ruleRefused,
      "the rule function:\(name) for conflicts cannot run here: it needs a PostgreSQL database",
      hint: "name a PostgreSQL node with 'decides', or write the rule as an expression, sql:")
  }

  /// Resolves the row without its deletes, because a restored row references it. Nil if no values are known.
  func living() throws -> RowVersion.Row? {
    try Self.row(history, rules, columns: columns) { !$0.isDelete }
  }

  /// The stamp of the last write to the row; nil if all known versions are deletes.
  var stamp: VersionStamp? { history.versions.last { !$0.isDelete }?.stamp }

  /// Whether the target lacks the row, and the versions do not give all of its columns.
  var isPartial: Bool {
    guard local == nil, let row else { return false }
    return row.indices.contains { row[$0] == nil && !incoming.lacks.contains($0) }
  }

  /// The resolved row, with the target's values in columns that no version gives; nil: deleted.
  var outcome: [Value?]? {
    row.map { row in local.map { zip(row, $0).map { $0 ?? $1 } } ?? row }
  }

  /// The row after this node's decision; without a decision, the resolved row. Nil: the row is deleted.
  private var standing: [Value?]? {
    guard let decision else { return outcome }
    return decision.row.map { row in local.map { zip(row, $0).map { $0 ?? $1 } } ?? row }
  }

  private var winner: ConflictRecord.Winner {
    let outcome = standing
    let wanted = incoming.after.map { after in local.map { zip(after, $0).map { $0 ?? $1 } } ?? after }
    return outcome == wanted ? .incoming : outcome == local.map { $0.map { $0 } } ? .local : .merged
  }

  /// The kind of conflict if the table's row differs from the row that the incoming version's author changed. Nil: no
  /// conflict.
  private var strangeness: Conflict.Kind? {
    guard history.versions.count == 1 else { return nil }
    switch (incoming.write, local) {
    case (.insert(let row), let local?): return zip(row, local).contains { $0 != nil && $0 != $1 } ? .insertExists : nil
    case (.insert, nil): return nil
    case (.update, nil): return .updateMissing
    case (.delete, nil): return .deleteMissing
    case (.update(let before, _), let local?), (.delete(let before), let local?):
      let differs = zip(before, local).contains { $0 != nil && $0 != $1 }
      return !differs ? nil : incoming.isDelete ? .deleteOriginDiffers : .updateOriginDiffers
    }
  }

  /// Returns the entries for the conflict log about this row; empty if there was no conflict.
  ///
  /// - Parameter isAhead: Whether the incoming version's author knew changes that have not arrived here. If so, a row
  ///   that differs from the author's is no conflict.
  func records(
    _ place: VersionPlace, of trail: TrailName, _ table: TableSchema, key: [Value], now: Int64, isAhead: Bool
  ) -> [ConflictRecord] {
    func record(_ kind: Conflict.Kind, _ rule: String, _ other: VersionStamp?) -> ConflictRecord {
      ConflictRecord(
        kind, rule, place, of: trail, table, key: key, local: local, incoming: incoming.after, before: incoming.before,
        settled: standing, winner: winner, other: other, now: now)
    }
    let rules = deciding ?? self.rules
    if !conflicts.isEmpty { return conflicts.map { record($0.kind, rules.text(for: $0), $0.other) } }
    if isLeftOut, local != nil {
      let kind: Conflict.Kind =
        incoming.isDelete ? .deleteOriginDiffers : incoming.isInsert ? .insertExists : .updateOriginDiffers
      return [record(kind, ConflictRules.Rule.insertOnly.text, nil)]
    }
    guard !isAhead, let kind = strangeness else { return [] }
    return [record(kind, rules.rule.text, nil)]
  }

  /// Returns this node's decision about the row, which this node still has to write; nil: none.
  func openDecision(_ table: TableSchema, key: [Value]) -> OpenDecision? {
    guard decision != nil else { return nil }
    let names = table.columns.map(\.name)
    return OpenDecision(
      namespace: table.namespace, table: table.name, key: ConflictRow(table.key.map { names[$0] }, key),
      settled: outcome.map { ConflictRow(names, $0) }, decided: standing.map { ConflictRow(names, $0) })
  }

  /// Returns the log entry about a row that is not deleted because another row references it.
  static func returned(
    _ row: [Value?], local: [Value]? = nil, _ place: VersionPlace, of trail: TrailName, _ table: TableSchema,
    key: [Value], now: Int64
  ) -> ConflictRecord {
    ConflictRecord(
      .deleteOriginDiffers, "foreign key", place, of: trail, table, key: key, local: local, incoming: nil, before: row,
      settled: row, winner: .merged, other: nil, now: now)
  }
}

extension ConflictRecord {
  /// Creates the log entry of a conflict. The values of each row are in the order of the table's columns.
  init(
    _ kind: Conflict.Kind, _ rule: String, _ place: VersionPlace, of trail: TrailName, _ table: TableSchema,
    key: [Value], local: [Value?]?, incoming: [Value?]?, before: [Value?]?, settled: [Value?]?, winner: Winner,
    other: VersionStamp?, now: Int64
  ) {
    let names = table.columns.map(\.name)
    func named(_ row: [Value?]?) -> ConflictRow? { row.map { ConflictRow(names, $0) } }
    self.init(
      at: now, trail: trail, position: place.begin, number: place.stamp.number, clock: place.stamp.clock, kind: kind,
      rule: rule, namespace: table.namespace, table: table.name, key: ConflictRow(table.key.map { names[$0] }, key),
      local: named(local), incoming: named(incoming), before: named(before), settled: named(settled), winner: winner,
      other: other)
  }
}

extension RowVersion {
  /// Converts a row version from a trail into the target's form.
  ///
  /// - Parameter lacks: The target's columns that the trail's table does not have.
  /// - Parameter convert: Converts values into the target's form.
  init(_ stored: StoredVersion, lacks: Set<Int>, _ convert: ([Value?]) throws -> Row) rethrows {
    let (before, after) = (try stored.before.map(convert), try stored.after.map(convert))
    let write: Write =
      switch (before, after) {
      case (nil, let after?): .insert(after)
      case (let before?, let after?): .update(before: before, after: after)
      case (let before, nil): .delete(before: before ?? [])
      }
    self.init(stored.stamp, seen: stored.seen, write, lacks: lacks)
  }
}

extension [Value?] {
  func isAll(of local: [Value]?) -> Bool { local.map { zip(self, $0).allSatisfy { $0 == nil || $0 == $1 } } ?? false }
}
