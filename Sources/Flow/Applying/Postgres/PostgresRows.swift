import Changes
import Mapping
import PostgresKit

/// Applies changes of rows to a PostgreSQL target.
///
/// Only a careful replay lets rows wait for other rows: it gets an answer for each row.
final class PostgresRows {
  typealias Parked = ParkedRows<PostgresApplyTable, String?>
  let writer: PostgresRowWriter
  let local: PostgresLocalWrites
  let ahead: TrailAhead
  /// The rows of the transaction that the target refuses for now.
  var parked = Parked()
  /// The rows that changes wrote to tables while these are refreshed.
  var outOfOrderRows = OutOfOrderRows()
  let session: PostgresSession
  let tables: PostgresTables

  init(_ writer: PostgresRowWriter, _ local: PostgresLocalWrites, _ ahead: TrailAhead, _ tables: PostgresTables) {
    (self.writer, self.local, self.ahead, self.tables) = (writer, local, ahead, tables)
    session = writer.session
  }

  var sink: PostgresSink { session.sink }
  var reader: ApplyReader { session.reader }
  var isCareful: Bool { session.isCareful }
  var texts: RowTexts { writer.texts }
  var errors: PostgresRowErrors { writer.errors }
  var encoder: PostgresRowEncoder { writer.encoder }

  func apply(_ change: ChangeView, _ table: PostgresApplyTable) throws {
    let isTolerant = change.treatment.contains(.tolerant)
    let isLenient = isTolerant || table.mayHoldRows
    let mayLack = isTolerant || table.mayLackRows
    switch change.operation {
    case .insert:
      if !local.early.isEmpty, !table.localWrites.areSettled, let image = change.after,
        local.early.takeDelete(table: table.stateKey, image: image.bytes)
      {
        return
      }
      try local.settleEarly(before: change, of: table)
      if let image = change.after, !isTolerant, table.isFilled {
        try insertInFilled(image, table)
      } else {
        try insert(table, isLenient: isLenient)
      }
      if !local.early.isEmpty, let image = change.after { try settle(table, image.bytes) }
    case .delete: try delete(table, change, isExpected: !mayLack && !change.flags.contains(.implied))
    case .update where !isTolerant && table.isFilled: try updateInFilled(change, table)
    case .update: try mayLack ? updateLeniently(table) : update(table, change)
    // The rows of a whole table are removed by the replay.
    case .truncate: parked.forget(table.stateKey)
    }
  }

  /// Throws an error if a rule of the conf for the table cannot be carried out for the present change.
  ///
  /// Does not throw in a catch-up if the trail has a refresh of the table after this change. Apply then skips the
  /// table's changes until that refresh.
  func refuse(_ table: PostgresApplyTable) throws {
    guard let error = reader.refusal else { return }
    guard tables.scope.isCatchUp, try ahead.isCopied(table.given) else { throw error }
    if table.removal != .applied {
      session.progress.note(NextFittingSchema.unseen(table.source, since: reader.position))
    }
    var known = table.state
    (known.refreshing, known.isAwaited) = (.byKey, true)
    try tables.save(table.stateKey, known)
  }

  // MARK: Statements

  func insert(_ table: PostgresApplyTable, isLenient: Bool) throws {
    try writer.checkWhole(table)
    table.hasNewKeys = true
    if table.isWholeRow || !isLenient { return try insertStrictly(table) }
    switch table.existing {
    case .keep where table.isContested: try writer.writeLeniently(table, .insert(.keeping))
    case .merge where table.isContested: try writer.writeLeniently(table, .insert(.merging))
    case .keep: try writer.write(table, .insert(.keeping), expecting: nil)
    case .merge: try writer.write(table, .insert(.merging), expecting: nil)
    case .overwrite: try writer.insertInPlace(table)
    }
  }

  func insertStrictly(_ table: PostgresApplyTable) throws {
    if !isCareful {
      try sink.insert(texts.after, into: table)
    } else {
      do {
        guard try writer.write(table, .insert(.strict), expecting: 1) == 1 else { throw errors.swallowed(table) }
      } catch let error as PostgresError where error.isUniqueness {
        try park(table, texts.after.strings, error)
      } catch let error as PostgresError { throw errors.refusal(table, error) }
    }
    writer.unchecked.note(table, texts.after, at: reader.position)
  }

