import Changes
import Mapping
import PostgresKit

// Rows that wait for other rows, and errors for unexpected ones. Only a careful replay calls this.
extension PostgresReplay {
  // MARK: Rows that wait

  typealias Parked = ParkedRows<PostgresApplyTable, String?>

  /// Parks a row that the target refuses, until the end of the transaction. Afterwards, ``before`` is empty and
  /// ``after`` has the row.
  func park(_ table: PostgresApplyTable, _ values: [String?], _ error: PostgresError) throws {
    let row = Parked.Row(table: table, values: values, position: reader.position, error: refused(table, error))
    try parked.add(row, settling: putBack)
    before.removeAll()
    after.assign(values)
  }

  /// Deletes a row whose update would collide with another row's unique value, and parks the updated row.
  func takeOut(_ table: PostgresApplyTable, _ error: PostgresError) throws {
    let rows = try sink.rows(table.statement(.take(checks: checks(table))), before, after)
    guard var values = rows.first, rows.count == 1 else { throw unexpected(table, "updated") }
    for column in table.columns.indices where after.gives(column) { values[column] = after.string(column) }
    try park(table, values, error)
  }

  /// Writes the parked rows at the end of the transaction. The policy for local writes may let them win over rows with
  /// the same unique values.
  ///
  /// - Throws: The error of the first row that cannot be written.
  func settleParked() throws {
    guard !parked.isEmpty else { return }
    try parked.settle(putBack)
    for row in parked.takeAll() where try !resolve(parked: row) { throw row.error }
  }

  /// Inserts a row that the target refused earlier in the transaction. Returns false if another row still has one of
  /// its unique values.
  private func putBack(_ row: Parked.Row) throws -> Bool {
    before.removeAll()
    after.assign(row.values)
    do {
      guard try write(row.table, .insert(.strict), expecting: 1) == 1 else { throw swallowed(row.table) }
    } catch let error as PostgresError {
      guard error.isUniqueness else { throw refusal(row.table, error) }
      return false
    }
    unchecked.note(row.table, after, at: row.position)
    return true
  }

  /// Before a schema change of a table, inserts the table's rows that the target refused earlier in the transaction.
  /// Leaves out rows whose unique values other rows have.
  ///
  /// - Returns: The table's name in apply's state, if the table still has parked rows or rows to check for unique values;
  ///   otherwise nil.
  func settleRows(before ddl: DDL) throws -> String? {
    guard ddl.before != 0, !parked.isEmpty || !unchecked.isEmpty,
      let key = scope.key(try schema(ddl.before).sourceKey)
    else { return nil }
    try parked.settle(of: key, putBack)
    return parked.hasRows(of: key) || unchecked.hasRows(of: key) ? key : nil
  }

  /// Assigns a table's parked rows, and its rows to check for unique values, to the table with its new schema. Forgets
  /// the rows if the schema change dropped the table.
  func followRows(of key: String, after ddl: DDL) throws {
    guard ddl.after != 0 else {
      parked.forget(key)
      return unchecked.forget(key)
    }
    try onTable(ddl.after) {
      guard let table = try table(ddl.after) else { return }
      try parked.move(from: key, to: table)
      unchecked.move(from: key, to: table)
    }
  }

  /// Inserts the parked rows of a table that is to be suspended. If two rows still have the same unique value, throws
  /// ``SchemaStop`` with the position of the first parked row.
  func leaveOpenRows(_ key: String, _ error: CairnError) throws {
    try parked.settle(of: key, putBack)
    if let position = parked.start(of: key) { throw SchemaStop(key: key, position: position, error: error) }
    guard let position = unchecked.start(of: key) else { return }
    do {
      try checkUnique(
        unchecked.rows.filter { $0.table.stateKey.hasSameBytes(as: key) },
        unchecked.tables.filter { $0.stateKey.hasSameBytes(as: key) })
      try sink.settle()
    } catch let doubled as CairnError where doubled.code == .rowExists {
      throw SchemaStop(key: key, position: position, error: error)
    }
  }

