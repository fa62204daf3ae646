import Changes
import SQLiteKit

/// What programs have written to a captured SQLite file and its trail does not hold yet, as the journal has it.
///
/// An apply into the same file asks, inside of its transaction that writes: then nobody can add to it before the commit.
package enum UncapturedRows {
  /// Past so many journal rows they are not looked at: capture is far behind, and is waited for.
  static let rowsMax: Int64 = 10_000

  /// Calls `body` with each row that a change was made from or to, in the shape that it had then; with more rows than were
  /// changed where a REPLACE may have taken some. `position`: of the trail's last progress record; empty when it has none.
  ///
  /// False, and perhaps nothing shown, where the journal does not tell: there are too many rows, some have been dropped, or
  /// the file is not captured yet. Errors: ``DecodingError``, ``SQLiteError``, and what `body` throws.
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
    // Without the rows that are of no table.
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

  /// How many journal rows that are.
  package static func count(_ database: Database, behind position: [UInt8]) throws -> Int64 {
    guard try Journal(database).isInstalled() else { return 0 }
    let taken = try position.isEmpty ? 0 : SourcePosition(decoding: position).mark.taken
    return try database.integer(
      "SELECT count(*) FROM cairn_journal WHERE seq > ? AND code >= 8", [.integer(taken)]) ?? 0
  }
}
