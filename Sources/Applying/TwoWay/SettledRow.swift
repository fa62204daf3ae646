import Changes
import Conflicts
import Reshaping
import Versions

/// What a row is to be by all its versions, in the form of the target.
struct SettledRow {
  /// What the transaction at hand made of it.
  let incoming: RowVersion
  /// All that is known, the incoming one among them.
  let history: RowHistory
  /// Nil: it is not to be there. Columns that no version gives are nil.
  let row: RowVersion.Row?
  /// As it was here.
  let local: [Value]?
  let conflicts: [Conflict]
  let rules: ConflictRules
  /// As this node decides it for all others, where it is to be another one than `row`.
  let decision: Decision?
  private let deciding: ConflictRules?
  private let columns: [String]
  /// What was there is changed by nobody else, conflict or not.
  let isKept: Bool
  /// What came counts for nothing, as its author may not change what was there.
  private let isLeftOut: Bool

  struct Decision: Equatable {
    /// Nil: it is not to be there.
    let row: RowVersion.Row?
  }

  /// `incoming` is the last of `versions`. `deciding`: by which rules this node decides for all others; nil: it does not.
  /// `columns`: of the table at the target. `function`: what one there makes of two rows.
  /// `counts`: whether a delete does, although others refer to the row. Errors: `rule-refused` where an expression of a
  /// rule cannot be evaluated.
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
      let settlement = try Settlement(history, rules, columnCount: columns.count, code: code)
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

  /// What a row is to be that is not here. Where it would be gone, it comes back as far as deletes of it do not count.
  static func row(
    _ history: RowHistory, _ rules: ConflictRules, columns: [String], counts: (RowVersion) throws -> Bool
  ) throws -> RowVersion.Row? {
    let code = code(rules, columns, local: nil, noFunction)
    let settled = try Settlement(history, rules, columnCount: columns.count, code: code).row
    return try row(history, rules, columns, settled, code, counts)
  }

  private static func row(
    _ history: RowHistory, _ rules: ConflictRules, _ columns: [String], _ settled: RowVersion.Row?, _ code: RuleCode,
    _ counts: (RowVersion) throws -> Bool
  ) throws -> RowVersion.Row? {
    if let settled { return settled }
    var history = history
    // Who deleted a row last had it as those before it made it, whether they are remembered here or not.
    while let left = try history.withoutHeads(where: { try !counts($0) }) {
      if left.versions.isEmpty { return history.versions.last?.before }
      if let row = try Settlement(left, rules, columnCount: columns.count, code: code).row { return row }
      history = left
    }
    return nil
  }

  /// Throws where of a row that has to come back only a part is known.
  static func checkWhole(_ row: RowVersion.Row, _ deleted: Stamp?, _ table: TableSchema, _ key: [Value]) throws {
    guard let missing = row.firstIndex(of: nil) else { return }
    let shown = zip(table.key, key).map { "\(table.columns[$0].name)=\($1.shown)" }.joined(separator: ", ")
    throw CairnError(
      .constraintFailed,
      "table \(table.fullName), row \(shown): another row refers to it, but it was deleted at \(deleted?.origin ?? "another node"), of which the trail does not say what its column \(table.columns[missing].name) was",
      hint:
        "insert the row here as it should be; and where it was deleted let PostgreSQL log whole rows, with ALTER TABLE ... REPLICA IDENTITY FULL",
      context: ["table": table.fullName, "key": shown])
  }

  /// What expressions and functions make of rows: of these, what no version gives is as it is here.
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

  /// Where the target has none.
  static func noFunction(_ name: String, _ rows: MetRows) throws -> RowVersion.Row? {
    throw CairnError(
      .ruleRefused,
      "the rule function:\(name) for conflicts cannot be kept: it is for a node whose database is PostgreSQL",
      hint: "name such a node with decides, or write the rule as an expression: sql:")
  }

  /// The row as if nobody had deleted it: where a row that came back refers to it.
  func living() throws -> RowVersion.Row? {
    try Self.row(history, rules, columns: columns) { !$0.isDelete }
  }

  /// Of the last that was written to it: by this, one of two rows that cannot both be has to go. Nil: it was only deleted,
  /// by versions that are known.
  var stamp: Stamp? { history.versions.last { !$0.isDelete }?.stamp }

  /// Of what it is to be, nobody here knows all.
  var isPartial: Bool {
    guard local == nil, let row else { return false }
    return row.indices.contains { row[$0] == nil && !incoming.lacks.contains($0) }
  }

  /// The row as it is to be, with what stays of the one that is there.
  var outcome: [Value?]? {
    row.map { row in local.map { zip(row, $0).map { $0 ?? $1 } } ?? row }
  }

  /// What it is when the decision of this node is made, too.
  private var standing: [Value?]? {
    guard let decision else { return outcome }
    return decision.row.map { row in local.map { zip(row, $0).map { $0 ?? $1 } } ?? row }
  }

  private var winner: ConflictRecord.Winner {
    let outcome = standing
    let wanted = incoming.after.map { after in local.map { zip(after, $0).map { $0 ?? $1 } } ?? after }
    return outcome == wanted ? .incoming : outcome == local.map { $0.map { $0 } } ? .local : .merged
  }

  /// A row that is not what its author took it for, while nobody is known to have written to it.
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

  /// What the log is to have of it. `isAhead`: the author knew what has not come here, so that the row may well be another
  /// one here.
  func records(
    _ place: VersionPlace, of trail: TrailName, _ table: TableSchema, key: [Value], now: Int64, isAhead: Bool
  ) -> [ConflictRecord] {
    func record(_ kind: Conflict.Kind, _ rule: String, _ other: Stamp?) -> ConflictRecord {
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

  /// What waits for this node's decision; nil: nothing.
  func openDecision(_ table: TableSchema, key: [Value]) -> OpenDecision? {
    guard decision != nil else { return nil }
    let names = table.columns.map(\.name)
    return OpenDecision(
      namespace: table.namespace, table: table.name, key: ConflictRow(table.key.map { names[$0] }, key),
      settled: outcome.map { ConflictRow(names, $0) }, decided: standing.map { ConflictRow(names, $0) })
  }

  /// Of a row that comes back, or stays, as another one refers to it.
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
  /// Of a transaction at its place, with rows in the order of the table's columns.
  init(
    _ kind: Conflict.Kind, _ rule: String, _ place: VersionPlace, of trail: TrailName, _ table: TableSchema,
    key: [Value], local: [Value?]?, incoming: [Value?]?, before: [Value?]?, settled: [Value?]?, winner: Winner,
    other: Stamp?, now: Int64
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
  /// A version as a trail holds it, with its values brought into the target's form by `convert`. `lacks`: columns of that
  /// form which the trail's table does not have.
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
  /// Whether nothing would become of a row here but what it is: what no version gives stays.
  func isAll(of local: [Value]?) -> Bool { local.map { zip(self, $0).allSatisfy { $0 == nil || $0 == $1 } } ?? false }
}
