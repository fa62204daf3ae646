import SQLiteKit

extension Database {
  /// Returns the number of the last journal row, or of the last captured row if the journal is empty. Nil if the source
  /// is not captured.
  ///
  /// - Throws: `database-damaged` for a number that Cairn assigns to no row.
  package func lastJournalRow() throws -> Int64? {
    let journal = Journal(self)
    guard try journal.isInstalled() else { return nil }
    return try max(
      journal.place("SELECT max(seq) FROM cairn_journal"),
      journal.place("SELECT taken FROM cairn_control WHERE id = 0"))
  }
}
