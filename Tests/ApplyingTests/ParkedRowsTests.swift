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
    for row in rows { try parked.add(row) }
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
    try few.add(row(orders, [1, 1]))
    let error = failure { try few.add(row(orders, [2, 2])) }
    #expect(!few.hasRoom(for: row(orders, [2, 2])) && error?.code == .rowExists)
    var small = Rows(RowBudget(rows: 10, bytes: 60))
    try small.add(row(orders, [1, "x"]))
    #expect(!small.hasRoom(for: row(orders, [2, "y"])))
    _ = small.take(key: [1], of: orders)
    #expect(small.hasRoom(for: row(orders, [2, "y"])))
  }

  @Test func `values that make a parked row longer need room, too`() throws {
    var rows = Rows(RowBudget(rows: 10, bytes: 200))
    try rows.add(row(orders, [1, "x"]))
    try rows.add(row(orders, [2, "y"]))
    let long = Value.text(Array(repeating: 0x61, count: 500))
    let error = failure { _ = try rows.update(key: [1], of: orders, [1: long]) }
    #expect(error?.code == .rowExists)
    // One row alone may have any size.
    var one = Rows(RowBudget(rows: 10, bytes: 200))
    try one.add(row(orders, [1, long]))
    let more = failure { try one.add(row(orders, [2, "y"])) }
    #expect(more?.code == .rowExists)
  }
}
