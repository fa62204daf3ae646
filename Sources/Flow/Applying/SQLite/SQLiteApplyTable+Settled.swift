import Changes
import Conflicts
import Mapping
import SQLiteKit

// Access to rows by key, for two-way apply and one-way meetings.
extension SQLiteApplyTable {
  private var columnNames: [String] { schema.columns.map(\.name.quotedName) }
  private var keyed: String { " WHERE " + schema.key.map { "\(columnNames[$0]) = ?" }.joined(separator: " AND ") }

  func row(_ key: [Value]) throws -> [Value]? {
    try database.query(
      "SELECT \(columnNames.joined(separator: ",")) FROM \(schema.name.quotedName)\(keyed)", key
    ).first
  }

  /// Writes the row with this key; deletes it if `row` is nil. Columns that are nil keep their values.
  func put(_ row: RowVersion.Row?, _ key: [Value]) throws {
    let table = schema.name.quotedName
    guard let row else { return try database.run("DELETE FROM \(table)\(keyed)", key) }
    let given = row.indices.filter { row[$0] != nil }
    let set = given.map { "\(columnNames[$0]) = ?" }.joined(separator: ",")
    try database.run("UPDATE\(Self.orAbort) \(table) SET \(set)\(keyed)", given.compactMap { row[$0] } + key)
    guard database.changes == 0 else { return }
    try database.run(
      "INSERT\(Self.orAbort) INTO \(table)(\(given.map { columnNames[$0] }.joined(separator: ","))) VALUES (\(given.map { _ in "?" }.joined(separator: ",")))",
      given.compactMap { row[$0] })
  }

  /// Returns whether the target's table has a unique index over exactly the key columns, and at least one other unique
  /// index.
  func hasOtherUniqueValues() throws -> Bool {
    let rows = try database.query(
      """
      SELECT 'key', name, 1 FROM pragma_table_xinfo(?1) WHERE pk
      UNION ALL
      SELECT i.name || ' ' || i.seq, x.name, NOT i.partial AND x.name IS NOT NULL
      FROM pragma_index_list(?1) i JOIN pragma_index_xinfo(i.name) x WHERE i."unique" AND x.key
      """, [.text(schema.name)])
    let key = Set(schema.key.map { schema.columns[$0].name.sqliteKey })
    let areOfKey = Dictionary(grouping: rows, by: { $0[0].shown }).values.map { terms in
      terms.allSatisfy { $0[2] == .integer(1) } && Set(terms.map { $0[1].string.sqliteKey }) == key
    }
    return areOfKey.contains(true) && areOfKey.contains(false)
  }

  /// The clause that makes a statement fail if its row violates a constraint. A constraint's own ON CONFLICT clause
  /// could skip the row.
  ///
  /// Source: https://sqlite.org/lang_conflict.html
  static let orAbort = " OR ABORT"

  /// The WHERE clause that selects this trail's rows, with its parameter values; empty if all rows belong to it.
  var all: (condition: String, values: [Value]) {
    let terms = shares.map { "\($0.name.quotedName) = ?" }.joined(separator: " AND ")
    return (terms.isEmpty ? "" : " WHERE \(terms)", shares.map(\.value))
  }

  /// Runs a body that writes a row. If another row of this trail has a unique value of the row, deletes that row and
  /// runs the body again. Rows of other trails stay.
  ///
  /// - Parameter key: A row that has the key of the written row.
  func clearingShare(
    for row: @autoclosure () -> [ColumnView], key: [ColumnView], if isNeeded: Bool, _ body: () throws -> Int64
  ) throws -> Int64 {
    do { return try body() } catch let error as SQLiteError where isNeeded && error.isUniqueness {
      try clearShare(for: row().map(\.value), key: schema.key.map { key[$0].value ?? .null })
      return try body()
    }
  }

  private func clearShare(for row: [Value?], key: [Value]) throws {
    let terms = try database.query(
      """
      SELECT i.seq, x.name, x.coll, NOT i.partial AND x.name IS NOT NULL
      FROM pragma_index_list(?1) i JOIN pragma_index_xinfo(i.name) x
      WHERE i."unique" AND x.key ORDER BY i.seq, x.seqno
      """, [.text(schema.name)])
    let positions = Dictionary(
      schema.columns.enumerated().map { ($1.name.sqliteKey, $0) }, uniquingKeysWith: { first, _ in first })
    let isOfRow = schema.key.map { "\(schema.columns[$0].name.quotedName) = ?" }.joined(separator: " AND ")
    for index in Dictionary(grouping: terms, by: { $0[0].shown }).values
    where index.allSatisfy({ $0[3] == .integer(1) }) {
      let values = index.compactMap { term in positions[term[1].string.sqliteKey].flatMap { row[$0] } }
      guard values.count == index.count, !values.contains(.null) else { continue }
      let same = index.map { "\($0[1].string.quotedName) = ? COLLATE \($0[2].string.quotedName)" }
      let ours = shares.map { "\($0.name.quotedName) = ?" }
      try database.run(
        "DELETE FROM \(table) WHERE \((same + ours).joined(separator: " AND ")) AND NOT (\(isOfRow))",
        values + shares.map(\.value) + key)
    }
  }

