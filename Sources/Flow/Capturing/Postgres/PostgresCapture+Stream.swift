import Changes
import PostgresKit
import SystemKit
import Trails

// The messages of the stream, one by one.
extension PostgresCapture {
  func take(_ message: PgOutput) throws {
    switch message {
    case .begin(let commit, let time, let xid): try begin(.init(commit: commit, xid: xid, time: time))
    // Rows that an apply of Cairn writes here come from another database.
    case .origin(let name): session.incoming.origin(name)
    case .message(let isTransactional, let prefix, let content):
      guard isTransactional, prefix.hasPrefix("cairn") else { return }
      try take(prefix, content)
    case .relation(let relation):
      guard session.tables.describe(relation) else { return }
      // The next reading of the catalog shows whether the partition still logs too little.
      session.catalog.noteReport()
      session.catalog.want()
    case .type: break
    case .insert(let id, let new):
      guard let table = try table(id) else { return }
      image.removeAll()
      try new.appendImage(to: &image, scratch: &scratch)
      try session.append(.insert, [.after], table, image)
      try noteWrite(new, table)
    case .update(let id, let old, let new):
      guard let table = try table(id), try tracker.logsEnough(old, of: table) else { return }
      image.removeAll()
      if let old { try appendOld(old, table) }
      try new.appendImage(to: &image, scratch: &scratch)
      try session.append(.update, old == nil ? [.after] : [.before, .after], table, image)
      if case .key? = old, try new.hasUnchanged() { try refresher.move(table, new) }
      try noteWrite(new, table)
    case .delete(let id, let old):
      guard let table = try table(id), try tracker.logsEnough(old, of: table) else { return }
      image.removeAll()
      try appendOld(old, table)
      try session.append(.delete, [.before], table, image)
    case .truncate(let ids):
      for id in ids {
        guard let table = try table(id) else { continue }
        image.removeAll()
        try session.append(.truncate, [], table, image)
      }
    case .commit(_, let end, _): try endIncoming(end)
    }
  }

  private func begin(_ transaction: PostgresPosition.Transaction) throws {
    try refresher.begin(transaction.xid)
    switch session.slot.begin(transaction) {
    case .isForeign(let expected):
      throw session.wentBack(Self.foreign(expected))
    case .isNew: session.incoming.begin(transaction, isRecorded: false)
    case .isRecorded: session.incoming.begin(transaction, isRecorded: true)
    }
    session.settle()
  }

  private func appendOld(_ old: PgOutput.OldTuple, _ table: Captured) throws {
    switch old {
    case .key(let tuple): try tuple.appendImage(to: &image, scratch: &scratch, given: table.isKey)
    case .full(let tuple): try tuple.appendImage(to: &image, scratch: &scratch)
    }
  }

  /// Notes a row that may be in a partition of the open transaction.
  private func noteWrite(_ new: PgOutput.Tuple, _ table: Captured) throws {
    guard session.incoming.hasNewPartition(of: table.relation) else { return }
    let texts = try new.texts()
    let key = table.schema.key.compactMap { $0 < texts.count ? texts[$0] : nil }
    let isWhole = table.isKeyed && key.count == table.schema.key.count
    session.incoming.noteWrite(of: table.relation, key: isWhole ? key : nil)
  }

  /// Schedules a refresh of the rows that the open transaction may have changed without a record in the stream.
  private func refreshUnreported() throws {
    for rows in session.incoming.unreported {
      switch rows {
      case .table(let relation):
        if let known = session.tables[relation] { tracker.copyAgain(known) }
      case .rows(let relation, let keys):
        guard let known = session.tables[relation] else { continue }
        if known.refresh == nil, known.isKeyed {
          try refresher.readAgain(keys, of: known)
        } else {
          tracker.copyAgain(known)
        }
      }
      session.showWaiting()
    }
  }

  private func table(_ id: UInt32) throws -> Captured? {
    guard session.incoming.change() else { return nil }
    switch session.tables.lookup(id) {
    case .captured(let table): return table
    case .leftOut: return nil
    case .new(let relation):
      let made = try tracker.capture(relation)
      session.tables.keep(made)
      return made.isWanted ? made : nil
    case .undescribed:
      throw DecodingError(offset: 0, problem: "a change of relation \(id), which was not described")
    }
  }

