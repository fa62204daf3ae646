import PostgresKit

/// Detects that no application has committed since capture last confirmed that it has read everything. Then apply need
/// not wait for capture.
///
/// PostgreSQL numbers each writing transaction, so it is enough to know that all new numbers are apply's own.
struct QuietServer {
  private var moment: ServerMoment?
  /// Apply's own transactions that were still running at capture's last confirmation (``moment``), or that began later.
  private var ours: Set<UInt64> = []

  /// Returns whether only apply's own transactions have ended since the last confirmation. If so, `now` replaces the
  /// moment of that confirmation.
  ///
  /// - Parameter own: The number of apply's transaction that calls this.
  mutating func isQuiet(at now: ServerMoment, own: UInt64?) -> Bool {
    guard let moment, let ended = now.ended(since: moment) else { return false }
    guard ended.allSatisfy({ $0 == own || ours.contains($0) }) else { return false }
    self.moment = now
    ours.subtract(ended)
    noteAsking(own, at: now)
    return true
  }

  /// Stores capture's confirmation that it has read all transactions that had ended at a moment, and apply's later
  /// message.
  ///
  /// - Parameter message: The number of apply's transaction that wrote the message.
  /// - Parameter own: The number of apply's transaction that calls this.
  mutating func pass(_ moment: ServerMoment, message: UInt64, own: UInt64?) {
    self.moment = moment
    ours = [message]
    noteAsking(own, at: moment)
  }

  /// Adds the calling transaction to ``ours``, unless the snapshot already counts it as ended.
  ///
  /// A PostgreSQL snapshot never lists its own transaction as running. It counts that transaction as ended only if a
  /// later one has ended.
  private mutating func noteAsking(_ own: UInt64?, at moment: ServerMoment) {
    if let own, own >= moment.end { ours.insert(own) }
  }

  /// Adds a transaction of apply that has no row changes, such as one that only stores progress, to ``ours``.
  mutating func note(ours number: UInt64) { if moment != nil { ours.insert(number) } }

  /// Clears everything after a lost connection, as the server may be another one now.
  mutating func forget() { self = QuietServer() }
}
