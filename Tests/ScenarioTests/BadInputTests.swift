import Foundation
import Testing

extension Scenarios {
  /// A fault is reported in one line with a code and a hint, and leaves nothing that a second run cannot carry on from.
  @Suite struct BadInputTests {
    /// Runs cairn and expects an error of this code: one error line, one hint line.
    private func refuse(_ bench: Bench, _ arguments: [String], _ code: String, _ status: Int32) throws {
      let outcome = try bench.run(Bench.cairn, arguments, seconds: 60)
      let lines = outcome.errorLines
      #expect(outcome.status == status, "\(arguments): \(outcome.errors)")
      #expect(lines.count == 2, "\(arguments): \(outcome.errors)")
      #expect(lines.first?.hasPrefix("cairn: error [\(code)]: ") ?? false, "\(outcome.errors)")
      #expect(lines.last?.hasPrefix("hint: ") ?? false)
      #expect(try bench.run(Bench.cairn, ["explain", code]).status == 0)
    }

    private func replicate(_ from: String, _ to: String, _ more: [String] = []) -> [String] {
      ["replicate", "--from", from, "--to", to, "--state", "state", "--once"] + more
    }

    @Test func `words that make no sense are refused`() throws {
      let bench = try Bench()
      try refuse(bench, ["replicat"], "usage", 64)
      try refuse(bench, ["replicate", "--form", "x"], "usage", 64)
      try refuse(bench, ["replicate", "--from", "sqlite:a.db"], "usage", 64)
      try refuse(bench, replicate("sqlite:a.db", "sqlite:b.db", ["--existing", "maybe"]), "usage", 64)
      try refuse(bench, replicate("a.db", "sqlite:b.db"), "bad-url", 64)
      try refuse(bench, replicate("mysql://x/y", "sqlite:b.db"), "bad-url", 64)
      try refuse(bench, ["explain", "no-such-code"], "usage", 64)
    }

    @Test func `no error repeats a password, whatever is wrong with the URL or the words`() throws {
      let bench = try Bench()
      try bench.makeSample()
      let urls = [
        "postgresql://ann:S3cr%zzet@127.0.0.1:1/shop", "postgresql://ann:S3cret@[::1",
        "postgresql://ann:S3@zzet@127.0.0.1:1/shop",
        "postgresql://ann:S3?zzet@127.0.0.1:1/shop",
        "mysql://ann:S3cret@db/shop",
        "postgresql://ann@127.0.0.1:1/shop?password=S3cret", "postgresql://ann@127.0.0.1:1/shop?password=S3cret&bad=1",
        "postgresql://ann:S3cret@127.0.0.1:1/shop", "postgresql://ann:S3cret@127.0.0.1:port/shop",
      ]
      for url in urls {
        for words in [
          replicate(url, "sqlite:copy.db"), replicate("sqlite:source.db", url), ["check", "--from", url],
          ["compare", "--from", url, "--to", "sqlite:copy.db"], ["detach", url], ["detach", "sqlite:source.db", url],
          ["quarantine", "list", "--database", url], ["conflicts", "list", "--database", url],
          ["trail", "show", url, url],
          [url], ["explain", url], ["replicate", url], ["replicate", "--form=\(url)"], ["peer", "list", url],
          ["peer", url], ["status", url], ["copy", url, "--config", url],
        ] {
          let outcome = try bench.run(Bench.cairn, words, seconds: 60)
          let said = outcome.errors + outcome.output
          #expect(outcome.status != 0, "\(words)")
          for part in ["S3", "cret", "zzet"] { #expect(!said.contains(part), "\(words): \(said)") }
        }
      }
      let said = try bench.run(Bench.cairn, ["check", "--from", "postgresql://ann:S3cret@127.0.0.1:1/shop"]).errors
      #expect(said.contains("every user of this machine can read the password"))
      let line = "hq.example:7420/\(String(repeating: "a", count: 32))/\(String(repeating: "b", count: 64))"
      #expect(
        try bench.run(Bench.cairn, ["peer", "join", line, "--config", bench.path("none")]).errors.contains("token"))
    }

    @Test func `check says whether the capture of a source can be shared`() throws {
      let bench = try Bench()
      try bench.makeSample()
      let outcome = try bench.run(Bench.cairn, replicate("sqlite:source.db", "sqlite:copy.db"), seconds: 60)
      try #require(outcome.status == 0, "\(outcome.errors)")
      for target in ["other.db", "copy.db"] {
        #expect(
          try bench.run(Bench.cairn, ["check", "--from", "sqlite:source.db", "--to", "sqlite:\(target)"]).status == 0)
      }
      _ = try bench.sqlite("source.db", "UPDATE cairn_control SET place = '/elsewhere' WHERE id = 0")
      try refuse(bench, ["check", "--from", "sqlite:source.db", "--to", "sqlite:other.db"], "source-captured", 75)
    }

