import Foundation
import TestServers
import Testing

extension DaemonScenarios {
  /// Pauses, `cairn top`, and a port of [metrics] that is in use.
  @Suite struct OperatorTests {
    private func start(_ more: String = "") throws -> DaemonBench {
      let node = try DaemonBench()
      _ = try node.bench.sqlite(
        "source.db",
        "PRAGMA journal_mode = WAL; CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT); INSERT INTO item VALUES (1, 'tea')"
      )
      try node.write(node.pair(more))
      try node.start()
      #expect(node.wait(for: "apply.copy", "running"), "\(node.log)")
      #expect(try node.bench.waitForTarget("SELECT count(*) FROM item", "1"), "\(node.log)")
      return node
    }

    // MARK: Pauses

    @Test func `a pause lasts over kill -9, and changes arrive after it`() throws {
      let node = try start()
      let paused = try node.cairn("pause", "copy")
      #expect(paused.status == 0 && paused.output == "apply.copy: pausing\n", "\(paused)")
      #expect(node.wait(for: "apply.copy", "paused"), "\(node.log)")
      _ = node.end(SIGKILL)
      try node.start()
      #expect(node.wait(for: "capture.pos", "running") && node.wait(for: "apply.copy", "paused"), "\(node.log)")
      _ = try node.bench.sqlite("source.db", "INSERT INTO item VALUES (2, 'rice')")
      let status = try node.cairn("status")
      #expect(status.status == 1 && status.output.contains("paused by the operator: 'cairn resume apply.copy'"))
      let refused = try node.cairn("start", "copy")
      #expect(refused.status == 64 && refused.errors.contains("hint: run 'cairn resume apply.copy'"), "\(refused)")
      usleep(300_000)
      #expect(try node.bench.sqlite("target.db", "SELECT count(*) FROM item").hasPrefix("1"))
      let resumed = try node.cairn("resume", "copy", "--json")
      #expect(resumed.status == 0 && resumed.output.contains("\"event\":\"resuming\""), "\(resumed)")
      #expect(try node.bench.waitForTarget("SELECT count(*) FROM item", "2"), "\(node.log)")
      #expect(try node.cairn("resume", "copy").status == 64)
      // It is over for good.
      #expect(node.end() == 0)
      try node.start()
      #expect(node.wait(for: "apply.copy", "running"), "\(node.log)")
      #expect(node.end() == 0)
    }

    @Test func `a pause with a time ends by itself, also while the daemon is down`() throws {
      let node = try start()
      for text in ["yesterday", "tea", "2001-01-01 10:00"] {
        let refused = try node.cairn("pause", "copy", "--until", text)
        #expect(refused.status == 64 && refused.errors.contains("--until: '\(text)'"), "\(refused)")
      }
      let paused = try node.cairn("pause", "copy", "--until", "in 3 s", "--json")
      #expect(paused.status == 0 && paused.output.contains("\"until\":\"2"), "\(paused)")
      #expect(node.wait { node.worker("apply.copy")?["paused_until"] is String }, "\(node.log)")
      #expect(node.wait(for: "apply.copy", "running"), "\(node.log)")
      #expect(node.waitForLog("apply.copy: the pause has ended"), "\(node.log)")
      #expect(try node.cairn("pause", "copy", "--until", "in 1 s").status == 0)
      #expect(node.end() == 0)
      sleep(1)
      try node.start()
      #expect(node.wait(for: "apply.copy", "running"), "\(node.log)")
      #expect(node.end() == 0)
      try Data("tea".utf8).write(to: URL(fileURLWithPath: node.bench.path("state/pauses")))
      let refused = try node.start()
      refused.wait(seconds: 20)
      #expect(refused.terminationStatus != 0 && node.log.contains("[state-foreign]"), "\(node.log)")
    }

    // MARK: The status

