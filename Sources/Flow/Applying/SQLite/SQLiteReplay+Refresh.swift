import Changes
import Mapping
import SQLiteKit

// Rows of copies.
extension SQLiteReplay {
  func apply(_ refresh: Refresh, _ table: TargetTable) throws {
    let name = table.schema.name
    switch refresh.event {
    // This record belongs to a copy that was given up for the one that is awaited.
    case _ where table.state.isAwaited && !refresh.isStart(behind: options.askedBehind, in: number + 1): break
    case .start(let reason, let method, let rows):
      if method != .rows {
        do { _ = try claimRows(of: table.source, as: name, isCopied: true) } catch let error as CairnError {
          throw Refusal(position: reader.position, error: error)
        }
      }
      var known = target.tables[key(name)] ?? .init()
      if reason == .firstCopy, !known.isCreated { known.existing = options.existing }
      let isForOthers = options.isForOthers(reason, isAwaited: table.state.isAwaited)
      if reason == .asked {
        let holds = (options.existingHolds || isForOthers) && method == .byKey && !known.isCreated
        known.existing = holds ? options.existing : .overwrite
      }
      if method != .rows, reason != .firstCopy || known.isCreated, table.localWrites.areSettled {
        let stays = try table.localWrites == .allow && table.holdsRows()
        let isWhole = known.refreshing == nil || known.refreshing == .rows
        known.existing = stays ? (isForOthers && isWhole ? .keep : .merge) : .overwrite
      }
      if options.refusesRows || isLedElsewhere(refresh.schemaID), !known.isCreated, method != .rows,
        started.insert(key(name)).inserted, try table.holdsRows()
      {
        throw ApplyOptions.holdsRows(name)
      }
      (known.refreshing, known.isAwaited) = (method, false)
      known.source = table.state.source
      try save(name, known)
      guard let table = try self.table(refresh.schemaID) else { return }
      if method == .whole {
        if known.existing != .overwrite, try table.holdsRows() {
          throw CairnError(
            .targetDiffers,
            "table \(name) has no key, so \(known.existing.rawValue) cannot identify its rows",
            hint: "empty the table at the target, or use existing = \"overwrite\" (--existing overwrite)",
            context: ["table": name])
        }
        try empty(table)
      }
      // Ranges of keys that sort differently here cannot be emptied one by one.
      if method == .byKey, known.existing == .overwrite, !table.sortsAsSource { try empty(table) }
      (copying, copied, estimated) = (table, 0, rows)
      noteBegin(of: refresh.schemaID, table, method)
    case .chunk(let range):
      if copying?.schema != table.schema { (copying, copied, estimated) = (table, 0, 0) }
      try resolver?.beginChunk(of: table)
      switch range {
      case .row: try clear(range, table)
      case .some: break
      case .nullKeys, .keys, .unkeyed:
        if table.state.existing == .overwrite, table.sortsAsSource { try clear(range, table) }
      }
    case .end:
      var known = target.tables[key(name)] ?? .init()
      if known.refreshing != .rows {
        tablesCopied += 1
        // The effect of the copy on rows that were there is complete.
        if table.localWrites.areSettled { known.existing = known.isCreated ? .overwrite : options.existing }
      }
      known.refreshing = nil
      try save(name, known)
      copying = nil
    }
  }

  func leavesOut(_ change: ChangeView, _ table: TargetTable) -> Bool {
    options.leavesOut(change, in: number + 1, isAwaited: table.state.isAwaited, goesBothWays: table.goesBothWays)
  }

  // MARK: Columns that only the target has

  private func empty(_ table: TargetTable) throws {
    if table.removal == .applied, let own = try table.ownValues() {
      target.progress.note(
        "table \(table.schema.name) is emptied for its copy: the values of columns \(own), which only the target has, are deleted"
      )
    }
    try remove(nil, table)
  }

  private func remove(_ range: Refresh.Range?, _ table: TargetTable) throws {
    if let resolver, table.goesBothWays, !table.schema.key.isEmpty { return try removeKnown(range, table, resolver) }
    try table.remove(range, at: reader.commitTime)
  }

  private func clear(_ range: Refresh.Range, _ table: TargetTable) throws {
    if table.removal == .applied, try table.setAside(range) { aside = table }
    try remove(range, table)
  }

  /// Restores the saved values of columns that only the target has. Called after the rows of a refresh chunk.
  func endChunk() throws {
    guard let table = aside else { return }
    aside = nil
    _ = try write(table) {
      try table.giveBack()
      return 1
    }
  }
}
