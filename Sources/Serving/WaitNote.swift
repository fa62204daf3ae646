/// What a worker waits for, as the log tells it: once it has lasted, and when it is over.
struct WaitNote: Equatable, Sendable {
  /// What passes sooner is not worth a line.
  static let leastMilliseconds: Int64 = 2_000

  private var seen = ""
  private var seenAt: Int64 = 0
  private var told = ""

  /// `wait` is empty while it waits for nothing; `now` is of a clock that never jumps. Returns what is to be told now.
  mutating func note(_ wait: String, now: Int64) -> String? {
    if wait != seen { (seen, seenAt) = (wait, now) }
    guard seen != told, now - seenAt >= Self.leastMilliseconds else { return nil }
    told = seen
    return told.isEmpty ? "waits no more" : told
  }
}