  /// Applies the update or delete of the row `image` that the trail has before the row itself, if there is one.
  func settle(_ table: PostgresApplyTable, _ image: UnsafeRawBufferPointer) throws {
    guard let update = early.take(table: table.stateKey, image: image) else { return }
    try update.before.withUnsafeBytes { old in
      guard let wanted = update.after else {
        try encode(ImageView(bytes: old), into: &before, table, isNew: false)
        after.removeAll()
        do {
          guard try write(table, .delete(checks: checks(table)), expecting: 1) == 1 else { throw update.error }
        } catch let error as PostgresError { throw refusal(table, error) }
        return
      }
      try wanted.withUnsafeBytes { new in
        let (old, new) = (ImageView(bytes: old), ImageView(bytes: new))
        try encode(old, into: &before, table, isNew: false)
        try encode(new, into: &after, table, isNew: true)
        do {
          let touched =
            isTwin(table)
            ? try write(table, .updateTwin(set: given(), nulls: nulls(table)), expecting: 1)
            : try write(table, .update(set: given(), checks: checks(table)), expecting: 1)
          guard touched == 1 else { throw update.error }
        } catch let error as PostgresError { throw refusal(table, error) }
        try settleUpdated(table, old, new)
      }
    }
  }

  private func given() -> ColumnMask { ColumnMask((0..<after.count).filter { after.gives($0) }) }

  func settleUpdated(_ table: PostgresApplyTable, _ old: ImageView?, _ new: ImageView?) throws {
    guard !early.isEmpty, let old, let new else { return }
    var image = ByteWriter(capacity: 256)
    for (was, is_) in zip(try old.values(), try new.values()) { image.append(is_ ?? was) }
    try settle(table, image.bytes)
  }

  // MARK: Deferrable constraints

  /// Throws `row-exists` if a row that the group wrote violates a deferrable unique constraint. PostgreSQL does not
  /// check such constraints in apply's session.
  func checkUncheckedRows() throws {
    defer { unchecked.removeAll() }
    try checkUnique(unchecked.rows, unchecked.tables)
  }

  private func checkUnique(_ rows: [DeferredUniqueChecks.Row], _ tables: [PostgresApplyTable]) throws {
    for row in rows {
      before.removeAll()
      after.assign(row.values)
      for index in row.table.uncheckedIndexes {
        guard let positions = row.table.positions(of: index), positions.allSatisfy({ !after.isNull($0) }) else {
          continue
        }
        let statement = row.table.statement(.doubled(index: index))
        if !isCareful {
          try sink.queue(statement, of: row.table, before, after, expecting: 0)
        } else if try !sink.rows(statement, before, after).isEmpty {
          throw doubled(row.table, index, positions.map { "\(row.table.columns[$0].name)=\(row.values[$0] ?? "NULL")" })
        }
      }
    }
    for table in tables {
      for index in table.uncheckedIndexes where table.positions(of: index) != nil {
        before.removeAll()
        after.removeAll()
        if let row = try sink.rows(table.statement(.anyDoubled(index: index)), before, after).first {
          throw doubled(table, index, row.map { $0 ?? "NULL" })
        }
      }
    }
  }

  private func doubled(_ table: PostgresApplyTable, _ index: Int, _ values: [String]) -> CairnError {
    CairnError(
      .rowExists,
      "table \(table.source.fullName), row \(values.joined(separator: ", ")): the target \(connection.place) would have two rows with the same value of \(table.target.uniqueIndexes[index].name) (trail \(name) at \(reader.position))",
      hint: DifferenceHint.text(source: table.source.engine),
      context: ["table": table.source.fullName, "position": reader.position.description])
  }

  // MARK: Errors

  func describeKey(_ table: PostgresApplyTable, _ row: borrowing RowText, upTo count: Int = .max) -> String {
    let shown = table.key.isEmpty ? Array(table.columns.indices.prefix(3)) : table.key
    var parts: [String] = []
    for index in shown where index < min(count, row.count) {
      let value = row.gives(index) ? row.string(index).map { Value.text($0).shown } ?? "NULL" : "?"
      parts.append("\(table.source.columns[index].name)=\(value)")
    }
    return parts.joined(separator: ", ") + (table.key.isEmpty ? ", …" : "")
  }

  /// Returns the first `count` columns of a row as texts for messages, such as `id=5`; a value that is not known is
  /// "?".
  func describeColumns(_ table: PostgresApplyTable, _ row: borrowing RowText, upTo count: Int) -> [String] {
    (0..<min(count, row.count, table.columns.count)).map { index in
      let value = row.gives(index) ? row.string(index).map { Value.text($0).shown } ?? "NULL" : "?"
      return "\(table.source.columns[index].name)=\(value)"
    }
  }

