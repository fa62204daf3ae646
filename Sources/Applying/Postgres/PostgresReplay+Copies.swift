import Changes

// Rows of copies whose unique values other rows have.
extension PostgresReplay {
  /// - Parameter isInPlace: Whether the row replaces any present row, so that it is as the source has it.
  func takeCopied(_ table: MappedTable, isInPlace: Bool) throws {
    do { try isInPlace ? insertInPlace(table) : insert(table, isLenient: true) } catch let error as CairnError
      where error.code == .rowExists
    {
      // Only a careful replay shows which of many rows it was.
      guard isCareful else { throw error }
      try resolver?.takeCopied(form(of: table).row(after.strings), of: table, isInPlace: isInPlace)
    }
  }
}
