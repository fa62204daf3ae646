import PostgresKit

/// Detects that only apply has committed since capture last confirmed that it has read all commits.
///
/// PostgreSQL gives each writing transaction a number. If all new numbers are those of apply, no application has
/// written.
struct QuietServer {
  private var moment: ServerMoment?
  /// The numbers of apply's own transactions that may end after capture's last confirmation.
  private var ours: Set<UInt64> = []

  /// Returns whether only apply's own transactions have ended since capture last confirmed that it has read all
  /// commits.
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
  /// - Parameter message: The transaction that wrote the logical message which capture has read.
  /// - Parameter own: The number of apply's open transaction; nil: it has none.
  mutating func pass(_ moment: ServerMoment, message: UInt64, own: UInt64?) {
    self.moment = moment
    ours = [message]
    noteAsking(own, at: moment)
  }

  /// Adds apply's open transaction to the list of apply's own ones if the snapshot `moment` does not cover it.
  private mutating func noteAsking(_ own: UInt64?, at moment: ServerMoment) {
    if let own, own >= moment.end { ours.insert(own) }
  }

  /// Adds a transaction that changes no rows to the list of apply's own ones. Does nothing while there is no
  /// confirmation of capture.
  mutating func note(ours number: UInt64) { if moment != nil { ours.insert(number) } }

  mutating func forget() { self = QuietServer() }
}