  private func describeRow(_ table: PostgresApplyTable, isNew: Bool) -> String {
    if isNew ? after.count > 0 && table.key.allSatisfy({ after.gives($0) }) : before.count == 0 {
      return describeKey(table, after)
    }
    return describeKey(table, before)
  }

  func unexpected(_ table: PostgresApplyTable, _ what: String) -> CairnError {
    let key = describeRow(table, isNew: false)
    let subject = "table \(table.source.fullName), row \(key): the source \(what) it, but"
    let place = "(trail \(name) at \(reader.position))"
    let mask = checks(table)
    let found = isTwin(table) ? nil : (try? sink.rows(table.statement(.probe(checks: mask)), before, after))?.first
    guard let found else {
      return CairnError(
        .rowMissing, "\(subject) the target \(connection.place) does not have it \(place)",
        hint: DifferenceHint.text(source: table.source.engine),
        context: rowContext(table.source.fullName, key: key))
    }
    let checked = table.columns.indices.filter { mask.contains($0) && !table.key.contains($0) }
    let index = zip(checked, found).first { $0.1 != "t" }?.0
    let column = index.map { table.source.columns[$0].name } ?? "?"
    return CairnError(
      .rowDiffers,
      "\(subject) its column \(column) in the target \(connection.place) differs from the source \(place)",
      hint: DifferenceHint.text(source: table.source.engine), context: rowContext(table.source.fullName, key: key))
  }

  /// Returns the error for an INSERT that inserted no row, for example because of a trigger.
  func swallowed(_ table: PostgresApplyTable) -> CairnError {
    let key = describeRow(table, isNew: true)
    return CairnError(
      .constraintFailed,
      "table \(table.source.fullName), row \(key): a trigger or rule of \(connection.place) kept it from being inserted (trail \(name) at \(reader.position))",
      hint: "triggers that are ENABLE ALWAYS or ENABLE REPLICA fire here too: see \\d \(table.target.qualifiedName)",
      context: rowContext(table.source.fullName, key: key))
  }

  /// Returns the error for a statement that the server refused. The error names the row if the row is the cause.
  func refusal(_ table: PostgresApplyTable, _ error: PostgresError) -> any Error {
    error.isServerGone || error.isTransient || error.isCancelled ? error : refused(table, error)
  }

  func refused(_ table: PostgresApplyTable, _ error: PostgresError) -> CairnError {
    let key = describeRow(table, isNew: true)
    let subject = "table \(table.source.fullName), row \(key)"
    let place = "(trail \(name) at \(reader.position))"
    let text = error.message + (error.detail.isEmpty ? "" : ": \(error.detail)")
    if error.isUniqueness {
      let hint = table.isShared ? DifferenceHint.shared : DifferenceHint.text(source: table.source.engine)
      return CairnError(
        .rowExists, "\(subject): the target \(connection.place) has such a row already: \(text) \(place)",
        hint: table.mayFold ? "\(Self.foldedHint); or \(hint)" : hint,
        context: rowContext(table.source.fullName, key: key))
    }
    if error.isConstraint {
      return CairnError(
        .constraintFailed, "\(subject): the target \(connection.place) refuses it: \(text) \(place)",
        hint: "make the target's constraints equal to the source's, then run again",
        context: rowContext(table.source.fullName, key: key))
    }
    if ["42P01", "42703", "42804", "42P10", "428C9", "0A000"].contains(error.sqlState) {
      return CairnError(
        .schemaStopped,
        "\(subject): table \(table.target.qualifiedName) of \(connection.place) has another shape than expected: \(text) \(place)",
        hint: "make its columns and keys equal to the source's, then run again",
        context: rowContext(table.source.fullName, key: key))
    }
    if error.isPrivilege { return error.unentitled(table.source, at: table.target.qualifiedName) }
    if error.isOfStatement {
      return CairnError(
        .valueMisfit, "\(subject): the target \(connection.place) does not take a value: \(text) \(place)",
        hint: "change the target's columns so that they hold the source's values, then run again",
        context: rowContext(table.source.fullName, key: key))
    }
    return error.asCairnError
  }
}
