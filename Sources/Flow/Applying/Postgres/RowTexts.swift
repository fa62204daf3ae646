import PostgresKit

/// The row of one change before and after it, as input for PostgreSQL. Each change overwrites the texts.
final class RowTexts {
  var before = RowText()
  var after = RowText()

  func removeAll() {
    before.removeAll()
    after.removeAll()
  }

  /// Returns whether the change gives all values of the row, before or after it.
  func isWhole(_ table: PostgresApplyTable) -> Bool {
    table.columns.indices.allSatisfy { after.gives($0) || before.gives($0) }
  }

  /// Returns whether the row before the change has no key, or a key with NULL. All its values then identify the row.
  func isTwin(_ table: PostgresApplyTable) -> Bool {
    table.isWholeRow || table.key.contains { $0 < before.count && before.isNull($0) }
  }

  /// Returns the columns that are NULL before the change.
  func nulls(_ table: PostgresApplyTable) -> ColumnMask {
    ColumnMask(table.columns.indices.filter { $0 < before.count && before.isNull($0) })
  }

  /// Returns the columns whose value before the change the target must have too.
  func checks(_ table: PostgresApplyTable) -> ColumnMask {
    var mask = ColumnMask()
    for column in table.columns.indices where before.gives(column) && !table.widened.contains(column) {
      mask.insert(column)
    }
    return mask
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

  /// Returns whether the change gives all values of a unique index.
  func isKnown(_ index: Int, _ table: PostgresApplyTable) -> Bool {
    let unique = table.target.uniqueIndexes[index]
    guard unique.predicate == nil, let positions = table.positions(of: index) else {
      return isWhole(table)
    }
    return positions.allSatisfy { after.gives($0) || before.gives($0) }
  }

  /// Completes the row after the change with values from before it.
  func fillAfter(_ table: PostgresApplyTable) {
    guard table.columns.indices.contains(where: { !after.gives($0) }) else { return }
    let values = table.columns.indices.map { after.gives($0) ? after.string($0) : before.string($0) }
    after.assign(values)
  }

  /// Returns the columns that have a value after the change.
  func given() -> ColumnMask { ColumnMask((0..<after.count).filter { after.gives($0) }) }

  /// Returns the key after the change.
  func newKey(_ table: PostgresApplyTable) -> [String?] {
    table.key.map { after.gives($0) ? after.string($0) : before.string($0) }
  }
}

extension RowText {
  /// Returns the row's values of a table's key columns.
  func key(of table: PostgresApplyTable) -> [String?] { table.key.map { $0 < count ? string($0) : nil } }

  var strings: [String?] { (0..<count).map { string($0) } }
  var given: [Int: String?] {
    var values: [Int: String?] = [:]
    for column in 0..<count where gives(column) { values.updateValue(string(column), forKey: column) }
    return values
  }
}

extension PostgresApplyTable {
  /// Returns the statement that sets columns of a row.
  func update(_ set: ColumnMask, _ checks: ColumnMask) -> PostgresApplyTable.Shape {
    let isReplaced =
      !alwaysIdentity.isEmpty
      && columns.indices.contains { set.contains($0) && alwaysIdentity.contains($0) }
    return isReplaced ? .replace(set: set, checks: checks) : .update(set: set, checks: checks)
  }
}
