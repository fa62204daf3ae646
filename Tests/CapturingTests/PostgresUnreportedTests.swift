import PostgresKit
import TestServers
import Testing

@testable import Capturing

extension PostgresCapturing {
  /// Commands that change rows although the stream has no record of these rows.
  @Suite struct UnreportedRowsTests {
    /// Returns the trail's records of a change that was made after `schema` was captured.
    private func lines(_ schema: String, _ change: String, withTriggers: Bool = true) throws -> [String] {
      let origin = try PostgresOrigin(schema)
      try origin.take()
      if !withTriggers { try origin.run("DROP SCHEMA cairn_ddl CASCADE") }
      let known = try origin.lastNumber
      try origin.run(change)
      try origin.take()
      return try origin.lines(from: known)
    }

    private static let heirs = """
      CREATE TABLE par(id int PRIMARY KEY, v varchar(10)); CREATE TABLE chi(w int, PRIMARY KEY (id)) INHERITS (par);
      INSERT INTO par VALUES (1, 'p'); INSERT INTO chi VALUES (2, 'c', 1)
      """

    @Test(arguments: [
      "ALTER TABLE par ALTER v TYPE varchar(10) USING upper(v)",
      "ALTER TABLE par ALTER v TYPE varchar(20) USING upper(v); ALTER TABLE chi ALTER w SET DEFAULT 4",
      "INSERT INTO chi VALUES (5, 'e', 5); ALTER TABLE par ALTER v TYPE varchar(10) USING upper(v)",
      "DO $$ BEGIN ALTER TABLE par ALTER v TYPE varchar(10) USING upper(v); END $$",
      "BEGIN; SAVEPOINT s; ALTER TABLE par ALTER v TYPE varchar(10) USING upper(v); RELEASE s; COMMIT",
    ]) func `rows of an inheriting table that its parent's change rewrote are copied`(_ change: String) throws {
      let lines = try lines(Self.heirs, change)
      #expect(lines.contains("row par id=1 v=P") && lines.contains("row chi id=2 v=C w=1"), "\(lines)")
    }

    @Test func `a rewrite that was rolled back copies nothing`() throws {
      let lines = try lines(
        Self.heirs,
        """
        BEGIN; SAVEPOINT s; ALTER TABLE par ALTER v TYPE varchar(10) USING upper(v); ROLLBACK TO s;
        INSERT INTO chi VALUES (3, 'd', 3); COMMIT
        """)
      #expect(lines == ["insert chi id=3 v=d w=3"])
    }

    @Test(arguments: [true, false]) func `a column that a parent fills with its default is copied`(
      _ withTriggers: Bool
    ) throws {
      let lines = try lines(
        Self.heirs,
        """
        ALTER TABLE par ADD x int DEFAULT length(clock_timestamp()::text) * 0 + 7;
        ALTER TABLE par ALTER x DROP DEFAULT; ALTER TABLE chi ALTER w SET DEFAULT 4
        """,
        withTriggers: withTriggers)
      #expect(lines.contains("row par id=1 v=p x=7") && lines.contains("row chi id=2 v=c w=1 x=7"), "\(lines)")
    }

    @Test func `a column whose default goes in the command that fills it is copied`() throws {
      let lines = try lines(
        Self.heirs,
        "ALTER TABLE chi ADD x int DEFAULT length(clock_timestamp()::text) * 0 + 7, ALTER x SET DEFAULT NULL")
      #expect(lines.contains("row chi id=2 v=c w=1 x=7"), "\(lines)")
    }

    private static let typed = """
      CREATE TYPE tt AS (id int, n numeric(10,4)); CREATE TABLE ty OF tt (PRIMARY KEY (id));
      INSERT INTO ty VALUES (1, 1.7)
      """

    @Test(arguments: ["numeric(10,4)", "numeric(12,4)"])
    func `rows of a typed table that its type's change rewrote are copied`(_ type: String) throws {
      let there =
        "ALTER TYPE tt ALTER ATTRIBUTE n TYPE int CASCADE; ALTER TYPE tt ALTER ATTRIBUTE n TYPE \(type) CASCADE"
      for change in [there, there + "; ALTER TABLE ty ADD CHECK (id > 0)"] {
        let lines = try lines(Self.typed, change)
        #expect(lines.contains("row ty id=1 n=2.0000"), "\(lines)")
      }
    }

    @Test(arguments: ["CLUSTER chi USING chi_pkey", "VACUUM FULL chi"])
    func `a rewrite that keeps all values copies nothing`(_ change: String) throws {
      #expect(try lines(Self.heirs, change).allSatisfy { $0 == "reshape chi chi" })
    }

