import Foundation
import TestServers
import Testing

extension Scenarios {
  /// Expressions of tables that come over as they are.
  @Suite struct KeptExpressionTests {
    @Test func `tables with JSON in a CHECK, an index and a generated column are captured, written and let go`() throws
    {
      let bench = try Bench()
      _ = try bench.sqlite(
        "source.db",
        """
        PRAGMA journal_mode = WAL;
        CREATE TABLE t(id INTEGER PRIMARY KEY, d TEXT CHECK (json_valid(d)), n AS (json_extract(d, '$.n')));
        CREATE INDEX i ON t(d ->> 'x'); CREATE UNIQUE INDEX u ON t(json_extract(d, '$.u'));
        INSERT INTO t VALUES (1, '{"n": 5, "u": 1}'), (2, '[]')
        """)
      func once() throws {
        let outcome = try bench.run(
          Bench.cairn, ["replicate", "--from", "sqlite:source.db", "--to", "sqlite:target.db", "--once"])
        #expect(outcome.status == 0, "\(outcome)")
        let all = "SELECT id, d, n FROM t ORDER BY id"
        #expect(try bench.sqlite("target.db", all) == bench.sqlite("source.db", all))
        #expect(try bench.sqlite("target.db", "SELECT count(*) FROM sqlite_master WHERE name IN ('i', 'u')") == "2\n")
      }
      try once()
      _ = try bench.sqlite(
        "source.db", #"UPDATE t SET d = '{"n": 6, "u": 2}' WHERE id = 1; INSERT INTO t VALUES (3, '{}')"#)
      try once()
      let compared = try bench.run(
        Bench.cairn, ["compare", "--from", "sqlite:source.db", "--to", "sqlite:target.db"])
      #expect(compared.status == 0, "\(compared)")
      for name in ["source", "target"] {
        let detached = try bench.run(Bench.cairn, ["detach", "sqlite:\(name).db"])
        #expect(detached.status == 0, "\(detached)")
      }
    }

    @Test(.enabled(if: postgresProblem == nil))
    func `defaults with commas in brackets come over`() throws {
      let bench = try PairBench(.postgresToPostgres)
      try bench.sql(bench.from, "CREATE TABLE t(id int PRIMARY KEY); INSERT INTO t VALUES (1)")
      #expect(try bench.once([]).status == 0)
      try bench.sql(
        bench.from,
        "ALTER TABLE t ADD c int[] DEFAULT ARRAY[1,2], ADD m int[] DEFAULT ARRAY[ARRAY[1,2],ARRAY[3,4]]; INSERT INTO t VALUES (2)"
      )
      let outcome = try bench.once([])
      #expect(outcome.status == 0, "\(outcome.errors)")
      #expect(try bench.sql(bench.to, "SELECT * FROM t ORDER BY id") == "1|{1,2}|{{1,2},{3,4}}\n2|{1,2}|{{1,2},{3,4}}")
      try bench.sql(bench.from, "ALTER TABLE t ALTER c SET DEFAULT ARRAY[1,3]; INSERT INTO t VALUES (3)")
      #expect(try bench.once([]).status == 0)
      try bench.sql(bench.to, "INSERT INTO t(id) VALUES (9)")
      #expect(try bench.sql(bench.to, "SELECT c FROM t WHERE id = 9") == "{1,3}")
    }

    @Test(.enabled(if: postgresProblem == nil))
    func `a table with a type of another role is not compared, and the others are`() throws {
      let bench = try PairBench(.postgresToPostgres)
      for end in [bench.from, bench.to] {
        try bench.sql(
          end,
          """
          DO $$ BEGIN CREATE ROLE low; EXCEPTION WHEN duplicate_object OR unique_violation THEN END $$;
          CREATE SCHEMA low AUTHORIZATION low; SET ROLE low; CREATE DOMAIN low.num AS integer CHECK (VALUE > 0);
          CREATE TABLE low.t(id low.num[] PRIMARY KEY); INSERT INTO low.t SELECT ARRAY[i] FROM generate_series(1, 3000) AS i;
          RESET ROLE; CREATE TABLE u(id int PRIMARY KEY, v text); INSERT INTO u VALUES (1, '\(end.name)')
          """)
      }
      // One more row has the keys of the others looked up.
      try bench.sql(bench.to, "DELETE FROM low.t WHERE id = '{7}'")
      let outcome = try bench.bench.run(Bench.cairn, ["compare", "--from", bench.from.url, "--to", bench.to.url])
      #expect(outcome.status != 0, "\(outcome)")
      let said = outcome.output + outcome.errors
      #expect(said.contains("t is not compared: type low.num is part of column id"), "\(outcome)")
      #expect(said.contains("u: different"), "\(outcome)")
    }
  }
}
