import Applying
import Changes
import PostgresKit
import SQLiteKit
import SystemKit
import TestServers
import Testing

@testable import Capturing

extension PostgresCapturing {
  /// Tables that are altered between a chunk's snapshot and its reading.
  @Suite struct AlteredCopyTests {
    private static let tables = """
      CREATE TABLE t(id int PRIMARY KEY, a int, v text); INSERT INTO t SELECT i, i * 2, 't' || i FROM generate_series(1, 500) AS i;
      CREATE TABLE u(id int PRIMARY KEY, a int, v text); INSERT INTO u SELECT i, i * 3, 'u' || i FROM generate_series(1, 500) AS i
      """

    /// Runs capture while a program has made `changes` and has not committed them yet; it will, a moment later.
    private func take(
      _ origin: PostgresOrigin, during changes: String, seconds: Double = 1.5, copiesAgain: Bool = true,
      said: @escaping @Sendable (String) -> Void = { _ in }
    ) throws {
      // Opening reads definitions, and so waits for the program.
      try origin.with(copiesAgain: copiesAgain, said: said) { capture in
        let (server, database) = (origin.server, origin.database)
        let program = try WorkerThread<Void>({
          _ = try? server.psql("BEGIN; \(changes); SELECT pg_sleep(\(seconds)); COMMIT", database)
        })
        let isAsleep =
          "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()"
        while try origin.run(isAsleep) == "0" { Clock.sleep(milliseconds: 5) }
        try capture.run(stop: StopSignal(), untilCaughtUp: true)
        _ = program.join()
      }
    }

    /// A target that follows the whole trail has the rows of the source.
    private func expectEqual(_ origin: PostgresOrigin, _ tables: String..., row: String = "id || ' ' || a || ' ' || v")
      throws
    {
      try origin.take()
      let (path, drain) = (origin.folder("target.db"), StopSignal())
      drain.set()
      try SQLiteApply(path: path, trail: origin.trailFolder, name: origin.name, options: ApplyOptions()).run(
        stop: StopSignal(), drain: drain)
      for table in tables {
        let there = try origin.run("SELECT string_agg(\(row), ',' ORDER BY id) FROM \(table)")
        let here = try Database(path: path).text(
          "SELECT group_concat(\(row), ',') FROM (SELECT * FROM \(table) ORDER BY id)")
        #expect(here == there, "\(table)")
      }
    }

    @Test(arguments: [
      "ALTER TABLE t ALTER a TYPE bigint", "ALTER TABLE t ALTER a TYPE bigint USING a + 1",
      "ALTER TABLE t REPLICA IDENTITY FULL, DROP CONSTRAINT t_pkey, ALTER a TYPE bigint",
      "ALTER TABLE t ADD w double precision DEFAULT random()", "DELETE FROM t WHERE id < 9; CLUSTER t USING t_pkey",
      "ALTER TABLE t RENAME TO x; ALTER TABLE u RENAME TO t; ALTER TABLE x RENAME TO u",
      "ALTER TABLE t RENAME a TO x; ALTER TABLE t RENAME id TO a; ALTER TABLE t RENAME x TO id",
    ])
    func `a copy is of the right table, and whole`(_ changes: String) throws {
      let origin = try PostgresOrigin(Self.tables)
      try origin.take()
      try take(origin, during: changes)
      try expectEqual(origin, "t", "u")
    }

    /// The owner gives the table's name, or that of a column, to another one after the snapshot and before the lock.
    @Test(arguments: [
      "ALTER TABLE public.t RENAME TO gone; ALTER TABLE public.x RENAME TO t",
      "ALTER TABLE public.t DROP COLUMN id; ALTER TABLE public.t ADD COLUMN id low.t DEFAULT ROW(5)::low.t",
    ])
    func `a table is proved under its lock, before it is read`(change: String) throws {
      let origin = try PostgresOrigin(
        """
        DO $$ BEGIN CREATE ROLE low; EXCEPTION WHEN duplicate_object OR unique_violation THEN END $$;
        CREATE SCHEMA low AUTHORIZATION low; GRANT CREATE ON SCHEMA public TO low; SET ROLE low;
        CREATE TABLE public.t(id bigint PRIMARY KEY, v text); INSERT INTO public.t SELECT i, 'x' FROM generate_series(1, 9) AS i;
        CREATE TYPE low.t AS (a bigint); CREATE TABLE public.x(id low.t, v text)
        """)
      let connection = try PostgresConnection(origin.uri)
      let found = try #require(try connection.userTables().first { $0.schema.name == "t" })
      let table = PostgresRegistry.Table(
        relation: found.oid, epoch: 1, schema: found.schema,
        types: found.details.map { .init(oid: $0.type, modifier: $0.modifier) })
      let copier = try PostgresCopier(connection)
      try copier.lock(try copier.open(table, .next))
      copier.close()
      let chunk = try copier.open(table, .next)
      try origin.run("SET ROLE low; \(change)")
      #expect(throws: PostgresChunk.Obstacle.hasChanged) { try copier.lock(chunk) }
      copier.close()
    }

