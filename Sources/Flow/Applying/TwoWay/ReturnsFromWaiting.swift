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

    /// The memory that the entry takes, in bytes.
    var bytes: Int {
      numbers.keys.reduce(row.key.reduce(128) { $0 + $1.memoryBytes }) { $0 + 32 + $1.utf8.count }
    }
  }

  /// The maximum number of rows in the list. When a full list gets another row, all earlier rows are removed, and one
  /// common entry replaces them.
  static let countMax = 10_000
  private var budget: RowBudget
  private var known: [RowName: [Return]] = [:]
  private var open: Set<RowName> = []
  /// The last transaction of each trail that this node knew when the list was last emptied. These numbers are used for
  /// the removed rows.
  private var ofForgotten: [String: UInt64] = [:]
  /// Whether this database's own trail may lack a change that brought a removed row back.
  private var isForgottenOpen = false

  /// Creates an empty list.
  init(_ budget: RowBudget = RowBudget(rows: countMax, bytes: 16 << 20)) { self.budget = budget }

  /// Whether this database's own trail may lack a change that brought a row back.
  var hasOpen: Bool { !open.isEmpty || isForgottenOpen }

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
    let entry = Return(row: row, numbers: numbers, isOpen: isOpen)
    if let index = known[row.name]?.firstIndex(where: { $0.row.isSame(as: row) }),
      let earlier = known[row.name]?.remove(at: index)
    {
      budget.giveBack(earlier.bytes)
    }
    let isFull = !budget.take(entry.bytes)
    if isFull {
      forgetAll()
      ofForgotten.merge(numbers) { max($0, $1) }
      _ = budget.take(entry.bytes)
    }
    known[row.name, default: []].append(entry)
    if isOpen { open.insert(row.name) }
    return isFull
  }

  private mutating func forgetAll() {
    for earlier in known.values.joined() { ofForgotten.merge(earlier.numbers) { max($0, $1) } }
    isForgottenOpen = hasOpen
    (known, open) = ([:], [])
    budget.clear()
  }

  mutating func noteCaptured(_ own: String, through number: UInt64) {
    for name in open {
      for index in known[name, default: []].indices where known[name]?[index].isOpen == true {
        known[name]?[index].isOpen = false
        let before = known[name]?[index].bytes ?? 0
        known[name]?[index].numbers[own] = number + 1
        // The entry keeps its place, even if the list has become larger than its budget.
        budget.replace(before, by: known[name]?[index].bytes ?? 0)
      }
    }
    open.removeAll()
    if isForgottenOpen { ofForgotten[own] = max(number + 1, ofForgotten[own] ?? 0) }
    isForgottenOpen = false
  }

  /// Returns whether a row that is back in its table here may still be a waiting row at the author of a transaction.
  ///
  /// - Parameter seen: The last transaction of each trail that the author knew.
  func mayWait(_ row: KeyedRow, at author: String, seen: [String: UInt64]) -> Bool {
    func lacks(_ numbers: [String: UInt64]) -> Bool {
      numbers.contains { $0.key != author && $0.value > seen[$0.key] ?? 0 }
    }
    if isForgottenOpen || lacks(ofForgotten) { return true }
    guard let found = known[row.name]?.first(where: { $0.row.isSame(as: row) }) else { return false }
    return found.isOpen || lacks(found.numbers)
  }
}
