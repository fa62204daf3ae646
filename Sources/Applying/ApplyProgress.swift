import Changes
import Synchronization

/// The state of a running apply that it reports to operators; read from other threads.
package final class ApplyProgress: Sendable {
  package struct Snapshot: Sendable {
    package var rows: UInt64 = 0
    package var transactions: UInt64 = 0
    /// Commit time of the last transaction applied, µs since 1970 UTC.
    package var lastCommitTime: Int64 = 0
    /// The time from the source's commit of that transaction to the commit in the target, in µs.
    package var lagMicroseconds: Int64 = 0
    /// The distribution of that time over all transactions, except those of a first copy.
    package var lags = LatencyHistogram()
    package var position = Position.start
    /// The oldest place of the trail that this target still needs, as of its last commit; nil: not known yet. The trail
    /// before it may be purged.
    package var needs: Position?
    /// The table that is being copied, its rows so far, and the number of rows at the source when the copy began.
    package var copying: (table: String, rows: UInt64, estimated: UInt64)?
    package var tablesCopied = 0
    /// Rows that applications had changed too, since the start.
    package var conflicts = 0
    /// Transactions that are in quarantine: those that the target refuses, and those that wait for them.
    package var quarantined = 0
    /// The time at which the next transaction may be applied, in µs since 1970, if its clock is too far ahead; nil:
    /// none waits.
    package var heldUntil: Int64?
    /// Whether apply waits until the capture of this database has read local writes to the same rows.
    package var isWaitingForCapture = false
    /// Whether some tables still await a copy: until it begins they are empty, or as they were.
    package var awaitsCopies = false
    /// The transaction in which the last copy of each table began, by the table's name at the source. Names are in
    /// lower case, and without the schema `public`.
    package var copiesBegun: [NameKey: UInt64] = [:]
    /// The tables that are under their new rules, by ``ChangedRule/table``.
    package var rulesAdopted: Set<NameKey> = []
    /// The tables that wait only for a copy, which is not requested yet: their rules fit again. By the name in apply's
    /// state.
    package var copiesWanted: [NameKey: String] = [:]
    /// The statements of the trail that were executed again or applied as rows, since the start.
    package var statements = StatementCounts()
    /// Whether the triggers that guard tables of PostgreSQL must be brought in line, after the commit that changes the
    /// guards.
    var guardsAreDue = true
    package var isCaughtUp = false
    package var isWaitingForLock = false
    /// Whether the server cannot be reached; apply waits for it.
    package var isReconnecting = false
    /// Values that did not fit their columns and became NULL, as the policy says.
    package var misfitsNulled: UInt64 = 0
    /// The messages that need no immediate action; the first hundred.
    package var notices: [String] = []
    /// The tables that are suspended until their schema change is made, by name.
    package var waiting: [WaitingTable] = []
  }
  private let state = Mutex(Snapshot())
  package init() {}
  package var snapshot: Snapshot { state.withLock { $0 } }
  /// Resets the state of the connection at the start of a run.
  package func forgetConnection() {
    update { ($0.isReconnecting, $0.isWaitingForLock, $0.isCaughtUp) = (false, false, false) }
  }
  func note(_ notice: String) {
    update { if $0.notices.count < 100, !$0.notices.contains(notice) { $0.notices.append(notice) } }
  }
  /// Records the commit of a group whose last transaction was committed at the source at `commitTime`.
  func noteLag(_ commitTime: Int64, now: Int64, isCopying: Bool) {
    update {
      $0.lastCommitTime = commitTime
      $0.lagMicroseconds = now - commitTime
      if !isCopying { $0.lags.add(microseconds: now - commitTime) }
    }
  }
  /// Records that the whole trail was read. Records after its last transaction move no checkpoint, but are done too.
  func noteEnd(_ read: Position) { update { ($0.isCaughtUp, $0.position) = (true, max($0.position, read)) } }
  func update(_ body: (inout Snapshot) -> Void) { state.withLock { body(&$0) } }
}
