import Synchronization

/// Limits reading or sending to a number of bytes per second, by pauses. Several threads may share one limit.
///
///     let rate = RateLimit(bytesPerSecond: 1 << 20)
///     rate.spend(65_536, stop)   // pauses for 1/16 s
package final class RateLimit: Sendable {
  private struct State {
    var bytes = 0
    var since: Int64 = 0
  }
  package let bytesPerSecond: Int?
  private let state = Mutex(State())

  /// Creates a limit.
  ///
  /// - Parameter bytesPerSecond: The limit; nil: no limit.
  package init(bytesPerSecond: Int?) { self.bytesPerSecond = bytesPerSecond }

  /// Counts bytes that were read or sent, and sleeps as long as the limit requires. The stop signal ends the sleep.
  package func spend(_ bytes: Int, _ stop: StopSignal) {
    guard let bytesPerSecond else { return }
    let now = Clock.monotonicMilliseconds
    let wait = state.withLock { state -> Int64 in
      if state.since == 0 { state.since = now }
      state.bytes += bytes
      let due = state.since + Int64(Double(state.bytes) * 1000 / Double(bytesPerSecond))
      // Allowance unused for a second is lost.
      if due < now - 1000 { (state.since, state.bytes) = (now, 0) }
      return due - now
    }
    if wait > 0 { _ = stop.wait(milliseconds: Int32(clamping: wait)) }
  }

  /// Returns how many rows of `rowBytes` bytes to read at once: as many as the limit allows in 1/4 s. The result is at
  /// least `least` and at most `rows`.
  package func rows(_ rows: Int, of rowBytes: Int, least: Int = 20) -> Int {
    guard let bytesPerSecond else { return rows }
    return max(least, min(rows, bytesPerSecond / 4 / max(1, rowBytes)))
  }
}
