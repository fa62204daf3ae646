import Changes
import Synchronization

/// What an apply tells people while it runs; read from another thread.
package final class ApplyProgress: Sendable {
  package struct Snapshot: Sendable {
    package var rows: UInt64 = 0
    package var transactions: UInt64 = 0
    /// Commit time of the last transaction applied, µs since 1970 UTC.
    package var lastCommitTime: Int64 = 0
    /// How long it took from there to the commit in the target, µs.
    package var lagMicroseconds: Int64 = 0
    /// Of all transactions but those of a first copy, how long that took.
    package var lags = LatencyHistogram()
    package var position = Position.start
    /// Where the oldest part of the trail begins that this target still needs, as of its last commit; nil: not known
    /// yet. Everything before may be purged.
    package var needs: Position?
    /// The table that is being copied, its rows so far, and how many the source had when it began.
    package var copying: (table: String, rows: UInt64, estimated: UInt64)?
    package var tablesCopied = 0
    /// Rows that others had written to as well, since the start.
    package var conflicts = 0
    /// Transactions that are put aside: those that the target does not take, and those that wait for them.
    package var quarantined = 0
    /// When the next transaction may be applied, µs since 1970: its clock was further ahead than it may be. Nil: none waits.
    package var heldUntil: Int64?
    /// Rows that come were written to here as well, and the capture of this database has not taken that yet.
    package var isWaitingForCapture = false
    /// Tables have to be copied that are not yet begun: until then they are empty, or as they were.
    package var awaitsCopies = false
    /// In which transaction the last copy of each table began, by its name at the source: in lower case, and without the
    /// schema where that is `public`.
    package var copiesBegun: [NameKey: UInt64] = [:]
    /// Tables that are under their new rules: as ``ChangedRule/table`` names them.
    package var rulesAdopted: Set<NameKey> = []
    /// Tables that wait for nothing but a copy, which nobody has asked for: their rules fit again. By the name in state.
    package var copiesWanted: [NameKey: String] = [:]
    /// What became of the statements of the trail, where they may be executed once more; since the start.
    package var statements = StatementCounts()
    /// Tables of PostgreSQL are to be guarded against what others write, or no longer: behind the commit that says so.
    var guardsAreDue = true
    package var isCaughtUp = false
    package var isWaitingForLock = false
    /// The server is away; apply waits for it.
    package var isReconnecting = false
    /// Values that did not fit their columns and became NULL, as the policy says.
    package var misfitsNulled: UInt64 = 0
    /// What people should know and need not act on at once; the first hundred.
    package var notices: [String] = []
    /// Tables that take part in nothing until their schema change is made, by name.
    package var waiting: [WaitingTable] = []
  }
  private let state = Mutex(Snapshot())
  package init() {}
  package var snapshot: Snapshot { state.withLock { $0 } }
  /// A run begins: what was said of the connection before holds no more.
  package func forgetConnection() {
    update { ($0.isReconnecting, $0.isWaitingForLock, $0.isCaughtUp) = (false, false, false) }
  }
  func note(_ notice: String) {
    update { if $0.notices.count < 100, !$0.notices.contains(notice) { $0.notices.append(notice) } }
  }
  /// A group was committed, up to a transaction that was committed at the source at `commitTime`.
  func noteLag(_ commitTime: Int64, now: Int64, isCopying: Bool) {
    update {
      $0.lastCommitTime = commitTime
      $0.lagMicroseconds = now - commitTime
      if !isCopying { $0.lags.add(microseconds: now - commitTime) }
    }
  }
  /// All of the trail was read. What stands behind its last transaction moves no checkpoint, and is finished with, too.
  func noteEnd(_ read: Position) { update { ($0.isCaughtUp, $0.position) = (true, max($0.position, read)) } }
  func update(_ body: (inout Snapshot) -> Void) { state.withLock { body(&$0) } }
}
