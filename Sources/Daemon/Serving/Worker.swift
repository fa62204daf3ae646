import Changes
import ServiceKit
import Steering
import SystemKit

/// A part of a daemon with its own thread. The supervisor may run it again after it has ended.
protocol Worker: Sendable {
  var name: WorkerName { get }

  /// Works until `stop` is set. Then ends within seconds, at a transaction boundary.
  ///
  /// - Throws: Errors that the worker cannot handle.
  func run(stop: StopSignal) throws

  /// Adds the worker's own facts to its status; called on other threads at any time.
  func describe(_ status: inout NodeStatus.Worker)

  /// Returns the worker's transfers of trails to and from other nodes.
  func paths() -> [NodeStatus.Path]

  /// Returns the log entries since the last call.
  func news() -> [LogEntry]

  /// Whether a part of the worker, such as one transfer of a pump, has stopped until the worker is restarted.
  var isPartlyAtRest: Bool { get }
}

extension Worker {
  func paths() -> [NodeStatus.Path] { [] }
  func news() -> [LogEntry] { [] }
  var isPartlyAtRest: Bool { false }
}

/// Computes the lag of a worker from the last transaction that it reported.
enum CurrentLag {
  /// The time without a new transaction, in µs, after which a worker that has caught up counts as having no lag.
  private static let freshMicroseconds: Int64 = 10_000_000

  /// Returns the lag in milliseconds; nil if there was no transaction.
  ///
  /// - Parameter commitTime: The commit time of the worker's last transaction at the source.
  /// - Parameter tookMicroseconds: The time from that commit until the worker had finished the transaction.
  /// - Parameter isBehind: Whether the worker still has transactions to process; the lag then grows with `now`.
  static func milliseconds(commitTime: Int64, tookMicroseconds: Int64, isBehind: Bool, now: Int64) -> Double? {
    guard commitTime > 0 else { return nil }
    if isBehind { return Double(max(0, now - commitTime)) / 1000 }
    let isOld = now - commitTime - tookMicroseconds > freshMicroseconds
    return isOld ? 0 : Double(max(0, tookMicroseconds)) / 1000
  }
}

/// Estimates since when changes have been waiting to be applied. Times are µs since 1970 UTC.
struct Backlog: Equatable, Sendable {
  private let startedAt: Int64
  private var noneAt: Int64?

  /// Creates an estimate for a worker that was created at `since`. The estimate is `since` until the worker has applied
  /// a transaction, or has found that none was waiting.
  init(since: Int64) { startedAt = since }

  /// Stores `now` as a time at which no change was waiting to be applied. Changes that wait later were committed after
  /// `now`.
  mutating func noteNone(now: Int64) { noneAt = now }

  /// Returns the time since which changes have been waiting, at the earliest.
  ///
  /// - Parameter lastCommitTime: The commit time of the last applied transaction; 0 if there is none.
  func since(lastCommitTime: Int64) -> Int64 {
    if let noneAt { return max(noneAt, lastCommitTime) }
    return lastCommitTime > 0 ? lastCommitTime : startedAt
  }
}

extension StopSignal {
  /// Sleeps in short intervals and reports progress after each. Returns true if the signal was set meanwhile.
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
