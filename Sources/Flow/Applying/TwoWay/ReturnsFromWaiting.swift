import Changes
import Trails
import Versions

/// The former waiting rows that are back in their tables, each with the transactions that this node knew at that time.
///
/// At a node that does not know all of these transactions, the row may still be a waiting row.
struct ReturnsFromWaiting {
  private struct Return {
    let row: KeyedRow
    /// The last transaction of each trail that this node knew when the row came back to its table.
    var numbers: [String: UInt64]
    /// Whether this database's own trail may lack the change that brought the row back.
    var isOpen: Bool
  }

  /// The maximum number of rows in the list. When a full list gets another row, all earlier rows are removed, and one
  /// common entry replaces them.
  static let countMax = 10_000
  private var known: [RowName: [Return]] = [:]
  private var open: Set<RowName> = []
  /// The last transaction of each trail that this node knew when the list was last emptied. These numbers are used for
  /// the removed rows.
  private var ofForgotten: [String: UInt64] = [:]

  /// Whether this database's own trail may lack a change that brought a row back.
  var hasOpen: Bool { !open.isEmpty }

  /// Loads the former waiting rows that the target has stored in earlier runs of apply.
  ///
  /// - Parameter ids: The ids of the trails that exist now.
  /// - Parameter reached: The last transaction of this database's own trail.
  mutating func load(
    _ entries: [StoredReturns.Entry], _ ids: [TrailName: TrailID], own: TrailName, reached: UInt64
  ) {
    let names = Dictionary(ids.map { ($0.value, $0.key.description) }) { first, _ in first }
    for entry in entries {
      var numbers: [String: UInt64] = [:]
      for (id, number) in entry.known { names[id].map { numbers[$0] = max(number, numbers[$0] ?? 0) } }
      // After a loss of this database's trail, no author knows what it had.
      if let number = entry.own, number <= reached { numbers[own.description] = number }
      note(entry.row?.keyed, behind: numbers, isOpen: entry.row != nil && entry.own == nil)
    }
  }

  /// Adds a row that is back in its table.
  ///
  /// - Parameter row: The row; nil: `numbers` is for all rows that are not listed.
  /// - Parameter numbers: The last transaction of each trail that this node knows.
  /// - Returns: Whether the list was full, so that all earlier entries were removed.
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

  mutating func noteCaptured(_ own: String, through number: UInt64) {
    for name in open {
      for index in known[name, default: []].indices where known[name]?[index].isOpen == true {
        known[name]?[index].isOpen = false
        known[name]?[index].numbers[own] = number + 1
      }
    }
    open.removeAll()
  }

  /// Returns whether a row that is back in its table here may still be a waiting row at the author of a transaction.
  ///
  /// - Parameter seen: The last transaction of each trail that the author knew.
  func mayWait(_ row: KeyedRow, at author: String, seen: [String: UInt64]) -> Bool {
    func lacks(_ numbers: [String: UInt64]) -> Bool {
      numbers.contains { $0.key != author && $0.value > seen[$0.key] ?? 0 }
    }
    if lacks(ofForgotten) { return true }
    guard let found = known[row.name]?.first(where: { $0.row.isSame(as: row) }) else { return false }
    return found.isOpen || lacks(found.numbers)
  }
}
