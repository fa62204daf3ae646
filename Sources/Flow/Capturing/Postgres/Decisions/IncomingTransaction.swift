import Changes
import PostgresKit

/// The transaction whose messages are arriving from the server: which parts go into the trail, and what its messages
/// ask capture to do. It does no I/O.
///
/// One call per message of the stream. A transaction is left out if the trail has it already, or if an apply made it.
struct IncomingTransaction {
  /// The settings that decide which transactions of applies are left out of the trail.
  struct Rules {
    let options: PostgresCapture.Options
    /// The name of the trail into which the transaction goes, `NODE.NAME`.
    let trail: String
  }

  /// A message that Cairn writes into the log, by its prefix.
  enum Message: Equatable {
    /// A mark in the log: everything that committed before the mark has arrived.
    case barrier
    /// A request that the trail records the position of capture at once.
    case progress
    case request
    /// A note of an apply about the transactions that it has brought.
    case note
    /// A schema change, reported by an event trigger.
    case schema
    /// A schema change in the form of an earlier build, or a message of any role that claims to be one.
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

  /// The result of the end of an incoming transaction.
  struct Outcome {
    let transaction: PostgresPosition.Transaction
    /// The time of the transaction's commit, µs since 1970 UTC.
    let commitTime: Int64
    /// The text of a barrier in the transaction; nil if there is none.
    let barrier: String?
    /// Whether a message of the transaction asks the trail to record its position.
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
    /// The trail of the apply that made the transaction; empty if none did.
    var applier = ""
    /// The first note of the apply that made the transaction, if the rows that it wrote are to be in this trail too.
    var relay: AppliedNote?
    /// Whether a note shows that an apply made the transaction, and the trail lacks it: its schema changes are sent
    /// then.
    var isNews = false
    var notes: [AppliedNote] = []
    var wantsRecord = false
    /// The tables whose rows the transaction rewrote, each with the server's bits for the reason.
    var rewrites: [UInt32: Int] = [:]

    /// The time of the commit, µs since 1970. If an apply made the transaction, the server may report a wrong time;
    /// then the clock in the apply's note counts, if it is later.
    var commitTime: Int64 { relay.map { max(transaction.time, Int64(clamping: $0.clock)) } ?? transaction.time }
  }

  /// The prefix of the messages in the log that are notes of applies.
  private static let notePrefix = "cairn"
  /// The most bytes of a barrier's text. Cairn writes no longer ones, so a longer one is ignored.
  private static let barrierBytesMax = 256

  private let rules: Rules
  private var open: Open?

  init(_ rules: Rules) { self.rules = rules }

  var isOpen: Bool { open != nil }
  var transaction: PostgresPosition.Transaction? { open?.transaction }
  var isApplied: Bool { open?.isApplied == true }
  /// The trail whose apply made the open transaction; empty if none did.
  var applier: String { open?.applier ?? "" }
  /// The commit time of the open transaction, and the note of the apply that made it if its rows are to be in this
  /// trail too; nil if no transaction is open.
  var header: (commitTime: Int64, relay: AppliedNote?)? { open.map { ($0.commitTime, $0.relay) } }

  // MARK: Messages

  mutating func begin(_ transaction: PostgresPosition.Transaction, isRecorded: Bool) {
    open = Open(transaction: transaction, isRecorded: isRecorded, isLeftOut: isRecorded)
  }

  /// Takes the name of the transaction's replication origin. Cairn's applies use `cairn_OID_TRAIL`.
  mutating func origin(_ name: String) {
    guard name.hasPrefix("cairn_") else { return }
    let trail = name.split(separator: "_", maxSplits: 2, omittingEmptySubsequences: false).last
    if rules.options.leavesOut(trail.map(String.init) ?? "") { open?.isLeftOut = true }
  }

  /// Takes a change of rows of the open transaction. Returns whether the change may go into the trail.
  mutating func change() -> Bool {
    guard open?.isLeftOut == false else { return false }
    open?.isFresh = false
    return true
  }

  /// Returns the place of the key with which a message must be signed; nil if it needs no signature.
  ///
  /// - Parameter since: The place in the log before which builds without a key wrote notes.
  func key(of message: Message, since: LSN?) -> MessageKey.Place? {
    switch message {
    // A barrier's content is random, and only the waiting capture knows it.
    case .barrier, .earlierSchema: nil
    case .progress, .request: .own
    case .note: open.map { $0.transaction.commit < since ?? LSN(0) } == true ? nil : .own
    case .schema: .triggers
    }
  }

  /// Takes a message of Cairn, once its signature has been checked if it needs one. Returns what capture must do.
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

  /// Takes the note of an apply. Nil: a note that names no trail, which also comes from an apply.
  ///
  /// A transaction of apply begins with a note, and contains one that states what the database then holds.
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
    // The trail has recorded the notes of the transactions that it has passed.
    guard !open.isRecorded else { return }
    open.isNews = true
    if let note, note.number > 0, note.trail != rules.trail { open.notes.append(note) }
  }

  /// Notes that the open transaction rewrites rows of a table; `reason` has the server's bits.
  mutating func noteRewrite(of relation: UInt32, _ reason: Int) { open?.rewrites[relation, default: 0] |= reason }

  /// Returns the reasons, as the server's bits, for which a table was rewritten so far, and forgets them.
  mutating func takeRewrites(of relation: UInt32) -> Int { open?.rewrites.removeValue(forKey: relation) ?? 0 }

  /// Ends the open transaction and returns its outcome; nil if no transaction is open.
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
