import Foundation
import TestServers
import Testing

extension Scenarios {
  /// Whole programs: the source is written to by others, cairn copies and follows, another program compares.
  @Suite struct ReplicateTests {
    @Test func `a copy is equal in schema, rows and storage classes`() throws {
      let bench = try Bench()
      try bench.makeSample()
      let outcome = try bench.replicateOnce()
      #expect(outcome.status == 0, "\(outcome.errors)")
      #expect(try bench.differences(["--schema"]) == "")
      #expect(outcome.errors.contains("log_search is not captured"))
    }

    @Test(arguments: ["wal", "delete"])
    func `three programs write while cairn follows, and the target is equal`(mode: String) throws {
      let bench = try Bench()
      let seed = UInt64.random(in: 1...1_000_000)
      print("seed \(seed), journal mode \(mode)")
      try bench.makeSample(mode: mode)
      let cairn = try bench.startReplicating()
      let count = isSoak ? "3400" : "120"
      let programs = try (0..<3).map { try bench.workload($0, seed: seed, ["--transactions", count]) }
      for program in programs { bench.wait(program, seconds: isSoak ? 1200 : 120) }
      #expect(programs.allSatisfy { $0.terminationStatus == 0 })
      #expect(bench.stop(cairn) == 0, "\(bench.text("cairn.err"))")
      let outcome = try bench.replicateOnce()
      #expect(outcome.status == 0, "\(outcome.errors)")
      #expect(try bench.differences() == "")
    }

    @Test func `a reader of the target never sees half of a transaction`() throws {
      let bench = try Bench()
      _ = try bench.sqlite(
        "source.db",
        "PRAGMA journal_mode = WAL; CREATE TABLE a(id INTEGER PRIMARY KEY, n); CREATE TABLE b(n); INSERT INTO a VALUES (0, 0)"
      )
      #expect(try bench.replicateOnce().status == 0)
      let cairn = try bench.startReplicating()
      let writer = """
        import sqlite3, random
        c = sqlite3.connect('source.db', isolation_level=None, timeout=20); c.execute('PRAGMA synchronous = NORMAL')
        for n in range(1, \(isSoak ? 5000 : 600)):
            c.execute('BEGIN')
            for _ in range(random.choice((1, 1, 30))):
                c.execute('INSERT INTO b VALUES (1)'); c.execute('UPDATE a SET n = n + 1')
            c.execute(random.choice(('COMMIT', 'COMMIT', 'ROLLBACK')))
        """
      let program = try bench.start("writer", Bench.python, ["-c", writer])
      let reader = """
        import sqlite3, time
        c = sqlite3.connect('target.db', isolation_level=None); seen = set(); stop = time.monotonic() + \(isSoak ? 30 : 4)
        while time.monotonic() < stop:
            n, m = c.execute('SELECT (SELECT n FROM a), (SELECT count(*) FROM b)').fetchone()
            assert n == m, (n, m)
            seen.add(n)
        print(len(seen))
        """
      let outcome = try bench.run(Bench.python, ["-c", reader])
      #expect(outcome.status == 0, "\(outcome.errors)")
      print("\(outcome.output.dropLast()) states of the target were seen")
      bench.wait(program)
      #expect(program.terminationStatus == 0)
      #expect(bench.stop(cairn) == 0)
      #expect(try bench.replicateOnce().status == 0)
      #expect(try bench.differences() == "")
    }

    @Test(arguments: Seeds.half(of: [0, 25]))
    func `every schema change arrives, with rows in the gap after it`(settleMilliseconds: Int) throws {
      let bench = try Bench()
      let seed = UInt64.random(in: 1...1_000_000)
      print("seed \(seed)")
      let tool = Bench.tool("schema_changes.py")
      try bench.run(Bench.python, [tool, "source.db", "--init", "--count", "0"])
      let cairn = try bench.startReplicating()
      _ = try bench.waitForTarget("SELECT count(*) > 0 FROM sc_nokey", "1")
      let steps = try bench.run(
        Bench.python,
        [
          tool, "source.db", "--seed", "\(seed)", "--settle-ms", "\(settleMilliseconds)",
          "--unhook-command", "\(Bench.cairn) unhook sqlite:{db} {table}",
          "--rehook-command", "\(Bench.cairn) rehook sqlite:{db} {table}",
        ], seconds: 600)
      #expect(steps.status == 0, "\(steps.output.suffix(2000))")
      #expect(!steps.output.contains("skipped"))
      #expect(bench.stop(cairn) == 0, "\(bench.text("cairn.err"))")
      let outcome = try bench.replicateOnce()
      #expect(outcome.status == 0, "\(outcome.errors)")
      #expect(try bench.differences(["--schema"]) == "")
    }

    @Test func `the trail as SQL makes the same rows in an empty database`() throws {
      let bench = try Bench()
      try bench.makeSample()
      #expect(try bench.replicateOnce().status == 0)
      let program = try bench.workload(0, seed: 5, ["--transactions", isSoak ? "1000" : "80"])
      bench.wait(program)
      #expect(try bench.replicateOnce().status == 0)
      let sql = try bench.run(Bench.cairn, ["trail", "show", "--state", "state", "--sql", "sqlite"])
      #expect(sql.status == 0, "\(sql.errors)")
      try FileManager.default.removeItem(atPath: bench.path("target.db"))
      try Data(sql.output.utf8).write(to: URL(fileURLWithPath: bench.path("replay.sql")))
      let replay = try bench.run("/usr/bin/sqlite3", ["-bail", "target.db", ".read replay.sql"])
      #expect(replay.status == 0, "\(replay.errors.suffix(500))")
      #expect(try bench.differences() == "")
    }

    @Test func `after detach the schema of the source is byte for byte what it was`() throws {
      let bench = try Bench()
      try bench.makeSample()
      let before = try bench.sqlite("source.db", ".dump")
      #expect(try bench.replicateOnce().status == 0)
      #expect(try bench.sqlite("source.db", ".schema").contains("cairn_"))
      #expect(try bench.run(Bench.cairn, ["detach", "sqlite:source.db"]).status == 0)
      #expect(try bench.sqlite("source.db", ".dump") == before)
    }

    @Test func `a journal past its cap is reported, and everything is copied again`() throws {
      let bench = try Bench()
      try bench.makeSample()
      #expect(try bench.replicateOnce(["--journal-rows", "1000"]).status == 0)
      _ = try bench.sqlite(
        "source.db",
        """
        CREATE TABLE many(id INTEGER PRIMARY KEY, v); UPDATE log_entry SET body = body || '!';
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
        INSERT INTO tide(station, at, level_m) SELECT 'cap ' || i, '2030-01-01', i FROM n
        """)
      #expect(
        try #require(
          Int(bench.sqlite("source.db", "SELECT count(*) FROM cairn_journal").trimmingCharacters(in: .newlines))) < 2500
      )
      let outcome = try bench.replicateOnce(["--journal-rows", "1000"])
      #expect(outcome.status == 0, "\(outcome.errors)")
      #expect(outcome.errors.contains("is full ("))
      #expect(try bench.differences() == "")
    }
  }
}
