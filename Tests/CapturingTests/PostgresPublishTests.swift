import Changes
import PostgresKit
import SystemKit
import TestServers
import Testing
import Trails

@testable import Capturing

extension PostgresCapturing {
  /// Tables that come into the publication while applications write to them.
  @Suite struct PublishTests {
    @Test(arguments: [
      "CREATE TABLE d(id int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, v int)",
      "CREATE TABLE d(id int PRIMARY KEY DEFERRABLE, v int)",
      "CREATE TABLE d(id int, v int, g int GENERATED ALWAYS AS (id / 2) STORED, PRIMARY KEY (v, g))",
      "CREATE TABLE d(id int, v int, g int GENERATED ALWAYS AS (id) STORED PRIMARY KEY)",
    ])
    func `a key that names no row in the log is refused, and captured whole with REPLICA IDENTITY FULL`(
      _ schema: String
    ) throws {
      let origin = try PostgresOrigin(
        "CREATE TABLE t(id int PRIMARY KEY); \(schema); INSERT INTO d VALUES (1, 1), (2, 1)"
          .replacing("VALUES (1, 1), (2, 1)", with: "(id, v) VALUES (1, 1), (2, 1)"))
      #expect(origin.code { try origin.take() } == .tableRefused)
      try origin.run("UPDATE d SET v = 2 WHERE id = 1; UPDATE d SET v = 1 WHERE id = 1")
      try origin.run("ALTER TABLE d REPLICA IDENTITY FULL")
      try origin.take()
      let known = try origin.lastNumber
      try origin.run("UPDATE d SET v = 5 WHERE id = 1; DELETE FROM d WHERE id = 2")
      try origin.take()
      #expect(
        try origin.lines(from: known)
          == ["update d | id=1 v=1 | id=1 v=5", "delete d id=2 v=1"])
    }

