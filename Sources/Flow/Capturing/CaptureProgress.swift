import Changes
import Synchronization

/// A suspended table, with the reason and what the operator should do.
package struct TableWait: Equatable, Sendable {
  /// The name of the table for messages.
  @ByBytes package var table: String
  package var code: ErrorCode
  @ByBytes package var message: String
  @ByBytes package var hint: String
}

/// The progress of a running capture, for status and display. Other threads may read it.
///
///     let progress = CaptureProgress(notice: { print($0) })
///     progress.snapshot   // from any thread
package final class CaptureProgress: Sendable {
  package struct Snapshot: Sendable {
    package var tablesToCopy = 0
    /// The suspended tables, sorted by name.
    package var waits: [TableWait] = []
    /// The table of the running refresh, the number of rows sent, and the estimated number of all rows; nil without a
    /// refresh.
    package var copying: (table: String, rows: UInt64, estimated: UInt64)?
    package var rowsCopied: UInt64 = 0
    package var changes: UInt64 = 0
    package var transactions: UInt64 = 0
    /// The sequence number of the last row of the SQLite journal that is durable in the trail.
    package var taken: Int64 = 0
    package var isCaughtUp = false
    /// Whether a run that ends once it has caught up has ended, with the error of a suspended table. The trail has
    /// everything else.
    package var endedBesidesTables = false
    /// The number of logical messages with Cairn's prefix but without a valid signature, since this process began the
    /// capture.
    package var refusedMessages: UInt64 = 0
    /// The durable end of the trail into which capture writes.
    package var position = Position.start
    /// The commit time of the last source transaction that is durable in the trail, µs since 1970 UTC. For SQLite,
    /// which does not record commit times: the time at which the transaction was read.
    package var lastCommitTime: Int64 = 0
    /// The time from the last commit at the source until the trail had it durably, µs.
    package var lagMicroseconds: Int64 = 0
    package var lags = LatencyHistogram()
    /// Whether the PostgreSQL server is unreachable, so that capture waits for it.
    package var isReconnecting = false
  }
  private let state = Mutex(Snapshot())
  private let sink: @Sendable (Notice) -> Void

  /// A message for the operator that is not an error.
  package struct Notice: Sendable {
    package let text: String
    package init(_ text: String) { self.text = text }
  }

  package init(notice: @escaping @Sendable (Notice) -> Void = { _ in }) { sink = notice }
  package var snapshot: Snapshot { state.withLock { $0 } }
  func update(_ body: (inout Snapshot) -> Void) { state.withLock { body(&$0) } }
  /// Stores the progress of a capture that runs in another process.
  ///
  /// - Parameter isCaughtUp: Whether the trail has all changes, and no table waits for a refresh.
  package func noteStanding(tablesToCopy: Int, isCaughtUp: Bool) {
    update { ($0.tablesToCopy, $0.isCaughtUp) = (tablesToCopy, isCaughtUp) }
  }
  /// Stores the durable end of the trail, and publishes the lag.
  ///
  /// - Parameter last: The commit time of the last source transaction in the trail, µs since 1970, and the µs since
  ///   that commit. Nil if there is no such transaction.
  func noteDurable(_ position: Position, _ last: (commitTime: Int64, microsecondsAgo: Int64)? = nil) {
    update {
      $0.position = position
      guard let last else { return }
      $0.lastCommitTime = last.commitTime
      $0.lagMicroseconds = last.microsecondsAgo
      $0.lags.add(microseconds: last.microsecondsAgo)
    }
  }
  /// Sets ``Snapshot/isReconnecting`` to false and ``Snapshot/taken`` to 0, because a new run of capture begins.
  package func forgetConnection() { update { ($0.isReconnecting, $0.taken) = (false, 0) } }
  package func tell(_ text: String) { sink(Notice(text)) }
}
