/// A set of columns of a table. It is one integer, without an array, for tables of up to 64 columns.
struct ColumnMask: Hashable {
  private var low: UInt64 = 0
  private var high: [UInt64] = []

  init() {}
  init(_ columns: some Sequence<Int>) { for column in columns { insert(column) } }

  mutating func insert(_ column: Int) {
    if column < 64 {
      low |= 1 << UInt64(column)
    } else {
      let word = column / 64 - 1
      while high.count <= word { high.append(0) }
      high[word] |= 1 << UInt64(column % 64)
    }
  }

  mutating func formUnion(_ other: ColumnMask) {
    low |= other.low
    for word in other.high.indices {
      if word < high.count { high[word] |= other.high[word] } else { high.append(other.high[word]) }
    }
  }

  func isDisjoint(with other: ColumnMask) -> Bool {
    low & other.low == 0 && zip(high, other.high).allSatisfy { $0 & $1 == 0 }
  }

  func contains(_ column: Int) -> Bool {
    if column < 64 { return low & (1 << UInt64(column)) != 0 }
    let word = column / 64 - 1
    return word < high.count && high[word] & (1 << UInt64(column % 64)) != 0
  }

  var isEmpty: Bool { low == 0 && high.allSatisfy { $0 == 0 } }
}
