import Changes
import Mapping
import SQLiteKit

/// Applies the rows of tables that are read again at the source, in chunks.
final class SQLiteRefresh {
  private static let keysMax = 1000
  private static let keyBytesMax = 16 << 20

  /// The refreshes that the trail has at present.
  var tracker = RefreshTracker<SQLiteApplyTable>()
  private let tables: SQLiteTables
  private let rows: SQLiteRows
  private let schema: SQLiteSchema
  private let resolver: RowResolver<SQLiteConflictTarget>?

  init(_ schema: SQLiteSchema, _ resolver: RowResolver<SQLiteConflictTarget>?) {
    (tables, rows, self.schema, self.resolver) = (schema.tables, schema.rows, schema, resolver)
  }

  private var target: SQLiteTarget { tables.target }
  private var reader: ApplyReader { tables.reader }
  private var cursor: TrailCursor { tables.cursor }
  private var options: ApplyOptions { tables.options }

  /// Applies the begin, chunk or end of a table's refresh.
  ///
  /// - Parameter isLedElsewhere: Whether a changed rule sends the table's rows to another target table.
  /// - Returns: The method of the refresh and its table, if it begins now.
  func apply(
    _ refresh: Refresh, _ table: SQLiteApplyTable, isLedElsewhere: Bool
  ) throws -> (method: Refresh.Method, table: SQLiteApplyTable)? {
    let name = table.schema.name
    switch refresh.event {
    // This record belongs to a copy that was given up for the one that is awaited.
    case _ where table.state.isAwaited && !refresh.isStart(behind: options.askedBehind, in: cursor.present): break
    case .start(let reason, let method, let rows):
      if method != .rows {
        do { _ = try tables.claimRows(of: table.source, as: name, isCopied: true) } catch let error as CairnError {
          throw SQLiteReplay.Refusal(position: reader.position, error: error)
        }
      }
      var known = target.tables[tables.key(name)] ?? .init()
      let plan = RefreshPlan(reason, method, known, try facts(reason, method, isLedElsewhere, table))
      if plan.checksRows { tracker.checked.insert(tables.key(name)) }
      if let refusal = plan.refusal { throw refusal.error(name, of: name) }
      known.beginRefresh(method, plan)
      known.source = table.state.source
      try tables.save(name, known)
      guard let table = try schema.table(refresh.schemaID) else { return nil }
      if plan.emptiesTable { try empty(table) }
      tracker.begin(table, estimated: rows)
      return (method, table)
    case .chunk(let range):
      if tracker.table?.schema != table.schema { tracker.begin(table) }
      try resolver?.beginChunk(of: table)
      if RefreshPlan.clears(range, table.state.existing, hasRanges: table.sortsAsSource) { try clear(range, table) }
    case .end:
      var known = target.tables[tables.key(name)] ?? .init()
      let isCopy = known.endRefresh(table.localWrites, existing: options.existing)
      try tables.save(name, known)
      tracker.end(isCopy: isCopy)
    }
    return nil
  }

  private func facts(
    _ reason: Refresh.Reason, _ method: Refresh.Method, _ isLedElsewhere: Bool, _ table: SQLiteApplyTable
  ) throws -> RefreshPlan.Facts {
    RefreshPlan.Facts(
      existing: options.existing, existingHolds: options.existingHolds,
      isForOthers: options.isForOthers(reason, isAwaited: table.state.isAwaited), localWrites: table.localWrites,
      holdsRows: try method != .rows && table.holdsRows(), hasRanges: table.sortsAsSource,
      refusesRows: options.refusesRows || isLedElsewhere,
      areRowsChecked: tracker.checked.contains(tables.key(table.schema.name)))
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
    if table.removal == .applied, try table.setAside(range) { tracker.setAside(table) }
    try remove(range, table)
  }

  /// Restores the saved values of columns that only the target has. Called after the rows of a refresh chunk.
  func endChunk() throws {
    guard let table = tracker.takeAside() else { return }
    _ = try rows.write(table) {
      try table.giveBack()
      return 1
    }
  }

  // MARK: Rows

  /// Writes a row that a refresh brought. If another row has the same unique value, one of the two becomes a waiting
  /// row.
  func takeCopied(_ table: SQLiteApplyTable) throws {
    do { _ = try table.insert(rows.after, rows.insertion(of: table, isCopy: true)) } catch let error as SQLiteError
      where error.isUniqueness && table.isContested && resolver != nil
    {
      let row = rows.after.map { $0.value ?? .null }
      try resolver?.takeCopied(row, of: table, isInPlace: table.refreshing == .rows)
    } catch let error as SQLiteError where error.isOfRow {
      throw rows.errors.refused(table, error, rows.before, rows.after)
    }
  }

  /// Deletes all rows of a table, for TRUNCATE. Rows that the author does not know stay.
  func truncate(_ table: SQLiteApplyTable) throws {
    if let resolver, table.goesBothWays { return try removeKnown(nil, table, resolver) }
    try table.remove(nil, at: reader.commitTime)
  }

  /// Deletes this trail's rows of a key range, for a refresh or TRUNCATE; all of its rows if `range` is nil.
  ///
  /// Keeps rows with changes that the author of the refresh or TRUNCATE did not know.
  private func removeKnown(
    _ range: Refresh.Range?, _ table: SQLiteApplyTable, _ resolver: RowResolver<SQLiteConflictTarget>
  ) throws {
    var last: [Value]?
    while true {
      let keys = try table.keys(in: range, after: last, limit: Self.keysMax, bytesMax: Self.keyBytesMax)
      for key in keys {
        var row = [Value](repeating: .null, count: table.schema.columns.count)
        for (index, value) in zip(table.schema.key, key) { row[index] = value }
        if try resolver.mayRemove(row, of: table) { try table.put(nil, key) }
      }
      guard let end = keys.last else { return }
      last = end
    }
  }
}
