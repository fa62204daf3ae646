import Changes
import Mapping
import PostgresKit

/// The objects of a target's table that PostgreSQL drops without an error if one of their columns is dropped. These are
/// indexes, constraints, statistics and sequences, also those of tables that inherit from it.
///
///     let before = try PostgresTableObjects(oid, connection)
///     for statement in statements { try connection.run(statement, []) }
///     let lost = before.lost(in: try PostgresTableObjects(oid, connection))
struct PostgresTableObjects {
  struct Object {
    /// The kind and name, such as `index mine`. An object of an inheriting table also names that table.
    var phrase: String
    @ByBytes var name: String
    /// The number by which PostgreSQL knows the object. An index and a constraint get another one with a new type.
    fileprivate var id: String
    fileprivate var place: String
    /// The names of the table's columns that the object uses.
    var columns: Set<NameKey>
  }

  private let objects: [Object]

  /// Reads the objects of a table. Leaves out those that belong to an object of a table from which this one inherits.
  ///
  /// - Parameter table: The number of the table (`pg_class.oid`).
  init(_ table: String, _ connection: PostgresConnection) throws {
    let rows = try connection.query(
      """
      WITH RECURSIVE tree(oid) AS (
        SELECT $1::oid UNION SELECT i.inhrelid FROM pg_inherits i JOIN tree t ON i.inhparent = t.oid
      ), objects(kind, class, oid, owner, name) AS (
        SELECT 'index', 'pg_class'::regclass, i.indexrelid, i.indrelid, c.relname FROM pg_index i
          JOIN tree t ON t.oid = i.indrelid JOIN pg_class c ON c.oid = i.indexrelid
        WHERE NOT EXISTS (SELECT 1 FROM pg_inherits h WHERE h.inhrelid = i.indexrelid)
          AND NOT EXISTS (SELECT 1 FROM pg_constraint k WHERE k.conindid = i.indexrelid AND k.conrelid = i.indrelid)
        UNION ALL
        SELECT 'constraint', 'pg_constraint'::regclass, k.oid, k.conrelid, k.conname FROM pg_constraint k
          JOIN tree t ON t.oid = k.conrelid
        WHERE k.contype IN ('c', 'f', 'p', 'u', 'x') AND k.conparentid = 0 AND k.conislocal
        UNION ALL
        SELECT 'statistics', 'pg_statistic_ext'::regclass, s.oid, s.stxrelid, s.stxname FROM pg_statistic_ext s
          JOIN tree t ON t.oid = s.stxrelid
        UNION ALL
        SELECT 'sequence', 'pg_class'::regclass, c.oid, d.refobjid, c.relname FROM pg_depend d
          JOIN tree t ON t.oid = d.refobjid JOIN pg_class c ON c.oid = d.objid AND c.relkind = 'S'
        WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass AND d.deptype = 'a'
      )
      SELECT o.kind, CASE WHEN o.owner <> $1::oid THEN o.owner::regclass::text END, o.name, o.oid, o.owner,
        (SELECT json_agg(DISTINCT a.attname) FROM pg_depend d JOIN pg_attribute a
          ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
        WHERE d.classid = o.class AND d.objid = o.oid AND d.refclassid = 'pg_class'::regclass AND d.refobjid = o.owner)
      FROM objects o ORDER BY o.owner, o.kind, o.name
      """, [table])
    objects = rows.map { row in
      let (kind, name) = (row[0] ?? "", row[2] ?? "")
      return Object(
        phrase: "\(kind) \(name)" + (row[1].map { " of table \($0)" } ?? ""), name: name,
        id: "\(kind) \(row[3] ?? "")", place: "\(row[4] ?? "") \(kind) \(name)",
        columns: Set(PostgresAlteration.Target.names(row[5]).map(\.nameKey)))
    }
  }

  /// Returns the objects that `now`, read after a schema change, no longer has.
  func lost(in now: PostgresTableObjects) -> [Object] {
    let (ids, places) = (Set(now.objects.map(\.id)), Set(now.objects.map { NameKey($0.place) }))
    return objects.filter { !ids.contains($0.id) && !places.contains(NameKey($0.place)) }
  }
}

/// The settings of a target's column that the source does not carry: storage, compression, statistics, comment and
/// privileges. PostgreSQL resets some of them if the column gets another type, and all if it is made again.
struct PostgresColumnSettings {
  private struct Column {
    var number: String
    @ByBytes var name: String
    var storage: String
    var compression: String
    var statistics: String
    var options: String
    var comment: String?
    /// For each privilege, the words of GRANT before and after the name of the column.
    var privileges: [String]
  }

