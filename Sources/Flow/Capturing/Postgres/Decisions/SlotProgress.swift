import Changes
import PostgresKit

/// The progress of a capture through the log of its slot. The slot is confirmed only up to an LSN before which every
/// transaction is durable in the trail or left out on purpose. The parameter `now` is monotonic time in ms.
///
///     let begin = slot.begin(transaction)                              // .isNew
///     slot.commit(transaction, end: end, isInTrail: true, at: time)
///     let position = slot.record(refresh: nil, isQuiet: true)          // goes into the trail
///     slot.noteRecorded()
///     slot.noteSynced(now: now)                                        // the trail is durable
///     let (received, flushed) = slot.report(now: now)                  // goes to the server
struct SlotProgress {
  /// The amount of processed log, in bytes, above which capture records its position in the trail.
  private static let distanceBytesMax: UInt64 = 16 << 20
  private static let recordMilliseconds: Int64 = 10_000
  /// The shortest time between two transactions of the trail that contain only applied notes, ms.
  private static let notesMilliseconds: Int64 = 1000
  /// The longest time between two syncs of the trail under steady load, ms.
  private static let syncMilliseconds: Int64 = 50
  private static let reportMilliseconds: Int64 = 5000
  /// The numbers of unsynced transactions above which a sync waits for further messages: first 2 ms, then 10 ms.
  private static let unsyncedFew = 16
  private static let unsyncedMany = 128

  /// Capture's position in the source, without the state of a running refresh.
  private(set) var position: PostgresPosition
  private var recordedKnowledge: VersionVector
  /// The LSN before which every committed transaction has been processed.
  private(set) var received = LSN(0)
  private var passed = LSN(0)
  private(set) var confirmed = LSN(0)
  /// The transaction that the server must send before any newer one; nil if there is none. If the server sends another
  /// transaction first, its history differs from the trail's.
  private var expected: PostgresPosition.Transaction?
  /// The latest commit time in the stream, µs since 1970. Transactions that capture itself adds to the trail get this
  /// time.
  private(set) var streamTime: Int64 = 0
  private var unsyncedCount = 0
  private var committedAt: Int64 = 0
  private var syncedAt: Int64 = 0
  private var reportedAt: Int64 = 0

  init(_ position: PostgresPosition) {
    self.position = position
    self.position.refresh = nil
    recordedKnowledge = position.knowledge
  }

  // MARK: Start

  /// Adds the ids of trails to `position.knowledge`, which an older version of Cairn stored without these ids.
  mutating func nameKnowledge(by notes: [AppliedNote]) {
    position.knowledge.name(by: notes)
    recordedKnowledge = position.knowledge
  }

  /// Sets the position to the start of a new slot.
  ///
  /// - Parameter notes: The last transaction of each trail that was applied to the source before the slot's start.
  mutating func begin(at start: LSN, system: UInt64, timeline: UInt32, notes: [AppliedNote]) {
    let knowledge = position.knowledge
    position = PostgresPosition(system: system, timeline: timeline, reached: start)
    position.knowledge = knowledge
    note(notes)
    (received, passed) = (start, start)
  }

  mutating func note(streamTime time: Int64) { streamTime = time }

  mutating func follow(_ timeline: UInt32) { position.timeline = timeline }

  /// Continues with a slot that is confirmed up to `confirmed`.
  mutating func resume(confirmed: LSN) {
    expected = position.witness.flatMap { confirmed <= $0.commit ? $0 : nil }
    (received, passed) = (position.quiet, position.reached)
    self.confirmed = confirmed
  }

  /// Resets the list of applied transactions of other trails to the list that is in the trail.
  mutating func disconnect() { position.knowledge = recordedKnowledge }

  // MARK: Stream

  enum Begin: Equatable {
    case isNew
    case isRecorded
    /// The server sends another transaction than the expected one, as after a restore from a backup.
    case isForeign(expected: LSN)
  }

  /// Processes the begin of a transaction, and returns whether it is new, already in the trail, or of another history.
  mutating func begin(_ transaction: PostgresPosition.Transaction) -> Begin {
    streamTime = max(streamTime, transaction.time)
    if let expected, transaction.commit >= expected.commit {
      guard transaction == expected else { return .isForeign(expected: expected.commit) }
      self.expected = nil
    }
    return transaction.commit < position.reached ? .isRecorded : .isNew
  }

  /// Processes the end of a transaction, which is at LSN `end`.
  ///
  /// - Parameter isInTrail: Whether a part of the transaction is in the trail.
  /// - Parameter time: The time of the commit, µs since 1970.
  mutating func commit(
    _ transaction: PostgresPosition.Transaction, end: LSN, isInTrail: Bool, at time: Int64
  ) {
    position.witness = transaction
    passed = end
    guard isInTrail else { return }
    position.last = transaction
    position.reached = end
    committedAt = time
  }

