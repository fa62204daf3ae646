import Foundation
import TestServers
import Testing

extension Scenarios {
  /// `cairn compare`, judged by programs that know nothing of it: one plants differences, another says whether compare
  /// found them and nothing else.
  @Suite struct CompareTests {
    private static let pairs = ["sqlite-sqlite", "sqlite-pg", "pg-sqlite", "pg-pg"]

    @Test(arguments: pairs)
    func `every planted difference is found, none else, and all are mended while programs write`(pair: String) throws {
      if pair != "sqlite-sqlite", postgresProblem != nil { return }
      let bench = try Bench()
      defer { bench.killAll() }
      let size =
        isSoak
        ? ["--rows", "2000", "--seconds", "600", "--planted", "1000"]
        : ["--rows", "200", "--seconds", "3", "--planted", "100"]
      let outcome = try bench.run(
        Bench.python,
        [
          Bench.tool("compare_soak.py"), "--cairn", Bench.cairn, "--pair", pair, "--repair", "--seed",
          "\(drawSeed(pair))",
        ] + size,
        seconds: isSoak ? 1800 : 300)
      #expect(outcome.status == 0, "\((outcome.output + outcome.errors).suffix(3000))")
    }

    private func twoFiles(_ bench: Bench) throws {
      _ = try bench.sqlite(
        "source.db",
        "PRAGMA journal_mode = WAL; CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT); CREATE TABLE loose(a, b); "
          + "INSERT INTO t SELECT value, 'row ' || value FROM generate_series(1, 500); INSERT INTO loose SELECT value % 7, value % 3 FROM generate_series(1, 90)"
      )
      let copied = try bench.replicateOnce()
      try #require(copied.status == 0, "\(copied.errors)")
    }

    private func compare(_ bench: Bench, _ more: [String] = []) throws -> Outcome {
      try bench.run(
        Bench.cairn, ["compare", "--from", "sqlite:source.db", "--to", "sqlite:target.db", "--state", "state"] + more,
        seconds: 60)
    }

    @Test func `the printed SQL makes the target equal`() throws {
      let bench = try Bench()
      defer { bench.killAll() }
      try twoFiles(bench)
      #expect(try compare(bench).status == 0)
      _ = try bench.sqlite(
        "target.db",
        "UPDATE t SET v = CAST(v AS BLOB) WHERE id = 3; DELETE FROM t WHERE id > 490; INSERT INTO t VALUES (-1, NULL); "
          + "DELETE FROM loose WHERE rowid = 5; INSERT INTO loose VALUES ('1', 1)")
      let found = try compare(bench, ["--sql"])
      #expect(found.status == 1)
      #expect(found.errors.contains("different id=3"))
      _ = try bench.sqlite("target.db", found.output)
      let again = try compare(bench)
      #expect(again.status == 0, "\(again.output)")
      #expect(try bench.differences() == "")
    }

    @Test func `a row that was not applied yet is on its way, and not different`() throws {
      let bench = try Bench()
      defer { bench.killAll() }
      try twoFiles(bench)
      _ = try bench.sqlite("source.db", "UPDATE t SET v = 'later' WHERE id = 7; INSERT INTO loose VALUES (100, 100)")
      let outcome = try compare(bench)
      #expect(outcome.status == 75, "\(outcome.output)")
      #expect(outcome.output.contains("still on the way"))
      _ = try bench.sqlite("target.db", "UPDATE t SET v = 'other' WHERE id = 8")
      let mixed = try compare(bench)
      #expect(mixed.status == 1)
      #expect(mixed.output.contains("different id=8"))
      #expect(mixed.output.contains("t: not proven: different id=7"))
      #expect(!mixed.output.contains("t: different id=7"))
    }

    @Test func `rows that a program wrote with triggers off are found, and an audit reports them`() throws {
      let bench = try Bench()
      defer { bench.killAll() }
      try twoFiles(bench)
      let unseen = try bench.run(
        "/usr/bin/sqlite3",
        ["-cmd", ".dbconfig enable_trigger off", "source.db", "UPDATE t SET v = 'unseen' WHERE id = 9"])
      #expect(unseen.status == 0)
      let cairn = try bench.start(
        "cairn", Bench.cairn,
        ["replicate", "--from", "sqlite:source.db", "--to", "sqlite:target.db", "--state", "state", "--audit", "1MiB"])
      let limit = Date().addingTimeInterval(60)
      while Date() < limit, !bench.text("cairn.err").contains("drift-found") { usleep(100_000) }
      #expect(bench.text("cairn.err").contains("table t differs from the source: different id=9"))
      let found = try compare(bench)
      #expect(found.status == 1)
      #expect(found.output.contains("different id=9"))
      #expect(try compare(bench, ["--repair"]).status == 0)
      #expect(bench.stop(cairn) == 0, "\(bench.text("cairn.err"))")
      #expect(try bench.differences() == "")
    }

    @Test func `tables and columns that one end lacks are reported`() throws {
      let bench = try Bench()
      defer { bench.killAll() }
      _ = try bench.sqlite("source.db", "CREATE TABLE a(x INTEGER PRIMARY KEY, y); CREATE TABLE b(x)")
      _ = try bench.sqlite("target.db", "CREATE TABLE a(x INTEGER PRIMARY KEY, z); CREATE TABLE c(x)")
      let outcome = try bench.run(
        Bench.cairn, ["compare", "--from", "sqlite:source.db", "--to", "sqlite:target.db"], seconds: 60)
      #expect(outcome.status == 1)
      for text in [
        "the target has no column y", "the source has no column z", "b: the target has no such table",
        "c: the source has no such table",
      ] {
        #expect(outcome.output.contains(text), "\(text)")
      }
    }
  }
}
