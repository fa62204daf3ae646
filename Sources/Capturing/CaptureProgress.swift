import Changes
import Synchronization

/// The progress of a running capture, for status and display; other threads read it.
package final class CaptureProgress: Sendable {
  package struct Snapshot: Sendable {
    package var tablesToCopy = 0
    /// The table that is being copied, its rows so far, and the number of its rows when the copy began.
    package var copying: (table: String, rows: UInt64, estimated: UInt64)?
    package var rowsCopied: UInt64 = 0
    package var changes: UInt64 = 0
    package var transactions: UInt64 = 0
    /// The last journal row that was read and is durable in the trail.
    package var taken: Int64 = 0
    package var isCaughtUp = false
    /// The number of logical messages since the start that claimed to be Cairn's and were refused.
    package var refusedMessages: UInt64 = 0
    /// The durable end of the trail.
    package var position = Position.start
    /// The commit time of the last source transaction that is durable in the trail, µs since 1970 UTC. SQLite does not
    /// report it: for SQLite, the time at which the transaction was read.
    package var lastCommitTime: Int64 = 0
    /// The time from that commit until it was durable in the trail, µs; and the histogram of all such times.
    package var lagMicroseconds: Int64 = 0
    package var lags = LatencyHistogram()
    /// Whether the server is unreachable and capture waits for it.
    package var isReconnecting = false
  }
  private let state = Mutex(Snapshot())
  private let sink: @Sendable (Notice) -> Void

  /// A message for the operator: shown once, not an error.
  package struct Notice: Sendable {
    package let text: String
    package init(_ text: String) { self.text = text }
  }

  package init(notice: @escaping @Sendable (Notice) -> Void = { _ in }) { sink = notice }
  package var snapshot: Snapshot { state.withLock { $0 } }
  func update(_ body: (inout Snapshot) -> Void) { state.withLock { body(&$0) } }
  /// Notes the standing of a capture in another process: the tables still to be copied, and whether the trail has all
  /// it must have.
  package func noteStanding(tablesToCopy: Int, isCaughtUp: Bool) {
    update { ($0.tablesToCopy, $0.isCaughtUp) = (tablesToCopy, isCaughtUp) }
  }
  /// Notes that the trail is durable up to `position`.
  ///
  /// - Parameter last: The commit time of the last source transaction in it, and the µs since then; nil if there is
  ///   none.
  func noteDurable(_ position: Position, _ last: (commitTime: Int64, microsecondsAgo: Int64)? = nil) {
    update {
      $0.position = position
      guard let last else { return }
      $0.lastCommitTime = last.commitTime
      $0.lagMicroseconds = last.microsecondsAgo
      $0.lags.add(microseconds: last.microsecondsAgo)
    }
  }
  /// Forgets the state of the connection and of the journal: a new run begins.
  package func forgetConnection() { update { ($0.isReconnecting, $0.taken) = (false, 0) } }
  package func tell(_ text: String) { sink(Notice(text)) }
}
