import Foundation
import TestServers
import Testing

/// Settings that the owner of a database gives to all its sessions, which change what statements do or how values print.
@Suite(.enabled(if: PostgresServer.problem == nil), .timeLimit(.minutes(20))) struct SessionSettingsTests {
  /// The settings; `search_path` names a schema with other tables, operators and casts of the same names.
  private static let settings = [
    "search_path = 'evil', 'public'", "check_function_bodies = off", "statement_timeout = 1",
    "lock_timeout = 1", "idle_in_transaction_session_timeout = 1", "wal_sender_timeout = 1", "exit_on_error = on",
    "default_transaction_isolation = 'serializable'", "default_transaction_deferrable = on", "row_security = on",
    "standard_conforming_strings = off", "backslash_quote = on", "escape_string_warning = off",
    "bytea_output = 'escape'", "DateStyle = 'German'", "IntervalStyle = 'iso_8601'", "extra_float_digits = -15",
    "client_encoding = 'LATIN1'", "TimeZone = 'Asia/Tokyo'", "xmlbinary = 'hex'", "xmloption = 'document'",
    "transform_null_equals = on", "array_nulls = off", "quote_all_identifiers = on", "synchronous_commit = off",
    "default_tablespace = ''", "enable_indexscan = off", "enable_sort = off", "plan_cache_mode = 'force_generic_plan'",
    "lc_monetary = 'C'", "lc_numeric = 'C'", "work_mem = '64kB'", "default_text_search_config = 'simple'",
  ]
  /// Settings of later servers, by the first version that has them.
  private static let laterSettings = [(140_000, "idle_session_timeout = 1"), (170_000, "transaction_timeout = 1")]
  /// Settings that only a superuser may give to a database.
  private static let superSettings = ["session_replication_role = 'replica'", "lc_messages = 'C'"]

  private static let tables = """
    CREATE TABLE item(id int PRIMARY KEY, name text UNIQUE, d date, at timestamptz, i interval, f float8, g real,
      b bytea, m money, x xml, a text[], n numeric, u uuid, j json, e "char", z text);
    CREATE TABLE line(item int REFERENCES item, part bytea, at timestamptz, PRIMARY KEY (item, at, part));
    CREATE TABLE plain(name text, v float8); ALTER TABLE plain REPLICA IDENTITY FULL
    """

  private static func rows(_ from: Int, _ through: Int) -> String {
    """
    INSERT INTO item SELECT n, E'caf\\u00e9 \\\\ '' ' || n, '2024-02-03', '2024-02-03 04:05:06.789+00',
      '1 mon 2 days -3 hours', 0.1::float8 + 0.2, 0.1::real, decode('00ff5c27', 'hex'), 1.5, '<a>&lt;</a>',
      ARRAY[NULL, 'NULL', 'a\\b', ''], 1.10, md5(n::text)::uuid, '{"a": "\\\\"}', 'x', NULL
      FROM generate_series(\(from), \(through)) AS n;
    INSERT INTO line SELECT n, decode('5c78', 'hex'), '2024-07-03 04:05:06+00' FROM generate_series(\(from), \(through)) AS n;
    INSERT INTO plain SELECT '\\', 0.1 FROM generate_series(\(from), \(through))
    """
  }

  /// Another table, operator and function for each one that Cairn's statements could mean.
  private static let evil = """
    CREATE SCHEMA evil; CREATE VIEW evil.item AS SELECT 'x' AS id, 7 AS name; CREATE VIEW evil.line AS SELECT 1 AS item;
    CREATE VIEW evil.pg_class AS SELECT 'evil'::name AS relname, 0::oid AS oid;
    CREATE FUNCTION evil.differ(int, int) RETURNS bool LANGUAGE sql AS 'SELECT false';
    CREATE OPERATOR evil.= (LEFTARG = int, RIGHTARG = int, FUNCTION = evil.differ);
    CREATE FUNCTION evil.length(text) RETURNS int LANGUAGE sql AS 'SELECT 7';
    CREATE DOMAIN evil.text AS pg_catalog.text CHECK (VALUE IS NULL); CREATE DOMAIN evil.int4 AS int CHECK (VALUE IS NULL)
    """

  private func set(_ server: PostgresServer, _ end: End) throws {
    guard end.isPostgres else { return }
    func all(_ settings: [String]) -> String {
      settings.map { "ALTER DATABASE \(end.name) SET \($0)" }.joined(separator: "; ")
    }
    let version = Int(try server.psql("SHOW server_version_num")) ?? 0
    let later = Self.laterSettings.filter { $0.0 <= version }.map(\.1)
    try server.psql(all(Self.settings + later), user: "low")
    try server.psql(all(Self.superSettings))
  }

  private func reset(_ server: PostgresServer, _ end: End) throws {
    if end.isPostgres { try server.psql("ALTER DATABASE \(end.name) RESET ALL") }
  }

  @Test(arguments: Pair.allCases) func `settings of sessions change nothing of what arrives`(_ kind: Pair) throws {
    let pair = try PairBench(kind)
    let server = pair.server
    let ends = [pair.from, pair.to]
    _ = try? server.psql("CREATE ROLE low LOGIN")
    for end in ends where end.isPostgres {
      try server.psql("ALTER DATABASE \(end.name) OWNER TO low")
      try server.psql(Self.evil, end.name)
    }
    func write(_ postgres: String, _ sqlite: String) throws {
      try reset(server, pair.from)
      try pair.sql(pair.from, pair.from.isPostgres ? postgres : sqlite)
      try set(server, pair.from)
    }
    try write(
      Self.tables + "; " + Self.rows(1, 3000),
      """
      CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT UNIQUE, f REAL, b BLOB, d DATE, at DATETIME, j JSON);
      CREATE TABLE plain(name TEXT, v REAL);
      WITH n(v) AS (SELECT 1 UNION ALL SELECT v + 1 FROM n WHERE v < 3000) INSERT INTO item
      SELECT v, 'caf\u{e9} \\ '' ' || v, 0.1 + 0.2, x'00ff5c27', '2024-02-03', '2024-02-03 04:05:06.789', '{"a": 1}' FROM n;
      INSERT INTO plain SELECT '\\', 0.1 FROM item
      """)
    try set(server, pair.to)
    func expectArrival() throws {
      let copied = try pair.once()
      #expect(copied.status == 0, "\(copied.errors.suffix(1500))")
      let compared = try pair.bench.run(
        Bench.cairn, ["compare", "--from", pair.from.url, "--to", pair.to.url, "--state", "state"], seconds: 120)
      #expect(compared.status == 0 && compared.output.contains("equal: "), "\(compared.output)\(compared.errors)")
      for end in ends { try reset(server, end) }
      try pair.expectEqual()
      for end in ends { try set(server, end) }
    }
    try expectArrival()
    try write(
      Self.rows(3001, 3050) + """
        ; UPDATE item SET f = f * 3, d = '2024-03-02', name = name || 'x' WHERE id < 9; DELETE FROM line WHERE item > 40;
        UPDATE plain SET v = 0.7 WHERE ctid = '(0,1)'; ALTER TABLE item ADD COLUMN more interval DEFAULT '1 day 2 hours';
        UPDATE item SET more = '-1 mon' WHERE id = 4
        """,
      """
      UPDATE item SET f = f * 3, d = '2024-03-02', name = name || 'x' WHERE id < 9; DELETE FROM plain WHERE rowid > 40;
      UPDATE plain SET v = 0.7 WHERE rowid = 1; ALTER TABLE item ADD COLUMN more REAL DEFAULT 0.1
      """)
    try expectArrival()
    // Compare finds what differs, with the settings too.
    for end in [pair.to] {
      try reset(server, end)
      try pair.sql(end, "UPDATE item SET f = 0.30000000000000010 WHERE id = 17")
      try set(server, end)
    }
    let compared = try pair.bench.run(
      Bench.cairn, ["compare", "--from", pair.from.url, "--to", pair.to.url, "--state", "state"], seconds: 120)
    #expect(compared.status != 0 && compared.output.contains("17"), "\(compared.output)\(compared.errors)")
  }

  @Test func `a target that is read-only by its settings is reported, and goes on after that`() throws {
    let pair = try PairBench(.sqliteToPostgres)
    try pair.sql(pair.from, "CREATE TABLE item(id INTEGER PRIMARY KEY); INSERT INTO item VALUES (1)")
    #expect(try pair.once().status == 0)
    try pair.server.psql("ALTER DATABASE \(pair.to.name) SET default_transaction_read_only = on")
    try pair.sql(pair.from, "INSERT INTO item VALUES (2)")
    let refused = try pair.once()
    #expect(refused.status != 0 && refused.errors.contains("database-read-only"), "\(refused.errors)")
    #expect(try pair.sql(pair.to, "SELECT count(*) FROM item") == "1")
    let compared = try pair.bench.run(
      Bench.cairn, ["compare", "--from", pair.from.url, "--to", pair.to.url, "--state", "state"], seconds: 120)
    // The second row is still on its way.
    #expect(compared.status == 75, "\(compared)")
    try pair.server.psql("ALTER DATABASE \(pair.to.name) RESET ALL")
    #expect(try pair.once().status == 0)
    #expect(try pair.sql(pair.to, "SELECT count(*) FROM item") == "2")
  }
}
