/// A rate limit: a number of events at once, then one after each pause.
///
///     var copies = Allowance(burst: 3, refill: 60_000_000)
///     copies.take(now: 0)  // true, three times in a row
struct Allowance: Equatable, Sendable {
  private let burst: Int
  private let refill: Int64
  private var left: Int
  /// The time up to which the pauses are counted in `left`, in µs.
  private var countedAt: Int64?

  /// - Parameter refill: the pause after which it may happen once more, in µs.
  init(burst: Int, refill: Int64) { (self.burst, self.refill, left) = (burst, refill, burst) }

  /// Returns whether the event may happen now, and counts it if so. `now` is in µs; a clock that goes back allows
  /// nothing more.
  mutating func take(now: Int64) -> Bool {
    let since = max(0, now - (countedAt ?? now))
    let gained = since / refill
    left = Int(clamping: min(Int64(burst), Int64(left) + gained))
    countedAt = left == burst ? now : (countedAt ?? now) + gained * refill
    if let at = countedAt, at > now { countedAt = now }
    guard left > 0 else { return false }
    left -= 1
    return true
  }
}
