import Changes

/// A rate limit: an event may happen a number of times at once, and then once after each pause.
///
///     var copies = Allowance(burst: 3, refill: 60_000_000)
///     copies.take(now: 0)  // true, three times in a row
struct Allowance: Equatable, Sendable {
  private let burst: Int
  private let refill: Int64
  private var left: Int
  /// The time, in µs, up to which refills have been added to `left`; nil before the first event.
  private var countedAt: Int64?

  /// Creates a full allowance: `burst` events may happen at once.
  ///
  /// - Parameter refill: The pause after which one more event may happen, in µs.
  init(burst: Int, refill: Int64) { (self.burst, self.refill, left) = (burst, refill, burst) }

  /// Returns whether the event may happen now, and counts it if so. If the clock was set back, no refill is added.
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

  /// Returns whether `burst` events are allowed again at `now`. Such an allowance is equal to a new one, so it need
  /// not be kept.
  func isFull(now: Int64) -> Bool {
    guard let countedAt else { return true }
    return Int64(left) + max(0, now - countedAt) / refill >= Int64(burst)
  }
}

/// A rate limit for each of many clients, such as peers, in bounded memory.
struct Allowances: Sendable {
  /// The maximum number of clients whose rate limits are kept.
  static let most = 4096

  private let fresh: Allowance
  private var known: [NameKey: Allowance] = [:]

  init(burst: Int, refill: Int64) { fresh = Allowance(burst: burst, refill: refill) }

  var count: Int { known.count }

  /// Returns whether an event of the client `asker` is allowed now, and counts it if so. Returns false for a new client
  /// if the maximum number of clients is reached and all of them had events recently.
  mutating func take(_ asker: String, now: Int64) -> Bool {
    if known[asker] == nil, known.count >= Self.most {
      known = known.filter { !$0.value.isFull(now: now) }
      guard known.count < Self.most else { return false }
    }
    return known[asker, default: fresh].take(now: now)
  }
}
