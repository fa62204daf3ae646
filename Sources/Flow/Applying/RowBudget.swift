/// A limit on the number of rows in memory and on their bytes.
///
/// A count alone limits no memory: a small compressed trail can have rows of 16 MiB each.
struct RowBudget {
  let rowsMax: Int
  let bytesMax: Int
  private(set) var rows = 0
  private(set) var bytes = 0

  init(rows: Int, bytes: Int = 64 << 20) { (rowsMax, bytesMax) = (rows, bytes) }

  /// Returns whether the budget has room for a row of this size. One row alone may have any size: apply has it in
  /// memory anyway.
  func hasRoom(for size: Int) -> Bool { rows == 0 || rows < rowsMax && size <= bytesMax - bytes }

  /// Counts a row. Returns false, and counts nothing, if the budget has no room for the row.
  mutating func take(_ size: Int) -> Bool {
    guard hasRoom(for: size) else { return false }
    rows += 1
    bytes += size
    return true
  }

  mutating func giveBack(_ size: Int) {
    rows -= 1
    bytes -= size
  }

  /// Counts another size for a row that is counted already.
  mutating func replace(_ size: Int, by other: Int) { bytes += other - size }

  mutating func clear() { (rows, bytes) = (0, 0) }
}