    @Test(arguments: [true, false])
    func `a table that inherits from a captured one and cannot be captured ends nothing`(isThereFirst: Bool) throws {
      let tables = """
        CREATE TABLE p(id int PRIMARY KEY); CREATE UNLOGGED TABLE heir() INHERITS (p); INSERT INTO p VALUES (7)
        """
      let origin = try PostgresOrigin("CREATE TABLE a(id int PRIMARY KEY);" + (isThereFirst ? tables : ""))
      try origin.take()
      if !isThereFirst { try origin.run(tables) }
      try origin.run("INSERT INTO a VALUES (1)")
      try origin.take()
      let lines = try origin.lines()
      #expect(
        lines.contains("insert a id=1") && lines.contains { $0.hasPrefix("row p") && $0.hasSuffix("id=7") }, "\(lines)")
    }

    @Test func `a table that the patterns leave out is not published with the one it inherits from`() throws {
      let origin = try PostgresOrigin(
        "CREATE TABLE p(id int PRIMARY KEY); CREATE TABLE heir() INHERITS (p); INSERT INTO heir VALUES (1)")
      try origin.take(TablePatterns(["*", "!heir"]))
      // A published table without a key would refuse this.
      try origin.run("UPDATE heir SET id = 2; DELETE FROM heir; INSERT INTO p VALUES (3)")
      try origin.take(TablePatterns(["*", "!heir"]))
      #expect(try origin.lines().contains("insert p id=3"))
    }

    @Test(.timeLimit(.minutes(20)))
    func `a table that loses its key is let go, although one that inherits from it is not published`() throws {
      let origin = try PostgresOrigin("CREATE TABLE a(id int PRIMARY KEY); CREATE TABLE p(id int PRIMARY KEY, v int)")
      let tables = TablePatterns(["*", "!heir"])
      try origin.take(tables)
      try origin.run("CREATE TABLE heir() INHERITS (p)")
      try origin.take(tables)
      try origin.run("ALTER TABLE p DROP CONSTRAINT p_pkey; CREATE TABLE late(id int PRIMARY KEY)")
      try origin.run("INSERT INTO late VALUES (1); INSERT INTO a VALUES (1)")
      #expect(origin.code { try origin.take(tables) } == .tableRefused)
      let lines = try origin.lines()
      #expect(lines.contains("insert a id=1") && lines.contains { $0.contains("late id=1") }, "\(lines)")
      // The table can be written again.
      try origin.run("INSERT INTO p VALUES (1, 1); UPDATE p SET v = 2; DELETE FROM p")
    }

    @Test func `rows of a transaction that began while the publication was altered are copied`() throws {
      let origin = try PostgresOrigin("CREATE TABLE a(id int PRIMARY KEY)")
      try origin.take()
      // Keeps ALTER PUBLICATION, which has its number by then, for long enough.
      try origin.run(
        """
        CREATE TABLE late(id int PRIMARY KEY); INSERT INTO late VALUES (1);
        CREATE FUNCTION wait() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(1); END $$;
        CREATE EVENT TRIGGER wait ON ddl_command_end WHEN TAG IN ('ALTER PUBLICATION') EXECUTE FUNCTION wait()
        """)
      let (server, database) = (origin.server, origin.database)
      let program = try WorkerThread<String?>({
        for _ in 0..<200 {
          let altering = try? server.psql(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = '\(database)'", "postgres"
          )
          if altering == "1" {
            _ = try? server.psql(
              "BEGIN; INSERT INTO late VALUES (2); SELECT pg_sleep(2.5); COMMIT", database)
            return "wrote"
          }
          Clock.sleep(milliseconds: 10)
        }
        return nil
      })
      try origin.take()
      #expect(program.join() == "wrote")
      try origin.take()
      let ids = try origin.lines().filter { $0.hasPrefix("row late") || $0.hasPrefix("insert late") }
      #expect(Set(ids.map { $0.suffix(4) }) == ["id=1", "id=2"], "\(ids)")
    }

    @Test func `a table that another session has just published is copied after older transactions`() throws {
      let origin = try PostgresOrigin("CREATE TABLE a(id int PRIMARY KEY)")
      try origin.take()
      let slot = try origin.run("SELECT slot_name FROM pg_replication_slots WHERE database = current_database()")
      // No event trigger reports the table before it is published.
      try origin.run("ALTER EVENT TRIGGER cairn_ddl_command_end DISABLE")
      try origin.run("CREATE TABLE late(id int PRIMARY KEY); INSERT INTO late VALUES (1)")
      let (server, database) = (origin.server, origin.database)
      let program = try WorkerThread<Void>({
        _ = try? server.psql("BEGIN; INSERT INTO late VALUES (2); SELECT pg_sleep(4); COMMIT", database)
      })
      Clock.sleep(milliseconds: 500)
      try origin.run("ALTER PUBLICATION \(slot) ADD TABLE late")
      try origin.take()
      _ = program.join()
      try origin.take()
      let ids = try origin.lines().filter { $0.hasPrefix("row late") || $0.hasPrefix("insert late") }
      #expect(Set(ids.map { $0.suffix(4) }) == ["id=1", "id=2"], "\(ids)")
    }

    @Test func `a table whose copy was under way while it was not published is copied from its beginning`() throws {
      let origin = try PostgresOrigin(
        "CREATE TABLE t(id int PRIMARY KEY, v int, pad text); INSERT INTO t SELECT i, 0, repeat('x', 500) FROM generate_series(1, 60000) AS i; CREATE TABLE busy(i int)"
      )
      let stop = StopSignal()
      try origin.with(TablePatterns(text: "*,!busy")) { capture in
        let progress = capture.session.progress
        let worker = try WorkerThread<Void>({
          while progress.snapshot.rowsCopied == 0 { Clock.sleep(milliseconds: 1) }
          stop.set()
        })
        try capture.run(stop: stop, untilCaughtUp: true)
        _ = worker.join()
        #expect(capture.session.refreshes.current?.cursor != nil)
      }
      // No event trigger reports that the table leaves the publication.
      try origin.run(
        """
        DO $$ DECLARE name text; BEGIN FOR name IN SELECT evtname FROM pg_event_trigger WHERE evtname ~ '^cairn_' LOOP
          EXECUTE format('ALTER EVENT TRIGGER %I DISABLE', name); END LOOP; END $$
        """)
      let slot = try origin.run("SELECT slot_name FROM pg_replication_slots WHERE database = current_database()")
      try origin.run("ALTER PUBLICATION \(slot) DROP TABLE t")
      try origin.run("UPDATE t SET v = 7 WHERE id = 1")
      // While the stream is busy, the catalog is read between two chunks.
      let isOver = StopSignal()
      let (server, database) = (origin.server, origin.database)
      let writer = try WorkerThread<Void>({
        while !isOver.isSet {
          _ = try? server.psql("INSERT INTO busy SELECT * FROM generate_series(1, 20000); TRUNCATE busy", database)
        }
      })
      let ended = Result { try origin.take(TablePatterns(text: "*,!busy")) }
      isOver.set()
      _ = writer.join()
      try ended.get()
      let first = try origin.lines().filter { $0.hasPrefix("row t id=1 ") || $0.hasPrefix("update t id=1 ") }
      #expect(first.last?.contains(" v=7 ") == true, "\(first.map { $0.prefix(40) })")
    }
  }
}
