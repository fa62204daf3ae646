import Foundation
import TestServers
import Testing

extension DaemonScenarios {
  /// A local user who may write to the folder of a captured file, against the daemon's own files.
  @Suite struct HostileFileTests {
    @Test func `a journal that names a file of the daemon deletes nothing, and capture says so until it is gone`()
      throws
    {
      let node = try DaemonBench()
      _ = try node.bench.sqlite(
        "source.db", "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT); INSERT INTO item VALUES (1, 'tea')")
      _ = try node.bench.sqlite("tenant.db", "CREATE TABLE salary(a)")
      try node.write(node.pair())
      try node.start()
      #expect(try node.bench.waitForTarget("SELECT count(*) FROM item", "1"), "\(node.log)")
      let (files, revoked) = (FileManager.default, node.bench.path("state/peers/revoked"))
      try files.createDirectory(atPath: node.bench.path("state/peers"), withIntermediateDirectories: true)
      try Data("00\n".utf8).write(to: URL(fileURLWithPath: revoked))
      let trail = node.bench.path("state/store-042.pos")
      let segments = try files.contentsOfDirectory(atPath: trail).map { trail + "/" + $0 }.sorted()
      try #require(segments.count > 1)
      let victims = [revoked, node.bench.path("tenant.db")] + segments

      // At work: the next look meets the journal.
      // A write of capture, which may still note that the table is copied, takes a journal away.
      let isFound = node.wait {
        if !files.fileExists(atPath: node.bench.path("source.db-journal")) {
          try? ForgedJournal.write(for: node.bench.path("source.db"), naming: revoked)
        }
        return node.log.contains("[database-unsafe]")
      }
      #expect(isFound, "\(node.log)")
      for victim in victims { #expect(files.fileExists(atPath: victim), "\(victim)") }
      #expect(
        node.wait {
          guard let status = try? node.cairn("status") else { return false }
          return status.status == 1 && status.output.contains("names another file")
        }, "\(node.log)")

      // At its start.
      #expect(node.end() == 0)
      for victim in victims {
        try ForgedJournal.write(for: node.bench.path("source.db"), naming: victim)
        let outcome = try node.bench.run(Bench.cairn, ["check", "--config", "conf"])
        #expect(outcome.errors.contains("[database-unsafe]") && outcome.errors.contains("hint:"), "\(outcome)")
        #expect(files.fileExists(atPath: victim), "\(victim)")
      }
      try node.start()
      #expect(
        node.wait {
          node.worker("capture.pos")?["state"] as? String != "running" && node.log.contains("[database-unsafe]")
        })
      for victim in victims { #expect(files.fileExists(atPath: victim), "\(victim)") }

      // Without the forgery it goes on by itself.
      try files.removeItem(atPath: node.bench.path("source.db-journal"))
      _ = try node.bench.sqlite("source.db", "INSERT INTO item VALUES (2, 'milk')")
      #expect(
        node.wait(seconds: 90) { (try? node.bench.sqlite("target.db", "SELECT count(*) FROM item")) == "2\n" },
        "\(node.log)")
      #expect(node.end() == 0)
    }

