import Changes
import Mapping
import PostgresKit

/// A table of a PostgreSQL target, as read from the server's catalog.
struct PostgresTargetTable {
  struct Column {
    var name: String
    var type: PostgresType
    /// The type to which a parameter is cast, without length or precision: the cast must not truncate or round.
    var castType: String
    var isNotNull: Bool
    var defaultText: String?
    var hasDefault: Bool { defaultText != nil }
    var generation: String?
    var isGenerated: Bool { generation != nil }
    var identity: TableSchema.Identity
    /// Whether the column's default is the next value of a sequence of its own.
    var isSerial: Bool
    var isCounting: Bool { isSerial || identity != .none }
    /// The default that an insert without the column gets. Nil if there is none, or if it uses a sequence.
    var idleDefault: String? { isCounting || defaultText?.contains("nextval(") ?? false ? nil : defaultText }
    /// Whether the column's type has an equality operator; if not, values are compared as texts.
    var hasEquality: Bool
    var equality: String
    /// Whether indexes sort the column by its bytes.
    var sortsByBytes: Bool
    /// Whether ALTER TABLE ADD COLUMN gave the rows that were there the column's default. False if that is unknown.
    var wasFilled = false
  }

  struct UniqueIndex {
    var name: String
    var isPrimary: Bool
    /// Whether PostgreSQL checks the index at each statement, because it is not deferrable.
    var isImmediate: Bool
    var areNullsDistinct: Bool
    /// The index's columns and expressions, as SQL.
    var terms: [String]
    /// The equality operator of each column or expression of the index, and the collation if there is one.
    var equalities: [(operation: String, collation: String?)]
    var columns: [String]?
    var predicate: String?
    /// Whether a collation of the index is nondeterministic, so that different texts can be equal.
    var isLoose = false

    func isOver(_ names: [String]) -> Bool {
      columns.map { Set($0.map(\.nameKey)) == Set(names.map(\.nameKey)) } ?? false
    }
  }

  let schema: String
  let name: String
  let isPartitioned: Bool
  let columns: [Column]
  let uniqueIndexes: [UniqueIndex]

  var qualifiedName: String { "\(schema.quotedName).\(name.quotedName)" }
  /// The table's name in all statements except inserts. `ONLY` leaves out tables that inherit from it.
  var rowsName: String { (isPartitioned ? "" : "ONLY ") + qualifiedName }

  func column(_ name: String) -> Column? { columns.first { $0.name.hasSameBytes(as: name) } }

  /// A notice for each generated column that is NULL in every row.
  var emptyColumns: [String] {
    columns.filter { $0.generation.map { $0 == "NULL" || $0.hasPrefix("NULL::") } ?? false }.map { column in
      "table \(schema).\(name): the generated column \(column.name) is NULL in every row, as an earlier version of Cairn made it without its expression; run at the target: ALTER TABLE \(qualifiedName) DROP COLUMN \(column.name.quotedName);"
    }
  }

  /// Returns a unique index over exactly these columns; nil if there is none.
  func key(over names: [String]) -> UniqueIndex? {
    let found = uniqueIndexes.filter { $0.predicate == nil && $0.isOver(names) }
    return found.first { $0.isImmediate } ?? found.first
  }

  /// Reads a table of the target from the catalog; nil if there is none.
  ///
  /// - Throws: `schema-stopped` for another object, such as a view, and for a table whose definitions are too large.
  static func read(_ schema: String, _ name: String, _ connection: PostgresConnection) throws -> PostgresTargetTable? {
    let found = try connection.query(
      """
      SELECT c.oid, c.relkind, (pg_identify_object('pg_class'::regclass, c.oid, 0)).type
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = $2
      """, [schema, name])
    guard let oid = found.first?[0], let kind = found.first?[1] else { return nil }
    guard kind == "r" || kind == "p" else {
      throw CairnError(
        .schemaStopped,
        "\(schema).\(name) of \(connection.place) is not an ordinary table, but another object: \(found.first?[2] ?? kind)",
        hint:
          "drop or rename it at the target, and apply continues by itself; or leave the table out with 'tables' (--tables)",
        context: ["table": "\(schema).\(name)"])
    }
    if let reason = try connection.definitionsRefusal(of: UInt32(oid) ?? 0) {
      throw CairnError(
        .schemaStopped, "\(schema).\(name) of \(connection.place) cannot be read: \(reason)",
        hint: "give it shorter definitions, or leave the table out with 'tables' (--tables)",
        context: ["table": "\(schema).\(name)"])
    }
    return PostgresTargetTable(
      schema: schema, name: name, isPartitioned: kind == "p", columns: try columns(oid, connection),
      uniqueIndexes: try uniqueIndexes(oid, connection))
  }

