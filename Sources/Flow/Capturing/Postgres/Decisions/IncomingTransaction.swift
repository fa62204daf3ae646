import Changes
import PostgresKit

/// The transaction whose messages are arriving from the server: which parts go into the trail, and what its messages
/// ask capture to do. This type does no I/O.
///
/// The caller passes each message of the stream. A transaction is left out of the trail if the trail has it already.
/// ``Rules`` decide whether a transaction that an apply made is left out too.
struct IncomingTransaction {
  /// The settings that decide which transactions of apply workers go into the trail.
  struct Rules {
    let options: PostgresCapture.Options
    /// The name of the trail into which the transaction goes, `NODE.NAME`.
    let trail: String
  }

  /// The kinds of logical messages that Cairn writes into the server's write-ahead log. The prefix of a message shows
  /// its kind.
  enum Message: Equatable {
    /// A message with a random text that capture committed itself. When the stream brings it, all earlier commits have
    /// arrived.
    case barrier
    /// A request to record the position of capture in the trail at once.
    case progress
    case request
    /// An applied note, which an apply writes in its own transaction. It names the apply's trail.
    case note
    /// A schema change, reported by an event trigger.
    case schema
    /// A schema change in the form of an earlier build. Any role can write such a message.
    case earlierSchema

    init?(prefix: String) {
      switch prefix {
      case PostgresCapture.barrierPrefix: self = .barrier
      case PostgresCapture.progressPrefix: self = .progress
      case PostgresRequests.prefix: self = .request
      case IncomingTransaction.notePrefix: self = .note
      case SchemaTriggers.prefix: self = .schema
      case SchemaTriggers.earlierPrefix: self = .earlierSchema
      default: return nil
      }
    }
  }

  enum Action: Equatable {
    case nothing
    case takeRequest
    case changeSchema
    /// Capture must read the catalog: the message may report a schema change that the stream does not describe.
    case readCatalog
  }

  /// The results of reading one whole transaction of the stream.
  struct Outcome {
    let transaction: PostgresPosition.Transaction
    /// The time of the transaction's commit, µs since 1970 UTC.
    let commitTime: Int64
    /// The random text of a barrier message in the transaction (``Message/barrier``); nil if there is none.
    let barrier: String?
    /// Whether a message of the transaction requests that capture record its position in the trail at once.
    let wantsRecord: Bool
    let notes: [AppliedNote]
  }

  private struct Open {
    let transaction: PostgresPosition.Transaction
    /// Whether the trail has the transaction already.
    let isRecorded: Bool
    var isLeftOut: Bool
    /// Whether only the transaction's begin and messages have been seen, no change of rows.
    var isFresh = true
    var barrier: String?
    /// Whether an apply made the transaction, as its first message states.
    var isApplied = false
    /// The name of the trail whose apply made the transaction; empty if no apply made it.
    var applier = ""
    /// The applied note of the apply that made the transaction. Nil if no apply made it, or if this trail does not need
    /// the rows that the apply wrote.
    var relay: AppliedNote?
    /// Whether an apply made the transaction, and the trail does not have the transaction yet. If so, its schema
    /// changes go into the trail.
    var isNews = false
    var notes: [AppliedNote] = []
    var wantsRecord = false
    /// The tables whose rows the transaction rewrote, each with the reasons as bits of
    /// `pg_event_trigger_table_rewrite_reason()`.
    var rewrites: [UInt32: Int] = [:]

    /// The time of the commit, µs since 1970. If an apply made the transaction: the later of the server's time, which
    /// may be wrong, and the clock in the applied note.
    var commitTime: Int64 { relay.map { max(transaction.time, Int64(clamping: $0.clock)) } ?? transaction.time }
  }

  /// The prefix of applied notes in PostgreSQL's write-ahead log.
  private static let notePrefix = "cairn"
  /// The most bytes of a barrier's text (``Message/barrier``) that are accepted. Cairn writes shorter texts only.
  private static let barrierBytesMax = 256

  private let rules: Rules
  private var open: Open?

  init(_ rules: Rules) { self.rules = rules }

  var isOpen: Bool { open != nil }
  var transaction: PostgresPosition.Transaction? { open?.transaction }
  var isApplied: Bool { open?.isApplied == true }
  /// The name of the trail whose apply made the open transaction; empty if no apply made it.
  var applier: String { open?.applier ?? "" }
  /// The commit time of the open transaction, and the applied note of the apply that made it. The note is nil if no
  /// apply made the transaction, or if the apply's rows do not go into this trail. The result is nil if no transaction
  /// is open.
  var header: (commitTime: Int64, relay: AppliedNote?)? { open.map { ($0.commitTime, $0.relay) } }

