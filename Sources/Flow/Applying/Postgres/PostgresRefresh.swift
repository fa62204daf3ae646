import Changes
import Mapping
import PostgresKit

/// Applies the rows of tables that are read again at the source, in chunks.
final class PostgresRefresh {
  /// The number of keys that one FETCH returns. Compressed keys have up to some 600 KiB.
  private static let fetchedMax = 64

  /// The refreshes that the trail has at present.
  var tracker = RefreshTracker<PostgresApplyTable>()
  private let session: PostgresSession
  private let cursor: TrailCursor
  private let tables: PostgresTables
  private let rows: PostgresRows
  private let copy: PostgresCopy
  private let target: PostgresTarget
  private let resolver: RowResolver<PostgresTarget>?

  init(
    _ session: PostgresSession, _ cursor: TrailCursor, _ tables: PostgresTables, _ rows: PostgresRows,
    _ copy: PostgresCopy, _ target: PostgresTarget, _ resolver: RowResolver<PostgresTarget>?
  ) {
    (self.session, self.cursor, self.tables, self.rows) = (session, cursor, tables, rows)
    (self.copy, self.target, self.resolver) = (copy, target, resolver)
  }

  private var connection: PostgresConnection { session.connection }
  private var sink: PostgresSink { session.sink }
  private var reader: ApplyReader { session.reader }
  private var options: ApplyOptions { session.options }
  private var progress: ApplyProgress { session.progress }
  private var writer: PostgresRowWriter { rows.writer }
  private var texts: RowTexts { rows.writer.texts }
  private var isCareful: Bool { session.isCareful }

  /// Applies the begin, chunk or end of a table's refresh.
  ///
  /// - Parameter isLedElsewhere: Whether a changed rule sends the table's rows to another target table.
  /// - Returns: The method of the refresh, if it begins now.
  func apply(_ refresh: Refresh, _ table: PostgresApplyTable, isLedElsewhere: Bool) throws -> Refresh.Method? {
    let key = table.stateKey
    var known = tables.tables[key] ?? table.state
    try sink.settle()
    switch refresh.event {
    // This record belongs to a copy that was given up for the one that is awaited.
    case _ where known.isAwaited && !refresh.isStart(behind: options.askedBehind, in: cursor.present): break
    case .start(let reason, let method, let estimate):
      if method != .rows { _ = try tables.claimRows(of: table.source, as: table.mapped, key, isCopied: true) }
      let plan = RefreshPlan(reason, method, known, try facts(reason, method, isLedElsewhere, table, known))
      if plan.checksRows { tracker.checked.insert(key) }
      if let refusal = plan.refusal { throw refusal.error(table.mapped.fullName, of: table.source.fullName) }
      known.beginRefresh(method, plan)
      if method != .rows { rows.outOfOrderRows.begin(key) }
      if plan.emptiesTable { try empty(table) }
      known.isEmptied = plan.isEmptied(table.removal)
      try tables.save(key, known)
      tracker.begin(table, estimated: estimate)
      return method
    case .chunk(let range):
      if tracker.table !== table { tracker.begin(table) }
      try resolver?.beginChunk(of: table)
      if case .some = range { writer.isReread = true } else { writer.isReread = false }
      let (state, hasRanges) = (table.state, table.hasRanges)
      if RefreshPlan.clears(range, state.existing, hasRanges: hasRanges, isEmptied: state.isEmptied) {
        try clear(range, table)
      }
    case .end:
      let isCopy = known.endRefresh(table.localWrites, existing: options.existing)
      let isFirst = !known.isLoaded
      if isCopy {
        (known.isEmptied, known.isLoaded) = (false, true)
        rows.outOfOrderRows.end(key)
      }
      try tables.save(key, known)
      tracker.end(isCopy: isCopy)
      if isCopy { try makeWhatWaited(table, isFirst: isFirst) }
    }
    return nil
  }

  private func facts(
    _ reason: Refresh.Reason, _ method: Refresh.Method, _ isLedElsewhere: Bool, _ table: PostgresApplyTable,
    _ known: PostgresApplyState.Table
  ) throws -> RefreshPlan.Facts {
    RefreshPlan.Facts(
      existing: options.existing, existingHolds: options.existingHolds,
      isForOthers: options.isForOthers(reason, isAwaited: known.isAwaited), localWrites: table.localWrites,
      holdsRows: try method != .rows && holdsRows(table), hasRanges: table.hasRanges,
      refusesRows: options.refusesRows || isLedElsewhere,
      areRowsChecked: tracker.checked.contains(table.stateKey.nameKey))
  }

  private func empty(_ table: PostgresApplyTable) throws {
    if table.removal == .applied, let own = try table.ownValues(connection) {
      progress.note(
        "table \(table.mapped.fullName) is emptied for its copy: the values of columns \(own), which only the target has, are deleted"
      )
    }
    try remove(nil, table)
  }

