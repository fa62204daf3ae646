import Changes
import CodecKit
import PostgresKit
import SystemKit
import Trails

// Transactions of the trail, what is durable of them, and what the server is told of that.
extension PostgresCapture {
  /// Of log that the server keeps for us without need.
  private static let distanceBytesMax: UInt64 = 16 << 20
  /// Between transactions of the trail that tell nothing but what apply has noted.
  private static let notesMilliseconds: Int64 = 1000
  /// Transactions that make a stream of them, and a backlog.
  static let unsyncedFew = 16
  static let unsyncedMany = 128

  /// Begins the trail's transaction when something of the incoming one belongs into it.
  func openTransaction() throws {
    guard !isTrailOpen else { return }
    var header = TransactionHeader(commitTime: clock.microseconds(), flags: [.late])
    header.clock = UInt64(clamping: streamTime)
    if let incoming { header = TransactionHeader(commitTime: incoming.commitTime) }
    header.follow(position.knowledge)
    if let relay = incoming?.relay, let origin = relay.origin { header.hand(on: origin, after: relay.clock) }
    if incoming == nil { settleRegistry() }
    openNumber = try trail.begin(header, isLate: incoming == nil).number
    isTrailOpen = true
  }

  func endTransaction() throws {
    // Also what was left out, since a chunk shows it, is not to come again behind that chunk.
    if incoming == nil {
      position.reached = max(position.reached, passed)
      position.quiet = max(position.quiet, received)
    }
    position.quiet = max(position.quiet, position.reached)
    if let refresh = position.refresh {
      position.refresh?.wantsRows = wantedRows.contains { $0.relation == refresh.relation }
    }
    record.removeAll()
    record.appendCounted(position.encoded)
    record.appendZigzag(clock.microseconds())
    try trail.append(kind: RecordKind.progress, record.bytes)
    let hasNewShapes = !isRegistrySaved
    if hasNewShapes { try saveRegistry(from: openNumber) }
    try trail.commit()
    toldKnowledge = position.knowledge
    isTrailOpen = false
    hasUnsynced = true
    unsyncedCount += 1
    settleRegistry()
    progress.update {
      $0.transactions += 1
      $0.changes += changeCount
    }
    changeCount = 0
    // Of two registries that are not durable yet, the file could not tell.
    if hasNewShapes { try sync() }
  }

  /// What is known of the tables holds also when a transaction of the trail is dropped.
  func settleRegistry() { (committedRegistry, committedRepairing) = (registry, repairing) }

  /// Drops the transaction that is under way, and what it told of the tables.
  func abandon() throws {
    guard isTrailOpen || incoming != nil else { return }
    if isTrailOpen { try trail.abandon() }
    isTrailOpen = false
    registry = committedRegistry
    repairing = committedRepairing
    captured = [:]
  }

  /// Keeps the slot moving where nothing of what the server logs is ours.
  func appendProgressInTime(isDue: Bool) throws {
    guard received > position.quiet, incoming == nil, !isTrailOpen else { return }
    let isFar = received.value - position.quiet.value > Self.distanceBytesMax
    let pauseMilliseconds = position.knowledge == toldKnowledge ? 10_000 : Self.notesMilliseconds
    guard isDue || isFar || Clock.monotonicMilliseconds - progressAt >= pauseMilliseconds else { return }
    try appendProgress()
    try sync()
  }

  /// Until what apply has noted is told, when nothing else comes.
  var untilNotesAreToldMilliseconds: Int32? {
    guard position.knowledge != toldKnowledge else { return nil }
    return Int32(max(1, min(1000, progressAt + Self.notesMilliseconds - Clock.monotonicMilliseconds)))
  }

  func appendProgress() throws {
    try openTransaction()
    try endTransaction()
  }

  func sync() throws {
    let end = try trail.sync()
    progress.noteDurable(
      end.position, committedAt == 0 ? nil : (committedAt, Clock.system.microseconds() - committedAt))
    committedAt = 0
    hasUnsynced = false
    unsyncedCount = 0
    syncedAt = Clock.monotonicMilliseconds
    progressAt = syncedAt
    try saveRegistry()
    confirmed = max(confirmed, position.quiet)
    if stream != nil { try report() }
  }

  func saveRegistry() throws {
    if !isRegistrySaved { try saveRegistry(from: trail.lastHeader?.number ?? 0) }
  }

  private func saveRegistry(from number: UInt64) throws {
    try registryFile.save(registry, from: number)
    isRegistrySaved = true
  }

  /// Tells the server what it may forget.
  func report() throws {
    try stream?.report(received: max(received, confirmed), flushed: confirmed)
    reportedAt = Clock.monotonicMilliseconds
  }

  func reportInTime() throws {
    let now = Clock.monotonicMilliseconds
    guard now - reportedAt > 5000 else { return }
    // An answer tells us how far an otherwise idle server has come.
    try stream?.report(received: max(received, confirmed), flushed: confirmed, wantsReply: incoming == nil)
    reportedAt = now
  }

  // MARK: Barriers

  static let barrierPrefix = "cairn.barrier"
  /// Of a message after which the trail tells at once how far it has come.
  package static let progressPrefix = "cairn.progress"

  /// Commits a message of ours: what comes before it in the stream committed before this call.
  func emitBarrier() throws -> String {
    barrierNumber += 1
    // No other writer can write it, because no other writer knows it.
    let text = "\(slotName) \(barrierNumber) \(randomBytes(16).hex)"
    try source.connection.query("SELECT pg_logical_emit_message(true, $1, $2)", [Self.barrierPrefix, text])
    return text
  }
}
