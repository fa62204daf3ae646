import Changes
import PostgresKit

/// The progress of a capture through the log of its slot: what the server sent, what the trail has, and what the server
/// may delete. This type does no I/O.
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
  /// The most bytes of processed log that the server may keep for the slot. If it keeps more, capture writes its
  /// position to the trail, so that the slot can be confirmed.
  private static let distanceBytesMax: UInt64 = 16 << 20
  /// The longest time until capture writes its position to the trail again while the server sends log, ms.
  private static let recordMilliseconds: Int64 = 10_000
  /// The least time between two transactions of the trail that contain only applied notes, ms.
  private static let notesMilliseconds: Int64 = 1000
  /// The longest time between two syncs of the trail while transactions arrive without a pause, ms.
  private static let syncMilliseconds: Int64 = 50
  private static let reportMilliseconds: Int64 = 5000
  /// The number of unsynced transactions above which a sync waits 2 ms for more transactions. Above ``unsyncedMany``,
  /// it waits 10 ms.
  private static let unsyncedFew = 16
  private static let unsyncedMany = 128

  /// Capture's position in the source, as it is recorded in the trail but without the state of a running copy.
  private(set) var position: PostgresPosition
  /// The transactions of other trails that the source contains, as recorded in the last transaction of this trail.
  private var recordedKnowledge: Knowledge
  /// The place in the server's log before which every committed transaction has been processed.
  private(set) var received = LSN(0)
  /// The place in the server's log after the last transaction that the server sent.
  private var passed = LSN(0)
  private(set) var confirmed = LSN(0)
  /// A transaction that the server must send again before any newer one. If the server sends another one instead, its
  /// history is not that of the trail. Nil if the transaction has come, or need not come.
  private var expected: PostgresPosition.Transaction?
  /// The latest commit time in the stream, µs since 1970; at the start, the server's time. It is the clock of
  /// transactions that capture itself adds to the trail, because the present time could be later than the next commits.
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

  /// Adds the ids of trails to `position.knowledge`: an earlier version of Cairn stored it without these ids.
  mutating func nameKnowledge(by notes: [AppliedNote]) {
    position.knowledge.name(by: notes)
    recordedKnowledge = position.knowledge
  }

  /// Sets the position to the start of a new slot.
  ///
  /// - Parameter notes: For each trail that is applied to the source: the last transaction that was applied before the
  ///   slot's start.
  mutating func begin(at start: LSN, system: UInt64, timeline: UInt32, notes: [AppliedNote]) {
    let knowledge = position.knowledge
    position = PostgresPosition(system: system, timeline: timeline, reached: start)
    position.knowledge = knowledge
    note(notes)
    (received, passed) = (start, start)
  }

  /// Sets the present time of the server, µs since 1970 UTC.
  mutating func note(streamTime time: Int64) { streamTime = time }

  /// Sets the timeline of the server, which may have changed.
  mutating func follow(_ timeline: UInt32) { position.timeline = timeline }

  /// Continues with a slot that is confirmed up to `confirmed`. The server must first send the last transaction of the
  /// previous connection again, unless the slot is confirmed beyond that transaction.
  mutating func resume(confirmed: LSN) {
    expected = position.witness.flatMap { confirmed <= $0.commit ? $0 : nil }
    (received, passed) = (position.quiet, position.reached)
    self.confirmed = confirmed
  }

  /// Resets the list of other trails' transactions in the source to the recorded one, because the server sends all
  /// later transactions again.
  mutating func disconnect() { position.knowledge = recordedKnowledge }

  // MARK: Stream

  enum Begin: Equatable {
    case isNew
    /// The trail has the transaction already.
    case isRecorded
    /// The server sends another transaction instead of the expected one, at the place of the expected one in the log or
    /// after it. So the server was restored from a backup.
    case isForeign(expected: LSN)
  }

  /// Processes the begin of a transaction that the server sends. Returns whether the transaction is new, in the trail
  /// already, or of a server with another history.
  mutating func begin(_ transaction: PostgresPosition.Transaction) -> Begin {
    streamTime = max(streamTime, transaction.time)
    if let expected, transaction.commit >= expected.commit {
      guard transaction == expected else { return .isForeign(expected: expected.commit) }
      self.expected = nil
    }
    return transaction.commit < position.reached ? .isRecorded : .isNew
  }

  /// Processes the end of a transaction, at place `end` of the log.
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

  /// Stores that every transaction that committed before `end` has been processed.
  mutating func reach(_ end: LSN) { received = max(received, end) }

  // MARK: Trail

  /// Returns the position of capture, to be written at the end of a transaction of the trail.
  ///
  /// - Parameter refresh: The state of the running copy; nil if there is none.
  /// - Parameter isQuiet: Whether no transaction of the stream is open. If so, the position includes everything
  ///   received. A restart then does not capture transactions that were left out because a chunk shows them.
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

  /// Stores that the position which ``record(refresh:isQuiet:)`` returned has been written to the trail.
  mutating func noteRecorded() {
    recordedKnowledge = position.knowledge
    unsyncedCount += 1
  }

  /// Stores that the trail is durable now. Returns the commit time at the source of the last transaction that became
  /// durable, µs since 1970; nil if there is none.
  mutating func noteSynced(now: Int64) -> Int64? {
    defer { committedAt = 0 }
    unsyncedCount = 0
    syncedAt = now
    confirmed = max(confirmed, position.quiet)
    return committedAt == 0 ? nil : committedAt
  }

  var hasUnsynced: Bool { unsyncedCount > 0 }

  /// Returns whether transactions have arrived without a pause for so long that the trail must be synced now.
  func isSyncDue(now: Int64) -> Bool { hasUnsynced && now - syncedAt > Self.syncMilliseconds }

  /// The time to wait for another message before the trail is synced, ms. It is 0 after a single commit, and a few ms
  /// if many transactions arrive.
  var syncDelayMilliseconds: Int32 {
    unsyncedCount > Self.unsyncedMany ? 10 : unsyncedCount > Self.unsyncedFew ? 2 : 0
  }

  /// Whether the server has sent log that the position in the trail does not include yet.
  var hasUnrecorded: Bool { received > position.quiet }
  /// Whether the server has sent log that is after the last transaction of the trail.
  var isBeyondTrail: Bool { received > position.reached }

  /// Returns whether capture must now write a transaction with only its position, so that the server can delete its
  /// log.
  ///
  /// - Parameter isWanted: Whether a message or the server requests such a transaction.
  func isRecordDue(isWanted: Bool, now: Int64) -> Bool {
    guard hasUnrecorded else { return false }
    let isFar = received.value - position.quiet.value > Self.distanceBytesMax
    return isWanted || isFar
      || now - syncedAt >= (hasUnrecordedNotes ? Self.notesMilliseconds : Self.recordMilliseconds)
  }

  private var hasUnrecordedNotes: Bool { position.knowledge != recordedKnowledge }

  /// Returns the time to wait, if nothing else arrives, until pending applied notes are written to the trail, ms. Nil
  /// if no notes are pending.
  func untilNotesAreRecorded(now: @autoclosure () -> Int64) -> Int32? {
    hasUnrecordedNotes ? Int32(max(1, min(1000, syncedAt + Self.notesMilliseconds - now()))) : nil
  }

  // MARK: Reports

  func isReportDue(now: Int64) -> Bool { now - reportedAt > Self.reportMilliseconds }

  /// Returns the two places to report to the server: the end of the log received, and the end of the log it may delete.
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
    /// The slot was not created by Cairn for this database: it has another plugin or database.
    case foreign(database: String, plugin: String)
    /// The slot has been confirmed up to this place, which is after the end of the trail.
    case movedOn(LSN)

    /// Whether capture may replace the slot, if every table is copied again.
    var canBeReplaced: Bool { if case .foreign = self { false } else { true } }
  }

  /// Returns how the server's history differs from the trail's; nil if it does not differ. The server may belong to
  /// another cluster. Or its timeline may have left the trail's timeline before the trail's end.
  ///
  /// A timeline changes when a standby is promoted or a backup restored.
  ///
  /// - Parameter history: For each earlier timeline of the server, the place in the log at which the server left it.
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

  /// Returns the reason why the slot cannot be used; nil if it can be used.
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
