import Changes
import Conflicts
import SQLiteKit

// Rows by their key, as they were settled.
extension TargetTable {
  private var columnNames: [String] { schema.columns.map(\.name.quotedName) }
  private var keyed: String { " WHERE " + schema.key.map { "\(columnNames[$0]) = ?" }.joined(separator: " AND ") }

  /// The row with this key; nil: there is none.
  func row(_ key: [Value]) throws -> [Value]? {
    try database.query(
      "SELECT \(columnNames.joined(separator: ",")) FROM \(schema.name.quotedName)\(keyed)", key
    ).first
  }

  /// Makes the row what it is to be; nil: it goes. Columns that are nil stay as they are.
  func put(_ row: RowVersion.Row?, _ key: [Value]) throws {
    let table = schema.name.quotedName
    guard let row else { return try database.run("DELETE FROM \(table)\(keyed)", key) }
    let given = row.indices.filter { row[$0] != nil }
    let set = given.map { "\(columnNames[$0]) = ?" }.joined(separator: ",")
    try database.run("UPDATE \(table) SET \(set)\(keyed)", given.compactMap { row[$0] } + key)
    guard database.changes == 0 else { return }
    try database.run(
      "INSERT INTO \(table)(\(given.map { columnNames[$0] }.joined(separator: ","))) VALUES (\(given.map { _ in "?" }.joined(separator: ",")))",
      given.compactMap { row[$0] })
  }

  /// Other rows that have one of its unique values.
  func rows(inTheWayOf row: RowVersion.Row, _ key: [Value]) throws -> [[Value]] {
    var found: [[Value]] = []
    for unique in schema.uniques where Set(unique) != Set(schema.key) {
      let values = unique.compactMap { row[$0] }
      guard values.count == unique.count, !values.contains(.null) else { continue }
      let terms = unique.map { "\(columnNames[$0]) = ?" }.joined(separator: " AND ")
      let others = schema.key.map { "\(columnNames[$0]) = ?" }.joined(separator: " AND ")
      let rows = try database.query(
        "SELECT \(columnNames.joined(separator: ",")) FROM \(schema.name.quotedName) WHERE \(terms) AND NOT (\(others))",
        values + key)
      for row in rows where !found.contains(row) { found.append(row) }
    }
    return found
  }
}
