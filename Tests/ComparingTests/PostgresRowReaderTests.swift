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
    #expect(notices.contains { $0.contains("table s is not compared") && $0.contains("locked") }, "\(notices)")
    #expect(summary.inFlight == 1 && summary.differences == 0)
    // It is compared once the lock is gone.
    try server.psql("SELECT pg_terminate_backend(pid) \(asleep)")
    _ = program.join()
    #expect(try comparison.run { _ in }.rows == 10)
  }
}
