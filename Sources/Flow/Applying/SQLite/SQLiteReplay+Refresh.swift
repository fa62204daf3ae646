import Changes
import Mapping
import SQLiteKit

// Rows of copies.
extension SQLiteReplay {
  func apply(_ refresh: Refresh, _ table: SQLiteApplyTable) throws {
    let name = table.schema.name
    switch refresh.event {
    // This record belongs to a copy that was given up for the one that is awaited.
    case _ where table.state.isAwaited && !refresh.isStart(behind: options.askedBehind, in: cursor.present): break
    case .start(let reason, let method, let rows):
      if method != .rows {
        do { _ = try claimRows(of: table.source, as: name, isCopied: true) } catch let error as CairnError {
          throw Refusal(position: reader.position, error: error)
        }
      }
      var known = target.tables[key(name)] ?? .init()
      let plan = RefreshPlan(reason, method, known, try facts(reason, method, refresh.schemaID, table))
      if plan.checksRows { refreshes.checked.insert(key(name)) }
      if let refusal = plan.refusal { throw refusal.error(name, of: name) }
      known.beginRefresh(method, plan)
      known.source = table.state.source
      try save(name, known)
      guard let table = try self.table(refresh.schemaID) else { return }
      if plan.emptiesTable { try empty(table) }
      refreshes.begin(table, estimated: rows)
      noteBegin(of: refresh.schemaID, table.source, method)
    case .chunk(let range):
      if refreshes.table?.schema != table.schema { refreshes.begin(table) }
      try resolver?.beginChunk(of: table)
      if RefreshPlan.clears(range, table.state.existing, hasRanges: table.sortsAsSource) { try clear(range, table) }
    case .end:
      var known = target.tables[key(name)] ?? .init()
      let isCopy = known.endRefresh(table.localWrites, existing: options.existing)
      try save(name, known)
      refreshes.end(isCopy: isCopy)
    }
  }

  private func facts(
    _ reason: Refresh.Reason, _ method: Refresh.Method, _ id: UInt64, _ table: SQLiteApplyTable
  ) throws -> RefreshPlan.Facts {
    RefreshPlan.Facts(
      existing: options.existing, existingHolds: options.existingHolds,
      isForOthers: options.isForOthers(reason, isAwaited: table.state.isAwaited), localWrites: table.localWrites,
      holdsRows: try method != .rows && table.holdsRows(), hasRanges: table.sortsAsSource,
      refusesRows: options.refusesRows || isLedElsewhere(id),
      areRowsChecked: refreshes.checked.contains(key(table.schema.name)))
  }

  // MARK: Columns that only the target has

  private func empty(_ table: SQLiteApplyTable) throws {
    if table.removal == .applied, let own = try table.ownValues() {
      target.progress.note(
        "table \(table.schema.name) is emptied for its copy: the values of columns \(own), which only the target has, are deleted"
      )
    }
    try remove(nil, table)
  }

  private func remove(_ range: Refresh.Range?, _ table: SQLiteApplyTable) throws {
    if let resolver, table.goesBothWays, !table.schema.key.isEmpty { return try removeKnown(range, table, resolver) }
    try table.remove(range, at: reader.commitTime)
  }

  private func clear(_ range: Refresh.Range, _ table: SQLiteApplyTable) throws {
    if table.removal == .applied, try table.setAside(range) { refreshes.setAside(table) }
    try remove(range, table)
  }

  /// Restores the saved values of columns that only the target has. Called after the rows of a refresh chunk.
  func endChunk() throws {
    guard let table = refreshes.takeAside() else { return }
    _ = try write(table) {
      try table.giveBack()
      return 1
    }
  }
}
