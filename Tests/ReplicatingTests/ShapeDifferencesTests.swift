@testable import Replicating
import Comparing
import Testing

@Suite struct ShapeDifferencesTests {
  private func column(_ name: String) -> Difference {
    var difference = Difference(table: "item", kind: .columnMissing)
    difference.column = name
    return difference
  }

  /// Whether each of the differences that a round finds counts.
  private func round(_ shapes: inout ShapeDifferences, _ found: Difference...) -> [Bool] {
    defer { shapes.endRound() }
    return found.map { shapes.confirms($0) }
  }

  @Test func `a table that is under way is none, and one that stays away is one`() {
    var shapes = ShapeDifferences()
    let missing = Difference(table: "item", kind: .tableMissing)
    var found = [round(&shapes, missing)]
    #expect(shapes.areUnconfirmed)
    // It has come; then it is dropped.
    found.append(round(&shapes))
    #expect(!shapes.areUnconfirmed)
    for _ in 0..<3 { found.append(round(&shapes, missing)) }
    #expect(!shapes.areUnconfirmed)
    #expect(found == [[false], [], [false], [true], [true]])
  }

  @Test func `another column or another kind is another difference, and rows count at once`() {
    var shapes = ShapeDifferences()
    let first = round(&shapes, column("a"))
    let second = round(
      &shapes, column("b"), column("a"), Difference(table: "item", kind: .tableExtra),
      Difference(table: "sale", kind: .extra))
    #expect(first == [false] && second == [false, true, false, true])
  }
}
