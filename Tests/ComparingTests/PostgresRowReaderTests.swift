import Changes
import PostgresKit
import SystemKit
import TestServers
import Testing

@testable import Comparing

@Suite(.serialized, .enabled(if: PostgresServer.isAvailable, "\(PostgresServer.problem ?? "")"))
struct PostgresRowReaderTests {
  @Test(arguments: ["a int, b text", "a int, b text) PARTITION BY RANGE (id"])
  func `a table that is rewritten is not taken for empty`(columns: String) throws {
    let server = try PostgresServer.shared
    let uri = try server.createDatabase("reader")
    defer { try? server.dropDatabase("reader") }
    try server.psql("CREATE TABLE t(id int PRIMARY KEY, \(columns))", "reader")
    if columns.contains("PARTITION") { try server.psql("CREATE TABLE t1 PARTITION OF t DEFAULT", "reader") }
    try server.psql("INSERT INTO t SELECT i, i, 'x' FROM generate_series(1, 100) AS i", "reader")
    let database = try CompareDatabase(.postgres(PostgresConnection(uri)))
    let table = try #require(try ComparePlan(database, database, TablePatterns(), .fold).tables.first)
    let reader = try PostgresRowReader(PostgresConnection(uri), .source, seed: 1)
    for type in ["bigint", "int"] {
      let program = try WorkerThread<Void>({
        _ = try? server.psql("BEGIN; ALTER TABLE t ALTER a TYPE \(type); SELECT pg_sleep(1); COMMIT", "reader")
      })
      while try server.psql("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") == "0" {
        Clock.sleep(milliseconds: 5)
      }
      var found = 0
      if type == "int" {
        try reader.rows(table, keys: [[.exact(Array("7".utf8))], [.exact(Array("8".utf8))]]) { _, _ in found += 50 }
      } else {
        found = try reader.scan(table, .all, naming: true) { _ in }.rows
      }
      #expect(found == 100)
      _ = program.join()
    }
  }
  /// The owner of a compared table gives its name, or that of a column, to another one.
  @Test(arguments: [
    "ALTER TABLE public.t RENAME TO gone; ALTER TABLE public.other RENAME TO t",
    "ALTER TABLE public.t DROP COLUMN id; ALTER TABLE public.t ADD COLUMN id low.t DEFAULT ROW(5)::low.t",
  ])
  func `no cast of the owner runs if a table is exchanged while it is compared`(change: String) throws {
    let server = try PostgresServer.shared
    let name = "exchanged_\(UInt32.random(in: 0..<UInt32.max))"
    let uri = try server.createDatabase(name)
    defer { try? server.dropDatabase(name) }
    try server.psql(
      """
      DO $$ BEGIN CREATE ROLE low LOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN END $$;
      CREATE SCHEMA low AUTHORIZATION low; GRANT CREATE ON SCHEMA public TO low; SET ROLE low;
      CREATE TABLE public.t(id bigint PRIMARY KEY, v text); INSERT INTO public.t SELECT i, 'x' FROM generate_series(1, 9) AS i;
      CREATE TYPE low.t AS (a bigint);
      CREATE FUNCTION low.f(x low.t) RETURNS bigint LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'ran as %', current_user; END $$;
      CREATE CAST (low.t AS bigint) WITH FUNCTION low.f(low.t) AS IMPLICIT;
      CREATE TABLE public.other(id low.t, v text); INSERT INTO public.other SELECT ROW(i)::low.t, 'x' FROM generate_series(1, 9) AS i
      """, name)
    let database = try CompareDatabase(.postgres(PostgresConnection(uri)))
    let table = try #require(try ComparePlan(database, database, TablePatterns(["t"]), .fold).tables.first)
    let reader = try PostgresRowReader(PostgresConnection(uri), .source, seed: 1)
    let keys = [[Value.exact(Array("7".utf8))]]
    let range = Slice.range(after: [.exact(Array("3".utf8))], through: nil, limit: 5)
    #expect(try reader.scan(table, range, naming: true) { _ in }.rows == 5)
    try server.psql("SET ROLE low; \(change)", name)
    let reads: [() throws -> Void] = [
      { _ = try reader.scan(table, range, naming: true) { _ in } }, { try reader.rows(table, keys: keys) { _, _ in } },
    ]
    for read in reads {
      let error = #expect(throws: CairnError.self) { try read() }
      #expect(error?.code == .tableRefused, "\(error?.message ?? "")")
    }
  }

