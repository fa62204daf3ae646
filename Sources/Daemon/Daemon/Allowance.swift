import Changes

/// A rate limit: `burst` events at once, and then one more event for each `refill` µs that has passed.
///
///     var copies = Allowance(burst: 3, refill: 60_000_000)
///     copies.take(now: 0)  // true in the first three calls, then false
struct Allowance: Equatable, Sendable {
  private let burst: Int
  private let refill: Int64
  private var left: Int
  // The time, in µs, up to which refills are in `left`; nil before the first event.
  private var countedAt: Int64?

  /// Creates a rate limit that allows `burst` events at once.
  ///
  /// - Parameter refill: The time in µs after which one more event is allowed.
  init(burst: Int, refill: Int64) { (self.burst, self.refill, left) = (burst, refill, burst) }

  /// Returns whether the event may happen now, and counts it if so.
  ///
  /// - Parameter now: The time in µs.
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

  /// Returns whether `burst` events are allowed at the time `now`, in µs, as in a new rate limit.
  func isFull(now: Int64) -> Bool {
    guard let countedAt else { return true }
    return Int64(left) + max(0, now - countedAt) / refill >= Int64(burst)
  }
}

/// A rate limit for each of many clients, in bounded memory.
struct Allowances: Sendable {
  static let most = 4096

  private let fresh: Allowance
  private var known: [NameKey: Allowance] = [:]

  init(burst: Int, refill: Int64) { fresh = Allowance(burst: burst, refill: refill) }

  var count: Int { known.count }

  /// Returns whether an event of the client `asker` may happen at the time `now`, in µs, and counts it if so. A new
  /// client is refused while 4096 other clients have used some of their limit.
  mutating func take(_ asker: String, now: Int64) -> Bool {
    if known[asker] == nil, known.count >= Self.most {
      known = known.filter { !$0.value.isFull(now: now) }
      guard known.count < Self.most else { return false }
    }
    return known[asker, default: fresh].take(now: now)
  }
}
