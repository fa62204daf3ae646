import Foundation
import TestServers
import Testing

extension DaemonScenarios {
  /// The daemon as operators meet it: whole programs, started, steered, broken and mended.
  @Suite struct DaemonTests {
    private static let rows = "SELECT count(*) FROM item"

    private func shop(_ node: DaemonBench) throws {
      _ = try node.bench.sqlite(
        "source.db",
        "PRAGMA journal_mode = WAL; CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT); INSERT INTO item VALUES (1, 'tea')"
      )
    }

    @Test func `a status after an order shows no state from before it`() throws {
      let node = try DaemonBench()
      try shop(node)
      try node.write(node.pair())
      try node.start()
      #expect(node.wait(for: "apply.copy", "running"), "\(node.log)")
      for _ in 0..<10 {
        #expect(try node.cairn("stop", "apply.copy").status == 0)
        #expect(["ending", "stopped"].contains(try state(of: "apply.copy", node)), "\(node.log)")
        #expect(node.wait(for: "apply.copy", "stopped"), "\(node.log)")
        #expect(try node.cairn("start", "apply.copy").status == 0)
        #expect(["waiting", "running"].contains(try state(of: "apply.copy", node)), "\(node.log)")
        #expect(node.wait(for: "apply.copy", "running"), "\(node.log)")
      }
    }

    private func state(of worker: String, _ node: DaemonBench) throws -> String {
      let lines = try node.cairn("status").output.split(separator: "\n").map { $0.split(separator: " ") }
      return lines.first { $0.first == worker[...] }.map { String($0[1]) } ?? ""
    }

    @Test func `a node is started, steered, reloaded and ended`() throws {
      let node = try DaemonBench()
      try shop(node)
      try node.write(node.pair())
      try node.start()
      #expect(try node.bench.waitForTarget(Self.rows, "1"), "\(node.log)")
      #expect(node.wait { (try? node.cairn("status").status) == 0 }, "\(node.log)")
      #expect(
        node.wait {
          let table = (try? node.cairn("status").output) ?? ""
          return table.contains("capture.pos") && table.contains("trail store-042.pos")
        })

      // A second one on the same state is refused, with the process that has it.
      let second = try node.bench.run(DaemonBench.cairnd, ["--config", "conf"])
      #expect(second.status == 75)
      #expect(second.errors.contains("process \(node.daemon?.processIdentifier ?? 0)"), "\(second.errors)")

      #expect(try node.cairn("stop", "apply.copy").status == 0)
      #expect(node.wait(for: "apply.copy", "stopped"))
      #expect(try node.cairn("status").status == 1)
      // A request to an apply that is stopped is refused, with the command that starts it.
      let asked = try node.cairn("copy", "copy", "--tables", "item", "--wait")
      #expect(
        asked.status == 1 && asked.errors == "cairn: apply.copy is stopped: run 'cairn start apply.copy'\n", "\(asked)")
      #expect(try node.cairn("compare", "copy").errors.contains("apply.copy is stopped: the target lacks"))
      _ = try node.bench.sqlite("source.db", "INSERT INTO item VALUES (2, 'milk')")
      #expect(try node.cairn("start", "copy").status == 0)
      #expect(try node.bench.waitForTarget(Self.rows, "2"))
      #expect(try node.cairn("start", "nobody").status == 64)

