import Changes
import Mapping
import PostgresKit

// Rows of a table that are read again at the source, in chunks.
extension PostgresReplay {
  /// The maximum size of the rows that apply sends by COPY before it reads the server's answer, in bytes.
  private static let pieceBytesMax = 4 << 20

  func apply(_ refresh: Refresh) throws {
    guard let table = try table(refresh.schemaID) else { return }
    let key = table.stateKey
    var known = tables[key] ?? table.state
    try sink.settle()
    switch refresh.event {
    // This record belongs to a copy that was given up for the one that is awaited.
    case _ where known.isAwaited && !refresh.isStart(behind: options.askedBehind, in: cursor.present): break
    case .start(let reason, let method, let rows):
      if method != .rows { _ = try claimRows(of: table.source, as: table.mapped, key, isCopied: true) }
      let plan = RefreshPlan(reason, method, known, try facts(reason, method, refresh.schemaID, table, known))
      if plan.checksRows { refreshes.checked.insert(key) }
      if let refusal = plan.refusal { throw refusal.error(table.mapped.fullName, of: table.source.fullName) }
      known.beginRefresh(method, plan)
      if method != .rows { outOfOrderRows.begin(key) }
      if plan.emptiesTable { try empty(table) }
      known.isEmptied = plan.isEmptied(table.removal)
      try save(key, known)
      refreshes.begin(table, estimated: rows)
      noteBegin(of: refresh.schemaID, table.source, method)
    case .chunk(let range):
      if refreshes.table !== table { refreshes.begin(table) }
      try resolver?.beginChunk(of: table)
      if case .some = range { isReread = true } else { isReread = false }
      let (state, hasRanges) = (table.state, table.hasRanges)
      if RefreshPlan.clears(range, state.existing, hasRanges: hasRanges, isEmptied: state.isEmptied) {
        try clear(range, table)
      }
    case .end:
      let isCopy = known.endRefresh(table.localWrites, existing: options.existing)
      let isFirst = !known.isLoaded
      if isCopy {
        (known.isEmptied, known.isLoaded) = (false, true)
        outOfOrderRows.end(key)
      }
      try save(key, known)
      refreshes.end(isCopy: isCopy)
      if isCopy { try makeWhatWaited(table, isFirst: isFirst) }
    }
  }

  private func facts(
    _ reason: Refresh.Reason, _ method: Refresh.Method, _ id: UInt64, _ table: PostgresApplyTable,
    _ known: PostgresApplyState.Table
  ) throws -> RefreshPlan.Facts {
    RefreshPlan.Facts(
      existing: options.existing, existingHolds: options.existingHolds,
      isForOthers: options.isForOthers(reason, isAwaited: known.isAwaited), localWrites: table.localWrites,
      holdsRows: try method != .rows && holdsRows(table), hasRanges: table.hasRanges,
      refusesRows: options.refusesRows || isLedElsewhere(id),
      areRowsChecked: refreshes.checked.contains(table.stateKey.nameKey))
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
    if table.removal == .applied, let rows = try rows(in: range, table),
      try table.setAside(rows.condition, rows.values, connection)
    {
      refreshes.setAside(table)
    }
    try remove(range, table)
  }

  /// Deletes this trail's rows of a key range, or keeps or marks them by a rule. Nil: all of this trail's rows.
  ///
  /// Two-way: keeps a row that has changed at the target if the author of the refresh did not know the change.
  func remove(_ range: Refresh.Range?, _ table: PostgresApplyTable) throws {
    try sink.settle()
    guard let rows = try range.map({ try rows(in: $0, table) }) ?? share(table) else { return }
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
    try endPiece()
    guard let table = refreshes.takeAside() else { return }
    try sink.settle()
    try table.giveBack(connection)
  }

  private func rows(
    in range: Refresh.Range, _ table: PostgresApplyTable
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
    before.removeAll()
    try encode(ImageView(bytes: image.bytes), into: &before, table, isNew: false)
    return key.map { $0 < before.count ? before.string($0) : nil }
  }

  // MARK: Rows

  func apply(row image: ImageView, of table: PostgresApplyTable) throws {
    if table.state.isAwaited { return }
    let isAlone = isCareful || (table.state.existing != .overwrite && !table.isWholeRow)
    if let other = pieceTable, other !== table || isAlone { try endPiece() }
    before.removeAll()
    try encode(image, into: &after, table, isNew: true)
    try checkWhole(table)
    refreshes.noteRow()
    table.hasNewKeys = true
    // A row that is sent singly must become what the source has.
    let isInPlace = table.state.refreshing == .rows && !table.isWholeRow
    if table.isContested, isInPlace || isAlone { return try takeCopied(table, isInPlace: isInPlace) }
    if isInPlace { return try insertInPlace(table) }
    if isAlone, isExact(table) { return try insertCopied(image, table) }
    guard !isAlone else {
      return try resolvingLocalWrites(table, isInsert: true) { try insert(table, isLenient: table.mayHoldRows) }
    }
    if pieceTable == nil {
      try sink.settle()
      try connection.execute("SAVEPOINT cairn_piece")
      pieceTable = table
    }
    try sink.copy(after, into: table)
    piece.appendCounted(image.bytes)
    if piece.count > Self.pieceBytesMax { try endPiece() }
  }

  /// Ends a COPY of rows and reads the server's answer. If one of the rows collides with another row, undoes the COPY
  /// and writes its rows one by one.
  ///
  /// - Throws: `row-exists` if the two rows may both be from the present refresh.
  func endPiece() throws {
    guard let table = pieceTable else { return }
    pieceTable = nil
    defer {
      piece.removeAll()
      piece.shrink(above: 8 << 20)
    }
    do {
      try sink.settle()
      try connection.execute("RELEASE cairn_piece")
    } catch let fault as PostgresSink.Fault where fault.error?.isUniqueness == true && !table.isWholeRow {
      try connection.executeScript("ROLLBACK TO cairn_piece; RELEASE cairn_piece")
      let counted = misfitsNulled
      defer { misfitsNulled = counted }
      if isExact(table) { return try writePieceAgain(table) }
      var rows = ByteReader(piece.bytes)
      while !rows.isAtEnd {
        before.removeAll()
        try encode(try rows.readImage(), into: &after, table, isNew: true)
        try insertInPlace(table)
      }
    }
  }

  // MARK: After the rows

  /// Called at the end of a table's refresh: creates the table's indexes, and the foreign keys whose two tables have
  /// been refreshed.
  private func makeWhatWaited(_ table: PostgresApplyTable, isFirst: Bool) throws {
    try shape.makeIndexes(table.state, of: table.mapped, sink)
    // Another session may keep the table from ANALYZE: autovacuum then analyzes it later.
    if isFirst, table.state.isCreated {
      try connection.execute("ANALYZE (SKIP_LOCKED) \(table.target.qualifiedName)")
    }
    try shape.makeForeignKeys(sink)
    // The table's unique indexes have changed.
    forgetShape(table.stateKey)
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