    @Test func `a database that is missing, none, a folder or the same is refused, and nothing is made`() throws {
      let bench = try Bench()
      try bench.makeSample()
      try Data("this is no database, only some text that is long enough to be read as a header".utf8).write(
        to: URL(fileURLWithPath: bench.path("text.db")))
      try FileManager.default.createDirectory(atPath: bench.path("folder"), withIntermediateDirectories: true)
      try FileManager.default.createSymbolicLink(
        atPath: bench.path("link.db"), withDestinationPath: bench.path("source.db"))
      try FileManager.default.linkItem(atPath: bench.path("source.db"), toPath: bench.path("hard.db"))
      try refuse(bench, replicate("sqlite:none.db", "sqlite:target.db"), "database-missing", 66)
      try refuse(bench, replicate("sqlite:source.db", "sqlite:no/such/target.db"), "database-missing", 66)
      try refuse(bench, replicate("sqlite:text.db", "sqlite:target.db"), "not-a-database", 65)
      try refuse(bench, replicate("sqlite:source.db", "sqlite:text.db"), "not-a-database", 65)
      try refuse(bench, replicate("sqlite:source.db", "sqlite:folder"), "not-a-database", 65)
      for same in ["source.db", "hard.db"] {
        try refuse(bench, replicate("sqlite:source.db", "sqlite:\(same)"), "same-database", 78)
      }
      try refuse(bench, replicate("sqlite:source.db", "sqlite:link.db"), "database-unsafe", 77)
      #expect(!FileManager.default.fileExists(atPath: bench.path("target.db")))
      #expect(try !bench.sqlite("source.db", ".schema").contains("cairn_"))
      #expect(try bench.replicateOnce().status == 0)
    }

    @Test func `a target with other rows stops before anything is written, and each answer is followed`() throws {
      for (existing, expected) in [
        ("keep", "1|mine\n2|two\n9|extra\n"), ("merge", "1|one\n2|two\n9|extra\n"), ("overwrite", "1|one\n2|two\n"),
      ] {
        let bench = try Bench()
        let create = "CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT);"
        _ = try bench.sqlite("source.db", create + "INSERT INTO t VALUES (1, 'one'), (2, 'two')")
        _ = try bench.sqlite("target.db", create + "INSERT INTO t VALUES (1, 'mine'), (9, 'extra')")
        let before = try Data(contentsOf: URL(fileURLWithPath: bench.path("target.db")))
        try refuse(bench, replicate("sqlite:source.db", "sqlite:target.db"), "target-differs", 65)
        #expect(try Data(contentsOf: URL(fileURLWithPath: bench.path("target.db"))) == before)
        #expect(try !bench.sqlite("source.db", ".schema").contains("cairn_"))
        let outcome = try bench.replicateOnce(["--existing", existing])
        #expect(outcome.status == 0, "\(outcome.errors)")
        #expect(try bench.sqlite("target.db", "SELECT * FROM t ORDER BY id") == expected, "\(existing)")
      }
    }

    @Test func `two runs on one state are refused`() throws {
      let bench = try Bench()
      try bench.makeSample()
      let cairn = try bench.startReplicating()
      #expect(try bench.waitForTarget("SELECT count(*) FROM sqlite_master WHERE name = 'ship'", "1"))
      try refuse(bench, replicate("sqlite:source.db", "sqlite:target.db"), "state-locked", 75)
      #expect(bench.stop(cairn, SIGTERM) == 0)
      try bench.makeSample("d.db")
      try refuse(bench, replicate("sqlite:d.db", "sqlite:target.db"), "state-foreign", 78)
      #expect(try bench.replicateOnce().status == 0)
      #expect(try bench.differences() == "")
    }

