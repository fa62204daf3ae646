import Changes
import Testing

@testable import Applying

/// The lists that apply keeps in memory have a limit of bytes, not only of rows.
@Suite struct RowBudgetTests {
  private let error = CairnError(.rowMissing, "row 1 is missing", hint: "none")

  private func update(_ size: Int) -> OutOfOrderChanges.Update {
    OutOfOrderChanges.Update(
      before: Array(repeating: 1, count: size), after: Array(repeating: 2, count: size), error: error, meet: nil)
  }

  @Test func `a budget counts rows and bytes`() {
    var budget = RowBudget(rows: 2, bytes: 10)
    let first = [6, 5, 4, 0].map { size in budget.take(size) }
    #expect(first == [true, false, true, false])
    budget.giveBack(6)
    let again = budget.take(6)
    #expect(again)
  }

  @Test func `updates of missing rows have a limit of bytes`() throws {
    var early = OutOfOrderChanges(RowBudget(rows: 100, bytes: 100))
    try early.add(update(30), table: "t")
    #expect(throws: CairnError.self) { try early.add(update(30), table: "t") }
    let image = [UInt8](repeating: 1, count: 30)
    let taken = image.withUnsafeBytes { bytes in early.take(table: "t", image: bytes) }
    #expect(taken != nil)
    #expect(early.isEmpty)
    try early.add(update(30), table: "t")
  }

  @Test func `keys of a refresh have a limit of bytes`() {
    var early = OutOfOrderRows(RowBudget(rows: 100, bytes: 100))
    early.begin("t")
    early.note(Array(repeating: 1, count: 60), of: "t")
    #expect(early.isComplete("t"))
    early.note(Array(repeating: 2, count: 60), of: "t")
    #expect(!early.isComplete("t"))
    early.begin("u")
    early.note(Array(repeating: 3, count: 60), of: "u")
    #expect(early.isComplete("u"))
  }

  @Test func `sequences of a group have a limit`() {
    var upkeep = SequenceUpkeep(RowBudget(rows: 2, bytes: 100))
    for name in ["a", "b", "a", "c", String(repeating: "n", count: 2000)] {
      upkeep.note(SequenceState(namespace: "public", name: name, last: 1, increment: 1))
    }
    #expect(upkeep.carriedCount == 2)
  }
}
