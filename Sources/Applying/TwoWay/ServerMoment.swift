/// Which transactions of a PostgreSQL server had ended at a moment: `pg_current_snapshot()`.
struct ServerMoment: Equatable {
  private static let newMax: UInt64 = 10_000
  /// The first that had not begun.
  fileprivate let end: UInt64
  private let running: Set<UInt64>

  /// As the server prints it: `10:20:10,14`.
  init?(_ text: String) {
    let parts = text.split(separator: ":", omittingEmptySubsequences: false)
    guard parts.count == 3, let end = UInt64(parts[1]) else { return nil }
    let running = parts[2].split(separator: ",").compactMap { UInt64($0) }
    guard running.count == parts[2].split(separator: ",").count else { return nil }
    (self.end, self.running) = (end, Set(running))
  }

  /// Those that have ended since an earlier moment; nil where they are too many to be told, or it was no earlier one.
  func ended(since earlier: ServerMoment) -> [UInt64]? {
    guard end >= earlier.end, end - earlier.end < Self.newMax else { return nil }
    return (earlier.running.sorted() + Array(earlier.end..<end)).filter { !running.contains($0) }
  }
}

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
