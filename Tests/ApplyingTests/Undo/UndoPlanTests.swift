import Changes
import Testing

@testable import Applying

/// The decision about an undo, without a database.
@Suite struct UndoPlanTests {
  static let item = TableSchema(
    epoch: 1, engine: .sqlite, name: "item",
    columns: [.init(name: "id", declaredType: "INTEGER", keyOrdinal: 1), .init(name: "name"), .init(name: "price")])
  static let log = TableSchema(
    epoch: 1, engine: .sqlite, name: "log", flags: .wholeRow, columns: [.init(name: "a"), .init(name: "b")])
  private static let later = UndoWriter(number: 9, node: "till", time: 5)

  private func row(_ values: Int64?...) -> [Value?] { values.map { $0.map { .integer($0) } } }

  private func kinds(_ plan: UndoPlan, _ isForced: Bool = false) -> [String] {
    plan.refusals(isForced: isForced).map { $0.kind + ($0.column.map { " " + $0 } ?? "") }
  }

  private func steps(_ plan: UndoPlan) -> [String] {
    plan.steps.map { step in
      switch step.kind {
      case .insert(let values): "\(step.row) insert \(values.map { $0.shown(max: 9) }.joined(separator: " "))"
      case .delete: "\(step.row) delete"
      case .update(let set):
        "\(step.row) "
          + set.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value.shown(max: 9))" }.joined(separator: " ")
      }
    }
  }

  @Test func `the steps lead back in reverse order, and write only changed columns`() {
    var plan = UndoPlan()
    plan.note(.insert, Self.item, before: nil, after: row(1, 2, 3))
    plan.note(.update, Self.item, before: row(7, 1, 1), after: row(7, 1, 5))
    plan.note(.update, Self.item, before: row(7, 1, 5), after: row(8, 1, nil))
    plan.note(.delete, Self.item, before: row(9, 1, 1), after: nil)
    #expect(steps(plan) == ["2 insert 9 1 1", "1 0=7", "1 2=1", "0 delete"])
    #expect(plan.refusals(isForced: false).isEmpty)
    #expect(plan.count == 4)
  }

  @Test func `a row that the transaction left as it was has no steps`() {
    var plan = UndoPlan()
    plan.note(.insert, Self.item, before: nil, after: row(1, 2, 3))
    plan.note(.delete, Self.item, before: row(1, 2, 3), after: nil)
    plan.note(.update, Self.item, before: row(7, 1, 1), after: row(7, 1, 5))
    plan.note(.update, Self.item, before: row(7, 1, 5), after: row(7, 1, 1))
    plan.noteLater(.update, Self.item, before: row(7, 1, 1), after: row(7, 1, 6), by: Self.later)
    #expect(plan.steps.isEmpty && plan.refusals(isForced: false).isEmpty)
  }

  @Test func `later writes of the same columns are refused, and those of other columns are not`() {
    var plan = UndoPlan()
    plan.note(.update, Self.item, before: row(7, 1, 1), after: row(7, 1, 5))
    plan.noteLater(.update, Self.item, before: row(7, 1, 5), after: row(7, 2, 5), by: Self.later)
    plan.noteLater(.update, Self.item, before: row(7, 2, 5), after: row(17, 2, 5), by: Self.later)
    plan.noteLater(.update, Self.item, before: row(7, 0, 0), after: row(7, 0, 1), by: Self.later)
    #expect(kinds(plan).isEmpty)
    #expect(plan.rows[0].latest == row(17, 2, 5))
    // Without an image before, the value that the trail had last says whether the column was written.
    plan.noteLater(.update, Self.item, before: nil, after: row(17, 3, 5), by: Self.later)
    #expect(kinds(plan).isEmpty)
    plan.noteLater(.update, Self.item, before: nil, after: row(17, 3, 6), by: Self.later)
    #expect(kinds(plan) == ["written price"])
    #expect(
      plan.refusals(isForced: false)[0].text
        == "table item, id = 17, column price: written since, by \(Self.later.text)")
    #expect(kinds(plan, true).isEmpty)
  }

  @Test func `rows that were deleted or inserted since are refused`() {
    var plan = UndoPlan()
    plan.note(.update, Self.item, before: row(7, 1, 1), after: row(7, 1, 5))
    plan.note(.insert, Self.item, before: nil, after: row(1, 2, 3))
    plan.note(.delete, Self.item, before: row(9, 1, 1), after: nil)
    plan.noteLater(.delete, Self.item, before: row(7, 1, 5), after: nil, by: Self.later)
    plan.noteLater(.update, Self.item, before: row(1, 2, 3), after: row(1, 2, 4), by: Self.later)
    plan.noteLater(.insert, Self.item, before: nil, after: row(9, 8, 8), by: Self.later)
    #expect(kinds(plan) == ["deleted", "written price", "inserted"])
    #expect(kinds(plan, true).isEmpty)
    #expect(plan.written(isForced: true) == [1, 2])
  }

  @Test func `a later truncation deletes all rows`() {
    var plan = UndoPlan()
    plan.note(.insert, Self.item, before: nil, after: row(1, 2, 3))
    plan.note(.insert, Self.log, before: nil, after: row(1, 2))
    plan.noteLater(.truncate, Self.item, before: nil, after: nil, by: Self.later)
    #expect(kinds(plan) == ["deleted"])
  }

  @Test func `a key that a row of the same transaction took is no key of another row`() {
    var plan = UndoPlan()
    plan.note(.delete, Self.item, before: row(7, 1, 1), after: nil)
    plan.note(.insert, Self.item, before: nil, after: row(7, 2, 2))
    #expect(steps(plan) == ["1 delete", "0 insert 7 1 1"])
    plan.noteLater(.update, Self.item, before: row(7, 2, 2), after: row(7, 3, 2), by: Self.later)
    #expect(kinds(plan) == ["written name"])
  }

  @Test func `values that the trail does not give are refused, also with force`() {
    var plan = UndoPlan()
    plan.note(.update, Self.item, before: nil, after: row(7, 1, 5))
    plan.note(.delete, Self.item, before: row(8, nil, nil), after: nil)
    plan.note(.truncate, Self.log, before: nil, after: nil)
    plan.refuse(Self.item, .copied)
    plan.noteReshaped(Self.item, by: Self.later)
    #expect(kinds(plan, true) == ["unknown name", "unknown name", "truncated", "copied", "reshaped"])
    // An unknown column that the transaction did not write does no harm.
    plan = UndoPlan()
    plan.note(.update, Self.item, before: row(7, nil, 1), after: row(7, nil, 5))
    #expect(kinds(plan).isEmpty && steps(plan) == ["0 2=1"])
  }

  @Test func `equal rows of a table without a key are one as good as another`() {
    var plan = UndoPlan()
    plan.note(.insert, Self.log, before: nil, after: row(1, 1))
    plan.note(.insert, Self.log, before: nil, after: row(1, 1))
    plan.note(.update, Self.log, before: row(2, 2), after: row(2, 3))
    plan.noteLater(.insert, Self.log, before: nil, after: row(1, 1), by: Self.later)
    #expect(kinds(plan).isEmpty)
    plan.noteLater(.update, Self.log, before: row(2, 3), after: row(4, 3), by: Self.later)
    #expect(kinds(plan).isEmpty && plan.rows[2].latest == row(4, 3))
    plan.noteLater(.delete, Self.log, before: row(1, 1), after: nil, by: Self.later)
    #expect(kinds(plan) == ["deleted"])
  }

  @Test func `changes of a table without columns are refused`() {
    let bare = TableSchema(epoch: 1, engine: .postgres, name: "bare", flags: .wholeRow, columns: [])
    for operation in [Changes.Operation.insert, .update, .delete] {
      var plan = UndoPlan()
      plan.note(operation, bare, before: operation == .insert ? nil : [], after: operation == .delete ? nil : [])
      plan.noteLater(.update, bare, before: [], after: [], by: Self.later)
      plan.noteLater(.delete, bare, before: [], after: nil, by: Self.later)
      #expect(plan.steps.isEmpty)
      if operation != .update { #expect(kinds(plan) == ["unknown"]) }
    }
  }
}
