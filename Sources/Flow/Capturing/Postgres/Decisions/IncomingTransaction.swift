import Changes
import PostgresKit

/// The transaction that arrives from the server: which of its parts go into the trail, and what its messages ask of
/// capture.
struct IncomingTransaction {
  struct Rules {
    let options: PostgresCapture.Options
    let trail: String
  }

  /// The kinds of logical messages that Cairn writes into the log of the source.
  enum Message: Equatable {
    /// A message that capture itself committed. All commits before this message arrive before it.
    case barrier
    case progress
    case request
    case note
    case schema
    /// A message about a schema change in the format of an older version of Cairn. Any role can write such a message.
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
    /// Capture must read the catalog, because of a schema change that the stream perhaps does not describe.
    case readCatalog
  }

  /// The results of reading one whole transaction of the stream.
  struct Outcome {
    let transaction: PostgresPosition.Transaction
    /// The time of the transaction's commit, µs since 1970 UTC.
    let commitTime: Int64
    /// The random text of a barrier message in the transaction; nil if there is none.
    let barrier: String?
    /// Whether a message asks capture to record its position in the trail at once.
    let wantsRecord: Bool
    let notes: [AppliedNote]
  }

  private struct Open {
    let transaction: PostgresPosition.Transaction
    let isRecorded: Bool
    var isLeftOut: Bool
    var isFresh = true
    var barrier: String?
    var isApplied = false
    /// The name of the trail whose apply made the transaction; empty if no apply made it.
    var applier = ""
    /// The applied note of the apply that made the transaction. Nil if no apply made it, or if the transaction's rows
    /// do not go into this trail.
    var relay: AppliedNote?
    /// Whether an apply made the transaction, and the trail does not have it yet.
    var isNews = false
    var notes: [AppliedNote] = []
    var wantsRecord = false
    /// The tables whose rows the transaction rewrote, and whose shape has not followed, with ``doubts`` at that time.
    var rewrites: [UInt32: (rewrite: TableRewrite, doubts: Int)] = [:]
    /// The number of messages after which an earlier rewrite may be one of another command.
    var doubts = 0
    /// The partitioned tables that got a new partition in the transaction, with the rows written since then.
    var grown: [UInt32: WrittenKeys] = [:]
    /// The memory that the keys in ``grown`` take, in bytes.
    var keyBytes = 0

    /// The time of the commit, µs since 1970. If an apply made the transaction and its rows go into this trail, at
    /// least the clock in its applied note.
    var commitTime: Int64 { relay.map { max(transaction.time, Int64(clamping: $0.clock)) } ?? transaction.time }
  }

  private static let notePrefix = "cairn"
  /// The highest accepted length of a barrier's text, in bytes.
  private static let barrierBytesMax = 256

  private let rules: Rules
  private var open: Open?

  init(_ rules: Rules) { self.rules = rules }

  var isOpen: Bool { open != nil }
  var transaction: PostgresPosition.Transaction? { open?.transaction }
  var isApplied: Bool { open?.isApplied == true }
  var applier: String { open?.applier ?? "" }
  /// The commit time of the open transaction; nil if no transaction is open. `relay`: the applied note of the apply
  /// that made the transaction, if the transaction's rows go into this trail.
  var header: (commitTime: Int64, relay: AppliedNote?)? { open.map { ($0.commitTime, $0.relay) } }

  // MARK: Messages

  mutating func begin(_ transaction: PostgresPosition.Transaction, isRecorded: Bool) {
    open = Open(transaction: transaction, isRecorded: isRecorded, isLeftOut: isRecorded)
  }

  /// Processes the name of the transaction's replication origin, which is `cairn_OID_TRAIL` if an apply made the
  /// transaction. Leaves the transaction out if the options leave out that trail.
  mutating func origin(_ name: String) {
    guard name.hasPrefix("cairn_") else { return }
    let trail = name.split(separator: "_", maxSplits: 2, omittingEmptySubsequences: false).last
    if rules.options.leavesOut(trail.map(String.init) ?? "") { open?.isLeftOut = true }
  }

  mutating func change() -> Bool {
    guard open?.isLeftOut == false else { return false }
    open?.isFresh = false
    return true
  }

  /// Returns the key that must sign a message; nil if the message needs no signature.
  ///
  /// - Parameter since: The LSN before which older builds of Cairn wrote applied notes without a signature.
  func key(of message: Message, since: LSN?) -> MessageKey.Place? {
    switch message {
    // A barrier's content is random, and only the waiting capture knows it.
    case .barrier, .earlierSchema: nil
    case .progress, .request: .own
    case .note: open.map { $0.transaction.commit < since ?? LSN(0) } == true ? nil : .own
    case .schema: .triggers
    }
  }

  /// Processes a message of Cairn whose signature is valid or not needed, and returns what capture must do.
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

  /// Processes an applied note, which shows that an apply made the open transaction. If the options leave out that
  /// apply's trail, the transaction stays out of this trail, unless its rows are relayed.
  ///
  /// - Parameter given: Nil if the note names no trail.
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

  // MARK: Unreported changes of rows

  mutating func noteRewrite(of relation: UInt32, _ rewrite: TableRewrite) {
    guard let open else { return }
    self.open?.rewrites[relation] = (rewrite.after(open.rewrites[relation]?.rewrite), open.doubts)
  }

  /// Processes the shape of a table: returns and removes the rewrite of this table. The rewrites of other tables may
  /// be those of an earlier command.
  mutating func takeRewrite(of relation: UInt32) -> TableRewrite? {
    let found = open?.rewrites.removeValue(forKey: relation)
    defer { doubtRewrites() }
    return found.map { $0.doubts == open?.doubts ? $0.rewrite : $0.rewrite.doubted }
  }

  mutating func doubtRewrites() { open?.doubts += 1 }

  mutating func notePartition(of relation: UInt32) {
    if open?.grown[relation] == nil { open?.grown[relation] = WrittenKeys() }
  }

  /// Whether the open transaction created a partition of the table.
  func hasNewPartition(of relation: UInt32) -> Bool { open?.grown[relation] != nil }

  /// - Parameter key: The key of a row that the open transaction wrote; nil if it is not known.
  mutating func noteWrite(of relation: UInt32, key: [String]?) {
    guard let taken = open?.keyBytes, var keys = open?.grown[relation] else { return }
    let before = keys.bytes
    open?.grown[relation] = nil
    keys.add(key, room: PostgresRequests.keyBytesMax - taken)
    open?.keyBytes = taken + keys.bytes - before
    open?.grown[relation] = keys
  }

  /// The tables whose rows the open transaction may have changed without a record in the stream.
  var unreported: [UnreportedRows] {
    guard let open, !open.isApplied else { return [] }
    let rewritten = Set(open.rewrites.filter(\.value.rewrite.mayAlterRows).keys)
    let grown = open.grown.filter { !$0.value.isEmpty && !rewritten.contains($0.key) }
    let tables: [UnreportedRows] = rewritten.sorted().map { .table($0) }
    return tables
      + grown.sorted { $0.key < $1.key }.map { relation, keys in
        keys.all.map { .rows(relation, $0) } ?? .table(relation)
      }
  }

  mutating func commit() -> Outcome? {
    guard let ended = open else { return nil }
    open = nil
    return Outcome(
      transaction: ended.transaction, commitTime: ended.commitTime, barrier: ended.barrier,
      wantsRecord: ended.wantsRecord, notes: ended.notes)
  }

  mutating func drop() { open = nil }
}
