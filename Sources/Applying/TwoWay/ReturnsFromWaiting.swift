import Versions

/// Rows that waited for a unique value and are here again, with what was known here by then. A node that does not know all
/// of that may have them waiting still: then they are not in its copies, and are not gone all the same.
struct ReturnsFromWaiting {
  /// Where there are more, the first are long known everywhere.
  private static let countMax = 10_000
  private var known: [RowName: [String: UInt64]] = [:]
  /// Rows that came back by what the own trail may not have yet.
  private var open: Set<RowName> = []

  /// `numbers`: of transactions, by the trails of others.
  mutating func note(_ row: RowName, behind numbers: [String: UInt64]) {
    if known.count >= Self.countMax { (known, open) = ([:], []) }
    known[row] = numbers
    open.insert(row)
  }

  /// The own trail has all that was written here, through transaction `number`.
  mutating func noteCaptured(_ own: String, through number: UInt64) {
    for row in open { known[row]?[own] = number + 1 }
    open.removeAll()
  }

  /// `seen`: what the author of a transaction knew of other trails than its own.
  func mayWait(_ row: RowName, at author: String, seen: [String: UInt64]) -> Bool {
    guard let numbers = known[row] else { return false }
    return open.contains(row) || numbers.contains { $0.key != author && $0.value > seen[$0.key] ?? 0 }
  }
}
