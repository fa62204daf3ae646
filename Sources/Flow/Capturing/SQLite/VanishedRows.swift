/// The keys of the rows that the write in progress has replaced.
///
///     vanished.note(keyHash)
///     vanished.mayHave(keyHash)    // true
struct VanishedRows {
  /// A write replaces one row for each unique key at most. A journal that Cairn did not write may have any number.
  private static let countMax = 1024
  /// Hashes of the keys.
  private var keys: Set<Int> = []

  var isEmpty: Bool { keys.isEmpty }

  mutating func note(_ key: Int?) { if let key, keys.count < Self.countMax { keys.insert(key) } }

  /// Returns whether a row with this key was replaced; true also if it is one of too many.
  func mayHave(_ key: Int) -> Bool { keys.contains(key) || keys.count == Self.countMax }

  mutating func removeAll() { if !keys.isEmpty { keys.removeAll() } }
}
