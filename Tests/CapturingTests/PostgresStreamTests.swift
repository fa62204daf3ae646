import Changes
import PostgresKit
import TestServers
import Testing

/// One test at a time: a slot waits for the transactions of all others.
@Suite(.serialized, .enabled(if: PostgresServer.isAvailable, "\(PostgresServer.problem ?? "")"))
enum PostgresCapturing {}

extension PostgresCapturing {
  /// The messages that pgoutput gives and those that it does not give.
  @Suite struct StreamTests {
    /// Captures an empty table first, so that what follows are changes.
    private func follow(_ schema: String, makesKey: Bool = false, _ changes: String) throws -> [String] {
      let origin = try PostgresOrigin(schema)
      if makesKey { try origin.makeKey() }
      try origin.take()
      let copied = try origin.lastNumber
      try origin.run(changes)
      try origin.take()
      return try origin.lines(from: copied)
    }

    @Test func `a transaction is one of the trail, and rows are exact text`() throws {
      let lines = try follow(
        "CREATE TABLE t(id int PRIMARY KEY, v numeric, n text)",
        "INSERT INTO t VALUES (1, 1.10, NULL), (2, 'NaN', ''); UPDATE t SET n = 'x' WHERE id = 1; DELETE FROM t WHERE id = 2"
      )
      #expect(
        lines == [
          "insert t id=1 v=1.10 n=NULL", "insert t id=2 v=NaN n=", "update t id=1 v=1.10 n=x", "delete t id=2",
        ])
    }

    @Test func `a row that PostgreSQL cannot send is reported with its table, or its place in the log`() throws {
      func failure(_ body: () throws -> Void) -> CairnError? {
        do { try body() } catch { return (error as? PostgresError)?.asCairnError ?? error as? CairnError }
        return nil
      }
      let large = "INSERT INTO big SELECT 1, convert_to(repeat('x', 560000000), 'UTF8')"
      let origin = try PostgresOrigin("CREATE TABLE big(id int PRIMARY KEY, b bytea); \(large)")
      let copied = failure { try origin.take() }
      let isNamed = copied?.message.contains("cannot send a row of table public.big: it exceeds 1 GB")
      #expect(isNamed == true, "\(copied as Any)")
      try origin.run("TRUNCATE big")
      try origin.take()
      try origin.run(large)
      let sent = failure { try origin.take() }
      let place = sent?.message.contains(/send a row, the change at [0-9A-F]+\/[0-9A-F]+ of the log: it exceeds 1 GB/)
      #expect(place == true, "\(sent as Any)")
      #expect(sent?.hint.contains("cairn detach") == true)
    }

    @Test func `an unchanged TOAST value is neither given nor NULL`() throws {
      let lines = try follow(
        """
        CREATE TABLE t(id int PRIMARY KEY, v int, big text); ALTER TABLE t ALTER big SET STORAGE EXTERNAL;
        """, "INSERT INTO t VALUES (1, 1, repeat('x', 9000)), (2, 1, NULL)")
      #expect(lines.count == 2)
      let origin = try PostgresOrigin(
        "CREATE TABLE t(id int PRIMARY KEY, v int, big text); ALTER TABLE t ALTER big SET STORAGE EXTERNAL; INSERT INTO t VALUES (1, 1, repeat('x', 9000)), (2, 1, NULL)"
      )
      try origin.take()
      let copied = try origin.lastNumber
      try origin.run("UPDATE t SET v = 2")
      try origin.take()
      #expect(try origin.lines(from: copied) == ["update t id=1 v=2", "update t id=2 v=2 big=NULL"])
    }

    @Test func `a changed key comes with the old one`() throws {
      let lines = try follow(
        "CREATE TABLE t(a int, b text, v int, PRIMARY KEY (b, a))",
        "INSERT INTO t VALUES (1, 'x', 5); UPDATE t SET a = 2; UPDATE t SET v = 6")
      #expect(lines == ["insert t a=1 b=x v=5", "update t | a=1 b=x | a=2 b=x v=5", "update t a=2 b=x v=6"])
    }

    @Test func `with REPLICA IDENTITY FULL the whole old row comes`() throws {
      let lines = try follow(
        "CREATE TABLE t(a int, b text); ALTER TABLE t REPLICA IDENTITY FULL",
        "INSERT INTO t VALUES (1, NULL); UPDATE t SET b = 'x'; DELETE FROM t")
      #expect(lines == ["insert t a=1 b=NULL", "update t | a=1 b=NULL | a=1 b=x", "delete t a=1 b=x"])
    }

    @Test func `an index can be the identity`() throws {
      let lines = try follow(
        "CREATE TABLE t(a int NOT NULL UNIQUE, b text); ALTER TABLE t REPLICA IDENTITY USING INDEX t_a_key",
        "INSERT INTO t VALUES (1, 'x'); UPDATE t SET a = 2; DELETE FROM t")
      #expect(lines == ["insert t a=1 b=x", "update t | a=1 | a=2 b=x", "delete t a=2"])
    }

    @Test func `TRUNCATE of several tables is recorded for each`() throws {
      let lines = try follow(
        "CREATE TABLE p(id int PRIMARY KEY); CREATE TABLE c(id int PRIMARY KEY REFERENCES p)",
        "INSERT INTO p VALUES (1); TRUNCATE p CASCADE")
      #expect(lines.first == "insert p id=1")
      #expect(Set(lines.dropFirst()) == ["truncate p", "truncate c"])
    }

