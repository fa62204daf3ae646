import Changes
import CodecKit
import PostgresKit
import SystemKit
import Trails

// Transactions of the trail, their durability, and the confirmations to the server.
extension PostgresCapture {
  /// The most bytes of log that the server keeps for the slot without need.
  private static let distanceBytesMax: UInt64 = 16 << 20
  /// The time between two transactions of the trail that contain only notes of apply, ms.
  private static let notesMilliseconds: Int64 = 1000
  /// The numbers of unsynced transactions that count as a stream, and as a backlog.
  static let unsyncedFew = 16
  static let unsyncedMany = 128

  /// Begins the trail's transaction, once part of the incoming one belongs in it.
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
    // A transaction that was left out because a chunk shows it must not come again after that chunk.
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
    // The file could not distinguish two registries of which neither is durable yet.
    if hasNewShapes { try sync() }
  }

  /// Keeps the present registry even if a transaction of the trail is dropped.
  func settleRegistry() { (committedRegistry, committedRepairing) = (registry, repairing) }

  /// Drops the unfinished transaction, and its changes to the registry.
  func abandon() throws {
    guard isTrailOpen || incoming != nil else { return }
    if isTrailOpen { try trail.abandon() }
    isTrailOpen = false
    registry = committedRegistry
    repairing = committedRepairing
    captured = [:]
  }

  /// Advances the slot while the server logs nothing for this capture.
  func appendProgressInTime(isDue: Bool) throws {
    guard received > position.quiet, incoming == nil, !isTrailOpen else { return }
    let isFar = received.value - position.quiet.value > Self.distanceBytesMax
    let pauseMilliseconds = position.knowledge == toldKnowledge ? 10_000 : Self.notesMilliseconds
    guard isDue || isFar || Clock.monotonicMilliseconds - progressAt >= pauseMilliseconds else { return }
    try appendProgress()
    try sync()
  }

  /// The time until apply's notes are written to the trail if nothing else arrives, ms; nil if there are none.
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

  /// Reports to the server which log it may forget.
  func report() throws {
    try stream?.report(received: max(received, confirmed), flushed: confirmed)
    reportedAt = Clock.monotonicMilliseconds
  }

  func reportInTime() throws {
    let now = Clock.monotonicMilliseconds
    guard now - reportedAt > 5000 else { return }
    // The answer shows the position of an otherwise idle server.
    try stream?.report(received: max(received, confirmed), flushed: confirmed, wantsReply: incoming == nil)
    reportedAt = now
  }

  // MARK: Barriers

  static let barrierPrefix = "cairn.barrier"
  /// The prefix of a message after which the trail records its position at once.
  package static let progressPrefix = "cairn.progress"

  /// Commits a message of Cairn: everything before it in the stream committed before this call.
  func emitBarrier() throws -> String {
    barrierNumber += 1
    // No other writer can write this text, because none knows it.
    let text = "\(slotName) \(barrierNumber) \(randomBytes(16).hex)"
    try source.connection.query("SELECT pg_logical_emit_message(true, $1, $2)", [Self.barrierPrefix, text])
    return text
  }
}
