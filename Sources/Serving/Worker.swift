import Changes
import ServiceKit
import Steering
import SystemKit

/// One blocking loop of a daemon. It is run again and again, each time on a thread of its own.
protocol Worker: Sendable {
  var name: WorkerName { get }

  /// Works until `stop` is set, which is seen within seconds at a border of transactions. Throws what it cannot get over.
  func run(stop: StopSignal) throws

  /// Adds what it knows of itself; called on other threads at any time.
  func describe(_ status: inout NodeStatus.Worker)

  /// The trails that it exchanges with other nodes.
  func paths() -> [NodeStatus.Path]

  /// What it has to say once since the last call.
  func news() -> [LogEntry]

  /// It runs, and yet something of it does nothing any more until it is started anew.
  var isPartlyAtRest: Bool { get }
}

extension Worker {
  func paths() -> [NodeStatus.Path] { [] }
  func news() -> [LogEntry] { [] }
  var isPartlyAtRest: Bool { false }
}

/// How far behind a worker is, by what it said last.
enum CurrentLag {
  /// After so long without anything new, what has caught up lags no more.
  private static let freshMicroseconds: Int64 = 10_000_000

  /// Of the last transaction: when it was committed at the source, and how long it took from there. Nil: there was none.
  static func milliseconds(commitTime: Int64, tookMicroseconds: Int64, isBehind: Bool, now: Int64) -> Double? {
    guard commitTime > 0 else { return nil }
    if isBehind { return Double(max(0, now - commitTime)) / 1000 }
    let isOld = now - commitTime - tookMicroseconds > freshMicroseconds
    return isOld ? 0 : Double(max(0, tookMicroseconds)) / 1000
  }
}

/// Since when something waits to be applied: times of day, µs since 1970 UTC.
struct Backlog: Equatable, Sendable {
  private let startedAt: Int64
  private var noneAt: Int64?

  /// `since` is when the worker was made; without anything better, its backlog counts from there.
  init(since: Int64) { startedAt = since }

  /// Nothing waits at this moment, so what waits later came later.
  mutating func noteNone(now: Int64) { noneAt = now }

  /// What waits now was committed after the last transaction that was applied (0: none was), and after the moment at
  /// which nothing waited.
  func since(lastCommitTime: Int64) -> Int64 {
    if let noneAt { return max(noneAt, lastCommitTime) }
    return lastCommitTime > 0 ? lastCommitTime : startedAt
  }
}

extension StopSignal {
  /// Sleeps in slices, so that who waits is seen to be alive; true when the signal was set meanwhile.
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
