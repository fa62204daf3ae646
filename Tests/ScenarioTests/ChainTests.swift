import Foundation
import TestServers
import Testing

extension Scenarios {
  /// Four databases in a row, SQLite, PostgreSQL, SQLite, PostgreSQL, each replicated to the next by a cairn of its own.
  @Suite(.enabled(if: postgresProblem == nil, "\(postgresProblem ?? "")"))
  struct ChainTests {
    private func arguments(_ from: End, _ to: End) -> [String] {
      ["replicate", "--from", from.url, "--to", to.url, "--state", "state-\(to.name)"]
    }

    @Test func `a write at the first of four databases comes to all, whatever is killed`() throws {
      let pairs = try PairBench(.sqliteToPostgres)
      let (a, b) = (pairs.from, pairs.to)
      let c = End(name: "third.db", isPostgres: false, url: "sqlite:third.db")
      let d = try pairs.postgres("fourth")
      let ways = [(a, b), (b, c), (c, d)]
      let seed = drawSeed("chain")
      var random = Seeded(seed)
      try pairs.makeSample()
      for (index, way) in ways.enumerated() {
        let outcome = try pairs.bench.run(Bench.cairn, arguments(way.0, way.1) + ["--once"])
        try #require(outcome.status == 0, "\(index): \(outcome.errors)")
      }
      let program = try pairs.workload(
        0, seed: seed, ["--transactions", isSoak ? "10000" : "400", "--mark", "--pause-ms", isSoak ? "1" : "10"])
      var cairns: [Child?] = [nil, nil, nil]
      func start(_ index: Int) throws {
        cairns[index] = try pairs.bench.start("cairn\(index)", Bench.cairn, arguments(ways[index].0, ways[index].1))
      }
      for index in ways.indices { try start(index) }
      for _ in 0..<(isSoak ? 100 : 8) {
        usleep(UInt32.random(in: 50_000...700_000, using: &random))
        let index = Int.random(in: 0..<3, using: &random)
        #expect(cairns[index]?.isRunning == true, "\(pairs.said("cairn\(index)"))")
        cairns[index]?.signal(SIGKILL)
        cairns[index]?.waitUntilExit()
        try start(index)
      }
      program.wait(seconds: isSoak ? 1200 : 120)
      #expect(program.terminationStatus == 0, "\(pairs.said("workload0"))")
      for cairn in cairns { _ = cairn.map { pairs.bench.stop($0) } }
      for (index, way) in ways.enumerated() {
        let outcome = try pairs.bench.run(
          Bench.cairn, arguments(way.0, way.1) + ["--once"], seconds: isSoak ? 1800 : 300)
        #expect(outcome.status == 0, "\(index): \(outcome.errors)")
      }
      for way in ways { try pairs.expectEqual(way.0, way.1) }
      try pairs.expectEqual(a, d)
    }

    @Test func `a pair that goes both ways reports that rows of a third database do not go on`() throws {
      let bench = try Bench()
      _ = try bench.sqlite("a.db", "CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT); INSERT INTO t VALUES (1, 'x')")
      func once(_ from: String, _ to: String, _ more: [String] = []) throws -> Outcome {
        let ends = ["--from", "sqlite:\(from).db", "--to", "sqlite:\(to).db", "--state", from + to]
        return try bench.run(Bench.cairn, ["replicate"] + ends + ["--once"] + more)
      }
      let first = try once("b", "c", ["--two-way"])
      #expect(first.status != 0, "there is no database b yet")
      #expect(try once("a", "b").status == 0)
      for _ in 0..<2 {
        let pair = try once("b", "c", ["--two-way"])
        #expect(pair.status == 0 && pair.errors.contains("are not sent to"), "\(pair.errors)")
      }
      _ = try bench.sqlite("d.db", "CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT); INSERT INTO t VALUES (1, 'x')")
      for _ in 0..<2 {
        let pair = try once("d", "e", ["--two-way"])
        #expect(pair.status == 0 && !pair.errors.contains("are not sent to"), "\(pair.errors)")
      }
    }

