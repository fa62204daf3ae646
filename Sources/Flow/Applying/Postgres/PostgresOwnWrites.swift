import Changes
import PostgresKit
import SystemKit

/// Resolves in a PostgreSQL database, each time in a transaction of its own, the rows of ``OwnWrites``.
struct PostgresOwnWrites {
  let replay: PostgresReplay
  let desk: PostgresReplay.Desk

  /// Resolves the rows that were found.
  ///
  /// - Parameter isIdle: Whether to read this database's own trail first, as nothing else reads it now.
  func resolve(isIdle: Bool, _ stop: StopSignal) throws {
    if isIdle, desk.shared.mayUnderstate(replay.name) {
      guard case .stream(let capture) = desk.shared.local else { return }
      guard try capture.pass(stop, false) != nil else { throw ApplyStopped() }
      try replay.inform(desk)
      desk.shared.noteOwnRead(about: replay.name)
    }
    guard let writes = OwnWrites(replay.target, of: replay.name, desk, replay.clock, table: table),
      let first = writes.first
    else { return }
    // A catch-up that ended has dropped the prepared statements of this connection.
    try replay.sink.rest()
    writes.session.beginGroup()
    try replay.inform(writes.session)
    do {
      // With a note that states nothing, by which capture recognizes the transaction as one of apply.
      try replay.begin(first, as: 0, hasRows: false)
      try replay.sink.settle()
      let resolved = try writes.resolve(stop)
      try replay.sink.settle()
      try replay.rows.writer.checkUncheckedRows()
      try replay.session.proveWatched(replay.tables.open)
      try replay.commits.check(writes.session, stop)
      try replay.sink.settle()
      try replay.connection.execute("COMMIT")
      writes.noteResolved(resolved)
    } catch let refusal as SchemaStop {
      // Another session has locked a table that references the row: apply tries again later.
      throw PostgresError(
        sqlState: "55P03", message: refusal.error.message, place: replay.connection.place,
        isConnectionLost: false)
    } catch let fault as PostgresSink.Fault {
      replay.connection.rollback()
      throw fault.error ?? PostgresApply.untouched(replay)
    } catch {
      replay.connection.rollback()
      throw error
    }
    let conflicts = replay.session.conflicts
    replay.progress.update { $0.conflicts += conflicts }
    replay.session.conflicts = 0
  }

  private func table(_ schema: TableSchema) throws -> OwnTable<PostgresApplyTable> {
    guard replay.options.goesBothWays(schema.namespace, schema.name) else { return .none }
    func isIt(_ known: PostgresApplyState.Table) -> Bool {
      known.schema.hasSameBytes(as: schema.namespace) && known.name.hasSameBytes(as: schema.name)
    }
    let tables = replay.tables.tables
    let waits = replay.waiting.contains { tables[$0.source].map(isIt) ?? false }
    if waits || tables.values.contains(where: { isIt($0) && ($0.isAwaited || $0.refreshing != nil) }) { return .later }
    return try replay.target.table(like: schema).map(OwnTable.open) ?? .none
  }
}
