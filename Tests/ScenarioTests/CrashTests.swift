import Foundation
import TestServers
import Testing

extension Scenarios {
  /// Invariant 4: kill anything at any instant, cut the power: nothing is lost, nothing is applied twice.
  @Suite struct CrashTests {
    @Test func `kill -9 at random moments of copy and follow loses and doubles nothing`() throws {
      let bench = try Bench()
      let seed = UInt64.random(in: 1...1_000_000)
      print("seed \(seed)")
      var random = Seeded(seed)
      try bench.makeSample()
      _ = try bench.sqlite(
        "source.db",
        """
        CREATE TABLE bulk(id INTEGER PRIMARY KEY, v TEXT); CREATE TABLE loose(a, b);
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000)
        INSERT INTO bulk SELECT i, hex(i * i) FROM n; INSERT INTO loose SELECT id % 7, v FROM bulk WHERE id < 20000
        """)
      let programs = try (0..<2).map {
        try bench.workload(
          $0, seed: seed,
          ["--seconds", isSoak ? "600" : "40", "--mark", "--log", "committed\($0).log", "--pause-ms", "10"])
      }
      for round in 0..<(isSoak ? 200 : 10) {
        let cairn = try bench.startReplicating("cairn\(round)")
        usleep(UInt32.random(in: 30_000...1_200_000, using: &random))
        #expect(cairn.isRunning, "round \(round): \(bench.text("cairn\(round).err"))")
        cairn.signal(SIGKILL)
        cairn.waitUntilExit()
      }
      for program in programs { _ = bench.stop(program, SIGTERM) }
      let outcome = try bench.replicateOnce()
      #expect(outcome.status == 0, "\(outcome.errors)")
      #expect(try bench.differences() == "")
      for process in 0..<2 {
        let acknowledged = Int(bench.text("committed\(process).log").split(separator: "\n").last ?? "0") ?? 0
        let arrived = try bench.sqlite(
          "target.db", "SELECT ifnull(max(seq), 0) FROM workload_marks WHERE process = \(process)")
        #expect(try #require(Int(arrived.trimmingCharacters(in: .newlines))) >= acknowledged)
      }
      let verified = try bench.run(Bench.cairn, ["trail", "verify", "--state", "state"])
      #expect(verified.status == 0, "\(verified.errors)")
    }

    /// Everything that the programs wrote and synced is recorded, and rebuilt as a power cut may leave it.
    @Test func `a replication that was killed before its trail began goes on`() throws {
      let bench = try Bench()
      _ = try bench.sqlite("source.db", "CREATE TABLE t(a); INSERT INTO t VALUES (1)")
      // The whole content when its writer has made the folder and taken the lock.
      let folder = bench.path("state/local.source")
      try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
      #expect(FileManager.default.createFile(atPath: folder + "/lock", contents: nil))
      let outcome = try bench.replicateOnce()
      #expect(outcome.status == 0, "\(outcome.errors)")
      #expect(try bench.differences() == "")
    }

    @Test(arguments: [("wal", "NORMAL"), ("wal", "FULL"), ("delete", "FULL")])
    func `after a power cut the ends are equal again, or it is said that the source went back`(
      journalMode: String, synchronous: String
    ) throws {
      let bench = try Bench()
      let seed = UInt64.random(in: 1...1_000_000)
      print("seed \(seed), journal mode \(journalMode), synchronous \(synchronous)")
      let tools = Bench.tool("powercut")
      let built = try bench.run(
        "/usr/bin/gcc", ["-shared", "-fPIC", "-O2", "-o", "librecorder.so", "\(tools)/recorder.c", "-ldl"])
      #expect(built.status == 0, "\(built.errors)")
      try FileManager.default.createDirectory(atPath: bench.path("root"), withIntermediateDirectories: true)
      _ = try bench.sqlite(
        "root/source.db",
        """
        PRAGMA journal_mode = \(journalMode); CREATE TABLE t(id INTEGER PRIMARY KEY, a, b TEXT); CREATE TABLE k(a, b);
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
        INSERT INTO t SELECT i, i, hex(i) FROM n; PRAGMA wal_checkpoint(TRUNCATE)
        """)
      try bench.run("/bin/cp", ["-a", "root", "base"])
      let record = [
        "LD_PRELOAD": bench.path("librecorder.so"), "POWERCUT_ROOT": bench.path("root"),
        "POWERCUT_LOG": bench.path("run.log"),
      ]
      let arguments = [
        "replicate", "--from", "sqlite:root/source.db", "--to", "sqlite:root/target.db", "--state", "root/state",
      ]
      let cairn = try bench.start("cairn", Bench.cairn, arguments, environment: record)
      usleep(150_000)
      let writer = """
        import sqlite3, random, time
        r = random.Random(\(seed)); c = sqlite3.connect('root/source.db', isolation_level=None, timeout=20)
        c.execute('PRAGMA synchronous = \(synchronous)')
        for n in range(\(isSoak ? 1500 : 300)):
            c.execute('BEGIN')
            for _ in range(r.choice((1, 1, 5, 40))):
                i = r.randrange(4000)
                c.execute(r.choice(('REPLACE INTO t VALUES (?1, ?2, hex(?2))', 'UPDATE t SET a = ?2 WHERE id = ?1',
                                    'DELETE FROM t WHERE id = ?1 AND ?2', 'INSERT INTO k VALUES (?1 % 9, ?2 % 5)',
                                    'DELETE FROM k WHERE rowid = ?1 % 50 AND ?2')), (i, n))
            c.execute(r.choice(('COMMIT', 'COMMIT', 'COMMIT', 'ROLLBACK')))
            if n % 10 == 0: time.sleep(0.01)
        """
      let program = try bench.run(Bench.python, ["-c", writer], environment: record)
      #expect(program.status == 0, "\(program.errors)")
      usleep(400_000)
      #expect(bench.stop(cairn) == 0, "\(bench.text("cairn.err"))")

      let judge = """
        import random, subprocess, sys
        sys.path.insert(0, '\(tools)'); import replay
        total = replay.count('run.log'); r = random.Random(\(seed))
        for n in range(\(isSoak ? 70 : 6)):
            at = r.randrange(1, total + 1)
            replay.build('run.log', 'base', at, \(seed) + n, 'random', 'root')
            p = subprocess.run([\(Bench.cairn.debugDescription)] + \(arguments) + ['--once'], capture_output=True, text=True)
            if p.returncode == 0:
                q = subprocess.run(['\(Bench.python)', '\(Bench.tool("compare.py"))', 'root/source.db', 'root/target.db'],
                                   capture_output=True, text=True)
                print('equal' if q.returncode == 0 else 'DIFFERENT at %d: %s' % (at, q.stdout[-300:]))
            else:
                print('stopped [source-went-back]' if '[source-went-back]' in p.stderr else 'STOPPED at %d: %s' % (at, p.stderr))
        """
      try bench.run("/bin/mv", ["root", "live"])
      let judged = try bench.run(Bench.python, ["-c", judge], seconds: isSoak ? 900 : 200)
      #expect(judged.status == 0, "\(judged.errors.suffix(800))")
      let verdicts = judged.output.split(separator: "\n")
      #expect(verdicts.count == (isSoak ? 70 : 6))
      #expect(verdicts.allSatisfy { $0 == "equal" || $0 == "stopped [source-went-back]" }, "\(judged.output)")
      #expect(verdicts.contains("equal"))
    }
  }
}
