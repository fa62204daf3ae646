import Changes
import Testing

@testable import Applying

/// The end of a group, a replay's place in its trail, and the tables that are open there: without any target.
@Suite struct ApplyGroupTests {
  private static let limits = ApplyGroup.Limits(rows: 10, milliseconds: 100, last: 7)

  private func group(_ number: UInt64, origin: String? = nil) -> ApplyGroup {
    var group = ApplyGroup()
    group.last = header(number, origin: origin)
    return group
  }

  private func header(_ number: UInt64, origin: String? = nil) -> TransactionHeader {
    var header = TransactionHeader(number: number, commitTime: 0)
    if let origin { header.hand(on: .init(origin: origin, number: 1), after: 0) }
    return header
  }

  @Test func `a group ends with its rows, its time, or its last transaction`() {
    var group = group(6)
    group.add(changes: 9, areSkipped: false)
    #expect(!group.isDue(Self.limits, age: 100))
    #expect(group.isDue(Self.limits, age: 101))
    group.add(changes: 1, areSkipped: false)
    #expect(group.isDue(Self.limits, age: 0))
    #expect(self.group(7).isDue(Self.limits, age: 0))
  }

  @Test func `changes that apply skips do not fill a group`() {
    var group = group(1)
    group.add(changes: 1_000, areSkipped: true)
    group.add(changes: 10, areSkipped: false)
    group.skipChange()
    #expect(group.rows == 9 && group.changes == 1_010)
    #expect(!group.isDue(Self.limits, age: 0))
  }

  @Test func `a group has transactions of one origin`() {
    #expect(group(1).takes(header(2)))
    #expect(!group(1).takes(header(2, origin: "store")))
    #expect(group(1, origin: "store").takes(header(2, origin: "store")))
    #expect(!group(1, origin: "store").takes(header(2, origin: "till")))
  }

  @Test func `a cursor counts a transaction only at its end`() {
    let cursor = TrailCursor(after: 4)
    #expect(cursor.present == 4 && cursor.whole == 4)
    cursor.begin(header(5), of: "store.a", at: .start)
    cursor.skip()
    #expect(cursor.present == 5 && cursor.whole == 4 && cursor.isSkipped)
    #expect(cursor.place.stamp.number == 5 && cursor.place.stamp.origin == "store.a")
    cursor.end()
    #expect(cursor.whole == 5)
    cursor.begin(header(6), of: "store.a", at: .start)
    #expect(!cursor.isSkipped)
  }

  @Test func `a schema id is valid in its segment only`() {
    var tables = SegmentTables<String>()
    #expect(tables.find(1, in: 3) == nil)
    tables.note("item", 1)
    tables.note(nil, 2)
    #expect(tables.find(1, in: 3) == .some("item"))
    #expect(tables.find(2, in: 3) == .some(nil))
    tables.forget(1, in: 4)
    #expect(tables.find(1, in: 3) == .some("item"))
    tables.forget(1, in: 3)
    #expect(tables.find(1, in: 3) == nil)
    #expect(tables.find(2, in: 4) == nil)
    #expect(tables.find(2, in: 3) == nil)
  }
}
