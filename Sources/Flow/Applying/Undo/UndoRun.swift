import Changes

/// Carries out an undo in a database: one transaction, as an application would write it, so capture records it.
///
///     let outcome = try UndoRun(database, schemas: tables).run(plan, isForced: false, isDry: true)
package struct UndoRun {
  /// The changes that an undo made, or would make.
  package struct Outcome: Sendable {
    package struct Change: Sendable {
      package let table: String
      package let key: String
      package let step: UndoPlan.Step.Kind
      package let schema: TableSchema
      /// The row before the step.
      package let now: [Value]?
    }
    package var changes: [Change] = []
    /// The reasons for which nothing was written.
    package var refusals: [UndoRefusal] = []
    /// The rows that were gone, and the columns that triggers wrote again, which a forced undo left as they are.
    package var left: [UndoRefusal] = []
    package init() {}
  }

  /// Ends the transaction without a commit.
  private struct Refused: Error { let refusals: [UndoRefusal] }
  private struct DryRun: Error { let outcome: Outcome }

  private let database: any UndoDatabase
  private let schemas: [TableSchema]

  /// - Parameter schemas: All tables of the database as they are now.
  init(_ database: any UndoDatabase, schemas: [TableSchema]) {
    (self.database, self.schemas) = (database, schemas)
  }

  /// Writes the inverse of a plan, or finds out why it cannot be written.
  ///
  /// - Parameter isForced: Whether columns are written that later transactions wrote.
  /// - Parameter isDry: Whether the transaction is rolled back in the end.
  package func run(_ plan: UndoPlan, isForced: Bool, isDry: Bool) throws -> Outcome {
    var outcome = Outcome()
    outcome.refusals = plan.refusals(isForced: isForced)
    if outcome.refusals.contains(where: { !$0.isForceable }) { return outcome }
    let early = outcome.refusals
    do {
      let done = try database.transaction {
        var attempt = Attempt(database, schemas, plan, isForced: isForced)
        let done = try attempt.run(known: early)
        if !early.isEmpty { throw Refused(refusals: early) }
        if isDry { throw DryRun(outcome: done) }
        return done
      }
      return done
    } catch let refused as Refused {
      outcome.refusals = refused.refusals
      return outcome
    } catch let dry as DryRun {
      return dry.outcome
    } catch {
      // A deferred constraint, which the commit checks.
      guard let message = database.refusal(error) else { throw error }
      outcome.refusals = [UndoRefusal(table: "", key: nil, column: nil, reason: .database(message))]
      return outcome
    }
  }

  /// The writes within the transaction.
  private struct Attempt {
    let database: any UndoDatabase
    let schemas: [TableSchema]
    let plan: UndoPlan
    let isForced: Bool
    /// The rows of the plan as the database has them; nil for no row.
    var now: [[Value]?]
    var outcome = Outcome()

    init(_ database: any UndoDatabase, _ schemas: [TableSchema], _ plan: UndoPlan, isForced: Bool) {
      (self.database, self.schemas, self.plan, self.isForced) = (database, schemas, plan, isForced)
      now = Array(repeating: nil, count: plan.rows.count)
    }

    private func schema(_ row: Int) -> TableSchema { plan.tables[plan.rows[row].table] }

    /// - Parameter known: The refusals that the trail gives. With them, only rows that differ are looked for.
    mutating func run(known: [UndoRefusal]) throws -> Outcome {
      try checkTables()
      try checkRows(besides: known)
      if !known.isEmpty { return outcome }
      try write()
      try settle()
      return outcome
    }

    // MARK: Checks

    private func checkTables() throws {
      for table in plan.tables {
        let there = schemas.first { $0.plainName == table.plainName && $0.name.hasSameBytes(as: table.name) }
        guard table.hasShape(of: there) else {
          throw Refused(refusals: [UndoRefusal(table: table.fullName, key: nil, column: nil, reason: .misfit)])
        }
        try database.hold(table)
      }
    }

    /// Reads and locks all rows, and compares them with the trail.
    private mutating func checkRows(besides known: [UndoRefusal]) throws {
      var refusals: [UndoRefusal] = []
      for place in plan.written(isForced: false) {
        let row = plan.rows[place]
        if isForced, row.isGone {
          if let (writer, _) = row.replaced { outcome.left.append(plan.refusal(row, .deleted(writer))) }
          continue
        }
        let schema = schema(place)
        guard let image = row.latest else {
          // The transaction deleted the row, and no other one has its key.
          guard !row.isReused, row.replaced == nil, let before = row.before, !schema.isWholeRow(before) else {
            continue
          }
          if let there = try database.find(before, schema) {
            let shown = UndoPlan.shownKey(there, schema)
            refusals.append(plan.refusal(row, .differs(now: shown, expected: nil)))
          }
          continue
        }
        guard let there = try database.find(image, schema) else {
          refusals.append(plan.refusal(row, .differs(now: nil, expected: nil)))
          continue
        }
        now[place] = there
        let columns = row.after != nil && row.before != nil ? row.changed : Array(there.indices)
        for column in columns {
          guard let expected = image[column], expected != there[column] else { continue }
          let reason = UndoRefusal.Reason.differs(
            now: there[column].shown(max: 40), expected: expected.shown(max: 40))
          refusals.append(plan.refusal(row, reason, column: column))
        }
      }
      if !refusals.isEmpty { throw Refused(refusals: known + refusals) }
    }

    // MARK: Writes

    /// Runs all steps. A step that the database refuses for another row is tried again after the others.
    private mutating func write() throws {
      let rows = Set(plan.written(isForced: isForced))
      var pending = plan.steps.filter { rows.contains($0.row) }
      while !pending.isEmpty {
        var (left, blocked, refusals): ([UndoPlan.Step], Set<Int>, [UndoRefusal]) = ([], [], [])
        for step in pending {
          if blocked.contains(step.row) {
            left.append(step)
            continue
          }
          guard let refusal = try attempt(step) else { continue }
          left.append(step)
          blocked.insert(step.row)
          refusals.append(refusal)
        }
        if left.count == pending.count { throw Refused(refusals: refusals) }
        pending = left
      }
    }

    /// Runs one step; returns the reason if the database refuses it.
    private mutating func attempt(_ step: UndoPlan.Step) throws -> UndoRefusal? {
      let row = plan.rows[step.row]
      try database.execute("SAVEPOINT cairn_undo", [])
      do {
        if let child = try referrer(of: step) {
          try database.execute("RELEASE SAVEPOINT cairn_undo", [])
          return plan.refusal(row, .referenced(by: child))
        }
        let before = now[step.row]
        try perform(step)
        try database.execute("RELEASE SAVEPOINT cairn_undo", [])
        let schema = schema(step.row)
        outcome.changes.append(
          Outcome.Change(
            table: schema.fullName, key: UndoPlan.shownKey(before ?? now[step.row] ?? [], schema), step: step.kind,
            schema: schema, now: before))
        return nil
      } catch {
        guard let message = database.refusal(error) else { throw error }
        try database.execute("ROLLBACK TO SAVEPOINT cairn_undo", [])
        try database.execute("RELEASE SAVEPOINT cairn_undo", [])
        return plan.refusal(row, .database(message))
      }
    }

    private mutating func perform(_ step: UndoPlan.Step) throws {
      let schema = schema(step.row)
      let count: Int64
      var then: [Value]?
      switch (step.kind, now[step.row]) {
      case (.insert(let values), nil):
        count = try database.insert(values, schema)
        then = values
      case (.insert(let values), let there?):
        // Forced: another row has the key.
        let set = Dictionary(uniqueKeysWithValues: values.enumerated().map { ($0, $1) })
        count = try database.update(there, set, schema)
        then = values
      case (.delete, let there?):
        count = try database.delete(there, schema)
        then = nil
      case (.update(let set), let there?):
        count = try database.update(there, set, schema)
        then = there.enumerated().map { set[$0] ?? $1 }
      case (.delete, nil), (.update, nil): throw missing(step.row)
      }
      guard count == 1 else { throw missing(step.row) }
      now[step.row] = then
    }

    private func missing(_ row: Int) -> Refused {
      Refused(refusals: [plan.refusal(plan.rows[row], .differs(now: nil, expected: nil))])
    }

    /// Returns a table with rows that refer to the row of a step, and that the database would change with it.
    private func referrer(of step: UndoPlan.Step) throws -> String? {
      guard let there = now[step.row] else { return nil }
      return try referrer(of: there, schema(step.row), step.kind)
    }

    /// Returns a table with rows that refer to `row`, and that the database would change with it.
    private func referrer(of row: [Value], _ schema: TableSchema, _ kind: UndoPlan.Step.Kind) throws -> String? {
      for key in try database.references(to: schema) {
        let action: String
        switch kind {
        case .delete: action = key.onDelete
        case .insert, .update: action = key.onUpdate
        }
        if ["", "NO ACTION", "RESTRICT"].contains(action.asciiUppercased) { continue }
        guard key.references.count == key.conditions.count, !key.conditions.isEmpty else { return key.child }
        if case .update(let set) = kind, !key.references.contains(where: { set[$0] != nil }) { continue }
        if try database.isReferenced(row, of: schema, by: key) { return key.child }
      }
      return nil
    }

    // MARK: Triggers

    /// Checks that each row is as it was before the transaction. Triggers may have undone parts of it a second time,
    /// because the trail has the rows that they wrote: such values are written once more.
    private mutating func settle() throws {
      for isLast in [false, true] {
        var refusals: [UndoRefusal] = []
        for place in plan.written(isForced: isForced) {
          refusals += try differences(place, isMended: !isLast)
        }
        if refusals.isEmpty { return }
        guard isLast else { continue }
        if !isForced { throw Refused(refusals: refusals) }
        outcome.left += refusals
      }
    }

    private func differences(_ place: Int, isMended: Bool) throws -> [UndoRefusal] {
      let (row, schema) = (plan.rows[place], schema(place))
      guard let wanted = now[place] else {
        guard let image = row.latest ?? row.after, !schema.isWholeRow(image) else { return [] }
        // A row of the transaction's own may have the key.
        let isTaken = now.indices.contains { other in
          guard plan.rows[other].table == row.table, let there = now[other] else { return false }
          return schema.key.allSatisfy { there[$0] == image[$0] }
        }
        if isTaken { return [] }
        guard let there = try database.find(image, schema) else { return [] }
        if isMended, try referrer(of: there, schema, .delete) == nil { _ = try database.delete(there, schema) }
        return [plan.refusal(row, .trigger)]
      }
      guard let there = try database.find(wanted, schema) else {
        return [plan.refusal(row, .trigger)]
      }
      let columns = row.before != nil && row.after != nil ? row.changed : Array(wanted.indices)
      let differing = columns.filter { there[$0] != wanted[$0] }
      guard !differing.isEmpty else { return [] }
      let set = Dictionary(uniqueKeysWithValues: differing.map { ($0, wanted[$0]) })
      if isMended, try referrer(of: there, schema, .update(set)) == nil { _ = try database.update(there, set, schema) }
      return differing.map { plan.refusal(row, .trigger, column: $0) }
    }
  }
}
