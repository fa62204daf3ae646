import Changes
import SQLiteKit

/// The changes of applications to a captured SQLite file that its trail lacks. An apply reads them in its write
/// transaction, so no other connection can add changes.
package enum UncapturedRows {
  /// The highest number of journal rows to read. If there are more, apply waits until capture has read them.
  static let rowsMax: Int64 = 10_000

  /// Calls `body` with each old and new row of a change, in the shape that the table had at that change. If a REPLACE
  /// may have deleted rows, `body` may get unchanged rows too.
  ///
  /// - Parameter position: The source position in the trail's last progress record; empty if there is none.
  /// - Returns: False if there are too many journal rows, if some were dropped, or if the file is not captured.
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
    var layouts: [Int64: CaptureInstance] = [:]
    var room = TableSchema.memoryMax
    // Rows that belong to no table have smaller codes: they are left out.
    let statement = try database.prepare("SELECT * FROM cairn_journal WHERE seq > ? AND code >= 8 ORDER BY seq")
    try statement.bind([.integer(taken)])
    while try statement.step() {
      let code = statement.integer(1)
      guard code % 8 != JournalKind.asked.rawValue else { continue }
      if layouts[code / 8] == nil, let layout = try journal.layout(code / 8, room: room) {
        room -= layout.schema.memoryBytes
        layouts[code / 8] = layout
      }
      guard let layout = layouts[code / 8] else { return false }
      try body(layout.schema, layout.schema.columns.indices.map { statement.value(3 + $0) })
    }
    return true
  }

  /// Returns the number of journal rows after a source position.
  package static func count(_ database: Database, behind position: [UInt8]) throws -> Int64 {
    guard try Journal(database).isInstalled() else { return 0 }
    let taken = try position.isEmpty ? 0 : SourcePosition(decoding: position).mark.taken
    return try database.integer(
      "SELECT count(*) FROM cairn_journal WHERE seq > ? AND code >= 8", [.integer(taken)]) ?? 0
  }
}
