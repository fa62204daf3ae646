import Changes
import Mapping
import PostgresKit

// Changes of rows, as statements.
extension PostgresReplay {
  func apply(_ change: ChangeView) throws {
    guard let table = try table(change.schemaID), !leavesOut(change, table) else { return }
    if change.treatment.contains(.refused) { return try refuse(table) }
    if try defers(change, table) { return }
    try encode(change, table)
    try resolvingLocalWrites(table, isInsert: change.operation == .insert) { try apply(change, table) }
  }

  func encode(_ change: ChangeView, _ table: PostgresApplyTable) throws {
    before.removeAll()
    after.removeAll()
    if let image = change.before { try encode(image, into: &before, table, isNew: false) }
    if let image = change.after { try encode(image, into: &after, table, isNew: true) }
  }

  private func apply(_ change: ChangeView, _ table: PostgresApplyTable) throws {
    let isTolerant = change.treatment.contains(.tolerant)
    let isLenient = isTolerant || table.mayHoldRows
    let mayLack = isTolerant || table.mayLackRows
    switch change.operation {
    case .insert:
      if !early.isEmpty, !table.localWrites.areSettled, let image = change.after,
        early.takeDelete(table: table.stateKey, image: image.bytes)
      {
        return
      }
      try settleEarly(before: change, of: table)
      if let image = change.after, !isTolerant, isFilled(table) {
        try insertInFilled(image, table)
      } else {
        try insert(table, isLenient: isLenient)
      }
      if !early.isEmpty, let image = change.after { try settle(table, image.bytes) }
    case .delete: try delete(table, change, isExpected: !mayLack && !change.flags.contains(.implied))
    case .update where !isTolerant && isFilled(table): try updateInFilled(change, table)
    case .update: try mayLack ? updateLeniently(table) : update(table, change)
    case .truncate:
      parked.forget(table.stateKey)
      try remove(nil, table)
    }
  }

  /// Throws an error if a rule of the conf for the table cannot be carried out for the present change.
  ///
  /// Does not throw in a catch-up if the trail has a refresh of the table after this change. Apply then skips the
  /// table's changes until that refresh.
  private func refuse(_ table: PostgresApplyTable) throws {
    guard let error = reader.refusal else { return }
    guard scope.isCatchUp, try isCopiedLater(table.given) else { throw error }
    if table.removal != .applied { progress.note(NextFittingSchema.unseen(table.source, since: reader.position)) }
    var known = table.state
    (known.refreshing, known.isAwaited) = (.byKey, true)
    try save(table.stateKey, known)
  }

  // MARK: Statements

  /// Sends a statement, or collects the change in the table's batch. Waits for the server's answer only in a careful
  /// replay, which sends one statement at a time.
  ///
  /// - Returns: The number of changed rows if apply has waited for the answer; otherwise `count`, or 1 if `count` is
  ///   nil.
  @discardableResult func write(_ table: PostgresApplyTable, _ shape: PostgresApplyTable.Shape, expecting count: Int64?)
    throws
    -> Int64
  {
    guard isCareful else {
      if count == 1, table.isBatched {
        switch shape {
        case .update(let set, let checks) where set.isDisjoint(with: table.keyMask):
          try sink.update(before, after, of: table, set: set, checks: checks)
          return 1
        case .delete(let checks):
          try sink.delete(before, of: table, checks: checks)
          return 1
        default: break
        }
      }
      let statement = table.statement(shape)
      try sink.queue(statement, of: table, before, after, expecting: count)
      return count ?? 1
    }
    let statement = table.statement(shape)
    while true {
      do { return try sink.run(statement, before, after) } catch let error as PostgresError
        where error.isBadValue || error.sqlState == "23514"
      {
        // Only the server can judge such a value.
        guard try mendRefusedValues(table) else { throw refused(table, error) }
      }
    }
  }

  func insert(_ table: PostgresApplyTable, isLenient: Bool) throws {
    try checkWhole(table)
    table.hasNewKeys = true
    if table.isWholeRow || !isLenient { return try insertStrictly(table) }
    switch table.existing {
    case .keep where table.isContested: try writeLeniently(table, .insert(.keeping))
    case .merge where table.isContested: try writeLeniently(table, .insert(.merging))
    case .keep: try write(table, .insert(.keeping), expecting: nil)
    case .merge: try write(table, .insert(.merging), expecting: nil)
    case .overwrite: try insertInPlace(table)
    }
  }

  func checkWhole(_ table: PostgresApplyTable) throws(CairnError) {
    guard !after.isWhole else { return }
    let lacking = table.columns.indices.first { !after.gives($0) }.map { table.columns[$0].name }
    throw incompleteRow(table.source, column: lacking ?? "", at: reader.position, of: name)
  }