  static func isThere(_ schema: String, _ name: String, _ connection: PostgresConnection) throws -> Bool {
    try connection.first(
      """
      SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE n.nspname = $1 AND c.relname = $2 AND c.relkind IN ('r', 'p')
      """, [schema, name]) != nil
  }

  private static func columns(_ oid: String, _ connection: PostgresConnection) throws -> [Column] {
    let rows = try connection.query(
      """
      WITH RECURSIVE types(start, oid, typmod, typtype, typelem, typcategory, typbasetype, typnamespace) AS (
        SELECT t.oid, t.oid, t.typtypmod, t.typtype, t.typelem, t.typcategory, t.typbasetype, t.typnamespace
        FROM pg_type t WHERE t.oid IN (SELECT atttypid FROM pg_attribute WHERE attrelid = $1::oid AND attnum > 0)
        UNION ALL
        SELECT d.start, t.oid, CASE WHEN t.typtype = 'd' THEN t.typtypmod ELSE d.typmod END, t.typtype, t.typelem,
          t.typcategory, t.typbasetype, t.typnamespace
        FROM types d JOIN pg_type t ON t.oid = d.typbasetype WHERE d.typtype = 'd'
      ), keyed(oid, family, type) AS (
        SELECT o.opcintype, o.opcfamily, o.opcintype FROM pg_opclass o JOIN pg_am m ON m.oid = o.opcmethod
        WHERE m.amname = 'btree' AND o.opcdefault
      )
      SELECT a.attname, format_type(a.atttypid, a.atttypmod), format_type(a.atttypid, -1), a.attnotnull,
        pg_get_expr(g.adbin, g.adrelid), a.attgenerated, a.attidentity,
        CASE WHEN t.oid <> a.atttypid THEN format_type(t.oid, t.typmod) WHEN t.typtype = 'e' THEN 'enum'
          WHEN t.typtype = 'c' THEN 'record' WHEN t.typtype = 'r' THEN 'range' WHEN t.typtype = 'm' THEN 'multirange'
          ELSE '' END,
        t.typtype IN ('e', 'r', 'm') OR t.oid IN ('varchar'::regtype, 'cidr'::regtype)
          OR (t.typnamespace = 'pg_catalog'::regnamespace AND EXISTS (SELECT 1 FROM keyed k WHERE k.oid = t.oid))
          OR (t.typcategory = 'A' AND EXISTS (SELECT 1 FROM pg_type e WHERE e.oid = t.typelem
            AND (e.typtype = 'e' OR e.oid = 'varchar'::regtype OR (e.typnamespace = 'pg_catalog'::regnamespace
              AND e.typtype = 'b' AND EXISTS (SELECT 1 FROM keyed k WHERE k.oid = e.oid))))),
        (SELECT format('OPERATOR(%I.%s)', n.nspname, p.oprname) FROM keyed k
          JOIN pg_amop x ON x.amopfamily = k.family AND x.amoplefttype = k.type AND x.amoprighttype = k.type
            AND x.amopstrategy = 3
          JOIN pg_operator p ON p.oid = x.amopopr JOIN pg_namespace n ON n.oid = p.oprnamespace
          WHERE k.oid = t.oid AND t.typnamespace <> 'pg_catalog'::regnamespace LIMIT 1),
        a.attcollation = 'pg_catalog."C"'::regcollation AND current_setting('server_encoding') = 'UTF8',
        a.atthasdef AND a.attgenerated = '' AND pg_get_serial_sequence(a.attrelid::regclass::text, a.attname) IS NOT NULL,
        a.atthasmissing
      FROM pg_attribute a JOIN types t ON t.start = a.atttypid AND t.typtype <> 'd'
      LEFT JOIN pg_attrdef g ON g.adrelid = a.attrelid AND g.adnum = a.attnum
      WHERE a.attrelid = $1::oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
      """, [oid])
    return rows.map { row in
      let field = row.map { $0 ?? "" }
      return Column(
        name: field[0], type: PostgresType(field[1], base: field[7]), castType: field[2], isNotNull: field[3] == "t",
        defaultText: field[5].isEmpty ? row[4] : nil, generation: field[5].isEmpty ? nil : row[4],
        identity: field[6] == "a" ? .always : field[6] == "d" ? .byDefault : .none,
        isSerial: field[11] == "t", hasEquality: field[8] == "t", equality: field[9].isEmpty ? "=" : field[9],
        sortsByBytes: field[10] == "t", wasFilled: field[12] == "t")
    }
  }

