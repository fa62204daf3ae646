import Changes
import PostgresKit
import SQLiteKit

/// The notices of `cairn check` and of the first start of a capture about a source.
///
///     try StartNotices.of(try Database(path: "shop.db"))   // ["views are not replicated: v"]
package enum StartNotices {
  /// Returns the notices of a start about what a file has, and a target does not get or an application notices.
  ///
  /// Virtual tables are not among them: each has a ``SQLiteTable/refusal``.
  package static func of(_ source: Database) throws -> [String] {
    func names(_ type: String) throws -> [String] {
      try source.query("SELECT name FROM sqlite_master WHERE type = ? ORDER BY name", [.text(type)]).map {
        $0[0].string
      }
    }
    try source.readEncoding()
    let tables = try source.userTables().filter { $0.refusal == nil }
    return [
      IgnoredObjects.notice("views are not replicated", try names("view")),
      IgnoredObjects.notice(
        "triggers are not replicated, what they write is",
        try names("trigger").filter { !IgnoredObjects.isOfCairn(trigger: $0) }),
      IgnoredObjects.notice(
        "while it is captured, INSERT INTO … SELECT * needs a list of columns in tables with generated columns",
        tables.filter { !$0.generated.isEmpty }.map(\.name)),
      IgnoredObjects.notice(
        "texts that read as numbers may arrive as these numbers in tables, WITHOUT ROWID or with a reference to themselves, whose texts a numeric column references",
        tables.filter(\.mayGiveWrongNew).map(\.name)),
      IgnoredObjects.notice(
        "SQLite leaves the result undefined of BEFORE triggers that update or delete the row for which they fire; these may",
        try source.storedTriggers().filter(\.mayChangeItsRow).map { "\($0.name) on \($0.table)" }),
      IgnoredObjects.notice(
        "the file is in UTF-16, and each copied piece of 100,000 rows sorts the whole table if its key has texts",
        source.isUTF16 ? tables.filter { Self.hasTextKey($0.schema) }.map(\.name) : []),
    ].compactMap { $0 }
  }

  /// Returns whether a column of the key can hold texts.
  private static func hasTextKey(_ schema: TableSchema) -> Bool {
    !schema.flags.contains(.wholeRow)
      && schema.key.contains { schema.columns[$0].affinity != "INTEGER" }
  }

  /// Returns the notices of a start about what a database has and a target does not get.
  package static func of(_ connection: PostgresConnection) throws -> [String] {
    try connection.query(ignoredObjects).compactMap { row in
      guard let what = row[0], let names = row[1], let count = row[2].flatMap({ Int($0) }) else { return nil }
      return IgnoredObjects.notice(what, names.split(at: "\n"), of: count)
    }
  }

  /// For each kind of object, the sentence about it, the first names, a line each, and the number of all. Objects of extensions and of Cairn are
  /// left out, except tables of extensions, which may have rows of applications.
  private static let ignoredObjects = """
    WITH object AS (
      SELECT c.oid, c.relkind, format('%I.%I', n.nspname, c.relname) AS name,
        EXISTS (SELECT 1 FROM pg_depend AS d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid
          AND d.deptype = 'e') AS is_extensions
      FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
      WHERE c.relpersistence <> 't' AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'cairn', 'cairn_ddl')
        AND n.nspname NOT LIKE 'pg\\_%'
    ), said(place, what, name) AS (
      SELECT 1, 'views are not replicated', name FROM object WHERE relkind IN ('v', 'm') AND NOT is_extensions
      UNION ALL
      SELECT 2, 'triggers are not replicated, what they write is', format('%I on %s', t.tgname, o.name)
      FROM pg_trigger AS t JOIN object AS o ON o.oid = t.tgrelid
      WHERE NOT t.tgisinternal AND t.tgparentid = 0 AND t.tgname NOT LIKE 'cairn\\_%' AND NOT o.is_extensions
      UNION ALL
      SELECT 3, 'sequences that no column owns are not replicated', name FROM object AS o
      WHERE relkind = 'S' AND NOT is_extensions AND NOT EXISTS (SELECT 1 FROM pg_depend AS d
        WHERE d.classid = 'pg_class'::regclass AND d.objid = o.oid AND d.deptype IN ('a', 'i'))
      UNION ALL
      SELECT 4, 'tables of extensions are not replicated', name FROM object
      WHERE relkind IN ('r', 'p') AND is_extensions
      UNION ALL
      SELECT 5, 'partitioned and inheriting tables arrive without partitions and inheritance', name FROM object AS o
      WHERE (relkind = 'p' AND NOT (SELECT relispartition FROM pg_class AS c WHERE c.oid = o.oid)
          OR relkind = 'r' AND EXISTS (SELECT 1 FROM pg_inherits AS i JOIN pg_class AS p ON p.oid = i.inhparent
            WHERE i.inhrelid = o.oid AND p.relkind = 'r'))
        AND NOT is_extensions
      UNION ALL
      SELECT 6, 'large objects are not replicated', 'there are ' || count(*) FROM pg_largeobject_metadata
      HAVING count(*) > 0
      UNION ALL
      SELECT 7, 'capture''s slot does not follow a failover to a standby, after which the tables are copied again; standbys use slots',
        slot_name::text FROM pg_replication_slots WHERE slot_type = 'physical' AND NOT temporary
    )
    SELECT what, array_to_string((array_agg(replace(name, E'\\n', ' ') ORDER BY name COLLATE "C"))
      [1:\(IgnoredObjects.sentencesMax)], E'\\n'), count(*) FROM said
    GROUP BY place, what ORDER BY place
    """
}