    @Test(arguments: [true, false]) func `TRUNCATE of a parent and of a new table is seen`(_ withTriggers: Bool) throws
    {
      let heirs = try lines(Self.heirs, "TRUNCATE par", withTriggers: withTriggers)
      #expect(Set(heirs) == ["truncate par", "truncate chi"])
      let new = try lines(
        Self.heirs,
        "CREATE TABLE n(id int PRIMARY KEY); INSERT INTO n VALUES (1); TRUNCATE n; INSERT INTO n VALUES (2)",
        withTriggers: withTriggers)
      #expect(new == ["create n", "start n firstCopy", "chunk n", "row n id=2", "end n"])
    }

    private static let parts = """
      CREATE TABLE t(id int, r int, PRIMARY KEY (id, r)) PARTITION BY LIST (r);
      CREATE TABLE t1 PARTITION OF t FOR VALUES IN (1); INSERT INTO t VALUES (1, 1)
      """

    @Test(arguments: [
      """
      CREATE TABLE t3 PARTITION OF t FOR VALUES IN (3); INSERT INTO t VALUES (3, 3), (4, 3); TRUNCATE t3;
      INSERT INTO t VALUES (5, 3)
      """,
      "CREATE TABLE t3 PARTITION OF t FOR VALUES IN (3); UPDATE t SET r = 3; TRUNCATE t3; INSERT INTO t VALUES (5, 3)",
      """
      BEGIN; SAVEPOINT s; CREATE TABLE t3 PARTITION OF t FOR VALUES IN (3); RELEASE s; INSERT INTO t VALUES (3, 3);
      SAVEPOINT u; INSERT INTO t VALUES (4, 3); ROLLBACK TO u; TRUNCATE t3; COMMIT
      """,
      """
      CREATE TABLE t3(id int, r int, PRIMARY KEY (id, r)); INSERT INTO t3 VALUES (3, 3);
      ALTER TABLE t ATTACH PARTITION t3 FOR VALUES IN (3); INSERT INTO t VALUES (4, 3); TRUNCATE t3
      """,
      """
      ALTER TABLE t DETACH PARTITION t1; INSERT INTO t1 VALUES (7, 1);
      ALTER TABLE t ATTACH PARTITION t1 FOR VALUES IN (1)
      """,
    ]) func `rows of a partition that its own transaction emptied or brought are right`(_ change: String) throws {
      let origin = try PostgresOrigin(Self.parts)
      try origin.take()
      let known = try origin.lastNumber
      try origin.run(change)
      try origin.take()
      let lines = try origin.lines(from: known)
      let gone = lines.filter { $0.hasPrefix("chunk t") }.count
      let there = Set(try origin.run("SELECT 'id=' || id || ' r=' || r FROM t").split(separator: "\n").map(String.init))
      let copied = lines.lastIndex { $0.hasPrefix("start t ") }
      let shown =
        copied.map { Set(lines[$0...].filter { $0.hasPrefix("row t ") }.map { String($0.dropFirst(6)) }) } ?? []
      let isRepair = copied.map { lines[$0].hasSuffix("repair") } == true
      let written = Set(lines.filter { $0.hasPrefix("insert t ") }.map { String($0.dropFirst(9)) })
      // The repair reads each written row again, also one that is gone.
      #expect(copied != nil && gone > 0, "\(lines)")
      #expect(isRepair ? shown == there.intersection(written) && gone == written.count : shown == there, "\(lines)")
    }

    @Test func `rows of a table without a key come by a copy after a new partition`() throws {
      let origin = try PostgresOrigin(
        """
        CREATE TABLE t(id int, r int) PARTITION BY LIST (r); ALTER TABLE t REPLICA IDENTITY FULL;
        CREATE TABLE t1 PARTITION OF t FOR VALUES IN (1); ALTER TABLE t1 REPLICA IDENTITY FULL
        """)
      try origin.take()
      try origin.run(
        """
        CREATE TABLE t3 PARTITION OF t FOR VALUES IN (3); ALTER TABLE t3 REPLICA IDENTITY FULL;
        INSERT INTO t VALUES (3, 3); TRUNCATE t3; INSERT INTO t VALUES (5, 3)
        """)
      try origin.take()
      let lines = try origin.lines()
      #expect(
        lines.contains("start t lostChanges") && lines.last { $0.hasPrefix("row t") } == "row t id=5 r=3", "\(lines)")
    }

    @Test func `without the triggers, a new partition brings a copy`() throws {
      let lines = try lines(
        Self.parts,
        "CREATE TABLE t3 PARTITION OF t FOR VALUES IN (3); INSERT INTO t VALUES (3, 3); TRUNCATE t3",
        withTriggers: false)
      let start = try #require(lines.lastIndex(of: "start t lostChanges"), "\(lines)")
      #expect(lines[start...].filter { $0.hasPrefix("row t") } == ["row t id=1 r=1"], "\(lines)")
    }
  }
}
