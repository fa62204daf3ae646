import Changes
import PostgresKit

/// The progress of a capture through the log of its slot: what the server sent, what the trail has, and what the server
/// may drop. It does no I/O.
///
/// The slot is confirmed only up to a place before which every transaction is durable in the trail, or is left out of
/// the trail. `now` is monotonic time in ms.
///
///     let begin = slot.begin(transaction)                              // .isNew
///     slot.commit(transaction, end: end, isInTrail: true, at: time)
///     let position = slot.record(refresh: nil, isQuiet: true)          // goes into the trail
///     slot.noteRecorded()
///     slot.noteSynced(now: now)                                        // the trail is durable
///     let (received, flushed) = slot.report(now: now)                  // goes to the server
struct SlotProgress {
  /// The most bytes of log that the server may keep for the slot although capture has processed them.
  private static let distanceBytesMax: UInt64 = 16 << 20
  /// The longest time between two transactions of the trail that record the position, ms.
  private static let recordMilliseconds: Int64 = 10_000
  /// The least time between two transactions of the trail that contain only notes of applies, ms.
  private static let notesMilliseconds: Int64 = 1000
  /// The longest time for which a stream of transactions is not synced, ms.
  private static let syncMilliseconds: Int64 = 50
  private static let reportMilliseconds: Int64 = 5000
  /// The least number of unsynced transactions that counts as a stream; ``unsyncedMany`` of them count as a backlog.
  private static let unsyncedFew = 16
  private static let unsyncedMany = 128

  /// The position of the trail in the source, without the state of the refresh.
  private(set) var position: PostgresPosition
  /// The knowledge that the last transaction of the trail recorded.
  private var recordedKnowledge: Knowledge
  /// The place in the server's log before which every committed transaction has been processed.
  private(set) var received = LSN(0)
  /// The place in the server's log after the last transaction that the server sent.
  private var passed = LSN(0)
  private(set) var confirmed = LSN(0)
  /// The transaction that the server must send again first, before any newer one; nil if there is none.
  private var expected: PostgresPosition.Transaction?
  /// The latest commit time in the stream (at the start: the server's time), µs since 1970. Transactions of the trail
  /// that capture makes itself get it as their clock. So changes that wait in the stream do not seem later than they
  /// are.
  private(set) var streamTime: Int64 = 0
  /// The number of transactions written to the trail since its last sync.
  private var unsyncedCount = 0
  /// The commit time at the source of the last unsynced transaction, µs since 1970; 0 if there is none.
  private var committedAt: Int64 = 0
  private var syncedAt: Int64 = 0
  private var reportedAt: Int64 = 0

  init(_ position: PostgresPosition) {
    self.position = position
    self.position.refresh = nil
    recordedKnowledge = position.knowledge
  }

  // MARK: Start

  /// Adds the ids of trails to knowledge that an earlier version stored without them.
  mutating func nameKnowledge(by notes: [AppliedNote]) {
    position.knowledge.name(by: notes)
    recordedKnowledge = position.knowledge
  }

  /// Begins with a new slot, whose stream starts at `start`.
  ///
  /// - Parameter notes: The notes of the transactions of applies that the slot does not send.
  mutating func begin(at start: LSN, system: UInt64, timeline: UInt32, notes: [AppliedNote]) {
    let knowledge = position.knowledge
    position = PostgresPosition(system: system, timeline: timeline, reached: start)
    position.knowledge = knowledge
    note(notes)
    (received, passed) = (start, start)
  }

  /// Notes the present time of the server, µs since 1970 UTC.
  mutating func note(streamTime time: Int64) { streamTime = time }

  /// Notes the timeline of the server, which may have changed.
  mutating func follow(_ timeline: UInt32) { position.timeline = timeline }

  /// Continues with a slot that is confirmed up to `confirmed`. The server must send its last transaction again, unless
  /// the slot is confirmed beyond that transaction.
  mutating func resume(confirmed: LSN) {
    expected = position.witness.flatMap { confirmed <= $0.commit ? $0 : nil }
    (received, passed) = (position.quiet, position.reached)
    self.confirmed = confirmed
  }

  /// Forgets what the server sends again after a new connection.
  mutating func disconnect() { position.knowledge = recordedKnowledge }

  // MARK: Stream

  enum Begin: Equatable {
    case isNew
    /// The trail has the transaction already.
    case isRecorded
    /// The server does not send the expected transaction at this place: it was restored from a backup.
    case isForeign(expected: LSN)
  }

