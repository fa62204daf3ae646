import Changes
import PostgresKit
import SystemKit
import Trails

/// Reads rows of tables into the trail, for refreshes and for requests.
final class PostgresRefresher {
  private static let retryMilliseconds: Int64 = 300
  /// The pause before another snapshot if the last one did not show all transactions that the refresh needs, ms.
  private static let snapshotMilliseconds: Int64 = 200
  private static let unreadableMilliseconds: Int64 = 5000

  private let session: CaptureSession
  private var copier: PostgresCopier?
  private var place = ChunkPlace()
  /// Whether capture holds the lock that keeps two-way applies from writing.
  private var hasTurn = false

  init(_ session: CaptureSession) { self.session = session }

  var isReading: Bool { !place.isEmpty }

  func dropChunk() {
    copier?.close()
    place.drop()
  }

  func disconnect() {
    copier = nil
    place.drop()
  }

  // MARK: Turns

  /// Tries to take the lock that keeps two-way applies from writing, and returns whether capture holds it.
  private func takeTurn() -> Bool {
    if !hasTurn { hasTurn = session.options.turns?.tryLock(.reader) ?? true }
    return hasTurn
  }

  /// If no chunk is open, syncs the trail, then releases the lock that keeps two-way applies from writing.
  func endTurn() throws {
    guard hasTurn, place.isEmpty, !session.isTrailOpen else { return }
    if session.slot.hasUnsynced { try session.sync() }
    giveTurnBack()
  }

  /// Releases the lock that keeps two-way applies from writing.
  func giveTurnBack() {
    guard hasTurn else { return }
    hasTurn = false
    session.options.turns?.unlock(.reader)
  }

  // MARK: The stream

  /// Writes the open chunk to the trail if it belongs before transaction `xid` of the stream, which begins now.
  func begin(_ xid: UInt32) throws {
    if place.isDue(before: xid) { try placeChunk() }
    place.pass(xid)
  }

  /// Continues the open chunk after all commits before LSN `end` were processed: reads its rows into the trail, ends
  /// the chunk, or waits.
  func reach(_ end: LSN) throws {
    var step = place.next(received: end)
    if step == .place {
      try placeChunk()
      step = place.isEmpty ? .nothing : .end
    }
    if step == .end { try endChunk() }
  }

  /// Queues an updated row, which lacks unchanged TOAST values, to be read again if its table is being refreshed.
  func move(_ table: Captured, _ new: PgOutput.Tuple) throws {
    guard session.refreshes.readsRows(of: table) else { return }
    let texts = try new.texts()
    let key = table.schema.key.compactMap { $0 < texts.count ? texts[$0] : nil }
    if session.refreshes.move(key, of: table) == .requested { try session.saveRequests() }
  }

  // MARK: Chunks

  func beginChunk() throws {
    guard takeTurn(), try !beginRequested() else { return }
    let copier = try self.copier ?? openCopier()
    switch session.refreshes.next(session.tables, now: Clock.monotonicMilliseconds) {
    case .row(let table, let key)?: try open(.row(key), of: table, copier)
    case .chunk(let table)?: try open(.next, of: table, copier)
    case nil: return
    }
  }

  private func open(_ part: PostgresChunk.Part, of table: PostgresRegistry.Table, _ copier: PostgresCopier) throws {
    let opened = try copier.open(table, part)
    guard opened.snapshot.xmin >= table.copyNotBefore else {
      copier.close()
      return try waitForTransaction(table)
    }
    place.open(opened)
    _ = try session.emitBarrier()
  }

  private func openCopier() throws -> PostgresCopier {
    let connection = try session.connect()
    connection.interrupt = session.source.connection.interrupt
    let made = try PostgresCopier(connection)
    copier = made
    return made
  }

