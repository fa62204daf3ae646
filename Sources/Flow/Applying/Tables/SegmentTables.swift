/// The open tables by the ids of their schema records. An id is valid in its segment of the trail only.
struct SegmentTables<Table> {
  private var segment: UInt64 = 0
  private var tables: [UInt64: Table?] = [:]

  /// Returns the table of a schema record; `.some(nil)` if apply skips the table, nil if it is not open.
  mutating func find(_ id: UInt64, in segment: UInt64) -> Table?? {
    if segment != self.segment {
      self.segment = segment
      forgetAll()
    }
    return tables[id]
  }

  mutating func note(_ table: Table?, _ id: UInt64) { tables[id] = .some(table) }

  mutating func forget(_ id: UInt64, in segment: UInt64) { if segment == self.segment { tables[id] = nil } }

  mutating func forgetAll() { tables.removeAll(keepingCapacity: true) }
}