  /// Returns the table extended by the columns that only the target has; nil if there are none.
  func wide() throws -> SQLiteApplyTable? {
    let known = Set(schema.columns.map { $0.name.sqliteKey })
    let there = try database.query("SELECT name FROM pragma_table_xinfo(?) WHERE hidden = 0", [.text(schema.name)])
    let more = there.map { $0[0].string }.filter { !known.contains($0.sqliteKey) }
    if more.isEmpty { return nil }
    var schema = schema
    schema.columns += more.map { TableSchema.Column(name: $0) }
    if let wider, wider.schema.columns == schema.columns { return wider }
    let made = SQLiteApplyTable(
      try TableMapping(schema, to: .sqlite), state: state, database: database, localWrites: localWrites,
      goesBothWays: goesBothWays)
    (made.mayCollide, made.takesRowsIn) = (mayCollide, takesRowsIn)
    wider = made
    return made
  }

  // MARK: Foreign keys

  func lookUpReferrers() throws -> [Reference] {
    try Self.references(database).filter { $0.parent.sqliteKey == schema.name.sqliteKey }
  }

  /// Returns the foreign keys of the database, and the unique columns, except keys, to which they refer. Also returns,
  /// for each table, the PostgreSQL tables whose rows are replicated to it.
  static func foreignKeys(_ database: Database) throws -> RowNames.Catalog {
    let references = try references(database)
    var found: RowNames.Alternates = [:]
    for reference in references {
      let columns = reference.references.map { $0.sqliteKey }.sorted()
      if try key(reference.parent, database).map({ $0.sqliteKey }).sorted() == columns { continue }
      found[reference.parent.sqliteKey, default: []].insert(columns)
    }
    let own = references.map { RowNames.OwnKey($0.child, $0.columns, to: $0.parent) }
    return (found, Set(own), TableHolders(sources: try sources(database)))
  }

  /// Returns the PostgreSQL tables whose rows are replicated to each table of this database, by lower-case name.
  private static func sources(_ database: Database) throws -> [NameKey: Set<NameKey>] {
    // Applications can write this table, too.
    let rows = try database.query(
      "SELECT DISTINCT name, source FROM cairn_table WHERE source <> '' LIMIT ?", [.integer(100_000)])
    return rows.reduce(into: [:]) { $0[$1[0].string.sqliteKey, default: []].insert($1[1].string.nameKey) }
  }

  private static func key(_ table: String, _ database: Database) throws -> [String] {
    try database.query("SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk", [.text(table)]).map {
      $0[0].string
    }
  }

  private static func references(_ database: Database) throws -> [Reference] {
    // Child, parent, number, column, and the column that it references; NULL: the key.
    let rows = try database.query(
      """
      SELECT m.name, f."table", f.id, f."from", f."to" FROM sqlite_master m JOIN pragma_foreign_key_list(m.name) f
      WHERE m.type = 'table' ORDER BY m.name, f.id, f.seq
      """)
    var found: [Reference] = []
    var last: [Value] = []
    for row in rows {
      if Array(row.prefix(3)) != last {
        found.append(.init(child: row[0].string, columns: [], parent: row[1].string, references: []))
      }
      last = Array(row.prefix(3))
      found[found.count - 1].columns.append(row[3].string)
      if row[4] != .null { found[found.count - 1].references.append(row[4].string) }
    }
    for index in found.indices where found[index].references.isEmpty {
      found[index].references = try key(found[index].parent, database)
    }
    return found.filter { $0.columns.count == $0.references.count }
  }

  /// Returns whether another row references this row by a foreign key.
  func isReferred(_ row: [Value]) throws -> Bool {
    for reference in referrers {
      let values = reference.references.compactMap { column in
        schema.columns.firstIndex { $0.name.sqliteKey == column.sqliteKey }.map { row[$0] }
      }
      guard values.count == reference.references.count, !values.contains(.null) else { continue }
      var terms = reference.columns.map { "\($0.quotedName) = ?" }
      var parameters = values
      if reference.child.sqliteKey == schema.name.sqliteKey {
        // A row that references itself does not count.
        terms.append("NOT (\(schema.key.map { "\(columnNames[$0]) = ?" }.joined(separator: " AND ")))")
        parameters += schema.key.map { row[$0] }
      }
      let sql = "SELECT 1 FROM \(reference.child.quotedName) WHERE \(terms.joined(separator: " AND ")) LIMIT 1"
      if try database.first(sql, parameters) != nil { return true }
    }
    return false
  }
}
