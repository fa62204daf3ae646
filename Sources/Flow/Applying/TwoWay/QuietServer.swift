import PostgresKit

/// Detects that no application has committed since capture had passed everything: then apply need not wait for capture.
///
/// Each writing transaction has a number, so it is enough to know that all new numbers are ours.
struct QuietServer {
  private var moment: ServerMoment?
  /// Apply's own transactions that may have been open at that moment.
  private var ours: Set<UInt64> = []

  /// Returns whether only apply's own transactions have ended since the passed moment. If so, the later moment counts
  /// as passed.
  ///
  /// - Parameter own: The transaction that asks.
  mutating func isQuiet(at now: ServerMoment, own: UInt64?) -> Bool {
    guard let moment, let ended = now.ended(since: moment) else { return false }
    guard ended.allSatisfy({ $0 == own || ours.contains($0) }) else { return false }
    self.moment = now
    ours.subtract(ended)
    noteAsking(own, at: now)
    return true
  }

  /// Records that capture has passed everything that had ended at a moment, and a message after it.
  ///
  /// - Parameter own: The transaction that asked.
  mutating func pass(_ moment: ServerMoment, message: UInt64, own: UInt64?) {
    self.moment = moment
    ours = [message]
    noteAsking(own, at: moment)
  }

  /// Adds the transaction that asked to apply's own transactions, unless the snapshot counts it as ended.
  ///
  /// A snapshot does not list its own transaction as running. It counts it as ended only if a later one has ended.
  private mutating func noteAsking(_ own: UInt64?, at moment: ServerMoment) {
    if let own, own >= moment.end { ours.insert(own) }
  }

  /// Records a transaction of an apply that has no changes of an application, such as one that only notes progress.
  mutating func note(ours number: UInt64) { if moment != nil { ours.insert(number) } }

  /// Forgets the passed moment, as the server may be another one now.
  mutating func forget() { self = QuietServer() }
}
