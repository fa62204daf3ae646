import Foundation
import TestServers
import Testing

extension Scenarios {
  /// Invariant 10: what is added to a PostgreSQL database is gone after detach, and nothing else is touched.
  @Suite(.enabled(if: postgresProblem == nil, "\(postgresProblem ?? "")"))
  struct PairDetachTests {
    /// All that a server knows of replication, in words.
    private func replication(_ server: PostgresServer) throws -> String {
      try server.psql(
        """
        SELECT 'slot ' || slot_name FROM pg_replication_slots UNION ALL
        SELECT 'origin ' || roname FROM pg_replication_origin UNION ALL
        SELECT 'role ' || rolname FROM pg_roles ORDER BY 1
        """)
    }

    private func schema(_ pairs: PairBench, _ end: End) throws -> String {
      // pg_dump writes a random word at the head of newer versions' output.
      try pairs.server.schema(end.name).split(separator: "\n").filter { !$0.hasPrefix("\\") }.joined(separator: "\n")
        + pairs.sql(end, "SELECT pubname FROM pg_publication")
    }

    @Test func `after detach both databases and the server are what they were, except for the rows`() throws {
      let server = try PostgresServer()
      let pairs = try PairBench(.postgresToPostgres, server)
      try pairs.makeSample()
      // The replication of another program stays.
      try pairs.sql(pairs.from, "SELECT pg_create_logical_replication_slot('others', 'pgoutput')")
      try pairs.sql(
        pairs.from, "CREATE PUBLICATION others FOR TABLE ship; SELECT pg_replication_origin_create('others')")
      let before = (try schema(pairs, pairs.from), try replication(server))
      #expect(try pairs.once().status == 0)
      #expect(try schema(pairs, pairs.from).contains("cairn_"))
      #expect(try schema(pairs, pairs.to).contains("CREATE SCHEMA cairn"))
      for end in [pairs.from, pairs.to] {
        let outcome = try pairs.bench.run(Bench.cairn, ["detach", end.url])
        #expect(outcome.status == 0, "\(outcome.errors)")
      }
      #expect(try schema(pairs, pairs.from) == before.0)
      #expect(try replication(server) == before.1)
      #expect(try !schema(pairs, pairs.to).contains("cairn"))
      try pairs.expectEqual()
      // There is nothing left to take away, which is no error.
      #expect(try pairs.bench.run(Bench.cairn, ["detach", pairs.from.url]).status == 0)
    }

    @Test func `a target that was there before is after detach as it was`() throws {
      let pairs = try PairBench(.sqliteToPostgres)
      let table = "CREATE TABLE t(id bigint PRIMARY KEY, v text)"
      try pairs.sql(pairs.from, "CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT); INSERT INTO t VALUES (1, 'one')")
      try pairs.sql(pairs.to, table)
      let before = try schema(pairs, pairs.to)
      let outcome = try pairs.once(["--local-writes", "refuse"])
      #expect(outcome.status == 0, "\(outcome.errors)")
      #expect(try schema(pairs, pairs.to).contains("cairn_refuse"))
      #expect(try pairs.bench.run(Bench.cairn, ["detach", pairs.to.url]).status == 0)
      #expect(try schema(pairs, pairs.to) == before)
      try pairs.expectEqual()
    }

    @Test func `a SQLite file that was a target is after detach an ordinary file`() throws {
      let pairs = try PairBench(.postgresToSQLite)
      try pairs.makeSample()
      #expect(try pairs.once(["--local-writes", "refuse"]).status == 0)
      #expect(try pairs.sql(pairs.to, ".schema").contains("cairn_refuse_"))
      #expect(try pairs.bench.run(Bench.cairn, ["detach", pairs.to.url]).status == 0)
      #expect(try !pairs.sql(pairs.to, ".schema").contains("cairn"))
      try pairs.expectEqual()
    }
  }
}