  /// Reads the rows of the open chunk into the trail, at the present place of the stream.
  private func placeChunk() throws {
    if case .asked(let keys)? = place.chunk?.part { return try placeRequested(keys) }
    guard var chunk = place.chunk, var copier, let table = session.tables[chunk.table.relation],
      table.epoch == chunk.table.epoch, let reason = table.refresh
    else {
      // The shape of the table has changed meanwhile: it is copied again from the start.
      return dropChunk()
    }
    if session.slot.hasUnsynced { try session.sync() }
    var state: PostgresPosition.RefreshState
    do {
      try copier.lock(chunk)
      try session.openTransaction()
      let id = try session.id(of: table)
      if let current = session.refreshes.current, current.relation == table.relation {
        state = current
      } else {
        // Only one copy can run: a copy whose table cannot be read is given up, and begins again later.
        if let former = session.refreshes.current?.relation { session.tables.forgetForm(of: former) }
        let method: Refresh.Method = table.isKeyed ? .byKey : .whole
        try session.append(.start(reason, method, estimatedRows: copier.estimate(table)), of: table)
        state = .init(relation: table.relation, epoch: table.epoch, rows: 0, cursor: nil, isDone: false)
        session.tables.forgetForm(of: table.relation)
      }
      if table.isKeyed {
        try copier.append(
          &chunk, after: state.cursor, schemaID: id, to: session.trail, paused: session.keepStream)
      } else {
        try copier.appendWhole(&chunk, schemaID: id, to: session.trail, paused: session.keepStream)
      }
      try copier.prove(chunk, by: session.source.connection)
    } catch {
      return try putOff(error)
    }
    self.copier = copier
    state.rows += chunk.rows
    session.refreshes.placed(state)
    try session.endTransaction()
    copier.close()
    place.placed(chunk)
    endWait(of: table.relation)
    let (rows, name, total) = (chunk.rows, table.schema.name, state.rows)
    session.progress.update {
      $0.rowsCopied += rows
      $0.copying = (name, total, 0)
    }
  }

  /// Postpones the refresh of a table, and drops its chunk, if `error` shows that the table cannot be read now. Throws
  /// any other error again.
  private func putOff(_ error: any Error) throws {
    guard let table = place.chunk?.table else { throw error }
    func putOff(milliseconds: Int64) {
      session.refreshes.putOff(table.relation, milliseconds: milliseconds, now: Clock.monotonicMilliseconds)
    }
    switch error {
    case PostgresChunk.Obstacle.isLocked: try waitForLock(table)
    // An index is locked: no lock on the table protects the index from `REINDEX`.
    case let error as PostgresError where error.isLockTimeout: try waitForLock(table)
    case let error as PostgresError where error.isPrivilege:
      try noteUnreadable(table, error)
      putOff(milliseconds: Self.unreadableMilliseconds)
    // The catalog, or the stream, will show the change.
    case PostgresChunk.Obstacle.hasChanged:
      session.catalog.want()
      putOff(milliseconds: Self.retryMilliseconds)
    case let error as PostgresError where error.sqlState.hasPrefix("42"):
      session.catalog.want()
      putOff(milliseconds: Self.retryMilliseconds)
    default: throw error
    }
    try session.abandon()
    dropChunk()
  }

  private func waitForLock(_ table: PostgresRegistry.Table) throws {
    let (_, wantsReport) = session.refreshes.waitForSession(of: table.relation, now: Clock.monotonicMilliseconds)
    guard wantsReport, let holder = try session.source.catalog.lockHolders(of: [table.relation])[table.relation] else {
      return
    }
    noteHeldUp(
      table, "the copy of table \(table.schema.displayName) waits for \(holder), which has it locked", holder.hint)
  }

  /// Postpones the refresh of a table while an open transaction may have changes of the table that the stream lacks.
  private func waitForTransaction(_ table: PostgresRegistry.Table) throws {
    let now = Clock.monotonicMilliseconds
    let (_, wantsReport) = session.refreshes.waitForSession(of: table.relation, now: now)
    session.refreshes.putOff(table.relation, milliseconds: Self.snapshotMilliseconds, now: now)
    guard wantsReport else { return }
    let holder = try PostgresSource.oldestTransaction(session.source.connection) ?? "a transaction of another session"
    noteHeldUp(
      table, "the copy of table \(table.schema.displayName) waits for a transaction that was open before: \(holder)",
      "end that transaction")
  }

