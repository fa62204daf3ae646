import Changes
import PostgresKit
import SystemKit
import Trails

/// Reads rows of tables into the trail, in the order that ``RefreshQueue`` decides. Each chunk is placed where its
/// snapshot is true in the stream, as ``ChunkPlace`` decides.
final class PostgresRefresher {
  /// The pause before a table is read again that has changed meanwhile, ms.
  private static let retryMilliseconds: Int64 = 300
  /// The pause before a snapshot is opened again that does not yet show all transactions that it must, ms.
  private static let snapshotMilliseconds: Int64 = 200

  private let session: CaptureSession
  private var copier: PostgresCopier?
  private var place = ChunkPlace()
  /// Whether rows of tables may be read: no two-way apply writes meanwhile.
  private var hasTurn = false

  init(_ session: CaptureSession) { self.session = session }

  var isReading: Bool { !place.isEmpty }

  /// Drops the chunk; its connection stays.
  func dropChunk() {
    copier?.close()
    place.drop()
  }

  /// Ends the connection.
  func disconnect() {
    copier = nil
    place.drop()
  }

  // MARK: Turns

  /// Returns whether rows may be read now, see ``CaptureLink``.
  private func takeTurn() -> Bool {
    if !hasTurn { hasTurn = session.options.turns?.tryLock(.reader) ?? true }
    return hasTurn
  }

  /// Ends the turn if no chunk is open: what was read is durable in the trail then.
  func endTurn() throws {
    guard hasTurn, place.isEmpty, !session.isTrailOpen else { return }
    if session.slot.hasUnsynced { try session.sync() }
    giveTurnBack()
  }

  /// Ends the turn; nothing that was read goes into the trail any more.
  func giveTurnBack() {
    guard hasTurn else { return }
    hasTurn = false
    session.options.turns?.unlock(.reader)
  }

  // MARK: The stream

  /// Notes that a transaction of the stream begins.
  func begin(_ xid: UInt32) throws {
    if place.isDue(before: xid) { try placeChunk() }
    place.pass(xid)
  }

  /// Notes that every transaction that committed before `end` has been processed.
  func reach(_ end: LSN) throws {
    var step = place.next(received: end)
    if step == .place {
      try placeChunk()
      step = place.isEmpty ? .nothing : .end
    }
    if step == .end { try endChunk() }
  }

  /// Takes an update of a row that has not all of its values: some are stored out of line and did not change.
  func move(_ table: Captured, _ new: PgOutput.Tuple) throws {
    guard session.refreshes.readsRows(of: table) else { return }
    let texts = try new.texts()
    let key = table.schema.key.compactMap { $0 < texts.count ? texts[$0] : nil }
    if session.refreshes.move(key, of: table) == .requested { try session.saveRequests() }
  }

  // MARK: Chunks

  /// Opens the snapshot of what is read next, if anything is.
  func beginChunk() throws {
    guard !session.refreshes.isPaused(now: Clock.monotonicMilliseconds), takeTurn(), try !beginRequested() else {
      return
    }
    let copier = try self.copier ?? openCopier()
    switch session.refreshes.next(session.tables) {
    case .row(let table, let key)?: try open(.row(key), of: table, copier)
    case .chunk(let table)?: try open(.next, of: table, copier)
    case nil: return
    }
  }

