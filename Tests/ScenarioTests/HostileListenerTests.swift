import Foundation
import TestServers
import Testing

extension DaemonScenarios {
  /// A node that is dialled, and answers as it likes: what it names and sends must not use up what the others need.
  @Suite struct HostileListenerTests {
    private static let rows = "SELECT count(*) FROM item"

    /// A node with a pair of its own, and a pump from another one; `fake` starts that, which names `trails` trails.
    private func node(trails: Int) throws -> (node: DaemonBench, fake: () throws -> Child) {
      let node = try DaemonBench()
      let port = try NetworkBench.freePort()
      let fake = {
        try node.bench.start("fake", Bench.python, [Bench.tool("many_trails.py"), "\(port)", "\(trails)"])
      }
      let table = "PRAGMA journal_mode = WAL; CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT);"
      _ = try node.bench.sqlite("source.db", table + "INSERT INTO item VALUES (1, 'a')")
      try node.write(
        node.pair(
          """
          [pump.evil]
          trail = "*"
          from = "http://127.0.0.1:\(port)"
          [limits]
          disk = "64 MiB"
          """))
      return (node, fake)
    }

    private func threads(_ daemon: Child?) -> Int {
      let text = (try? String(contentsOfFile: "/proc/\(daemon?.processIdentifier ?? 0)/status", encoding: .utf8)) ?? ""
      let line = text.split(separator: "\n").first { $0.hasPrefix("Threads:") }
      return line.flatMap { Int($0.dropFirst(8).filter(\.isNumber)) } ?? 0
    }

    @Test func `a node that names very many trails gets few threads, and is reported`() throws {
      let (node, start) = try node(trails: 3000)
      let fake = try start()
      try node.start()
      #expect(try node.bench.waitForTarget(Self.rows, "1"), "\(node.log)")
      #expect(node.waitForLog("offers 3000 trails", seconds: 30), "\(node.log)")
      var most = 0
      _ = node.wait(seconds: 8) {
        most = max(most, threads(node.daemon))
        return false
      }
      print("threads with a pump to 3,000 trails: \(most)")
      #expect(most < 1200)
      _ = try node.bench.sqlite("source.db", "INSERT INTO item VALUES (2, 'b')")
      #expect(try node.bench.waitForTarget(Self.rows, "2"), "\(node.log)")
      let status = try node.cairn("status")
      #expect(status.output.contains("offers 3000 trails"), "\(status.output.suffix(1500))")
      #expect(node.end() == 0, "\(node.log.suffix(2000))")
      fake.signal(SIGKILL)
    }

    /// Each thread takes as much address space as its stack may grow to, so that some hundred are possible.
    @Test func `if no more threads can be made the pump says so and tries again, and others go on`() throws {
      let (node, start) = try node(trails: 300)
      let daemon = try node.bench.start(
        "cairnd1", "/usr/bin/prlimit",
        ["--stack=268435456", "--as=34359738368", DaemonBench.cairnd, "--config", "conf"],
        environment: ["RUNTIME_DIRECTORY": node.bench.folder])
      #expect(try node.bench.waitForTarget(Self.rows, "1"), "\(node.bench.text("cairnd1.err"))")
      // Running workers need no more threads; a worker that begins beside such a pump waits for some.
      let fake = try start()
      #expect(
        node.wait(seconds: 60) { node.bench.text("cairnd1.err").contains("thread") || !daemon.isRunning },
        "\(node.bench.text("cairnd1.err"))")
      for n in 2...20 {
        _ = try node.bench.sqlite("source.db", "INSERT INTO item VALUES (\(n), 'b')")
        usleep(200_000)
      }
      #expect(daemon.isRunning, "\(node.bench.text("cairnd1.err").suffix(2000))")
      #expect(try node.bench.waitForTarget(Self.rows, "20"), "\(node.bench.text("cairnd1.err"))")
      daemon.signal(SIGTERM)
      daemon.wait(seconds: 60)
      #expect(daemon.terminationStatus == 0, "\(node.bench.text("cairnd1.err").suffix(2000))")
      fake.signal(SIGKILL)
    }

    /// Half of `[limits] disk`, or what `[peer.NAME]` says.
    @Test(arguments: [
      ("128 MiB", ""), ("1 GiB", "[peer.src]\nmay = { pull = [\"hq.*\"] }\ndisk = \"64 MiB\"\n"),
    ]) func `a node that is dialled fills its own share of the disk only`(disk: String, more: String) throws {
      let net = try NetworkBench()
      let port = try NetworkBench.freePort()
      _ = try net.bench.sqlite(
        "src.db",
        """
        PRAGMA journal_mode = WAL; CREATE TABLE big(id INTEGER PRIMARY KEY, b BLOB);
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
          INSERT INTO big SELECT i, randomblob(50000) FROM n
        """)
      func conf(_ name: String, _ text: String) throws -> String {
        try FileManager.default.createDirectory(atPath: net.bench.path(name), withIntermediateDirectories: true)
        let head = "[node]\nname = \"\(name)\"\nstate = \"\(net.bench.path("state-" + name))\"\n"
        try Data((head + text).utf8).write(to: URL(fileURLWithPath: net.bench.path(name + "/cairn.toml")))
        return net.bench.path(name)
      }
      try net.start(
        "src",
        conf(
          "src",
          """
          [database.src]
          url = "sqlite://\(net.bench.path("src.db"))"
          [capture.src]
          database = "src"
          [receive]
          listen = "127.0.0.1:\(port)"
          insecure = true
          [peer.hq]
          may = { pull = ["src.*"] }

          """))
      let hq = try net.start(
        "hq",
        conf(
          "hq",
          """
          [pump.src]
          trail = "src.*"
          from = "http://127.0.0.1:\(port)"
          peer = "src"
          [limits]
          disk = "\(disk)"
          [receive]
          listen = "127.0.0.1:\(try NetworkBench.freePort())"
          insecure = true
          \(more)
          """))
      #expect(net.wait(seconds: 90) { net.log(hq).contains("[disk-budget]") }, "\(net.logs)")
      _ = net.wait(seconds: 5) { false }
      let outcome = try net.bench.run("/usr/bin/du", ["-sk", net.bench.path("state-hq")])
      let mebibytes = (outcome.output.split(separator: "\t").first.flatMap { Int($0) } ?? 0) >> 10
      print("a node that is dialled: \(mebibytes) MiB of 64 are taken")
      #expect((32...80).contains(mebibytes), "\(mebibytes) MiB: \(net.logs)")
      #expect(net.log(hq).contains("[peer.src] disk"), "\(net.logs)")
      net.endAll()
    }
  }
}
