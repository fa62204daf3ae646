/// The last writes to rows that have no version left in the window. They are kept as long as the window holds an
/// earlier version of another row: the later of two rows gets a unique value, so the last write of either may be
/// needed.
struct LastVersions {
  private static let countMin = 4096
  private var entries: [UInt64: WindowEntry] = [:]
  private var countMax = Self.countMin

  /// Whether last versions are kept. Not needed if no table has unique columns besides its key.
  var areKept = false
  /// Whether it is worth looking for entries that are earlier than everything in the window.
  var isFull: Bool { entries.count > countMax }

  subscript(row: UInt64) -> WindowEntry? { entries[row] }

  mutating func keep(_ entry: WindowEntry, of row: UInt64) { if areKept { entries[row] = entry } }

  /// Forgets entries before a clock, of any node, unless the window holds later versions of the row.
  mutating func forget(before clock: UInt64, unless isHeld: (_ row: UInt64) -> Bool) {
    entries = entries.filter { $0.value.clock >= clock || isHeld($0.key) }
    countMax = max(Self.countMin, 2 * entries.count)
  }
}