  private func holdsRows(_ table: PostgresApplyTable) throws -> Bool {
    let share = share(table)
    try connection.hold(table.target.rowsName)
    return try connection.first(
      "SELECT 1 FROM \(table.target.rowsName)\(share.condition) LIMIT 1", share.values) != nil
  }

  private func clear(_ range: Refresh.Range, _ table: PostgresApplyTable) throws {
    if table.removal == .applied, let rows = try selection(of: range, table),
      try table.setAside(rows.condition, rows.values, connection)
    {
      tracker.setAside(table)
    }
    try remove(range, table)
  }

  /// Deletes this trail's rows of a key range, or keeps or marks them by a rule. Nil: all of this trail's rows.
  ///
  /// Two-way: keeps a row that has changed at the target if the author of the refresh did not know the change.
  func remove(_ range: Refresh.Range?, _ table: PostgresApplyTable) throws {
    try sink.settle()
    guard let rows = try range.map({ try selection(of: $0, table) }) ?? share(table) else { return }
    if let resolver, table.goesBothWays, !table.isWholeRow { return try removeKnown(rows, table, resolver) }
    switch table.removal {
    case .applied: try connection.run("DELETE FROM \(table.target.rowsName)\(rows.condition)", rows.values)
    case .kept: break
    case .marked(let column):
      guard let index = table.source.columns.firstIndex(where: { $0.name.hasSameBytes(as: column) }) else { return }
      let mark = table.columns[index].name.quotedName
      let condition = rows.condition.isEmpty ? " WHERE" : rows.condition + " AND"
      try connection.run(
        "UPDATE \(table.target.rowsName) SET \(mark) = $\(rows.values.count + 1)::\(table.columns[index].castType)\(condition) \(mark) IS NULL",
        rows.values + [reader.commitTime])
    }
  }

  /// Returns the WHERE clause that selects this trail's rows of a table, with its parameter values. The clause is empty
  /// if all rows belong to the trail.
  private func share(_ table: PostgresApplyTable) -> (condition: String, values: [String?]) {
    var terms: [String] = []
    var values: [String?] = []
    for (index, text) in table.shares {
      values.append(text)
      let column = table.columns[index]
      terms.append("\(column.name.quotedName) \(column.equality) $\(values.count)::\(column.castType)")
    }
    return (terms.isEmpty ? "" : " WHERE \(terms.joined(separator: " AND "))", values)
  }

  /// Called after the rows of a chunk: completes their COPY, and restores the saved values of columns that only the
  /// target has.
  func endChunk() throws {
    try copy.endPiece()
    guard let table = tracker.takeAside() else { return }
    try sink.settle()
    try table.giveBack(connection)
  }

  private func selection(
    of range: Refresh.Range, _ table: PostgresApplyTable
  ) throws -> (condition: String, values: [String?])? {
    switch range {
    case .unkeyed, .some: return nil
    case .row(let values):
      let texts = try keyTexts(values, table, table.key)
      let terms = zip(table.key, texts.indices).map {
        "\(table.columns[$0].name.quotedName) \(table.columns[$0].equality) $\($1 + 1)::\(table.columns[$0].castType)"
      }
      return terms.isEmpty ? nil : (" WHERE \(terms.joined(separator: " AND "))", texts)
    case .nullKeys:
      let terms = table.source.rangeKey.map { "\(table.columns[$0].name.quotedName) IS NULL" }
      let share = share(table)
      let head = share.condition.isEmpty ? " WHERE " : share.condition + " AND "
      return terms.isEmpty ? nil : (head + "(\(terms.joined(separator: " OR ")))", share.values)
    case .keys(let from, let through):
      let key = table.rangeKey
      let columns = key.map { table.ordered($0, table.columns[$0].name.quotedName) }
      let share = share(table)
      var terms = share.condition.isEmpty ? [] : [String(share.condition.dropFirst(7))]
      var values = share.values
      if table.source.flags.contains(.nullableKey) {
        terms += key.map { "\(table.columns[$0].name.quotedName) IS NOT NULL" }
      }
      for (sign, bound) in [(">", from), ("<=", through)] {
        guard let bound else { continue }
        let texts = try keyTexts(bound, table, key)
        let marks = zip(key, texts.indices).map {
          table.ordered($0, "$\(values.count + $1 + 1)::\(table.columns[$0].castType)")
        }
        terms.append("(\(columns.joined(separator: ","))) \(sign) (\(marks.joined(separator: ",")))")
        values += texts
      }
      return (terms.isEmpty ? "" : " WHERE " + terms.joined(separator: " AND "), values)
    }
  }

  private func keyTexts(_ bound: [Value?], _ table: PostgresApplyTable, _ key: [Int]) throws -> [String?] {
    var image = ByteWriter(capacity: 256)
    for value in bound { image.append(value) }
    texts.before.removeAll()
    try writer.encoder.encode(ImageView(bytes: image.bytes), into: &texts.before, table, isNew: false)
    return key.map { $0 < texts.before.count ? texts.before.string($0) : nil }
  }

  // MARK: Rows

