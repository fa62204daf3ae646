import Changes
import TestServers
import Testing

extension PostgresCapturing {
  @Suite struct PartitionTests {
    private let schema = """
      CREATE TABLE t(id int, r text, PRIMARY KEY (id, r)) PARTITION BY LIST (r);
      CREATE TABLE t_a PARTITION OF t FOR VALUES IN ('a'); CREATE TABLE t_b PARTITION OF t FOR VALUES IN ('b');
      CREATE TABLE t_c(id int, r text, PRIMARY KEY (id, r)); INSERT INTO t_c VALUES (9, 'c');
      INSERT INTO t VALUES (1, 'a'), (2, 'b')
      """

    /// The rows that the copy after a change shows.
    private func copied(after change: String) throws -> [String] {
      let origin = try PostgresOrigin(schema)
      try origin.take(TablePatterns(["*", "!t_c"]))
      let known = try origin.lastNumber
      try origin.run(change)
      try origin.take(TablePatterns(["*", "!t_c"]))
      return try origin.lines(from: known).filter { $0.hasPrefix("row t ") }
    }

    @Test func `a partition that is truncated, attached, detached or dropped brings a copy`() throws {
      #expect(try copied(after: "TRUNCATE t_a") == ["row t id=2 r=b"])
      #expect(
        try copied(after: "ALTER TABLE t ATTACH PARTITION t_c FOR VALUES IN ('c')")
          == ["row t id=1 r=a", "row t id=2 r=b", "row t id=9 r=c"])
      #expect(try copied(after: "ALTER TABLE t DETACH PARTITION t_b; DROP TABLE t_b") == ["row t id=1 r=a"])
      #expect(try copied(after: "DROP TABLE t_a") == ["row t id=2 r=b"])
    }

    @Test func `a partition without identity is refused before it harms the program`() throws {
      let origin = try PostgresOrigin(
        "CREATE TABLE t(id int, r text) PARTITION BY LIST (r); ALTER TABLE t REPLICA IDENTITY FULL; CREATE TABLE t_a PARTITION OF t FOR VALUES IN ('a')"
      )
      #expect(origin.code { try origin.take() } == .tableRefused)
      try origin.run("ALTER TABLE t_a REPLICA IDENTITY FULL")
      try origin.take()
      try origin.run("INSERT INTO t VALUES (1, 'a'); UPDATE t SET id = 2")
      try origin.take()
      #expect(try origin.lines().last == "update t | id=1 r=a | id=2 r=a")
    }

    private static let pay = """
      CREATE TABLE pay(id int, d text, v int) PARTITION BY LIST (d); ALTER TABLE pay REPLICA IDENTITY FULL;
      CREATE TABLE pay_a PARTITION OF pay FOR VALUES IN ('a'); ALTER TABLE pay_a ADD PRIMARY KEY (id);
      CREATE TABLE pay_b PARTITION OF pay FOR VALUES IN ('b'); ALTER TABLE pay_b REPLICA IDENTITY FULL;
      INSERT INTO pay VALUES (1, 'a', 1), (9, 'a', 9), (2, 'b', 2)
      """

