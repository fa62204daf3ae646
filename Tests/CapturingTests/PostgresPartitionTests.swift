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
  }
}
