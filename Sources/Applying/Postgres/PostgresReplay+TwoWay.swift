import Changes
import Conflicts
import Mapping
import PostgresKit
import SystemKit
import Versions

/// A row is to be settled: its group is rolled back, and done again carefully.
struct RowInConflict: Error {}

// Two-way: rows that somebody else has written to as well.
extension PostgresReplay {
  typealias Desk = TwoWayDesk<MappedTable>

  /// What tables that wait still lack counts as known to nobody.
  func holdWindow() { desk?.shared.window.hold(name, through: waiting.map(\.table.number).min()) }

  func beginDesk(_ desk: Desk) throws {
    try desk.shared.window.catchUp(rowNames: desk.names.names)
    desk.beginGroup(watchesRows: true)
  }

  /// Before the commit, with all rows locked that were written: whoever wrote to them before has committed. What they did
  /// is looked for, once capture has it.
  func checkDesk(_ desk: Desk, _ stop: StopSignal) throws {
    guard case .stream(let wait) = desk.shared.local else { return }
    try sink.settle()
    try sink.rest()
    guard try wait(stop, true) else {
      if stop.isSet { throw PostgresApply.Stopped() }
      throw LocalAhead()
    }
    var committed: Set<RowName> = []
    try desk.shared.window.catchUp { schema, change in
      let rows = try desk.names.names(schema, change)
      committed.formUnion(rows)
      return rows
    }
    try desk.check(committed: committed)
  }

  /// Whether a change is settled when its transaction ends.
  func defers(_ change: ChangeView, _ table: MappedTable) throws -> Bool {
    guard let desk, change.operation != .truncate, !table.isWholeRow, let schema = reader.given(change.schemaID) else {
      return false
    }
    guard try desk.defers(change, schema, table) else { return false }
    if !isCareful { throw RowInConflict() }
    return true
  }

  /// Whether a row that a copy brings gives way to what was written here.
  func keepsOwn(_ id: UInt64, _ image: ImageView) throws -> Bool {
    guard let desk, let schema = reader.given(id), let name = try desk.names.name(schema, image) else { return false }
    return try desk.keeps(name)
  }

  /// Removes rows of the target, but for those of which the author of the copy does not know what was done to them here.
  func removeKnown(_ rows: (condition: String, values: [String?]), _ table: MappedTable, _ desk: Desk) throws {
    let form = PostgresForm(table: table, names: options.names)
    for row in try table.rows(where: rows.condition, rows.values, connection).map(form.row) {
      guard let name = desk.names.name(table.mapped, row), try !desk.keeps(name) else { continue }
      try table.put(nil, table.key.map { row[$0] }, connection)
    }
  }

  /// At the end of a transaction.
  func settleDeferred() throws {
    guard let desk, !desk.rows.isEmpty else { return }
    var held: [(row: SettledRow, table: MappedTable, key: [Value])] = []
    for row in desk.rows where row.version.before != nil || row.version.after != nil {
      let form = PostgresForm(table: row.table, names: options.names)
      let key = try form.key(row.version)
      let settled = try settle(row, key, form, desk)
      try desk.checkStops(settled, row.table.mapped, key)
      let records = settled.records(
        desk.place, of: name, row.table.mapped, key: key, now: clock.microseconds(), isAhead: desk.isAhead)
      for record in records { try log(record) }
      try desk.shared.window.note(row.name, desk.place)
      do { try put(settled.row, key, row.table) } catch let error as PostgresError where error.isUniqueness {
        try put(nil, key, row.table)
        held.append((settled, row.table, key))
      } catch let error as PostgresError { throw refusal(row.table, error) }
    }
    for row in held { try put(held: row.row, row.table, row.key, desk) }
    desk.endTransaction()
  }

  private func put(_ row: RowVersion.Row?, _ key: [Value], _ table: MappedTable) throws {
    try sink.attempt { try table.put(row, key, connection) }
    guard let row, !table.uncheckedIndexes.isEmpty else { return }
    after.assign(row.map { $0.flatMap(\.postgresInput) })
    unchecked.note(table, after)
  }

  private func settle(_ row: Desk.Row, _ key: [Value], _ form: PostgresForm, _ desk: Desk) throws -> SettledRow {
    var versions: [RowVersion] = []
    for stored in try desk.others(row.name) where try form.isSame(key, form.key(stored)) {
      versions.append(try form.version(stored))
    }
    versions.append(try form.version(row.version))
    let names = row.table.columns.map(\.name)
    let local = try sink.attempt { try row.table.row(key, connection) }
    return try SettledRow(
      versions, local: local.map(form.row), try desk.rules(row.table.mapped.plainName, names), columnCount: names.count)
  }

  private func log(_ record: ConflictRecord) throws {
    try sink.attempt {
      let log = PostgresConflictLog(connection)
      if try !log.isInstalled() { try log.install() }
      try log.append(record)
    }
    conflicts += 1
  }

  // MARK: Two rows that cannot both be

  /// A row that has a unique value in common with another one. The later of both stays; who loses is kept in the log.
  private func put(held row: SettledRow, _ table: MappedTable, _ key: [Value], _ desk: Desk) throws {
    do { return try put(row.row, key, table) } catch let error as PostgresError where error.isUniqueness {
      guard let values = row.row else { return }
      let form = PostgresForm(table: table, names: options.names)
      let others = try sink.attempt { try table.rows(inTheWayOf: values, key, connection) }.map(form.row)
      guard !others.isEmpty else { throw refusal(table, error) }
      for other in others {
        let otherKey = table.key.map { other[$0] }
        let stamp = try desk.names.name(table.mapped, other)
          .flatMap { try desk.shared.window.versions($0).map(\.stamp).max() }
        let isOurs = stamp.map { row.stamp > $0 } ?? true
        try log(
          row.collision(
            with: other, stamp, isOurs: isOurs, desk.place, of: name, table.mapped, key: key,
            now: clock.microseconds()))
        guard isOurs else { return }
        try put(nil, otherKey, table)
      }
      try put(row.row, key, table)
    }
  }
}
