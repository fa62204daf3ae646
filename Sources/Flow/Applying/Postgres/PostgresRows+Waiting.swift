import Changes
import Mapping
import PostgresKit

// Rows that wait for other rows.
extension PostgresRows {
  /// Parks a row that the target refuses, until the end of the transaction. Afterwards, the text before the change is
  /// empty, and the one after it has the row.
  func park(_ table: PostgresApplyTable, _ values: [String?], _ error: PostgresError) throws {
    let row = Parked.Row(table: table, values: values, position: reader.position, error: errors.refused(table, error))
    try parked.add(row, settling: putBack)
    texts.before.removeAll()
    texts.after.assign(values)
  }

  /// Deletes a row whose update would collide with another row's unique value, and parks the updated row.
  func takeOut(_ table: PostgresApplyTable, _ error: PostgresError) throws {
    let rows = try sink.rows(table.statement(.take(checks: texts.checks(table))), texts.before, texts.after)
    guard var values = rows.first, rows.count == 1 else { throw errors.unexpected(table, "updated") }
    for column in table.columns.indices where texts.after.gives(column) { values[column] = texts.after.string(column) }
    try park(table, values, error)
  }

  /// Writes the parked rows at the end of the transaction. The policy for local writes may let them win over rows with
  /// the same unique values.
  ///
  /// - Throws: The error of the first row that cannot be written.
  func settleParked() throws {
    guard !parked.isEmpty else { return }
    try parked.settle(putBack)
    for row in parked.takeAll() where try !local.resolve(parked: row) { throw row.error }
  }

  /// Inserts a row that the target refused earlier in the transaction. Returns false if another row still has one of
  /// its unique values.
  private func putBack(_ row: Parked.Row) throws -> Bool {
    texts.before.removeAll()
    texts.after.assign(row.values)
    do {
      guard try writer.write(row.table, .insert(.strict), expecting: 1) == 1 else { throw errors.swallowed(row.table) }
    } catch let error as PostgresError {
      guard error.isUniqueness else { throw errors.refusal(row.table, error) }
      return false
    }
    writer.unchecked.note(row.table, texts.after, at: row.position)
    return true
  }

  /// Writes the parked rows of a table whose unique values are free by now.
  ///
  /// - Returns: Whether the table still has parked rows, or rows to check for unique values.
  func settle(of key: String) throws -> Bool {
    try parked.settle(of: key, putBack)
    return parked.hasRows(of: key) || writer.unchecked.hasRows(of: key)
  }

  /// Assigns a table's parked rows, and its rows to check for unique values, to the table with its new schema.
  func move(from key: String, to table: PostgresApplyTable) throws {
    try parked.move(from: key, to: table)
    writer.unchecked.move(from: key, to: table)
  }

  /// Forgets the rows of a table that was dropped.
  func forget(_ key: String) {
    parked.forget(key)
    writer.unchecked.forget(key)
  }

  /// Inserts the parked rows of a table that is to be suspended. If two rows still have the same unique value, throws
  /// ``SchemaStop`` with the position of the first parked row.
  func leaveOpenRows(_ key: String, _ error: CairnError) throws {
    try parked.settle(of: key, putBack)
    if let position = parked.start(of: key) { throw SchemaStop(key: key, position: position, error: error) }
    guard let position = writer.unchecked.start(of: key) else { return }
    do {
      try writer.checkUncheckedRows(of: key)
    } catch let doubled as CairnError where doubled.code == .rowExists {
      throw SchemaStop(key: key, position: position, error: error)
    }
  }

  // MARK: Changes before their rows

  /// Applies the update or delete of the row `image` that the trail has before the row itself, if there is one.
  func settle(_ table: PostgresApplyTable, _ image: UnsafeRawBufferPointer) throws {
    guard let update = local.early.take(table: table.stateKey, image: image) else { return }
    try update.before.withUnsafeBytes { old in
      guard let wanted = update.after else {
        try encoder.encode(ImageView(bytes: old), into: &texts.before, table, isNew: false)
        texts.after.removeAll()
        do {
          guard try writer.write(table, .delete(checks: texts.checks(table)), expecting: 1) == 1 else {
            throw update.error
          }
        } catch let error as PostgresError { throw errors.refusal(table, error) }
        return
      }
      try wanted.withUnsafeBytes { new in
        let (old, new) = (ImageView(bytes: old), ImageView(bytes: new))
        try encoder.encode(old, into: &texts.before, table, isNew: false)
        try encoder.encode(new, into: &texts.after, table, isNew: true)
        do {
          let touched =
            texts.isTwin(table)
            ? try writer.write(table, .updateTwin(set: texts.given(), nulls: texts.nulls(table)), expecting: 1)
            : try writer.write(table, .update(set: texts.given(), checks: texts.checks(table)), expecting: 1)
          guard touched == 1 else { throw update.error }
        } catch let error as PostgresError { throw errors.refusal(table, error) }
        try settleUpdated(table, old, new)
      }
    }
  }

  func settleUpdated(_ table: PostgresApplyTable, _ old: ImageView?, _ new: ImageView?) throws {
    guard !local.early.isEmpty, let old, let new else { return }
    var image = ByteWriter(capacity: 256)
    for (was, is_) in zip(try old.values(), try new.values()) { image.append(is_ ?? was) }
    try settle(table, image.bytes)
  }

  // MARK: Tables that are refreshed from empty

  func insertInFilled(_ image: ImageView, _ table: PostgresApplyTable) throws {
    try writer.checkWhole(table)
    table.hasNewKeys = true
    let key = try table.sourceKey(image)
    if outOfOrderRows.contains(key, of: table.stateKey) { return try writer.insertInPlace(table) }
    outOfOrderRows.note(key, of: table.stateKey)
    try insertStrictly(table)
  }

  /// Updates a row while its table is refreshed. If the target lacks the row, the refresh brings it, unless the
  /// update changes the key. Such an update inserts the row.
  func updateInFilled(_ change: ChangeView, _ table: PostgresApplyTable) throws {
    guard !texts.isTwin(table), let old = change.before, let new = change.after else {
      return try updateLeniently(table)
    }
    var image = ByteWriter(capacity: 256)
    for (was, now) in zip(try old.values(), try new.values()) { image.append(now ?? was) }
    let key = try table.sourceKey(ImageView(bytes: image.bytes))
    let isMoved = table.key.contains {
      texts.after.gives($0) && texts.before.gives($0) && !texts.before.isEqual($0, to: texts.after)
    }
    let isEarly = outOfOrderRows.contains(try table.sourceKey(old), of: table.stateKey)
    if isMoved || isEarly { outOfOrderRows.note(key, of: table.stateKey) }
    guard isMoved, texts.isWhole(table) else {
      return try writer.writeLeniently(table, table.update(texts.changed(table), .init()))
    }
    texts.fillAfter(table)
    try writer.writeLeniently(table, .delete(checks: .init()))
    try insertStrictly(table)
  }
}