    /// SQLite maps `-shm` into memory. Without a handler of SIGBUS, the first round ends the daemon.
    @Test func `a log's shared memory that is truncated again and again stops one capture, never the daemon`() throws {
      let node = try DaemonBench()
      let rows = "SELECT count(*) FROM item"
      for name in ["source.db", "other.db"] {
        _ = try node.bench.sqlite(
          name,
          "PRAGMA journal_mode = WAL; CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT); INSERT INTO item VALUES (1, 'tea')"
        )
      }
      try node.write(
        node.pair(
          """
          [database.other]
          url = "sqlite://\(node.bench.path("other.db"))"
          [database.copied]
          url = "sqlite://\(node.bench.path("copied.db"))"
          [capture.other]
          database = "other"
          [apply.copied]
          trail = "store-042.other"
          database = "copied"
          """))
      try node.start()
      #expect(try node.bench.waitForTarget(rows, "1"), "\(node.log)")
      let source = node.bench.path("source.db")
      var rounds = 0
      let isUnsafe = node.wait(seconds: 30) {
        for _ in 0..<10 {
          if truncate(source + "-shm", 0) == 0 { rounds += 1 }
          if let log = FileHandle(forWritingAtPath: source + "-wal") {
            log.seekToEndOfFile()
            log.write(Data("x".utf8))
            try? log.close()
          }
          usleep(5_000)
        }
        return rounds > 200 && node.log.contains("[database-unsafe]")
      }
      #expect(isUnsafe && node.log.contains("source.db-shm was truncated"), "\(rounds) rounds: \(node.log)")
      #expect(node.daemon?.isRunning == true, "\(node.log)")
      // The others go on, and so does this one when the attack is over.
      _ = try node.bench.sqlite("other.db", "INSERT INTO item VALUES (2, 'milk')")
      #expect(
        node.wait { (try? node.bench.sqlite("copied.db", rows)) == "2\n" }, "\(node.log)")
      _ = try node.bench.sqlite("source.db", "INSERT INTO item VALUES (2, 'milk')")
      #expect(node.wait(seconds: 90) { (try? node.bench.sqlite("target.db", rows)) == "2\n" }, "\(node.log)")
      #expect(node.end() == 0)
    }

    /// Numbers of Cairn's own tables in a captured file, which any writer of the file can change.
    @Test(arguments: [
      "INSERT INTO cairn_journal(seq, code) VALUES (9223372036854775807, 0), (-5, 0)",
      """
      INSERT INTO cairn_journal(seq, code) VALUES (9223372036854775807, 0);
      UPDATE cairn_control SET taken = -9223372036854775808, cap = -9223372036854775808
      """,
      """
      UPDATE cairn_control SET schema_version = -9223372036854775808, purged = 9223372036854775807,
        nonce = -9223372036854775808, cap = 9223372036854775807
      """,
    ])
    func `extreme numbers in the tables of a captured file end no daemon, now or after a restart`(forgery: String)
      throws
    {
      let node = try DaemonBench()
      let table = "PRAGMA journal_mode = WAL; CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT);"
      for name in ["source.db", "other.db"] {
        _ = try node.bench.sqlite(name, table + "INSERT INTO item VALUES (1, 'a')")
      }
      try node.write(
        node.pair(
          """
          [database.other]
          url = "sqlite://\(node.bench.path("other.db"))"
          [database.copied]
          url = "sqlite://\(node.bench.path("copied.db"))"
          [capture.other]
          database = "other"
          [apply.copied]
          trail = "store-042.other"
          database = "copied"
          """))
      try node.start()
      let rows = "SELECT count(*) FROM item"
      #expect(try node.bench.waitForTarget(rows, "1"), "\(node.log)")
      _ = try node.bench.sqlite("source.db", "\(forgery); INSERT INTO item VALUES (2, 'b')")
      // The watch of the journal looks every ten seconds, and when it starts.
      #expect(!node.wait(seconds: 12) { node.daemon?.isRunning != true }, "\(node.log)")
      #expect(node.end() == 0, "\(node.log)")
      try node.start()
      _ = try node.bench.sqlite("other.db", "INSERT INTO item VALUES (2, 'b')")
      #expect(node.wait { (try? node.bench.sqlite("copied.db", rows)) == "2\n" }, "\(node.log)")
      #expect(!node.wait(seconds: 3) { node.daemon?.isRunning != true || node.status() == nil }, "\(node.log)")
      #expect(node.end() == 0, "\(node.log)")
    }

    @Test func `a link in the place of a captured file brings over no row of another tenant`() throws {
      let node = try DaemonBench()
      _ = try node.bench.sqlite(
        "tenant.db", "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT); INSERT INTO item VALUES (1, 'secret')")
      try FileManager.default.createSymbolicLink(
        atPath: node.bench.path("source.db"), withDestinationPath: node.bench.path("tenant.db"))
      try node.write(node.pair())
      try node.start()
      #expect(node.waitForLog("[database-unsafe]"), "\(node.log)")
      #expect(node.log.contains("is a symbolic link"), "\(node.log)")
      #expect(node.end() == 0)
      #expect(try !node.bench.sqlite("tenant.db", ".schema").contains("cairn_"))
      #expect((try? node.bench.sqlite("target.db", "SELECT * FROM item")) == nil)
    }
  }
}
