import Changes

/// Tables of which the own trail has every row: what the window does not know of one of these is known to all. Of another
/// table it may be a row that is still to be copied into the trail.
struct WholeTables {
  private var names: Set<NameKey> = []
  private var last: UInt64 = 0
  /// Its beginning was not read: whatever was copied then is known.
  private var isPassedOver = false

  mutating func take(_ part: TrailScan.Part) {
    if part.header.number > last + 1 { isPassedOver = true }
    last = max(last, part.header.number)
    for name in part.wholeTables { names.insert(name.sqliteKey) }
  }

  func contains(_ table: String) -> Bool { isPassedOver || names.contains(table.sqliteKey) }
}
