import Changes
import PostgresKit
import TestServers
import Testing

@testable import Capturing

extension PostgresCapturing {
  /// Schema changes, recorded at their place in the stream.
  @Suite struct SchemaTests {
    /// Returns the records of changes that were made while capture did not run.
    private func told(_ schema: String, _ changes: String...) throws -> [String] {
      let origin = try PostgresOrigin(schema)
      try origin.take()
      let known = try origin.lastNumber
      for change in changes { try origin.run(change) }
      try origin.take()
      try expectTrue(origin)
      return try origin.lines(from: known)
    }

    /// The last schema that the trail has of each table is that of the catalog.
    private func expectTrue(_ origin: PostgresOrigin) throws {
      let there = try PostgresConnection(origin.uri).userTables().filter { $0.refusal == nil }
      let known = try RegistryFile(folder: origin.folder("state"), number: .max).registry.tables
      #expect(Set(known.keys) == Set(there.map(\.oid)))
      for table in there {
        var schema = table.schema
        schema.epoch = known[table.oid]?.schema.epoch ?? 0
        #expect(known[table.oid]?.schema == schema)
        #expect(known[table.oid]?.numbers == table.details.map(\.number))
      }
    }

    private static let table = """
      CREATE TABLE t(id int PRIMARY KEY, a int, v varchar(10), n numeric(6,2), at timestamp(0));
      INSERT INTO t VALUES (1, 1, 'one', 1.50, '2024-01-01'), (2, 2, 'two', 2.50, '2024-01-02')
      """

    @Test(arguments: [
      "ALTER TABLE t ADD b int", "ALTER TABLE t ADD b int NOT NULL DEFAULT 5",
      "ALTER TABLE t ADD b text DEFAULT 'x''y'",
      "ALTER TABLE t ADD b numeric(8,3) DEFAULT 1.5", "ALTER TABLE t ADD b boolean NOT NULL DEFAULT true",
      "ALTER TABLE t ADD b date DEFAULT '2024-02-29'", "ALTER TABLE t DROP at", "ALTER TABLE t DROP v, DROP n",
      "ALTER TABLE t RENAME a TO aa", "ALTER TABLE t ALTER a SET NOT NULL",
      "ALTER TABLE t ALTER a SET DEFAULT random()",
      "ALTER TABLE t ADD CHECK (a > 0)", "ALTER TABLE t ADD UNIQUE (a)", "CREATE INDEX i ON t(a)",
      "CREATE UNIQUE INDEX i ON t(a)", "ALTER TABLE t ALTER a TYPE bigint", "ALTER TABLE t ALTER v TYPE varchar(20)",
      "ALTER TABLE t ALTER v TYPE text", "ALTER TABLE t ALTER n TYPE numeric(9,2)",
      "ALTER TABLE t ALTER n TYPE numeric",
      "ALTER TABLE t ALTER at TYPE timestamp(3)", "ALTER TABLE t REPLICA IDENTITY FULL",
      "ALTER TABLE t DROP CONSTRAINT t_pkey, ALTER a SET NOT NULL, ADD PRIMARY KEY (a)",
      "ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES t",
    ])
    func `a change that needs no copy is recorded without one`(_ change: String) throws {
      let lines = try told(
        Self.table, change,
        "INSERT INTO t VALUES (3, 1)".replacing(
          "(3, 1)", with: change.contains("PRIMARY KEY (a)") || change.contains("UNIQUE") ? "(3, 3)" : "(3, 1)"))
      let isKeyless = change.contains("IDENTITY FULL")
      #expect(lines.count == (isKeyless ? 1 : 2), "\(lines)")
      #expect(isKeyless || lines.first == "reshape t t")
      #expect(lines.last?.hasPrefix("insert t id=3") == true)
    }

