import Changes
import Foundation
import PostgresKit
import SQLiteKit
import TestServers

/// The part of a target database that a hostile trail must not touch: all except the tables that its apply may write.
///
/// A canary is read as lines of text, so that two readings can be compared and the difference printed.
package enum Canary {
  /// The trail that filled the target before the attack; its state at the target belongs to the canary.
  static let good = TrailName(origin: "good", name: "shop")

  /// The lines that are in only one of two readings.
  static func difference(_ before: [String], _ after: [String]) -> [String] {
    let (old, new) = (Set(before.map { Array($0.utf8) }), Set(after.map { Array($0.utf8) }))
    func text(_ lines: Set<[UInt8]>, _ sign: String) -> [String] {
      lines.map { sign + String(String(decoding: $0, as: UTF8.self).prefix(300)) }.sorted()
    }
    return text(old.subtracting(new), "- ") + text(new.subtracting(old), "+ ")
  }

  /// An honest trail: one table with two rows, copied.
  static func trail(_ namespace: String, _ engine: Engine) -> HostileSegment {
    var segment = HostileSegment(good, id: HostileSegment.id(9))
    var records = HostileRecords()
    let isPostgres = engine == .postgres
    let schema = TableSchema(
      epoch: 1, engine: engine, namespace: namespace, name: "ledger",
      columns: [
        .init(name: "id", declaredType: isPostgres ? "integer" : "INTEGER", isNotNull: true, keyOrdinal: 1),
        .init(name: "v", declaredType: isPostgres ? "text" : "TEXT"),
      ], createText: isPostgres ? "" : "CREATE TABLE ledger(id INTEGER PRIMARY KEY, v TEXT)")
    func value(_ text: String) -> Value { isPostgres ? .exact(Array(text.utf8)) : .text(Array(text.utf8)) }
    records.begin(1)
    records.schema(1, schema)
    records.ddl(DDL(action: .create, before: 0, after: 1))
    records.refresh(1, .start(.firstCopy, .byKey, estimatedRows: 2))
    records.refresh(1, .chunk(.keys(after: nil, through: nil)))
    for id in 1...2 {
      records.row(1, [isPostgres ? value("\(id)") : .integer(Int64(id)), value("honest")])
    }
    records.refresh(1, .end(rows: 2))
    records.commit(1, changes: 2)
    segment.block(records.bytes)
    return segment
  }

  // MARK: SQLite

  /// Tables of a program, beside those that the honest trail brings.
  static let sqliteTables = """
    CREATE TABLE salaries(id INTEGER PRIMARY KEY AUTOINCREMENT, pay INT); INSERT INTO salaries(pay) VALUES (100), (200);
    CREATE INDEX salaries_pay ON salaries(pay); CREATE VIEW paid AS SELECT sum(pay) FROM salaries;
    CREATE TABLE x(a); INSERT INTO x VALUES (1); PRAGMA user_version = 7
    """

  static func read(sqlite path: String) throws -> [String] {
    let database = try Database(ofProgram: path)
    let allowed = HostileTrails.allowed.map { "'\($0)'" }.joined(separator: ",")
    var lines: [String] = []
    for sql in [
      "SELECT 'schema', type, name, tbl_name, sql FROM sqlite_schema WHERE lower(tbl_name) NOT IN (\(allowed)) "
        + "AND (tbl_name NOT LIKE 'cairn~_%' ESCAPE '~' OR tbl_name IN ('cairn_checkpoint', 'cairn_table') "
        + "OR type <> 'table' AND name NOT LIKE 'sqlite~_autoindex%' ESCAPE '~')",
      "SELECT 'salaries', * FROM salaries", "SELECT 'ledger', * FROM ledger", "SELECT 'x', * FROM x",
      "SELECT 'counted', * FROM sqlite_sequence WHERE name = 'salaries'",
      "SELECT 'checkpoint', * FROM cairn_checkpoint WHERE trail <> 'evil.x'",
      "SELECT 'table', * FROM cairn_table WHERE trail <> 'evil.x'",
      "SELECT 'version', * FROM pragma_user_version", "SELECT 'file', name FROM pragma_database_list",
    ] {
      for row in try database.query(sql) { lines.append(row.map { $0.shown(max: 1 << 20) }.joined(separator: "|")) }
    }
    // A file beside the target and its trail is one that SQL has made.
    let names = try FileManager.default.contentsOfDirectory(atPath: (path as NSString).deletingLastPathComponent)
    return lines + names.filter { !$0.hasPrefix("target.db") && $0 != "evil.x" }
  }

  // MARK: PostgreSQL

  static let postgresTables = [
    "CREATE TABLE public.salaries(id serial PRIMARY KEY, pay integer CHECK (pay > 0))",
    "INSERT INTO public.salaries(pay) VALUES (100), (200)", "CREATE SEQUENCE public.counted",
    "CREATE TABLE public.x(a integer)", "CREATE SCHEMA main", "CREATE TABLE main.salaries(id integer PRIMARY KEY)",
    "CREATE VIEW public.paid AS SELECT sum(pay) FROM public.salaries",
  ]

  /// Oids of what belongs to a table that the trail may write: itself, its indexes and its sequences.
  private static let mine = """
    WITH t AS (SELECT c.oid FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relname = ANY ($1)),
    mine AS (SELECT oid FROM t UNION SELECT indexrelid FROM pg_index WHERE indrelid IN (SELECT oid FROM t)
      UNION SELECT objid FROM pg_depend WHERE classid = 'pg_class'::regclass AND refclassid = 'pg_class'::regclass
        AND refobjid IN (SELECT oid FROM t)),
    other AS (SELECT c.oid, n.nspname, c.relname, c.relkind, c.relowner, c.relacl, c.relrowsecurity FROM pg_class c
      JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
        AND c.oid NOT IN (SELECT oid FROM mine)
        AND (n.nspname <> 'cairn' OR c.relname IN ('checkpoint', 'table_state', 'pending', 'waiting')))
    """

  private static let lines = """
    SELECT concat_ws(' ', 'relation', nspname, relname, relkind, relowner, relacl, relrowsecurity) FROM other
    UNION ALL SELECT concat_ws(' ', 'column', o.relname, a.attnum, a.attname, a.atttypid, a.attnotnull,
      pg_get_expr(d.adbin, d.adrelid)) FROM other o JOIN pg_attribute a ON a.attrelid = o.oid AND a.attnum > 0
      LEFT JOIN pg_attrdef d ON d.adrelid = o.oid AND d.adnum = a.attnum
    UNION ALL SELECT concat_ws(' ', 'constraint', conrelid::regclass, pg_get_constraintdef(oid)) FROM pg_constraint
      WHERE conrelid IN (SELECT oid FROM other)
    UNION ALL SELECT concat_ws(' ', 'trigger', pg_get_triggerdef(oid)) FROM pg_trigger
      WHERE NOT tgisinternal AND tgrelid IN (SELECT oid FROM other)
    UNION ALL SELECT concat_ws(' ', 'function', proname, prosrc) FROM pg_proc
      WHERE pronamespace IN (SELECT oid FROM pg_namespace WHERE nspname !~ '^pg_|^information_schema$|^cairn$')
    UNION ALL SELECT concat_ws(' ', 'type', typname) FROM pg_type WHERE typtype IN ('d', 'e', 'r') AND
      typnamespace IN (SELECT oid FROM pg_namespace WHERE nspname !~ '^pg_|^information_schema$')
    UNION ALL SELECT concat_ws(' ', 'schema', nspname, nspowner, nspacl) FROM pg_namespace
      WHERE nspname !~ '^pg_(toast_)?temp'
    UNION ALL SELECT concat_ws(' ', 'role', rolname, rolsuper, rolpassword) FROM pg_authid
    UNION ALL SELECT concat_ws(' ', 'database', datname, datacl) FROM pg_database
    UNION ALL SELECT concat_ws(' ', 'extension', extname) FROM pg_extension
    UNION ALL SELECT concat_ws(' ', 'event trigger', evtname) FROM pg_event_trigger
    UNION ALL SELECT concat_ws(' ', 'publication', pubname) FROM pg_publication
    UNION ALL SELECT 'salaries ' || s::text FROM public.salaries s
    UNION ALL SELECT 'main.salaries ' || s::text FROM main.salaries s
    UNION ALL SELECT 'x ' || x::text FROM public.x x
    UNION ALL SELECT 'ledger ' || l::text FROM public.ledger l
    UNION ALL SELECT 'counted ' || last_value || is_called FROM public.counted
    UNION ALL SELECT 'counted ' || last_value || is_called FROM public.salaries_id_seq
    UNION ALL SELECT 'checkpoint ' || c::text FROM cairn.checkpoint c WHERE trail <> 'evil.x'
    UNION ALL SELECT 'state ' || s::text FROM cairn.table_state s WHERE trail <> 'evil.x'
    UNION ALL SELECT 'waiting ' || w::text FROM cairn.waiting w WHERE trail <> 'evil.x'
    UNION ALL SELECT 'pending ' || p::text FROM cairn.pending p WHERE NOT table_name = ANY ($1)
    """

  static func read(_ connection: PostgresConnection) throws -> [String] {
    let allowed = "{" + HostileTrails.allowed.joined(separator: ",") + "}"
    return try connection.query("\(mine) \(lines)", [allowed]).map { $0[0] ?? "" }
  }

  /// Takes away what a trail was allowed to make, so that the next one finds the database as it was.
  static func clean(_ connection: PostgresConnection, of trail: TrailName) throws {
    for table in HostileTrails.allowed { try connection.execute("DROP TABLE IF EXISTS public.\(table) CASCADE") }
    let tables = try connection.query(
      "SELECT table_name FROM information_schema.columns WHERE table_schema = 'cairn' AND column_name = 'trail'")
    for table in tables.compactMap(\.first).compactMap({ $0 }) {
      try connection.run("DELETE FROM cairn.\(table.quotedName) WHERE trail = $1", [trail.description])
    }
    try connection.execute("TRUNCATE cairn.pending")
  }
}
