import Changes
import CodecKit
import PostgresKit
import SystemKit
import Trails

/// The connections of a capture, its trail, and the decisions about both: what the parts of ``PostgresCapture`` share.
///
/// It writes transactions into the trail, makes them durable and confirms them to the server, as ``SlotProgress``
/// decides.
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

  /// The number of the transaction that is open in the trail; nil if none is.
  private var openNumber: UInt64?
  /// The number of changes in it.
  private var changeCount: UInt64 = 0
  private var barrierNumber = 0
  private var record = ByteWriter()

  /// Connects, and checks that the server can be captured.
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
    if stored != nil, let notice = try PostgresSource.encodingNotice(connection) { progress.tell(notice) }
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

  /// The name of the server and database, for messages.
  var place: String { source.connection.place }

  /// Opens another connection like that of ``source``.
  func connect() throws -> PostgresConnection {
    try PostgresConnection(uri, application: PostgresSource.application(slotName))
  }

  // MARK: Transactions of the trail

  var isTrailOpen: Bool { openNumber != nil }

  /// Begins the trail's transaction, once part of the incoming one belongs in it.
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
    // The file could not distinguish two registries of which neither is durable yet.
    if hasNewShapes { try sync() }
  }

  /// Keeps the present tables even if a transaction of the trail is dropped.
  func settle() {
    tables.settle()
    refreshes.settle()
  }

  /// Drops the unfinished transaction, and its changes to the tables.
  func abandon() throws {
    guard openNumber != nil || incoming.isOpen else { return }
    if openNumber != nil { try trail.abandon() }
    openNumber = nil
    tables.abandon()
    refreshes.abandon()
  }

  /// Appends a change of a row.
  ///
  /// - Parameter image: The encoded rows that `flags` name.
  func append(
    _ operation: Operation, _ flags: ChangeFlags, _ table: Captured, _ image: borrowing ByteWriter
  ) throws {
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

  /// Appends the records of a change of tables; their refreshes begin again.
  func append(_ change: KnownTables.Change) throws {
    for relation in change.restarted { refreshes.restart(relation) }
    for record in change.records { try trail.append(record, by: incoming.applier) }
  }

  /// Appends an event of a table's refresh.
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

  /// Returns the id of a table's shape in the open segment.
  func id(of table: PostgresRegistry.Table) throws -> UInt64 { try trail.schemaID(table.schema, token: table.epoch) }

  /// Appends a transaction that contains only the position.
  func recordProgress() throws {
    try openTransaction()
    try endTransaction()
  }

  /// Advances the slot while the server logs nothing for this capture.
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

  /// Reports to the server which log it may forget.
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

  /// Keeps the stream alive: the server ends a stream that is silent for too long.
  func keepStream() throws { if slot.isReportDue(now: Clock.monotonicMilliseconds) { try report() } }

  // MARK: Server

  /// Commits a message of Cairn: everything before it in the stream committed before this call.
  func emitBarrier() throws -> String {
    barrierNumber += 1
    // No other writer can write this text, because none knows it.
    let text = "\(slotName) \(barrierNumber) \(randomBytes(16).hex)"
    try source.connection.query(
      "SELECT pg_logical_emit_message(true, $1, $2)", [PostgresCapture.barrierPrefix, text])
    return text
  }

  /// Whether rows are still to be read.
  var hasRefreshes: Bool { !refreshes.isIdle || tables.hasWaiting }

  /// Shows how many tables are still to be copied.
  func showWaiting() {
    let waiting = tables.waitingCount
    progress.update { $0.tablesToCopy = waiting }
  }

  /// Returns the error for a server that does not have what the trail has.
  func wentBack(_ how: String) -> CairnError {
    CairnError(
      .sourceWentBack, "the source \(place) is not where the trail ends: \(how)",
      hint:
        "it was restored or replaced, and the target may hold newer rows: run 'cairn detach' on both, and replicate into a new --state from the end that is to be kept, with --existing overwrite"
    )
  }

  /// Returns the error for a slot that cannot be used. Creating a publication again does not help: a stream looks it up
  /// as it was at each moment of the log.
  func lost(_ loss: SlotProgress.Loss) -> CairnError {
    let copy = "with the daemon 'cairn copy APPLY', else run again with --existing overwrite: "
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
          "look who made it; run again with --existing overwrite once it is gone"
        )
      case .movedOn(let place):
        ("slot \(slotName) was moved on to \(place), the trail ends at \(slot.position.quiet)", copy + newSlot)
      }
    return CairnError(.slotLost, "\(place): \(what)", hint: hint)
  }
}
