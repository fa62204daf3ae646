import Changes
import Conflicts
import Trails

/// The rows of a target that were waiting rows and are back in their tables. Not thread-safe.
///
/// Stored in `cairn_returned` (SQLite) or `cairn.returned` (PostgreSQL).
struct StoredReturns {
  struct Entry {
    /// The row that is back in its table. Nil if the entry is for all rows that have no entry of their own.
    var row: ContestedRow?
    /// The last transaction of each trail that this node had applied when the row came back.
    var known: [TrailID: UInt64]
    /// The number of a transaction in this database's own trail; nil: not known yet. Writes that were committed before
    /// the row came back have this or a lower number.
    var own: UInt64?
  }

  private static let name = "returned"
  private static let columns = ["schema_name", "table_name", "key", "known", "own"]
  private let state: any StateDatabase

  init(_ state: some StateDatabase) { self.state = state }

  private var table: String { state.table(Self.name) }

  func install() throws { try state.createKeyed(Self.name, Self.columns) }

  func note(_ entry: Entry) throws {
    // An entry without a row replaces all entries before it.
    if entry.row == nil { try state.run("DELETE FROM \(table)") }
    let known = entry.known.map { "\($0.key) \($0.value)" }.joined(separator: "\n")
    try state.run(
      """
      INSERT INTO \(table)(\(Self.columns.joined(separator: ", "))) VALUES (\(state.marks(Self.columns.count)))
      ON CONFLICT (\(state.rowKey)) DO UPDATE SET known = excluded.known, own = excluded.own
      """,
      [
        entry.row?.namespace ?? "", entry.row?.table ?? "", entry.row?.key.json ?? "", known,
        entry.own.map(String.init),
      ])
  }

  /// Stores the transaction number `own` of this database's own trail in all entries that have none yet.
  func close(by own: UInt64) throws {
    try state.run("UPDATE \(table) SET own = ? WHERE own IS NULL", [String(own)])
  }

  func all() throws -> [Entry] {
    let columns = Self.columns.joined(separator: ", ")
    // A program that writes to the file can add any number of rows. An entry without a key comes first.
    let texts = try state.rows("SELECT \(columns) FROM \(table) ORDER BY key LIMIT \(ReturnsFromWaiting.countMax + 1)")
    return texts.compactMap { texts in
      guard let table = texts[1], let key = texts[2] else { return nil }
      var row: ContestedRow?
      if !key.isEmpty {
        guard let key = ConflictRow(json: key) else { return nil }
        row = ContestedRow(namespace: texts[0] ?? "", table: table, key: key, row: ConflictRow([]))
      }
      let known = (texts[3] ?? "").split(at: "\n").compactMap { line -> (TrailID, UInt64)? in
        let words = line.split(at: " ")
        guard words.count == 2, let id = TrailID(hex: words[0]), let number = UInt64(words[1]) else { return nil }
        return (id, number)
      }
      return Entry(row: row, known: Dictionary(known) { max($0, $1) }, own: texts[4].flatMap { UInt64($0) })
    }
  }
}