    @Test func `a table without key is copied whole`() throws {
      let origin = try PostgresOrigin(
        Self.tables + "; ALTER TABLE t DROP CONSTRAINT t_pkey, REPLICA IDENTITY FULL")
      try origin.take()
      try take(origin, during: "ALTER TABLE t ALTER a TYPE bigint")
      try expectEqual(origin, "t")
    }

    @Test func `partitions that are rewritten are copied whole`() throws {
      let origin = try PostgresOrigin(
        """
        CREATE TABLE t(id int PRIMARY KEY, a int, v text) PARTITION BY RANGE (id);
        CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (250); CREATE TABLE t2 PARTITION OF t FOR VALUES FROM (250) TO (900);
        INSERT INTO t SELECT i, i * 2, 't' || i FROM generate_series(1, 500) AS i
        """)
      try origin.take()
      try take(origin, during: "ALTER TABLE t ALTER a TYPE bigint")
      try expectEqual(origin, "t")
    }

    @Test func `a rename that was not recorded does not bring another table's rows`() throws {
      let origin = try PostgresOrigin(Self.tables)
      try origin.take()
      try origin.run("DROP SCHEMA cairn_ddl CASCADE")
      try origin.run("ALTER TABLE t RENAME v TO w; UPDATE t SET a = 1 WHERE id = 3")
      try origin.run(
        """
        ALTER TABLE t RENAME TO o; CREATE TABLE t(LIKE o); ALTER TABLE t ADD PRIMARY KEY (id);
        INSERT INTO t VALUES (700, 7, 'seven')
        """)
      try origin.take()
      try expectEqual(origin, "t", "o", row: "id || ' ' || a || ' ' || w")
    }

    @Test func `a row that is asked for is not missing because its table is rewritten`() throws {
      let origin = try PostgresOrigin(Self.tables)
      try origin.take()
      let known = try origin.lastNumber
      let file = RequestsFile(folder: origin.folder("state"))
      var requests = try file.load()
      for key in ["1", "2"] { requests.add([key], of: .init(namespace: "public", table: "t")) }
      try file.save(requests)
      try take(origin, during: "ALTER TABLE t ALTER a TYPE bigint", copiesAgain: false)
      let lines = try origin.lines(from: known)
      #expect(lines.filter { $0.hasPrefix("row t") }.sorted() == ["row t id=1 a=2 v=t1", "row t id=2 a=4 v=t2"])
      try expectEqual(origin, "t")
    }

    @Test func `a program that queues for the table does not wait for ever`() throws {
      let origin = try PostgresOrigin(
        """
        CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE TABLE t(id int PRIMARY KEY, a int, v text, m mood);
        INSERT INTO t SELECT i, i, repeat('x', 300), 'ok' FROM generate_series(1, 40000) AS i
        """)
      let isOver = StopSignal()
      let (server, database) = (origin.server, origin.database)
      let program = try WorkerThread<Bool>({
        while !isOver.isSet {
          let change = "SET statement_timeout = '10s'; ALTER TABLE t ALTER a SET STATISTICS 50"
          if (try? server.psql(change, database)) == nil { return false }
          Clock.sleep(milliseconds: 20)
        }
        return true
      })
      try origin.take()
      isOver.set()
      #expect(program.join() == true)
      try expectEqual(origin, "t")
    }

    @Test func `the session that keeps a copy waiting is named`() throws {
      let origin = try PostgresOrigin(Self.tables)
      try origin.take()
      let said = Notices()
      try take(origin, during: "LOCK TABLE t", seconds: 5, said: said.add)
      #expect(said.all.contains { $0.contains("the copy of table t waits for process") })
      try expectEqual(origin, "t", "u")
    }
  }
}
