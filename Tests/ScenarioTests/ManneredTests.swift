import Foundation
import TestServers
import Testing

extension Scenarios {
  /// How it ends, what it says, and what it may not do without rights.
  @Suite struct ManneredTests {
    private func isFollowing(_ bench: Bench) throws -> Bool {
      try bench.waitForTarget("SELECT count(*) FROM sqlite_master WHERE name = 'ship'", "1")
    }

    @Test(arguments: [SIGINT, SIGTERM])
    func `a signal ends it with 0 within seconds, in the copy, under load and at rest`(signal: Int32) throws {
      let bench = try Bench()
      try bench.makeSample()
      _ = try bench.sqlite(
        "source.db",
        "CREATE TABLE bulk(id INTEGER PRIMARY KEY, v); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000) INSERT INTO bulk SELECT i, hex(i) FROM n"
      )
      func end(_ when: String, _ cairn: Child) {
        let begun = Date()
        #expect(bench.stop(cairn, signal) == 0, "\(when): \(bench.text("cairn.err"))")
        #expect(Date().timeIntervalSince(begun) < 10, "\(when)")
      }
      let copying = try bench.startReplicating()
      usleep(400_000)
      end("in the copy", copying)
      let loaded = try bench.startReplicating()
      let program = try bench.workload(0, seed: 3, ["--seconds", "20"])
      #expect(try isFollowing(bench))
      usleep(500_000)
      end("under load", loaded)
      _ = bench.stop(program, SIGTERM)
      #expect(try bench.replicateOnce().status == 0)
      let resting = try bench.startReplicating()
      usleep(500_000)
      end("at rest", resting)
      #expect(try bench.differences() == "")
    }

    @Test func `a signal is heeded while another program holds the lock of the target`() throws {
      let bench = try Bench()
      try bench.makeSample()
      let cairn = try bench.startReplicating()
      #expect(try isFollowing(bench))
      let lock = try bench.start(
        "lock", Bench.python,
        [
          "-c",
          "import sqlite3,time\nc=sqlite3.connect('target.db',isolation_level=None)\nc.execute('BEGIN IMMEDIATE')\ntime.sleep(100)",
        ])
      usleep(500_000)
      _ = try bench.sqlite("source.db", "INSERT INTO tide(station, at, level_m) VALUES ('locked', '2030-01-01', 1)")
      usleep(1_000_000)
      let begun = Date()
      let status = bench.stop(cairn, SIGTERM)
      #expect(Date().timeIntervalSince(begun) < 3)
      #expect(status == 0, "\(bench.text("cairn.err"))")
      lock.signal(SIGKILL)
      lock.waitUntilExit()
      #expect(try bench.replicateOnce().status == 0)
      #expect(try bench.differences() == "")
    }

    @Test func `every line of --json is an object, in the copy, in following, at the end and in an error`() throws {
      let bench = try Bench()
      try bench.makeSample()
      let cairn = try bench.start("cairn", Bench.cairn, bench.replicateArguments + ["--json"])
      #expect(try isFollowing(bench))
      usleep(2_500_000)
      #expect(bench.stop(cairn) == 0)
      let following = try events(bench.text("cairn.out"))
      #expect(following.first == "started" && following.last == "finished")
      #expect(following.contains("copied") && following.contains("status"))
      for arguments in [
        ["check", "--from", "sqlite:source.db", "--to", "sqlite:target.db"], ["trail", "list", "--state", "state"],
        ["trail", "show", "--state", "state"], ["trail", "verify", "--state", "state"],
        ["unhook", "sqlite:source.db", "ship"],
        ["rehook", "sqlite:source.db"], ["detach", "sqlite:source.db"], ["explain"],
      ] {
        let outcome = try bench.run(Bench.cairn, arguments + ["--json"])
        #expect(outcome.status == 0, "\(arguments): \(outcome.errors)")
        #expect(!outcome.output.isEmpty, "\(arguments)")
        for line in outcome.output.split(separator: "\n") {
          #expect(try JSONSerialization.jsonObject(with: Data(line.utf8)) is [String: Any], "\(arguments): \(line)")
        }
      }
      let refused = try bench.run(
        Bench.cairn, ["replicate", "--from", "sqlite:none.db", "--to", "sqlite:target.db", "--json"])
      #expect(refused.status != 0)
      #expect(try events(refused.output).last == "error")
    }

    /// The `event` of each line.
    private func events(_ output: String) throws -> [String] {
      try output.split(separator: "\n").map { line in
        let object = try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any]
        return try #require(object?["event"] as? String, "\(line)")
      }
    }

    /// For root, who may write everywhere, the file system is mounted read-only.
    @Test func `a place that may not be written is refused by name, and works once it may`() throws {
      let bench = try Bench()
      let isRoot = getuid() == 0
      try FileManager.default.createDirectory(atPath: bench.path("shut"), withIntermediateDirectories: true)
      func shut(_ isShut: Bool) throws -> Bool {
        if isRoot {
          return try bench.run("/bin/mount", ["-o", isShut ? "remount,ro" : "remount,rw", "shut"]).status == 0
        }
        return chmod(bench.path("shut"), isShut ? 0o555 : 0o755) == 0
      }
      if isRoot {
        let mounted = try bench.run("/bin/mount", ["-t", "tmpfs", "-o", "size=8m", "tmpfs", "shut"])
        guard mounted.status == 0 else { return print("skipped: cannot mount here: \(mounted.errors)") }
      }
      defer {
        _ = try? shut(false)
        if isRoot { _ = try? bench.run("/bin/umount", ["-l", "shut"]) }
      }
      try bench.makeSample()
      try bench.makeSample("shut/source.db", mode: "delete")
      for (from, to, state, expected) in [
        ("shut/source.db", "target.db", "state1", "database-read-only"),
        ("source.db", "shut/target.db", "state2", "database-read-only"),
        ("source.db", "target3.db", "shut/state", "state-unwritable"),
      ] {
        let arguments = ["replicate", "--from", "sqlite:\(from)", "--to", "sqlite:\(to)", "--state", state, "--once"]
        #expect(try shut(true))
        let refused = try bench.run(Bench.cairn, arguments)
        #expect(refused.status == (expected == "state-unwritable" ? 73 : 77), "\(refused.errors)")
        let lines = refused.errorLines
        #expect(
          lines.count == 2 && lines.first?.hasPrefix("cairn: error [\(expected)]: ") ?? false, "\(refused.errors)")
        #expect(lines.last?.hasPrefix("hint: ") ?? false)
        #expect(try shut(false))
        let outcome = try bench.run(Bench.cairn, arguments)
        #expect(outcome.status == 0, "\(outcome.errors)")
        _ = try bench.run(Bench.cairn, ["detach", "sqlite:\(from)"])
      }
    }

    @Test func `check shows what would be captured, and writes nothing`() throws {
      let bench = try Bench()
      try bench.makeSample()
      let before = try bench.sqlite("source.db", ".dump")
      let outcome = try bench.run(Bench.cairn, ["check", "--from", "sqlite:source.db", "--to", "sqlite:target.db"])
      #expect(outcome.status == 0, "\(outcome.errors)")
      for word in [
        "table ship: key id", "table berth: key quay, number", "table tide: no key", "table log_search: not captured",
      ] {
        #expect(outcome.output.contains(word), "\(word)")
      }
      #expect(try bench.sqlite("source.db", ".dump") == before)
      #expect(!FileManager.default.fileExists(atPath: bench.path("target.db")))
    }
  }
}
