import Versions

/// Rows that waited for a unique value and are here again, with what was known here by then. A node that does not know all
/// of that may have them waiting still: then they are not in its copies, and are not gone all the same.
struct ReturnsFromWaiting {
  /// Where there are more, the first are long known everywhere.
  private static let countMax = 10_000
  private var known: [RowName: [String: UInt64]] = [:]

  /// `numbers`: of transactions, by their trails.
  mutating func note(_ row: RowName, behind numbers: [String: UInt64]) {
    if known.count >= Self.countMax { known.removeAll() }
    known[row] = numbers
  }

  /// `seen`: what the author of a transaction knew of other trails than its own.
  func mayWait(_ row: RowName, at author: String, seen: [String: UInt64]) -> Bool {
    known[row].map { $0.contains { $0.key != author && $0.value > seen[$0.key] ?? 0 } } ?? false
  }
}
