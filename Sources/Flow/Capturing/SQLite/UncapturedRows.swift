import Changes
import SQLiteKit

/// The changes of applications to a captured SQLite file that are in its journal, but not in its trail yet.
///
/// An apply into the same file reads these changes inside its write transaction: no other connection can add to them
/// before the commit.
package enum UncapturedRows {
  /// The most journal rows that are read. If there are more, apply waits until capture has written them to the trail.
  static let rowsMax: Int64 = 10_000

  /// Calls `body` with each old and new row of a change, in the shape that the table had at the change. If a REPLACE
  /// may have deleted rows, `body` may get rows that did not change.
  ///
  /// - Parameter position: The source position in the trail's last progress record; empty if there is none.
  /// - Returns: True if `body` got all rows. False, perhaps after some calls, if there are too many journal rows, if
  ///   some have been dropped, or if the file is not captured.
  /// - Throws: ``DecodingError``, ``SQLiteError``, and the errors of `body`.
  package static func read(
    _ database: Database, behind position: [UInt8], _ body: (TableSchema, [Value]) throws -> Void
  ) throws -> Bool {
    let journal = Journal(database)
    guard try journal.isInstalled() else { return false }
    let taken = try position.isEmpty ? 0 : SourcePosition(decoding: position).mark.taken
    let last = try journal.place("SELECT max(seq) FROM cairn_journal")
    guard last > taken else { return true }
    guard last - taken <= rowsMax, try journal.place("SELECT min(seq) FROM cairn_journal") <= taken + 1 else {
      return false
    }
    var layouts: [Int64: Layout] = [:]
    // Rows that belong to no table have smaller codes: they are left out.
    let statement = try database.prepare("SELECT * FROM cairn_journal WHERE seq > ? AND code >= 8 ORDER BY seq")
    try statement.bind([.integer(taken)])
    while try statement.step() {
      let code = statement.integer(1)
      guard code % 8 != JournalKind.asked.rawValue else { continue }
      guard let layout = try layouts[code / 8] ?? journal.layout(code / 8) else { return false }
      layouts[code / 8] = layout
      try body(layout.schema, layout.schema.columns.indices.map { statement.value(3 + $0) })
    }
    return true
  }

  /// Returns the number of journal rows after `position`, the position in the source up to which the trail has all
  /// changes.
  package static func count(_ database: Database, behind position: [UInt8]) throws -> Int64 {
    guard try Journal(database).isInstalled() else { return 0 }
    let taken = try position.isEmpty ? 0 : SourcePosition(decoding: position).mark.taken
    return try database.integer(
      "SELECT count(*) FROM cairn_journal WHERE seq > ? AND code >= 8", [.integer(taken)]) ?? 0
  }
}