  private static func uniqueIndexes(_ oid: String, _ connection: PostgresConnection) throws -> [UniqueIndex] {
    let rows = try connection.query(
      """
      SELECT c.relname, i.indisprimary, i.indimmediate,
        coalesce(to_jsonb(i) ->> 'indnullsnotdistinct', 'false'), pg_get_expr(i.indpred, i.indrelid),
        k.n, pg_get_indexdef(i.indexrelid, k.n, true), a.attname,
        (SELECT format('OPERATOR(%I.%s)', n.nspname, p.oprname) FROM pg_opclass o
          JOIN pg_amop x ON x.amopfamily = o.opcfamily AND x.amoplefttype = o.opcintype AND x.amoprighttype = o.opcintype
            AND x.amopstrategy = 3
          JOIN pg_operator p ON p.oid = x.amopopr JOIN pg_namespace n ON n.oid = p.oprnamespace
          WHERE o.oid = i.indclass[k.n - 1]),
        (SELECT format('%I.%I', n.nspname, l.collname) FROM pg_collation l
          JOIN pg_namespace n ON n.oid = l.collnamespace WHERE l.oid = i.indcollation[k.n - 1]),
        EXISTS (SELECT FROM pg_collation l WHERE l.oid = i.indcollation[k.n - 1] AND NOT l.collisdeterministic)
      FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
      CROSS JOIN LATERAL generate_series(1, i.indnkeyatts) AS k(n)
      LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[k.n - 1] AND a.attnum > 0
      WHERE i.indrelid = $1::oid AND i.indisunique AND i.indislive ORDER BY i.indisprimary DESC, c.relname, k.n
      """, [oid])
    var indexes: [UniqueIndex] = []
    for row in rows {
      if row[5] == "1" {
        indexes.append(
          UniqueIndex(
            name: row[0] ?? "", isPrimary: row[1] == "t", isImmediate: row[2] == "t",
            areNullsDistinct: row[3] != "true", terms: [], equalities: [], columns: [], predicate: row[4]))
      }
      indexes[indexes.count - 1].terms.append(row[7].map(\.quotedName) ?? "(\(row[6] ?? ""))")
      indexes[indexes.count - 1].equalities.append((row[8] ?? "=", row[9]))
      if row[10] == "t" { indexes[indexes.count - 1].isLoose = true }
      if let column = row[7] {
        indexes[indexes.count - 1].columns?.append(column)
      } else {
        indexes[indexes.count - 1].columns = nil
      }
    }
    return indexes
  }
}

/// Finds generated columns of a target that are NULL in every row, for notices.
package enum EmptyColumns {
  /// Returns a notice for each generated column of a table that is NULL in every row. Empty if there is no such table.
  package static func notices(_ schema: String, _ table: String, _ connection: PostgresConnection) throws -> [String] {
    try PostgresTargetTable.read(schema, table, connection)?.emptyColumns ?? []
  }
}