    @Test func `a rollback leaves nothing in the trail, also by a savepoint`() throws {
      let lines = try follow(
        "CREATE TABLE t(id int PRIMARY KEY)",
        """
        BEGIN; INSERT INTO t VALUES (1); SAVEPOINT s; INSERT INTO t VALUES (2); ROLLBACK TO s; INSERT INTO t VALUES (3); COMMIT;
        BEGIN; INSERT INTO t VALUES (4); ROLLBACK
        """)
      #expect(lines == ["insert t id=1", "insert t id=3"])
    }

    @Test func `generated columns are left to the target`() throws {
      let lines = try follow(
        "CREATE TABLE t(id int PRIMARY KEY, g int GENERATED ALWAYS AS (id * 2) STORED, v int)",
        "INSERT INTO t(id, v) VALUES (1, 7)")
      #expect(lines == ["insert t id=1 v=7"])
    }

    @Test func `partitions speak as their root, also when a row moves`() throws {
      let lines = try follow(
        """
        CREATE TABLE t(id int, d int, PRIMARY KEY (id, d)) PARTITION BY RANGE (d);
        CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (10); CREATE TABLE t2 PARTITION OF t DEFAULT
        """, "INSERT INTO t VALUES (1, 5); UPDATE t SET d = 50")
      #expect(lines == ["insert t id=1 d=5", "delete t id=1 d=5", "insert t id=1 d=50"])
    }

    @Test func `rows of our apply are left out, by their message or by their origin`() throws {
      let lines = try follow(
        "CREATE TABLE t(id int PRIMARY KEY)", makesKey: true,
        """
        BEGIN; \(PostgresOrigin.message("cairn", "'1'::bytea")) INSERT INTO t VALUES (1); COMMIT;
        BEGIN; SELECT pg_logical_emit_message(true, 'other', '1'); INSERT INTO t VALUES (2); COMMIT;
        SELECT pg_replication_origin_create('cairn_x' || current_database()); SELECT pg_replication_origin_session_setup('cairn_x' || current_database());
        BEGIN; INSERT INTO t VALUES (3); COMMIT;
        SELECT pg_replication_origin_session_reset(); SELECT pg_replication_origin_drop('cairn_x' || current_database());
        BEGIN; INSERT INTO t VALUES (4); COMMIT
        """)
      #expect(lines == ["insert t id=2", "insert t id=4"])
    }

    @Test func `a prepared transaction appears when it is committed`() throws {
      let origin = try PostgresOrigin("CREATE TABLE t(id int PRIMARY KEY)")
      try origin.take()
      let copied = try origin.lastNumber
      try origin.run("BEGIN; INSERT INTO t VALUES (1); PREPARE TRANSACTION 'p'; INSERT INTO t VALUES (2)")
      try origin.take()
      #expect(try origin.lines(from: copied) == ["insert t id=2"])
      try origin.run("COMMIT PREPARED 'p'")
      try origin.take()
      #expect(try origin.lines(from: copied) == ["insert t id=2", "insert t id=1"])
    }

    @Test func `values print as in every session, whatever the database's settings are`() throws {
      let origin = try PostgresOrigin(
        "CREATE TABLE t(id int PRIMARY KEY, d date, at timestamptz, i interval, f float8, b bytea, m money)")
      try origin.run(
        """
        ALTER DATABASE \(origin.database) SET DateStyle = 'German'; ALTER DATABASE \(origin.database) SET TimeZone = 'Asia/Tokyo';
        ALTER DATABASE \(origin.database) SET IntervalStyle = 'iso_8601'; ALTER DATABASE \(origin.database) SET extra_float_digits = -5;
        ALTER DATABASE \(origin.database) SET bytea_output = 'escape'
        """)
      let insert =
        "VALUES (1, '2024-02-03', '2024-02-03 04:05:06+00', '1 mon 2 days -3 hours', 0.1::float8 + 0.2, '\\xff', 1.5)"
      try origin.run("INSERT INTO t " + insert)
      try origin.take()
      let copied = try origin.lastNumber
      try origin.run("UPDATE t SET f = f")
      try origin.take()
      let wanted =
        "t id=1 d=2024-02-03 at=2024-02-03 04:05:06+00 i=1 mon 2 days -03:00:00 f=0.30000000000000004 b=\\xff m=$1.50"
      #expect(try origin.lines().contains("row " + wanted))
      #expect(try origin.lines(from: copied) == ["update " + wanted])
    }

    @Test func `a sequence that only looks like one of a table is not recorded`() throws {
      let (own, other) = ("\"caf\u{e9}\"", "\"cafe\u{301}\"")
      let lines = try follow(
        """
        CREATE SEQUENCE \(other); CREATE SEQUENCE \(own); CREATE TABLE t(id int PRIMARY KEY DEFAULT nextval('\(own)'));
        ALTER SEQUENCE \(own) OWNED BY t.id
        """, "SELECT setval('\(other)', 70); INSERT INTO t DEFAULT VALUES")
      #expect(lines.filter { $0.hasPrefix("sequence") }.hasSameBytes(as: ["sequence caf\u{e9} 1"]), "\(lines)")
    }

    @Test func `sequences are recorded with their last value`() throws {
      let lines = try follow(
        "CREATE TABLE t(id serial PRIMARY KEY, n int GENERATED ALWAYS AS IDENTITY)",
        "INSERT INTO t DEFAULT VALUES; INSERT INTO t DEFAULT VALUES")
      #expect(lines.filter { $0.hasPrefix("sequence") }.sorted() == ["sequence t_id_seq 2", "sequence t_n_seq 2"])
    }
  }
}