  private func delete(_ table: PostgresApplyTable, _ change: ChangeView, isExpected: Bool) throws {
    let isLineSettled =
      try !local.early.isEmpty && local.settleLine(to: texts.before.key(of: table), of: table, before: change)
    let touched: Int64
    do {
      touched =
        texts.isTwin(table)
        ? try writer.write(table, .deleteTwin(nulls: texts.nulls(table)), expecting: isExpected ? 1 : nil)
        : try writer.write(
          table, .delete(checks: isExpected ? texts.checks(table) : .init()), expecting: isExpected ? 1 : nil)
    } catch let error as PostgresError { throw errors.refusal(table, error) }
    guard isCareful, touched != 1 else { return }
    if parked.take(key: texts.before.key(of: table), of: table) != nil { return }
    guard isExpected else { return }
    let error = errors.unexpected(table, "deleted")
    if try ahead.excuses(table.given) {
      try writer.write(
        table, texts.isTwin(table) ? .deleteTwin(nulls: texts.nulls(table)) : .delete(checks: .init()), expecting: nil)
      return
    }
    guard error.code == .rowMissing, table.source.treatment != nil, !isLineSettled, table.source.engine == .sqlite,
      let old = change.before
    else { throw error }
    let delete = OutOfOrderChanges.Update(
      before: Array(old.bytes), after: nil, error: error, meet: local.resolution(table))
    try local.early.add(delete, table: table.stateKey)
  }

  private func update(_ table: PostgresApplyTable, _ change: ChangeView) throws {
    try local.settleEarly(before: change, of: table)
    if table.localWrites.areSettled, !local.early.isEmpty, try local.isThere(table) {
      try local.settleLine(
        to: texts.before.count > 0 ? texts.before.key(of: table) : texts.after.key(of: table), of: table, before: change
      )
    }
    do {
      if try updateStrictly(table) == 1 {
        if table.uncheckedIndexes.isEmpty == false {
          writer.unchecked.note(table, texts.after, texts.before, at: reader.position)
        }
        if !local.early.isEmpty { try settleUpdated(table, change.before, change.after) }
        return
      }
    } catch let error as PostgresError where error.isUniqueness && !texts.isTwin(table) {
      // The row in the way may have been removed with its partition.
      if table.mayHoldRows { return try updateLeniently(table) }
      return try takeOut(table, error)
    } catch let error as PostgresError { throw errors.refusal(table, error) }
    let old = texts.before.count > 0 ? texts.before.key(of: table) : texts.after.key(of: table)
    if try parked.update(key: old, of: table, texts.after.given) { return }
    if change.treatment.contains(.incomplete) { return try refuse(table) }
    let error = errors.unexpected(table, "updated")
    if try ahead.excuses(table.given) { return try updateLeniently(table) }
    guard error.code == .rowMissing, let old = change.before, let new = change.after, table.source.engine == .sqlite
    else { throw error }
    let update = OutOfOrderChanges.Update(
      before: Array(old.bytes), after: Array(new.bytes), error: error, meet: local.resolution(table))
    try local.early.add(update, table: table.stateKey)
  }

  private func updateStrictly(_ table: PostgresApplyTable) throws -> Int64 {
    let set = texts.changed(table)
    if texts.isTwin(table) {
      return try writer.write(table, .updateTwin(set: set, nulls: texts.nulls(table)), expecting: 1)
    }
    return try writer.write(table, table.update(set, texts.checks(table)), expecting: 1)
  }

  /// Deletes rows that have a unique value of the updated row.
  private func clearForUpdate(_ table: PostgresApplyTable) throws {
    func isChanged(_ column: Int) -> Bool {
      texts.before.count > 0 && texts.before.gives(column) && texts.after.gives(column)
        && !texts.before.isEqual(column, to: texts.after)
    }
    let isMoved = table.key.contains(where: isChanged)
    for index in table.target.uniqueIndexes.indices {
      let isKey = table.target.uniqueIndexes[index].name.nameKey == table.keyIndex?.name.nameKey
      let isCleared = isKey ? isMoved : !table.isContested && table.otherIndexes.contains(index)
      guard isCleared, texts.isKnown(index, table) else { continue }
      // No key spares a row with NULL in its key, so its unchanged values are not cleared.
      if texts.isTwin(table), table.positions(of: index)?.contains(where: isChanged) != true { continue }
      try writer.writeLeniently(table, .clear(index: index, sparing: .old))
    }
  }

  /// Updates the row if the target has it. If the target lacks the row and the trail gives all of its values, inserts
  /// the row. Otherwise does nothing.
  func updateLeniently(_ table: PostgresApplyTable) throws {
    let isWhole = texts.isWhole(table)
    if table.existing == .overwrite { try clearForUpdate(table) }
    if texts.isTwin(table) {
      // Only the answer shows whether the row is there, so only a careful replay continues from here.
      let touched = try writer.write(
        table, .updateTwin(set: texts.changed(table), nulls: texts.nulls(table)), expecting: 1)
      if touched == 1 || !isWhole { return }
      texts.fillAfter(table)
      return try insertStrictly(table)
    }
    do { try writer.write(table, table.update(texts.changed(table), .init()), expecting: nil) } catch let error
      as PostgresError
    {
      throw errors.refusal(table, error)
    }
    guard isWhole else { return }
    texts.fillAfter(table)
    switch table.existing {
    case .keep: try writer.writeLeniently(table, .insert(.keeping))
    case .merge: try writer.writeLeniently(table, .insert(.merging))
    case .overwrite:
      texts.before.removeAll()
      try writer.insertInPlace(table)
    }
  }
}
