import Changes
import Conflicts
import SQLiteKit

extension WaitingRows {
  package init(_ database: Database) throws { try self.init(of: SQLiteDisplacedRows(database: database)) }
}

/// The waiting rows of an SQLite target.
struct SQLiteDisplacedRows: DisplacedRowStore {
  let database: Database
  final class Tables {
    var columns: [NameKey: [String]] = [:]
    var indexes: [NameKey: [UniqueIndex]] = [:]
  }
  let tables = Tables()

  init(database: Database) { self.database = database }

  var state: any StateDatabase { SQLiteStateDatabase(database: database) }

  /// Returns whether any table has a unique index besides its key, so that there may be waiting rows.
  func mayCome() throws -> Bool {
    try database.integer(
      """
      SELECT 1 FROM sqlite_schema AS t, pragma_index_list(t.name) AS i
      WHERE t.type = 'table' AND t.name NOT LIKE 'cairn\\_%' ESCAPE '\\' AND i."unique" AND i.origin <> 'pk' LIMIT 1
      """) != nil
  }

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
    } catch let error as SQLiteError where error.isOfRow {
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
