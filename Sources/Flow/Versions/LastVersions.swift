/// The last write of each row that has no version left in the window. Such writes are kept as long as the window holds
/// an earlier version of another row. If two rows want one unique value, the later row gets it, so both writes may be
/// compared.
struct LastVersions {
  private static let countMin = 4096
  private var entries: [UInt64: WindowEntry] = [:]
  private var countMax = Self.countMin

  /// Whether last writes are kept. They are not needed if no table has unique columns besides its key.
  var areKept = false
  /// Whether there are so many last writes that a search for unneeded ones is worth its time.
  var isFull: Bool { entries.count > countMax }

  subscript(row: UInt64) -> WindowEntry? { entries[row] }

  mutating func keep(_ entry: WindowEntry, of row: UInt64) { if areKept { entries[row] = entry } }

  /// Forgets last writes before a clock, unless the window holds later versions of their row.
  mutating func forget(before clock: UInt64, unless isHeld: (_ row: UInt64) -> Bool) {
    entries = entries.filter { $0.value.clock >= clock || isHeld($0.key) }
    countMax = max(Self.countMin, 2 * entries.count)
  }
}
