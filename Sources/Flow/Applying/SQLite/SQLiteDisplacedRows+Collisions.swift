import Changes
import Conflicts
import SQLiteKit

// Searches for the rows of a table that have a unique value of a row which is not in it.
extension SQLiteDisplacedRows {
  func rows(inTheWayOf row: ContestedRow) throws -> [ContestedRow] {
    let indexes = try uniqueIndexes(of: row)
    guard indexes.allSatisfy(\.isPlain) else { return try triedRows(inTheWayOf: row) }
    var found: [ContestedRow] = []
    for index in indexes {
      for other in try rows(inTheWayOf: row, by: index) where !found.contains(other) { found.append(other) }
    }
    return found
  }

  func holders(of row: ContestedRow) throws -> [WaitingRows.Holder] {
    try uniqueIndexes(of: row).filter(\.isPlain).flatMap { index in
      let values = ConflictRow(index.terms.map(\.column), index.terms.map { row.row[$0.column] })
      return try rows(inTheWayOf: row, by: index).map { WaitingRows.Holder(values: values, key: $0.key) }
    }
  }

  /// Returns the other rows with the same values as `row` in a unique index. Empty for the index over the key.
  private func rows(inTheWayOf row: ContestedRow, by index: UniqueIndex) throws -> [ContestedRow] {
    let key = Set(row.key.columns.map { $0.name.sqliteKey })
    let values = index.terms.compactMap { row.row[$0.column] }
    guard Set(index.terms.map { $0.column.sqliteKey }) != key, values.count == index.terms.count,
      !values.contains(.null)
    else { return [] }
    let terms = index.terms.map { "\($0.column.quotedName) = ? COLLATE \($0.collation.quotedName)" }
    return try rows(
      like: row, "\(terms.joined(separator: " AND ")) AND NOT (\(keyed(row)))", values + row.key.columns.map(\.value))
  }

  /// Returns the other rows that have unique values of `row`. To find them, inserts `row`, and rolls back to before the
  /// insert.
  private func triedRows(inTheWayOf row: ContestedRow) throws -> [ContestedRow] {
    try database.execute("SAVEPOINT cairn_contest")
    let found: [ContestedRow]
    do { found = try removeRows(inTheWayOf: row) } catch {
      try? database.executeScript("ROLLBACK TO cairn_contest; RELEASE cairn_contest")
      throw error
    }
    try database.executeScript("ROLLBACK TO cairn_contest; RELEASE cairn_contest")
    return found
  }

  private func removeRows(inTheWayOf row: ContestedRow) throws -> [ContestedRow] {
    let names = Set(try columns(of: row).map(\.nameKey))
    let given = row.row.columns.filter { names.contains($0.name) }
    let keys = row.key.columns.map(\.name.quotedName)
    let insert = """
      INSERT OR ABORT INTO \(row.table.quotedName)(\(given.map(\.name.quotedName).joined(separator: ","))) \
      VALUES (\(given.map { _ in "?" }.joined(separator: ","))) ON CONFLICT DO
      """
    // An update that changes nothing, by which SQLite returns the row in the way.
    let meet = "\(insert) UPDATE SET \(keys[0]) = \(keys[0]) RETURNING \(keys.joined(separator: ","))"
    var found: [ContestedRow] = []
    try delete(row)
    do {
      while true {
        try database.run("\(insert) NOTHING", given.map(\.value))
        guard database.changes == 0, let key = try database.query(meet, given.map(\.value)).first,
          let other = try rows(like: row, keyed(row), key).first, !found.contains(other)
        else { return found }
        found.append(other)
        try delete(other)
      }
    } catch let error as SQLiteError where error.isOfRow {
      // The constraint is not about other rows: no row is in the way of one that cannot be there.
      return found
    }
  }

  private func delete(_ row: ContestedRow) throws {
    try database.run("DELETE FROM \(row.table.quotedName) WHERE \(keyed(row))", row.key.columns.map(\.value))
  }

  private func rows(like row: ContestedRow, _ condition: String, _ values: [Value]) throws -> [ContestedRow] {
    let names = try columns(of: row)
    let list = names.map(\.quotedName).joined(separator: ",")
    return try database.query("SELECT \(list) FROM \(row.table.quotedName) WHERE \(condition)", values).map { values in
      let values = ConflictRow(names, values)
      let key = ConflictRow(row.key.columns.map { .init($0.name, values[$0.name] ?? .null) })
      return ContestedRow(namespace: row.namespace, table: row.table, key: key, row: values)
    }
  }

  struct UniqueIndex {
    /// Whether the index has no expressions and no WHERE.
    var isPlain: Bool
    var terms: [(column: String, collation: String)]
  }

  private func uniqueIndexes(of row: ContestedRow) throws -> [UniqueIndex] {
    if let known = tables.indexes[row.table] { return known }
    let rows = try database.query(
      """
      SELECT i.seq, x.name, x.coll, NOT i.partial AND c.name IS NOT NULL
      FROM pragma_index_list(?1) i JOIN pragma_index_xinfo(i.name) x
      LEFT JOIN pragma_table_xinfo(?1) c ON c.cid = x.cid AND c.hidden = 0
      WHERE i."unique" AND x.key ORDER BY i.seq, x.seqno
      """, [.text(row.table)])
    let indexes = Dictionary(grouping: rows, by: { $0[0].shown }).sorted { $0.key < $1.key }.map(\.value).map { rows in
      UniqueIndex(
        isPlain: rows.allSatisfy { $0[3] == .integer(1) }, terms: rows.map { ($0[1].string, $0[2].string) })
    }
    tables.indexes[row.table] = indexes
    return indexes
  }
}
