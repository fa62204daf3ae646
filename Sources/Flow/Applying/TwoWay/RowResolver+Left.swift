import Changes
import Conflicts
import Versions

// Deleted rows that are still in their tables only because other rows referenced them.
extension RowResolver {
  /// Deletes the rows that the present transaction's rows no longer reference, if only that kept them from being
  /// deleted.
  ///
  /// The author of their delete knew that the referencing rows were gone. That change arrives here later, by the present
  /// transaction.
  func removeLeft() throws {
    var open = try desk.leftRows.flatMap { try desk.rows(of: $0) }
    var met: Set<KeyedRow> = []
    while let row = open.popLast() {
      if met.insert(row).inserted { open += try removeIfDeleted(row) }
    }
  }
}
