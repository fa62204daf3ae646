import Changes
import PostgresKit

/// The transaction whose messages are arriving: what of it goes into the trail, and what follows from its messages.
/// Pure.
///
/// One call per message of the stream. A transaction is left out if the trail has it already, or if an apply made it.
struct IncomingTransaction {
  /// The settings by which transactions of applies are left out.
  struct Rules {
    let options: PostgresCapture.Options
    /// The name of the trail, `NODE.NAME`.
    let trail: String
  }

  /// A message that Cairn writes into the log, by its prefix.
  enum Message: Equatable {
    /// Everything that committed before it has arrived.
    case barrier
    /// Asks the trail to record its position.
    case progress
    case request
    /// The note of an apply.
    case note
    /// A schema change, reported by an event trigger.
    case schema
    /// A schema change in the form of an earlier build, or from any other role.
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
    /// The message may stand for a schema change that the stream does not describe.
    case readCatalog
  }

  /// The result of the end of a transaction.
  struct Outcome {
    let transaction: PostgresPosition.Transaction
    /// The time of the commit, µs since 1970.
    let commitTime: Int64
    /// The text of a barrier in it; nil if there is none.
    let barrier: String?
    /// Whether a message asks the trail to record its position.
    let wantsRecord: Bool
    let notes: [AppliedNote]
  }

  private struct Open {
    let transaction: PostgresPosition.Transaction
    /// Whether the trail has it already.
    let isRecorded: Bool
    var isLeftOut: Bool
    /// Whether only its begin and messages have been seen.
    var isFresh = true
    var barrier: String?
    /// Whether an apply made it, as its first message states.
    var isApplied = false
    /// The trail of that apply.
    var applier = ""
    /// The first note of the apply, if the rows go on into the trail.
    var relay: AppliedNote?
    /// Whether it is left out but not yet in the trail: the trail then gets its changes of tables, not of rows.
    var isNews = false
    var notes: [AppliedNote] = []
    var wantsRecord = false
    var hasReadKeys = false
    /// The tables whose rows were rewritten, each with the server's bits for the reason.
    var rewrites: [UInt32: Int] = [:]

    /// For a transaction with a replication origin the server reports the origin's time, which apply does not set. Then
    /// the time is the clock that apply noted.
    var commitTime: Int64 { relay.map { max(transaction.time, Int64(clamping: $0.clock)) } ?? transaction.time }
  }

  /// The prefix of apply's notes.
  private static let notePrefix = "cairn"
  /// The largest barrier, in bytes: Cairn writes none that is larger.
  private static let barrierBytesMax = 256

  private let rules: Rules
  private var open: Open?

  init(_ rules: Rules) { self.rules = rules }

  var isOpen: Bool { open != nil }
  var transaction: PostgresPosition.Transaction? { open?.transaction }
  var isApplied: Bool { open?.isApplied == true }
  /// The trail whose apply made the transaction; empty if none did.
  var applier: String { open?.applier ?? "" }
  /// The commit time for the trail, and the note of the apply whose rows go on; nil outside a transaction.
  var header: (commitTime: Int64, relay: AppliedNote?)? { open.map { ($0.commitTime, $0.relay) } }

  // MARK: Messages

  mutating func begin(_ transaction: PostgresPosition.Transaction, isRecorded: Bool) {
    open = Open(transaction: transaction, isRecorded: isRecorded, isLeftOut: isRecorded)
  }

  /// Takes the name of a replication origin. Cairn's apply has `cairn_OID_TRAIL`.
  mutating func origin(_ name: String) {
    guard name.hasPrefix("cairn_") else { return }
    let trail = name.split(separator: "_", maxSplits: 2, omittingEmptySubsequences: false).last
    if rules.options.leavesOut(trail.map(String.init) ?? "") { open?.isLeftOut = true }
  }

  /// Takes a change of rows. Returns whether it may go into the trail.
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

  /// Returns whether the keys are to be read again: once per transaction, because a key may be new.
  mutating func wantsKeys() -> Bool {
    guard open?.hasReadKeys == false else { return false }
    open?.hasReadKeys = true
    return true
  }

  /// Takes a message whose signature, if it needs one, is right.
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

  /// Takes the note of an apply; nil for a note that names no trail, which also comes from an apply.
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

  /// Notes that rows of a table are rewritten, with the server's bits for the reason.
  mutating func noteRewrite(of relation: UInt32, _ reason: Int) { open?.rewrites[relation, default: 0] |= reason }

  /// Returns the reasons of the rewrites of a table so far, and forgets them.
  mutating func takeRewrites(of relation: UInt32) -> Int { open?.rewrites.removeValue(forKey: relation) ?? 0 }

  /// Ends the transaction; nil if none is open.
  mutating func commit() -> Outcome? {
    guard let ended = open else { return nil }
    open = nil
    return Outcome(
      transaction: ended.transaction, commitTime: ended.commitTime, barrier: ended.barrier,
      wantsRecord: ended.wantsRecord, notes: ended.notes)
  }

  /// Forgets the open transaction: the server sends it again.
  mutating func drop() { open = nil }
}