    @Test func `a partition with another identity than its table is refused, with one script for all tables`() throws {
      let origin = try PostgresOrigin(
        Self.pay
          + """
          ; CREATE TABLE key(id int, d text, u int NOT NULL, PRIMARY KEY (id, d)) PARTITION BY LIST (d);
          CREATE TABLE key_a PARTITION OF key FOR VALUES IN ('a');
          CREATE UNIQUE INDEX u ON key_a(u); ALTER TABLE key_a REPLICA IDENTITY USING INDEX u;
          CREATE TABLE bare(id int, d text) PARTITION BY LIST (d);
          CREATE TABLE bare_a PARTITION OF bare FOR VALUES IN ('a'); CREATE TABLE good(id int PRIMARY KEY)
          """)
      var refusal: CairnError?
      do { try origin.take() } catch let error as CairnError { refusal = error }
      #expect(refusal?.code == .tableRefused)
      let script = try #require(refusal?.hint.split(separator: "run: ").last?.split(separator: "; or leave").first)
      for table in ["pay_a", "key_a", "bare", "bare_a"] {
        #expect(script.contains(#"ALTER TABLE "public"."\#(table)" REPLICA IDENTITY FULL"#))
      }
      #expect(!script.contains("good") && !script.contains("pay_b"))
      try origin.run(String(script))
      try origin.take()
      let known = try origin.lastNumber
      try origin.run(
        """
        DELETE FROM pay WHERE id = 9; UPDATE pay SET v = 7 WHERE id = 1;
        INSERT INTO key VALUES (1, 'a', 1); UPDATE key SET id = 5; DELETE FROM key
        """)
      try origin.take()
      #expect(
        try origin.lines(from: known) == [
          "delete pay id=9 d=a v=9", "update pay | id=1 d=a v=1 | id=1 d=a v=7", "insert key id=1 d=a u=1",
          "update key | id=1 d=a | id=5 d=a u=1", "delete key id=5 d=a",
        ])
    }

    @Test func `rows that a partition logged too little of come by a copy`() throws {
      let origin = try PostgresOrigin(Self.pay + "; ALTER TABLE pay_a REPLICA IDENTITY FULL")
      try origin.take()
      for (change, last) in [
        ("DELETE FROM pay WHERE id = 9", "row pay id=2 d=b v=2"),
        ("UPDATE pay SET v = 8 WHERE id = 1", "row pay id=1 d=a v=8"),
      ] {
        let known = try origin.lastNumber
        try origin.run("ALTER TABLE pay_a REPLICA IDENTITY DEFAULT")
        try origin.run(change)
        try origin.run("ALTER TABLE pay_a REPLICA IDENTITY FULL")
        try origin.take()
        let lines = try origin.lines(from: known)
        #expect(lines.contains("start pay lostChanges") && lines.contains(last), "\(lines)")
        #expect(!lines.contains { $0.contains("NULL") || $0.hasPrefix("delete") || $0.hasPrefix("update") })
      }
    }

    @Test(arguments: [true, false], ["UPDATE pt SET id = 100 WHERE id = 1", "UPDATE pt SET u = 7 WHERE id = 1"])
    func `a partition whose identity changes and comes back in one transaction brings a copy`(
      _ withTriggers: Bool, _ change: String
    ) throws {
      let origin = try PostgresOrigin(
        """
        CREATE TABLE pt(id int, r int, u int NOT NULL, PRIMARY KEY (id, r)) PARTITION BY LIST (r);
        CREATE TABLE pt1 PARTITION OF pt FOR VALUES IN (1); CREATE UNIQUE INDEX by_u ON pt1(u);
        CREATE TABLE pt2 PARTITION OF pt FOR VALUES IN (2); INSERT INTO pt VALUES (1, 1, 1), (2, 2, 2)
        """)
      try origin.take()
      if !withTriggers { try origin.run("DROP SCHEMA cairn_ddl CASCADE") }
      let known = try origin.lastNumber
      try origin.run(
        """
        BEGIN; ALTER TABLE pt1 REPLICA IDENTITY USING INDEX by_u; \(change); ALTER TABLE pt1 REPLICA IDENTITY DEFAULT;
        COMMIT
        """)
      try origin.take()
      let lines = try origin.lines(from: known)
      let there = try origin.run("SELECT 'row pt id=' || id || ' r=' || r || ' u=' || u FROM pt ORDER BY id, r")
      #expect(lines.contains("start pt lostChanges") && !lines.contains { $0.hasPrefix("update") }, "\(lines)")
      let rows = lines.filter { $0.hasPrefix("row pt") }
      #expect(rows.sorted() == there.split(separator: "\n").map(String.init).sorted())
      // The partition logs enough again.
      let next = try origin.lastNumber
      try origin.run("UPDATE pt SET id = id + 1000")
      try origin.take()
      let updates = try origin.lines(from: next)
      #expect(updates.count == 2 && updates.allSatisfy { $0.hasPrefix("update pt |") }, "\(updates)")
    }

    @Test func `a partition that loses its identity while capture is away stops it`() throws {
      let origin = try PostgresOrigin(Self.pay + "; ALTER TABLE pay_a REPLICA IDENTITY FULL")
      try origin.take()
      try origin.run("ALTER TABLE pay_a REPLICA IDENTITY DEFAULT; DELETE FROM pay WHERE id = 9")
      #expect(origin.code { try origin.take() } == .tableRefused)
      #expect(try !origin.lines().contains { $0.hasPrefix("delete") })
    }
  }
}
