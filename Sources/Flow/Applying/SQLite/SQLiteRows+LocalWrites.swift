import Changes
import Conflicts
import Mapping
import SQLiteKit
import SystemKit
import Versions

// Rows that applications have written to at a one-way target.
extension SQLiteRows {
  /// Runs `body`, which applies a change of a row. If `body` fails because the target's row differs, the policy for
  /// local writes can let the source's row win.
  ///
  /// - Throws: The error of `body`, unless the source's row won.
  func resolvingLocalWrites(_ table: SQLiteApplyTable, _ body: () throws -> Void) throws {
    do { try body() } catch let error as CairnError where table.localWrites.areSettled && TwoWay.isOfRow(error) {
      let rows = (before: before.isEmpty ? nil : before.map(\.value), after: after.isEmpty ? nil : after.map(\.value))
      guard try resolve(table, before: rows.before, after: rows.after) else { throw error }
    }
  }

  /// Resolves the transaction's changes of rows that the target lacks. Called at the end of the transaction; the
  /// source's row wins.
  func settleEarly() throws { try resolve(early.takeAll()) }

  /// Resolves the deferred updates that give another row the key of `row`. Called before a change writes `row`.
  func settleEarly(before row: [ColumnView], of table: SQLiteApplyTable) throws {
    guard table.localWrites.areSettled else { return }
    let areOfIt = try Self.image(row).withUnsafeBytes { image in
      try early.areOf(image, table: table.schema.name, key: key(of: row, table)) { try keys(of: $0, table) }
    }
    if !areOfIt { try settleLine(to: row, of: table) }
  }

  /// Resolves the deferred updates (``OutOfOrderChanges``) of a row that the target lacks.
  ///
  /// - Parameter row: The row after these updates.
  /// - Returns: False if there is no such update.
  @discardableResult func settleLine(to row: [ColumnView], of table: SQLiteApplyTable) throws -> Bool {
    guard table.localWrites.areSettled else { return false }
    let saved = (before, after)
    defer { (before, after) = saved }
    let line = try early.takeLine(of: table.schema.name, to: key(of: row, table)) { try keys(of: $0, table) }
    try resolve(line)
    return !line.isEmpty
  }

  private func keys(of update: OutOfOrderChanges.Update, _ table: SQLiteApplyTable) throws -> (
    before: [Value], after: [Value]?
  ) {
    let old = try update.before.withUnsafeBytes { try ImageView(bytes: $0).values() }
    let new = try update.after?.withUnsafeBytes { try ImageView(bytes: $0).values() }
    let key = table.schema.key
    return (key.map { old[$0] ?? .null }, new.map { new in key.map { new[$0] ?? old[$0] ?? .null } })
  }

  func key(of row: [ColumnView], _ table: SQLiteApplyTable) -> [Value] {
    table.schema.key.map { row[$0].value ?? .null }
  }

  /// Returns a closure that resolves the present change, of a row that the target lacks.
  func resolution(_ table: SQLiteApplyTable) -> (() throws -> Bool)? {
    resolution(table, (before.map(\.value), after.isEmpty ? nil : after.map(\.value)))
  }
}

extension SQLiteRows: OneWayTarget {
  var name: TrailName { target.trail }
  var progress: ApplyProgress { target.progress }
  var clock: Clock { target.clock }

  func localRow(_ key: [Value], of table: SQLiteApplyTable) throws -> [Value]? { try table.row(key) }
  func rows(of change: ChangeView, _ table: SQLiteApplyTable) throws -> (
    before: SourceWins.Row?, after: SourceWins.Row?
  ) {
    try decode(change, table)
    return (before.isEmpty ? nil : before.map(\.value), after.isEmpty ? nil : after.map(\.value))
  }

  func rows(inTheWayOf row: ContestedRow) throws -> [ContestedRow] {
    try SQLiteDisplacedRows(database: target.database).rows(inTheWayOf: row)
  }
  func write(_ row: SourceWins.Row?, _ key: [Value], to table: SQLiteApplyTable) throws { try table.put(row, key) }

  func naming<Result>(_ table: SQLiteApplyTable, _ body: () throws -> Result) throws -> Result {
    do { return try body() } catch let error as SQLiteError where error.isOfRow {
      throw errors.refused(table, error, before, after)
    }
  }

  func log(_ record: ConflictRecord) throws {
    try ConflictLog(target.database).append(record)
    conflicts += 1
  }
}

extension SQLiteApplyTable: OneWayTable {
  var isShared: Bool { !(treatment?.shares.isEmpty ?? true) }
}
