import Changes
import Conflicts

// Which rows of a table have a unique value of one that is not in it.
extension PostgresCandidates {
  func rows(inTheWayOf row: ContestedRow) throws -> [ContestedRow] {
    guard let table = try table(of: row) else { return [] }
    let key = Set(row.key.columns.map(\.name))
    let given = row.row.columns.filter { column in table.column(column.name).map { !$0.isGenerated } ?? false }
    let values = given.map(\.value.postgresInput) + Self.values(row.key)
    let keyed = keyed(row, table, from: given.count + 1)
    var found: [ContestedRow] = []
    for index in table.uniqueIndexes where index.predicate != nil || index.columns.map(Set.init) != key {
      let given = "WITH given AS MATERIALIZED (\(index.values(of: table.row(given.map(\.name)))))"
      for other in try rows(of: table, like: row, given: given, "\(index.collision) AND NOT (\(keyed))", values)
      where !found.contains(other) { found.append(other) }
    }
    return found
  }
}

extension PostgresTargetTable {
  /// Selects a row that is not in the table as it would be there: of its types, with their collations. Parameters from `$1`
  /// on are its columns `names`.
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
  /// Selects the terms of a row; nothing where the index leaves it out.
  fileprivate func values(of row: String) -> String {
    let list = terms.enumerated().map { "\($1) AS term_\($0)" }.joined(separator: ",")
    return "SELECT \(list) FROM (\(row)) AS given\(predicate.map { " WHERE \($0)" } ?? "")"
  }

  /// Whether a row of the table has the values that are given.
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
