import Changes
import Testing

@testable import Applying

/// Rows that are written later in their transaction, because another row has their unique value.
@Suite struct ParkedRowsTests {
  struct Table: ParkingTable {
    var stateName: String
    var rowKey = [0]
    var columnCount = 2
  }
  typealias Rows = ParkedRows<Table, Value>

  private let orders = Table(stateName: "orders")

  private func row(_ table: Table, _ values: [Value], at offset: UInt64 = 1) -> Rows.Row {
    Rows.Row(
      table: table, values: values, position: Position(segment: 1, offset: offset),
      error: CairnError(.rowExists, "row \(offset)", hint: ""))
  }

  private func parked(_ rows: Rows.Row...) throws -> Rows {
    var parked = Rows()
    for row in rows { try parked.add(row) { _ in false } }
    return parked
  }

  @Test func `rows that wait for each other are written, whatever their order`() throws {
    var parked = try parked(row(orders, [1, 3]), row(orders, [2, 4]), row(orders, [3, 5]))
    var taken: Set<Int64> = [3, 4]
    // Each row that is written frees the value of the row before it.
    try parked.settle { row in
      guard case .integer(let value) = row.values[1], !taken.contains(value) else { return false }
      taken.remove(value - 1)
      return true
    }
    #expect(parked.isEmpty)
  }

  @Test func `only the rows of one table are written where one is named`() throws {
    let other = Table(stateName: "items")
    var parked = try parked(row(orders, [1, 1]), row(other, [1, 1]))
    try parked.settle(of: "items") { _ in true }
    #expect(parked.hasRows(of: "orders") && !parked.hasRows(of: "items"))
    parked.forget("orders")
    #expect(parked.isEmpty)
  }

  @Test func `a parked row is found by its key, changed and taken`() throws {
    var parked = try parked(row(orders, [1, 1], at: 8), row(orders, [2, 2], at: 4))
    #expect(parked.start(of: "orders") == Position(segment: 1, offset: 4))
    let areChanged = (
      try parked.update(key: [2], of: orders, [1: "new"]), try parked.update(key: [3], of: orders, [1: "new"])
    )
    #expect(areChanged == (true, false))
    let taken = [[2], [2], []].map { parked.take(key: $0, of: orders)?.values }
    // A table without a key has no row that a key could name.
    #expect(taken == [[2, "new"], nil, nil])
    let other = parked.take(key: [1], of: Table(stateName: "items"))
    #expect(other == nil)
    let left = parked.takeAll()
    #expect(left.count == 1 && parked.isEmpty)
  }

  @Test func `rows follow their table through a schema change that leaves their columns`() throws {
    var parked = try parked(row(orders, [1, 1]))
    try parked.move(from: "orders", to: Table(stateName: "sales"))
    #expect(parked.hasRows(of: "sales") && !parked.hasRows(of: "orders"))
    let error = failure { try parked.move(from: "sales", to: Table(stateName: "sales", columnCount: 3)) }
    #expect(error?.code == .rowExists)
  }

  @Test func `a full list throws the error of the row`() throws {
    var few = Rows(RowBudget(rows: 1))
    try few.add(row(orders, [1, 1])) { _ in false }
    let error = failure { try few.add(row(orders, [2, 2])) { _ in false } }
    #expect(error?.code == .rowExists)
    var small = Rows(RowBudget(rows: 10, bytes: 60))
    try small.add(row(orders, [1, "x"])) { _ in false }
    let full = failure { try small.add(row(orders, [2, "y"])) { _ in false } }
    #expect(full?.code == .rowExists)
    _ = small.take(key: [1], of: orders)
    try small.add(row(orders, [2, "y"])) { _ in false }
  }

  @Test func `values that make a parked row longer need room, too`() throws {
    var rows = Rows(RowBudget(rows: 10, bytes: 200))
    try rows.add(row(orders, [1, "x"])) { _ in false }
    try rows.add(row(orders, [2, "y"])) { _ in false }
    let long = Value.text(Array(repeating: 0x61, count: 500))
    let error = failure { _ = try rows.update(key: [1], of: orders, [1: long]) }
    #expect(error?.code == .rowExists)
    // One row alone may have any size.
    var one = Rows(RowBudget(rows: 10, bytes: 200))
    try one.add(row(orders, [1, long])) { _ in false }
    let more = failure { try one.add(row(orders, [2, "y"])) { _ in false } }
    #expect(more?.code == .rowExists)
  }

  /// Apply looks for parked rows under the target's write lock.
  @Test func `a row is found without a look at each other row`() throws {
    final class Reads { var count = 0 }
    struct Counted: ParkingTable {
      let reads: Reads
      let columnCount = 2
      var stateName: String {
        reads.count += 1
        return "orders"
      }
      var rowKey: [Int] {
        reads.count += 1
        return [0]
      }
    }
    let table = Counted(reads: Reads())
    var rows = ParkedRows<Counted, Value>()
    let count = 2000
    for id in 0..<count {
      let error = CairnError(.rowExists, "row \(id)", hint: "")
      try rows.add(.init(table: table, values: [.integer(Int64(id)), 0], position: .start, error: error)) { _ in false }
    }
    for id in 0..<count {
      let isThere = try rows.update(key: [.integer(Int64(id))], of: table, [1: 1])
      let row = rows.take(key: [.integer(Int64(id))], of: table)
      #expect(isThere && row?.values == [.integer(Int64(id)), 1])
    }
    #expect(rows.isEmpty && table.reads.count <= 20 * count, "\(table.reads.count) reads")
  }

  @Test func `of two rows with one key the later is found`() throws {
    var rows = try parked(row(orders, [1, "a"], at: 1), row(orders, [2, "b"], at: 2), row(orders, [3, "c"], at: 3))
    let isChanged = try rows.update(key: [1], of: orders, [0: 3])
    #expect(isChanged)
    let found = (0..<3).map { _ in rows.take(key: [3], of: orders)?.values }
    #expect(found == [[3, "c"], [3, "a"], nil])
    let other = rows.take(key: [1], of: orders)
    #expect(other == nil && !rows.isEmpty)
  }

  @Test func `keys of PostgreSQL are compared by their bytes`() throws {
    var rows = ParkedRows<Table, String?>()
    let error = CairnError(.rowExists, "", hint: "")
    try rows.add(.init(table: orders, values: ["\u{e9}", "1"], position: .start, error: error)) { _ in false }
    let composed = rows.take(key: ["e\u{301}"], of: orders)
    #expect(composed == nil)
    let own = rows.take(key: ["\u{e9}"], of: orders)
    #expect(own != nil)
  }

  @Test func `a full list writes what it can before it takes another row`() throws {
    func full() throws -> Rows {
      var rows = Rows(RowBudget(rows: 20))
      for id in Int64(0)..<20 { try rows.add(row(orders, [.integer(id), 0])) { _ in false } }
      return rows
    }
    // An attempt to write all rows for each one that comes would take too long.
    var stuck = try full()
    let one = failure { try stuck.add(row(orders, [20, 0])) { $0.values[0] == 0 } }
    #expect(one?.code == .rowExists)
    var rows = try full()
    try rows.add(row(orders, [21, 0])) { $0.values[0] == 1 || $0.values[0] == 2 }
    let left = rows.takeAll().map { $0.values[0] }
    #expect(left == [0] + (Int64(3)..<20).map { Value.integer($0) } + [21])
  }
}
