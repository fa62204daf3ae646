import Changes

/// The tables of which the own trail has every row. A row of such a table that the window does not hold is known to
/// every node. A row of another table may still have to be copied into the trail.
struct WholeTables {
  private var names: Set<NameKey> = []
  private var last: UInt64 = 0
  /// Whether the beginning of the trail was not read, so that its copies are unknown to this list and count as known to
  /// all.
  private var isPassedOver = false

  mutating func take(_ part: TrailScan.Part) {
    if part.header.number > last + 1 { isPassedOver = true }
    last = max(last, part.header.number)
    for name in part.wholeTables { names.insert(name.sqliteKey) }
  }

  func contains(_ table: String) -> Bool { isPassedOver || names.contains(table.sqliteKey) }
}
