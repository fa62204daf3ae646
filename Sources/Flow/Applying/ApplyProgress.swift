import Changes
import Synchronization

/// The progress of a running apply, for operators. Any thread may read it.
///
///     let progress = ApplyProgress()
///     let apply = try SQLiteApply(path: path, trail: folder, name: trail, options: .init(), progress: progress)
///     progress.snapshot   // from any thread
package final class ApplyProgress: Sendable {
  package struct Snapshot: Sendable {
    package var rows: UInt64 = 0
    package var transactions: UInt64 = 0
    /// The time at which the source committed the last transaction applied, in µs since 1970 UTC.
    package var lastCommitTime: Int64 = 0
    /// The time, in µs, from the commit of the last applied transaction at the source until apply's commit in the
    /// target.
    package var lagMicroseconds: Int64 = 0
    /// The distribution of ``lagMicroseconds`` over all groups since apply started, except those committed during a
    /// refresh.
    package var lags = LatencyHistogram()
    package var position = Position.start
    /// The oldest place of the trail that this target still needs; nil: not known yet.
    package var needs: Position?
    /// The table that is being refreshed, the number of rows received so far, and the source's estimated number of
    /// rows.
    package var copying: (table: String, rows: UInt64, estimated: UInt64)?
    package var tablesCopied = 0
    /// The number of conflicts since apply started.
    package var conflicts = 0
    /// The number of transactions in quarantine: those that the target refused, and those that depend on them.
    package var quarantined = 0
    /// The time at which the next transaction may be applied, in µs since 1970 UTC. Nil unless the clock of this
    /// transaction is too far ahead of this node's clock.
    package var heldUntil: Int64?
    /// Whether apply waits until capture has read writes of applications to rows that apply is about to write.
    package var isWaitingForCapture = false
    /// Whether apply still waits for the requested refresh of some tables to begin in the trail.
    package var awaitsCopies = false
    /// The transaction in which the last refresh of each table began, by the table's lower-case name at the source.
    package var copiesBegun: [NameKey: UInt64] = [:]
    /// The tables whose changed rule has taken effect, by their lower-case names at the source.
    package var rulesAdopted: Set<NameKey> = []
    /// The suspended tables that continue with a refresh, once the operator requests one.
    ///
    /// The keys are the tables' names in apply's state, and the values are the tables' names at the source.
    package var copiesWanted: [NameKey: String] = [:]
    /// Counts of the source's statements that apply executed again, or for which it wrote the changed rows.
    package var statements = StatementCounts()
    /// PostgreSQL: the tables whose triggers against writes of applications apply must still create or drop.
    var guards = GuardSchedule()
    /// PostgreSQL: the reasons why some tables do not yet refuse writes of applications, although the conf says so.
    package var openGuards: [CairnError] { guards.open }
    /// PostgreSQL: the next attempt to create foreign keys whose tables other sessions had locked; nil: there are none.
    var lateKeys: CatchUpSchedule?
    package var isCaughtUp = false
    private var lock = (isAwaited: false, holder: String?.none)
    package var isWaitingForLock: Bool {
      get { lock.isAwaited }
      set { lock = (newValue, newValue ? lock.holder : nil) }
    }
    /// PostgreSQL: the session that holds the lock for which apply waits; nil if it is not known.
    package var lockHolder: String? { lock.holder }
    mutating func note(lockHolder: String) { lock = (true, lockHolder) }
    package var isReconnecting = false
    package var misfitsNulled: UInt64 = 0
    /// The messages that need no immediate action: at most a hundred different messages.
    package var notices: [String] = []
    /// The suspended tables, each with the reason why it cannot continue.
    package var waiting: [WaitingTable] = []
  }
  private let state = Mutex(Snapshot())
  package init() {}
  package var snapshot: Snapshot { state.withLock { $0 } }
  /// Resets the state of the connection at the start of a run: not reconnecting, not waiting for a lock, not caught up.
  package func forgetConnection() {
    update { ($0.isReconnecting, $0.isWaitingForLock, $0.isCaughtUp) = (false, false, false) }
  }
  package func note(_ notice: String) {
    update { if $0.notices.count < 100, !$0.notices.contains(notice) { $0.notices.append(notice) } }
  }
  /// Stores the lag of a committed group.
  ///
  /// - Parameter commitTime: The time at which the source committed the group's last transaction, in µs since 1970 UTC.
  /// - Parameter now: The time of the commit in the target, in µs since 1970 UTC.
  /// - Parameter isCopying: Whether a refresh is going on. If so, the lag is not added to the distribution of lags.
  func noteLag(_ commitTime: Int64, now: Int64, isCopying: Bool) {
    update {
      $0.lastCommitTime = commitTime
      $0.lagMicroseconds = now - commitTime
      if !isCopying { $0.lags.add(microseconds: now - commitTime) }
    }
  }
  /// Stores that apply has read the whole trail, up to `read`.
  func noteEnd(_ read: Position) { update { ($0.isCaughtUp, $0.position) = (true, max($0.position, read)) } }
  func update(_ body: (inout Snapshot) -> Void) { state.withLock { body(&$0) } }
}