  func insertStrictly(_ table: PostgresApplyTable) throws {
    if !isCareful {
      try sink.insert(after, into: table)
    } else {
      do {
        guard try write(table, .insert(.strict), expecting: 1) == 1 else { throw swallowed(table) }
      } catch let error as PostgresError where error.isUniqueness {
        try park(table, after.strings, error)
      } catch let error as PostgresError { throw refusal(table, error) }
    }
    unchecked.note(table, after, at: reader.position)
  }

  /// Inserts the new row, and replaces all rows of the target that have its key or one of its unique values.
  func insertInPlace(_ table: PostgresApplyTable) throws {
    for index in table.otherIndexes where !table.isContested && !isExact(table) {
      try writeLeniently(table, .clear(index: index, sparing: .new))
    }
    if table.alwaysIdentity.isEmpty || table.key.contains(where: { table.alwaysIdentity.contains($0) }) {
      try writeLeniently(table, .insert(.merging))
    } else {
      // An upsert cannot set such a column.
      try writeLeniently(table, .delete(checks: .init()))
      try writeLeniently(table, .insert(.strict))
    }
  }

  func writeLeniently(_ table: PostgresApplyTable, _ shape: PostgresApplyTable.Shape) throws {
    do { try write(table, shape, expecting: nil) } catch let error as PostgresError { throw refusal(table, error) }
  }

  // MARK: Delete

  private func delete(_ table: PostgresApplyTable, _ change: ChangeView, isExpected: Bool) throws {
    let isLineSettled = try !early.isEmpty && settleLine(to: key(of: before, table), of: table, before: change)
    let touched: Int64
    do {
      touched =
        isTwin(table)
        ? try write(table, .deleteTwin(nulls: nulls(table)), expecting: isExpected ? 1 : nil)
        : try write(table, .delete(checks: isExpected ? checks(table) : .init()), expecting: isExpected ? 1 : nil)
    } catch let error as PostgresError { throw refusal(table, error) }
    guard isCareful, touched != 1 else { return }
    if parked.take(key: key(of: before, table), of: table) != nil { return }
    guard isExpected else { return }
    let error = unexpected(table, "deleted")
    if try excuses(table.given) {
      try write(table, isTwin(table) ? .deleteTwin(nulls: nulls(table)) : .delete(checks: .init()), expecting: nil)
      return
    }
    guard error.code == .rowMissing, table.source.treatment != nil, !isLineSettled, table.source.engine == .sqlite,
      let old = change.before
    else { throw error }
    let delete = OutOfOrderChanges.Update(before: Array(old.bytes), after: nil, error: error, meet: resolution(table))
    try early.add(delete, table: table.stateKey)
  }

  /// Returns whether the row before the change has no key, or a key with NULL. All its values then identify the row.
  func isTwin(_ table: PostgresApplyTable) -> Bool {
    table.isWholeRow || table.key.contains { $0 < before.count && before.isNull($0) }
  }

  func nulls(_ table: PostgresApplyTable) -> ColumnMask {
    ColumnMask(table.columns.indices.filter { $0 < before.count && before.isNull($0) })
  }

  func checks(_ table: PostgresApplyTable) -> ColumnMask {
    var mask = ColumnMask()
    for column in table.columns.indices where before.gives(column) && !table.widened.contains(column) {
      mask.insert(column)
    }
    return mask
  }

  // MARK: Update

  private func update(_ table: PostgresApplyTable, _ change: ChangeView) throws {
    try settleEarly(before: change, of: table)
    if table.localWrites.areSettled, !early.isEmpty, try isThere(table) {
      try settleLine(to: before.count > 0 ? key(of: before, table) : key(of: after, table), of: table, before: change)
    }
    do {
      if try updateStrictly(table) == 1 {
        if table.uncheckedIndexes.isEmpty == false { unchecked.note(table, after, before, at: reader.position) }
        if !early.isEmpty { try settleUpdated(table, change.before, change.after) }
        return
      }
    } catch let error as PostgresError where error.isUniqueness && !isTwin(table) {
      // The row in the way may have been removed with its partition.
      if table.mayHoldRows { return try updateLeniently(table) }
      return try takeOut(table, error)
    } catch let error as PostgresError { throw refusal(table, error) }
    let old = before.count > 0 ? key(of: before, table) : key(of: after, table)
    if try parked.update(key: old, of: table, after.given) { return }
    if change.treatment.contains(.incomplete) { return try refuse(table) }
    let error = unexpected(table, "updated")
    if try excuses(table.given) { return try updateLeniently(table) }
    guard error.code == .rowMissing, let old = change.before, let new = change.after, table.source.engine == .sqlite
    else { throw error }
    let update = OutOfOrderChanges.Update(
      before: Array(old.bytes), after: Array(new.bytes), error: error, meet: resolution(table))
    try early.add(update, table: table.stateKey)
  }

