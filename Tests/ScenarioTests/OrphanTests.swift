import Foundation
import TestServers
import Testing

extension Scenarios {
  /// Parts of a capture that are left in an SQLite file after an application or an operator removed the others.
  @Suite struct OrphanTests {
    private static let pair = ["--from", "sqlite:source.db", "--to", "sqlite:target.db"]

    private func captured() throws -> Bench {
      let bench = try Bench()
      _ = try bench.sqlite(
        "source.db",
        "PRAGMA journal_mode = WAL; CREATE TABLE t(id INTEGER PRIMARY KEY, a); INSERT INTO t VALUES (1, 'one')")
      #expect(try bench.replicateOnce().status == 0)
      return bench
    }

    private func check(_ bench: Bench) throws -> Outcome {
      try bench.run(Bench.cairn, ["check", "--from", "sqlite:source.db"])
    }

    private func drop(_ type: String, like name: String, _ bench: Bench) throws {
      let statements = try bench.sqlite(
        "source.db",
        "SELECT printf('DROP \(type) \"%w\";', name) FROM sqlite_master WHERE type = '\(type)' AND name LIKE '\(name)'")
      _ = try bench.sqlite("source.db", statements)
    }

    private func writes(_ bench: Bench, _ id: Int) throws -> Bool {
      try bench.run("/usr/bin/sqlite3", ["-bail", "source.db", "INSERT INTO t VALUES (\(id), 'later')"]).status == 0
    }

    private func startAgain(_ bench: Bench) throws {
      #expect(try bench.run(Bench.cairn, ["detach", "sqlite:source.db"]).status == 0)
      let again = try bench.run(
        Bench.cairn, ["replicate", "--once", "--state", "new", "--existing", "overwrite"] + Self.pair)
      #expect(again.status == 0, "\(again.errors)")
      let rows = try bench.sqlite("source.db", "SELECT * FROM t")
      #expect(try bench.sqlite("target.db", "SELECT * FROM t") == rows)
      #expect(try !check(bench).output.contains("DROP TRIGGER"))
    }

    /// As `fossil rebuild` does.
    @Test(arguments: ["cairn_journal", "cairn_layout", "cairn_control", "cairn_%"])
    func `check names the tables that cannot be written, and replicate lets applications write again`(
      dropped: String
    ) throws {
      let bench = try captured()
      try drop("table", like: dropped, bench)
      // No trigger needs the layouts.
      let isBroken = dropped != "cairn_layout"
      for _ in 0..<2 {
        // The check only reads.
        let checked = try check(bench)
        #expect(checked.status == 65 && checked.errors.contains("[source-went-back]"), "\(checked)")
        #expect(checked.errors.contains("every write to t fails") == isBroken, "\(checked)")
        #expect(checked.errors.contains("nothing that is written there is captured") == !isBroken, "\(checked)")
        #expect(checked.errors.contains("'cairn detach sqlite:"), "\(checked)")
        #expect(try writes(bench, Int.random(in: 100...10_000_000)) == !isBroken)
      }
      for id in 2...3 {
        let run = try bench.replicateOnce()
        #expect(run.status == 65 && run.errors.contains("[source-went-back]"), "\(run)")
        #expect(try writes(bench, id))
      }
      try startAgain(bench)
    }

    @Test(arguments: ["cairn_%", "cairn_%_insert%", "cairn_%_delete%"])
    func `check names tables that lack triggers of Cairn, and capture copies them`(dropped: String) throws {
      let bench = try captured()
      #expect(try !check(bench).output.contains("triggers of Cairn are missing"))
      try drop("trigger", like: dropped, bench)
      _ = try bench.sqlite("source.db", "UPDATE t SET a = 'new'; INSERT INTO t VALUES (2, 'two')")
      #expect(try check(bench).output.contains("note: triggers of Cairn are missing on t, "))
      let run = try bench.replicateOnce()
      #expect(run.status == 0, "\(run)")
      #expect(try bench.sqlite("target.db", "SELECT * FROM t") == "1|new\n2|two\n")
      #expect(try !check(bench).output.contains("triggers of Cairn are missing"))
    }

    @Test(arguments: [true, false])
    func `check reports a capture whose state folder is lost`(isEmptied: Bool) throws {
      let bench = try captured()
      let note = "does not have the trail of that capture"
      #expect(try !check(bench).output.contains(note))
      try FileManager.default.removeItem(atPath: bench.path(isEmptied ? "state/local.source" : "state"))
      let checked = try check(bench)
      #expect(checked.status == 0 && checked.output.contains(note), "\(checked)")
      #expect(checked.output.contains("'cairn detach sqlite:"), "\(checked)")
      #expect(try writes(bench, 2))
      try startAgain(bench)
    }
  }
}

extension DaemonScenarios {
  /// The same with a daemon.
  @Suite struct DaemonOrphanTests {
    @Test func `check of a conf names the tables that cannot be written, and the daemon lets applications write`()
      throws
    {
      let node = try DaemonBench()
      _ = try node.bench.sqlite("source.db", "CREATE TABLE t(id INTEGER PRIMARY KEY, a); INSERT INTO t VALUES (1, 1)")
      try node.write(node.pair())
      try node.start()
      #expect(try node.bench.waitForTarget("SELECT count(*) FROM t", "1"), "\(node.log)")
      #expect(node.end() == 0)
      _ = try node.bench.sqlite("source.db", "DROP TABLE cairn_journal; DROP TABLE cairn_stage")
      let checked = try node.bench.run(Bench.cairn, ["check", "--config", "conf"])
      #expect(checked.status == 65 && checked.errors.contains("every write to t fails"), "\(checked)")
      #expect(checked.output.contains("not ready: 1 error"), "\(checked)")
      try node.start()
      #expect(node.wait(for: "capture.pos", "failed", code: "source-went-back"), "\(node.log)")
      _ = try node.bench.sqlite("source.db", "INSERT INTO t VALUES (2, 2)")
      let running = try node.bench.run(Bench.cairn, ["check", "--config", "conf"])
      #expect(running.status == 65 && !running.output.contains("all is ready"), "\(running)")
      #expect(node.end() == 0)
    }
  }
}
