import Changes
import Conflicts

/// An operator's decision about the change of one row at which a one-way apply has stopped.
///
///     RowDecision(.skip, of: trail, at: position, transaction: 7, by: "uid 1000")
package struct RowDecision: Equatable, Sendable {
  package enum Verdict: String, CaseIterable, Sendable {
    /// Apply leaves the change out: the target's row stays as it is.
    case skip
    /// Apply writes the source's row over the row of the target.
    case takeSource = "take-source"
  }

  package var verdict: Verdict
  package var trail: TrailID
  /// The place of the change in the trail.
  package var position: Position
  package var transaction: UInt64
  /// The operator who decided, such as `uid 1000`.
  @ByBytes package var by: String

  package init(_ verdict: Verdict, of trail: TrailID, at position: Position, transaction: UInt64, by: String) {
    (self.verdict, self.trail, self.position) = (verdict, trail, position)
    (self.transaction, self.by) = (transaction, by)
  }

  /// The decision as the rule of an entry in the conflict log.
  var rule: String { "\(verdict.rawValue) by \(by)" }
}

extension GroupApplier {
  /// Carries out the operator's decision about the present record. Returns false if there is none, or if it cannot be
  /// carried out: the record is then applied like any other.
  ///
  /// Each decision counts only for its own record, and only in a one-way table.
  func isDecided(_ record: Record) throws -> Bool {
    guard !options.refused.decisions.isEmpty, takesDecisions, let id = record.schemaID,
      let decision = options.refused.decisions.first(where: {
        $0.position == reader.position && $0.transaction == cursor.present && $0.trail == reader.id
      })
    else { return false }
    var isDone = false
    try betweenRows(of: id) {
      // A copy brings the row of a table that waits for one.
      guard let table = try table(id), !table.goesBothWays, !table.isAwaited else { return }
      switch (decision.verdict, record) {
      case (.skip, .change(let change)):
        try oneWay.leaveOut(change, of: schema(id), table, by: decision)
        isDone = true
      case (.skip, .refreshRow(_, let image)):
        try oneWay.logLeftOut(before: nil, after: image.values(), of: schema(id), table, by: decision)
        refreshes.noteRow()
        isDone = true
      case (.takeSource, .change(let change)): isDone = try oneWay.takeSource(of: change, table, by: decision)
      default: break
      }
    }
    if isDone, decision.verdict == .skip { group.skipChange() }
    return isDone
  }
}

extension OneWayTarget {
  fileprivate func takeSource(of change: ChangeView, _ table: Table, by decision: RowDecision) throws -> Bool {
    let rows = try rows(of: change, table)
    let plan = try SourceWins(before: rows.before, after: rows.after, key: table.rowKey) {
      try localRow($0, of: table)
    }
    let isWritten =
      try plan.map { plan in
        try plan.passedOver == nil && naming(table) { try plan.settle(at: self, table, by: decision.rule) }
      } ?? false
    if !isWritten {
      progress.note(
        "take-source of the row of table \(table.shape.fullName) at \(decision.position) of trail \(name) is not possible: the trail does not have the whole row, or the row's key does not identify it"
      )
    }
    return isWritten
  }

  // MARK: Changes that are left out

  fileprivate func leaveOut(
    _ change: ChangeView, of source: @autoclosure () throws -> TableSchema, _ table: Table, by decision: RowDecision
  ) throws {
    let (before, after) = (try change.before?.values(), try change.after?.values())
    var plan: SourceWins?
    // The target may have no form for a value of the row: then the log has the row as the trail has it.
    do {
      let rows = try rows(of: change, table)
      plan = try SourceWins(before: rows.before, after: rows.after, key: table.rowKey) { try localRow($0, of: table) }
    } catch is CairnError {}
    guard let plan else { return try logLeftOut(before: before, after: after, of: source(), table, by: decision) }
    for step in plan.steps {
      try log(
        ConflictRecord(
          step.kind ?? .changeRefused, decision.rule, cursor.place, of: name, table.shape, key: step.key,
          local: step.local, incoming: step.incoming, before: step.before, settled: step.local, winner: .local,
          other: nil, now: clock.microseconds()))
    }
  }

  /// Logs a change that is left out, with the row as the trail has it.
  fileprivate func logLeftOut(
    before: [Value?]?, after: [Value?]?, of source: TableSchema, _ table: Table, by decision: RowDecision
  ) throws {
    let names = source.columns.map(\.name)
    let whole = after.map { after in before.map { after.filled(from: $0) } ?? after }
    let known = before ?? whole ?? []
    // All values identify a row without a key.
    let key = source.key.isEmpty ? Array(names.indices) : source.key
    func value(_ index: Int) -> Value? { index < known.count ? known[index] : nil }
    try log(
      ConflictRecord(
        at: clock.microseconds(), trail: name, position: cursor.place.begin, number: cursor.place.stamp.number,
        clock: cursor.place.stamp.clock, kind: .changeRefused, rule: decision.rule, namespace: table.shape.namespace,
        table: table.shape.name, key: ConflictRow(key.map { names[$0] }, key.map(value)), local: nil,
        incoming: whole.map { ConflictRow(names, $0) }, before: before.map { ConflictRow(names, $0) }, settled: nil,
        winner: .local, other: nil))
  }
}
