import Changes
import SystemKit

/// Resolves in an SQLite file, each time in a transaction of its own, the rows of ``OwnWrites``.
struct SQLiteOwnWrites {
  let replay: SQLiteReplay
  let desk: SQLiteReplay.Desk

  private var target: SQLiteTarget { replay.file }

  /// Resolves the rows that were found.
  ///
  /// - Parameter isIdle: Whether to read this database's own trail first, as nothing else reads it now.
  func resolve(isIdle: Bool, _ stop: StopSignal) throws {
    if isIdle, desk.shared.mayUnderstate(replay.name), try target.begin(stop) {
      defer { target.rollback() }
      desk.beginGroup()
      try replay.inform(desk)
    }
    guard let writes = OwnWrites(replay.target, of: replay.name, desk, target.clock, table: table),
      try target.begin(stop)
    else { return }
    defer { target.rollback() }
    writes.session.beginGroup()
    try replay.inform(writes.session)
    let resolved = try writes.resolve(stop)
    try target.commit()
    writes.noteResolved(resolved)
    let conflicts = replay.rows.conflicts
    target.progress.update { $0.conflicts += conflicts }
    replay.rows.conflicts = 0
  }

  private func table(_ schema: TableSchema) throws -> OwnTable<SQLiteApplyTable> {
    guard replay.options.goesBothWays("", schema.name) else { return .none }
    let known = target.tables[schema.name.sqliteKey]
    let waits = target.tables.values.contains { $0.waiting?.holds(schema.name) ?? false }
    if waits || known?.isAwaited == true || known?.refreshing != nil { return .later }
    return try replay.target.table(like: schema).map(OwnTable.open) ?? .none
  }
}