  private func endIncoming(_ end: LSN) throws {
    try refreshUnreported()
    guard let ended = session.incoming.commit() else { return }
    let isInTrail = session.isTrailOpen
    session.slot.commit(ended.transaction, end: end, isInTrail: isInTrail, at: ended.commitTime)
    if isInTrail {
      session.sequences.noteChanges()
      try session.endTransaction()
    }
    session.slot.note(ended.notes)
    if let barrier = ended.barrier {
      if barrier == goal { goal = nil }
      session.catalog.reached(barrier)
    }
    try reach(end)
    if let barrier = ended.barrier { try reportToWatch(barrier) }
    if ended.wantsRecord || !ended.notes.isEmpty { try session.recordProgressInTime(isWanted: ended.wantsRecord) }
    if session.slot.isSyncDue(now: Clock.monotonicMilliseconds) { try session.sync() }
  }

  private func reportToWatch(_ barrier: String) throws {
    guard let watch = session.options.watch, let mark = LocalWatch.Mark(barrier), watch.isAwaited(mark) else { return }
    if session.slot.hasUnsynced { try session.sync() }
    watch.reached(
      mark, .init(number: session.trail.lastHeader?.number ?? 0, position: session.trail.end.position))
  }

  func reach(_ end: LSN) throws {
    session.slot.reach(end)
    try refresher.reach(session.slot.received)
  }

  // MARK: Logical messages

  /// Processes a logical message of the open transaction. A message without Cairn's prefix or a required signature has
  /// no effect.
  private func take(_ prefix: String, _ content: UnsafeRawBufferPointer) throws {
    guard let message = IncomingTransaction.Message(prefix: prefix) else { return }
    var known = content
    if let place = session.incoming.key(of: message, since: keys.since) {
      guard let signed = try authentic(content, prefix, place) else { return }
      known = signed
    }
    switch session.incoming.take(message, known, now: session.clock.microseconds()) {
    case .nothing: break
    case .takeRequest: try refresher.takeRequest(known)
    case .changeSchema: try tracker.take(SchemaMessage(known))
    case .readCatalog: session.catalog.want()
    }
  }

  private func authentic(
    _ message: UnsafeRawBufferPointer, _ prefix: String, _ place: MessageKey.Place
  ) throws -> UnsafeRawBufferPointer? {
    guard let transaction = session.incoming.transaction else { return nil }
    if let known = keys.content(of: message, prefix: prefix, transaction: transaction.xid, place) { return known }
    if keys.mayBeNew(at: transaction.commit) {
      try readKeys()
      if let known = keys.content(of: message, prefix: prefix, transaction: transaction.xid, place) { return known }
    }
    if place == .triggers { session.catalog.want() }
    session.progress.update { $0.refusedMessages += 1 }
    guard keys.refuse(now: Clock.monotonicMilliseconds) else { return nil }
    session.progress.tell(
      """
      transaction \(transaction.xid) at \(transaction.commit) has a message with prefix '\(prefix)' that Cairn did not \
      write: the message is ignored, the transaction is captured (\(session.progress.snapshot.refusedMessages.counted("such message")) \
      so far); look for roles that call pg_logical_emit_message, and for a cairn of an earlier version
      """)
    return nil
  }

  /// Reads the keys that sign Cairn's messages. A key is ignored if an untrusted role owns the key's schema or an
  /// object in this schema.
  func readKeys() throws {
    let connection = session.source.connection
    // The end of the log is read before the keys: messages up to it were signed with keys that existed then.
    let end = try connection.first("SELECT pg_current_wal_insert_lsn()").flatMap { LSN($0) }
    for place in [MessageKey.Place.own, .triggers] {
      let isOurs = try OwnSchema.foreign(place.rawValue, connection) == nil
      keys.set(isOurs ? try MessageKey.read(place, connection) : nil, of: place)
    }
    if let end { keys.noteRead(at: end) }
  }
}
