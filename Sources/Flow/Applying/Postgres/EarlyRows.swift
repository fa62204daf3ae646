import Changes

/// The keys of the rows that changes have written to a table since its present refresh began. A key consists of the
/// source's values, as in the trail.
struct EarlyRows {
  /// The maximum number of keys listed for one table. If a table exceeds it, all its keys are dropped, and its list
  /// counts as incomplete.
  private static let keysMax = 100_000
  private var keys: [NameKey: Set<[UInt8]>] = [:]
  /// The tables whose lists of keys are complete: apply has read the table's refresh from its beginning, and dropped no
  /// key.
  private var known: Set<NameKey> = []

  mutating func begin(_ table: String) {
    keys[table.nameKey] = nil
    known.insert(table.nameKey)
  }

  mutating func end(_ table: String) {
    keys[table.nameKey] = nil
    known.remove(table.nameKey)
  }

  mutating func note(_ key: [UInt8], of table: String) {
    keys[table.nameKey, default: []].insert(key)
    guard keys[table.nameKey]?.count ?? 0 > Self.keysMax else { return }
    keys[table.nameKey] = nil
    known.remove(table.nameKey)
  }

  func contains(_ key: [UInt8], of table: String) -> Bool { keys[table.nameKey]?.contains(key) ?? false }

  /// Returns whether this list has all keys that changes wrote to a table since its present refresh began.
  func isComplete(_ table: String) -> Bool { known.contains(table.nameKey) }
}
