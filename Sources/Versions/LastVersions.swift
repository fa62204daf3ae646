/// The last writes to rows of which the window holds none any more, as long as it holds an earlier one of another row: of
/// two rows that want one unique value the later one has it, and either may be asked for.
struct LastVersions {
  private static let countMin = 4096
  private var entries: [UInt64: WindowEntry] = [:]
  private var countMax = Self.countMin

  /// False: none is kept, as no rows have unique values but their keys.
  var areKept = false
  /// Whether there may be many that are earlier than all that the window holds.
  var isFull: Bool { entries.count > countMax }

  subscript(row: UInt64) -> WindowEntry? { entries[row] }

  mutating func keep(_ entry: WindowEntry, of row: UInt64) { if areKept { entries[row] = entry } }

  /// Forgets those that are earlier than a clock, of whichever node, unless the window has later versions of the row.
  mutating func forget(before clock: UInt64, unless isHeld: (_ row: UInt64) -> Bool) {
    entries = entries.filter { $0.value.clock >= clock || isHeld($0.key) }
    countMax = max(Self.countMin, 2 * entries.count)
  }
}
