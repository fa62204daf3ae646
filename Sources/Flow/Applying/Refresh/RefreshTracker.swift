import Changes

/// The refreshes of tables that a replay reads: the one in progress, and those that began or ended since the last
/// commit.
struct RefreshTracker<Table> {
  /// The table that is being refreshed, the number of rows received so far, and the source's estimated number of rows.
  private(set) var current: (table: Table, rows: UInt64, estimated: UInt64)?
  /// The table whose target-only columns are saved while a chunk replaces its rows; nil if there is none.
  private(set) var aside: Table?
  /// The tables that were already checked for existing rows when a refresh began.
  var checked: Set<NameKey> = []
  /// The transactions in which refreshes began since the last commit, by the table's lower-case name at the source.
  var begun: [NameKey: UInt64] = [:]
  private var ended = 0

  var table: Table? { current?.table }

  mutating func begin(_ table: Table, estimated: UInt64 = 0) { current = (table, 0, estimated) }

  mutating func noteRow() { current?.rows += 1 }

  /// - Parameter isCopy: Whether the whole table was refreshed, not only some of its rows.
  mutating func end(isCopy: Bool) {
    current = nil
    if isCopy { ended += 1 }
  }

  /// Makes the next chunk count from its first row, because the table's definition at the target has changed.
  mutating func forgetTable() { current = nil }

  mutating func setAside(_ table: Table) { aside = table }

  /// Returns the table whose target-only columns are saved, and forgets it.
  mutating func takeAside() -> Table? {
    defer { aside = nil }
    return aside
  }

  /// Adds what began and ended since the last commit to the progress, and forgets it.
  mutating func report(to progress: inout ApplyProgress.Snapshot) {
    progress.tablesCopied += ended
    progress.copiesBegun.merge(begun) { $1 }
    ended = 0
    begun.removeAll()
  }

  /// The refresh in progress as status shows it.
  func shown(_ name: (Table) -> String) -> (table: String, rows: UInt64, estimated: UInt64)? {
    current.map { (name($0.table), $0.rows, $0.estimated) }
  }
}
