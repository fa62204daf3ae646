import Changes

/// The tables that have all of their rows in the trail of this database's own capture.
struct WholeTables {
  private var names: Set<NameKey> = []
  private var last: UInt64 = 0
  /// Whether the window has not read the beginning of the trail. If so, each table counts as having all its rows there.
  private var isPassedOver = false

  mutating func take(_ part: TrailScan.Part) {
    if part.header.number > last + 1 { isPassedOver = true }
    last = max(last, part.header.number)
    for name in part.wholeTables { names.insert(name.sqliteKey) }
  }

  func contains(_ table: String) -> Bool { isPassedOver || names.contains(table.sqliteKey) }
}
