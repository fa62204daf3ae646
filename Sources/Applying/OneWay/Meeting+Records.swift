import Changes
import Conflicts
import Versions

// What the log of conflicts has of a meeting, and how it is brought about.
extension Meeting.Step {
  /// Nil where there is nothing to tell.
  func record(
    _ place: VersionPlace, of trail: TrailName, _ table: TableSchema, _ writes: LocalWrites, now: Int64
  ) -> ConflictRecord? {
    kind.map { kind in
      ConflictRecord(
        kind, writes.rawValue, place, of: trail, table, key: key, local: local, incoming: incoming, before: before,
        settled: settled, winner: isPassedOver ? .local : .incoming, other: nil, now: now)
    }
  }

  /// The row as it is to be, among those that may have its unique values.
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
  /// Of a row of the target that gives way to one of the source, which has one of its unique values.
  func displaced(
    by row: ContestedRow, _ place: VersionPlace, of trail: TrailName, _ writes: LocalWrites, now: Int64
  ) -> ConflictRecord {
    ConflictRecord(
      at: now, trail: trail, position: place.begin, number: place.stamp.number, clock: place.stamp.clock,
      kind: .multipleUniqueConflicts, rule: writes.rawValue, namespace: namespace, table: table, key: key,
      local: self.row, incoming: row.row, before: nil, settled: nil, winner: .incoming, other: nil)
  }
}

/// A table of the target at which a meeting takes place, in the transaction that is open.
protocol MeetingPlace {
  /// Rows of this trail and of others are in one table: none of them gives way to another.
  var isShared: Bool { get }
  func rows(inTheWayOf row: ContestedRow) throws -> [ContestedRow]
  /// Nil: it goes.
  func put(_ row: Meeting.Row?, _ key: [Value]) throws
  func log(_ record: ConflictRecord) throws
}

extension Meeting {
  /// Makes the rows what they are to be, and tells what was there. False, before anything is done, where rows of others
  /// are in the way that must not go.
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
        // It leaves that key itself.
        if keys.contains(key) { continue }
        if let contest { try site.log(other.displaced(by: contest.row, place, of: trail, writes, now: now)) }
        try site.put(nil, key)
      }
      if let record = step.record(place, of: trail, table, writes, now: now) { try site.log(record) }
      if !step.isPassedOver { try site.put(step.settled, step.key) }
    }
    return true
  }

  /// What the source changed in a row that is not here, and of which the trail does not say enough to put it here.
  var passedOver: Step? { steps.first { $0.isPassedOver } }
}
