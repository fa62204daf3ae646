import PostgresKit

/// Tells two-way apply when no program has committed anything since capture had passed all there was: then there is
/// nothing to wait for. Whoever writes has a transaction number, so it is enough that all new ones are known to be ours.
struct QuietServer {
  private var moment: ServerMoment?
  /// Transactions of ours that may not have ended at that moment.
  private var ours: Set<UInt64> = []

  /// Whether that is so at a later moment, which then counts as passed. `own`: of the transaction that asks.
  mutating func isQuiet(at now: ServerMoment, own: UInt64?) -> Bool {
    guard let moment, let ended = now.ended(since: moment) else { return false }
    guard ended.allSatisfy({ $0 == own || ours.contains($0) }) else { return false }
    self.moment = now
    ours.subtract(ended)
    noteAsking(own, at: now)
    return true
  }

  /// Capture has passed all that had ended at a moment, and a message behind it. `own`: of the transaction that asked.
  mutating func pass(_ moment: ServerMoment, message: UInt64, own: UInt64?) {
    self.moment = moment
    ours = [message]
    noteAsking(own, at: moment)
  }

  /// A transaction is not among those that run in its own snapshot, and counts as ended there only where a later one has.
  private mutating func noteAsking(_ own: UInt64?, at moment: ServerMoment) {
    if let own, own >= moment.end { ours.insert(own) }
  }

  /// An apply has written something that programs do not see as a change of theirs.
  mutating func note(ours number: UInt64) { if moment != nil { ours.insert(number) } }

  /// It may be another server now.
  mutating func forget() { self = QuietServer() }
}
