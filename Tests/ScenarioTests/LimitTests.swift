import Foundation
import TestServers
import Testing

extension Scenarios {
  /// Invariants 9 and 10: bounded, and a good guest.
  @Suite struct LimitTests {
    @Test func `one large transaction needs little memory at both ends`() throws {
      let bench = try Bench()
      _ = try bench.sqlite(
        "source.db", "PRAGMA journal_mode = WAL; CREATE TABLE t(id INTEGER PRIMARY KEY, a INT, b TEXT)")
      let cairn = try bench.startReplicating()
      let rows = isSoak ? 1_000_000 : 100_000
      _ = try bench.sqlite(
        "source.db",
        """
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(rows))
        INSERT INTO t SELECT i, i * 3, 'a text that makes the row some hundred bytes long, number ' || i FROM n
        """)
      var peak = 0
      let limit = Date().addingTimeInterval(120)
      while Date() < limit {
        peak = max(peak, cairn.anonymousKiB)
        let arrived = try bench.run("/usr/bin/sqlite3", ["-readonly", "target.db", "SELECT count(*) FROM t"])
        if arrived.output == "\(rows)\n" { break }
      }
      print("peak anonymous memory \(peak) KiB for a transaction of \(rows) rows")
      #expect(peak > 0 && peak < 100 * 1024)
      #expect(bench.stop(cairn) == 0)
      #expect(try bench.differences() == "")
    }

    @Test func `idle, it uses next to no processor time`() throws {
      let bench = try Bench()
      try bench.makeSample()
      let cairn = try bench.startReplicating()
      #expect(try bench.waitForTarget("SELECT count(*) FROM sqlite_master WHERE name = 'ship'", "1"))
      usleep(2_000_000)
      /// Nanoseconds of processor time of all threads that run. The ticks of /proc/PID/stat are 10 ms each: too coarse here.
      func used() throws -> Int {
        let tasks = "/proc/\(cairn.processIdentifier)/task"
        return try FileManager.default.contentsOfDirectory(atPath: tasks).reduce(into: 0) { sum, task in
          guard let text = try? String(contentsOfFile: "\(tasks)/\(task)/schedstat", encoding: .utf8) else { return }
          sum += try #require(text.split(separator: " ").first.flatMap { Int($0) })
        }
      }
      // Other load on the machine makes the same work dearer, never cheaper: the least of some stretches is what it needs.
      let seconds = isSoak ? 30 : 5
      var least = Int.max
      for _ in 0..<3 {
        let before = try used()
        usleep(UInt32(seconds) * 1_000_000)
        least = min(least, try used() - before)
        if least <= seconds * 1_000_000 { break }
      }
      print("idle for \(seconds) s: \(least / 1000) us of processor time")
      #expect(least >= 0 && least <= seconds * 1_000_000 * (isSoak ? 1 : 2))
      #expect(bench.stop(cairn) == 0)
    }

    @Test func `a single row is at the target within milliseconds`() throws {
      let bench = try Bench()
      _ = try bench.sqlite("source.db", "PRAGMA journal_mode = WAL; CREATE TABLE t(id INTEGER PRIMARY KEY, a INT)")
      let cairn = try bench.startReplicating()
      #expect(try bench.waitForTarget("SELECT count(*) FROM sqlite_master WHERE name = 't'", "1"))
      usleep(300_000)
      let probe = """
        import sqlite3, time
        c = sqlite3.connect('source.db', isolation_level=None); d = sqlite3.connect('target.db', isolation_level=None)
        took = []
        for i in range(\(isSoak ? 200 : 40)):
            c.execute('INSERT INTO t(a) VALUES (?)', (i,)); t = time.perf_counter()
            while not d.execute('SELECT 1 FROM t WHERE a = ?', (i,)).fetchone() and time.perf_counter() - t < 10: pass
            took.append((time.perf_counter() - t) * 1000); time.sleep(0.02)
        took.sort(); print('%.2f' % took[len(took) // 2])
        """
      let outcome = try bench.run(Bench.python, ["-c", probe])
      let median = try #require(Double(outcome.output.trimmingCharacters(in: .newlines)))
      print("commit to visible at the target: p50 \(median) ms")
      // The goal is 10 ms; a shared machine that runs the other tests as well is given more when reduced.
      #expect(median < (isSoak ? 10 : 100))
      #expect(bench.stop(cairn) == 0)
    }

    @Test func `a program without a busy timeout hardly ever finds our lock`() throws {
      let bench = try Bench()
      let tool = Bench.tool("busy.py")
      try bench.run(Bench.python, [tool, "source.db", "--setup", "--transactions", "1"])
      let cairn = try bench.startReplicating()
      #expect(try bench.waitForTarget("SELECT count(*) FROM sqlite_master WHERE name = 'busy_log'", "1"))
      struct Counts: Decodable { var attempts: Int, busy: Int }
      func count(seconds: Int) throws -> Counts {
        let outcome = try bench.run(Bench.python, [tool, "source.db", "--seconds", "\(seconds)"])
        return try JSONDecoder().decode(Counts.self, from: Data(outcome.output.utf8))
      }
      let counts = try count(seconds: isSoak ? 60 : 8)
      #expect(bench.stop(cairn) == 0)
      let alone = try count(seconds: isSoak ? 10 : 2)
      print(
        "\(counts.busy) of \(counts.attempts) attempts found the database busy; alone \(alone.busy) of \(alone.attempts)"
      )
      #expect(alone.busy == 0)
      #expect(counts.busy * (isSoak ? 10_000 : 1000) <= counts.attempts)
      #expect(try bench.replicateOnce().status == 0)
      #expect(try bench.differences() == "")
    }
  }
}
