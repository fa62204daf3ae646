import Foundation
import TestServers
import Testing

/// The tests that need a PostgreSQL server say why they are skipped.
let postgresProblem = PostgresServer.problem

extension Scenarios {
  /// Between the engines: others write to the source, cairn copies and follows, another program compares.
  @Suite(.enabled(if: postgresProblem == nil, "\(postgresProblem ?? "")"))
  struct PairTests {
    @Test(arguments: Pair.allCases)
    func `programs write while cairn copies and follows, and the ends are equal`(pair: Pair) throws {
      let pairs = try PairBench(pair)
      let seed = drawSeed(pair.rawValue)
      try pairs.makeSample()
      let copied = try pairs.once()
      try #require(copied.status == 0, "\(copied.errors)")
      try pairs.expectEqual()
      let cairn = try pairs.start()
      let count = isSoak ? "3400" : "100"
      let programs = try (0..<3).map { try pairs.workload($0, seed: seed, ["--transactions", count]) }
      for program in programs { program.wait(seconds: isSoak ? 1800 : 120) }
      for (index, program) in programs.enumerated() {
        #expect(program.terminationStatus == 0, "\(pairs.said("workload\(index)"))")
      }
      #expect(pairs.bench.stop(cairn) == 0, "\(pairs.said("cairn"))")
      let outcome = try pairs.once()
      #expect(outcome.status == 0, "\(outcome.errors)")
      try pairs.expectEqual()
    }

    @Test func `from PostgreSQL through SQLite to a second PostgreSQL, nothing of it is lost`() throws {
      let pairs = try PairBench(.postgresToSQLite)
      let seed = drawSeed("through SQLite")
      try pairs.makeSample()
      let second = try pairs.postgres("second")
      let onwards = ["replicate", "--from", pairs.to.url, "--to", second.url, "--state", "onwards"]
      for step in ["copied", "changed"] {
        let first = try pairs.once()
        try #require(first.status == 0, "\(step): \(first.errors)")
        // Rows that apply writes into the file in between are not captured there, so the tables are copied once more.
        let again = step == "changed" ? ["--existing", "overwrite"] : []
        let next = try pairs.bench.run(Bench.cairn, onwards + ["--once"] + again, seconds: 180)
        try #require(next.status == 0, "\(step): \(next.errors)")
        try pairs.expectEqual(pairs.from, second, ["--exact"])
        guard step == "copied" else { break }
        let program = try pairs.workload(0, seed: seed, ["--transactions", isSoak ? "2000" : "150"])
        program.wait(seconds: 600)
        #expect(program.terminationStatus == 0, "\(pairs.said("workload0"))")
      }
    }

    @Test func `a misfit of the target's type stops, becomes NULL, or widens the column, as asked`() throws {
      for (policy, expected) in [("stop", ""), ("null", "1|7\n2|\n3|9"), ("widen", "1|7\n2|seven\n3|9")] {
        let pairs = try PairBench(.sqliteToPostgres)
        try pairs.sql(
          pairs.from,
          "CREATE TABLE t(id INTEGER PRIMARY KEY, n INTEGER); INSERT INTO t VALUES (1, 7), (2, 'seven'), (3, 9)")
        let outcome = try pairs.once(["--misfit", policy])
        if policy == "stop" {
          #expect(outcome.status == 65, "\(outcome.errors)")
          for word in ["[value-misfit]", "id='2'", "column n", "seven", "bigint", "hint: "] {
            #expect(outcome.errors.contains(word), "\(word): \(outcome.errors)")
          }
          try pairs.sql(pairs.from, "UPDATE t SET n = 8 WHERE id = 2")
          let mended = try pairs.once(["--existing", "overwrite"])
          #expect(mended.status == 0, "\(mended.errors)")
          #expect(try pairs.sql(pairs.to, "SELECT * FROM t ORDER BY id") == "1|7\n2|8\n3|9")
        } else {
          #expect(outcome.status == 0, "\(policy): \(outcome.errors)")
          #expect(try pairs.sql(pairs.to, "SELECT * FROM t ORDER BY id") == expected, "\(policy)")
          // The same in a change that comes later.
          try pairs.sql(pairs.from, "INSERT INTO t VALUES (4, 'four')")
          #expect(try pairs.once(["--misfit", policy]).status == 0)
          let four = try pairs.sql(pairs.to, "SELECT n FROM t WHERE id = 4")
          #expect(four == (policy == "null" ? "" : "four"))
        }
      }
    }

    /// As the table `plink` of Fossil, whose times are Julian days.
    @Test func `widen is neither done nor offered in a table without a key, and NULL loses no row`() throws {
      let pairs = try PairBench(.sqliteToPostgres)
      try pairs.sql(
        pairs.from,
        """
        CREATE TABLE plink(a INTEGER, mtime DATETIME);
        INSERT INTO plink VALUES (1, '2020-01-01 00:00:00'), (2, 2457000.5), (2, 2457000.5), (2, 2457001.5), (2, NULL)
        """)
      for policy in ["stop", "widen", "plink.mtime=widen"] {
        let outcome = try pairs.once(["--misfit", policy])
        #expect(outcome.status == 65, "\(policy): \(outcome)")
        for word in ["[value-misfit]", "a='2', mtime=2457000.5", "plink.mtime=null"] {
          #expect(outcome.errors.contains(word), "\(word): \(outcome.errors)")
        }
        #expect(!outcome.errors.contains("=widen"), "\(outcome.errors)")
        let isExplained = outcome.errors.contains("the column identifies rows, so it keeps its type")
        #expect(isExplained == (policy != "stop"), "\(outcome.errors)")
      }
      func target() throws -> String { try pairs.sql(pairs.to, "SELECT * FROM plink ORDER BY a, mtime") }
      let outcome = try pairs.once(["--misfit", "plink.mtime=null"])
      #expect(outcome.status == 0, "\(outcome)")
      #expect(try target() == "1|2020-01-01 00:00:00\n2|\n2|\n2|\n2|")
      // Rows that are one at the target are still as many as at the source.
      try pairs.sql(
        pairs.from,
        """
        DELETE FROM plink WHERE mtime = 2457001.5; UPDATE plink SET a = 3 WHERE mtime IS NULL;
        UPDATE plink SET mtime = '2021-01-01 00:00:00' WHERE rowid = 2; INSERT INTO plink VALUES (4, 2457002)
        """)
      let later = try pairs.once(["--misfit", "plink.mtime=null"])
      #expect(later.status == 0, "\(later)")
      #expect(try target() == "1|2020-01-01 00:00:00\n2|2021-01-01 00:00:00\n2|\n3|\n4|")
    }

    @Test(arguments: [Pair.sqliteToPostgres, .postgresToPostgres])
    func `a new row at the target does not meet a key that came from the source`(pair: Pair) throws {
      let pairs = try PairBench(pair)
      let key = pairs.from.isPostgres ? "int GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY" : "INTEGER PRIMARY KEY"
      try pairs.sql(pairs.from, "CREATE TABLE t(id \(key), v text); INSERT INTO t(v) VALUES ('a'), ('b')")
      #expect(try pairs.once().status == 0)
      try pairs.sql(pairs.from, "INSERT INTO t(v) VALUES ('c'), ('d'), ('e')")
      let outcome = try pairs.once()
      #expect(outcome.status == 0, "\(outcome.errors)")
      let id = try pairs.sql(pairs.to, "INSERT INTO t(v) VALUES ('mine') RETURNING id")
      #expect(try #require(Int(id.split(separator: "\n").first ?? "")) > 5)
    }
  }
}