  /// Opens a chunk's snapshot, once all transactions that the chunk must show have ended.
  private func open(_ part: PostgresChunk.Part, of table: PostgresRegistry.Table, _ copier: PostgresCopier) throws {
    let opened = try copier.open(table, part)
    guard opened.snapshot.xmin >= table.copyNotBefore else {
      copier.close()
      return session.refreshes.pause(milliseconds: Self.snapshotMilliseconds, now: Clock.monotonicMilliseconds)
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

  /// Reads the chunk into the trail at the present place, where its snapshot is true.
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
    let (rows, name, total) = (chunk.rows, table.schema.name, state.rows)
    session.progress.update {
      $0.rowsCopied += rows
      $0.copying = (name, total, 0)
    }
  }

  /// Drops a chunk that cannot be read now, and its part in the trail; it is tried again. Throws any other error.
  private func putOff(_ error: any Error) throws {
    var pauseMilliseconds = Self.retryMilliseconds
    switch error {
    case PostgresChunk.Obstacle.isLocked: pauseMilliseconds = try waitForLock()
    // The catalog, or the stream, will show the change.
    case PostgresChunk.Obstacle.hasChanged: session.catalog.want()
    case let error as PostgresError where error.sqlState.hasPrefix("42") && !error.isPrivilege: session.catalog.want()
    default: throw error
    }
    try session.abandon()
    dropChunk()
    session.refreshes.pause(milliseconds: pauseMilliseconds, now: Clock.monotonicMilliseconds)
  }

  /// Returns how long to leave a locked table alone, ms; reports which session holds the lock.
  private func waitForLock() throws -> Int64 {
    guard let table = place.chunk?.table else { return 0 }
    let (pause, wantsReport) = session.refreshes.waitForLock(
      of: table.relation, now: Clock.monotonicMilliseconds)
    if wantsReport, let holder = try session.source.catalog.lockHolder(of: table.relation) {
      session.progress.tell(
        "the copy of table \(table.schema.fullName) waits for process \(holder.process) of \(holder.role) (\(holder.application)), which has it locked"
      )
      session.refreshes.noteLockReport()
    }
    return pause
  }

  /// Ends a chunk, once the stream has passed its snapshot.
  private func endChunk() throws {
    guard let (chunk, isRaced) = place.take() else { return }
    if case .asked(let keys) = chunk.part { return try endRequested(chunk, isRaced, keys) }
    switch session.refreshes.end(chunk, isRaced: isRaced) {
    case .goesOn: break
    case .beginsAgain: session.tables.forgetForm(of: chunk.table.relation)
    case .isComplete(let state): try endTable(state)
    }
  }

  /// Ends the refresh of a table.
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

  /// Takes the content of a message that requests rows. The request is durable before the trail can pass it.
  func takeRequest(_ content: UnsafeRawBufferPointer) throws {
    var reader = ByteReader(content)
    let message: RequestMessage
    do { message = try RequestMessage(&reader) } catch let error as DecodingError {
      return session.progress.tell("a request for rows was not understood: \(error.problem)")
    }
    guard message.slot == session.slotName else { return }
    let table = session.refreshes.add(message, session.tables)
    try session.saveRequests()
    guard let table else { return }
    try session.openTransaction()
    try beginRows(of: table, count: message.keys.count)
  }

  /// Begins the refresh of tables whose copies an earlier run was asked for.
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

  /// Ends the refresh of a table's rows, even if an earlier run may have begun it.
  private func endRows(of relation: UInt32) throws {
    guard let table = session.refreshes.endRows(of: relation, session.tables) else { return }
    try session.openTransaction()
    try beginRows(of: table, count: 0)
    try session.append(.end(rows: 0), of: table)
    session.refreshes.endedRows(of: relation)
    try session.endTransaction()
  }

  /// Begins to read requested rows; returns false if there are none.
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
      let answer = session.refreshes.nextRequested(&session.tables)
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

  /// Reads the rows into the trail at the present place, where their snapshot is true.
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
        "a row of table \(table.schema.fullName) was asked for by a key that is none: \(error.cause.message)")
    } catch let error as CairnError where error.code == .tableRefused {
      return try refuse(keys, of: table, "rows were asked for that are not sent: \(error.message)")
    } catch {
      return try putOff(error)
    }
    try session.endTransaction()
    copier.close()
    place.placed(
      PostgresChunk(
        table: table, part: .asked(Array(keys.prefix(sent))), snapshot: chunk.snapshot, stored: chunk.stored,
        end: chunk.end, rows: chunk.rows))
  }

  /// Forgets requested keys while their rows are being read.
  private func refuse(_ keys: [[String]], of table: PostgresRegistry.Table, _ text: String) throws {
    try session.abandon()
    dropChunk()
    session.progress.tell(text)
    // An earlier run may have begun.
    if session.refreshes.remove(keys, of: table) { try endRows(of: table.relation) }
    try session.saveRequests()
  }

  /// Ends a chunk of requested rows: they are right, or are read again.
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
