import Changes
import Conflicts
import SQLiteKit

/// The candidates of an SQLite target.
struct SQLiteCandidates: CandidateStore {
  let database: Database

  func install() throws {
    try database.execute(
      """
      CREATE TABLE IF NOT EXISTS cairn_candidate(schema_name TEXT, table_name TEXT, key TEXT, content TEXT, clock INTEGER,
        origin TEXT, number INTEGER, earlier TEXT, PRIMARY KEY (table_name, key)) WITHOUT ROWID
      """)
  }

  /// Whether a table has unique values besides its key.
  func mayCome() throws -> Bool {
    try database.integer(
      """
      SELECT 1 FROM sqlite_schema AS t, pragma_index_list(t.name) AS i
      WHERE t.type = 'table' AND t.name NOT LIKE 'cairn\\_%' ESCAPE '\\' AND i."unique" AND i.origin <> 'pk' LIMIT 1
      """) != nil
  }

  func isEmpty() throws -> Bool { try database.integer("SELECT 1 FROM cairn_candidate LIMIT 1") == nil }

  func all() throws -> [Candidate] { try candidates("", []) }

  func find(_ table: String, _ key: ConflictRow) throws -> Candidate? {
    try candidates(" WHERE table_name = ? AND key = ?", [.text(table), .text(key.json)]).first
  }

  private func candidates(_ condition: String, _ values: [Value]) throws -> [Candidate] {
    try database.query("SELECT \(Candidate.columns) FROM cairn_candidate\(condition)", values).compactMap { row in
      Candidate(row.map { if case .integer(let number) = $0 { String(number) } else { $0.string } })
    }
  }

  func add(_ candidate: Candidate) throws {
    try database.run(
      "INSERT OR REPLACE INTO cairn_candidate(\(Candidate.columns)) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
      candidate.texts.map { .text($0) })
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

  func isThere(_ row: ContestedRow) throws -> Bool {
    try database.first("SELECT 1 FROM \(row.table.quotedName) WHERE \(keyed(row))", row.key.columns.map(\.value)) != nil
  }

  func rows(inTheWayOf row: ContestedRow) throws -> [ContestedRow] {
    let names = try columns(of: row)
    let list = names.map(\.quotedName).joined(separator: ",")
    var found: [ContestedRow] = []
    for unique in try uniques(of: row) {
      let values = unique.compactMap { row.row[$0.column] }
      guard values.count == unique.count, !values.contains(.null) else { continue }
      let terms = unique.map { "\($0.column.quotedName) = ? COLLATE \($0.collation.quotedName)" }
      let rows = try database.query(
        "SELECT \(list) FROM \(row.table.quotedName) WHERE \(terms.joined(separator: " AND ")) AND NOT (\(keyed(row)))",
        values + row.key.columns.map(\.value))
      for values in rows.map({ ConflictRow(names, $0) }) {
        let key = ConflictRow(row.key.columns.map { .init($0.name, values[$0.name] ?? .null) })
        let other = ContestedRow(namespace: row.namespace, table: row.table, key: key, row: values)
        if !found.contains(other) { found.append(other) }
      }
    }
    return found
  }

  func put(_ row: ContestedRow, insteadOf others: [ContestedRow]) throws -> Bool {
    let names = Set(try columns(of: row))
    let given = row.row.columns.filter { names.contains($0.name) }
    let list = given.map(\.name.quotedName).joined(separator: ",")
    let marks = given.map { _ in "?" }.joined(separator: ",")
    try database.execute("SAVEPOINT cairn_candidate")
    do {
      for other in others {
        try database.run(
          "DELETE FROM \(other.table.quotedName) WHERE \(keyed(other))", other.key.columns.map(\.value))
      }
      try database.run("INSERT INTO \(row.table.quotedName)(\(list)) VALUES (\(marks))", given.map(\.value))
      try database.execute("RELEASE cairn_candidate")
      return true
    } catch let error as SQLiteError where error.isConstraint {
      try database.execute("ROLLBACK TO cairn_candidate; RELEASE cairn_candidate")
      return false
    }
  }

  private func keyed(_ row: ContestedRow) -> String {
    row.key.columns.map { "\($0.name.quotedName) = ?" }.joined(separator: " AND ")
  }

  /// All but generated ones.
  private func columns(of row: ContestedRow) throws -> [String] {
    try database.query("SELECT name FROM pragma_table_xinfo(?) WHERE hidden = 0", [.text(row.table)])
      .map { $0[0].string }
  }

  /// Without those over expressions or parts of the rows, and without the key.
  private func uniques(of row: ContestedRow) throws -> [[(column: String, collation: String)]] {
    let rows = try database.query(
      """
      SELECT i.seq, x.name, x.coll FROM pragma_index_list(?) i JOIN pragma_index_xinfo(i.name) x
      WHERE i."unique" AND NOT i.partial AND x.key ORDER BY i.seq, x.seqno
      """, [.text(row.table)])
    let key = Set(row.key.columns.map { $0.name.lowercased() })
    return Dictionary(grouping: rows, by: { $0[0].shown }).sorted { $0.key < $1.key }.map(\.value)
      .filter { index in !index.contains { $0[1] == .null } && Set(index.map { $0[1].string.lowercased() }) != key }
      .map { $0.map { (column: $0[1].string, collation: $0[2].string) } }
  }
}
