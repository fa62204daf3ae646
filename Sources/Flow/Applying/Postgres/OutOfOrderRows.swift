import Changes

/// The keys of the rows that changes have written to a table since its present refresh began. A key consists of the
/// source's values, as in the trail.
struct OutOfOrderRows {
  /// The limit on the keys of all tables. If a key exceeds it, all keys of its table are dropped, and the table's list
  /// counts as incomplete.
  private var budget: RowBudget
  private var keys: [NameKey: Set<[UInt8]>] = [:]
  /// The tables whose lists of keys are complete: apply has read the table's refresh from its beginning, and dropped no
  /// key.
  private var known: Set<NameKey> = []

  init(_ budget: RowBudget = RowBudget(rows: 100_000)) { self.budget = budget }

  mutating func begin(_ table: String) {
    drop(table)
    known.insert(table.nameKey)
  }

  mutating func end(_ table: String) {
    drop(table)
    known.remove(table.nameKey)
  }

  mutating func note(_ key: [UInt8], of table: String) {
    guard !contains(key, of: table) else { return }
    if budget.take(key.count) {
      keys[table.nameKey, default: []].insert(key)
    } else {
      end(table)
    }
  }

  private mutating func drop(_ table: String) {
    for key in keys.removeValue(forKey: table.nameKey) ?? [] { budget.giveBack(key.count) }
  }

  func contains(_ key: [UInt8], of table: String) -> Bool { keys[table.nameKey]?.contains(key) ?? false }

  /// Returns whether this list has all keys that changes wrote to a table since its present refresh began.
  func isComplete(_ table: String) -> Bool { known.contains(table.nameKey) }
}