  private func noteHeldUp(_ table: PostgresRegistry.Table, _ text: String, _ hint: String) {
    session.refreshes.noteReport(of: table.relation)
    let wait = TableWait(
      table: table.schema.displayName, code: .databaseBusy, message: "\(session.place): \(text)", hint: hint)
    session.add(wait, of: table.relation, .copyHeldUp)
  }

  private func noteUnreadable(_ table: PostgresRegistry.Table, _ error: PostgresError) throws {
    let role = try session.source.connection.first("SELECT current_user") ?? ""
    let wait = TableWait(
      table: table.schema.displayName, code: .privilegeMissing,
      message: "\(session.place): table \(table.schema.displayName) cannot be copied: \(error.message)",
      hint: "run as its owner: GRANT SELECT ON \(table.schema.qualifiedName) TO \(role.quotedName)")
    session.add(wait, of: table.relation, .unreadable)
  }

  private func endWait(of relation: UInt32) {
    session.waits.end(relation, .copyHeldUp)
    session.waits.end(relation, .unreadable)
    session.showWaiting()
  }

  private func endChunk() throws {
    guard let (chunk, isRaced) = place.take() else { return }
    if case .asked(let keys) = chunk.part { return try endRequested(chunk, isRaced, keys) }
    switch session.refreshes.end(chunk, isRaced: isRaced) {
    case .goesOn: break
    case .beginsAgain: session.tables.forgetForm(of: chunk.table.relation)
    case .isComplete(let state): try endTable(state)
    }
  }

  private func endTable(_ state: PostgresPosition.RefreshState) throws {
    guard var table = session.tables[state.relation] else { return }
    try session.openTransaction()
    try session.append(.end(rows: state.rows), of: table)
    try session.endTransaction()
    table.refresh = nil
    session.tables.set(table)
    session.refreshes.restart(state.relation)
    session.sequences.noteChanges()
    session.showWaiting()
    session.progress.update { $0.copying = nil }
    closeIfIdle()
  }

  private func closeIfIdle() { if !session.hasRefreshes { copier = nil } }

  // MARK: Requested rows

  /// Saves a request for rows, which a logical message brought, in the file of requests.
  func takeRequest(_ content: UnsafeRawBufferPointer) throws {
    var reader = ByteReader(content)
    let message: RequestMessage
    do { message = try RequestMessage(&reader) } catch let error as DecodingError {
      return session.progress.tell("a request for rows cannot be read: \(error.problem)")
    }
    guard message.slot == session.slotName else { return }
    try add(message)
  }

  /// Queues rows of a table to be read again, and saves this in the file of requests.
  func readAgain(_ keys: [[String]], of table: PostgresRegistry.Table) throws {
    try add(
      RequestMessage(
        slot: session.slotName, namespace: table.schema.namespace, table: table.schema.name, isWhole: false, keys: keys)
    )
  }

  private func add(_ message: RequestMessage) throws {
    let table = session.refreshes.add(message, session.tables)
    try session.saveRequests()
    guard let table else { return }
    try session.openTransaction()
    try beginRows(of: table, count: message.keys.count)
  }

  func beginAwaitedCopies() throws {
    let tables = session.refreshes.awaited(session.tables)
    guard !tables.isEmpty else { return }
    try session.openTransaction()
    for table in tables { try session.append(.start(.repair, .rows, estimatedRows: 0), of: table) }
    try session.endTransaction()
    try session.sync()
  }

  private func beginRows(of table: PostgresRegistry.Table, count: Int) throws {
    guard session.refreshes.beginRows(of: table.relation) else { return }
    try session.append(.start(.repair, .rows, estimatedRows: UInt64(count)), of: table)
  }

