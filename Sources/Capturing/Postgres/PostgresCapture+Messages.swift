import Changes
import CodecKit
import PostgresKit
import SystemKit

// Logical messages. Every role may write them into the log, so a message counts only if it has a code of
// ``MessageKey``.
extension PostgresCapture {
  /// The prefix of apply's notes.
  private static let notePrefix = "cairn"
  private static let refusalMilliseconds: Int64 = 60_000
  /// The largest barrier, in bytes: Cairn writes none that is larger.
  private static let barrierBytesMax = 256

  /// The keys of the database that this role may read.
  struct MessageKeys {
    let hasher: SHA256
    var own: MessageKey?
    var triggers: MessageKey?

    init() throws { hasher = try SHA256() }

    subscript(place: MessageKey.Place) -> MessageKey? {
      get { place == .own ? own : triggers }
      set { if place == .own { own = newValue } else { triggers = newValue } }
    }
  }

  /// Reads the keys. A schema with an object of an untrusted role has no valid key.
  func readKeys() throws {
    for place in [MessageKey.Place.own, .triggers] { try readKey(place) }
  }

  private func readKey(_ place: MessageKey.Place) throws {
    let isOurs = try OwnSchema.foreign(place.rawValue, source.connection) == nil
    keys[place] = isOurs ? try MessageKey.read(place, source.connection) : nil
  }

  /// Takes a transactional message. A message that Cairn did not write changes nothing: its transaction is captured
  /// like any other.
  func take(_ prefix: String, _ content: UnsafeRawBufferPointer) throws {
    switch prefix {
    case Self.barrierPrefix:
      // Its content is random, and only the waiting capture knows it.
      guard content.count <= Self.barrierBytesMax else { return }
      incoming?.barrier = String(decoding: content, as: UTF8.self)
    case Self.progressPrefix:
      if try authentic(content, prefix, .own) != nil { incoming?.wantsProgress = true }
    case PostgresRequests.prefix:
      if let known = try authentic(content, prefix, .own), incoming?.isSkipped == false { try takeRequest(known) }
    case Self.notePrefix:
      if let incoming, incoming.transaction.commit < keys.own?.since ?? LSN(0) { return takeNote(content) }
      if let known = try authentic(content, prefix, .own) { takeNote(known) }
    case SchemaTriggers.prefix:
      guard let known = try authentic(content, prefix, .triggers), let incoming,
        incoming.isSkipped ? incoming.isNews : true
      else { return }
      if !incoming.isSkipped { self.incoming?.isFresh = false }
      try take(SchemaMessage(known))
    case SchemaTriggers.earlierPrefix:
      // A function of an earlier build wrote it, without a code, or any other role. Capture looks at the catalog
      // instead.
      look.isWanted = true
    default: break
    }
  }

  /// Returns the content of a message that Cairn wrote in this same transaction; nil for any other message, which is
  /// counted and logged.
  private func authentic(
    _ message: UnsafeRawBufferPointer, _ prefix: String, _ place: MessageKey.Place
  ) throws -> UnsafeRawBufferPointer? {
    guard let transaction = incoming?.transaction else { return nil }
    func content() -> UnsafeRawBufferPointer? {
      keys[place]?.content(of: message, prefix: prefix, transaction: transaction.xid, keys.hasher)
    }
    if let known = content() { return known }
    // The key may be new. One look per transaction is enough.
    if incoming?.hasReadKeys == false {
      incoming?.hasReadKeys = true
      try readKeys()
      if let known = content() { return known }
    }
    if place == .triggers { look.isWanted = true }
    refuseMessage(prefix, transaction)
    return nil
  }

  private func refuseMessage(_ prefix: String, _ transaction: PostgresPosition.Transaction) {
    progress.update { $0.refusedMessages += 1 }
    let now = Clock.monotonicMilliseconds
    guard now >= refusalTellAt else { return }
    refusalTellAt = now + Self.refusalMilliseconds
    progress.tell(
      """
      transaction \(transaction.xid) at \(transaction.commit) has a message with prefix '\(prefix)' that Cairn did not \
      write: the message is ignored, the transaction is captured (\(progress.snapshot.refusedMessages) such messages so \
      far); look for roles that call pg_logical_emit_message, and for a cairn of an earlier version
      """)
  }

  /// Takes a note of apply. A transaction of apply begins with such a message, and contains one that states what the
  /// database then holds.
  private func takeNote(_ content: UnsafeRawBufferPointer) {
    guard let incoming, incoming.isFresh || incoming.isApplied else { return }
    var note = AppliedNote(String(decoding: content, as: UTF8.self))
    // A note that names no trail also comes from an apply.
    if let note, !leavesOut(note.trail) { return }
    // For a transaction with a replication origin, the server does not report the time of the commit.
    note?.bound(
      now: max(incoming.transaction.time, clock.microseconds()), skewMicrosecondsMax: options.skewMicrosecondsMax)
    let isRelayed = options.relays && (note?.origin != nil || incoming.relay != nil)
    self.incoming?.isSkipped = !isRelayed || incoming.transaction.commit < position.reached
    self.incoming?.isApplied = true
    if isRelayed, incoming.relay == nil { self.incoming?.relay = note }
    if let note { self.incoming?.applier = note.trail }
    // The trail has recorded the notes of the transactions that it has passed.
    guard incoming.transaction.commit >= position.reached else { return }
    self.incoming?.isNews = true
    guard let note, note.number > 0, note.trail != trail.name.description
    else { return }
    self.incoming?.notes.append(note)
  }
}
