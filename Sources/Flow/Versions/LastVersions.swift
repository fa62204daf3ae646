/// The last write of each row that has no version in the version window any more.
///
/// If two rows get the same unique value, the row written later keeps it, so the last write of each row is needed. A
/// last write is kept as long as the window has an earlier version of any row.
struct LastVersions {
  private static let countMin = 4096
  private var entries: [UInt64: WindowEntry] = [:]
  private var countMax = Self.countMin

  /// Whether the last writes of rows are kept. They are needed only if a table has unique columns besides its key.
  var areKept = false
  /// Whether there are more last writes than `countMax`. Those that are not needed any more should then be removed.
  var isFull: Bool { entries.count > countMax }

  subscript(row: UInt64) -> WindowEntry? { entries[row] }

  mutating func keep(_ entry: WindowEntry, of row: UInt64) { if areKept { entries[row] = entry } }

  /// Forgets last writes whose clock is earlier than `clock`, except those of rows that still have versions in the
  /// version window (`isHeld`).
  mutating func forget(before clock: UInt64, unless isHeld: (_ row: UInt64) -> Bool) {
    entries = entries.filter { $0.value.clock >= clock || isHeld($0.key) }
    countMax = max(Self.countMin, 2 * entries.count)
  }
}