  private func endRows(of relation: UInt32) throws {
    guard let table = session.refreshes.endRows(of: relation, session.tables) else { return }
    try session.openTransaction()
    try beginRows(of: table, count: 0)
    try session.append(.end(rows: 0), of: table)
    session.refreshes.endedRows(of: relation)
    try session.endTransaction()
  }

  private func beginRequested() throws -> Bool {
    guard !session.refreshes.requests.isEmpty, !session.isTrailOpen else { return false }
    try beginRequestedCopies()
    guard let (table, keys) = try nextRequested() else { return false }
    let copier = try self.copier ?? openCopier()
    try open(.asked(keys), of: table, copier)
    return true
  }

  private func beginRequestedCopies() throws {
    guard !session.refreshes.requests.copies.isEmpty else { return }
    for notice in session.refreshes.beginRequestedCopies(&session.tables) { session.progress.tell(notice) }
    session.showWaiting()
    try session.saveTables()
    session.refreshes.forgetRequestedCopies()
    try session.saveRequests()
  }

  private func nextRequested() throws -> (PostgresRegistry.Table, [[String]])? {
    var hasDropped = false
    while true {
      let answer = session.refreshes.nextRequested(&session.tables, now: Clock.monotonicMilliseconds)
      for notice in answer.notices { session.progress.tell(notice) }
      hasDropped = hasDropped || answer.hasDropped
      if case .endRows(let relation) = answer.step {
        try endRows(of: relation)
        continue
      }
      if hasDropped {
        session.showWaiting()
        try session.saveTables()
        try session.saveRequests()
      }
      guard case .read(let table, let keys) = answer.step else { return nil }
      return (table, keys)
    }
  }

  private func placeRequested(_ keys: [[String]]) throws {
    guard var chunk = place.chunk, let copier, let table = session.tables[chunk.table.relation],
      table.epoch == chunk.table.epoch, table.refresh == nil
    else { return dropChunk() }
    if session.slot.hasUnsynced { try session.sync() }
    var sent = 0
    do {
      try copier.lock(chunk)
      try session.openTransaction()
      let id = try session.id(of: table)
      try beginRows(of: table, count: keys.count)
      sent = try copier.append(keys, of: &chunk, schemaID: id, to: session.trail, paused: session.keepStream)
      try copier.prove(chunk, by: session.source.connection)
    } catch let error as UnfitKey {
      return try refuse(
        [error.key], of: table,
        "a row of table \(table.schema.fullName) was requested with an invalid key: \(error.cause.message)")
    } catch let error as CairnError where error.code == .tableRefused {
      return try refuse(keys, of: table, "requested rows are not sent: \(error.message)")
    } catch let error as PostgresError where error.isPrivilege {
      return try refuse(keys, of: table, "requested rows are not sent: \(error.message)")
    } catch {
      return try putOff(error)
    }
    try session.endTransaction()
    copier.close()
    session.refreshes.endObstacle(of: table.relation)
    endWait(of: table.relation)
    place.placed(
      PostgresChunk(
        table: table, part: .asked(Array(keys.prefix(sent))), snapshot: chunk.snapshot, stored: chunk.stored,
        end: chunk.end, rows: chunk.rows))
  }

  private func refuse(_ keys: [[String]], of table: PostgresRegistry.Table, _ text: String) throws {
    try session.abandon()
    dropChunk()
    session.progress.tell(text)
    // An earlier run may have written the start of these requested rows.
    if session.refreshes.remove(keys, of: table) { try endRows(of: table.relation) }
    try session.saveRequests()
  }

  /// Ends a chunk of requested rows. If the stream repeats changes that the chunk shows, the rows are read again.
  private func endRequested(_ chunk: PostgresChunk, _ isRaced: Bool, _ keys: [[String]]) throws {
    guard !isRaced, let table = session.tables[chunk.table.relation], table.refresh == nil,
      table.epoch == chunk.table.epoch, session.refreshes.remove(keys, of: table)
    else { return }
    try endRows(of: table.relation)
    try session.sync()
    try session.saveRequests()
    closeIfIdle()
  }
}
