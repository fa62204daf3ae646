import Changes
import Conflicts
import SystemKit

/// Access to the waiting rows of a target, and to their tables.
///
/// The waiting rows are stored in `cairn_candidate` (SQLite) or `cairn.candidate` (PostgreSQL).
protocol DisplacedRowStore {
  var state: any StateDatabase { get }
  /// Returns the rows of the table that hold unique values of the given row, each with these values.
  ///
  /// Ignores unique indexes with an expression or a WHERE clause.
  func holders(of row: ContestedRow) throws -> [WaitingRows.Holder]
  func hasTable(of row: ContestedRow) throws -> Bool
  func mayWrite(_ row: ContestedRow) throws -> Bool
  func isThere(_ row: ContestedRow) throws -> Bool
  func rows(inTheWayOf row: ContestedRow) throws -> [ContestedRow]
  /// Deletes `others` and writes `row`, or does neither.
  ///
  /// - Returns: False if a constraint refuses `row` although `others` are deleted.
  func put(_ row: ContestedRow, insteadOf others: [ContestedRow]) throws -> Bool
}

extension DisplacedRowStore {
  private var table: String { state.table(DisplacedRow.stored) }

  func install() throws {
    let numbers = ["clock", "number", "since"]
    try state.createKeyed(DisplacedRow.stored, DisplacedRow.columnNames + ["since"], numbers: numbers)
    try state.add(["since"], to: DisplacedRow.stored, numbers: numbers)
    try shortenEarlier()
  }

  /// Replaces the keys in `earlier`, which old versions of Cairn stored whole, by their marks.
  private func shortenEarlier() throws {
    func next(after place: [Value]?) throws -> [Value]? {
      let isWhole = "WHERE substr(earlier, 1, 1) = '{'"
      return try state.query(
        """
        SELECT earlier, \(state.rowKey) FROM \(table) \(isWhole) \(place == nil ? "" : "AND \(isLater)")
        ORDER BY \(state.rowKey) LIMIT 1
        """, place ?? []
      ).first
    }
    var row = try next(after: nil)
    while let found = row {
      let place = Array(found.dropFirst())
      try state.execute(
        "UPDATE \(table) SET earlier = ? WHERE \(state.isRow)",
        [.text(DisplacedRow.shortened(earlier: found[0].string))] + place)
      row = try next(after: place)
      if row == found { return }
    }
  }

  private var isLater: String { "(\(state.rowKey)) > (\(state.marks(state.rowKeyCount)))" }

  /// Returns the total size of the waiting rows, in bytes of all columns, by the trail that wrote them last.
  func byteCounts() throws -> [String: Int64] {
    let columns = ["coalesce(schema_name, '')", "table_name", "key", "content", "origin", "coalesce(earlier, '')"]
    let bytes = columns.map { state.byteCount(of: $0) }.joined(separator: " + ")
    let rows = try state.rows("SELECT origin, sum(\(bytes)) FROM \(table) GROUP BY origin")
    return Dictionary(rows.map { ($0[0] ?? "", $0[1].flatMap { Int64($0) } ?? 0) }, uniquingKeysWith: +)
  }

  func counts() throws -> [NameKey: Int] {
    let rows = try state.rows(
      "SELECT schema_name, table_name, count(*) FROM \(table) GROUP BY schema_name, table_name")
    return Dictionary(
      rows.map { row in
        let name = row[1] ?? ""
        return ((state.hasSchemas ? "\(row[0] ?? "").\(name)" : name).nameKey, row[2].flatMap { Int($0) } ?? 0)
      }, uniquingKeysWith: +)
  }

  /// Returns the time at which a row began to wait, in µs since 1970 UTC; nil if not known.
  func since(_ row: ContestedRow) throws -> Int64? {
    guard try state.columns(of: DisplacedRow.stored).contains("since") else { return nil }
    return try state.first("SELECT since FROM \(table) WHERE \(state.isRow)", key(of: row)).flatMap { Int64($0) }
  }

  /// Calls `body` with each waiting row, in the order of the primary key. Only one row is in memory at a time. `body`
  /// may change and remove this row.
  func forEach(_ body: (DisplacedRow) throws -> Void) throws {
    var last: [Value]?
    func next() throws -> [Value]? {
      let condition = last == nil ? "" : "WHERE \(isLater)"
      let list = "SELECT \(DisplacedRow.columns) FROM \(table)"
      return try state.query("\(list) \(condition) ORDER BY \(state.rowKey) LIMIT 1", last ?? []).first
    }
    while let found = try next() {
      let place = Array(found.prefix(3).suffix(state.rowKeyCount))
      // A text that is not valid may not be found again by its place, and would follow itself.
      if place == last { return }
      last = place
      // Nil: another version of Cairn wrote the entry.
      if let row = DisplacedRow(found.map { $0.stateText ?? "" }) { try body(row) }
    }
  }

  /// Returns the waiting row with this key; nil if there is none.
  ///
  /// - Parameter namespace: PostgreSQL: the schema (namespace) of the table; empty in SQLite.
  func find(_ namespace: String, _ table: String, _ key: ConflictRow) throws -> DisplacedRow? {
    try state.rows(
      "SELECT \(DisplacedRow.columns) FROM \(self.table) WHERE \(state.isRow)", state.rowKey(namespace, table, key)
    ).first.flatMap { DisplacedRow($0.map { $0 ?? "" }) }
  }

  func add(_ row: DisplacedRow) throws {
    try state.run(
      """
      INSERT INTO \(table)(\(DisplacedRow.columns), since) VALUES (\(state.marks(DisplacedRow.columnNames.count + 1)))
      ON CONFLICT (\(state.rowKey)) DO UPDATE SET \(DisplacedRow.renewal)
      """, row.texts + [String(Clock.system.microseconds())])
  }

  func remove(_ row: ContestedRow) throws {
    try state.run("DELETE FROM \(table) WHERE \(state.isRow)", key(of: row))
  }

  private func key(of row: ContestedRow) -> [String?] { state.rowKey(row.namespace, row.table, row.key) }
}
