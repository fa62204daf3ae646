import Foundation
import TestServers
import Testing

extension Scenarios {
  /// Invariant 4 with PostgreSQL at an end: cairn is killed, the server restarted, connections ended.
  @Suite(.enabled(if: postgresProblem == nil, "\(postgresProblem ?? "")"))
  struct PairCrashTests {
    /// More rows than a copy can bring in the moments between two kills.
    private func fill(_ pairs: PairBench) throws {
      try pairs.makeSample()
      let rows = isSoak ? 200_000 : 30_000
      try pairs.sql(
        pairs.from,
        pairs.from.isPostgres
          ? """
          CREATE TABLE bulk(id int PRIMARY KEY, v text); INSERT INTO bulk SELECT i, md5(i::text) FROM generate_series(1, \(rows)) i;
          CREATE TABLE loose(a int, b text); ALTER TABLE loose REPLICA IDENTITY FULL;
          INSERT INTO loose SELECT id % 7, v FROM bulk WHERE id < 10000
          """
          : """
          CREATE TABLE bulk(id INTEGER PRIMARY KEY, v TEXT); CREATE TABLE loose(a INT, b TEXT);
          WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(rows))
          INSERT INTO bulk SELECT i, hex(i * i) FROM n; INSERT INTO loose SELECT id % 7, v FROM bulk WHERE id < 10000
          """)
    }

    private func startPrograms(_ pairs: PairBench, seed: UInt64, seconds: Int) throws -> [Child] {
      try (0..<2).map {
        try pairs.workload(
          $0, seed: seed, ["--seconds", "\(seconds)", "--mark", "--log", "committed\($0).log", "--pause-ms", "10"])
      }
    }

    /// Waits until cairn is past its start, where a server that is away is an error.
    private func waitUntilRunning(_ pairs: PairBench) throws {
      let limit = Date().addingTimeInterval(20)
      func isThere(_ end: End, _ query: String) throws -> Bool { try !end.isPostgres || pairs.sql(end, query) == "t" }
      while Date() < limit {
        if try isThere(
          pairs.from,
          "SELECT EXISTS (SELECT FROM pg_replication_slots WHERE active AND confirmed_flush_lsn IS NOT NULL)"),
          try isThere(pairs.to, "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'cairn')")
        {
          return
        }
        usleep(20_000)
      }
      Issue.record("cairn does not run: \(pairs.said("cairn"))")
    }

    /// Ends the programs, replicates what is left, and proves that nothing was lost or doubled.
    private func settle(_ pairs: PairBench, _ programs: [Child]) throws {
      for (index, program) in programs.enumerated() {
        program.signal(SIGTERM)
        program.wait(seconds: 60)
        #expect(program.terminationStatus == 0, "\(pairs.said("workload\(index)"))")
      }
      let outcome = try pairs.once(seconds: 300)
      #expect(outcome.status == 0, "\(outcome.errors)")
      try pairs.expectEqual()
      for process in programs.indices {
        let acknowledged = Int(pairs.bench.text("committed\(process).log").split(separator: "\n").last ?? "0") ?? 0
        let arrived = try pairs.sql(
          pairs.to, "SELECT coalesce(max(seq), 0) FROM workload_marks WHERE process = \(process)")
        #expect(try #require(Int(arrived)) >= acknowledged)
      }
      let verified = try pairs.bench.run(Bench.cairn, ["trail", "verify", "--state", "state"])
      #expect(verified.status == 0, "\(verified.errors)")
    }

    @Test(arguments: Pair.allCases)
    func `kill -9 at random moments of copy and follow loses and doubles nothing`(pair: Pair) throws {
      let pairs = try PairBench(pair)
      let seed = drawSeed(pair.rawValue)
      var random = Seeded(seed)
      try fill(pairs)
      let programs = try startPrograms(pairs, seed: seed, seconds: isSoak ? 900 : 60)
      for round in 0..<(isSoak ? 200 : 4) {
        let cairn = try pairs.start("cairn\(round)")
        usleep(UInt32.random(in: 30_000...1_500_000, using: &random))
        #expect(cairn.isRunning, "round \(round): \(pairs.said("cairn\(round)"))")
        cairn.signal(SIGKILL)
        cairn.waitUntilExit()
      }
      try settle(pairs, programs)
    }

    @Test(arguments: Pair.allCases)
    func `a server that is restarted or crashes under load is waited for`(pair: Pair) throws {
      let server = try PostgresServer()
      let pairs = try PairBench(pair, server)
      let seed = drawSeed(pair.rawValue)
      var random = Seeded(seed)
      try fill(pairs)
      let cairn = try pairs.start()
      try waitUntilRunning(pairs)
      let programs = try startPrograms(pairs, seed: seed, seconds: isSoak ? 600 : 60)
      for round in 0..<(isSoak ? 20 : 2) {
        usleep(UInt32.random(in: 300_000...2_500_000, using: &random))
        let begun = Date()
        try server.restart(round % 2 == 0 ? .immediate : .fast)
        // A shutdown does not have to wait for us.
        #expect(Date().timeIntervalSince(begun) < 25)
        #expect(cairn.isRunning, "round \(round): \(pairs.said("cairn"))")
      }
      usleep(1_000_000)
      #expect(pairs.bench.stop(cairn) == 0, "\(pairs.said("cairn"))")
      try settle(pairs, programs)
    }

    @Test(arguments: Pair.allCases)
    func `connections that an administrator ends are made again`(pair: Pair) throws {
      let pairs = try PairBench(pair)
      let seed = drawSeed(pair.rawValue)
      var random = Seeded(seed)
      try fill(pairs)
      let cairn = try pairs.start()
      try waitUntilRunning(pairs)
      let programs = try startPrograms(pairs, seed: seed, seconds: isSoak ? 600 : 60)
      var ended = 0
      for round in 0..<(isSoak ? 50 : 3) {
        usleep(UInt32.random(in: 200_000...1_500_000, using: &random))
        ended += try pairs.server.terminateConnections(like: "cairn%")
        #expect(cairn.isRunning, "round \(round): \(pairs.said("cairn"))")
      }
      #expect(ended > 0)
      usleep(500_000)
      #expect(pairs.bench.stop(cairn) == 0, "\(pairs.said("cairn"))")
      try settle(pairs, programs)
    }

    @Test func `a server that is away for a while is found again, also when it has another address`() throws {
      let server = try PostgresServer()
      let pairs = try PairBench(.postgresToSQLite, server)
      try pairs.sql(pairs.from, "CREATE TABLE t(id int PRIMARY KEY); INSERT INTO t VALUES (1)")
      let cairn = try pairs.start()
      #expect(pairs.waitForTarget("SELECT count(*) FROM t", "1"))
      try server.stop()
      usleep(3_000_000)
      #expect(cairn.isRunning, "\(pairs.said("cairn"))")
      try server.start()
      try pairs.sql(pairs.from, "INSERT INTO t VALUES (2)")
      #expect(pairs.waitForTarget("SELECT count(*) FROM t", "2"), "\(pairs.said("cairn"))")
      #expect(pairs.bench.stop(cairn) == 0)
    }
  }
}