  // MARK: Messages

  mutating func begin(_ transaction: PostgresPosition.Transaction, isRecorded: Bool) {
    open = Open(transaction: transaction, isRecorded: isRecorded, isLeftOut: isRecorded)
  }

  /// Processes the name of the transaction's replication origin. The origin of a transaction of apply is
  /// `cairn_OID_TRAIL`.
  mutating func origin(_ name: String) {
    guard name.hasPrefix("cairn_") else { return }
    let trail = name.split(separator: "_", maxSplits: 2, omittingEmptySubsequences: false).last
    if rules.options.leavesOut(trail.map(String.init) ?? "") { open?.isLeftOut = true }
  }

  /// Registers a change of rows in the open transaction. Returns whether the change may go into the trail.
  mutating func change() -> Bool {
    guard open?.isLeftOut == false else { return false }
    open?.isFresh = false
    return true
  }

  /// Returns the key with which a message must be signed; nil if the message needs no signature.
  ///
  /// - Parameter since: The place in the log before which earlier builds of Cairn wrote applied notes without a
  ///   signature.
  func key(of message: Message, since: LSN?) -> MessageKey.Place? {
    switch message {
    // A barrier's content is random, and only the waiting capture knows it.
    case .barrier, .earlierSchema: nil
    case .progress, .request: .own
    case .note: open.map { $0.transaction.commit < since ?? LSN(0) } == true ? nil : .own
    case .schema: .triggers
    }
  }

  /// Processes a message of Cairn, after its signature has been checked if it needs one. Returns what capture must do.
  ///
  /// - Parameter now: The time, µs since 1970.
  mutating func take(_ message: Message, _ content: UnsafeRawBufferPointer, now: Int64) -> Action {
    guard let open else { return .nothing }
    switch message {
    case .barrier:
      if content.count <= Self.barrierBytesMax { self.open?.barrier = String(decoding: content, as: UTF8.self) }
    case .progress: self.open?.wantsRecord = true
    case .request: return open.isLeftOut ? .nothing : .takeRequest
    case .note: take(note: AppliedNote(String(decoding: content, as: UTF8.self)), now: now)
    case .schema:
      guard open.isLeftOut ? open.isNews : true else { return .nothing }
      if !open.isLeftOut { self.open?.isFresh = false }
      return .changeSchema
    case .earlierSchema: return .readCatalog
    }
    return .nothing
  }

  /// Processes an applied note, which shows that an apply made the open transaction. `given` is nil if the note names
  /// no trail.
  ///
  /// An apply begins each of its transactions with a note. One note of the transaction names the last transaction of
  /// the apply's trail that the database then contains.
  private mutating func take(note given: AppliedNote?, now: Int64) {
    guard var open, open.isFresh || open.isApplied else { return }
    var note = given
    if let note, !rules.options.leavesOut(note.trail) { return }
    defer { self.open = open }
    note?.bound(now: max(open.transaction.time, now), skewMicrosecondsMax: rules.options.skewMicrosecondsMax)
    let isRelayed = rules.options.relays && (note?.origin != nil || open.relay != nil)
    open.isLeftOut = !isRelayed || open.isRecorded
    open.isApplied = true
    if isRelayed, open.relay == nil { open.relay = note }
    if let note { open.applier = note.trail }
    // The trail already has the notes in transactions that it has recorded.
    guard !open.isRecorded else { return }
    open.isNews = true
    if let note, note.number > 0, note.trail != rules.trail { open.notes.append(note) }
  }

  /// Remembers that the open transaction rewrites rows of a table. `reason` has bits of
  /// `pg_event_trigger_table_rewrite_reason()`.
  mutating func noteRewrite(of relation: UInt32, _ reason: Int) { open?.rewrites[relation, default: 0] |= reason }

  /// Returns the reasons for which the open transaction has rewritten a table so far, and forgets them. They are bits
  /// of `pg_event_trigger_table_rewrite_reason()`.
  mutating func takeRewrites(of relation: UInt32) -> Int { open?.rewrites.removeValue(forKey: relation) ?? 0 }

  /// Ends the open transaction and returns the facts about it; nil if no transaction is open.
  mutating func commit() -> Outcome? {
    guard let ended = open else { return nil }
    open = nil
    return Outcome(
      transaction: ended.transaction, commitTime: ended.commitTime, barrier: ended.barrier,
      wantsRecord: ended.wantsRecord, notes: ended.notes)
  }

  /// Forgets the open transaction, because the server will send it again.
  mutating func drop() { open = nil }
}
