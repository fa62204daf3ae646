import Changes
import CodecKit
import PostgresKit
import SystemKit
import Trails

/// The connections and the trail of one PostgreSQL capture. The session writes transactions into the trail, syncs them,
/// and confirms them to the server.
final class CaptureSession {
  let uri: String
  let options: PostgresCapture.Options
  let trail: TrailWriter
  let clock: Clock
  let progress: CaptureProgress
  let slotName: String
  private let registryFile: RegistryFile
  private let requestsFile: RequestsFile

  var source: PostgresSource
  var replication: PostgresConnection
  var stream: ReplicationStream?

  var slot: SlotProgress
  var incoming: IncomingTransaction
  var tables: KnownTables
  var refreshes: RefreshQueue
  var catalog = CatalogWatch()
  var sequences = SequenceWatch()
  var waits = WaitingTables()

  private var openNumber: UInt64?
  private var changeCount: UInt64 = 0
  private var barrierNumber = 0
  private var record = ByteWriter()

  init(uri: String, trail: TrailWriter, options: PostgresCapture.Options, clock: Clock, progress: CaptureProgress)
    throws
  {
    (self.uri, self.trail, self.options, self.clock, self.progress) = (uri, trail, options, clock, progress)
    slotName = PostgresSource.name(of: trail.id)
    let application = PostgresSource.application(slotName)
    let connection = try PostgresConnection(uri, application: application)
    source = PostgresSource(connection, uri: uri, trail: trail.id)
    let stored = try trail.lastHeader.map { try PostgresPosition(decoding: $0.sourcePosition) }
    try PostgresSource.check(connection, newSlots: stored == nil ? 1 : 0)
    if let notice = PostgresSource.versionNotice(connection) { progress.tell(notice) }
    if stored != nil, let notice = try PostgresSource.encodingNotice(connection) { progress.tell(notice) }
    if stored == nil { for notice in try StartNotices.of(connection) { progress.tell(notice) } }
    replication = try PostgresConnection(uri, purpose: .replication, application: application)
    registryFile = try RegistryFile(folder: options.place, number: trail.lastHeader?.number ?? 0)
    tables = KnownTables(registryFile.registry)
    requestsFile = RequestsFile(folder: options.place)
    refreshes = RefreshQueue(stored?.refresh, try requestsFile.load())
    incoming = IncomingTransaction(.init(options: options, trail: trail.name.description))
    let identity = try PostgresSource.identity(replication)
    slot = SlotProgress(
      stored ?? PostgresPosition(system: identity.system, timeline: identity.timeline, reached: LSN(0)))
  }

  var place: String { source.connection.place }

  func connect() throws -> PostgresConnection {
    try PostgresConnection(uri, application: PostgresSource.application(slotName))
  }

  // MARK: Transactions of the trail

  var isTrailOpen: Bool { openNumber != nil }

  func openTransaction() throws {
    guard openNumber == nil else { return }
    let arriving = incoming.header
    var header = TransactionHeader(commitTime: arriving?.commitTime ?? clock.microseconds())
    if arriving == nil {
      header.flags = [.late]
      header.clock = UInt64(clamping: slot.streamTime)
    }
    header.follow(slot.position.knowledge)
    if let relay = arriving?.relay, let origin = relay.origin { header.hand(on: origin, after: relay.clock) }
    if arriving == nil { settle() }
    openNumber = try trail.begin(header, isLate: arriving == nil).number
  }

  func endTransaction() throws {
    let position = slot.record(refresh: refreshes.record(), isQuiet: !incoming.isOpen)
    try trail.append(position: position.encoded, at: clock.microseconds())
    let hasNewShapes = !tables.isSaved
    if hasNewShapes, let openNumber { try saveTables(from: openNumber) }
    try trail.commit()
    slot.noteRecorded()
    openNumber = nil
    settle()
    progress.update {
      $0.transactions += 1
      $0.changes += changeCount
    }
    changeCount = 0
    // The file keeps only one state that is not durable yet, so the previous one must be durable first.
    if hasNewShapes { try sync() }
  }

