import Changes
import Glibc
import SQLiteFormat
import SystemKit

/// Reads all transactions of a log, on the thread of its caller, and holds what it has not read yet.
///
/// ```swift
/// let reader = try WALReader(path: "shop.db")
/// try reader.run(until: { isStopped }) { transaction in print(transaction.pages.count) }
/// ```
package final class WALReader {
  /// How often each thing happened.
  package struct Counts: Sendable {
    package var looks = 0
    package var reads = 0
    package var frames = 0
    package var pins = 0
    package var marks = 0
    package var rests = 0
    package var windows = 0
    package var checkpoints = 0
    package var longestLog: UInt32 = 0
  }

  /// The time after a change in which the log is looked at often, in microseconds.
  private static let alertTime: Int64 = 3000
  private static let alertPause: Int64 = 50

  private let file: WALFile
  private let tail: WALTail
  private let watch: FolderWatch
  package private(set) var holds: WALHolds
  package private(set) var counts = Counts()
  private var alertUntil: Int64 = 0

  /// - Parameter position: The place from which on transactions are read; nil to begin with the next one.
  package init(path: String, from position: WALPosition? = nil, limits: WALHolds.Limits = .init()) throws {
    file = try WALFile(path: path)
    tail = WALTail(database: path, pageSize: file.pageSize)
    let slash = path.lastIndex(of: "/")
    watch = try FolderWatch(slash.map { String(path[..<$0]) } ?? ".")
    holds = WALHolds(from: position, limits: limits)
  }

  /// Reads until `isStopped` returns true, which is asked at least every 50 ms.
  ///
  /// - Throws: ``WALLost`` if frames were overwritten before they were read.
  package func run(until isStopped: () -> Bool, _ body: (WALTransaction) throws -> Void) throws {
    defer { release() }
    var asksLocks = false
    while !isStopped() {
      let former = (hold: holds.hold, isWindow: holds.isWindow)
      let action = holds.next(try file.look(withLocks: asksLocks))
      counts.looks += 1
      asksLocks = action == .askLocks
      count(action, former.hold, former.isWindow)
      switch action {
      case .read(let head):
        try tail.forEachTransaction(after: holds.read, upTo: head, body)
        holds.finished(action, true)
      case .lost(let loss): throw WALLost(loss: loss)
      case .pause(let time): sleepMicroseconds(time)
      case .sleep(let time): sleep(time)
      default: holds.finished(action, try file.perform(action))
      }
    }
  }

  /// Calls `body` with a page of the transaction that is being read.
  package func withPage<T>(_ number: UInt32, of transaction: WALTransaction, _ body: (PageBytes) throws -> T) throws
    -> T?
  {
    guard let frame = transaction.pages[number] else { return nil }
    return try tail.withPage(ofFrame: frame, number: number, body)
  }

  private func count(_ action: WALHolds.Action, _ hold: WALHolds.Hold, _ isWindow: Bool) {
    if holds.hold != hold {
      switch holds.hold {
      case .pin: counts.pins += 1
      case .mark: counts.marks += 1
      case .rest: counts.rests += 1
      case .none: break
      }
    }
    if holds.isWindow, !isWindow { counts.windows += 1 }
    switch action {
    case .read(let head):
      counts.reads += 1
      counts.frames += Int(head.frames) - (holds.read.salts == head.salts ? Int(holds.read.frame) : 0)
      counts.longestLog = max(counts.longestLog, head.frames)
    case .checkpoint: counts.checkpoints += 1
    default: break
    }
  }

  /// Waits for a change in the folder. After one, more are likely.
  private func sleep(_ time: Int64) {
    let now = Clock.system.microseconds()
    if watch.drain() { alertUntil = now + Self.alertTime }
    if now < alertUntil { return sleepMicroseconds(Self.alertPause) }
    var waited = pollfd(fd: watch.descriptor, events: Int16(POLLIN), revents: 0)
    poll(&waited, 1, Int32(max(1, time / 1000)))
  }

  private func release() {
    for action in holds.releases() { _ = try? file.perform(action) }
  }
}

/// The error thrown if a log was overwritten before it was read.
package struct WALLost: Error {
  package let loss: WALHolds.Loss
}

func sleepMicroseconds(_ time: Int64) {
  guard time > 0 else { return }
  var rest = timespec(tv_sec: Int(time / 1_000_000), tv_nsec: Int(time % 1_000_000) * 1000)
  nanosleep(&rest, nil)
}
