import Changes
import SQLiteKit

// Copied rows whose unique values other rows have.
extension SQLiteReplay {
  func takeCopied(_ table: SQLiteApplyTable) throws {
    do { _ = try table.insert(after, insertion(of: table, isCopy: true)) } catch let error as SQLiteError
      where error.isUniqueness && table.isContested && resolver != nil
    {
      let row = after.map { $0.value ?? .null }
      try resolver?.takeCopied(row, of: table, isInPlace: table.refreshing == .rows)
    } catch let error as SQLiteError where error.isOfRow { throw refused(table, error) }
  }
}
