import PostgresKit

/// Detects that no application has committed since capture last confirmed that it has read all commits. Then apply need
/// not wait for capture.
///
/// PostgreSQL numbers each writing transaction, so it is enough to know that all new numbers are apply's own.
struct QuietServer {
  private var moment: ServerMoment?
  /// Apply's own transactions that were running at ``moment``, or that began later. At that moment, capture last
  /// confirmed that it has read all commits.
  private var ours: Set<UInt64> = []

  /// Returns whether only apply's own transactions have ended since capture last confirmed that it has read all
  /// commits. If so, `now` counts as the moment of that confirmation.
  ///
  /// - Parameter own: The number of apply's open transaction; nil: it has none.
  mutating func isQuiet(at now: ServerMoment, own: UInt64?) -> Bool {
    guard let moment, let ended = now.ended(since: moment) else { return false }
    guard ended.allSatisfy({ $0 == own || ours.contains($0) }) else { return false }
    self.moment = now
    ours.subtract(ended)
    noteAsking(own, at: now)
    return true
  }

  /// Stores that capture has read all transactions that had ended at `moment`.
  ///
  /// - Parameter message: The number of the later transaction in which apply wrote the logical message that capture has
  ///   read.
  /// - Parameter own: The number of apply's open transaction; nil: it has none.
  mutating func pass(_ moment: ServerMoment, message: UInt64, own: UInt64?) {
    self.moment = moment
    ours = [message]
    noteAsking(own, at: moment)
  }

  /// Adds apply's open transaction to ``ours``, as a PostgreSQL snapshot does not list the transaction that takes the
  /// snapshot. Does nothing if the snapshot counts this transaction as ended.
  private mutating func noteAsking(_ own: UInt64?, at moment: ServerMoment) {
    if let own, own >= moment.end { ours.insert(own) }
  }

  /// Adds a transaction of apply that has no row changes, such as one that only stores progress, to ``ours``.
  mutating func note(ours number: UInt64) { if moment != nil { ours.insert(number) } }

  /// Clears everything after a lost connection, as the server may be another one now.
  mutating func forget() { self = QuietServer() }
}