    @Test func `check, log and status say in one line whether rows go on, and which database lacks them`() throws {
      let node = try DaemonBench()
      _ = try node.bench.sqlite("source.db", "CREATE TABLE t(id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1)")
      _ = try node.bench.sqlite("target.db", "CREATE TABLE t(id INTEGER PRIMARY KEY)")
      func write(_ applied: String) throws {
        try node.write(
          node.pair(
            """
            [capture.copy]
            database = "copy"
            \(applied)
            [database.third]
            url = "sqlite://\(node.bench.path("third.db"))"
            [apply.third]
            trail = "store-042.copy"
            database = "third"
            """))
      }
      func third() -> String? { try? node.bench.sqlite("third.db", "SELECT count(*) FROM t") }
      let rows = "rows that [apply.copy] writes to database copy"
      let goOn = "\(rows) go into trail store-042.copy"
      try write("")
      let check = { try node.bench.run(Bench.cairn, ["check", "--config", "conf"]).output }
      func told(_ line: String, _ text: String) -> Int { text.components(separatedBy: line).count - 1 }
      try node.start()
      #expect(node.wait { third() == "1\n" }, "\(node.log)")
      #expect(node.wait { (try? node.cairn("status"))?.output.contains(goOn) == true }, "\(node.log)")
      for text in [try check(), node.log] { #expect(told(goOn, text) == 1, "\(text)") }

      let stay = "\(rows) do not go into trail store-042.copy (applied = \"skip\")"
      let lacks = "database third lacks what [apply.copy] writes to database copy (trail store-042.pos)"
      try write("applied = \"skip\"")
      #expect(try node.cairn("reload").status == 0)
      #expect(node.wait { (try? node.cairn("status"))?.output.contains(stay) == true }, "\(node.log)")
      #expect(node.wait { node.log.contains(lacks) }, "\(node.log)")
      for text in [try check(), node.log] { #expect(told(stay, text) == 1 && told(lacks, text) == 1, "\(text)") }
      _ = try node.bench.sqlite("source.db", "INSERT INTO t VALUES (2)")
      #expect(try node.bench.waitForTarget("SELECT count(*) FROM t", "2"), "\(node.log)")
      // An audit would find that row within seconds.
      usleep(5_000_000)
      #expect(try !node.cairn("status").output.contains("drift"))
      #expect(node.end() == 0)
      #expect(third() == "1\n")
    }

    @Test func `after a state folder was lost, the hint names the end whose rows a copy removes`() throws {
      let bench = try Bench()
      _ = try bench.sqlite("a.db", "CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT); INSERT INTO t VALUES (1, 'x')")
      let pair = ["replicate", "--two-way", "--once", "--from", "sqlite:a.db", "--to", "sqlite:b.db", "--state"]
      #expect(try bench.run(Bench.cairn, pair + ["state"]).status == 0)
      _ = try bench.sqlite("b.db", "INSERT INTO t VALUES (2, 'only at b')")
      try FileManager.default.removeItem(atPath: bench.path("state"))
      let outcome = try bench.run(Bench.cairn, pair + ["state"])
      #expect(outcome.status != 0 && outcome.errors.contains("checkpoint-foreign"), "\(outcome.errors)")
      #expect(outcome.errors.contains("cairn compare --from"), "\(outcome.errors)")
      #expect(!outcome.errors.contains("copy everything again"), "\(outcome.errors)")
      #expect(try bench.sqlite("b.db", "SELECT count(*) FROM t") == "2\n")
    }

    @Test func `two ways that meet are reported, and nothing goes round`() throws {
      let bench = try Bench()
      _ = try bench.sqlite("a.db", "CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT); INSERT INTO t VALUES (1, 'x')")
      func once(_ from: String, _ to: String, _ more: [String] = []) throws -> Outcome {
        try bench.run(
          Bench.cairn,
          ["replicate", "--from", "sqlite:\(from).db", "--to", "sqlite:\(to).db", "--state", from + to, "--once"]
            + more)
      }
      #expect(try once("a", "b").status == 0)
      let chained = try once("b", "c", ["--cascade"])
      #expect(chained.status == 0 && chained.errors.contains("are sent to"), "\(chained.errors)")
      let refused = try once("b", "a", ["--cascade"])
      #expect(refused.status != 0 && refused.errors.contains("--cascade is refused"), "\(refused.errors)")
      _ = try bench.sqlite("a.db", "INSERT INTO t VALUES (2, 'y'); UPDATE t SET v = 'X' WHERE id = 1")
      #expect(try once("a", "b").status == 0)
      #expect(try once("b", "c").status == 0)
      #expect(try bench.sqlite("c.db", "SELECT id, v FROM t ORDER BY id") == "1|X\n2|y\n")
      // The ring is closed only now: each row ends where it began.
      let closed = try once("c", "a", ["--existing", "keep", "--local-writes", "allow"])
      #expect(closed.status == 0, "\(closed.errors)")
      _ = try bench.sqlite("a.db", "INSERT INTO t VALUES (3, 'z')")
      func transactions(_ from: String, _ to: String) throws -> Int {
        let trail = try bench.run(Bench.cairn, ["trail", "show", "--state", from + to, "local.\(from)", "--json"])
        return trail.output.split(separator: "\n").filter { $0.contains("begin") }.count
      }
      for round in 0..<3 {
        for (from, to) in [("a", "b"), ("b", "c"), ("c", "a")] {
          let outcome = try once(from, to, to == "a" ? ["--local-writes", "allow"] : [])
          #expect(outcome.status == 0, "\(round): \(outcome.errors)")
        }
      }
      let before = try transactions("a", "b")
      for (from, to) in [("a", "b"), ("b", "c"), ("c", "a"), ("a", "b")] {
        #expect(try once(from, to, to == "a" ? ["--local-writes", "allow"] : []).status == 0)
      }
      #expect(try transactions("a", "b") == before)
      for name in ["a", "b", "c"] {
        #expect(try bench.sqlite("\(name).db", "SELECT id, v FROM t ORDER BY id") == "1|X\n2|y\n3|z\n")
      }
    }

    @Test func `a chain that an earlier version made gets what it lacks`() throws {
      let bench = try Bench()
      _ = try bench.sqlite("a.db", "CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT); INSERT INTO t VALUES (1, 'x')")
      func once(_ from: String, _ to: String) throws -> Outcome {
        try bench.run(
          Bench.cairn,
          ["replicate", "--from", "sqlite:\(from).db", "--to", "sqlite:\(to).db", "--state", from + to, "--once"])
      }
      func bringOn() throws {
        for (from, to) in [("a", "b"), ("b", "c")] {
          let outcome = try once(from, to)
          #expect(outcome.status == 0, "\(outcome.errors)")
        }
      }
      try bringOn()
      // Earlier versions had no such file, and what came to b after its first copy did not come to c.
      try FileManager.default.removeItem(atPath: bench.path("bc/local.b/applied"))
      _ = try bench.sqlite("b.db", "DELETE FROM cairn_control WHERE id = 4")
      _ = try bench.sqlite("a.db", "INSERT INTO t VALUES (2, 'y')")
      #expect(try once("a", "b").status == 0)
      #expect(try bench.sqlite("b.db", "SELECT count(*) FROM cairn_journal WHERE code % 8 = 2 AND code > 7") == "0\n")
      let healed = try once("b", "c")
      #expect(healed.status == 0 && healed.errors.contains("its tables are copied once"), "\(healed)")
      #expect(try bench.sqlite("c.db", "SELECT id, v FROM t ORDER BY id") == "1|x\n2|y\n")
      _ = try bench.sqlite("a.db", "UPDATE t SET v = 'Y' WHERE id = 2")
      try bringOn()
      #expect(try bench.sqlite("c.db", "SELECT id, v FROM t ORDER BY id") == "1|x\n2|Y\n")
      #expect(try !once("b", "c").errors.contains("its tables are copied once"))
    }
  }
}
