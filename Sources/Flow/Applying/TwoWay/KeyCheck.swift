import Changes
import Mapping
import PostgresKit
import SQLiteKit

/// Checks whether all nodes agree which rows of a table have equal keys, and which rows its foreign keys reference.
package enum KeyCheck {
  package enum Place {
    case sqlite(Database)
    case postgres(PostgresConnection)
  }

  /// Returns the reason why a table cannot be replicated two-way; nil if it can.
  ///
  /// - Parameter table: The table's schema in the database. A table without a key passes.
  /// - Parameter texts: The key columns, in lower case, whose values an SQLite database at the other end may store as
  ///   text.
  /// - Parameter includes: Returns whether a table, by schema and name, is replicated two-way.
  package static func problem(
    of table: TableSchema, in place: Place, texts: Set<NameKey> = [], includes: (String, String) -> Bool
  ) throws -> String? {
    let key = table.flags.contains(.wholeRow) ? [] : table.key.map { table.columns[$0].name }
    if let problem = try problem(key, of: (table.namespace, table.name), in: place, texts) {
      return "column \(problem.column) of its key \(problem.why)"
    }
    if let loose = declared(table) { return loose }
    for reference in table.foreignKeys
    where !reference.references.isEmpty && includes(reference.namespace, reference.table) {
      if let problem = try problem(reference.references, of: (reference.namespace, reference.table), in: place) {
        return "its foreign key leads to column \(problem.column) of table \(reference.table), which \(problem.why)"
      }
      if case .postgres(let server) = place, let problem = try typeProblem(of: reference, of: table, server) {
        return problem
      }
    }
    return nil
  }

  /// Returns the reason why the name of a referenced row cannot be computed from a reference: equal values of their two
  /// types have different texts. Nil if it can.
  private static func typeProblem(
    of reference: TableSchema.ForeignKey, of table: TableSchema, _ server: PostgresConnection
  ) throws -> String? {
    let own = try parts((table.namespace, table.name), server)
    let others = try parts((reference.namespace, reference.table), server)
    for (index, name) in zip(reference.columns, reference.references) {
      let column = table.columns[index].name
      guard let type = own[column.nameKey]?.first(where: { !$0.isNested })?.type,
        let other = others[name.nameKey]?.first(where: { !$0.isNested })?.type,
        !KeyEquality.haveLikeTexts(type, other)
      else { continue }
      return
        "its foreign key leads from column \(column) of type \(type) to column \(name) of table \(reference.table), of type \(other), in which an equal value has another text: give both columns one type"
    }
    return nil
  }

  /// Returns the unique indexes of a table in which each database decides by itself which rows have equal values.
  ///
  /// Such an index has an expression, a WHERE, or a column in which different texts can be equal. A unique index without
  /// a name in the table's schema is given by its columns.
  ///
  /// - Parameter texts: As for ``problem(of:in:texts:includes:)``, of the columns of unique indexes.
  package static func looseUniques(of table: TableSchema, in place: Place, texts: Set<NameKey>) throws -> [String] {
    var found: [String] = []
    for unique in table.uniques {
      let names = unique.map { table.columns[$0].name }
      let problem = try problem(names, of: (table.namespace, table.name), in: place, texts)
      if problem != nil { found.append("(\(names.joined(separator: ", ")))") }
    }
    let columns = table.columns.map(\.name)
    for object in table.objects where SQLText.tokens(Array(object.text.utf8)).prefix(2).last?.word == "UNIQUE" {
      if IndexText(object.text, columns: columns, engine: table.engine) == nil { found.append(object.name) }
    }
    return found
  }

  private static func problem(
    _ columns: [String], of table: (namespace: String, name: String), in place: Place,
    _ texts: Set<NameKey> = []
  ) throws -> (column: String, why: String)? {
    guard !columns.isEmpty else { return nil }
    let parts: [NameKey: [KeyPart]]
    let engine: Engine
    switch place {
    case .sqlite(let database): (parts, engine) = (try self.parts(table.name, columns, database), .sqlite)
    case .postgres(let server): (parts, engine) = (try self.parts(table, server), .postgres)
    }
    for column in columns {
      var own = parts[column.key(in: engine)] ?? []
      for index in own.indices { own[index].isText = texts.contains(column.sqliteKey) }
      if let why = KeyEquality.problem(own) { return (column, why) }
    }
    return nil
  }

  /// Returns a problem of the key columns' declared types or collations, or of two column names that SQLite treats as
  /// equal. Nil if there is none.
  static func declared(_ table: TableSchema) -> String? {
    if table.engine == .postgres, let (one, other) = table.likeColumns {
      return TableSchema.likeColumnsReason(one, other)
    }
    guard !table.flags.contains(.wholeRow) else { return nil }
    for column in table.key.map({ table.columns[$0] }) {
      var parts: [KeyPart] = []
      if table.engine == .sqlite {
        parts = LooseKey.collations(of: column, in: table).map { KeyPart("text", collation: $0) }
      } else {
        switch PostgresType(column).kind {
        case .jsonb: parts = [KeyPart("jsonb")]
        case .interval: parts = [KeyPart("interval")]
        case .bpchar(nil): parts = [KeyPart("bpchar")]
        case .other where (column.baseType.isEmpty ? column.declaredType : column.baseType).hasSuffix("citext"):
          parts = [KeyPart("citext.citext")]
        default: break
        }
      }
      if let why = KeyEquality.problem(parts) { return "column \(column.name) of its key \(why)" }
    }
    return nil
  }

  /// Returns the collations of the unique indexes over exactly these columns, by column, except BINARY.
  private static func parts(_ table: String, _ columns: [String], _ database: Database) throws -> [NameKey: [KeyPart]] {
    let rows = try database.query(
      """
      SELECT i.name, x.name, x.coll FROM pragma_index_list(?) AS i JOIN pragma_index_xinfo(i.name) AS x
      WHERE i."unique" AND NOT i.partial AND x.key
      """, [.text(table)])
    let wanted = Set(columns.map(\.sqliteKey))
    var parts: [NameKey: [KeyPart]] = [:]
    for terms in Dictionary(grouping: rows, by: { $0[0].string.nameKey }).values
    where Set(terms.map { $0[1].string.sqliteKey }) == wanted {
      for term in terms where term[2].string.asciiUppercased != "BINARY" {
        parts[term[1].string.sqliteKey, default: []].append(KeyPart("text", collation: term[2].string))
      }
    }
    return parts
  }

  private static func parts(
    _ table: (namespace: String, name: String), _ server: PostgresConnection
  ) throws -> [NameKey: [KeyPart]] {
    let rows = try server.query(
      """
      WITH RECURSIVE part(col, type, modifier, coll, nested) AS (
        SELECT a.attname, a.atttypid, a.atttypmod, a.attcollation, false
        FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE n.nspname = $1 AND c.relname = $2 AND a.attnum > 0 AND NOT a.attisdropped
        UNION SELECT p.col, x.type, x.modifier, x.coll, p.nested OR t.typtype <> 'd'
        FROM part AS p JOIN pg_type AS t ON t.oid = p.type CROSS JOIN LATERAL (
          SELECT t.typbasetype, CASE WHEN t.typtypmod >= 0 THEN t.typtypmod ELSE p.modifier END, p.coll
            WHERE t.typtype = 'd'
          UNION ALL SELECT t.typelem, p.modifier, p.coll WHERE t.typcategory = 'A' AND t.typelem <> 0
          UNION ALL SELECT m.atttypid, m.atttypmod, m.attcollation FROM pg_attribute AS m
            WHERE t.typtype = 'c' AND m.attrelid = t.typrelid AND m.attnum > 0 AND NOT m.attisdropped
          UNION ALL SELECT r.rngsubtype, -1, r.rngcollation FROM pg_range AS r
            WHERE t.oid IN (r.rngtypid, r.rngmultitypid)) AS x(type, modifier, coll))
      SELECT p.col, coalesce(e.extname || '.', CASE WHEN t.typnamespace <> 'pg_catalog'::regnamespace
          AND t.typtype <> 'e' THEN t.typnamespace::regnamespace || '.' ELSE '' END) || t.typname,
        t.typtype = 'e', p.modifier >= 0, l.collname, p.nested
      FROM part AS p JOIN pg_type AS t ON t.oid = p.type
        LEFT JOIN pg_collation AS l ON l.oid = p.coll AND NOT l.collisdeterministic
        LEFT JOIN pg_depend AS d ON d.classid = 'pg_type'::regclass AND d.objid = t.oid AND d.deptype = 'e'
        LEFT JOIN pg_extension AS e ON e.oid = d.refobjid
      WHERE t.typtype IN ('b', 'e') AND NOT (t.typcategory = 'A' AND t.typelem <> 0)
      """, [table.namespace, table.name])
    var parts: [NameKey: [KeyPart]] = [:]
    for row in rows {
      parts[(row[0] ?? "").nameKey, default: []].append(
        KeyPart(
          row[1] ?? "", isEnumeration: row[2] == "t", hasModifier: row[3] == "t", collation: row[4] ?? "",
          isNested: row[5] == "t"))
    }
    return parts
  }
}