      // A conf with faults changes nothing; a good one concerns whom it concerns.
      try node.write(node.pair() + "[apply.copy]\njunk = 1\n")
      node.daemon?.signal(SIGHUP)
      #expect(node.waitForLog("conf-"), "\(node.log)")
      let refused = try node.cairn("reload")
      #expect(refused.status != 0 && refused.errors.contains("hint:"), "\(refused.errors)")
      #expect(node.wait { (try? node.cairn("status").output.contains("is refused")) == true })
      #expect(try node.cairn("status").status == 1)
      #expect((node.status()?["conf_refused"] as? [String: Any])?["code"] != nil)
      // So does a rule that is right for no table.
      try node.write(node.pair("[[apply.copy.table]]\nfrom = \"item\"\nwhere = \"random() > 0\"\n"))
      let unruled = try node.cairn("reload")
      #expect(unruled.status == 78 && unruled.errors.contains("[conf-value]") && unruled.errors.contains(".toml:15:9"))
      // It is found by its conf also where that is broken, or names another socket by now.
      let byConf = { try node.bench.run(Bench.cairn, ["status", "--config", "conf"]) }
      try node.write(node.pair() + "[control]\nsocket = \"/nowhere/control\"\n")
      #expect(try node.cairn("reload").errors.contains("[restart-needed]"))
      #expect(node.wait { (try? byConf().output.contains("[control] socket was changed")) == true })
      try node.write(node.pair() + "x = \n")
      #expect(try byConf().output.contains("capture.pos"))
      try node.write(node.pair("names = \"keep\""))
      #expect(try node.cairn("reload").output == "restarted: apply.copy\n")
      _ = try node.bench.sqlite("source.db", "INSERT INTO item VALUES (3, 'rice')")
      #expect(try node.bench.waitForTarget(Self.rows, "3"), "\(node.log)")

      // Rows that a program spoilt are copied again; both ends are compared by the name of the apply.
      _ = try node.bench.sqlite("target.db", "UPDATE item SET name = 'other' WHERE id = 3")
      #expect(try node.cairn("compare", "copy").status == 1)
      let stranger = try node.cairn("copy", "copy", "--tables", "item,itme")
      #expect(stranger.errors.contains("table 'itme' is not captured from pos"), "\(stranger)")
      #expect(stranger.errors.contains("did you mean 'item'?"), "\(stranger)")
      #expect(try node.cairn("copy", "copy", "--tables", "item").status == 0)
      #expect(try node.bench.waitForTarget("SELECT name FROM item WHERE id = 3", "rice"), "\(node.log)")
      #expect(node.wait { (try? node.cairn("compare", "copy").status) == 0 })

      #expect(try node.cairn("unhook", "pos", "item").output == "unhooked item\n")
      _ = try node.bench.sqlite("source.db", "INSERT INTO item VALUES (4, 'salt')")
      #expect(node.wait { (try? node.cairn("status").output.contains("writes are not captured in item")) == true })
      #expect(try node.cairn("status").status == 1)
      #expect(try node.cairn("restart", "capture.pos").status == 0)
      #expect(node.waitForLog("capture is off: writes to item reach no target"), "\(node.log)")
      #expect(try node.cairn("rehook", "pos").output == "rehooked item\n")
      #expect(try node.bench.waitForTarget(Self.rows, "4"), "\(node.log)")
      // The audit may have met the spoilt row, or the one that was not captured, and looks again after half a minute.
      #expect(node.wait(seconds: 90) { (try? node.cairn("status").status) == 0 })