    @Test(arguments: [
      "ALTER TABLE t ADD b double precision DEFAULT random()", "ALTER TABLE t ADD b timestamptz DEFAULT now()",
      "ALTER TABLE t ADD b serial", "ALTER TABLE t ADD b int GENERATED ALWAYS AS IDENTITY",
      "ALTER TABLE t ALTER a TYPE text", "ALTER TABLE t ALTER a TYPE bigint USING a * 2",
      "ALTER TABLE t ALTER a TYPE int USING a * 2", "ALTER TABLE t ALTER n TYPE numeric(6,1)",
      "ALTER TABLE t ALTER v TYPE varchar(3)", "ALTER TABLE t ALTER v TYPE char(10)",
      "ALTER TABLE t ADD b int DEFAULT 5, ALTER b SET DEFAULT 6",
      "ALTER TABLE t ADD b int DEFAULT 5, ALTER b SET DEFAULT NULL, ALTER a TYPE bigint",
      "DO $$ BEGIN ALTER TABLE t ALTER a TYPE bigint USING a * 2; END $$",
    ])
    func `a change that may alter rows brings a copy`(_ change: String) throws {
      let lines = try told(Self.table, change)
      #expect(lines.contains("start t schemaChange"), "\(lines)")
      #expect(lines.filter { $0.hasPrefix("row t") }.count == 2)
    }

    /// The partitions have the values of a new column, and the table itself has no note of them.
    @Test(arguments: [
      ("ADD b int", false), ("ADD b int DEFAULT 5, ALTER b SET DEFAULT NULL", true),
      ("ADD b int DEFAULT 5, ALTER b SET DEFAULT NULL, ALTER a TYPE bigint", true),
    ])
    func `a new column of a partitioned table brings a copy if its rows may have a value`(
      change: String, isCopied: Bool
    ) throws {
      let lines = try told(
        """
        CREATE TABLE t(id int PRIMARY KEY, a int) PARTITION BY RANGE (id);
        CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (100); INSERT INTO t VALUES (1, 1), (2, 2)
        """, "ALTER TABLE t \(change)")
      #expect(lines.contains("start t schemaChange") == isCopied, "\(lines)")
      #expect(lines.filter { $0.hasPrefix("row t") && $0.hasSuffix("b=5") }.count == (isCopied ? 2 : 0), "\(lines)")
    }

    /// `'pg\_%'` is another pattern in a session that reads backslashes in plain texts as escapes.
    @Test func `settings of a session hide no schema change`() throws {
      let lines = try told(
        "CREATE SCHEMA pgapp; CREATE TABLE pgapp.t(id int PRIMARY KEY, v int); INSERT INTO pgapp.t VALUES (1, 10), (2, 20)",
        """
        SET standard_conforming_strings = off; SET escape_string_warning = off;
        ALTER TABLE pgapp.t ALTER v TYPE int USING v + 1
        """)
      #expect(lines.contains("start pgapp.t schemaChange") || lines.contains("start t schemaChange"), "\(lines)")
      #expect(lines.contains { $0.hasSuffix("id=2 v=21") })
    }

    @Test func `each row has the shape of its place, however late it is read`() throws {
      let lines = try told(
        Self.table, "INSERT INTO t VALUES (3, 3); ALTER TABLE t RENAME a TO x; ALTER TABLE t RENAME v TO a",
        "ALTER TABLE t ADD b int DEFAULT 7; UPDATE t SET b = 8 WHERE id = 1; ALTER TABLE t DROP x",
        "ALTER TABLE t RENAME TO u; INSERT INTO u(id, a) VALUES (4, 'four')",
        "ALTER TABLE u DROP at; DELETE FROM u WHERE id = 4")
      #expect(
        lines == [
          "insert t id=3 a=3 v=NULL n=NULL at=NULL", "reshape t t", "reshape t t", "reshape t t",
          "update t id=1 x=1 a=one n=1.50 at=2024-01-01 00:00:00 b=8", "reshape t t", "rename t u",
          "insert u id=4 a=four n=NULL at=NULL b=7", "reshape u u", "delete u id=4",
        ])
    }

