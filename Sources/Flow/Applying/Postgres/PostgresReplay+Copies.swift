import Changes

// Copied rows whose unique values other rows have.
extension PostgresReplay {
  /// Writes a row that a refresh brought. If another row has the same unique value, one of the two becomes a waiting
  /// row.
  ///
  /// - Parameter isInPlace: Whether the row replaces the target's row with its key.
  func takeCopied(_ table: PostgresApplyTable, isInPlace: Bool) throws {
    do { try isInPlace ? insertInPlace(table) : insert(table, isLenient: true) } catch let error as CairnError
      where error.code == .rowExists
    {
      // Only a careful replay shows which of many rows it was.
      guard isCareful else { throw error }
      try resolver?.takeCopied(form(of: table).row(after.strings), of: table, isInPlace: isInPlace)
    }
  }

  /// Sends the refresh rows that were collected before the present record, then runs `body`, which applies this record.
  ///
  /// - Parameter id: The id of the schema of the record's table.
  func betweenRows(of id: UInt64, _ body: () throws -> Void) throws {
    try statements?.checkIdle()
    try endChunk()
    try onTable(id, body)
  }
}