    @Test func `a status has the age of the last change, and helper workers only on request`() throws {
      let node = try start()
      #expect(node.wait { node.worker("apply.copy")?["last_change_at"] is String }, "\(node.log)")
      let plain = try node.cairn("status")
      #expect(plain.output.contains("LAST CHANGE") && plain.output.contains(" ago"), "\(plain)")
      #expect(!plain.output.contains("purge.pos") && !plain.output.contains("heartbeat.pos"))
      let whole = try node.cairn("status", "--all")
      #expect(whole.output.contains("purge.pos") && whole.output.contains("heartbeat.pos"))
      // A helper that does not run is shown.
      #expect(try node.cairn("stop", "heartbeat.pos").status == 0)
      #expect(node.wait(for: "heartbeat.pos", "stopped"))
      #expect(try node.cairn("status").output.contains("heartbeat.pos"))
      #expect(node.end() == 0)
    }

    // MARK: A port in use

    @Test func `a metrics port in use does not end the daemon, and is tried again`() throws {
      let port = try NetworkBench.freePort()
      let bench = try Bench()
      let taker = try bench.start(
        "taker", Bench.python,
        ["-c", "import socket, time; s = socket.socket(); s.bind(('127.0.0.1', \(port))); s.listen(); time.sleep(600)"])
      let probe = { (try? bench.run("/usr/bin/curl", ["-s", "-m", "3", "http://127.0.0.1:\(port)/healthz"]))?.output }
      usleep(500_000)
      let node = try start("[metrics]\nlisten = \"127.0.0.1:\(port)\"")
      #expect(node.waitForLog("no metrics, and no status page: "), "\(node.log)")
      let status = try node.cairn("status")
      #expect(status.status == 1 && status.output.contains("no metrics, and no status page: "), "\(status)")
      #expect((node.status()?["metrics_error"] as? [String: Any])?["code"] as? String == "io-failed")
      taker.signal(SIGKILL)
      taker.wait(seconds: 10)
      #expect(node.wait { probe() == "ok\n" }, "\(node.log)")
      #expect(node.status()?["metrics_error"] is NSNull)
      // A reload moves the listener.
      let other = try NetworkBench.freePort()
      try node.write(node.pair("[metrics]\nlisten = \"127.0.0.1:\(other)\""))
      #expect(try node.cairn("reload").status == 0)
      #expect(
        node.wait {
          (try? bench.run("/usr/bin/curl", ["-s", "-m", "3", "http://127.0.0.1:\(other)/healthz"]))?.output == "ok\n"
        }, "\(node.log)")
      #expect(probe() == "")
      #expect(node.end() == 0)
    }

    // MARK: Help, and the end of a peer

