import Changes
import Conflicts
import Endpoints
import Foundation
import Mapping
import PostgresKit
import SQLiteKit
import TestServers
import Testing

/// Settings of a database's owner, and policies of a table's owner, lend them no rights of the session.
@Suite(.enabled(if: PostgresServer.problem == nil)) struct OwnersSettingsTests {
  private let server: PostgresServer
  private let name = "owner_" + UUID().uuidString.prefix(8).lowercased()
  private var low: String { "low_\(name)" }
  private var reader: String { "reader_\(name)" }

  init() throws { server = try PostgresServer.shared }

  private func make(_ sql: String) throws {
    try server.createDatabase(name)
    try server.psql("CREATE ROLE \(low) LOGIN; CREATE ROLE \(reader) LOGIN REPLICATION")
    try server.psql("GRANT SET ON PARAMETER session_replication_role TO \(reader)")
    try server.psql(
      """
      ALTER DATABASE \(name) OWNER TO \(low);
      GRANT CREATE ON DATABASE \(name) TO \(reader);
      SET ROLE \(low); CREATE SCHEMA low; GRANT USAGE ON SCHEMA low TO PUBLIC; CREATE TABLE low.seen(who text);
      GRANT ALL ON low.seen TO PUBLIC; \(sql)
      """, name)
  }

  private func remove() {
    try? server.dropDatabase(name)
    _ = try? server.psql("DROP OWNED BY \(low), \(reader); DROP ROLE \(low), \(reader)")
  }

  @Test func `the owner of a database does not choose the role of sessions`() throws {
    try make("")
    defer { remove() }
    try server.psql(
      "ALTER DATABASE \(name) SET role = '\(low)'; ALTER DATABASE \(name) SET row_security = on", name, user: low)
    #expect(try server.psql("SELECT current_user", name) == low)
    for purpose in [PostgresConnection.Purpose.sql, .replication] {
      let connection = try PostgresConnection(server.url(name), purpose: purpose)
      #expect(try connection.first("SELECT current_user") == "postgres")
      #expect(try connection.first("SHOW row_security") == "off")
      #expect(try connection.query("RESET ROLE").isEmpty)
      #expect(try connection.first("SELECT current_user") == "postgres")
    }
  }

  @Test func `no policy of a table's owner runs before a replication or for generated keys`() throws {
    try make(
      """
      CREATE FUNCTION low.spy() RETURNS boolean LANGUAGE plpgsql AS
        $$ BEGIN INSERT INTO low.seen VALUES (current_user); RETURN true; END $$;
      CREATE SEQUENCE low.s; GRANT ALL ON SEQUENCE low.s TO PUBLIC;
      CREATE TABLE low.item(id bigint PRIMARY KEY DEFAULT nextval('low.s')); INSERT INTO low.item VALUES (40);
      CREATE POLICY p ON low.item USING (low.spy()); ALTER TABLE low.item ENABLE ROW LEVEL SECURITY;
      GRANT ALL ON low.item TO PUBLIC
      """)
    defer { remove() }
    let (url, whole) = (
      DatabaseURL.postgres(uri: server.url(name, user: reader)), DatabaseURL.postgres(uri: server.url(name))
    )
    for run in [
      { _ = try DrawnKeys(url).catchUp() },
      { try TargetDatabase(url).checkHoldsNothingElse(SourceDatabase(whole), TablePatterns(["low.item"]), .fold) },
    ] {
      let error = #expect(throws: PostgresError.self) { try run() }
      #expect(error?.message.contains("row-level security") == true)
    }
    #expect(try server.psql("SELECT * FROM low.seen", name) == "")
    // Who is not subject to policies reads on.
    #expect(try DrawnKeys(whole).catchUp().map(\.next) == [41])
  }

  /// The planner computes calls with constant arguments before it reads a row, whatever the role.
  @Test(
    "no function of a table's owner runs as a read of the table is planned",
    arguments: [
      "CREATE TABLE low.item(id bigserial) PARTITION BY RANGE ((id + low.f(0))); "
        + "CREATE TABLE low.item1 PARTITION OF low.item FOR VALUES FROM (0) TO (1000)",
      "CREATE TABLE low.item(id bigserial PRIMARY KEY); CREATE INDEX ON low.item (id) WHERE id > low.f(0)",
      "CREATE TABLE low.item(id bigserial PRIMARY KEY); CREATE STATISTICS low.s ON (id + low.f(0)), id FROM low.item",
      "CREATE TABLE low.item(id bigserial PRIMARY KEY) PARTITION BY RANGE (id); CREATE TABLE low.item1 PARTITION OF "
        + "low.item (CHECK (id > low.f(-1))) FOR VALUES FROM (0) TO (1000)",
      "CREATE OPERATOR low.<<< (LEFTARG = int, RIGHTARG = int, FUNCTION = low.less); "
        + "CREATE TABLE low.item(id bigserial PRIMARY KEY); CREATE INDEX ON low.item (id) WHERE 1 OPERATOR(low.<<<) 2",
      // The key of a table above it.
      "CREATE TABLE low.above(id bigint NOT NULL) PARTITION BY RANGE ((id + low.f(0))); CREATE TABLE low.item(id bigserial)"
        + " PARTITION BY LIST (id); CREATE TABLE low.item1 PARTITION OF low.item DEFAULT; "
        + "ALTER TABLE low.above ATTACH PARTITION low.item FOR VALUES FROM (MINVALUE) TO (MAXVALUE)",
      // The CHECK of a type that a function of an extension makes.
      "CREATE EXTENSION hstore SCHEMA low; CREATE DOMAIN low.d AS int CHECK (low.f(VALUE) > 0); "
        + "CREATE TYPE low.c AS (a low.d); CREATE TABLE low.item(id bigserial PRIMARY KEY); CREATE INDEX ON low.item (id) "
        + "WHERE ((low.populate_record(NULL::low.c, 'a=>1'::low.hstore)).a > 0)",
    ])
  func planned(table: String) throws {
    try make(
      """
      CREATE FUNCTION low.g(x int) RETURNS int LANGUAGE plpgsql AS
        $$ BEGIN INSERT INTO low.seen VALUES (current_user); RETURN x; EXCEPTION WHEN OTHERS THEN RETURN x; END $$;
      CREATE FUNCTION low.f(x int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN
        IF current_user <> '\(low)' THEN PERFORM low.g(0); END IF; RETURN x; END $$;
      CREATE FUNCTION low.less(a int, b int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS
        $$ BEGIN PERFORM low.f(0); RETURN a < b; END $$;
      \(table); INSERT INTO low.item VALUES (7); ANALYZE low.item; GRANT ALL ON low.item TO PUBLIC
      """)
    defer { remove() }
    let whole = DatabaseURL.postgres(uri: server.url(name))
    let share = try #require(KeyShare(node: 1, of: 2))
    let plain = try server.psql("TABLE low.seen", name, user: low)
    #expect(plain == "")
    // The statement that an unwary reader would run.
    try server.psql("SELECT id FROM low.item ORDER BY id DESC LIMIT 1", name)
    if !table.contains("STATISTICS"), !table.contains("CHECK") {
      #expect(try server.psql("SELECT DISTINCT who FROM low.seen", name) == "postgres")
    }
    try server.psql("TRUNCATE low.seen", name, user: low)
    let other = DatabaseURL.postgres(uri: server.url(name, user: reader))
    for run in [
      { _ = try DrawnKeys(whole).catchUp() }, { _ = try DrawnKeys(whole).separate(share, isDry: true) },
      { _ = try DrawnKeys(other).catchUp() },
      { try TargetDatabase(other).checkHoldsNothingElse(SourceDatabase(whole), TablePatterns(["low.item"]), .fold) },
      { try TargetDatabase(whole).checkHoldsNothingElse(SourceDatabase(whole), TablePatterns(["low.item"]), .fold) },
    ] {
      do { try run() } catch let error as CairnError {
        #expect([.ownersCode, .tableRefused].contains(error.code), "\(error.message)")
      }
    }
    let connection = try PostgresConnection(server.url(name))
    #expect(throws: CairnError.self) {
      try connection.transaction("BEGIN READ ONLY") { _ = try connection.hold("low.item") }
    }
    #expect(try server.psql("TABLE low.seen", name) == "")
    try server.psql(
      """
      ALTER FUNCTION low.f(int) OWNER TO postgres; ALTER FUNCTION low.less(int, int) OWNER TO postgres;
      DO $$ BEGIN ALTER DOMAIN low.d OWNER TO postgres; EXCEPTION WHEN undefined_object THEN END $$
      """, name)
    try connection.transaction("BEGIN READ ONLY") { _ = try connection.hold("low.item") }
  }

  @Test func `a locked table ends a separation of keys soon, and leaves all sequences as they were`() throws {
    try make(
      """
      CREATE TABLE low.x(id serial PRIMARY KEY); INSERT INTO low.x DEFAULT VALUES;
      RESET ROLE; CREATE TABLE item(id serial PRIMARY KEY); INSERT INTO item DEFAULT VALUES
      """)
    defer { remove() }
    let other = try PostgresConnection(server.url(name, user: low))
    try other.execute("BEGIN")
    try other.execute("LOCK TABLE low.x")
    defer { other.rollback() }
    let share = try #require(KeyShare(node: 1, of: 2))
    let keys = try DrawnKeys(.postgres(uri: server.url(name)))
    let error = #expect(throws: PostgresError.self) { try keys.separate(share, isDry: false) }
    #expect(error?.isLockTimeout == true)
    #expect(try server.psql("SELECT DISTINCT seqincrement FROM pg_sequence", name) == "1")
    #expect(try server.psql("INSERT INTO item DEFAULT VALUES RETURNING id", name).hasPrefix("2"))
  }

  @Test func `tables and sequences of another role hold up no look at the keys of a node`() throws {
    try make(
      """
      CREATE TABLE low.x(id serial PRIMARY KEY CHECK (id > 0)); INSERT INTO low.x DEFAULT VALUES;
      RESET ROLE; CREATE TABLE item(id serial PRIMARY KEY); INSERT INTO item DEFAULT VALUES; GRANT SELECT ON item TO PUBLIC;
      GRANT SELECT ON SEQUENCE item_id_seq TO PUBLIC
      """)
    defer { remove() }
    let url = DatabaseURL.postgres(uri: server.url(name, user: reader))
    let other = try PostgresConnection(server.url(name, user: low))
    try other.execute("BEGIN")
    try other.execute("LOCK TABLE low.x")
    defer { other.rollback() }
    #expect(try DrawnKeys(url).all().map(\.fullName) == ["low.x", "item"])
    let end = try SourceDatabase(url)
    let patterns = TablePatterns(["item", "none"])
    #expect(try end.tables(patterns).map(\.name) == ["item"])
    #expect(try end.unmatched(patterns).map(\.name) == ["none"])
  }
}
