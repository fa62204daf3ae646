import Changes
import Synchronization

/// The state of a running apply that it reports to operators; read from other threads.
package final class ApplyProgress: Sendable {
  package struct Snapshot: Sendable {
    package var rows: UInt64 = 0
    package var transactions: UInt64 = 0
    /// The time at which the source committed the last transaction applied, in µs since 1970 UTC.
    package var lastCommitTime: Int64 = 0
    /// The time from the commit of the last transaction applied, at the source, to its commit in the target, in µs.
    package var lagMicroseconds: Int64 = 0
    /// The distribution of ``lagMicroseconds`` over all transactions, except those of a first copy.
    package var lags = LatencyHistogram()
    package var position = Position.start
    /// The oldest place of the trail that this target still needs, as of its last commit; nil: not known yet. The trail
    /// before it may be purged.
    package var needs: Position?
    /// The table that is being copied, the number of its rows copied so far, and the number at the source when the copy
    /// began.
    package var copying: (table: String, rows: UInt64, estimated: UInt64)?
    package var tablesCopied = 0
    /// The number of conflicts since apply started: rows that applications at the target had changed too.
    package var conflicts = 0
    /// The number of transactions in quarantine: those that the target refuses, and those that wait for them.
    package var quarantined = 0
    /// The time at which the next transaction may be applied, in µs since 1970 UTC; nil: none is held back. A
    /// transaction is held back while its clock is too far ahead.
    package var heldUntil: Int64?
    /// Whether apply waits until the capture of this database has read local writes to the rows that apply is to write.
    package var isWaitingForCapture = false
    /// Whether some tables still wait for a requested copy. Until the copy begins, a table is empty or keeps its former
    /// rows.
    package var awaitsCopies = false
    /// The transaction in which the last copy of each table began, by the table's name at the source. Names are in
    /// lower case, and without the schema `public`.
    package var copiesBegun: [NameKey: UInt64] = [:]
    /// The tables whose changed rule has taken effect: their copy under the new rule has begun, or they need no copy.
    /// Each is named as in ``ChangedRule/table``.
    package var rulesAdopted: Set<NameKey> = []
    /// The suspended tables that only need a copy, which the operator has not requested yet. The keys are their names
    /// in apply's state, the values their plain names.
    package var copiesWanted: [NameKey: String] = [:]
    /// The counts of the source's statements, since apply started: those that were executed again, and those whose rows
    /// were written instead.
    package var statements = StatementCounts()
    /// PostgreSQL: whether apply must create or drop triggers that refuse local writes, because a commit changed the
    /// list of tables that need them.
    var guardsAreDue = true
    package var isCaughtUp = false
    package var isWaitingForLock = false
    /// Whether the server cannot be reached, so that apply waits for it.
    package var isReconnecting = false
    /// The number of values that did not fit their columns and became NULL under the misfit policy.
    package var misfitsNulled: UInt64 = 0
    /// The messages that need no immediate action; only the first hundred are kept.
    package var notices: [String] = []
    /// The suspended tables, each with the reason why it cannot continue.
    package var waiting: [WaitingTable] = []
  }
  private let state = Mutex(Snapshot())
  package init() {}
  package var snapshot: Snapshot { state.withLock { $0 } }
  /// Resets the values that describe the connection, at the start of a run: caught up, waiting for a lock,
  /// reconnecting.
  package func forgetConnection() {
    update { ($0.isReconnecting, $0.isWaitingForLock, $0.isCaughtUp) = (false, false, false) }
  }
  func note(_ notice: String) {
    update { if $0.notices.count < 100, !$0.notices.contains(notice) { $0.notices.append(notice) } }
  }
  /// Stores the lag of a committed group, whose last transaction was committed at the source at `commitTime`.
  func noteLag(_ commitTime: Int64, now: Int64, isCopying: Bool) {
    update {
      $0.lastCommitTime = commitTime
      $0.lagMicroseconds = now - commitTime
      if !isCopying { $0.lags.add(microseconds: now - commitTime) }
    }
  }
  /// Stores that apply has read the whole trail, up to `read`. This may be after the checkpoint, because records after
  /// the last transaction move no checkpoint.
  func noteEnd(_ read: Position) { update { ($0.isCaughtUp, $0.position) = (true, max($0.position, read)) } }
  func update(_ body: (inout Snapshot) -> Void) { state.withLock { body(&$0) } }
}