  /// Makes the changes to the list of tables and to running refreshes final. Before this call, ``abandon()`` undoes
  /// them.
  func settle() {
    tables.settle()
    refreshes.settle()
  }

  func abandon() throws {
    guard openNumber != nil || incoming.isOpen else { return }
    if openNumber != nil { try trail.abandon() }
    openNumber = nil
    tables.abandon()
    refreshes.abandon()
  }

  /// Appends a change of a row to the open transaction of the trail. If the transaction has no room for the table's
  /// definition, leaves the change out and schedules a refresh of the table.
  ///
  /// - Parameter image: The encoded old row, new row or both, as `flags` says.
  func append(
    _ operation: Operation, _ flags: ChangeFlags, _ table: Captured, _ image: borrowing ByteWriter
  ) throws {
    try openTransaction()
    guard let id = try trail.schemaIDInRoom(table.schema, token: table.epoch) else { return leaveOut(table) }
    record.removeAll()
    record.append(operation.rawValue)
    record.append(flags.rawValue)
    record.appendVarint(id)
    record.append(image.bytes)
    try trail.append(kind: RecordKind.change, record.bytes)
    changeCount += 1
  }

  private func leaveOut(_ table: Captured) {
    guard var known = tables[table.relation] else { return }
    if known.refresh == nil {
      progress.tell(
        "a transaction uses more table definitions than a segment of the trail may have: copying table \(known.schema.fullName) again"
      )
    }
    known.refresh = .lostChanges
    tables.set(known)
    refreshes.restart(known.relation)
  }

  /// Appends the schema changes of a table to the trail. If a refresh of the table was in progress, it begins again.
  ///
  /// - Parameter isHeir: Whether the table changed only because it inherits from the altered table. The change then is
  ///   not one of the apply that made the transaction.
  func append(_ change: KnownTables.Change, isHeir: Bool = false) throws {
    for relation in change.restarted { refreshes.restart(relation) }
    for record in change.records { try trail.append(record, by: isHeir ? "" : incoming.applier) }
  }

  func append(_ event: Refresh.Event, of table: PostgresRegistry.Table) throws {
    try PostgresCopier.append(Refresh(schemaID: try id(of: table), event: event), trail)
  }

  func append(_ sequences: [SequenceState]) throws {
    for sequence in sequences {
      record.removeAll()
      record.append(sequence)
      try trail.append(kind: RecordKind.sequence, record.bytes)
    }
  }

  /// Returns the number of a table's shape in the open segment, and writes the shape there if it is missing.
  func id(of table: PostgresRegistry.Table) throws -> UInt64 { try trail.schemaID(table.schema, token: table.epoch) }

  /// Appends a transaction that contains only the position of capture in the source.
  func recordProgress() throws {
    try openTransaction()
    try endTransaction()
  }

  /// Writes capture's position in the source into the trail if that is due, so that the server can delete older log.
  ///
  /// - Parameter isWanted: Whether a message or the server requests the position now.
  func recordProgressInTime(isWanted: Bool) throws {
    guard !incoming.isOpen, !isTrailOpen, slot.isRecordDue(isWanted: isWanted, now: Clock.monotonicMilliseconds) else {
      return
    }
    try recordProgress()
    try sync()
  }

  // MARK: Durability

  func sync() throws {
    let end = try trail.sync()
    let committedAt = slot.noteSynced(now: Clock.monotonicMilliseconds)
    progress.noteDurable(end.position, committedAt.map { ($0, Clock.system.microseconds() - $0) })
    try saveTables()
    if stream != nil { try report() }
  }

  func saveTables() throws { if !tables.isSaved { try saveTables(from: trail.lastHeader?.number ?? 0) } }

  private func saveTables(from number: UInt64) throws {
    try registryFile.save(tables.registry, from: number)
    tables.noteSaved()
  }

  func saveRequests() throws { try requestsFile.save(refreshes.requests) }