  /// With a default, the table is locked already when its definition is read.
  @Test(arguments: ["v text", "v text DEFAULT 'x'"])
  func `a table that its owner keeps locked does not keep others from being compared`(column: String) throws {
    let server = try PostgresServer.shared
    let name = "locked_\(UInt32.random(in: 0..<UInt32.max))"
    let names = [name, name + "_target"]
    let uris = try names.map { try server.createDatabase($0) }
    defer { for name in names { try? server.dropDatabase(name) } }
    for name in names {
      try server.psql(
        """
        CREATE TABLE s(id int PRIMARY KEY, \(column)); CREATE TABLE z(id int PRIMARY KEY, v text); INSERT INTO s VALUES (1, 'a');
        INSERT INTO z SELECT i, 'x' FROM generate_series(1, 9) AS i
        """, name)
    }
    let program = try WorkerThread<Void>({
      _ = try? server.psql("BEGIN; LOCK TABLE s IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(60)", name)
    })
    let asleep = "FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = '\(name)'"
    while try server.psql("SELECT count(*) \(asleep)") == "0" { Clock.sleep(milliseconds: 5) }
    let begun = Clock.monotonicMilliseconds
    let databases = try uris.map { try CompareDatabase(.postgres(PostgresConnection($0))) }
    var (notices, rows): ([String], [NameKey: Int]) = ([], [:])
    let comparison = Comparison(
      CompareEnds(source: .postgres(uri: uris[0]), target: .postgres(uri: uris[1])), source: databases[0],
      target: databases[1], options: Comparison.Options(), watch: CompareWatch())
    let summary = try comparison.run { event in
      if case .notice(let text) = event { notices.append(text) }
      if case .table(let result) = event, result.inFlight == 0 { rows[NameKey(result.name)] = result.rows }
    }
    #expect(Clock.monotonicMilliseconds - begun < 30_000)
    #expect(rows == [NameKey("z"): 9], "\(rows)")
    #expect(notices.contains { $0.contains("table s is not compared") && $0.contains("holds a lock") }, "\(notices)")
    #expect(summary.inFlight == 1 && summary.differences == 0)
    // It is compared once the lock is gone.
    try server.psql("SELECT pg_terminate_backend(pid) \(asleep)")
    _ = program.join()
    #expect(try comparison.run { _ in }.rows == 10)
  }

  @Test(arguments: ["REVOKE", "ALTER TABLE s ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY"], [0, 1])
  func `a table that its owner closes to the role does not keep others from being compared`(
    change: String, end: Int
  ) throws {
    let server = try PostgresServer.shared
    let names = (0...1).map { "closed_\($0)_\(UInt32.random(in: 0..<UInt32.max))" }
    let role = "reads_" + names[0]
    try server.psql("CREATE ROLE \(role) LOGIN")
    for name in names {
      try server.createDatabase(name)
      try server.psql(
        """
        CREATE TABLE s(id int PRIMARY KEY, v text); CREATE TABLE z(id int PRIMARY KEY, v text);
        INSERT INTO s VALUES (1, 'a'); INSERT INTO z SELECT i, 'x' FROM generate_series(1, 9) AS i;
        GRANT SELECT ON s, z TO \(role)
        """, name)
    }
    defer {
      for name in names { try? server.dropDatabase(name) }
      _ = try? server.psql("DROP ROLE \(role)")
    }
    let uris = names.map { server.url($0, user: role) }
    let databases = try uris.map { try CompareDatabase(.postgres(PostgresConnection($0))) }
    try server.psql(change == "REVOKE" ? "REVOKE ALL ON s FROM \(role)" : change, names[end])
    var (notices, rows): ([String], [NameKey: Int]) = ([], [:])
    let comparison = Comparison(
      CompareEnds(source: .postgres(uri: uris[0]), target: .postgres(uri: uris[1])), source: databases[0],
      target: databases[1], options: Comparison.Options(), watch: CompareWatch())
    let summary = try comparison.run { event in
      if case .notice(let text) = event { notices.append(text) }
      if case .table(let result) = event, result.inFlight == 0 { rows[NameKey(result.name)] = result.rows }
    }
    #expect(rows == [NameKey("z"): 9], "\(rows)")
    #expect(notices.contains { $0.contains("table s is ") }, "\(notices)")
    #expect(summary.differences == 0)
  }

  /// The result of comparing tables `a` and `z`; `a` has a foreign partition at the target.
  private struct Found {
    var notices: [String] = []
    /// The rows of each table that was compared.
    var rows: [NameKey: Int] = [:]
    var summary = Comparison.Summary()
  }