  private let columns: [Column]

  /// Reads the settings of the columns of a table.
  ///
  /// - Parameter table: The number of the table (`pg_class.oid`).
  init(_ table: String, _ connection: PostgresConnection) throws {
    let rows = try connection.query(
      """
      SELECT a.attnum, a.attname, CASE WHEN a.attstorage <> t.typstorage THEN
          CASE a.attstorage WHEN 'p' THEN 'PLAIN' WHEN 'e' THEN 'EXTERNAL' WHEN 'x' THEN 'EXTENDED' ELSE 'MAIN' END END,
        CASE a.attcompression WHEN 'p' THEN 'pglz' WHEN 'l' THEN 'lz4' END,
        CASE WHEN a.attstattarget >= 0 THEN a.attstattarget END, array_to_string(a.attoptions, ', '),
        col_description(a.attrelid, a.attnum),
        (SELECT json_agg(x.privilege_type || ' TO ' || CASE x.grantee WHEN 0 THEN 'PUBLIC' ELSE
            quote_ident(pg_get_userbyid(x.grantee)) END || CASE WHEN x.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
          FROM aclexplode(a.attacl) x)
      FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
      WHERE a.attrelid = $1::oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
      """, [table])
    columns = rows.map { row in
      Column(
        number: row[0] ?? "", name: row[1] ?? "", storage: row[2] ?? "", compression: row[3] ?? "",
        statistics: row[4] ?? "", options: row[5] ?? "", comment: row[6],
        privileges: PostgresAlteration.Target.names(row[7]))
    }
  }

  /// Returns the statements that give the columns of `now`, read after a schema change, the settings that they had
  /// before.
  ///
  /// - Parameter table: The name of the table in SQL.
  func restoring(_ now: PostgresColumnSettings, _ table: String) -> [String] {
    columns.flatMap { was -> [String] in
      let same = now.columns.first { $0.number == was.number }
      guard let new = same ?? now.columns.first(where: { $0.name.hasSameBytes(as: was.name) }) else { return [] }
      let name = new.name.quotedName
      var lines: [String] = []
      func set(_ setting: KeyPath<Column, String>, _ words: (String) -> String) {
        if !was[keyPath: setting].isEmpty, was[keyPath: setting] != new[keyPath: setting] {
          lines.append("ALTER TABLE \(table) ALTER COLUMN \(name) \(words(was[keyPath: setting]))")
        }
      }
      set(\.storage) { "SET STORAGE \($0)" }
      set(\.compression) { "SET COMPRESSION \($0)" }
      set(\.statistics) { "SET STATISTICS \($0)" }
      set(\.options) { "SET (\($0))" }
      if let comment = was.comment, !comment.hasSameBytes(as: new.comment ?? "") {
        lines.append("COMMENT ON COLUMN \(table).\(name) IS \(comment.postgresLiteral)")
      }
      for privilege in was.privileges where !new.privileges.contains(privilege) {
        guard let (right, grantee) = privilege.cut(at: " ") else { continue }
        lines.append("GRANT \(right) (\(name)) ON \(table) \(grantee)")
      }
      return lines
    }
  }
}

extension PostgresSchemaChanges {
  /// Runs the statements of a schema change. Afterwards, gives the columns the settings that only the target has.
  ///
  /// - Throws: `schema-stopped` if the statements dropped an object of the target that the change does not name.
  func keepingOthers(
    _ alteration: PostgresAlteration, _ refusal: SchemaRefusal, _ change: Change, _ body: () throws -> Void
  ) throws {
    guard alteration.replacesColumns, let oid = try connection.first("SELECT to_regclass($1)::oid", [alteration.place])
    else { return try body() }
    let (objects, settings) = (try PostgresTableObjects(oid, connection), try PostgresColumnSettings(oid, connection))
    try body()
    let lost = objects.lost(in: try PostgresTableObjects(oid, connection)).first { object in
      !alteration.dropped.contains(object.name)
        && (object.columns.isEmpty || !object.columns.isSubset(of: alteration.goneColumns))
    }
    if let lost {
      throw refusal.error(
        "\(lost.phrase) of the target would be dropped too; drop it first, or change it", table: change.name)
    }
    let after = try PostgresColumnSettings(oid, connection)
    for statement in settings.restoring(after, change.after.postgresIdentifier) { try connection.run(statement, []) }
  }
}