    @Test func `a support bundle has status, conf, log and versions, and no row and no secret`() throws {
      let node = try start("on_error = \"stop\"")
      _ = try node.bench.sqlite("target.db", "DELETE FROM item")
      _ = try node.bench.sqlite("source.db", "UPDATE item SET name = 'geheimer Tee' WHERE id = 1")
      _ = try node.bench.sqlite(
        "source.db", "CREATE TABLE k(id TEXT PRIMARY KEY, n INTEGER); INSERT INTO k VALUES ('geheimkey', 1)")
      #expect(node.wait(for: "apply.copy", "failed"), "\(node.log)")
      let folder = node.bench.path("conf/credentials")
      try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
      try Data("geheim-password".utf8).write(to: URL(fileURLWithPath: folder + "/copy"))
      let words = [
        "support-bundle", "--output", "help.tar", "--config", "conf", "--log", "cairnd1.err", "--socket",
        node.bench.path("control"),
      ]
      let made = try node.bench.run(Bench.cairn, words)
      #expect(
        made.status == 0
          && made.output == "wrote help.tar: versions.txt, status.json, conf.txt, files.txt, log.txt\n", "\(made)")
      let rights = try FileManager.default.attributesOfItem(atPath: node.bench.path("help.tar"))[.posixPermissions]
      #expect(rights as? Int == 0o600)
      let text = String(
        decoding: try Data(contentsOf: URL(fileURLWithPath: node.bench.path("help.tar"))), as: UTF8.self)
      #expect(!text.contains("geheim"), "\(text)")
      for part in [
        "row-missing", "\"name\":\"apply.copy\"", "[apply.copy]", "store-042.pos/", "cairn 0.", "cairnd: apply.copy: ",
      ] {
        #expect(text.contains(part), "\(part): \(text)")
      }
      let listed = try node.bench.run("/usr/bin/tar", ["-tf", "help.tar"])
      #expect(listed.status == 0 && listed.output.split(separator: "\n").count == 5, "\(listed)")
      // A file that is there is not replaced.
      #expect(try node.bench.run(Bench.cairn, words).status == 74)
      #expect(node.end() == 0)
      let without = try node.bench.run(
        Bench.cairn, ["support-bundle", "--output", "two.tar", "--config", "conf", "--json"])
      #expect(without.status == 0 && without.output.contains("\"event\":\"bundled\""), "\(without)")
      let second = String(
        decoding: try Data(contentsOf: URL(fileURLWithPath: node.bench.path("two.tar"))), as: UTF8.self)
      #expect(second.contains("not read: [daemon-unreachable]"), "\(second)")
    }

    @Test func `a peer is removed in one step, and what else names it is listed`() throws {
      let node = try start("[receive]\nlisten = \"127.0.0.1:\(try NetworkBench.freePort())\"\n")
      let invited = try node.bench.run(
        Bench.cairn,
        ["peer", "invite", "till", "--address", "127.0.0.1:7420", "--push", "till.*", "--write", "--config", "conf"])
      #expect(invited.status == 0, "\(invited)")
      #expect(FileManager.default.fileExists(atPath: node.bench.path("conf/conf.d/peer-till.toml")))
      let removed = try node.bench.run(Bench.cairn, ["peer", "remove", "till", "--config", "conf"])
      #expect(
        removed.status == 0 && removed.output.contains("revoked 0 certificates and 1 invitation of till\nremoved "),
        "\(removed)")
      #expect(!FileManager.default.fileExists(atPath: node.bench.path("conf/conf.d/peer-till.toml")))
      let again = try node.bench.run(Bench.cairn, ["peer", "remove", "till", "--config", "conf"])
      #expect(again.status == 64 && again.errors.contains("does not know a peer 'till'"), "\(again)")
      #expect(node.end() == 0)
    }

    // MARK: cairn top

    /// A control socket that answers every request with one status.
    private func serve(_ bench: Bench, workers: Int) throws -> Child {
      let script = """
        import json, os, socket
        evil = "x\\x1b]0;owned\\x07\\x9b31m\\u202e\\r\\n\\x85z"
        def worker(n):
          bad = n % 100 == 7
          return {"name": "apply.w%d" % n, "kind": "apply", "state": "failed" if bad else "running", "trail": evil,
                  "database": evil, "detail": evil * 50, "lag_ms": 12.0, "rows_per_second": 1.0, "quarantined": n % 2,
                  "last_change_at": "2026-11-28T13:59:48.000000Z",
                  "waits": [{"table": evil * 9, "code": evil, "message": evil * 99, "hint": evil}] if bad else [],
                  "last_error": {"code": evil, "message": evil * 99, "hint": evil, "times": 1} if bad else None}
        path = {"trail": evil * 9, "peer": evil * 9, "way": "push", "state": "failed", "behind_bytes": 7,
                "error": {"code": evil, "message": evil * 99, "hint": evil, "times": 1}}
        status = {"node": evil, "version": evil, "now": "2026-11-28T14:00:00.000000Z", "paths": [path] * 30,
                  "workers": [worker(n) for n in range(\(workers))],
                  "disk": {"bytes": 1, "limit_bytes": 2, "free_bytes": 3, "seconds_until_full": 60}}
        line = json.dumps({"version": 1, "ok": True, "result": status}).encode() + b"\\n"
        server = socket.socket(socket.AF_UNIX)
        server.bind("top.new"); server.listen(); os.rename("top.new", "top")
        while True:
          client, _ = server.accept()
          client.recv(65536); client.sendall(line); client.close()
        """
      return try bench.start("top", Bench.python, ["-c", script])
    }

    @Test(arguments: [1, 12, 1000]) func `top fits 80 columns and 24 lines, and obeys no name`(workers: Int) throws {
      let bench = try Bench()
      let server = try serve(bench, workers: workers)
      for _ in 0..<200 where !FileManager.default.fileExists(atPath: bench.path("top")) { usleep(50_000) }
      let shown = try bench.run(Bench.cairn, ["top", "--once", "--socket", bench.path("top")])
      #expect(shown.status == 0 && TerminalTests.isClean(shown.output), "\(shown)")
      let lines = shown.output.split(separator: "\n", omittingEmptySubsequences: false).dropLast()
      #expect(lines.count <= 24 && lines.count >= 10, "\(shown.output)")
      #expect(lines.allSatisfy { $0.unicodeScalars.count <= 80 }, "\(shown.output)")
      #expect(shown.output.contains("apply.w0") || workers > 12, "\(shown.output)")
      #expect(shown.output.contains("hint: ") && shown.output.contains("full in 60.0 s"), "\(shown.output)")
      if workers == 1000 {
        #expect(shown.output.contains("apply.w7 ") && shown.output.contains("more workers"), "\(shown.output)")
      }
      server.signal(SIGKILL)
    }

    /// Runs `cairn top` on a terminal of its own, and ends it as `end` says: a key, or a signal.
    @Test(arguments: ["q", "ctrl-c", "TERM"]) func `top ends on q, Ctrl-C and SIGTERM, and restores the terminal`(
      end: String
    ) throws {
      let bench = try Bench()
      let server = try serve(bench, workers: 3)
      for _ in 0..<200 where !FileManager.default.fileExists(atPath: bench.path("top")) { usleep(50_000) }
      let script = """
        import fcntl, os, pty, select, signal, struct, subprocess, sys, termios, time
        fd, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        before = termios.tcgetattr(slave)
        child = subprocess.Popen(
          [sys.argv[1], "top", "--socket", sys.argv[2]], stdin=slave, stdout=slave, stderr=slave,
          start_new_session=True, env={"TERM": "xterm"}, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        text, limit = b"", time.time() + 20
        def read():
          global text
          if select.select([fd], [], [], 0.1)[0]: text += os.read(fd, 65536)
          return time.time() < limit
        while b"q ends" not in text and read(): pass
        during = termios.tcgetattr(slave)
        first = len(text)
        stop = time.time() + 2.6
        while time.time() < stop and read(): pass
        assert len(text) > first, "no second picture"
        if sys.argv[3] == "q": os.write(fd, b"q")
        elif sys.argv[3] == "ctrl-c": os.write(fd, b"\\x03")
        else: child.send_signal(signal.SIGTERM)
        while child.poll() is None and read(): pass
        after = termios.tcgetattr(slave)
        assert child.poll() == 0, child.poll()
        assert during[3] & termios.ICANON == 0 and after[3] == before[3], "the terminal is not restored"
        while not text.endswith(b"\\x1b[?1049l") and read(): pass
        assert text.startswith(b"\\x1b[?1049h") and b"\\x1b[?25h" in text, text[:60]
        assert b"\\x1b[31m" in text and b"owned\\x07" not in text, "colours, and no name obeyed"
        print("well")
        """
      let outcome = try bench.run(
        Bench.python, ["-c", script, Bench.cairn, bench.path("top"), end])
      #expect(outcome.status == 0 && outcome.output.hasSuffix("well\n"), "\(outcome)")
      server.signal(SIGKILL)
    }

    @Test func `top without a daemon says so`() throws {
      let bench = try Bench()
      let shown = try bench.run(Bench.cairn, ["top", "--socket", bench.path("none")])
      #expect(shown.status == 69 && shown.errors.contains("hint: "), "\(shown)")
    }
  }
}