    @Test func `columns are known by more than their names`() throws {
      let origin = try PostgresOrigin("CREATE TABLE t(id int PRIMARY KEY, a int, b int)")
      try origin.take()
      try origin.run(
        "BEGIN; ALTER TABLE t RENAME a TO c; ALTER TABLE t RENAME b TO a; ALTER TABLE t RENAME c TO b; COMMIT")
      try origin.run("ALTER TABLE t DROP a, ADD a int")
      try origin.take()
      #expect(
        try origin.ddl().suffix(4).map(\.origins) == [[0, 1, 2], [0, 1, 2], [0, 1, 2], [0, 1, nil]])
      #expect(try origin.ddl().last?.text == "ALTER TABLE t DROP a, ADD a int")
      try expectTrue(origin)
    }

    @Test func `a change that was rolled back is not recorded`() throws {
      let lines = try told(
        Self.table,
        """
        BEGIN; ALTER TABLE t ADD b int; SAVEPOINT s; ALTER TABLE t ADD c int DEFAULT 3; INSERT INTO t(id, c) VALUES (8, 8);
        ROLLBACK TO s; INSERT INTO t(id, b) VALUES (3, 3); COMMIT; BEGIN; DROP TABLE t; ROLLBACK
        """)
      #expect(lines == ["reshape t t", "insert t id=3 a=NULL v=NULL n=NULL at=NULL b=3"])
    }

    @Test func `tables that come and go within a transaction are recorded in order`() throws {
      let lines = try told(
        Self.table,
        """
        BEGIN; DROP TABLE t; CREATE TABLE t(id int PRIMARY KEY, z text); INSERT INTO t VALUES (1, 'z');
        CREATE TABLE gone(id int PRIMARY KEY); DROP TABLE gone; COMMIT
        """, "CREATE TABLE c AS SELECT 1 AS id; INSERT INTO c VALUES (2); ALTER TABLE c ADD PRIMARY KEY (id)",
        "CREATE TABLE l(LIKE t INCLUDING ALL)",
        "CREATE SCHEMA s; ALTER TABLE l SET SCHEMA s")
      #expect(lines.prefix(6) == ["drop t", "create t", "create gone", "drop gone", "create c", "create l"])
      #expect(lines.contains("rename l l"))
      #expect(lines.contains("row t id=1 z=z") && lines.contains("row c id=1") && lines.contains("row c id=2"))
    }

    @Test func `indexes go at their place, dropped in whatever way`() throws {
      let lines = try told(
        "CREATE TABLE t(id int PRIMARY KEY, a int); CREATE UNIQUE INDEX i ON t(a); CREATE INDEX j ON t(a)",
        "DROP INDEX i; INSERT INTO t VALUES (1, 1), (2, 1)", "DROP INDEX CONCURRENTLY j",
        "CREATE INDEX CONCURRENTLY k ON t(a)", "ALTER INDEX k RENAME TO l", "REINDEX TABLE t")
      #expect(
        lines == [
          "reshape t t", "insert t id=1 a=1", "insert t id=2 a=1", "reshape t t", "reshape t t", "reshape t t",
        ])
    }

    @Test func `a change of a type is a change of the tables that use it`() throws {
      let schema = """
        CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE DOMAIN moods AS mood[]; CREATE TYPE pair AS (x int, y int);
        CREATE TABLE t(id int PRIMARY KEY, m mood, s moods, p pair); INSERT INTO t VALUES (1, 'ok', '{sad}', '(1,2)')
        """
      #expect(try told(schema, "ALTER TYPE mood ADD VALUE 'fine' BEFORE 'ok'") == ["reshape t t"])
      #expect(try told(schema, "ALTER TYPE mood RENAME TO humour") == ["reshape t t"])
      #expect(
        try told(schema, "ALTER DOMAIN moods ADD CHECK (cardinality(VALUE) < 9)").allSatisfy { $0 == "reshape t t" })
      let renamed = try told(schema, "ALTER TYPE mood RENAME VALUE 'ok' TO 'okay'")
      #expect(renamed.contains("row t id=1 m=okay s={sad} p=(1,2)"))
      let wider = try told(schema, "ALTER TYPE pair ADD ATTRIBUTE z int")
      #expect(wider.contains("row t id=1 m=ok s={sad} p=(1,2,)"))
    }

    @Test func `a type that is dropped from a composite type changes the tables that use it, at its place`() throws {
      let lines = try told(
        """
        CREATE TYPE inside AS ENUM ('q'); CREATE TYPE co AS (a inside, b text, c text); CREATE DOMAIN cos AS co[];
        CREATE TABLE k(id int PRIMARY KEY, c co, s cos); INSERT INTO k VALUES (1, ('q', 'b', 'c'), '{}')
        """, "DROP TYPE inside CASCADE", "INSERT INTO k VALUES (2, ('b', 'c'), '{}')")
      let reshape = try #require(lines.firstIndex(of: "reshape k k"), "\(lines)")
      #expect(lines.firstIndex { $0.hasPrefix("insert k id=2") } ?? .max > reshape, "\(lines)")
      #expect(lines.contains("row k id=1 c=(b,c) s={}"), "\(lines)")
    }

    @Test func `a script makes the labels of an enum complete, in their order`() throws {
      let origin = try PostgresOrigin(
        "CREATE TYPE mood AS ENUM ('a', 'b', 'c', 'd', 'e'); CREATE TABLE t(id int PRIMARY KEY, m mood)")
      let table = try #require(try PostgresConnection(origin.uri).userTables().first)
      for there in ["'b', 'd'", "'e'", "'a', 'c', 'e'", "'a', 'b', 'c', 'd', 'e'"] {
        let other = try PostgresOrigin("CREATE TYPE mood AS ENUM (\(there))")
        try other.run(table.schema.createText)
        #expect(try other.run("SELECT enum_range(NULL::mood)") == "{a,b,c,d,e}")
      }
    }

    /// Apply can alter an inherited column only by the table from which it is inherited.
    @Test(arguments: [
      "ALTER TABLE t ADD b int", "ALTER TABLE t DROP c", "ALTER TABLE t RENAME a TO aa",
      "ALTER TABLE t ALTER v TYPE text", "ALTER TABLE t ADD CHECK (a > 0)", "ALTER TABLE t ALTER a SET DEFAULT 7",
    ])
    func `tables that inherit from an altered table are recorded at its place, each after its parent`(
      _ change: String
    ) throws {
      let lines = try told(
        """
        CREATE TABLE z(id int PRIMARY KEY, v varchar(10), a int);
        CREATE TABLE y(id int PRIMARY KEY, v varchar(10), a int);
        CREATE TABLE t(id int PRIMARY KEY, v varchar(10), a int); ALTER TABLE y INHERIT t; ALTER TABLE z INHERIT y;
        ALTER TABLE t ADD c int
        """, change, "INSERT INTO t(id, v) VALUES (9, 'v')")
      #expect(lines.dropLast() == ["reshape t t", "reshape y y", "reshape z z"], "\(lines)")
      #expect(lines.last?.hasPrefix("insert t id=9") == true, "\(lines)")
    }

    @Test func `an object that is not replicated is reported once`() throws {
      let origin = try PostgresOrigin("CREATE TABLE t(id int PRIMARY KEY)")
      try origin.take()
      try origin.run("CREATE VIEW recent AS SELECT * FROM t; CREATE OR REPLACE VIEW recent AS SELECT * FROM t")
      let said = Notices()
      try origin.take(said: said.add)
      #expect(said.all.filter { $0.contains("recent") } == ["view public.recent was created: views are not replicated"])
    }

    @Test func `a partition that is made costs no copy, one that comes with rows does`() throws {
      let schema = """
        CREATE TABLE t(id int, r text, PRIMARY KEY (id, r)) PARTITION BY LIST (r);
        CREATE TABLE t_a PARTITION OF t FOR VALUES IN ('a'); INSERT INTO t VALUES (1, 'a')
        """
      let made = try told(
        schema, "CREATE TABLE t_b PARTITION OF t FOR VALUES IN ('b')", "INSERT INTO t VALUES (2, 'b')")
      #expect(made == ["insert t id=2 r=b"])
      let attached = try told(
        schema,
        "CREATE TABLE c(id int, r text, PRIMARY KEY (id, r)); INSERT INTO c VALUES (3, 'c'); ALTER TABLE t ATTACH PARTITION c FOR VALUES IN ('c')"
      )
      #expect(attached.contains("drop c") && attached.contains("row t id=3 r=c"))
      let detached = try told(schema, "ALTER TABLE t DETACH PARTITION t_a")
      #expect(detached.contains("create t_a") && detached.contains("row t_a id=1 r=a"))
      #expect(detached.contains("start t lostChanges") && !detached.contains("row t id=1 r=a"))
    }

    @Test func `a table that becomes logged is recorded and copied`() throws {
      let lines = try told(
        "CREATE TABLE t(id int PRIMARY KEY); CREATE UNLOGGED TABLE u(id int PRIMARY KEY); INSERT INTO u VALUES (1)",
        "ALTER TABLE u SET LOGGED")
      #expect(lines == ["create u", "start u firstCopy", "chunk u", "row u id=1", "end u"])
    }

    @Test func `without the triggers, changes are found by looking`() throws {
      let origin = try PostgresOrigin(Self.table)
      try origin.take()
      try origin.run("DROP SCHEMA cairn_ddl CASCADE; ALTER TABLE t ADD b int DEFAULT 5")
      try origin.run("INSERT INTO t(id) VALUES (3)")
      let known = try origin.lastNumber
      try origin.take()
      let lines = try origin.lines(from: known)
      #expect(lines.contains("reshape t t") && lines.contains("row t id=3 a=NULL v=NULL n=NULL at=NULL b=5"))
      // They are there again.
      #expect(try origin.run("SELECT count(*) FROM pg_event_trigger WHERE evtname ~ '^cairn_'") == "3")
      try expectTrue(origin)
    }

    @Test func `without the triggers, labels that took each other's names cost a copy`() throws {
      let origin = try PostgresOrigin(
        """
        CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE TABLE t(id int PRIMARY KEY, m mood, s mood[]);
        INSERT INTO t VALUES (1, 'ok', '{sad}')
        """)
      try origin.take()
      try origin.run(
        """
        DROP SCHEMA cairn_ddl CASCADE; BEGIN; ALTER TYPE mood RENAME VALUE 'ok' TO 'x';
        ALTER TYPE mood RENAME VALUE 'sad' TO 'ok'; ALTER TYPE mood RENAME VALUE 'x' TO 'sad'; COMMIT
        """)
      let known = try origin.lastNumber
      try origin.take()
      #expect(try origin.lines(from: known).contains("row t id=1 m=sad s={ok}"))
    }

    @Test(arguments: [
      ("ALTER TYPE mood RENAME VALUE 'ok' TO 'okay'", "row t id=1 m=okay p=(1,2) c=1"),
      ("ALTER TYPE pair ADD ATTRIBUTE z int", "row t id=1 m=ok p=(1,2,) c=1"),
      ("ALTER TABLE t DROP c, ADD c int DEFAULT 7; ALTER TABLE t ALTER c DROP DEFAULT", "row t id=1 m=ok p=(1,2) c=7"),
    ]) func `without the triggers, rows that a schema change altered are copied`(_ change: (String, String)) throws {
      let origin = try PostgresOrigin(
        """
        CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE TYPE pair AS (x int, y int);
        CREATE TABLE t(id int PRIMARY KEY, m mood, p pair, c int); INSERT INTO t VALUES (1, 'ok', '(1,2)', 1)
        """)
      try origin.take()
      try origin.run("DROP SCHEMA cairn_ddl CASCADE; \(change.0)")
      let known = try origin.lastNumber
      try origin.take()
      let lines = try origin.lines(from: known)
      #expect(lines.contains(change.1), "\(lines)")
    }

    @Test func `an error in a trigger is not the program's business`() throws {
      let origin = try PostgresOrigin(Self.table)
      try origin.take()
      try origin.run("DROP TABLE cairn_ddl.key; ALTER TABLE t ADD b int")
      try origin.run("CREATE TEMP TABLE x(id int); DROP TABLE x")
      try origin.take()
      #expect(try origin.lines().contains("reshape t t"))
      try expectTrue(origin)
    }

    @Test func `a table that left the publication for a while is copied`() throws {
      let origin = try PostgresOrigin("CREATE TABLE t(id int PRIMARY KEY)")
      try origin.take()
      let name = try origin.run("SELECT pubname FROM pg_publication")
      try origin.run("ALTER PUBLICATION \(name) DROP TABLE t")
      try origin.run("INSERT INTO t VALUES (1)")
      try origin.run("ALTER PUBLICATION \(name) ADD TABLE t")
      let known = try origin.lastNumber
      try origin.take()
      #expect(try origin.lines(from: known).contains("row t id=1"))
    }
  }
}