  mutating func note(_ notes: [AppliedNote]) { for note in notes { position.knowledge.note(note) } }

  mutating func reach(_ end: LSN) { received = max(received, end) }

  // MARK: Trail

  /// Returns the position of capture to store at the end of a transaction of the trail.
  ///
  /// - Parameter refresh: The state of the running refresh; nil if there is none.
  /// - Parameter isQuiet: Whether no transaction of the stream is open.
  mutating func record(refresh: PostgresPosition.RefreshState?, isQuiet: Bool) -> PostgresPosition {
    if isQuiet {
      position.reached = max(position.reached, passed)
      position.quiet = max(position.quiet, received)
    }
    position.quiet = max(position.quiet, position.reached)
    var recorded = position
    recorded.refresh = refresh
    return recorded
  }

  mutating func noteRecorded() {
    recordedKnowledge = position.knowledge
    unsyncedCount += 1
  }

  /// Registers that the trail is durable. Returns the commit time of the last transaction that became durable, µs since
  /// 1970; nil if there is none.
  mutating func noteSynced(now: Int64) -> Int64? {
    defer { committedAt = 0 }
    unsyncedCount = 0
    syncedAt = now
    confirmed = max(confirmed, position.quiet)
    return committedAt == 0 ? nil : committedAt
  }

  var hasUnsynced: Bool { unsyncedCount > 0 }

  func isSyncDue(now: Int64) -> Bool { hasUnsynced && now - syncedAt > Self.syncMilliseconds }

  /// The time to wait for another message before a sync of the trail, ms; 0 if only few transactions are not synced.
  var syncDelayMilliseconds: Int32 {
    unsyncedCount > Self.unsyncedMany ? 10 : unsyncedCount > Self.unsyncedFew ? 2 : 0
  }

  /// Whether the server has sent log that the recorded position does not include.
  var hasUnrecorded: Bool { received > position.quiet }
  /// Whether the server has sent log after the last transaction of the trail.
  var isBeyondTrail: Bool { received > position.reached }

  /// Returns whether capture must now record its position in the trail.
  ///
  /// - Parameter isWanted: Whether a logical message or the server asks for the position.
  func isRecordDue(isWanted: Bool, now: Int64) -> Bool {
    guard hasUnrecorded else { return false }
    let isFar = received.value - position.quiet.value > Self.distanceBytesMax
    return isWanted || isFar
      || now - syncedAt >= (hasUnrecordedNotes ? Self.notesMilliseconds : Self.recordMilliseconds)
  }

  private var hasUnrecordedNotes: Bool { position.knowledge != recordedKnowledge }

  /// Returns the time until applied notes that the trail lacks must be written to it, ms; nil if it lacks none.
  func untilNotesAreRecorded(now: @autoclosure () -> Int64) -> Int32? {
    hasUnrecordedNotes ? Int32(max(1, min(1000, syncedAt + Self.notesMilliseconds - now()))) : nil
  }

  // MARK: Reports

  func isReportDue(now: Int64) -> Bool { now - reportedAt > Self.reportMilliseconds }

  /// Returns the LSN up to which log was received, and the LSN up to which the server may delete log.
  mutating func report(now: Int64) -> (received: LSN, flushed: LSN) {
    reportedAt = now
    return (max(received, confirmed), confirmed)
  }
}

// MARK: Whether the server continues where the trail ends

extension SlotProgress {
  enum Loss {
    case missing
    case invalidated
    case withoutPublication
    /// The slot has another plugin or database than the slots that Cairn creates here.
    case foreign(database: String, plugin: String)
    /// The slot is confirmed up to this LSN, which is after the end of the trail.
    case movedOn(LSN)

    var canBeReplaced: Bool { if case .foreign = self { false } else { true } }
  }

  /// Returns how the server's cluster or timeline differs from the trail's; nil if both are the same.
  ///
  /// - Parameter history: For each earlier timeline, the LSN at which the server left that timeline.
  func departure(system: UInt64, timeline: UInt32, history: [UInt32: LSN]) -> String? {
    guard system == position.system else { return "it is another cluster, \(system)" }
    guard timeline != position.timeline else { return nil }
    guard let left = history[position.timeline] else {
      return "it is on timeline \(timeline), which does not follow timeline \(position.timeline) of the trail"
    }
    guard left >= position.reached else {
      return
        "its timeline \(timeline) left timeline \(position.timeline) at \(left), and the trail ends at \(position.reached)"
    }
    return nil
  }

  func loss(of slot: PostgresSource.Slot?, hasPublication: Bool, database: String) -> Loss? {
    guard let slot else { return .missing }
    guard !slot.isLost else { return .invalidated }
    guard hasPublication else { return .withoutPublication }
    guard slot.database == database, slot.plugin == "pgoutput" else {
      return .foreign(database: slot.database, plugin: slot.plugin)
    }
    return slot.confirmed <= position.quiet ? nil : .movedOn(slot.confirmed)
  }
}
