import Changes
import Synchronization

/// What a capture tells people while it runs; read from another thread.
package final class CaptureProgress: Sendable {
  package struct Snapshot: Sendable {
    package var tablesToCopy = 0
    /// The table that is being copied, its rows so far, and how many there were when it began.
    package var copying: (table: String, rows: UInt64, estimated: UInt64)?
    package var rowsCopied: UInt64 = 0
    package var changes: UInt64 = 0
    package var transactions: UInt64 = 0
    /// Journal rows read, in the trail and synced.
    package var taken: Int64 = 0
    package var isCaughtUp = false
    /// Logical messages that looked like ours and were not, since the start.
    package var refusedMessages: UInt64 = 0
    /// The durable end of the trail.
    package var position = Position.start
    /// Commit time of the last transaction of the source that is in the trail, durably, µs since 1970 UTC. SQLite does
    /// not tell: there it is the moment at which the transaction was read.
    package var lastCommitTime: Int64 = 0
    /// How long it took from there until it was durable in the trail, µs, and the same of all.
    package var lagMicroseconds: Int64 = 0
    package var lags = LatencyHistogram()
    /// The server is away; capture waits for it.
    package var isReconnecting = false
  }
  private let state = Mutex(Snapshot())
  private let sink: @Sendable (Notice) -> Void

  /// Something that a person should read: once, not an error.
  package struct Notice: Sendable {
    package let text: String
    package init(_ text: String) { self.text = text }
  }

  package init(notice: @escaping @Sendable (Notice) -> Void = { _ in }) { sink = notice }
  package var snapshot: Snapshot { state.withLock { $0 } }
  func update(_ body: (inout Snapshot) -> Void) { state.withLock { body(&$0) } }
  /// Another process captures: how many tables are still to be copied, and whether the trail has what it must have.
  package func noteStanding(tablesToCopy: Int, isCaughtUp: Bool) {
    update { ($0.tablesToCopy, $0.isCaughtUp) = (tablesToCopy, isCaughtUp) }
  }
  /// The trail is durable up to `position`; the last transaction in it was committed at `commitTime`, and so long ago.
  /// Nil: there is none of the source's.
  func noteDurable(_ position: Position, _ last: (commitTime: Int64, microsecondsAgo: Int64)? = nil) {
    update {
      $0.position = position
      guard let last else { return }
      $0.lastCommitTime = last.commitTime
      $0.lagMicroseconds = last.microsecondsAgo
      $0.lags.add(microseconds: last.microsecondsAgo)
    }
  }
  /// A run begins: what was said of the connection and of the journal before holds no more.
  package func forgetConnection() { update { ($0.isReconnecting, $0.taken) = (false, 0) } }
  package func tell(_ text: String) { sink(Notice(text)) }
}
