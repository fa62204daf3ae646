import Changes
import PostgresKit

// Columns that only the target has: a copy of the rows keeps their values.
extension PostgresApplyTable {
  func ownColumns(_ connection: PostgresConnection) throws -> [String] {
    let known = Set(columns.map(\.name.nameKey))
    let there = try connection.query(
      """
      SELECT attname FROM pg_attribute WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped
      AND attgenerated = '' AND attidentity <> 'a' ORDER BY attnum
      """, [target.qualifiedName])
    return there.compactMap { $0[0] }.filter { !known.contains($0) }
  }

  /// Returns the names of the columns that only the target has, for messages. Nil if there are none, or if these
  /// columns are NULL in every row.
  func ownValues(_ connection: PostgresConnection) throws -> String? {
    let own = try ownColumns(connection).map(\.quotedName)
    guard !own.isEmpty else { return nil }
    let filled = own.map { "\($0) IS NOT NULL" }.joined(separator: " OR ")
    let found = try connection.first("SELECT 1 FROM \(target.rowsName) WHERE \(filled) LIMIT 1")
    return found == nil ? nil : own.joined(separator: ", ")
  }

  /// Saves, in a temporary table, the values of columns that only the target has, before a chunk replaces rows.
  ///
  /// - Returns: False, with nothing saved, if there are no such columns or the table has no key.
  func setAside(_ condition: String, _ values: [String?], _ connection: PostgresConnection) throws -> Bool {
    let own = try ownColumns(connection).map(\.quotedName)
    guard !own.isEmpty, !key.isEmpty else { return false }
    let parts =
      key.enumerated().map { "\(columns[$1].name.quotedName) AS k\($0)" }
      + own.enumerated().map { "\($1) AS o\($0)" }
    asideColumns = own
    try connection.execute(
      "CREATE TEMPORARY TABLE cairn_aside ON COMMIT DROP AS SELECT \(parts.joined(separator: ",")) FROM \(target.rowsName) LIMIT 0"
    )
    try connection.run(
      "INSERT INTO pg_temp.cairn_aside SELECT \(parts.joined(separator: ",")) FROM \(target.rowsName)\(condition) FOR UPDATE",
      values)
    return true
  }

  func giveBack(_ connection: PostgresConnection) throws {
    let set = asideColumns.enumerated().map { "\($1) = a.o\($0)" }.joined(separator: ", ")
    let terms = key.enumerated().map { "x.\(columns[$1].name.quotedName) \(columns[$1].equality) a.k\($0)" }
    try connection.execute(
      "UPDATE \(target.rowsName) AS x SET \(set) FROM pg_temp.cairn_aside AS a WHERE \(terms.joined(separator: " AND "))"
    )
    try connection.execute("DROP TABLE pg_temp.cairn_aside")
  }
}
