import Changes
import PostgresKit
import TestServers
import Testing

/// What somebody else made of a table since it was looked at is not read, as reading it may run functions.
@Suite(.enabled(if: PostgresServer.isAvailable)) struct HoldTests {
  private func database() throws -> (PostgresServer, String) {
    let server = try PostgresServer.shared
    let name = "hold_\(UInt32.random(in: 0..<UInt32.max))"
    try server.createDatabase(name)
    try server.psql(
      """
      DO $$ BEGIN CREATE ROLE low LOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN END $$;
      DO $$ BEGIN CREATE ROLE reader LOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN END $$;
      CREATE SCHEMA low AUTHORIZATION low; GRANT CREATE ON SCHEMA public TO low;
      CREATE TABLE public.item(id integer PRIMARY KEY); CREATE TYPE low.mood AS ENUM ('good');
      CREATE TABLE public.felt(m low.mood PRIMARY KEY); CREATE TABLE public.other(id integer PRIMARY KEY, m low.mood);
      ALTER TABLE public.item OWNER TO low; ALTER TYPE low.mood OWNER TO low; GRANT USAGE ON SCHEMA low TO PUBLIC;
      GRANT SELECT ON ALL TABLES IN SCHEMA public TO PUBLIC
      """, name)
    return (server, name)
  }

  private func problem(_ connection: PostgresConnection, _ name: String, takesTexts: Bool = false) throws -> CairnError?
  {
    try connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    defer { connection.rollback() }
    do { try connection.hold(name, takesTexts: takesTexts) } catch let error as CairnError { return error }
    return nil
  }

  @Test func `a table is held, a view of its name is refused`() throws {
    let (server, name) = try database()
    defer { try? server.dropDatabase(name) }
    let connection = try PostgresConnection(server.url(name, user: "reader"))
    #expect(try problem(connection, "public.item") == nil)
    #expect(try problem(connection, "ONLY public.item") == nil)
    // The snapshot of the reader is from before the exchange.
    try connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    #expect(try connection.first("SELECT count(*) FROM pg_class WHERE relname = 'item' AND relkind = 'r'") == "1")
    try server.psql(
      """
      SET ROLE low; ALTER TABLE public.item RENAME TO gone; CREATE TABLE low.seen(who text); GRANT ALL ON low.seen TO PUBLIC;
      CREATE FUNCTION low.tell() RETURNS integer LANGUAGE plpgsql AS
        $$ BEGIN INSERT INTO low.seen VALUES (current_user); RETURN 1; END $$;
      CREATE VIEW public.item AS SELECT low.tell() AS id; GRANT SELECT ON public.item TO PUBLIC
      """, name)
    do {
      try connection.hold("public.item")
      Issue.record("a view is no table")
    } catch let error as CairnError {
      #expect(error.code == .tableRefused && error.message.contains("is a view"), "\(error)")
    }
    connection.rollback()
    #expect(try server.psql("SELECT * FROM low.seen", name) == "")
  }

  @Test func `a key whose texts become values by the function of another role is refused`() throws {
    let (server, name) = try database()
    defer { try? server.dropDatabase(name) }
    let connection = try PostgresConnection(server.url(name, user: "reader"))
    #expect(try problem(connection, "public.felt", takesTexts: true) == nil)
    try server.psql(
      """
      SET ROLE low; CREATE FUNCTION low.feel(v text) RETURNS low.mood LANGUAGE sql AS $$ SELECT 'good'::low.mood $$;
      CREATE CAST (text AS low.mood) WITH FUNCTION low.feel(text) AS IMPLICIT
      """, name)
    let error = try problem(connection, "public.felt", takesTexts: true)
    #expect(
      error?.code == .tableRefused && error?.message.contains("low.feel(text)") == true, "\(error?.message ?? "")")
    #expect(try problem(connection, "public.felt") == nil)
    #expect(try problem(connection, "public.other", takesTexts: true) == nil)
    try server.psql("ALTER FUNCTION low.feel(text) OWNER TO postgres", name)
    #expect(try problem(connection, "public.felt", takesTexts: true) == nil)
  }
}
