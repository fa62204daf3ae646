import Changes
import Mapping
import SQLiteKit

// Changes of rows as PostgreSQL gives them.
extension SQLiteRows {
  /// Applies a change of a PostgreSQL source.
  ///
  /// Such a change may lack values that the row had before. The source may have checked unique constraints only at the
  /// end of the transaction, so two rows may have the same value until then.
  func applyMapped(_ change: ChangeView, _ table: SQLiteApplyTable, isLenient: Bool) throws {
    switch change.operation {
    case .insert:
      let insertion = insertion(of: table, isCopy: change.treatment.contains(.tolerant))
      try writeOrPark(table, after: { after.map { $0.value ?? .null } }) { try table.insert(after, insertion) }
    case .delete:
      let touched = try write(table) { try table.delete(before, isChecked: !isLenient) }
      guard touched != 1, !isLenient, takeParked(before, of: table) == nil else { return }
      let error = errors.unexpected(table, "deleted", before)
      guard try ahead.excuses(table.source) else { throw error }
      _ = try write(table) { try table.delete(before, isChecked: false) }
    case .update:
      let touched = try writeOrPark(table, after: { try takeOut(table) }) {
        try table.update(before, after, isChecked: !isLenient)
      }
      guard touched == 0 else { return }
      if !isLenient {
        if let row = takeParked(before, of: table) {
          return try write(
            parked: .init(table: table, values: merged(row.values), position: row.position, error: row.error))
        }
        if change.treatment.contains(.incomplete) { return try tables.refuse(table) }
        let error = errors.unexpected(table, "updated", before)
        guard try ahead.excuses(table.source) else { throw error }
      }
      for (index, column) in after.enumerated() where column.isUnchanged { after[index] = before[index] }
      // A column that the source did not repeat is not known here: the chunk with the row brings it.
      if after.contains(where: \.isUnchanged) { return }
      _ = try write(table) { try table.insert(after, insertion(of: table, isCopy: true)) }
    // The replay removes the rows of a whole table.
    case .truncate: parked.forget(table.schema.name)
    }
  }

  /// Runs `body`, which writes a row, and returns the number of rows. If another row has the same unique value, apply
  /// writes the row at the end of the transaction.
  @discardableResult
  func writeOrPark(_ table: SQLiteApplyTable, after row: () throws -> [Value], _ body: () throws -> Int64) throws
    -> Int64
  {
    do { return try write(table, body) } catch let error as CairnError where error.code == .rowExists {
      guard !table.schema.flags.contains(.wholeRow) else { throw error }
      try park(.init(table: table, values: try row(), position: reader.position, error: error))
      return 1
    }
  }

  func takeOut(_ table: SQLiteApplyTable) throws -> [Value] {
    guard let found = try table.probe(before), try table.delete(before, isChecked: false) == 1 else {
      throw errors.unexpected(table, "updated", before)
    }
    return merged(found)
  }

  func merged(_ row: [Value]) -> [Value] { zip(row, after).map { $1.value ?? $0 } }

  private func takeParked(_ row: [ColumnView], of table: SQLiteApplyTable) -> Parked.Row? {
    let key = table.schema.key.compactMap { row[$0].value }
    return key.count == table.schema.key.count ? parked.take(key: key, of: table) : nil
  }

  private func park(_ row: Parked.Row) throws { try parked.add(row, settling: putBack) }

  private func write(parked row: Parked.Row) throws { if try !putBack(row) { try park(row) } }

  /// Inserts a parked row. Returns false if another row still has one of its unique values.
  func putBack(_ row: Parked.Row) throws -> Bool {
    do { return try row.table.insert(row.values) == 1 } catch let error as SQLiteError where error.isUniqueness {
      return false
    }
  }

  /// Writes the parked rows at the end of the transaction. The policy for local writes may let them win over rows with
  /// the same unique values.
  ///
  /// - Throws: The error of the first row that cannot be written.
  func settleParked() throws {
    try parked.settle(putBack)
    for row in parked.takeAll() {
      let isSettled = row.table.localWrites.areSettled
      guard isSettled, try resolve(row.table, before: nil, after: row.values) else { throw row.error }
    }
  }
}