  /// - Parameter change: SQL that runs at the target before the comparison.
  private func compareForeign(_ change: String) throws -> Found {
    let server = try PostgresServer.shared
    let name = "foreign_\(UInt32.random(in: 0..<UInt32.max))"
    let names = [name, name + "_target"]
    let uris = try names.map { try server.createDatabase($0) }
    defer { for name in names { try? server.dropDatabase(name) } }
    let plain = "CREATE TABLE a(id int); ALTER TABLE a REPLICA IDENTITY FULL; INSERT INTO a VALUES (1), (2), (11);"
    let parts = """
      CREATE TABLE a(id int) PARTITION BY RANGE (id); CREATE TABLE near PARTITION OF a FOR VALUES FROM (0) TO (9);
      INSERT INTO a VALUES (1), (2);
      CREATE FOREIGN TABLE far PARTITION OF a FOR VALUES FROM (9) TO (20) SERVER same
        OPTIONS (schema_name 'there', table_name 'far');
      """
    for name in names {
      try server.psql(
        """
        DO $$ BEGIN CREATE ROLE low LOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN END $$;
        CREATE TABLE z(id int PRIMARY KEY, v text); INSERT INTO z SELECT i, 'x' FROM generate_series(1, 9) AS i;
        CREATE EXTENSION postgres_fdw; CREATE SCHEMA there; CREATE TABLE there.far(id int); INSERT INTO there.far VALUES (11);
        CREATE SERVER same FOREIGN DATA WRAPPER postgres_fdw
          OPTIONS (host '\(server.folder)', port '\(server.port)', dbname '\(name)');
        CREATE USER MAPPING FOR postgres SERVER same OPTIONS (user 'postgres');
        \(name == names[0] ? plain : parts + change)
        """, name)
    }
    let databases = try uris.map { try CompareDatabase(.postgres(PostgresConnection($0))) }
    var found = Found()
    var options = Comparison.Options()
    options.tables = TablePatterns(["a", "z"])
    let comparison = Comparison(
      CompareEnds(source: .postgres(uri: uris[0]), target: .postgres(uri: uris[1])), source: databases[0],
      target: databases[1], options: options, watch: CompareWatch())
    found.summary = try comparison.run { event in
      if case .notice(let text) = event { found.notices.append(text) }
      if case .table(let result) = event, result.inFlight == 0 { found.rows[NameKey(result.name)] = result.rows }
    }
    return found
  }

  /// Nothing of a table without a key can be read by the pages of a foreign partition.
  @Test(arguments: [true, false])
  func `a foreign partition without a key does not keep others from being compared`(isTrusted: Bool) throws {
    let found = try compareForeign(isTrusted ? "" : "ALTER SERVER same OWNER TO low")
    #expect(found.rows == (isTrusted ? ["a": 3, "z": 9] : ["z": 9]), "\(found)")
    #expect(found.summary.inFlight == (isTrusted ? 0 : 1) && found.summary.differences == 0)
    #expect(
      found.notices.contains { $0.contains("table a is not compared") && $0.contains("role low") } != isTrusted,
      "\(found)")
  }

  /// The administrator of another server can end it, and change its tables, at any time.
  @Test(arguments: [
    "ALTER SERVER same OPTIONS (SET port '1')", "DROP TABLE there.far",
    "ALTER SERVER same OPTIONS (ADD use_remote_estimate 'true', SET port '1')",
    "ALTER TABLE there.far ALTER id TYPE text USING 'x'",
  ])
  func `a foreign server that fails does not keep other tables from being compared`(change: String) throws {
    let found = try compareForeign(change)
    #expect(found.rows == ["z": 9], "\(found)")
    #expect(found.summary.inFlight == 1 && found.summary.differences == 0)
    #expect(
      found.notices.contains { $0.contains("table a is not compared") && $0.contains("foreign partition public.far") },
      "\(found)")
  }

  /// The server runs functions in the condition of an index when it plans a read, with the rights of the session.
  @Test func `compare reads in transactions that write nothing`() throws {
    let server = try PostgresServer.shared
    let name = "readonly_\(UInt32.random(in: 0..<UInt32.max))"
    let uri = try server.createDatabase(name)
    defer { try? server.dropDatabase(name) }
    try server.psql(
      """
      CREATE TABLE t(id int PRIMARY KEY, v text); INSERT INTO t SELECT i, 'x' FROM generate_series(1, 9) AS i;
      CREATE FUNCTION f(x int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN
        IF current_setting('transaction_read_only') = 'off' AND current_setting('t.ready', true) = 'on'
          THEN RAISE EXCEPTION 'may write'; END IF;
        RETURN x; END $$;
      CREATE INDEX i ON t(v) WHERE f(1) > 0
      """, name)
    let (connection, program) = (try PostgresConnection(uri), try PostgresConnection(uri))
    for session in [connection, program] { try session.execute("SET t.ready = 'on'") }
    #expect(throws: PostgresError.self) { try program.query("SELECT * FROM t WHERE v = 'x' AND f(1) > 0") }
    let database = try CompareDatabase(.postgres(PostgresConnection(uri)))
    let table = try #require(try ComparePlan(database, database, TablePatterns(["t"]), .fold).tables.first)
    let reader = try PostgresRowReader(connection, .source, seed: 1)
    #expect(try reader.scan(table, .range(after: nil, through: nil, limit: 5), naming: true) { _ in }.rows == 5)
    #expect(try reader.scan(table, .all, naming: true) { _ in }.rows == 9)
    var found = 0
    try reader.rows(table, keys: [[.exact(Array("7".utf8))]]) { _, _ in found += 1 }
    #expect(found == 1)
  }
}
