import Changes
import Conflicts
import PostgresKit
import SQLiteKit

/// A row that has to be elsewhere for now, since a later one has one of its unique values. It comes back when that value is
/// free: which rows are there depends on all that were written, and not on the order in which they came.
///
/// Kept in the target: `cairn_candidate` in SQLite, `cairn.candidate` in PostgreSQL.
struct Candidate {
  /// PostgreSQL: the schema of the table; empty in SQLite.
  var namespace: String
  var table: String
  var key: ConflictRow
  var row: ConflictRow
  var stamp: Stamp

  init(_ table: TableSchema, key: [Value], row: [Value?], stamp: Stamp) {
    let names = table.columns.map(\.name)
    (namespace, self.table, self.stamp) = (table.namespace, table.name, stamp)
    (self.key, self.row) = (ConflictRow(table.key.map { names[$0] }, key), ConflictRow(names, row))
  }

  static let columns = "schema_name, table_name, key, content, clock, origin, number"

  var texts: [String] {
    [
      namespace, table, key.json, row.json, String(Int64(bitPattern: stamp.clock)), stamp.origin,
      String(Int64(bitPattern: stamp.number)),
    ]
  }

  /// Nil for what no cairn of this version wrote.
  init?(_ texts: [String]) {
    guard texts.count == 7, let key = ConflictRow(json: texts[2]), let row = ConflictRow(json: texts[3]),
      let clock = Int64(texts[4]), let number = Int64(texts[6])
    else { return nil }
    (namespace, table, self.key, self.row) = (texts[0], texts[1], key, row)
    stamp = Stamp(clock: UInt64(bitPattern: clock), origin: texts[5], number: UInt64(bitPattern: number))
  }
}

/// The candidates of an SQLite target.
struct SQLiteCandidates {
  let database: Database

  func install() throws {
    try database.execute(
      """
      CREATE TABLE IF NOT EXISTS cairn_candidate(schema_name TEXT, table_name TEXT, key TEXT, content TEXT, clock INTEGER,
        origin TEXT, number INTEGER, PRIMARY KEY (table_name, key)) WITHOUT ROWID
      """)
  }

  func isEmpty() throws -> Bool { try database.integer("SELECT 1 FROM cairn_candidate LIMIT 1") == nil }

  func add(_ candidate: Candidate) throws {
    try database.run(
      "INSERT OR REPLACE INTO cairn_candidate(\(Candidate.columns)) VALUES (?, ?, ?, ?, ?, ?, ?)",
      candidate.texts.map { .text($0) })
  }

  func remove(_ table: String, _ key: ConflictRow) throws {
    try database.run("DELETE FROM cairn_candidate WHERE table_name = ? AND key = ?", [.text(table), .text(key.json)])
  }

  private func isThere(_ table: String) throws -> Bool {
    try database.integer(
      "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ? COLLATE NOCASE", [.text(table)]) != nil
  }

  /// Puts those back whose values are free, the latest first; returns how many were.
  func bringBack() throws -> Int {
    let rows = try database.query("SELECT \(Candidate.columns) FROM cairn_candidate").compactMap { row in
      Candidate(row.map { if case .integer(let number) = $0 { String(number) } else { $0.string } })
    }
    var count = 0
    for candidate in rows.sorted(by: { $0.stamp > $1.stamp }) {
      let table = candidate.table.quotedName
      let key = candidate.key.columns
      // With its table, the value for which it waits is gone.
      guard try isThere(candidate.table) else {
        try remove(candidate.table, candidate.key)
        continue
      }
      let condition = key.map { "\($0.name.quotedName) = ?" }.joined(separator: " AND ")
      if try database.first("SELECT 1 FROM \(table) WHERE \(condition)", key.map(\.value)) == nil {
        let names = candidate.row.columns.map(\.name.quotedName).joined(separator: ",")
        let marks = candidate.row.columns.map { _ in "?" }.joined(separator: ",")
        do {
          try database.run("INSERT INTO \(table)(\(names)) VALUES (\(marks))", candidate.row.columns.map(\.value))
        } catch let error as SQLiteError where error.isConstraint { continue }
        count += 1
      }
      try remove(candidate.table, candidate.key)
    }
    return count
  }
}

/// The candidates of a PostgreSQL target.
struct PostgresCandidates {
  let connection: PostgresConnection

  func install() throws {
    try connection.execute(
      """
      CREATE TABLE IF NOT EXISTS cairn.candidate(schema_name text, table_name text, key text, content text, clock bigint,
        origin text, number bigint, PRIMARY KEY (schema_name, table_name, key))
      """)
  }

  func isEmpty() throws -> Bool { try connection.first("SELECT 1 FROM cairn.candidate LIMIT 1") == nil }

  func add(_ candidate: Candidate) throws {
    try connection.run(
      """
      INSERT INTO cairn.candidate(\(Candidate.columns)) VALUES ($1, $2, $3, $4, $5, $6, $7)
      ON CONFLICT (schema_name, table_name, key) DO UPDATE SET content = excluded.content, clock = excluded.clock,
        origin = excluded.origin, number = excluded.number
      """, candidate.texts)
  }

  func remove(_ namespace: String, _ table: String, _ key: ConflictRow) throws {
    try connection.run(
      "DELETE FROM cairn.candidate WHERE schema_name = $1 AND table_name = $2 AND key = $3",
      [namespace, table, key.json])
  }

  /// Puts those back whose values are free, the latest first; returns how many were. `attempt` keeps an error from
  /// ending the transaction.
  func bringBack(_ attempt: (() throws -> Void) throws -> Void) throws -> Int {
    let rows = try connection.query("SELECT \(Candidate.columns) FROM cairn.candidate")
      .compactMap { Candidate($0.map { $0 ?? "" }) }
    var count = 0
    for candidate in rows.sorted(by: { $0.stamp > $1.stamp }) {
      let table = "\(candidate.namespace.quotedName).\(candidate.table.quotedName)"
      let key = candidate.key.columns
      // With its table, the value for which it waits is gone.
      guard try connection.first("SELECT to_regclass($1) IS NOT NULL", [table]) == "t" else {
        try remove(candidate.namespace, candidate.table, candidate.key)
        continue
      }
      let condition = key.enumerated().map { "\($1.name.quotedName) = $\($0 + 1)" }.joined(separator: " AND ")
      if try connection.first("SELECT 1 FROM \(table) WHERE \(condition)", key.map(\.value.postgresInput)) == nil {
        let columns = candidate.row.columns
        let names = columns.map(\.name.quotedName).joined(separator: ",")
        let marks = columns.indices.map { "$\($0 + 1)" }.joined(separator: ",")
        do {
          try attempt {
            try connection.run(
              "INSERT INTO \(table)(\(names)) OVERRIDING SYSTEM VALUE VALUES (\(marks))",
              columns.map(\.value.postgresInput))
          }
        } catch let error as PostgresError where error.isConstraint { continue }
        count += 1
      }
      try remove(candidate.namespace, candidate.table, candidate.key)
    }
    return count
  }
}
