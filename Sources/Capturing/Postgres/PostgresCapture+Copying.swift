import Changes
import PostgresKit
import SystemKit
import Trails

// Copies of tables, in chunks. Each chunk is placed where its snapshot is true in the stream.
extension PostgresCapture {
  func beginChunk() throws {
    guard Clock.monotonicMilliseconds >= copyNotBefore, try !beginRequested() else { return }
    let copier = try self.copier ?? openCopier()
    let part: PostgresChunk.Part
    let table: PostgresRegistry.Table
    wantedRows.removeAll { $0.relation != position.refresh?.relation }
    if let wanted = wantedRows.first, let its = registry.tables[wanted.relation], its.refresh != nil {
      (table, part) = (its, .row(wanted.key))
    } else if let next = nextCopy() {
      (table, part) = (next, .next)
    } else {
      return
    }
    try open(part, of: table, copier)
  }

  /// Opens a chunk's snapshot, once all transactions that the chunk must show have ended.
  func open(_ part: PostgresChunk.Part, of table: PostgresRegistry.Table, _ copier: PostgresCopier) throws {
    let opened = try copier.open(table, part)
    guard opened.snapshot.xmin >= table.copyNotBefore else {
      copier.close()
      copyNotBefore = Clock.monotonicMilliseconds + 200
      return
    }
    chunk = opened
    _ = try emitBarrier()
  }

  func openCopier() throws -> PostgresCopier {
    let connection = try PostgresConnection(uri, application: PostgresSource.application(slotName))
    connection.interrupt = source.connection.interrupt
    let made = try PostgresCopier(connection)
    copier = made
    return made
  }

  func nextCopy() -> PostgresRegistry.Table? {
    if let refresh = position.refresh, let table = registry.tables[refresh.relation], table.refresh != nil {
      return table
    }
    return registry.tables.values.filter {
      $0.refresh != nil && $0.copyNotBefore != PostgresRegistry.Table.unpublished
    }.min { $0.epoch < $1.epoch }
  }

  /// Reads the chunk into the trail at the present place, where its snapshot is true.
  func placeChunk() throws {
    if case .asked(let keys)? = chunk?.part { return try placeRequested(keys) }
    guard var chunk, var copier, let table = registry.tables[chunk.table.relation], table.epoch == chunk.table.epoch,
      let reason = table.refresh
    else {
      // The shape of the table has changed meanwhile: it is copied again from the start.
      dropChunk()
      return
    }
    if hasUnsynced { try sync() }
    let id: UInt64
    var state =
      position.refresh?.relation == table.relation
      ? position.refresh : nil
    do {
      try copier.lock(chunk)
      try openTransaction()
      id = try trail.schemaID(table.schema, token: table.epoch)
      if state == nil {
        let method: Refresh.Method = table.isKeyed ? .byKey : .whole
        let rows = try copier.estimate(table)
        try PostgresCopier.append(
          Refresh(schemaID: id, event: .start(reason, method, estimatedRows: rows)), trail)
        state = .init(relation: table.relation, epoch: table.epoch, rows: 0, cursor: nil, isDone: false)
        captured[table.relation] = nil
      }
      if table.isKeyed {
        try copier.append(&chunk, after: state?.cursor, schemaID: id, to: trail, paused: keepStream)
      } else {
        try copier.appendWhole(&chunk, schemaID: id, to: trail, paused: keepStream)
      }
      try copier.prove(chunk, by: source.connection)
    } catch {
      return try putOff(error)
    }
    self.copier = copier
    state?.rows += chunk.rows
    position.refresh = state
    try endTransaction()
    copier.close()
    chunk.isPlaced = true
    self.chunk = chunk
    lockWait = nil
    let rows = chunk.rows
    progress.update {
      $0.rowsCopied += rows
      $0.copying = (table.schema.name, state?.rows ?? 0, 0)
    }
  }

  /// Keeps the stream alive: the server ends a stream that is silent for too long.
  func keepStream() throws {
    if Clock.monotonicMilliseconds - reportedAt > 5000 { try report() }
  }

  func dropChunk() {
    copier?.close()
    chunk = nil
  }

