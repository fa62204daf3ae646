import Versions

/// Rows that waited for a unique value and are here again, with what was known here by then. A node that does not know all
/// of that may have them waiting still: then they are not in its copies, and are not gone all the same.
struct ReturnsFromWaiting {
  private struct Return {
    let row: KeyedRow
    /// Transactions that this node knew when the row came back, by their trails.
    var numbers: [String: UInt64]
    /// The row came back by what the own trail may not have yet.
    var isOpen: Bool
  }

  /// Where there are more, the first are long known everywhere.
  private static let countMax = 10_000
  private var known: [RowName: [Return]] = [:]
  private var open: Set<RowName> = []

  /// `numbers`: of transactions, by the trails of others.
  mutating func note(_ row: KeyedRow, behind numbers: [String: UInt64]) {
    if known.count >= Self.countMax { (known, open) = ([:], []) }
    known[row.name, default: []].removeAll { $0.row.isSame(as: row) }
    known[row.name, default: []].append(Return(row: row, numbers: numbers, isOpen: true))
    open.insert(row.name)
  }

  /// The own trail has all that was written here, through transaction `number`.
  mutating func noteCaptured(_ own: String, through number: UInt64) {
    for name in open {
      for index in known[name, default: []].indices where known[name]?[index].isOpen == true {
        known[name]?[index].isOpen = false
        known[name]?[index].numbers[own] = number + 1
      }
    }
    open.removeAll()
  }

  /// `seen`: what the author of a transaction knew of other trails than its own.
  func mayWait(_ row: KeyedRow, at author: String, seen: [String: UInt64]) -> Bool {
    guard let found = known[row.name]?.first(where: { $0.row.isSame(as: row) }) else { return false }
    return found.isOpen || found.numbers.contains { $0.key != author && $0.value > seen[$0.key] ?? 0 }
  }
}
