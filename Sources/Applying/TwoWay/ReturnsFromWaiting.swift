import Versions

/// Rows that waited for a unique value and are back in their tables, with the transactions known here at that time.
///
/// At a node that does not know all of these, such a row may still wait. Then the node's copies lack the row, but it
/// was not deleted.
struct ReturnsFromWaiting {
  private struct Return {
    let row: KeyedRow
    /// The transactions that this node knew when the row came back, by their trails.
    var numbers: [String: UInt64]
    /// Whether the row came back by a change that the own trail may not have yet.
    var isOpen: Bool
  }

  /// The number of names at which all are forgotten: by then, the first are known everywhere.
  private static let countMax = 10_000
  private var known: [RowName: [Return]] = [:]
  private var open: Set<RowName> = []
  /// The transactions known here when this list began, by their trails. Any row may have come back before.
  private var atBegin: [String: UInt64] = [:]

  /// Begins the list, at a start.
  ///
  /// - Parameter numbers: The transactions known here, by their trails.
  mutating func begin(behind numbers: [String: UInt64]) { atBegin = numbers }

  /// - Parameter numbers: The transactions known here, by the trails of other nodes.
  mutating func note(_ row: KeyedRow, behind numbers: [String: UInt64]) {
    if known.count >= Self.countMax {
      (known, open) = ([:], [])
      begin(behind: numbers)
    }
    known[row.name, default: []].removeAll { $0.row.isSame(as: row) }
    known[row.name, default: []].append(Return(row: row, numbers: numbers, isOpen: true))
    open.insert(row.name)
  }

  /// Records that the own trail has everything that was written here, through transaction `number`.
  mutating func noteCaptured(_ own: String, through number: UInt64) {
    for name in open {
      for index in known[name, default: []].indices where known[name]?[index].isOpen == true {
        known[name]?[index].isOpen = false
        known[name]?[index].numbers[own] = number + 1
      }
    }
    open.removeAll()
  }

  /// Returns whether a row may still wait at the author of a transaction.
  ///
  /// - Parameter seen: The transactions of other trails that the author knew.
  func mayWait(_ row: KeyedRow, at author: String, seen: [String: UInt64]) -> Bool {
    func lacks(_ numbers: [String: UInt64]) -> Bool {
      numbers.contains { $0.key != author && $0.value > seen[$0.key] ?? 0 }
    }
    if lacks(atBegin) { return true }
    guard let found = known[row.name]?.first(where: { $0.row.isSame(as: row) }) else { return false }
    return found.isOpen || lacks(found.numbers)
  }
}
