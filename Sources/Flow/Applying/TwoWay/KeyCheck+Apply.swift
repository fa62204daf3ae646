import Changes
import Mapping
import PostgresKit
import SQLiteKit

extension KeyCheck {
  /// Throws `table-refused` for a table in which two nodes would not agree which keys are equal, or that has no key.
  ///
  /// - Parameter source: The table's schema in the trail.
  /// - Parameter target: The table's schema in the target.
  static func check(
    _ source: TableSchema, _ target: TableSchema, in place: Place, includes: (String, String) -> Bool
  ) throws {
    if case .postgres(let server) = place { try refuseLookAlike(source, target, server) }
    if source.engine == .postgres, let (one, other) = source.likeColumns {
      throw refusal(
        source, TableSchema.likeColumnsReason(one, other),
        hint: "rename one of them: ALTER TABLE \(source.qualifiedName) RENAME COLUMN \(other.quotedName) TO ...")
    }
    let texts = try numericTexts(source, target, place)
    let why: String?
    if source.key.isEmpty || source.flags.contains(.wholeRow) {
      why = "it has no key"
    } else if let other = try otherKey(target, in: place) {
      throw refusal(
        source, other,
        hint: "give it the same key at each node; or leave the table out: \([source.fullName].leftOut)")
    } else if let loose = declared(source) {
      why = loose
    } else if let column = texts.first {
      why =
        "column \(column.text) of its key \(KeyEquality.problem([KeyPart("numeric", isText: true)]) ?? "")"
    } else {
      why = try problem(of: target, in: place, includes: includes)
    }
    guard let why else { return }
    throw refusal(
      source, why,
      hint:
        "give it a key in which different texts are never equal, such as text, numbers or uuid, at each node; or leave the table out: \([source.fullName].leftOut)"
    )
  }

  private static func refusal(_ source: TableSchema, _ why: String, hint: String) -> CairnError {
    CairnError(
      .tableRefused, "table \(source.fullName) cannot be replicated two-way: \(why)", hint: hint,
      context: ["table": source.fullName])
  }

  /// Throws `table-refused` if the server has a table that is older than `target` and whose name differs only in case.
  private static func refuseLookAlike(
    _ source: TableSchema, _ target: TableSchema, _ server: PostgresConnection
  ) throws {
    guard let older = try server.olderLookAlike(of: target) else { return }
    throw refusal(
      source,
      "the target has table \(older), whose name differs only in the case of ASCII letters",
      hint: "rename one of them at both nodes: ALTER TABLE \(source.qualifiedName) RENAME TO ...")
  }

  /// Returns the key columns that are `numeric` without a scale at a PostgreSQL source and that the SQLite target
  /// stores as text.
  private static func numericTexts(
    _ source: TableSchema, _ target: TableSchema, _ place: Place
  ) throws -> [NameKey] {
    guard case .sqlite(let database) = place, source.engine == .postgres else { return [] }
    let columns = source.key.filter { PostgresType(source.columns[$0]).kind == .numeric(nil) }
    guard !columns.isEmpty else { return [] }
    let types = try database.query("SELECT name, type FROM pragma_table_xinfo(?)", [.text(target.name)])
    return columns.filter { index in
      let name = target.columns[index].name.sqliteKey
      guard let there = types.first(where: { $0[0].string.sqliteKey == name }) else { return false }
      return keepsTexts(TableSchema.Column(name: "", declaredType: there[1].string))
    }.map { source.columns[$0].name.sqliteKey }
  }

  /// Returns whether an SQLite column stores texts such as 1.5 and 1.50 as different values.
  package static func keepsTexts(_ column: TableSchema.Column) -> Bool { ["TEXT", "BLOB"].contains(column.affinity) }
}

// The key that a table has in this database, whatever trails say about it.
extension KeyCheck {
  /// Returns the columns of a table's key in an SQLite database. Empty if the key is not known from the primary key
  /// alone: the table has none, or the primary key may be NULL.
  static func key(of table: String, _ database: Database) throws -> [String] {
    let key = try database.query(
      "SELECT name, \"notnull\" FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk", [.text(table)])
    let mayBeNull = key.contains { $0[1] == .integer(0) }
    let index = "SELECT 1 FROM pragma_index_list(?) WHERE origin = 'pk'"
    // An INTEGER PRIMARY KEY has no index and is never NULL.
    if mayBeNull, try database.integer(index, [.text(table)]) != nil { return [] }
    return key.map { $0[0].string }
  }

  /// Returns the columns of a table's key in a PostgreSQL database, as capture chooses them; empty if there is no key.
  static func key(of table: (namespace: String, name: String), _ server: PostgresConnection) throws -> [String] {
    try server.query(
      """
      SELECT a.attname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
        JOIN pg_index AS i ON i.indrelid = c.oid AND i.indisvalid
          AND CASE c.relreplident WHEN 'i' THEN i.indisreplident ELSE i.indisprimary END
        CROSS JOIN unnest(i.indkey::int2[]) WITH ORDINALITY AS k(n, place)
        JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = k.n
      WHERE n.nspname = $1 AND c.relname = $2 AND k.place <= i.indnkeyatts ORDER BY k.place
      """, [table.namespace, table.name]
    ).compactMap { $0[0] }
  }

  /// Returns the reason why a trail's table cannot be replicated two-way if its key differs from the key that the table
  /// has in this database. Nil if the keys are the same.
  ///
  /// - Parameter target: The trail's table with names as converted for the database.
  static func otherKey(_ target: TableSchema, in place: Place) throws -> String? {
    let own: [String]
    let there: [String]
    switch place {
    case .sqlite(let database):
      own = try key(of: target.name, database)
      there = try database.query("SELECT name FROM pragma_table_xinfo(?)", [.text(target.name)]).map { $0[0].string }
    case .postgres(let server):
      own = try key(of: (target.namespace, target.name), server)
      there = try server.query(
        """
        SELECT a.attname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
          JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        WHERE n.nspname = $1 AND c.relname = $2
        """, [target.namespace, target.name]
      ).compactMap { $0[0] }
    }
    guard !own.isEmpty else { return nil }
    func folded(_ names: [String]) -> Set<NameKey> { Set(names.map { $0.key(in: target.engine) }) }
    let theirs = target.key.map { target.columns[$0].name }
    let others = folded(there).subtracting(folded(own))
    // The database may have given columns of the key other names.
    if own.count == theirs.count, folded(theirs).isDisjoint(with: others) { return nil }
    return
      "its key is (\(theirs.joined(separator: ", "))) in the trail, but (\(own.joined(separator: ", "))) in this database"
  }
}

extension TableSchema {
  /// Makes columns of the table its key.
  ///
  /// - Parameter own: The key in this database; empty: it is not known, and the columns of the key of `table` are taken.
  /// - Parameter table: The table in a trail, from which the order of the columns comes.
  /// - Parameter name: Returns the name in this database for the name of a column of `table`.
  mutating func setKey(_ own: [String], like table: TableSchema, _ engine: Engine, name: (String) -> String) {
    let theirs = table.flags.contains(.wholeRow) ? [] : table.key.map { name(table.columns[$0].name) }
    func folded(_ names: [String]) -> Set<NameKey> { Set(names.map { $0.key(in: engine) }) }
    let key = own.isEmpty || folded(own) == folded(theirs) ? theirs : own
    let places = key.compactMap { name in columns.firstIndex { $0.name.key(in: engine) == name.key(in: engine) } }
    guard places.count == key.count else { return }
    for (ordinal, place) in places.enumerated() { columns[place].keyOrdinal = ordinal + 1 }
  }
}
