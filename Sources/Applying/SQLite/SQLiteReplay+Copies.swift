import Changes
import Conflicts
import SQLiteKit

// Rows of copies whose unique values other rows have.
extension SQLiteReplay {
  func takeCopied(_ table: TargetTable) throws {
    do { _ = try table.insert(after, insertion(of: table, isCopy: true)) } catch let error as SQLiteError
      where error.isUniqueness && table.mayCollide
    {
      try contest(table)
    } catch let error as SQLiteError where error.isConstraint { throw refused(table, error) }
  }

  /// Deletes rows in the way that the copy's author no longer has. For others, the commit decides which row has the
  /// value.
  private func contest(_ table: TargetTable) throws {
    guard let desk else { return }
    let row = after.map { $0.value ?? .null }
    let key = table.schema.key.map { row[$0] }
    let replaces = table.state.refreshing == .rows || table.existing == .overwrite
    if table.existing == .keep, !replaces, try table.row(key) != nil { return }
    try table.put(nil, key)
    let candidate = try desk.ranked(Candidate(table.schema, key: key, row: row, stamp: desk.place.stamp))
    if replaces {
      for other in try candidates.rows(inTheWayOf: candidate.row) where try !desk.contests(other) {
        try table.put(nil, other.key.columns.map(\.value))
      }
      if try candidates.rows(inTheWayOf: candidate.row).isEmpty {
        _ = try write(table) {
          try table.put(row, key)
          return 1
        }
        return
      }
    }
    try candidates.add(candidate)
    heldCopies.append(candidate.row)
    hasCandidates = true
  }
}
