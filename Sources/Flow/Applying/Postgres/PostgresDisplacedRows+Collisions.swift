import Changes
import Conflicts

// Searches for the rows of a table that have a unique value of a row which is not in it.
extension PostgresDisplacedRows {
  func rows(inTheWayOf row: ContestedRow) throws -> [ContestedRow] {
    guard let table = try table(of: row) else { return [] }
    return try table.uniqueIndexes.reduce(into: []) { found, index in
      for other in try rows(of: table, inTheWayOf: row, by: index) where !found.contains(other) { found.append(other) }
    }
  }

  func holders(of row: ContestedRow) throws -> [WaitingRows.Holder] {
    guard let table = try table(of: row) else { return [] }
    return try table.uniqueIndexes.flatMap { index -> [WaitingRows.Holder] in
      guard index.predicate == nil, let columns = index.columns else { return [] }
      let values = ConflictRow(columns, columns.map { row.row[$0] })
      return try rows(of: table, inTheWayOf: row, by: index).map { WaitingRows.Holder(values: values, key: $0.key) }
    }
  }

  private func rows(
    of table: PostgresTargetTable, inTheWayOf row: ContestedRow, by index: PostgresTargetTable.UniqueIndex
  ) throws -> [ContestedRow] {
    guard index.predicate != nil || !index.isOver(row.key.columns.map(\.name)) else { return [] }
    let given = row.row.columns.filter { column in table.column(column.name).map { !$0.isGenerated } ?? false }
    let values = given.map(\.value.postgresInput) + Self.values(row.key)
    let keyed = keyed(row, table, from: given.count + 1)
    let source = "WITH given AS MATERIALIZED (\(index.values(of: table.row(given.map(\.name)))))"
    return try rows(of: table, like: row, given: source, "\(index.collision) AND NOT (\(keyed))", values)
  }
}

extension PostgresTargetTable {
  fileprivate func row(_ names: [String]) -> String {
    let values = columns.map { column in
      names.firstIndex(of: column.name).map { "$\($0 + 1)::\(column.castType)" } ?? column.idleDefault ?? "NULL"
    }
    let list = columns.map { column in
      column.generation.map { "(\($0)) AS \(column.name.quotedName)" } ?? column.name.quotedName
    }
    return
      "SELECT \(list.joined(separator: ",")) FROM (SELECT (ROW(\(values.joined(separator: ",")))::\(qualifiedName)).*) AS given"
  }
}

extension PostgresTargetTable.UniqueIndex {
  fileprivate func values(of row: String) -> String {
    let list = terms.enumerated().map { "\($1) AS term_\($0)" }.joined(separator: ",")
    return "SELECT \(list) FROM (\(row)) AS given\(predicate.map { " WHERE \($0)" } ?? "")"
  }

  fileprivate var collision: String {
    let equal = terms.enumerated().map { place, term in
      let (operation, collation) = equalities[place]
      let equal =
        "\(term)\(collation.map { " COLLATE \($0)" } ?? "") \(operation) (SELECT term_\(place) FROM given)"
      return areNullsDistinct
        ? equal : "(\(equal) OR \(term) IS NULL AND (SELECT term_\(place) IS NULL FROM given))"
    }
    return (equal + (predicate.map { ["(\($0))"] } ?? [])).joined(separator: " AND ")
  }
}