  func apply(row image: ImageView, of table: PostgresApplyTable) throws {
    if table.state.isAwaited { return }
    let isAlone = isCareful || (table.state.existing != .overwrite && !table.isWholeRow)
    try copy.end(before: table, isAlone: isAlone)
    texts.before.removeAll()
    try writer.encoder.encode(image, into: &texts.after, table, isNew: true)
    try writer.checkWhole(table)
    tracker.noteRow()
    table.hasNewKeys = true
    // A row that is sent singly must become what the source has.
    let isInPlace = table.state.refreshing == .rows && !table.isWholeRow
    if table.isContested, isInPlace || isAlone { return try takeCopied(table, isInPlace: isInPlace) }
    if isInPlace { return try writer.insertInPlace(table) }
    if isAlone, writer.isExact(table) { return try copy.insertCopied(image, table) }
    guard !isAlone else {
      return try rows.local.resolvingLocalWrites(table, isInsert: true) {
        try rows.insert(table, isLenient: table.mayHoldRows)
      }
    }
    try copy.send(image, into: table)
  }

  // MARK: After the rows

  /// Called at the end of a table's refresh: creates the table's indexes, and the foreign keys whose two tables have
  /// been refreshed.
  private func makeWhatWaited(_ table: PostgresApplyTable, isFirst: Bool) throws {
    try tables.shape.makeIndexes(table.state, of: table.mapped, sink)
    // Another session may keep the table from ANALYZE: autovacuum then analyzes it later.
    if isFirst, table.state.isCreated {
      try connection.execute("ANALYZE (SKIP_LOCKED) \(table.target.qualifiedName)")
    }
    try tables.shape.makeForeignKeys(sink)
    // The table's unique indexes have changed.
    tables.forgetShape(table.stateKey)
  }

  /// Writes a row that a refresh brought. If another row has the same unique value, one of the two becomes a waiting
  /// row.
  ///
  /// - Parameter isInPlace: Whether the row replaces the target's row with its key.
  private func takeCopied(_ table: PostgresApplyTable, isInPlace: Bool) throws {
    do { try isInPlace ? writer.insertInPlace(table) : rows.insert(table, isLenient: true) } catch let error
      as CairnError
      where error.code == .rowExists
    {
      // Only a careful replay shows which of many rows it was.
      guard isCareful else { throw error }
      try resolver?.takeCopied(target.form(of: table).row(texts.after.strings), of: table, isInPlace: isInPlace)
    }
  }

  /// Deletes rows that a refresh replaces, except rows that have changed here if the author of the refresh did not know
  /// the change.
  private func removeKnown(
    _ rows: (condition: String, values: [String?]), _ table: PostgresApplyTable, _ resolver: RowResolver<PostgresTarget>
  ) throws {
    let form = target.form(of: table)
    // A cursor returns the rows that were there when it was opened, whatever happens to them.
    try connection.run("DECLARE cairn_known NO SCROLL CURSOR FOR \(table.keysText)\(rows.condition)", rows.values)
    var keys: [[Value]]
    repeat {
      keys = try connection.query("FETCH \(Self.fetchedMax) FROM cairn_known").map(form.row)
      for row in keys where try resolver.mayRemove(row, of: table) {
        try table.put(nil, table.key.map { row[$0] }, connection)
      }
    } while keys.count == Self.fetchedMax
    try connection.execute("CLOSE cairn_known")
  }
}

extension PostgresApplyTable {
  var removal: TableTreatment.Removal { source.treatment?.removal ?? .applied }

  /// The key columns by which the chunks of a refresh are ordered. Columns with one constant value are left out.
  var rangeKey: [Int] {
    let ordering = source.rangeKey
    return key.filter(ordering.contains)
  }

  /// Whether a key range covers the same rows at source and target, and the target has an index for such ranges.
  var hasRanges: Bool {
    !rangeKey.isEmpty
      && rangeKey.allSatisfy { index in
        let (column, theirs) = (source.columns[index], columns[index])
        switch theirs.type.kind {
        case _ where source.engine == .postgres:
          guard PostgresType(column) == theirs.type else { return false }
          switch ChunkOrder(column) {
          case .native: return true
          case .text: return theirs.sortsByBytes
          case .printed: return false
          }
        case .int2, .int4, .int8, .numeric, .float4, .float8:
          return ["INTEGER", "REAL", "NUMERIC"].contains(column.affinity)
        case .text, .varchar:
          return column.affinity == "TEXT" && theirs.sortsByBytes
            && ["", "BINARY"].contains(column.collation.asciiUppercased)
        case .bytea: return column.affinity == "BLOB"
        default: return false
        }
      }
  }

  /// Returns an SQL expression over a key column that sorts values as the chunks of the source are sorted.
  func ordered(_ index: Int, _ expression: String) -> String {
    source.engine == .postgres
      ? ChunkOrder(source.columns[index]).postgresTerm(expression)
      : columns[index].type.isCollatable ? "\(expression) COLLATE \"C\"" : expression
  }
}
