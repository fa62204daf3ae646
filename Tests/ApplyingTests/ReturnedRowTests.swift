import Changes
import Conflicts
import Testing

@testable import Applying

/// A row that comes back, as deletes of it do not count, is the same whether what was before them is remembered or not.
@Suite struct ReturnedRowTests {
  private func row(_ name: String) -> RowVersion.Row { [.integer(1), .text(Array(name.utf8))] }

  private func returned(_ versions: [RowVersion]) throws -> String? {
    let row = try ResolvedRow.row(RowHistory(versions), ConflictRules(), columns: ["id", "name"]) { !$0.isDelete }
    return row?[1]?.string
  }

  @Test func `it is as the last who deleted it had it`() throws {
    let first = RowVersion(VersionStamp(clock: 2, origin: "a.db", number: 1), .insert(row("first")))
    let second = RowVersion(VersionStamp(clock: 1, origin: "b.db", number: 1), .insert(row("second")))
    // It ends the second one only: the first is later, and was inserted by a node that had neither.
    let delete = RowVersion(VersionStamp(clock: 3, origin: "b.db", number: 2), .delete(before: row("second")))
    let last = RowVersion(
      VersionStamp(clock: 4, origin: "c.db", number: 1), seen: ["a.db": 1, "b.db": 2], .delete(before: row("first")))
    #expect(try returned([first, second, delete, last]) == "first")
    #expect(try returned([last]) == "first")
    #expect(try returned([second, delete]) == "second")
    #expect(try returned([delete]) == "second")
  }

  @Test func `a delete that counts leaves nothing`() throws {
    let insert = RowVersion(VersionStamp(clock: 1, origin: "a.db", number: 1), .insert(row("first")))
    let deletes = ["b.db", "c.db"].map { origin in
      RowVersion(
        VersionStamp(clock: 2, origin: origin, number: 1), seen: ["a.db": 1], .delete(before: row("first")))
    }
    let left = try ResolvedRow.row(RowHistory([insert] + deletes), ConflictRules(), columns: ["id", "name"]) {
      $0.stamp.origin != "b.db"
    }
    #expect(left == nil)
  }
}
