import Changes
import Conflicts
import SQLiteKit
import SystemKit

/// The waiting rows of an SQLite target.
struct SQLiteDisplacedRows: DisplacedRowStore {
  let database: Database
  final class Tables {
    var columns: [NameKey: [String]] = [:]
    var indexes: [NameKey: [UniqueIndex]] = [:]
  }
  let tables = Tables()

  init(database: Database) { self.database = database }

  func install() throws {
    try database.execute(
      """
      CREATE TABLE IF NOT EXISTS cairn_candidate(schema_name TEXT, table_name TEXT, key TEXT, content TEXT, clock INTEGER,
        origin TEXT, number INTEGER, earlier TEXT, since INTEGER, PRIMARY KEY (table_name, key)) WITHOUT ROWID
      """)
    if try !hasSince() { try database.execute("ALTER TABLE cairn_candidate ADD COLUMN since INTEGER") }
    try shortenEarlier()
  }

  /// Returns whether `cairn_candidate` has the column `since`, which old versions of Cairn did not create.
  private func hasSince() throws -> Bool {
    try database.integer("SELECT 1 FROM pragma_table_info('cairn_candidate') WHERE name = 'since'") != nil
  }

  /// Replaces the keys in `earlier`, which old versions of Cairn stored whole, by their marks.
  private func shortenEarlier() throws {
    let whole = "SELECT table_name, key, earlier FROM cairn_candidate WHERE substr(earlier, 1, 1) = '{'"
    var row = try database.query("\(whole) ORDER BY table_name, key LIMIT 1").first
    while let found = row {
      let place = [found[0], found[1]]
      try database.run(
        "UPDATE cairn_candidate SET earlier = ? WHERE table_name = ? AND key = ?",
        [.text(DisplacedRow.shortened(earlier: found[2].string))] + place)
      let next = "\(whole) AND (table_name, key) > (?, ?) ORDER BY table_name, key LIMIT 1"
      row = try database.query(next, place).first
      if row == found { return }
    }
  }

  /// Returns whether any table has a unique index besides its key, so that there may be waiting rows.
  func mayCome() throws -> Bool {
    try database.integer(
      """
      SELECT 1 FROM sqlite_schema AS t, pragma_index_list(t.name) AS i
      WHERE t.type = 'table' AND t.name NOT LIKE 'cairn\\_%' ESCAPE '\\' AND i."unique" AND i.origin <> 'pk' LIMIT 1
      """) != nil
  }

  func byteCounts() throws -> [String: Int64] {
    let rows = try database.query(
      """
      SELECT origin, sum(length(CAST(table_name || key || content || origin || coalesce(earlier, '') AS BLOB)))
      FROM cairn_candidate GROUP BY origin
      """)
    return Dictionary(rows.map { ($0[0].string, Int64($0[1].shown) ?? 0) }, uniquingKeysWith: +)
  }

  func counts() throws -> [NameKey: Int] {
    let rows = try database.query("SELECT table_name, count(*) FROM cairn_candidate GROUP BY table_name")
    return Dictionary(rows.map { ($0[0].string.nameKey, Int($0[1].shown) ?? 0) }, uniquingKeysWith: +)
  }

  func since(_ row: ContestedRow) throws -> Int64? {
    guard try hasSince() else { return nil }
    return try database.integer(
      "SELECT since FROM cairn_candidate WHERE table_name = ? AND key = ?", [.text(row.table), .text(row.key.json)])
  }

  func next(after place: [Value]?) throws -> (place: [Value], row: DisplacedRow?)? {
    let condition = place == nil ? "" : " WHERE (table_name, key) > (?, ?)"
    return try database.query(
      "SELECT \(DisplacedRow.columns) FROM cairn_candidate\(condition) ORDER BY table_name, key LIMIT 1", place ?? []
    ).first.map { (Array($0[1...2]), Self.candidate($0)) }
  }

  func find(_ namespace: String, _ table: String, _ key: ConflictRow) throws -> DisplacedRow? {
    try candidates(" WHERE table_name = ? AND key = ?", [.text(table), .text(key.json)]).first
  }

  private func candidates(_ condition: String, _ values: [Value]) throws -> [DisplacedRow] {
    try database.query("SELECT \(DisplacedRow.columns) FROM cairn_candidate\(condition)", values)
      .compactMap(Self.candidate)
  }

  private static func candidate(_ row: [Value]) -> DisplacedRow? {
    DisplacedRow(row.map { if case .integer(let number) = $0 { String(number) } else { $0.string } })
  }

  func add(_ candidate: DisplacedRow) throws {
    try database.run(
      """
      INSERT INTO cairn_candidate(\(DisplacedRow.columns), since) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
      ON CONFLICT (table_name, key) DO UPDATE SET \(DisplacedRow.renewal)
      """, candidate.texts.map { .text($0) } + [.integer(Clock.system.microseconds())])
  }

  func remove(_ row: ContestedRow) throws {
    try database.run(
      "DELETE FROM cairn_candidate WHERE table_name = ? AND key = ?", [.text(row.table), .text(row.key.json)])
  }

  // MARK: Tables

  func hasTable(of row: ContestedRow) throws -> Bool {
    try database.integer(
      "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ? COLLATE NOCASE", [.text(row.table)]) != nil
  }

  func mayWrite(_ row: ContestedRow) -> Bool { true }

  func isThere(_ row: ContestedRow) throws -> Bool {
    try database.first("SELECT 1 FROM \(row.table.quotedName) WHERE \(keyed(row))", row.key.columns.map(\.value)) != nil
  }

  func put(_ row: ContestedRow, insteadOf others: [ContestedRow]) throws -> Bool {
    let names = Set(try columns(of: row).map(\.nameKey))
    let given = row.row.columns.filter { names.contains($0.name) }
    let list = given.map(\.name.quotedName).joined(separator: ",")
    let marks = given.map { _ in "?" }.joined(separator: ",")
    try database.execute("SAVEPOINT cairn_candidate")
    do {
      for other in others {
        try database.run(
          "DELETE FROM \(other.table.quotedName) WHERE \(keyed(other))", other.key.columns.map(\.value))
      }
      try database.run("INSERT OR ABORT INTO \(row.table.quotedName)(\(list)) VALUES (\(marks))", given.map(\.value))
      try database.execute("RELEASE cairn_candidate")
      return true
    } catch let error as SQLiteError where error.isConstraint {
      try database.executeScript("ROLLBACK TO cairn_candidate; RELEASE cairn_candidate")
      return false
    }
  }

  func keyed(_ row: ContestedRow) -> String {
    row.key.columns.map { "\($0.name.quotedName) = ?" }.joined(separator: " AND ")
  }

  func columns(of row: ContestedRow) throws -> [String] {
    if let known = tables.columns[row.table] { return known }
    let found = try database.query("SELECT name FROM pragma_table_xinfo(?) WHERE hidden = 0", [.text(row.table)])
    let columns = found.map { $0[0].string }
    tables.columns[row.table] = columns
    return columns
  }
}
