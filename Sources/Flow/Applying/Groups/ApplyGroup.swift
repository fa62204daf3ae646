import Changes

/// The transactions that are applied and not yet committed.
struct ApplyGroup {
  /// When a group is committed, if no more urgent reason comes first.
  struct Limits {
    /// The number of changes.
    let rows: Int
    /// The time since the group began, ms.
    let milliseconds: Int64
    /// The last transaction of the group.
    let last: UInt64
  }

  /// The last transaction of the group.
  var last = TransactionHeader(commitTime: 0)
  /// The changes of the transactions, with those that apply skipped.
  private(set) var changes = 0
  private(set) var skipped = 0
  /// Whether the group changes the database. If not, no applied note is written for it.
  var isOfChanges = false

  /// The number of changes that apply wrote.
  var rows: Int { max(0, changes - skipped) }

  mutating func add(changes count: Int, areSkipped: Bool) {
    changes += count
    if areSkipped { skipped += count }
  }

  /// Counts one change that apply leaves out.
  mutating func skipChange() { skipped += 1 }

  /// Returns whether the group must be committed now.
  ///
  /// - Parameter age: The time since the group began, ms.
  func isDue(_ limits: Limits, age: Int64) -> Bool {
    last.number >= limits.last || rows >= limits.rows || age > limits.milliseconds
  }

  /// Returns whether a transaction may be in this group. One commit at the target has one origin.
  func takes(_ header: TransactionHeader) -> Bool { header.relay?.origin == last.relay?.origin }
}
