import Changes
import Conflicts
import Mapping
import SQLiteKit
import Versions

// Rows that applications have written to at a one-way target.
extension SQLiteReplay {
  private struct Site: MeetingPlace {
    let table: TargetTable
    let replay: SQLiteReplay

    var isShared: Bool { !(table.treatment?.shares.isEmpty ?? true) }
    func rows(inTheWayOf row: ContestedRow) throws -> [ContestedRow] {
      try SQLiteCandidates(database: table.database).rows(inTheWayOf: row)
    }
    func put(_ row: Meeting.Row?, _ key: [Value]) throws { try table.put(row, key) }
    func log(_ record: ConflictRecord) throws { try replay.log(record) }
  }

  /// Returns the policy for rows that applications at the target have changed. For a two-way table, the policy is
  /// `stop`.
  func localWrites(of mapping: TableMapping) throws -> LocalWrites {
    if options.goesBothWays("", mapping.target.name) { return .stop }
    return try options.localWrites.writes(of: mapping.target, mapping.source.treatment)
  }

  /// Runs `body`, which applies a change of a row. If `body` fails because the target's row differs, the policy for
  /// local writes can let the source's row win.
  ///
  /// - Throws: The error of `body`, unless the source's row won.
  func settlingMeetings(_ table: TargetTable, _ body: () throws -> Void) throws {
    do { try body() } catch let error as CairnError where table.localWrites.areSettled && TwoWay.isOfRow(error) {
      let rows = (before: before.isEmpty ? nil : before.map(\.value), after: after.isEmpty ? nil : after.map(\.value))
      guard try meet(table, before: rows.before, after: rows.after) else { throw error }
    }
  }

  /// Resolves a change of a row that an application has changed at the target: the source's row wins.
  ///
  /// - Returns: False, with nothing changed, if the key is unknown or has NULL, or if rows with the same unique values
  ///   may not be deleted.
  func meet(_ table: TargetTable, before: Meeting.Row?, after: Meeting.Row?) throws -> Bool {
    let key = table.schema.key
    // A row with NULL in its key is identified by all its values.
    let isKeyed = !(before ?? after ?? []).enumerated().contains { key.contains($0) && $1 == .null }
    guard isKeyed, let meeting = try Meeting(before: before, after: after, key: key, local: table.row) else {
      return false
    }
    do {
      guard
        try meeting.settle(
          at: Site(table: table, replay: self), table.schema, table.localWrites, currentPlace, of: name,
          now: target.clock.microseconds())
      else { return false }
    } catch let error as SQLiteError where error.isConstraint { throw refused(table, error) }
    if meeting.passedOver != nil { target.progress.note(.passedOver(table.schema.fullName, name)) }
    return true
  }

  /// Resolves the transaction's changes of rows that the target lacks. Called at the end of the transaction; the
  /// source's row wins.
  func settleEarly() throws { try meet(early.takeAll()) }

  /// Resolves the deferred updates that give another row the key of `row`. Called before a change writes `row`.
  func settleEarly(before row: [ColumnView], of table: TargetTable) throws {
    guard table.localWrites.areSettled else { return }
    let areOfIt = try Self.image(row).withUnsafeBytes { image in
      try early.areOf(image, table: table.schema.name, key: key(of: row, table)) { try keys(of: $0, table) }
    }
    if !areOfIt { try settleLine(to: row, of: table) }
  }

  /// Resolves the deferred updates (``EarlyUpdates``) of a row that the target lacks.
  ///
  /// - Parameter row: The row after these updates.
  /// - Returns: False if there is no such update.
  @discardableResult func settleLine(to row: [ColumnView], of table: TargetTable) throws -> Bool {
    guard table.localWrites.areSettled else { return false }
    let saved = (before, after)
    defer { (before, after) = saved }
    let line = try early.takeLine(of: table.schema.name, to: key(of: row, table)) { try keys(of: $0, table) }
    try meet(line)
    return !line.isEmpty
  }

  private func keys(of update: EarlyUpdates.Update, _ table: TargetTable) throws -> (before: [Value], after: [Value]?) {
    let old = try update.before.withUnsafeBytes { try ImageView(bytes: $0).values() }
    let new = try update.after?.withUnsafeBytes { try ImageView(bytes: $0).values() }
    let key = table.schema.key
    return (key.map { old[$0] ?? .null }, new.map { new in key.map { new[$0] ?? old[$0] ?? .null } })
  }

  func key(of row: [ColumnView], _ table: TargetTable) -> [Value] { table.schema.key.map { row[$0].value ?? .null } }

  private func meet(_ updates: [EarlyUpdates.Update]) throws {
    for update in updates where try !(update.meet?() ?? false) { throw update.error }
  }

  /// Returns a closure that resolves the present change, of a row that the target lacks. The closure returns false if
  /// it could not resolve the change.
  ///
  /// - Returns: Nil if the policy for local writes does not let the source's row win.
  func meeting(_ table: TargetTable) -> (() throws -> Bool)? {
    guard table.localWrites.areSettled else { return nil }
    let (before, after) = (before.map(\.value), after.isEmpty ? nil : after.map(\.value))
    return { [unowned self] in try self.meet(table, before: before, after: after) }
  }
}

extension String {
  static func passedOver(_ table: String, _ trail: TrailName) -> String {
    "table \(table): a row was deleted here that trail \(trail) changes; the trail does not have the whole row, so it stays deleted: see 'cairn conflicts list'"
  }
}
