import Changes
import Foundation
import Mapping
import Operating
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
    try server.psql(
      """
      CREATE ROLE \(low) LOGIN; CREATE ROLE \(reader) LOGIN REPLICATION;
      GRANT SET ON PARAMETER session_replication_role TO \(reader); ALTER DATABASE \(name) OWNER TO \(low);
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
      { try TargetEnd(url).checkHoldsNothingElse(SourceEnd(whole), TablePatterns(["low.item"]), .fold) },
    ] {
      let error = #expect(throws: PostgresError.self) { try run() }
      #expect(error?.message.contains("row-level security") == true)
    }
    #expect(try server.psql("SELECT * FROM low.seen", name) == "")
    // Who is not subject to policies reads on.
    #expect(try DrawnKeys(whole).catchUp().map(\.next) == [41])
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
    let end = try SourceEnd(url)
    let patterns = TablePatterns(["item", "none"])
    #expect(try end.tables(patterns).map(\.name) == ["item"])
    #expect(try end.unmatched(patterns).map(\.name) == ["none"])
  }
}
