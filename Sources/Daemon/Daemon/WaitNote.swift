/// The log messages about a worker's wait: one after two seconds, and one when the wait is over.
struct WaitNote: Equatable, Sendable {
  static let leastMilliseconds: Int64 = 2_000

  private var seen = ""
  private var seenAt: Int64 = 0
  private var told = ""

  /// Whether nothing waits, and the log says so.
  var isIdle: Bool { seen.isEmpty && told.isEmpty }

  /// Returns the message to log now; nil if there is none.
  ///
  /// - Parameter wait: The reason for the wait; empty while the worker waits for nothing.
  /// - Parameter now: Milliseconds of a monotonic clock.
  mutating func note(_ wait: String, now: Int64) -> String? {
    if wait != seen { (seen, seenAt) = (wait, now) }
    guard seen != told, now - seenAt >= Self.leastMilliseconds else { return nil }
    told = seen
    return told.isEmpty ? "is no longer suspended" : told
  }
}
