import Changes
import PostgresKit
import TestServers
import Testing

/// A table that another role has changed since it was looked at is not read, as reading it may run functions.
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
      #expect(error.code == .tableRefused && error.message.contains("is now a view"), "\(error)")
    }
    connection.rollback()
    #expect(try server.psql("SELECT * FROM low.seen", name) == "")
  }

  /// The lock of a table does not keep its schema from being renamed.
  @Test(arguments: ["", "PARTITION BY RANGE (id)"])
  func `a view that takes the name of a table under its lock is not read`(partitions: String) throws {
    let (server, name) = try database()
    defer { try? server.dropDatabase(name) }
    try server.psql(
      """
      GRANT CREATE ON DATABASE \(name) TO low; CREATE SCHEMA app AUTHORIZATION low; CREATE SCHEMA evil AUTHORIZATION low;
      SET ROLE low; CREATE TABLE app.item(id integer PRIMARY KEY) \(partitions); CREATE TABLE low.seen(who text);
      CREATE FUNCTION low.tell() RETURNS integer LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'ran as %', current_user; END $$;
      CREATE VIEW evil.item AS SELECT low.tell() AS id, '(0,1)'::tid AS ctid;
      GRANT USAGE ON SCHEMA app, evil TO PUBLIC; GRANT ALL ON app.item, evil.item TO PUBLIC
      """, name)
    let connection = try PostgresConnection(server.url(name, user: "reader"))
    let ways: [(String) throws -> Void] = [
      { try connection.query($0) }, { try connection.copyOut("COPY (\($0)) TO STDOUT") { _ in } },
    ]
    for read in ways {
      try connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
      try connection.hold("app.item")
      try server.psql("SET ROLE low; ALTER SCHEMA app RENAME TO aside; ALTER SCHEMA evil RENAME TO app", name)
      do {
        try read("SELECT id FROM app.item WHERE ctid >= '(0,0)'::tid")
        Issue.record("a view was read")
      } catch let error as PostgresError { #expect(error.message.contains("view"), "\(error)") }
      connection.rollback()
      try server.psql("SET ROLE low; ALTER SCHEMA app RENAME TO evil; ALTER SCHEMA aside RENAME TO app", name)
    }
    #expect(try connection.barNotice() == nil)
    try connection.allowViews()
    #expect(throws: PostgresError.self) { try connection.query("SELECT id FROM evil.item") }
    #expect(try connection.barNotice()?.contains("CVE-2024-7348") == true)
  }

  @Test func `a partition that is a foreign table is read`() throws {
    let (server, name) = try database()
    defer { try? server.dropDatabase(name) }
    try server.psql(
      """
      CREATE EXTENSION postgres_fdw; CREATE TABLE there(id integer); INSERT INTO there VALUES (11);
      CREATE SERVER same FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '\(server.folder)', port '\(server.port)', dbname '\(name)');
      CREATE USER MAPPING FOR postgres SERVER same OPTIONS (user 'postgres');
      CREATE TABLE parts(id integer) PARTITION BY RANGE (id); CREATE TABLE near PARTITION OF parts FOR VALUES FROM (0) TO (9);
      CREATE FOREIGN TABLE far PARTITION OF parts FOR VALUES FROM (9) TO (20) SERVER same OPTIONS (table_name 'there')
      """, name)
    let connection = try PostgresConnection(server.url(name))
    #expect(throws: PostgresError.self) { try connection.query("SELECT id FROM public.parts") }
    for _ in 1...2 {
      try connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
      try connection.hold("public.parts")
      #expect(try connection.first("SELECT id FROM public.parts") == "11")
      connection.rollback()
    }
  }

  /// The owner of the partition or of its server chooses which server is asked, and how.
  @Test(arguments: ["ALTER FOREIGN TABLE far OWNER TO low", "ALTER SERVER same OWNER TO low"])
  func `a partition that is a foreign table of another role is not read`(change: String) throws {
    let (server, name) = try database()
    defer { try? server.dropDatabase(name) }
    try server.psql(
      """
      CREATE EXTENSION postgres_fdw;
      CREATE SERVER same FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '\(server.folder)', port '\(server.port)', dbname '\(name)');
      CREATE TABLE parts(id integer) PARTITION BY RANGE (id); GRANT SELECT ON parts TO PUBLIC;
      CREATE FOREIGN TABLE far PARTITION OF parts FOR VALUES FROM (9) TO (20) SERVER same; \(change)
      """, name)
    for user in ["postgres", "reader"] {
      let connection = try PostgresConnection(server.url(name, user: user))
      let problem = try problem(connection, "public.parts")
      #expect(
        problem?.code == .tableRefused && problem?.message.contains("role low") == true, "\(problem?.message ?? "")")
    }
    // By its own name, too, as a partition may become one at any time.
    #expect(try problem(PostgresConnection(server.url(name)), "public.far")?.code == .tableRefused)
  }

  @Test func `only servers that have the setting are asked for it`() {
    for (version, knows) in [
      (140_012, false), (140_013, true), (150_007, false), (150_008, true), (160_003, false), (160_004, true),
      (170_000, true), (180_000, true), (110_099, false),
    ] { #expect(PostgresConnection.knowsBar(version) == knows, "\(version)") }
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

  /// PostgreSQL may take an operator of another type, to which an implicit cast leads.
  @Test(arguments: ["bigint", "text"])
  func `a key that an implicit cast of another role makes another value is refused`(type: String) throws {
    let (server, name) = try database()
    defer { try? server.dropDatabase(name) }
    let connection = try PostgresConnection(server.url(name, user: "reader"))
    let cast = "CREATE CAST (low.mood AS \(type)) WITH FUNCTION low.turn(low.mood)"
    try server.psql(
      "SET ROLE low; CREATE FUNCTION low.turn(v low.mood) RETURNS \(type) LANGUAGE sql AS $$ SELECT '1'::\(type) $$; \(cast)",
      name)
    #expect(try problem(connection, "public.felt", takesTexts: true) == nil)
    try server.psql("SET ROLE low; DROP CAST (low.mood AS \(type)); \(cast) AS IMPLICIT", name)
    let error = try problem(connection, "public.felt", takesTexts: true)
    #expect(
      error?.code == .tableRefused && error?.message.contains("low.turn(low.mood)") == true, "\(error?.message ?? "")")
    #expect(try problem(connection, "public.felt") == nil)
  }

  @Test(arguments: [
    "ALTER TABLE public.item RENAME TO gone; ALTER TABLE public.twin RENAME TO item",
    "ALTER TABLE public.item RENAME TO gone; ALTER TABLE public.cast RENAME TO item",
    "ALTER TABLE public.item DROP COLUMN id; ALTER TABLE public.item ADD COLUMN id low.t DEFAULT ROW(5)::low.t",
    "ALTER TABLE public.item RENAME COLUMN id TO other",
  ])
  func `a table of another shape than the one that was looked at is refused`(change: String) throws {
    let (server, name) = try database()
    defer { try? server.dropDatabase(name) }
    try server.psql(
      """
      SET ROLE low; INSERT INTO public.item VALUES (1); CREATE TABLE public.twin(id integer PRIMARY KEY);
      CREATE TYPE low.t AS (a bigint); CREATE TABLE public.cast(id low.t);
      GRANT SELECT ON public.twin, public.cast TO PUBLIC
      """, name)
    let connection = try PostgresConnection(server.url(name, user: "reader"))
    let oid = try #require(try connection.first("SELECT 'public.item'::regclass::oid").flatMap { UInt32($0) })
    let shape = HeldShape(table: oid, columns: ["id"], types: [23])
    // The snapshot is from before the change, and does not show it.
    for isChanged in [false, true] {
      try connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
      #expect(try connection.first("SELECT count(*) FROM pg_class WHERE relname = 'item'") == "1")
      if isChanged { try server.psql("SET ROLE low; \(change)", name) }
      var code: ErrorCode?
      do { try connection.hold("ONLY public.item", as: shape) } catch let error as CairnError { code = error.code }
      #expect(code == (isChanged ? .tableRefused : nil))
      connection.rollback()
    }
    // Types of PostgreSQL may take each other's place.
    try server.psql("CREATE TABLE public.wide(id bigint); GRANT SELECT ON public.wide TO PUBLIC", name)
    let number = try server.psql("SELECT 'public.wide'::regclass::oid", name)
    let wide = try #require(UInt32(number))
    _ = try connection.transaction {
      try connection.hold("public.wide", as: HeldShape(table: wide, columns: ["id"], types: [23]))
    }
  }

  @Test(arguments: [
    ("low.num[]", "{1}"), ("low.nums", "{1}"), ("low.pair", "(1)"), ("low.pair[]", "{(1)}"), ("low.span", "[1,2)"),
  ])
  func `text becomes no value of a type of another role`(type: String, text: String) throws {
    let (server, name) = try database()
    defer { try? server.dropDatabase(name) }
    try server.psql(
      """
      CREATE TABLE public.ran(who text); GRANT ALL ON public.ran TO PUBLIC; SET ROLE low;
      CREATE FUNCTION low.f(v int) RETURNS boolean LANGUAGE plpgsql AS
        $$ BEGIN INSERT INTO public.ran VALUES (current_user); RETURN true; END $$;
      CREATE DOMAIN low.num AS integer CHECK (low.f(VALUE)); CREATE DOMAIN low.nums AS low.num[];
      CREATE TYPE low.pair AS (a low.num); CREATE TYPE low.span AS RANGE (subtype = low.num);
      CREATE TABLE public.kept(id \(type) PRIMARY KEY, v \(type)); GRANT SELECT ON public.kept TO PUBLIC
      """, name)
    let connection = try PostgresConnection(server.url(name, user: "reader"))
    let error = try problem(connection, "public.kept", takesTexts: true)
    #expect(error?.code == .tableRefused && error?.message.contains("column id") == true, "\(error?.message ?? "")")
    #expect(throws: CairnError.self) {
      try connection.printed(text, as: type, ofColumn: "v", in: "public.kept")
    }
    #expect(try server.psql("SELECT * FROM public.ran", name) == "")
    // The statement names the type, whatever the column has become.
    try server.psql("ALTER TABLE public.kept DROP COLUMN v, ADD COLUMN v text", name)
    #expect(throws: CairnError.self) {
      try connection.printed(text, as: type, ofColumn: "v", in: "public.kept")
    }
    #expect(try server.psql("SELECT * FROM public.ran", name) == "")
    try server.psql("ALTER TYPE low.pair OWNER TO reader", name)
    if type.contains("pair") {
      // Its parts still belong to the other role.
      #expect(try problem(connection, "public.kept", takesTexts: true) != nil)
    }
    #expect(try connection.printed("good", as: "low.mood", ofColumn: "m", in: "public.felt") == "good")
  }
}
