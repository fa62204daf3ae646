import Changes
import SQLiteKit

/// Replaces a row of SQLite by another version, on a connection on which triggers fire.
struct SQLiteOverriddenRow {
  private let database: Database
  private let turned: OverriddenRow
  private let names: [String]

  init(_ database: Database, _ turned: OverriddenRow) throws {
    (self.database, self.turned) = (database, turned)
    try turned.checkTable(in: .sqlite)
    names = try database.query("SELECT name FROM pragma_table_info(?)", [.text(turned.table)]).map { $0[0].string }
    if names.isEmpty { throw turned.stale("is gone with its table") }
  }

  /// Replaces the row in its table by the version `row`, in the caller's transaction. If `row` is nil, deletes the row.
  func put(_ row: ConflictRow?) throws {
    let table = turned.table.quotedName
    let key = turned.key.columns
    let condition = "WHERE " + key.map { "\($0.name.quotedName) IS ?" }.joined(separator: " AND ")
    let list = names.map(\.quotedName).joined(separator: ", ")
    let there = try database.query("SELECT \(list) FROM \(table) \(condition)", key.map(\.value)).first
    try turned.checkThere(there != nil)
    if let there { try turned.checkSame(differing(from: known(turned.settled), there).first) }
    let columns = try known(row)
    if row == nil {
      try database.run("DELETE FROM \(table) \(condition)", key.map(\.value))
    } else if let there {
      let changed = differing(from: columns, there)
      if changed.isEmpty { return }
      let list = changed.map { "\($0.name.quotedName) = ?" }.joined(separator: ", ")
      try database.run("UPDATE OR ABORT \(table) SET \(list) \(condition)", (changed + key).map(\.value))
    } else {
      let list = columns.map(\.name.quotedName).joined(separator: ", ")
      let marks = columns.map { _ in "?" }.joined(separator: ", ")
      try database.run("INSERT OR ABORT INTO \(table)(\(list)) VALUES (\(marks))", columns.map(\.value))
    }
  }

  private func known(_ row: ConflictRow?) throws -> [ConflictRow.Column] {
    try turned.known(row) { names.contains($0) }
  }

  private func differing(from columns: [ConflictRow.Column], _ there: [Value]) -> [ConflictRow.Column] {
    columns.filter { column in names.firstIndex(of: column.name).map { there[$0] != column.value } ?? false }
  }
}
