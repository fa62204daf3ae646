import Changes
import Conflicts
import PostgresKit

// Rows of copies whose unique values other rows have.
extension PostgresReplay {
  /// - Parameter isInPlace: Whether the row replaces any present row, so that it is as the source has it.
  func takeCopied(_ table: MappedTable, isInPlace: Bool) throws {
    do { try isInPlace ? insertInPlace(table) : insert(table, isLenient: true) } catch let error as CairnError
      where error.code == .rowExists
    {
      // Only a careful replay shows which of many rows it was.
      guard isCareful else { throw error }
      try contest(table, isInPlace: isInPlace)
    }
  }

  /// Deletes rows in the way that the copy's author no longer has. For others, the commit decides which row has the
  /// value.
  private func contest(_ table: MappedTable, isInPlace: Bool) throws {
    guard let desk else { return }
    let form = PostgresForm(table: table, names: options.names)
    let row = form.row(after.strings)
    let key = table.key.map { row[$0] }
    let replaces = isInPlace || table.existing == .overwrite
    try sink.settle()
    if table.existing == .keep, !replaces, try table.row(key, connection) != nil { return }
    try put(nil, key, table)
    let candidate = try desk.ranked(Candidate(table.mapped, key: key, row: row, stamp: desk.place.stamp))
    if replaces {
      for other in try candidates.rows(inTheWayOf: candidate.row) where try !desk.contests(other) {
        try put(nil, other.key.columns.map(\.value), table)
      }
      if try candidates.rows(inTheWayOf: candidate.row).isEmpty {
        do { return try put(row, key, table) } catch let error as PostgresError { throw refusal(table, error) }
      }
    }
    try sink.attempt { try candidates.add(candidate) }
    heldCopies.append(candidate.row)
    hasCandidates = true
  }
}
