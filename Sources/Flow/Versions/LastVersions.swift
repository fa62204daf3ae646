/// The last write of each row that has no version in the version window any more.
struct LastVersions {
  private static let countMin = 4096
  private var entries: [UInt64: WindowEntry] = [:]
  private var countMax = Self.countMin

  /// Whether the last write of each row is kept, as is needed if a table has unique columns besides its key.
  var areKept = false
  /// Whether there are more last writes of rows than `countMax`, so that old ones should be removed.
  var isFull: Bool { entries.count > countMax }

  subscript(row: UInt64) -> WindowEntry? { entries[row] }

  mutating func keep(_ entry: WindowEntry, of row: UInt64) { if areKept { entries[row] = entry } }

  /// Removes last writes before `clock`, except those of rows in the version window.
  ///
  /// - Parameter isHeld: Returns whether the window has versions of the row.
  mutating func forget(before clock: UInt64, unless isHeld: (_ row: UInt64) -> Bool) {
    entries = entries.filter { $0.value.clock >= clock || isHeld($0.key) }
    countMax = max(Self.countMin, 2 * entries.count)
  }
}
