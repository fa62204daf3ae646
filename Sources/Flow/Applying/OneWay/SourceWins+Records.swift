import Changes
import Conflicts
import SystemKit
import Versions

// The entry of a resolution in the conflict log, and the resolution of a change at a target.
extension SourceWins.Step {
  /// Returns the conflict log's entry about this step; nil if the step is no conflict.
  func record(
    _ place: VersionPlace, of trail: TrailName, _ table: TableSchema, _ rule: String, now: Int64
  ) -> ConflictRecord? {
    kind.map { kind in
      ConflictRecord(
        kind, rule, place, of: trail, table, key: key, local: local, incoming: incoming, before: before,
        settled: settled, winner: isPassedOver ? .local : .incoming, other: nil, now: now)
    }
  }

  /// Returns the row that apply writes in this step; nil if the step writes no row.
  func contested(_ table: TableSchema) -> ContestedRow? {
    settled.map { row in
      let names = table.columns.map(\.name)
      return ContestedRow(
        namespace: table.namespace, table: table.name, key: ConflictRow(table.key.map { names[$0] }, key),
        row: ConflictRow(names, row))
    }
  }
}

extension ContestedRow {
  /// Returns the log entry about this target row, which apply deletes because it has a unique value of the source's row
  /// `row`.
  func displaced(
    by row: ContestedRow, _ place: VersionPlace, of trail: TrailName, _ rule: String, now: Int64
  ) -> ConflictRecord {
    ConflictRecord(
      at: now, trail: trail, position: place.begin, number: place.stamp.number, clock: place.stamp.clock,
      kind: .multipleUniqueConflicts, rule: rule, namespace: namespace, table: table, key: key,
      local: self.row, incoming: row.row, before: nil, settled: nil, winner: .incoming, other: nil)
  }
}

/// A table of a one-way target whose rows applications may write.
protocol OneWayTable: ApplyTable, ParkingTable {
  /// The policy for changes of applications.
  var localWrites: LocalWrites { get }
  /// Whether the table also holds rows of other trails. If so, apply deletes no rows to free unique values.
  var isShared: Bool { get }
}

/// A one-way target whose rows applications may write. All calls belong to apply's open transaction.
protocol OneWayTarget: AnyObject {
  associatedtype Table: OneWayTable
  /// The trail that is applied.
  var name: TrailName { get }
  var cursor: TrailCursor { get }
  var clock: Clock { get }
  var progress: ApplyProgress { get }
  func log(_ record: ConflictRecord) throws
  /// Returns the row with a key; nil if there is none. The transaction stays usable if this fails.
  func localRow(_ key: [Value], of table: Table) throws -> [Value]?
  func rows(inTheWayOf row: ContestedRow) throws -> [ContestedRow]
  /// Writes the row with a key; deletes it if `row` is nil.
  func write(_ row: SourceWins.Row?, _ key: [Value], to table: Table) throws
  /// Returns the row before and after a change, in the form of a target's table.
  func rows(of change: ChangeView, _ table: Table) throws -> (before: SourceWins.Row?, after: SourceWins.Row?)
  /// Runs a body that writes rows of a table. Throws an error that names the row instead of the engine's error.
  func naming<Result>(_ table: Table, _ body: () throws -> Result) throws -> Result
}

extension OneWayTarget {
  /// Resolves a change of a row that an application has changed at the target: the source's row wins.
  ///
  /// - Returns: False, with nothing changed, if the key is unknown or has NULL, or if rows with the same unique values
  ///   may not be deleted.
  func resolve(_ table: Table, before: SourceWins.Row?, after: SourceWins.Row?) throws -> Bool {
    let key = table.rowKey
    // A row with NULL in its key is identified by all its values.
    let isKeyed = !(before ?? after ?? []).enumerated().contains { key.contains($0) && $1 == .null }
    guard isKeyed,
      let change = try SourceWins(before: before, after: after, key: key, local: { try localRow($0, of: table) }),
      try naming(table, { try change.settle(at: self, table, by: table.localWrites.rawValue) })
    else { return false }
    if change.passedOver != nil { progress.note(.passedOver(table.shape.fullName, name)) }
    return true
  }

  /// Resolves changes of rows that the target lacks.
  ///
  /// - Throws: The error of the first change that cannot be resolved.
  func resolve(_ updates: [OutOfOrderChanges.Update]) throws {
    for update in updates where try !(update.meet?() ?? false) { throw update.error }
  }

  /// Returns a closure that resolves a change of a row that the target lacks. The closure returns false if it could not
  /// resolve the change.
  ///
  /// - Returns: Nil if the policy for local writes does not let the source's row win.
  func resolution(
    _ table: Table, _ rows: @autoclosure () -> (before: SourceWins.Row?, after: SourceWins.Row?)
  ) -> (() throws -> Bool)? {
    guard table.localWrites.areSettled else { return nil }
    let rows = rows()
    return { [unowned self] in try self.resolve(table, before: rows.before, after: rows.after) }
  }
}

extension String {
  fileprivate static func passedOver(_ table: String, _ trail: TrailName) -> String {
    "table \(table): a row was deleted here that trail \(trail) changes; the trail does not have the whole row, so it stays deleted: see 'cairn conflicts list'"
  }
}

extension SourceWins {
  /// Writes the source's rows, and logs the target's rows that they replace.
  ///
  /// - Parameter rule: The rule or decision by which the source's row wins, for the log.
  /// - Returns: False, with nothing written, if target rows with the same unique values must not be deleted.
  func settle<Target: OneWayTarget>(at target: Target, _ table: Target.Table, by rule: String) throws -> Bool {
    let (shape, place, trail) = (table.shape, target.cursor.place, target.name)
    let now = target.clock.microseconds()
    let contests = try steps.map { step in
      try step.contested(shape).map { row in (row: row, others: try target.rows(inTheWayOf: row)) }
    }
    let keys = steps.map(\.key)
    if table.isShared, contests.contains(where: { $0.map { !$0.others.isEmpty } ?? false }) { return false }
    for (step, contest) in zip(steps, contests) {
      for other in contest?.others ?? [] {
        let key = other.key.columns.map(\.value)
        // The resolution moves this row away from its key.
        if keys.contains(key) { continue }
        if let contest { try target.log(other.displaced(by: contest.row, place, of: trail, rule, now: now)) }
        try target.write(nil, key, to: table)
      }
      if let record = step.record(place, of: trail, shape, rule, now: now) { try target.log(record) }
      if !step.isPassedOver { try target.write(step.settled, step.key, to: table) }
    }
    return true
  }

  /// The step that cannot be written: the target lacks the row, and the trail lacks values of the row.
  var passedOver: Step? { steps.first { $0.isPassedOver } }
}