  /// Drops a chunk that cannot be read now, and its part in the trail; it is tried again. Throws any other error.
  func putOff(_ error: any Error) throws {
    var pauseMilliseconds: Int64 = 300
    switch error {
    case PostgresChunk.Obstacle.isLocked: pauseMilliseconds = try waitForLock()
    // The catalog, or the stream, will show the change.
    case PostgresChunk.Obstacle.hasChanged: look.isWanted = true
    case let error as PostgresError where error.sqlState.hasPrefix("42") && !error.isPrivilege: look.isWanted = true
    default: throw error
    }
    try abandon()
    dropChunk()
    copyNotBefore = Clock.monotonicMilliseconds + pauseMilliseconds
  }

  /// Returns how long, in ms, to leave a locked table alone. After three seconds it reports once which sessions hold
  /// the lock.
  private func waitForLock() throws -> Int64 {
    guard let table = chunk?.table else { return 0 }
    let now = Clock.monotonicMilliseconds
    var wait = lockWait ?? (relation: 0, since: 0, isTold: false)
    if wait.relation != table.relation { wait = (table.relation, now, false) }
    if now - wait.since > 3000, !wait.isTold { wait.isTold = try tellWhoLocks(table) }
    lockWait = wait
    return min(max(300, (now - wait.since) / 4), 5000)
  }

  private func tellWhoLocks(_ table: PostgresRegistry.Table) throws -> Bool {
    let holders = try source.connection.query(
      """
      SELECT a.pid, coalesce(a.usename, ''), coalesce(a.application_name, '') FROM pg_locks AS l
      JOIN pg_stat_activity AS a ON a.pid = l.pid
      WHERE l.relation = $1::oid AND l.mode = 'AccessExclusiveLock'
        AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) ORDER BY l.granted DESC LIMIT 1
      """, [String(table.relation)])
    guard let holder = holders.first else { return false }
    progress.tell(
      "the copy of table \(table.schema.fullName) waits for process \(holder[0] ?? "?") of \(holder[1] ?? "?") (\(holder[2] ?? "")), which has it locked"
    )
    return true
  }

  /// Ends a chunk, once the stream has passed its snapshot: the chunk is right, or is read again.
  func endChunk() throws {
    guard let chunk else { return }
    self.chunk = nil
    if case .asked(let keys) = chunk.part { return try endRequested(chunk, keys) }
    guard var state = position.refresh, state.relation == chunk.table.relation else { return }
    if chunk.isRaced {
      // A table without key begins again. A range is read again, which corrects it.
      if !chunk.table.isKeyed {
        position.refresh = nil
        captured[chunk.table.relation] = nil
      }
      return
    }
    switch chunk.part {
    case .asked: break
    case .row(let key): wantedRows.removeAll { $0.relation == chunk.table.relation && $0.key == key }
    case .next:
      if let through = chunk.through {
        state.cursor = through
      } else {
        state.isDone = true
      }
    }
    position.refresh = state
    if state.isDone, !wantedRows.contains(where: { $0.relation == state.relation }) { try endCopy(state) }
  }

  func endCopy(_ state: PostgresPosition.RefreshState) throws {
    guard let table = registry.tables[state.relation] else { return }
    try openTransaction()
    let id = try trail.schemaID(table.schema, token: table.epoch)
    try PostgresCopier.append(Refresh(schemaID: id, event: .end(rows: state.rows)), trail)
    try endTransaction()
    finishCopy(of: state.relation)
    position.refresh = nil
    hasChangedSinceSequences = true
    if !hasCopies { copier = nil }
  }

  func finishCopy(of relation: UInt32) {
    guard var table = registry.tables[relation] else { return }
    table.refresh = nil
    registry.set(table)
    captured[relation] = nil
    let waiting = registry.tables.values.filter { $0.refresh != nil }.count
    progress.update {
      $0.tablesToCopy = waiting
      $0.copying = nil
    }
  }

  /// Requests a row that an update moved to another key, without the values that it did not change (stored out of
  /// line). After the cursor has passed, no chunk would bring these values.
  func wantRow(of table: Captured, _ new: PgOutput.Tuple) throws {
    let isCopied = position.refresh?.relation == table.relation
    guard isCopied || repairing.contains(table.relation), table.isKeyed else { return }
    let texts = try new.texts()
    let key = table.schema.key.compactMap { $0 < texts.count ? texts[$0] : nil }
    guard key.count == table.schema.key.count else { return }
    guard isCopied else { return try wantRepaired(table, key) }
    if !wantedRows.contains(where: { $0.relation == table.relation && $0.key == key }) {
      wantedRows.append((table.relation, key))
    }
  }
}