  /// Takes the begin of a transaction that the server sends. Returns whether the trail has the transaction already.
  mutating func begin(_ transaction: PostgresPosition.Transaction) -> Begin {
    streamTime = max(streamTime, transaction.time)
    if let expected, transaction.commit >= expected.commit {
      guard transaction == expected else { return .isForeign(expected: expected.commit) }
      self.expected = nil
    }
    return transaction.commit < position.reached ? .isRecorded : .isNew
  }

  /// Takes the end of a transaction, at place `end` of the log.
  ///
  /// - Parameter isInTrail: Whether a part of the transaction is in the trail.
  /// - Parameter time: The time of the commit, µs.
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

  /// Notes that every transaction that committed before `end` has been processed.
  mutating func reach(_ end: LSN) { received = max(received, end) }

  // MARK: Trail

  /// Returns the position that ends a transaction of the trail.
  ///
  /// - Parameter isQuiet: Whether no transaction of the stream is open. Then everything received is passed: a
  ///   transaction that was left out because a chunk shows it must not come again after that chunk.
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

  /// Notes that the trail has the position that ``record(refresh:isQuiet:)`` returned.
  mutating func noteRecorded() {
    recordedKnowledge = position.knowledge
    unsyncedCount += 1
  }

  /// Notes that the trail is durable. Returns the time at which the source committed the last transaction that became
  /// durable, µs since 1970; nil if there is none.
  mutating func noteSynced(now: Int64) -> Int64? {
    defer { committedAt = 0 }
    unsyncedCount = 0
    syncedAt = now
    confirmed = max(confirmed, position.quiet)
    return committedAt == 0 ? nil : committedAt
  }

  var hasUnsynced: Bool { unsyncedCount > 0 }

  /// Returns whether the stream has brought transactions without a pause for so long that the trail must be synced now.
  func isSyncDue(now: Int64) -> Bool { hasUnsynced && now - syncedAt > Self.syncMilliseconds }

  /// The wait for the next message before the trail is synced, ms: none for a single commit, a moment in a stream of
  /// transactions.
  var syncDelayMilliseconds: Int32 {
    unsyncedCount > Self.unsyncedMany ? 10 : unsyncedCount > Self.unsyncedFew ? 2 : 0
  }

  /// Whether the server has sent more than the position in the trail covers.
  var hasUnrecorded: Bool { received > position.quiet }
  /// Whether the stream has passed the last transaction of the trail.
  var isBeyondTrail: Bool { received > position.reached }

  /// Returns whether a transaction with only a position is due, so that the server can forget its log.
  ///
  /// - Parameter isWanted: Whether a message or the server asks for such a transaction.
  func isRecordDue(isWanted: Bool, now: Int64) -> Bool {
    guard hasUnrecorded else { return false }
    let isFar = received.value - position.quiet.value > Self.distanceBytesMax
    return isWanted || isFar
      || now - syncedAt >= (hasUnrecordedNotes ? Self.notesMilliseconds : Self.recordMilliseconds)
  }

  private var hasUnrecordedNotes: Bool { position.knowledge != recordedKnowledge }

  /// Returns the time until applies' notes are written to the trail if nothing else arrives, ms; nil if there are none.
  func untilNotesAreRecorded(now: @autoclosure () -> Int64) -> Int32? {
    hasUnrecordedNotes ? Int32(max(1, min(1000, syncedAt + Self.notesMilliseconds - now()))) : nil
  }

  // MARK: Reports

  func isReportDue(now: Int64) -> Bool { now - reportedAt > Self.reportMilliseconds }

  /// Returns the two places to report to the server: the end of the log received, and the end of the log it may forget.
  mutating func report(now: Int64) -> (received: LSN, flushed: LSN) {
    reportedAt = now
    return (max(received, confirmed), confirmed)
  }
}

// MARK: Whether the server continues where the trail ends

extension SlotProgress {
  /// The reason why the slot cannot be used.
  enum Loss {
    case missing
    case invalidated
    case withoutPublication
    /// Another program than Cairn created a slot of this name.
    case foreign(database: String, plugin: String)
    /// The slot was confirmed up to this place, beyond the end of the trail.
    case movedOn(LSN)

    /// Whether capture may replace the slot, if every table is copied again.
    var canBeReplaced: Bool { if case .foreign = self { false } else { true } }
  }

  /// Returns how the server differs from the one of the trail: another cluster, or a timeline that left the trail's one
  /// before the trail's end. Nil if the server continues it.
  ///
  /// A timeline changes when a standby is promoted or a backup restored.
  ///
  /// - Parameter history: The place at which each earlier timeline was left.
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

  /// Returns the reason why the slot cannot be used; nil if it can be.
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