  /// Reports to the server the LSN up to which log has been received, and the LSN up to which the server may delete
  /// log.
  ///
  /// - Parameter wantsReply: Whether the server is asked for an answer.
  func report(wantsReply: Bool = false) throws {
    let (received, flushed) = slot.report(now: Clock.monotonicMilliseconds)
    try stream?.report(received: received, flushed: flushed, wantsReply: wantsReply)
  }

  func reportInTime() throws {
    guard slot.isReportDue(now: Clock.monotonicMilliseconds) else { return }
    // The answer shows the position of an otherwise idle server.
    try report(wantsReply: !incoming.isOpen)
  }

  /// Sends a report to the server if the last one is more than 5 s old, because the server ends a silent stream.
  func keepStream() throws { if slot.isReportDue(now: Clock.monotonicMilliseconds) { try report() } }

  // MARK: Server

  /// Commits a logical message with a random text at the source, and returns the text. The stream brings this message
  /// after everything that was committed before the message.
  func emitBarrier() throws -> String {
    barrierNumber += 1
    // No other session can write this text, because none knows it.
    let text = "\(slotName) \(barrierNumber) \(randomBytes(16).hex)"
    try source.connection.query(
      "SELECT pg_logical_emit_message(true, $1, $2)", [PostgresCapture.barrierPrefix, text])
    return text
  }

  /// Whether capture must read rows of the source: single rows, or refreshes of published tables.
  var hasRefreshes: Bool { !refreshes.isIdle || tables.hasReadable }

  /// Whether capture must read rows of the source. Tables that stay suspended until the operator acts do not count.
  var awaitsRefreshes: Bool { !refreshes.isIdle || tables.waitingCount(besides: waits.forOperator) > 0 }

  func showWaiting() {
    let (waiting, waits) = (tables.waitingCount(besides: waits.forOperator), waits.all)
    progress.update { ($0.tablesToCopy, $0.waits) = (waiting, waits) }
  }

  /// Replaces the list of tables that are suspended for this cause by `found`, and reports the new ones to the
  /// operator.
  func set(_ found: [UInt32: TableWait], _ cause: WaitingTables.Cause) {
    for wait in waits.set(found, cause) { progress.tell("\(wait.message); \(wait.hint)") }
    showWaiting()
  }

  func endWaits(of relation: UInt32) {
    waits.end(relation)
    refreshes.endObstacle(of: relation)
  }

  func add(_ wait: TableWait, of relation: UInt32, _ cause: WaitingTables.Cause) {
    if waits.add(wait, of: relation, cause) { progress.tell("\(wait.message); \(wait.hint)") }
    showWaiting()
  }

  /// Returns the error for a server that lacks transactions of the trail, such as a server restored from a backup.
  ///
  /// - Parameter how: The part of the message that describes the difference.
  func wentBack(_ how: String) -> CairnError {
    CairnError(
      .sourceWentBack, "the source \(place) is not at the end of the trail: \(how)",
      hint:
        "it was restored or replaced, and the target may have newer rows: run 'cairn detach' on both, and replicate into a new --state from the end whose rows to keep, with --existing overwrite"
    )
  }

  /// Returns the error for a slot that cannot be used, or whose publication is missing.
  func lost(_ loss: SlotProgress.Loss) -> CairnError {
    let copy = CopyHint.either + ": "
    let newSlot = "a new slot is made and every table is copied again"
    let (what, hint) =
      switch loss {
      case .missing: ("slot \(slotName) is gone", copy + newSlot)
      case .invalidated: ("slot \(slotName) was invalidated by the server", copy + newSlot)
      case .withoutPublication:
        (
          "publication \(slotName) is gone",
          copy + "a new publication and slot are made and every table is copied again"
        )
      case .foreign(let database, let plugin):
        (
          "slot \(slotName) is one of database \(database) with plugin \(plugin)",
          "find out which user created it, and remove it; then copy again: \(CopyHint.either)"
        )
      case .movedOn(let place):
        ("slot \(slotName) was moved on to \(place), the trail ends at \(slot.position.quiet)", copy + newSlot)
      }
    return CairnError(.slotLost, "\(place): \(what)", hint: hint)
  }
}