  private func updateStrictly(_ table: PostgresApplyTable) throws -> Int64 {
    let set = changed(table)
    if isTwin(table) { return try write(table, .updateTwin(set: set, nulls: nulls(table)), expecting: 1) }
    return try write(table, shape(table, set, checks(table)), expecting: 1)
  }

  func shape(_ table: PostgresApplyTable, _ set: ColumnMask, _ checks: ColumnMask) -> PostgresApplyTable.Shape {
    let isReplaced =
      !table.alwaysIdentity.isEmpty
      && table.columns.indices.contains { set.contains($0) && table.alwaysIdentity.contains($0) }
    return isReplaced ? .replace(set: set, checks: checks) : .update(set: set, checks: checks)
  }

  /// Returns the columns that an update sets: those whose new value in the trail differs from the former value. Returns
  /// one column if no value differs.
  func changed(_ table: PostgresApplyTable) -> ColumnMask {
    var mask = ColumnMask()
    for column in table.columns.indices where after.gives(column) {
      if before.gives(column) {
        if before.isEqual(column, to: after) { continue }
      } else if table.key.contains(column) {
        // Without a before image, the key is unchanged.
        continue
      }
      mask.insert(column)
    }
    guard mask.isEmpty else { return mask }
    // An update that changes nothing still requires the row.
    let given = table.columns.indices.filter { after.gives($0) || before.gives($0) }
    mask.insert(given.first { !table.alwaysIdentity.contains($0) } ?? 0)
    return mask
  }

  /// Updates the row if the target has it. If the target lacks the row and the trail gives all of its values, inserts
  /// the row. Otherwise does nothing.
  func updateLeniently(_ table: PostgresApplyTable) throws {
    let isWhole = table.columns.indices.allSatisfy { after.gives($0) || before.gives($0) }
    if isTwin(table) {
      // Only the answer shows whether the row is there, so only a careful replay continues from here.
      let touched = try write(table, .updateTwin(set: changed(table), nulls: nulls(table)), expecting: 1)
      if touched == 1 || !isWhole { return }
      fillAfter(table)
      return try insertStrictly(table)
    }
    let isOverwritten = table.existing == .overwrite
    let isMoved =
      before.count > 0 && table.key.contains { before.gives($0) && !before.isEqual($0, to: after) && after.gives($0) }
    if isOverwritten {
      for index in table.target.uniqueIndexes.indices {
        let isKey = table.target.uniqueIndexes[index].name.nameKey == table.keyIndex?.name.nameKey
        let isCleared = isKey ? isMoved : !table.isContested && table.otherIndexes.contains(index)
        guard isCleared, isKnown(index, table) else { continue }
        try writeLeniently(table, .clear(index: index, sparing: .old))
      }
    }
    do { try write(table, shape(table, changed(table), .init()), expecting: nil) } catch let error as PostgresError {
      throw refusal(table, error)
    }
    guard isWhole else { return }
    fillAfter(table)
    switch table.existing {
    case .keep: try writeLeniently(table, .insert(.keeping))
    case .merge: try writeLeniently(table, .insert(.merging))
    case .overwrite:
      before.removeAll()
      try insertInPlace(table)
    }
  }

  private func isKnown(_ index: Int, _ table: PostgresApplyTable) -> Bool {
    let unique = table.target.uniqueIndexes[index]
    guard unique.predicate == nil, let positions = table.positions(of: index) else {
      return table.columns.indices.allSatisfy { after.gives($0) || before.gives($0) }
    }
    return positions.allSatisfy { after.gives($0) || before.gives($0) }
  }

  func fillAfter(_ table: PostgresApplyTable) {
    guard table.columns.indices.contains(where: { !after.gives($0) }) else { return }
    let values = table.columns.indices.map { after.gives($0) ? after.string($0) : before.string($0) }
    after.assign(values)
  }

  func key(of row: borrowing RowText, _ table: PostgresApplyTable) -> [String?] {
    table.key.map { $0 < row.count ? row.string($0) : nil }
  }
}

extension RowText {
  var strings: [String?] { (0..<count).map { string($0) } }
  var given: [Int: String?] {
    var values: [Int: String?] = [:]
    for column in 0..<count where gives(column) { values.updateValue(string(column), forKey: column) }
    return values
  }
}
