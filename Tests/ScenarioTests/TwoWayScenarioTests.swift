import Foundation
import TestServers
import Testing

extension Scenarios {
  /// Invariants 4, 7, 8 and 10 with `cairn replicate --two-way`: programs write to the same rows at both ends.
  @Suite(.enabled(if: postgresProblem == nil, "\(postgresProblem ?? "")"))
  struct TwoWayScenarioTests {
    enum Ends: String, CaseIterable, CustomTestStringConvertible, Sendable {
      case sqlite = "SQLite and SQLite"
      case mixed = "SQLite and PostgreSQL"
      case postgres = "PostgreSQL and PostgreSQL"
      var testDescription: String { rawValue }
      var isPostgres: (from: Bool, to: Bool) { (self == .postgres, self != .sqlite) }
    }

    private func pair(_ ends: Ends) throws -> PairBench {
      let pairs = try PairBench(fromPostgres: ends.isPostgres.from, toPostgres: ends.isPostgres.to)
      if !pairs.from.isPostgres { try pairs.sql(pairs.from, "PRAGMA journal_mode = WAL") }
      try pairs.bench.run(Bench.python, [Bench.tool("hot_keys.py"), pairs.from.url, "--schema"])
      return pairs
    }

    private func write(_ pairs: PairBench, _ end: End, _ node: String, _ seed: UInt64) throws -> Child {
      try pairs.bench.start(
        "program-\(node)", Bench.python,
        [Bench.tool("hot_keys.py"), end.url, "--node", node, "--seed", "\(seed)", "--pause-ms", "10"])
    }

    /// Ends the programs; returns how many rows they added to `once`.
    private func end(_ programs: [(name: String, child: Child)], _ pairs: PairBench) -> Int {
      programs.reduce(0) { sum, program in
        program.child.signal(SIGTERM)
        program.child.wait(seconds: 60)
        #expect(program.child.terminationStatus == 0, "\(pairs.said("program-\(program.name)"))")
        return sum + (Int(pairs.bench.text("program-\(program.name).out").split(separator: "\n").last ?? "") ?? -1)
      }
    }

    private func schema(_ pairs: PairBench, _ end: End) throws -> String {
      guard end.isPostgres else { return try pairs.sql(end, ".schema") }
      return try pairs.server.schema(end.name).split(separator: "\n").filter { !$0.hasPrefix("\\") }
        .joined(separator: "\n") + pairs.sql(end, "SELECT pubname FROM pg_publication")
    }

    /// How many changes the trails hold.
    private func changes(_ pairs: PairBench) throws -> Int {
      let trails = try FileManager.default.contentsOfDirectory(atPath: pairs.bench.path("state"))
        .filter { $0.hasPrefix("local.") || $0.hasPrefix("remote.") }
      #expect(trails.count == 2)
      return try trails.reduce(0) { sum, trail in
        let shown = try pairs.bench.run(Bench.cairn, ["trail", "show", trail, "--state", "state"])
        #expect(shown.status == 0, "\(shown.errors)")
        let words = [" insert ", " update ", " delete ", " row ", " truncate ", " drop "]
        return sum + shown.output.split(separator: "\n").count { line in words.contains { line.contains($0) } }
      }
    }

    @Test(arguments: Ends.allCases)
    func `programs at both ends, and kill -9 at random: rows come once, and are equal at the end`(ends: Ends) throws {
      let pairs = try pair(ends)
      let seed = drawSeed("two-way, \(ends.rawValue)")
      var random = Seeded(seed)
      let before = try schema(pairs, pairs.from)
      var programs = [("a", try write(pairs, pairs.from, "a", seed)), ("c", try write(pairs, pairs.from, "c", seed))]
      var cairn = try pairs.start("cairn", ["--two-way"])
      // Among the first who write to the tables as soon as they are there.
      programs.append(("b", try write(pairs, pairs.to, "b", seed)))
      for round in 0..<(isSoak ? 200 : 2) {
        usleep(UInt32.random(in: 100_000...800_000, using: &random))
        #expect(cairn.isRunning, "round \(round): \(pairs.said("cairn"))")
        cairn.signal(SIGKILL)
        cairn.waitUntilExit()
        cairn = try pairs.start("cairn", ["--two-way"])
      }
      usleep(1_000_000)
      let count = end(programs.map { (name: $0.0, child: $0.1) }, pairs)
      #expect(cairn.isRunning, "\(pairs.said("cairn"))")
      #expect(pairs.bench.stop(cairn) == 0, "\(pairs.said("cairn"))")
      let outcome = try pairs.once(["--two-way"])
      #expect(outcome.status == 0, "\(outcome.errors)")
      try pairs.expectEqual()
      #expect(try pairs.sql(pairs.from, "SELECT count(*) FROM once") == "\(count)")
      // No program writes any more, so nothing goes to and fro.
      let settled = try changes(pairs)
      cairn = try pairs.start("cairn", ["--two-way"])
      usleep(isSoak ? 10_000_000 : 1_000_000)
      #expect(pairs.bench.stop(cairn) == 0, "\(pairs.said("cairn"))")
      #expect(try changes(pairs) == settled)
      for end in [pairs.from, pairs.to] {
        let outcome = try pairs.bench.run(Bench.cairn, ["detach", end.url])
        #expect(outcome.status == 0, "\(outcome.errors)")
        #expect(try !schema(pairs, end).contains("cairn"))
      }
      #expect(try schema(pairs, pairs.from) == before)
    }

    @Test func `a long transaction of one program keeps no other one waiting for locks of ours`() throws {
      let pairs = try pair(.mixed)
      #expect(try pairs.once(["--two-way"]).status == 0)
      let cairn = try pairs.start("cairn", ["--two-way"])
      let long = try pairs.bench.start(
        "long", "/usr/bin/psql",
        ["-qX", pairs.to.url, "-c", "BEGIN; UPDATE hot SET note = 'long' WHERE id = 2; SELECT pg_sleep(3); COMMIT"])
      let sleeps = "SELECT 1 FROM pg_stat_activity WHERE query LIKE '%pg_sleep(3)%' AND wait_event = 'PgSleep'"
      #expect(pairs.waitForTarget(sleeps, "1"))
      // It writes row 1, and then has to wait for row 2.
      try pairs.sql(pairs.from, "UPDATE hot SET name = 'here' WHERE id IN (1, 2)")
      while long.isRunning {
        try pairs.sql(pairs.to, "SET lock_timeout = '900ms'; UPDATE hot SET stock = stock + 1 WHERE id = 1")
      }
      #expect(long.terminationStatus == 0, "\(pairs.said("long"))")
      #expect(pairs.bench.stop(cairn) == 0, "\(pairs.said("cairn"))")
      let outcome = try pairs.once(["--two-way"])
      #expect(outcome.status == 0, "\(outcome.errors)")
      try pairs.expectEqual()
      // It came last.
      #expect(try pairs.sql(pairs.from, "SELECT note FROM hot WHERE id = 2") == "long")
    }
  }
}
