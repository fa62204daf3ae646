import Changes
import Trails
import Versions

/// Rows that waited for a unique value and are back in their tables, with the transactions known here at that time.
///
/// At a node that does not know all of these, such a row may still wait. Then the node's copies lack the row, but it
/// was not deleted.
struct ReturnsFromWaiting {
  private struct Return {
    let row: KeyedRow
    /// The transactions that this node knew when the row came back from waiting, by their trails.
    var numbers: [String: UInt64]
    /// Whether the row came back from waiting by a change that the own trail may not have yet.
    var isOpen: Bool
  }

  /// The number of entries above which all are forgotten: by then, every node knows the first of them.
  static let countMax = 10_000
  private var known: [RowName: [Return]] = [:]
  private var open: Set<RowName> = []
  /// By trail, the transactions that were known here when the last of the forgotten rows came back from waiting.
  private var ofForgotten: [String: UInt64] = [:]

  /// Whether a row came back from waiting by a change that the own trail may not have yet.
  var hasOpen: Bool { !open.isEmpty }

  /// Loads the rows that came back from waiting before this start. If a trail was begun again since, the numbers of the
  /// former trail are dropped.
  /// - Parameter ids: The present trails.
  /// - Parameter reached: The last transaction of the own trail.
  mutating func load(
    _ entries: [StoredReturns.Entry], _ ids: [TrailName: TrailID], own: TrailName, reached: UInt64
  ) {
    let names = Dictionary(ids.map { ($0.value, $0.key.description) }) { first, _ in first }
    for entry in entries {
      var numbers: [String: UInt64] = [:]
      for (id, number) in entry.known { names[id].map { numbers[$0] = max(number, numbers[$0] ?? 0) } }
      // After a loss of the own trail, no author knows what it had.
      if let number = entry.own, number <= reached { numbers[own.description] = number }
      note(entry.row?.keyed, behind: numbers, isOpen: entry.row != nil && entry.own == nil)
    }
  }

  /// Notes that a row which waited is back in its table.
  ///
  /// - Parameter row: The row; nil: any row that this list does not hold.
  /// - Parameter numbers: The transactions known here, by the trails of other nodes; with the own one if the return is
  ///   not open.
  /// - Returns: Whether the list was full, so that all rows before this one are forgotten.
  @discardableResult
  mutating func note(_ row: KeyedRow?, behind numbers: [String: UInt64], isOpen: Bool = true) -> Bool {
    guard let row else {
      ofForgotten = numbers
      return false
    }
    let isFull = known.count >= Self.countMax
    if isFull { (known, open, ofForgotten) = ([:], [], numbers) }
    known[row.name, default: []].removeAll { $0.row.isSame(as: row) }
    known[row.name, default: []].append(Return(row: row, numbers: numbers, isOpen: isOpen))
    if isOpen { open.insert(row.name) }
    return isFull
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

  /// Returns whether a row that came back here may still wait at the author of a transaction.
  ///
  /// - Parameter seen: The transactions of other trails that the author knew.
  func mayWait(_ row: KeyedRow, at author: String, seen: [String: UInt64]) -> Bool {
    func lacks(_ numbers: [String: UInt64]) -> Bool {
      numbers.contains { $0.key != author && $0.value > seen[$0.key] ?? 0 }
    }
    if lacks(ofForgotten) { return true }
    guard let found = known[row.name]?.first(where: { $0.row.isSame(as: row) }) else { return false }
    return found.isOpen || lacks(found.numbers)
  }
}
