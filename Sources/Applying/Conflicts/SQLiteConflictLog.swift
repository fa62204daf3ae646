import Changes
import Mapping
import SQLiteKit

/// The conflicts of an SQLite target, in its table `cairn_conflict`.
package struct SQLiteConflictLog: ConflictLog {
  let database: Database
  package init(_ database: Database) { self.database = database }

  private static let types = ["at", "number", "clock", "other_number", "other_clock", "overturned_at"]

  package func isInstalled() throws -> Bool {
    try database.integer("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'cairn_conflict'") != nil
  }

  /// Creates the table, or adds the columns that an older version's table lacks. In the caller's transaction, if one is
  /// open.
  package func install() throws {
    let columns = ConflictColumns.names.map { "\($0) \(Self.types.contains($0) ? "INTEGER" : "TEXT")" }
    guard try isInstalled() else {
      return try database.execute(
        "CREATE TABLE cairn_conflict(id INTEGER PRIMARY KEY, \(columns.joined(separator: ", ")))")
    }
    let there = Set(try database.query("SELECT name FROM pragma_table_info('cairn_conflict')").map { $0[0].string })
    for (name, column) in zip(ConflictColumns.names, columns) where !there.contains(name) {
      try database.execute("ALTER TABLE cairn_conflict ADD COLUMN \(column)")
    }
  }

  /// Logs a conflict in the open transaction, and from time to time deletes those older than 30 days. Returns its
  /// number.
  @discardableResult package func append(_ record: ConflictRecord) throws -> Int64 {
    let marks = ConflictColumns.names.map { _ in "?" }.joined(separator: ", ")
    // INTEGER columns store numbers that are bound as texts as integers.
    let id = try database.integer(
      "INSERT INTO cairn_conflict(\(ConflictColumns.list)) VALUES (\(marks)) RETURNING id",
      ConflictColumns.texts(record).map { $0.map { .text($0) } ?? .null })
    if let id, ConflictRetention.isDue(at: id) { _ = try prune(before: record.at - ConflictRetention.microseconds) }
    return id ?? 0
  }

  package func list(before: Int64?, limit: Int) throws -> [ConflictRecord] {
    guard try isInstalled() else { return [] }
    return try records(
      "WHERE id < ? ORDER BY id DESC LIMIT ?", [.integer(before ?? .max), .integer(Int64(limit))])
  }

  package func find(_ id: Int64) throws -> ConflictRecord? {
    guard try isInstalled() else { return nil }
    return try records("WHERE id = ?", [.integer(id)]).first
  }

  private func records(_ condition: String, _ parameters: [Value]) throws -> [ConflictRecord] {
    try database.query("SELECT id, \(ConflictColumns.list) FROM cairn_conflict \(condition)", parameters).map { row in
      guard case .integer(let id) = row[0],
        let record = ConflictColumns.record(
          id: id,
          { index in
            switch row[index + 1] {
            case .text(let bytes): String(decoding: bytes, as: UTF8.self)
            case .integer(let number): String(number)
            default: nil
            }
          })
      else {
        throw CairnError(
          .databaseDamaged, "table cairn_conflict of \(database.path) holds a row that this cairn did not write",
          hint: "use the cairn that wrote it")
      }
      return record
    }
  }

  package func prune(before moment: Int64) throws -> Int64 {
    guard try isInstalled() else { return 0 }
    try database.run("DELETE FROM cairn_conflict WHERE at < ?", [.integer(moment)])
    return database.changes
  }

  // MARK: Overturn

  @discardableResult package func overturn(
    _ id: Int64, to winner: ConflictRecord.Winner?, force: Bool, now: Int64, within scope: TargetScope
  ) throws -> ConflictRecord {
    // Foreign keys are enforced as for an application. Triggers fire, so that capture takes the change.
    try database.execute("PRAGMA foreign_keys = ON")
    return try database.transaction {
      guard var record = try find(id) else { throw ConflictRecord.missing(id, database.path) }
      let row = try record.row(of: winner)
      try SQLiteTurnedRow(database, record.turned(force: force, within: scope)).put(row)
      try database.run("UPDATE cairn_conflict SET overturned_at = ? WHERE id = ?", [.integer(now), .integer(id)])
      record.overturnedAt = now
      return record
    }
  }
}
