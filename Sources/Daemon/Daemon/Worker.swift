import Changes
import ControlAPI
import ServiceKit
import SystemKit

/// A part of a daemon with its own thread. The supervisor may run it again after it has ended.
protocol Worker: Sendable {
  var name: WorkerName { get }

  /// Works until `stop` is set, and then ends within seconds, between two transactions.
  ///
  /// - Throws: Errors that the worker cannot handle.
  func run(stop: StopSignal) throws

  /// Adds the worker's own facts to its status. Any thread may call it at any time.
  func describe(_ status: inout NodeStatus.Worker)

  func paths() -> [NodeStatus.Path]

  func news() -> [LogEntry]

  /// Whether a part of the worker, such as one transfer of a pump, has stopped until a restart.
  var isPartlyAtRest: Bool { get }
}

extension Worker {
  func paths() -> [NodeStatus.Path] { [] }
  func news() -> [LogEntry] { [] }
  var isPartlyAtRest: Bool { false }
}

/// Computes the lag of a worker from its last transaction.
enum CurrentLag {
  // The µs without a new transaction after which a worker that has caught up has no lag.
  private static let freshMicroseconds: Int64 = 10_000_000

  /// Returns the lag in ms; nil without a transaction. Returns 0 for a worker that has been idle for over 10 s.
  ///
  /// - Parameter commitTime: The commit time of the worker's last transaction at the source, µs since 1970 UTC; 0 for
  ///   none.
  /// - Parameter tookMicroseconds: The time in µs from the commit at the source until the worker had finished the
  ///   transaction.
  /// - Parameter isBehind: Whether the worker still has transactions to process; the lag then grows with `now`.
  static func milliseconds(commitTime: Int64, tookMicroseconds: Int64, isBehind: Bool, now: Int64) -> Double? {
    guard commitTime > 0 else { return nil }
    if isBehind { return Double(max(0, now - commitTime)) / 1000 }
    let isOld = now - commitTime - tookMicroseconds > freshMicroseconds
    return isOld ? 0 : Double(max(0, tookMicroseconds)) / 1000
  }
}

/// Estimates since when changes have been waiting for an apply. Times are µs since 1970 UTC.
struct Backlog: Equatable, Sendable {
  private let startedAt: Int64
  private var noneAt: Int64?

  /// Creates the estimate for an apply that starts at the time `since`. At first, changes count as waiting from that
  /// time on.
  init(since: Int64) { startedAt = since }

  /// Notes that no change was waiting for the apply at the time `now`.
  mutating func noteNone(now: Int64) { noneAt = now }

  /// Returns the earliest time since which changes may have been waiting for the apply.
  ///
  /// - Parameter lastCommitTime: The commit time of the last applied transaction; 0 if there is none.
  func since(lastCommitTime: Int64) -> Int64 {
    if let noneAt { return max(noneAt, lastCommitTime) }
    return lastCommitTime > 0 ? lastCommitTime : startedAt
  }
}

extension StopSignal {
  /// Sleeps in short intervals, and reports after each that the thread is alive. Returns whether the signal is set.
  func rest(_ duration: Duration) -> Bool {
    let limit = Clock.monotonicMilliseconds + duration.milliseconds
    while true {
      let left = limit - Clock.monotonicMilliseconds
      guard left > 0 else { return isSet }
      if wait(milliseconds: Int32(min(left, 500))) { return true }
    }
  }
}

extension Duration {
  package var milliseconds: Int64 {
    components.seconds * 1000 + components.attoseconds / 1_000_000_000_000_000
  }
}
