import Changes

/// The keys of the rows that changes wrote to a table while the table is being copied. Keys have the source's values.
struct EarlyRows {
  /// The maximum number of keys for one table. If there are more, all are dropped, and the list is incomplete.
  private static let keysMax = 100_000
  private var keys: [NameKey: Set<[UInt8]>] = [:]
  /// The tables whose lists of keys are complete, because their copy was seen from its beginning.
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

  /// Returns whether ``EarlyRows`` has all keys that changes wrote to a table since its copy began.
  func isComplete(_ table: String) -> Bool { known.contains(table.nameKey) }
}
