import Changes
import Conflicts
import Mapping
import Testing

@testable import Applying

/// The effect of a refresh on the rows that its target table holds, decided from values.
@Suite struct RefreshPlanTests {
  struct State: TableState {
    var isCreated = false
    var refreshing: Refresh.Method?
    var isAwaited = true
    var existing = ExistingRows.overwrite
  }

  private func plan(
    _ reason: Refresh.Reason = .asked, _ method: Refresh.Method = .byKey, _ state: State = State(),
    existing: ExistingRows = .overwrite, holdsRows: Bool = true, hasRanges: Bool = true,
    _ set: (inout RefreshPlan.Facts) -> Void = { _ in }
  ) -> RefreshPlan {
    var facts = RefreshPlan.Facts(existing: existing, holdsRows: holdsRows, hasRanges: hasRanges)
    set(&facts)
    return RefreshPlan(reason, method, state, facts)
  }

  @Test(arguments: [ExistingRows.keep, .overwrite, .merge])
  func `the first copy of a table that was there follows the option`(existing: ExistingRows) {
    #expect(plan(.firstCopy, existing: existing).existing == existing)
    #expect(plan(.firstCopy, .byKey, State(isCreated: true), existing: existing).existing == .overwrite)
  }

  @Test func `a requested copy overwrites, unless the option holds for it too`() {
    #expect(plan(.asked, .byKey, State(existing: .merge), existing: .keep).existing == .overwrite)
    #expect(plan(.asked, existing: .keep) { $0.existingHolds = true }.existing == .keep)
    #expect(plan(.asked, existing: .keep) { $0.isForOthers = true }.existing == .keep)
    #expect(plan(.asked, .whole, existing: .keep) { $0.existingHolds = true }.existing == .overwrite)
    let created = plan(.asked, .byKey, State(isCreated: true), existing: .keep) { $0.existingHolds = true }
    #expect(created.existing == .overwrite)
    // Any other reason leaves the treatment of the first copy.
    #expect(plan(.repair, .byKey, State(existing: .merge), existing: .keep).existing == .merge)
  }

  @Test func `a later copy keeps rows of applications where the conf allows them`() {
    func existing(
      _ writes: LocalWrites, others: Bool = false, holdsRows: Bool = true, during: Refresh.Method? = nil
    ) -> ExistingRows {
      plan(.asked, .byKey, State(refreshing: during), holdsRows: holdsRows) {
        ($0.localWrites, $0.isForOthers) = (writes, others)
      }.existing
    }
    #expect(existing(.allow) == .merge)
    #expect(existing(.allow, others: true) == .keep)
    // The rows of an interrupted copy are not whole.
    #expect(existing(.allow, others: true, during: .byKey) == .merge)
    #expect(existing(.allow, others: true, holdsRows: false) == .overwrite)
    #expect(existing(.undo) == .overwrite)
    #expect(plan(.firstCopy, existing: .keep) { $0.localWrites = .allow }.existing == .keep)
  }

  @Test func `rows that must not be there refuse the first copy, once in a run`() {
    let first = plan(.firstCopy) { $0.refusesRows = true }
    #expect(first.checksRows && first.refusal == .holdsRows)
    #expect(plan(.firstCopy, holdsRows: false) { $0.refusesRows = true }.refusal == nil)
    #expect(plan(.firstCopy) { ($0.refusesRows, $0.areRowsChecked) = (true, true) }.refusal == nil)
    #expect(!plan(.firstCopy, .rows, holdsRows: false) { $0.refusesRows = true }.checksRows)
    #expect(!plan(.firstCopy, .byKey, State(isCreated: true)) { $0.refusesRows = true }.checksRows)
  }

  @Test func `a table without a key takes rows only where none are, or over them`() {
    #expect(plan(.firstCopy, .whole, existing: .merge).refusal == .keyless(.merge))
    #expect(plan(.firstCopy, .whole, existing: .merge, holdsRows: false).refusal == nil)
    let over = plan(.firstCopy, .whole)
    #expect(over.refusal == nil && over.emptiesTable && over.isEmptied(.applied) && !over.isEmptied(.kept))
    #expect(plan(.firstCopy, .whole, existing: .keep).refusal?.error("t", of: "s").context["table"] == "s")
  }

  @Test func `the begin empties the table if ranges of keys differ`() {
    #expect(plan(hasRanges: false).emptiesTable)
    #expect(!plan(hasRanges: true).emptiesTable && !plan(hasRanges: true).isEmptied(.applied))
    #expect(!plan(.firstCopy, existing: .merge, hasRanges: false).emptiesTable)
    #expect(!plan(.repair, .rows, holdsRows: false, hasRanges: false).emptiesTable)
    #expect(plan(holdsRows: false).isEmptied(.applied) && !plan(.asked, .rows, holdsRows: false).isEmptied(.applied))
    #expect(!plan(.firstCopy, existing: .keep, holdsRows: false).isEmptied(.applied))
  }

  @Test func `a chunk clears its range only if the range has the same rows here`() {
    let all = Refresh.Range.keys(after: nil, through: nil)
    #expect(RefreshPlan.clears(all, .overwrite, hasRanges: true))
    #expect(!RefreshPlan.clears(all, .overwrite, hasRanges: false))
    #expect(!RefreshPlan.clears(all, .overwrite, hasRanges: true, isEmptied: true))
    #expect(!RefreshPlan.clears(all, .merge, hasRanges: true))
    #expect(RefreshPlan.clears(.row([1]), .keep, hasRanges: false, isEmptied: true))
    #expect(!RefreshPlan.clears(.some, .overwrite, hasRanges: true))
  }

  @Test func `the end of a copy restores the option, the end of single rows does not`() {
    func end(_ state: State, _ writes: LocalWrites) -> (isCopy: Bool, existing: ExistingRows) {
      var state = state
      let isCopy = state.endRefresh(writes, existing: .keep)
      #expect(state.refreshing == nil)
      return (isCopy, state.existing)
    }
    #expect(end(State(refreshing: .byKey, existing: .merge), .allow) == (true, .keep))
    #expect(end(State(isCreated: true, refreshing: .byKey, existing: .merge), .undo) == (true, .overwrite))
    #expect(end(State(refreshing: .whole, existing: .merge), .stop) == (true, .merge))
    #expect(end(State(refreshing: .rows, existing: .merge), .allow) == (false, .merge))
  }
}