    @Test func `a folder as source, a damaged file and another program's lock are reported, and the next run succeeds`()
      throws
    {
      let bench = try Bench()
      try bench.makeSample()
      try FileManager.default.createDirectory(atPath: bench.path("folder"), withIntermediateDirectories: true)
      let folder = try bench.run(Bench.cairn, replicate("sqlite:folder", "sqlite:target.db"))
      #expect(folder.status == 65 || folder.status == 66, "\(folder.errors)")
      #expect(folder.errors.contains("folder") && folder.errors.contains("hint: "))
      var bytes = try Data(contentsOf: URL(fileURLWithPath: bench.path("source.db")))
      try #require(bytes.count > 8192)
      for index in 0..<bytes.count where index % 4096 > 4000 || index > 4096 { bytes[index] = 0x41 }
      try bytes.write(to: URL(fileURLWithPath: bench.path("damaged.db")))
      let damaged = try bench.run(Bench.cairn, replicate("sqlite:damaged.db", "sqlite:target.db"))
      #expect(damaged.status == 65, "\(damaged.errors)")
      #expect(damaged.errors.contains("[database-damaged]") || damaged.errors.contains("[not-a-database]"))
      let lock = try bench.start(
        "lock", Bench.python,
        [
          "-c",
          "import sqlite3,time\nc=sqlite3.connect('source.db',isolation_level=None)\nc.execute('PRAGMA locking_mode=EXCLUSIVE')\nc.execute('BEGIN IMMEDIATE')\ntime.sleep(100)",
        ])
      usleep(400_000)
      try refuse(bench, replicate("sqlite:source.db", "sqlite:target.db"), "database-busy", 75)
      lock.signal(SIGKILL)
      lock.waitUntilExit()
      #expect(try bench.replicateOnce().status == 0)
      #expect(try bench.differences() == "")
    }

    @Test func `a full disk under the state is reported, and the next run carries on`() throws {
      guard getuid() == 0 else { return print("skipped: only root can mount a small file system") }
      let bench = try Bench()
      try FileManager.default.createDirectory(atPath: bench.path("state"), withIntermediateDirectories: true)
      let mounted = try bench.run("/bin/mount", ["-t", "tmpfs", "-o", "size=3m", "tmpfs", "state"])
      guard mounted.status == 0 else { return print("skipped: cannot mount here: \(mounted.errors)") }
      defer { _ = try? bench.run("/bin/umount", ["-l", "state"]) }
      try bench.makeSample()
      #expect(try bench.replicateOnce().status == 0)
      _ = try bench.sqlite(
        "source.db",
        """
        CREATE TABLE big(id INTEGER PRIMARY KEY, v BLOB);
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
        INSERT INTO big SELECT i, randomblob(2000) FROM n
        """)
      try refuse(bench, replicate("sqlite:source.db", "sqlite:target.db"), "disk-full", 74)
      #expect(try bench.run("/bin/mount", ["-o", "remount,size=64m", "state"]).status == 0)
      let outcome = try bench.replicateOnce()
      #expect(outcome.status == 0, "\(outcome.errors)")
      #expect(try bench.differences() == "")
    }

    @Test func `rows that were changed at the target stop apply by name, and overwrite mends them`() throws {
      let bench = try Bench()
      _ = try bench.sqlite(
        "source.db",
        "PRAGMA journal_mode = WAL; CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT); INSERT INTO t VALUES (1, 'one'), (2, 'two')"
      )
      #expect(try bench.replicateOnce().status == 0)
      _ = try bench.sqlite("target.db", "UPDATE t SET v = 'stray' WHERE id = 2")
      _ = try bench.sqlite("source.db", "UPDATE t SET v = 'three' WHERE id = 2")
      try refuse(bench, replicate("sqlite:source.db", "sqlite:target.db"), "row-differs", 65)
      let outcome = try bench.run(Bench.cairn, replicate("sqlite:source.db", "sqlite:target.db"))
      for word in ["table t", "id=2", "column v"] { #expect(outcome.errors.contains(word), "\(outcome.errors)") }
      let mended = try bench.replicateOnce(["--existing", "overwrite"])
      #expect(mended.status == 0, "\(mended.errors)")
      #expect(try bench.differences() == "")
    }

    @Test func `signals end it cleanly, help has an example, facts are JSON`() throws {
      let bench = try Bench()
      try bench.makeSample()
      for signal in [SIGINT, SIGTERM] {
        let cairn = try bench.startReplicating()
        // Before its first word the program may not be there yet to answer a signal.
        for _ in 0..<1000 where !bench.text("cairn.out").contains("trail local.source") { usleep(10_000) }
        let begun = Date()
        #expect(bench.stop(cairn, signal) == 0)
        #expect(Date().timeIntervalSince(begun) < 5)
      }
      for command in ["replicate", "check", "trail", "unhook", "rehook", "detach", "explain"] {
        let help = try bench.run(Bench.cairn, [command, "--help"])
        #expect(help.status == 0 && help.output.contains("example"), "\(command)")
      }
      #expect(try bench.run(Bench.cairn, ["--version"]).output.hasPrefix("cairn "))
      let lines = try bench.replicateOnce(["--json"]).output.split(separator: "\n")
      #expect(lines.count >= 2)
      for line in lines { _ = try JSONSerialization.jsonObject(with: Data(line.utf8)) }
    }
  }
}
