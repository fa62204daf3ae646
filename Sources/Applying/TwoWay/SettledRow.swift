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

  /// `incoming` is the last of `versions`. Errors: `rule-refused` where an expression of a rule cannot be evaluated.
  init(_ versions: [RowVersion], local: [Value]?, _ rules: ConflictRules, columnCount: Int) throws {
    incoming = versions[versions.count - 1]
    history = RowHistory(versions)
    (self.local, self.rules) = (local, rules)
    row = try Settlement(history, rules, columnCount: columnCount) { expression, local, incoming, before in
      try ConflictExpression(expression).value(local: local, incoming: incoming, before: before)
    }.row
    conflicts = Conflict.all(of: incoming, in: history, rules, columnCount: columnCount)
  }

  /// The row as it was before it was deleted, with what others did to it: where another row needs it.
  var living: RowVersion.Row? { Self.living(history, rules, columnCount: incoming.before?.count ?? 0) }

  static func living(_ history: RowHistory, _ rules: ConflictRules, columnCount: Int) -> RowVersion.Row? {
    var kept = rules
    kept.deletes = .updateWins
    let row = try? Settlement(history, kept, columnCount: columnCount) { expression, local, incoming, before in
      try ConflictExpression(expression).value(local: local, incoming: incoming, before: before)
    }.row
    return row ?? history.versions.last(where: \.isDelete)?.before
  }

  /// Of the last that was written to it: by this, one of two rows that cannot both be has to go.
  var stamp: Stamp { history.versions.last { !$0.isDelete }?.stamp ?? incoming.stamp }

  /// The row as it is to be, with what stays of the one that is there.
  var outcome: [Value?]? {
    row.map { row in local.map { zip(row, $0).map { $0 ?? $1 } } ?? row }
  }

  private var winner: ConflictRecord.Winner {
    let outcome = outcome
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
    let names = table.columns.map(\.name)
    func shown(_ row: [Value?]?) -> ConflictRow? { row.map { ConflictRow(names, $0) } }
    func record(_ kind: Conflict.Kind, _ rule: String, _ other: Stamp?) -> ConflictRecord {
      ConflictRecord(
        at: now, trail: trail, position: place.begin, number: place.stamp.number, clock: place.stamp.clock, kind: kind,
        rule: rule, namespace: table.namespace, table: table.name,
        key: ConflictRow(table.key.map { names[$0] }, key), local: shown(local), incoming: shown(incoming.after),
        before: shown(incoming.before), settled: shown(outcome), winner: winner, other: other)
    }
    if !conflicts.isEmpty { return conflicts.map { record($0.kind, rules.text(for: $0), $0.other) } }
    guard !isAhead, let kind = strangeness else { return [] }
    return [record(kind, rules.rule.text, nil)]
  }

  /// Of a row that comes back, or stays, as another one refers to it.
  static func returned(
    _ row: [Value?], _ place: VersionPlace, of trail: TrailName, _ table: TableSchema, key: [Value], now: Int64
  ) -> ConflictRecord {
    let names = table.columns.map(\.name)
    return ConflictRecord(
      at: now, trail: trail, position: place.begin, number: place.stamp.number, clock: place.stamp.clock,
      kind: .deleteOriginDiffers, rule: "foreign key", namespace: table.namespace, table: table.name,
      key: ConflictRow(table.key.map { names[$0] }, key), local: nil, incoming: nil, before: ConflictRow(names, row),
      settled: ConflictRow(names, row), winner: .merged, other: nil)
  }

  /// Of two rows that have a unique value in common.
  func collision(
    with other: [Value], _ stamp: Stamp?, isOurs: Bool, _ place: VersionPlace, of trail: TrailName,
    _ table: TableSchema, key: [Value], now: Int64
  ) -> ConflictRecord {
    let names = table.columns.map(\.name)
    return ConflictRecord(
      at: now, trail: trail, position: place.begin, number: place.stamp.number, clock: place.stamp.clock,
      kind: .multipleUniqueConflicts, rule: ConflictRules.Rule.newest.text, namespace: table.namespace,
      table: table.name, key: ConflictRow(table.key.map { names[$0] }, key), local: ConflictRow(names, other),
      incoming: row.map { ConflictRow(names, $0) }, before: nil,
      settled: isOurs ? row.map { ConflictRow(names, $0) } : ConflictRow(names, other),
      winner: isOurs ? .incoming : .local, other: stamp)
  }
}

extension RowVersion {
  /// A version as a trail holds it, with its values brought into the target's form by `convert`.
  init(_ stored: StoredVersion, _ convert: ([Value?]) throws -> Row) rethrows {
    let (before, after) = (try stored.before.map(convert), try stored.after.map(convert))
    let write: Write =
      switch (before, after) {
      case (nil, let after?): .insert(after)
      case (let before?, let after?): .update(before: before, after: after)
      case (let before, nil): .delete(before: before ?? [])
      }
    self.init(stored.stamp, seen: stored.seen, write)
  }
}
