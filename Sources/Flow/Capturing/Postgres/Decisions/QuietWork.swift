/// Decides when capture does its quiet work, such as beginning a copy: whenever the stream is silent, and every 50 ms
/// while it is not. Without that, a source whose commits come without a pause would never be copied. `now` is monotonic
/// time in ms.
struct QuietWork {
  private static let busyMilliseconds: Int64 = 50
  private var doneAt: Int64

  init(now: Int64) { doneAt = now }

  /// Registers that the stream is silent, so the work is done.
  mutating func isSilent(now: Int64) { doneAt = now }

  /// Returns whether the work is due although messages come, and counts it as done then.
  mutating func isDue(now: Int64) -> Bool {
    guard now - doneAt >= Self.busyMilliseconds else { return false }
    doneAt = now
    return true
  }
}
