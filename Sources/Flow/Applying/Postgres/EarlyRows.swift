import Changes

/// The keys of rows that changes wrote into a table while its copy was in progress, in the form of the source.
struct EarlyRows {
  /// The most keys that are kept for one table.
  private static let keysMax = 100_000
  private var keys: [NameKey: Set<[UInt8]>] = [:]
  /// The tables whose copy began in this replay, so that all their keys are known.
  private var known: Set<NameKey> = []

  /// Forgets a table's keys, as its copy begins.
  mutating func begin(_ table: String) {
    keys[table.nameKey] = nil
    known.insert(table.nameKey)
  }

  /// Forgets a table's keys, as its copy ends.
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

  /// Returns whether all keys of a table are known: a row with another key did not come with a change.
  func isComplete(_ table: String) -> Bool { known.contains(table.nameKey) }
}
