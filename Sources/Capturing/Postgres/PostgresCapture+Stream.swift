import Changes
import PostgresKit
import SystemKit
import Trails

// The messages of the stream, one by one.
extension PostgresCapture {
  func take(_ message: PgOutput) throws {
    switch message {
    case .begin(let commit, let time, let xid):
      if let chunk, !chunk.isPlaced, !chunk.snapshot.shows(xid) { try placeChunk() }
      if let chunk, chunk.isPlaced, chunk.snapshot.shows(xid) { self.chunk?.isRaced = true }
      let transaction = PostgresPosition.Transaction(commit: commit, xid: xid, time: time)
      streamTime = max(streamTime, time)
      try checkExpected(transaction)
      let isSkipped = commit < position.reached
      incoming = Incoming(transaction: transaction, isSkipped: isSkipped)
      settleRegistry()
    case .origin(let name):
      // Rows that Cairn's apply writes here began elsewhere. The name is `cairn_OID_TRAIL`.
      guard name.hasPrefix("cairn_") else { break }
      let trail = name.split(separator: "_", maxSplits: 2, omittingEmptySubsequences: false).last
      if leavesOut(trail.map(String.init) ?? "") { incoming?.isSkipped = true }
    case .message(let isTransactional, let prefix, let content):
      guard isTransactional, prefix.hasPrefix("cairn") else { return }
      try take(prefix, content)
    case .relation(let relation):
      relations[relation.id] = relation
      captured[relation.id] = nil
    case .type: break
    case .insert(let id, let new):
      guard let table = try table(id) else { return }
      image.removeAll()
      try new.appendImage(to: &image, scratch: &record)
      try append(.insert, [.after], table)
    case .update(let id, let old, let new):
      guard let table = try table(id), try logsEnough(old, of: table) else { return }
      image.removeAll()
      if let old { try appendOld(old, table) }
      try new.appendImage(to: &image, scratch: &record)
      try append(.update, old == nil ? [.after] : [.before, .after], table)
      if case .key? = old, try new.hasUnchanged() { try wantRow(of: table, new) }
    case .delete(let id, let old):
      guard let table = try table(id), try logsEnough(old, of: table) else { return }
      image.removeAll()
      try appendOld(old, table)
      try append(.delete, [.before], table)
    case .truncate(let ids):
      for id in ids {
        guard let table = try table(id) else { continue }
        image.removeAll()
        try append(.truncate, [], table)
      }
    case .commit(_, let end, _): try endIncoming(end)
    }
  }

  /// Throws if the server does not send the expected transaction again: a server that was restored from a backup no
  /// longer has it.
  private func checkExpected(_ transaction: PostgresPosition.Transaction) throws {
    guard let expected, transaction.commit >= expected.commit else { return }
    guard transaction == expected else {
      throw Self.wentBack(
        source.connection.place, "its transaction at \(expected.commit) is not the one that the trail has")
    }
    self.expected = nil
  }

  /// Returns false if a partition logged less of an old row than its table promises: PostgreSQL then sends NULL instead
  /// of values, which would name no row, or another one. The table is copied again, once its partitions log enough.
  private func logsEnough(_ old: PgOutput.OldTuple?, of table: Captured) throws -> Bool {
    guard let givenAlways = table.givenAlways else { return true }
    if !unsure.contains(table.relation) {
      guard let old else { if !table.isFull { return true } else { return try copyUnsure(table) } }
      if try !old.tuple.hasNull(among: givenAlways) { return true }
    }
    return try copyUnsure(table)
  }

  private func copyUnsure(_ table: Captured) throws -> Bool {
    look.isWanted = true
    guard var known = registry.tables[table.relation] else { return false }
    progress.tell(
      "a partition of table \(known.schema.fullName) logged too little of an old row: copying the table again")
    known.refresh = .lostChanges
    registry.set(known)
    relationChanged(table.relation)
    return false
  }

  private func appendOld(_ old: PgOutput.OldTuple, _ table: Captured) throws {
    switch old {
    case .key(let tuple): try tuple.appendImage(to: &image, scratch: &record, given: table.isKey)
    case .full(let tuple): try tuple.appendImage(to: &image, scratch: &record)
    }
  }

  /// Returns the table of a change that belongs in the trail; nil for a change that does not.
  private func table(_ id: UInt32) throws -> Captured? {
    guard let incoming, !incoming.isSkipped else { return nil }
    self.incoming?.isFresh = false
    if let known = captured[id] { return known.isWanted ? known : nil }
    guard let relation = relations[id] else {
      throw DecodingError(offset: 0, problem: "a change of relation \(id), which was not described")
    }
    let made = try capture(relation)
    captured[id] = made
    return made.isWanted ? made : nil
  }

  private func append(_ operation: Operation, _ flags: ChangeFlags, _ table: Captured) throws {
    try openTransaction()
    let id = try trail.schemaID(table.schema, token: table.epoch)
    record.removeAll()
    record.append(operation.rawValue)
    record.append(flags.rawValue)
    record.appendVarint(id)
    record.append(image.bytes)
    try trail.append(kind: RecordKind.change, record.bytes)
    changeCount += 1
  }

  private func endIncoming(_ end: LSN) throws {
    guard let transaction = incoming?.transaction, let committedAt = incoming?.commitTime else { return }
    let barrier = incoming?.barrier
    let wantsProgress = incoming?.wantsProgress == true
    let notes = incoming?.notes ?? []
    incoming = nil
    position.witness = transaction
    passed = end
    if isTrailOpen {
      position.last = transaction
      position.reached = end
      hasChangedSinceSequences = true
      self.committedAt = committedAt
      try endTransaction()
    }
    for note in notes { position.knowledge.note(note) }
    if let barrier, barrier == goal { goal = nil }
    if let barrier { look.reached(barrier) }
    try reach(end)
    if let barrier { try tellWatch(barrier) }
    if wantsProgress || !notes.isEmpty { try appendProgressInTime(isDue: wantsProgress) }
    if hasUnsynced, Clock.monotonicMilliseconds - syncedAt > 50 { try sync() }
  }

  private func tellWatch(_ barrier: String) throws {
    guard let watch = options.watch, let mark = LocalWatch.Mark(barrier), watch.isAwaited(mark) else { return }
    if hasUnsynced { try sync() }
    watch.reached(mark, .init(number: trail.lastHeader?.number ?? 0, position: trail.end.position))
  }

  /// Notes that every transaction that committed before `end` has been processed.
  func reach(_ end: LSN) throws {
    if end > received { received = end }
    guard let chunk, received >= chunk.end else { return }
    if !chunk.isPlaced { try placeChunk() }
    try endChunk()
  }
}
