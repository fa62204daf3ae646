import Changes

/// For each table that is being copied, the keys of the rows that changes outside the copy wrote to it. Keys have the
/// source's values.
struct EarlyRows {
  /// The most keys that are kept for one table. If there are more, all are dropped, and the list is incomplete.
  private static let keysMax = 100_000
  private var keys: [NameKey: Set<[UInt8]>] = [:]
  /// The tables whose copy this reader of the trail has seen from its beginning. Their lists of keys are complete.
  private var known: Set<NameKey> = []

  /// Removes a table's keys when a copy of it begins.
  mutating func begin(_ table: String) {
    keys[table.nameKey] = nil
    known.insert(table.nameKey)
  }

  /// Removes a table's keys when its copy ends.
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

  /// Returns whether the list of a table's keys is complete. If so, no change has written a row with any other key
  /// during the copy.
  func isComplete(_ table: String) -> Bool { known.contains(table.nameKey) }
}
