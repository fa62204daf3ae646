import Changes
import Conflicts
import Versions

// The entry of a meeting in the conflict log, and the statements that carry a meeting out.
extension Meeting.Step {
  /// Returns the conflict log's entry about this step; nil if the step is no conflict.
  func record(
    _ place: VersionPlace, of trail: TrailName, _ table: TableSchema, _ writes: LocalWrites, now: Int64
  ) -> ConflictRecord? {
    kind.map { kind in
      ConflictRecord(
        kind, writes.rawValue, place, of: trail, table, key: key, local: local, incoming: incoming, before: before,
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
    by row: ContestedRow, _ place: VersionPlace, of trail: TrailName, _ writes: LocalWrites, now: Int64
  ) -> ConflictRecord {
    ConflictRecord(
      at: now, trail: trail, position: place.begin, number: place.stamp.number, clock: place.stamp.clock,
      kind: .multipleUniqueConflicts, rule: writes.rawValue, namespace: namespace, table: table, key: key,
      local: self.row, incoming: row.row, before: nil, settled: nil, winner: .incoming, other: nil)
  }
}

/// Access to the rows of a target table in apply's open transaction.
protocol MeetingPlace {
  /// Whether the table also holds rows of other trails. If so, apply deletes no rows to free unique values.
  var isShared: Bool { get }
  func rows(inTheWayOf row: ContestedRow) throws -> [ContestedRow]
  /// Writes the row with a key; deletes it if `row` is nil.
  func put(_ row: Meeting.Row?, _ key: [Value]) throws
  func log(_ record: ConflictRecord) throws
}

extension Meeting {
  /// Writes the source's rows, and logs the target's rows that they replace.
  ///
  /// - Returns: False, with nothing written, if target rows with the same unique values must not be deleted.
  func settle(
    at site: some MeetingPlace, _ table: TableSchema, _ writes: LocalWrites, _ place: VersionPlace, of trail: TrailName,
    now: Int64
  ) throws -> Bool {
    let contests = try steps.map { step in
      try step.contested(table).map { row in (row: row, others: try site.rows(inTheWayOf: row)) }
    }
    let keys = steps.map(\.key)
    if site.isShared, contests.contains(where: { $0.map { !$0.others.isEmpty } ?? false }) { return false }
    for (step, contest) in zip(steps, contests) {
      for other in contest?.others ?? [] {
        let key = other.key.columns.map(\.value)
        // The meeting moves this row away from its key.
        if keys.contains(key) { continue }
        if let contest { try site.log(other.displaced(by: contest.row, place, of: trail, writes, now: now)) }
        try site.put(nil, key)
      }
      if let record = step.record(place, of: trail, table, writes, now: now) { try site.log(record) }
      if !step.isPassedOver { try site.put(step.settled, step.key) }
    }
    return true
  }

  /// The step that cannot be written: the target lacks the row, and the trail lacks values of the row.
  var passedOver: Step? { steps.first { $0.isPassedOver } }
}