      // No copy comes out of a capture that fails.
      let own = try node.bench.sqlite("source.db", "SELECT hex(trail) FROM cairn_control WHERE id = 0")
        .trimmingCharacters(in: .newlines)
      _ = try node.bench.sqlite(
        "source.db", "UPDATE cairn_control SET trail = randomblob(16), place = '/elsewhere' WHERE id = 0")
      #expect(try node.cairn("restart", "capture.pos").status == 0)
      #expect(node.wait(for: "capture.pos", "failed", code: "source-captured"))
      let hopeless = try node.cairn("copy", "copy", "--wait")
      #expect(
        hopeless.status == 1
          && hopeless.errors.contains("capture.pos has failed, so no copy arrives: [source-captured]"),
        "\(hopeless)")
      let place = node.bench.path("state/store-042.pos")
      _ = try node.bench.sqlite(
        "source.db", "UPDATE cairn_control SET trail = X'\(own)', place = '\(place)' WHERE id = 0")

      #expect(node.end() == 0)
      #expect(!FileManager.default.fileExists(atPath: node.bench.path("control")))
      #expect(try node.cairn("status").status == 69)
      // Another database in the place of the source is seen before the daemon starts.
      #expect(try node.bench.run(Bench.cairn, ["check", "--config", "conf"]).status == 0)
      #expect(try node.bench.run(Bench.cairn, ["detach", "sqlite:source.db"]).status == 0)
      let replaced = try node.bench.run(Bench.cairn, ["check", "--config", "conf"])
      #expect(replaced.errors.contains("[source-went-back]: capture pos: "), "\(replaced)")
      try node.write(node.pair() + "x = \n")
      let broken = try byConf()
      #expect(broken.status == 78 && broken.errors.contains("[conf-syntax]"), "\(broken.errors)")
      #expect(broken.errors.contains("no cairnd answers at"), "\(broken.errors)")
    }

    @Test func `the check finds a source that was restored, before the daemon starts and after`() throws {
      let node = try DaemonBench()
      try shop(node)
      try node.write(node.pair())
      try node.start()
      #expect(try node.bench.waitForTarget(Self.rows, "1"), "\(node.log)")
      #expect(node.end() == 0)
      func check() throws -> Outcome { try node.bench.run(Bench.cairn, ["check", "--config", "conf"]) }
      #expect(try check().status == 0)
      let (path, backup) = (node.bench.path("source.db"), node.bench.path("backup.db"))
      try FileManager.default.copyItem(atPath: path, toPath: backup)
      try node.start()
      _ = try node.bench.sqlite("source.db", "INSERT INTO item VALUES (2, 'b')")
      #expect(try node.bench.waitForTarget(Self.rows, "2"), "\(node.log)")
      #expect(node.end() == 0)
      #expect(try check().status == 0)
      for suffix in ["", "-wal", "-shm"] { try? FileManager.default.removeItem(atPath: path + suffix) }
      try FileManager.default.moveItem(atPath: backup, toPath: path)
      let before = try check()
      #expect(before.status == 65 && before.errors.contains("[source-went-back]: capture pos: "), "\(before)")
      try node.start()
      let isTold = node.wait { (try? check().errors.contains("capture pos: the daemon stopped this worker: ")) == true }
      #expect(isTold, "\(node.log)")
      #expect(node.end() == 0)
    }

    @Test func `tables that wait are shown with their own reasons`() throws {
      let node = try DaemonBench()
      try shop(node)
      _ = try node.bench.sqlite(
        "source.db", "CREATE TABLE sale(id INTEGER PRIMARY KEY, kind TEXT); CREATE TABLE memo(id INTEGER PRIMARY KEY)")
      _ = try node.bench.sqlite("target.db", "CREATE TABLE memo(id INTEGER PRIMARY KEY)")
      let rules = ["item": "name", "sale": "kind"].map {
        "[[apply.copy.table]]\nfrom = \"\($0)\"\nwhere = \"\($1) <> ''\"\n"
      }
      try node.write(node.pair(rules.joined()))
      try node.start()
      #expect(try node.bench.waitForTarget(Self.rows, "1"), "\(node.log)")
      _ = try node.bench.sqlite(
        "source.db",
        "ALTER TABLE item RENAME COLUMN name TO title; ALTER TABLE sale RENAME COLUMN kind TO sort; INSERT INTO sale VALUES (1, 'a'); ALTER TABLE memo ADD COLUMN b"
      )
      #expect(node.wait { (node.worker("apply.copy")?["waits"] as? [Any])?.count == 3 }, "\(node.log)")
      let status = try node.cairn("status").output
      for table in ["item", "sale"] {
        #expect(status.contains("[rule-refused] table \(table) is suspended: "), "\(status)")
        #expect(node.waitForLog("apply.copy: [rule-refused] table \(table) is suspended: "), "\(node.log)")
      }
      #expect(status.contains("  hint: "), "\(status)")
      // A copy cannot bring on what waits for a person.
      let asked = try node.cairn("copy", "copy", "--tables", "memo", "--wait")
      #expect(
        asked.status == 1 && asked.errors.contains("table memo is suspended at apply.copy, so its copy"), "\(asked)")
      let ruled = try node.cairn("copy", "copy", "--wait")
      #expect(
        ruled.status == 1 && ruled.errors.contains("table item is suspended at apply.copy, so its copy"), "\(ruled)")
      #expect(node.end() == 0)
    }

    @Test func `kill -9 under load loses and doubles nothing`() throws {
      let node = try DaemonBench()
      try node.bench.makeSample()
      try node.write(node.pair())
      let program = try node.bench.workload(0, seed: drawSeed("daemon"), ["--seconds", isSoak ? "120" : "6"])
      for _ in 0..<(isSoak ? 30 : 3) {
        try node.start()
        usleep(useconds_t(Int.random(in: 200_000...1_800_000)))
        node.daemon?.signal(SIGKILL)
        node.daemon?.wait(seconds: 5)
      }
      program.wait(seconds: 180)
      #expect(program.terminationStatus == 0, "\(node.bench.text("workload0.err"))")
      try node.start()
      #expect(node.wait(seconds: 60) { (try? node.bench.differences()) == "" }, "\(node.log)")
      #expect(node.end() == 0)
      #expect(try node.bench.differences() == "")
    }

    @Test func `a source that is moved away is reported, and taken up again when it is back`() throws {
      let node = try DaemonBench()
      try shop(node)
      try node.write(node.pair())
      try node.start()
      #expect(try node.bench.waitForTarget(Self.rows, "1"))
      for suffix in ["", "-wal", "-shm"] {
        rename(node.bench.path("source.db" + suffix), node.bench.path("away.db" + suffix))
      }
      #expect(node.wait { node.worker("capture.pos")?["state"] as? String != "running" }, "\(node.log)")
      for suffix in ["", "-wal", "-shm"] {
        rename(node.bench.path("away.db" + suffix), node.bench.path("source.db" + suffix))
      }
      _ = try node.bench.sqlite("source.db", "INSERT INTO item VALUES (2, 'milk')")
      #expect(try node.bench.waitForTarget(Self.rows, "2", seconds: 40), "\(node.log)")
      #expect(node.end() == 0)
    }

    @Test(.enabled(if: geteuid() == 0, "needs root, to mount a small file system"))
    func `a full disk stops the capture until there is room, a read-only one the daemon`() throws {
      let node = try DaemonBench()
      try shop(node)
      let state = node.bench.path("small")
      try FileManager.default.createDirectory(atPath: state, withIntermediateDirectories: true)
      guard try node.bench.run("/usr/bin/mount", ["-t", "tmpfs", "-o", "size=4m", "tmpfs", state]).status == 0 else {
        print("skipped: this machine lets nobody mount")
        return
      }
      defer { _ = try? node.bench.run("/usr/bin/umount", ["-l", state]) }
      try node.write(node.pair(), state: "small")
      try node.start()
      #expect(try node.bench.waitForTarget(Self.rows, "1"), "\(node.log)")
      _ = FileManager.default.createFile(atPath: state + "/ballast", contents: Data(count: 2_500_000))
      _ = try node.bench.sqlite(
        "source.db",
        "WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) INSERT INTO item SELECT i, hex(randomblob(1000)) FROM n"
      )
      #expect(node.wait { node.log.contains("[disk-full]") }, "\(node.log)")
      #expect(node.daemon?.isRunning == true)
      try FileManager.default.removeItem(atPath: state + "/ballast")
      _ = try node.bench.run("/usr/bin/mount", ["-o", "remount,size=64m", state])
      #expect(try node.bench.waitForTarget(Self.rows, "2000", seconds: 40), "\(node.log)")
      #expect(node.end() == 0)
      #expect(try node.bench.run("/usr/bin/mount", ["-o", "remount,ro", state]).status == 0)
      let refused = try node.bench.run(DaemonBench.cairnd, ["--config", "conf"])
      #expect(refused.status == 73 && refused.errors.contains("state-unwritable"), "\(refused.errors)")
    }

    /// Starts the daemon with a watchdog of two seconds. Returns the messages that systemd would get, each after its time
    /// in seconds. Also returns the times of the messages that feed the watchdog.
    private func heard(
      _ node: DaemonBench, seconds: Int, environment: [String: String] = [:]
    ) throws -> (all: [String], fed: [Double]) {
      let listener = """
        import socket, sys, time
        s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.bind(sys.argv[1]); s.settimeout(\(seconds))
        begun = time.time()
        while time.time() - begun < \(seconds):
          try: text = s.recv(4096).decode()
          except socket.timeout: break
          print("%.1f" % (time.time() - begun), text.replace("\\n", " "), flush=True)
        """
      let path = node.bench.path("notify")
      let ears = try node.bench.start("notify", Bench.python, ["-c", listener, path])
      #expect(node.wait { FileManager.default.fileExists(atPath: path) })
      try node.start(
        environment: environment.merging(["NOTIFY_SOCKET": path, "WATCHDOG_USEC": "2000000"]) { $1 })
      ears.wait(seconds: Double(seconds) + 13)
      let all = node.bench.text("notify.out").split(separator: "\n").map(String.init)
      return (all, all.filter { $0.hasSuffix("WATCHDOG=1") }.compactMap { Double($0.split(separator: " ")[0]) })
    }

    @Test func `the watchdog is fed, and no more when all workers hang`() throws {
      let node = try DaemonBench()
      try shop(node)
      try node.write(node.pair())
      let (heard, fed) = try heard(node, seconds: 8, environment: ["CAIRN_TEST_HANG": "all"])
      #expect(heard.contains { $0.hasSuffix("READY=1") }, "\(heard)")
      #expect(heard.contains { $0.contains("STATUS=") && $0.contains("greatest lag") }, "\(heard)")
      #expect(!fed.isEmpty && (fed.last ?? 99) < 5, "\(fed)")
      #expect(node.log.contains("apply.copy: [bug] has shown no sign of life for too long ("), "\(node.log)")
      _ = node.end(SIGKILL)
    }

    @Test func `a worker that hangs is reported once, and the watchdog is fed for the others`() throws {
      let node = try DaemonBench()
      try shop(node)
      try node.write(node.pair())
      let (_, fed) = try heard(node, seconds: 12, environment: ["CAIRN_TEST_HANG": "apply.copy"])
      #expect((fed.last ?? 0) > 10, "\(fed)")
      let told = "apply.copy: [bug] has shown no sign of life for too long; other workers continue"
      #expect(node.log.components(separatedBy: told).count == 2, "\(node.log)")
      let silent = node.worker("apply.copy")?["silent_ms"] as? Int
      #expect(silent ?? 0 > 2000 && node.worker("capture.pos")?["state"] as? String == "running", "\(node.log)")
      let begun = Date()
      #expect(node.end() == 0)
      #expect(Date().timeIntervalSince(begun) < 30)
    }

    @Test func `a worker that a file holds up in one instruction of SQLite does not end the others`() throws {
      let node = try DaemonBench()
      try shop(node)
      try node.write(node.pair())
      // Some hours for each row of the copy.
      _ = try node.bench.sqlite(
        "target.db",
        "PRAGMA journal_mode = WAL; CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT); CREATE INDEX zz ON item(instr(zeroblob(20000000), CAST(zeroblob(10000000) || name AS BLOB)))"
      )
      let (_, fed) = try heard(node, seconds: 12)
      #expect((fed.last ?? 0) > 10, "\(fed)")
      #expect(node.log.contains("apply.copy: [database-busy] SQLite has been running one statement"), "\(node.log)")
      // It ends in time all the same.
      let begun = Date()
      #expect(node.end() == 0)
      #expect(Date().timeIntervalSince(begun) < 30)
    }

    @Test(.enabled(if: postgresProblem == nil, "\(postgresProblem ?? "")"))
    func `a server that is down at the start and a slot that is dropped are reported, and mended`() throws {
      let server = try PostgresServer()
      let node = try DaemonBench()
      let url = try server.createDatabase("erp")
      try server.psql("CREATE TABLE item(id int PRIMARY KEY, name text); INSERT INTO item VALUES (1, 'tea')", "erp")
      let conf = """
        [database.erp]
        url = "\(url)"
        [database.copy]
        url = "sqlite://\(node.bench.path("target.db"))"
        [capture.erp]
        database = "erp"
        heartbeat = "1 s"
        [apply.copy]
        trail = "store-042.erp"
        database = "copy"

        """
      try node.write(conf)
      try server.stop()
      try node.start()
      #expect(node.wait(for: "capture.erp", "retrying", code: "database-unreachable"), "\(node.log)")
      #expect(try node.cairn("status").status == 1)
      try server.start()
      #expect(try node.bench.waitForTarget(Self.rows, "1"), "\(node.log)")
      // One that is still to be made is no missing one.
      #expect(try !node.cairn("status").output.contains("slot missing"))
      // Heartbeats move the slot of an idle database.
      let slot = "SELECT confirmed_flush_lsn FROM pg_replication_slots"
      let before = try server.psql(slot)
      #expect(node.wait { (try? server.psql(slot)) != before }, "\(node.log)")

      // An operator drops the slot while capture is away for a moment.
      #expect(try node.cairn("stop", "capture.erp").status == 0)
      #expect(node.wait(for: "capture.erp", "stopped"))
      try server.psql("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
      try server.psql("INSERT INTO item VALUES (2, 'milk'); DELETE FROM item WHERE id = 1", "erp")
      #expect(try node.cairn("start", "capture.erp").status == 0)
      #expect(node.wait(for: "capture.erp", "failed", code: "slot-lost"), "\(node.log)")
      let lost = try node.bench.run(Bench.cairn, ["check", "--config", "conf"])
      #expect(lost.errors.contains("[slot-lost]: capture erp: ") && lost.errors.contains("it has no slot"), "\(lost)")
      #expect(node.worker("apply.copy")?["state"] as? String == "running")
      #expect(try node.cairn("copy", "copy").status == 0)
      #expect(try node.bench.waitForTarget("SELECT group_concat(id || name) FROM item", "2milk"), "\(node.log)")
      #expect(node.wait(for: "capture.erp", "running"))
      let status = try node.cairn("status").output
      #expect(status.contains(" ago, runs again") && !status.contains("hint: run 'cairn copy"), "\(status)")

      // Another way to the same database is no other database.
      let twin = "\(url)\(url.contains("?") ? "&" : "?")connect_timeout=9"
      try node.write(
        conf + """
          [database.twin]
          url = "\(twin)"
          [capture.twin]
          database = "twin"
          heartbeat = "1 s"
          [apply.itself]
          trail = "store-042.erp"
          database = "twin"
          """)
      #expect(try node.cairn("reload").status == 0)
      #expect(node.wait(for: "capture.twin", "failed", code: "conf-reference"), "\(node.log)")
      #expect(node.wait(for: "apply.itself", "failed", code: "same-database"), "\(node.log)")
      #expect(node.worker("apply.copy")?["state"] as? String == "running")
      // When the first one leaves, its twin has the way free.
      try node.write(
        conf.replacingOccurrences(of: "[capture.erp]\ndatabase = \"erp\"", with: "[capture.twin]\ndatabase = \"twin\"")
          .replacingOccurrences(of: "store-042.erp", with: "store-042.twin") + "[database.twin]\nurl = \"\(twin)\"\n")
      #expect(try node.cairn("reload").status == 0)
      #expect(node.wait(for: "capture.twin", "running"), "\(node.log)")

      // The slot of the one that left is shown until it is dropped; one that is in use, or another's, is not.
      #expect(node.waitForLog("of capture.erp, which is no longer in the conf, is left at"), "\(node.log)")
      #expect(node.wait { (node.status()?["left_slots"] as? [Any])?.count == 1 })
      let left = try #require((node.status()?["left_slots"] as? [[String: Any]])?.first?["slot"] as? String)
      let told = try node.cairn("status")
      #expect(told.status == 1 && told.output.contains("or drop the slot: cairn detach"), "\(told)")
      let check = try node.bench.run(Bench.cairn, ["check", "--config", "conf"])
      #expect(check.output.contains("notice: slot \(left) of capture.erp"), "\(check)")
      let used = try server.psql("SELECT slot_name FROM pg_replication_slots WHERE active")
      func drop(_ slot: String) throws -> Outcome {
        try node.bench.run(Bench.cairn, ["detach", url, "--slot", slot])
      }
      #expect(try drop(used).errors.contains("is in use by process"))
      #expect(try drop("others").status == 64)
      #expect(try drop(left).output.hasPrefix("dropped slot \(left)"))
      #expect(try server.psql("SELECT slot_name FROM pg_replication_slots") == used)
      #expect(try server.psql("SELECT pubname FROM pg_publication", "erp") == used)
      #expect(try drop(left).errors.contains("has no slot"))
      #expect(node.end() == 0)
    }
  }
}
