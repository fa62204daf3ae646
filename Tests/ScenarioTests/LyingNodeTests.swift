import Changes
import Foundation
import HostilePeer
import TestServers
import Testing

extension DaemonScenarios {
  /// Texts of other nodes reach the pages and terminals of this one as texts, whatever they hold.
  @Suite struct LyingNodeTests {
    /// Returns the fault of a page of metrics; nil if each line has the form of the format, and none is a peer's.
    ///
    /// Source: https://prometheus.io/docs/instrumenting/exposition_formats/
    private func problem(ofMetrics page: String) -> String? {
      let label = #"[a-z_]+="([^"\\\n]|\\\\|\\"|\\n)*""#
      let sample = #"^cairn_[a-z_]+(\{\#(label)(,\#(label))*\})? (-?[0-9.e+-]+|NaN|[+-]Inf)$"#
      guard page.contains("cairn_info"), TerminalTests.isClean(page) else { return "not a clean page" }
      return page.split(separator: "\n").map(String.init).first { line in
        !line.hasPrefix("# ") && line.range(of: sample, options: .regularExpression) == nil
      }
    }

    /// Looks at all that a node shows. Returns what it shows as a whole.
    @discardableResult
    private func look(_ net: NetworkBench, _ node: NetworkBench.Node, metrics: UInt16) throws -> String {
      var all = ""
      for words in [["status"], ["status", "--json"]] {
        let outcome = try net.bench.run(
          Bench.cairn, words + ["--socket", net.bench.path("run-\(node.name)/control")])
        #expect(TerminalTests.isClean(outcome.output) && TerminalTests.isClean(outcome.errors), "\(outcome)")
        #expect(outcome.output.utf8.count < 1 << 20, "\(outcome.output.utf8.count) bytes")
        // A text of a peer begins no line.
        #expect(!outcome.output.split(separator: "\n").contains { $0.hasPrefix("evil_metric") }, "\(outcome.output)")
        all += outcome.output
      }
      let checked = try net.bench.run(Bench.cairn, ["check", "--config", node.name])
      #expect(TerminalTests.isClean(checked.output) && TerminalTests.isClean(checked.errors), "\(checked)")
      let page = try net.bench.run("/usr/bin/curl", ["-sf", "http://127.0.0.1:\(metrics)/metrics"]).output
      #expect(problem(ofMetrics: page) == nil, "\(problem(ofMetrics: page) ?? "")")
      let json = try net.bench.run("/usr/bin/curl", ["-sf", "http://127.0.0.1:\(metrics)/status.json"]).output
      #expect(TerminalTests.isClean(json))
      #expect(try JSONSerialization.jsonObject(with: Data(json.utf8)) is [String: Any])
      let log = net.log(node)
      #expect(TerminalTests.isClean(log))
      for line in log.split(separator: "\n") {
        #expect(line.utf8.count < 64 << 10 && !line.hasPrefix("evil_metric"), "\(line.prefix(500))")
      }
      return all + log
    }

    private func certificate(_ net: NetworkBench) throws {
      let made = try net.bench.run(
        "/usr/bin/openssl",
        [
          "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
          "/CN=evil", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", net.bench.path("m.key"), "-out",
          net.bench.path("m.crt"),
        ])
      try #require(made.status == 0, "\(made.errors)")
    }

    @Test(arguments: [true, false]) func `the text of a node that is dialled is shown, not obeyed`(isTLS: Bool) throws {
      let net = try NetworkBench()
      let (port, metrics) = (try NetworkBench.freePort(), try NetworkBench.freePort())
      if isTLS { try certificate(net) }
      _ = try net.bench.sqlite(
        "erp.db", "PRAGMA journal_mode = WAL; CREATE TABLE item(id INTEGER PRIMARY KEY); INSERT INTO item VALUES (1)")
      let evil = try net.bench.start(
        "evil", Bench.python,
        [Bench.tool("lying_node.py"), "\(port)"] + (isTLS ? [net.bench.path("m.crt"), net.bench.path("m.key")] : []))
      let tls = isTLS ? "tls = { certificate = \"../m.crt\", key = \"../m.key\", peers = \"../m.crt\" }" : ""
      let url = "\(isTLS ? "https" : "http")://127.0.0.1:\(port)"
      try FileManager.default.createDirectory(atPath: net.bench.path("hq"), withIntermediateDirectories: true)
      let conf = """
        [node]
        name = "hq"
        state = "\(net.bench.path("state-hq"))"
        [database.erp]
        url = "sqlite://\(net.bench.path("erp.db"))"
        [capture.erp]
        database = "erp"
        [pump.texts]
        trail = "evil.*"
        from = "\(url)"
        \(tls)
        [pump.sink]
        trail = "hq.erp"
        to = "\(url)"
        \(tls)
        [metrics]
        listen = "127.0.0.1:\(metrics)"

        """
      try Data(conf.utf8).write(to: URL(fileURLWithPath: net.bench.path("hq/cairn.toml")))
      let hq = try net.start("hq", net.bench.path("hq"))
      func shown() -> Int {
        ((try? net.cairn(hq, "status", "--json"))?.output ?? "").components(separatedBy: "owned").count - 1
      }
      // Each trail has an error of its own.
      let isShown = net.wait(seconds: 60) { shown() >= 5 }
      #expect(isShown, "\(shown()): \((try? net.cairn(hq, "status"))?.output ?? "")\n\(net.logs)")
      _ = net.wait(seconds: 10) { false }
      let all = try look(net, hq, metrics: metrics)
      #expect(all.contains("\\x1b]0;owned\\x07"), "\(all.suffix(2000))")
      // The copies that it asked for were made, as far as it may ask, and what is captured goes on.
      _ = try net.bench.sqlite("erp.db", "INSERT INTO item VALUES (2)")
      #expect(net.wait { hq.daemon?.isRunning == true && net.status(hq)["workers"] != nil }, "\(net.logs)")
      net.endAll()
      try #expect(!look(net, evil: evil).contains("Traceback"))
    }

    private func look(_ net: NetworkBench, evil: Child) throws -> String {
      evil.signal(SIGKILL)
      return net.bench.text("evil.err")
    }

    private static let evil = "x\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}\r\n\u{85}\"\\} 1\nevil_metric{a=\"b\"} 2\n\u{301}z"

    @Test func `the text of a peer that dials is shown, not obeyed`() throws {
      let metrics = try NetworkBench.freePort()
      let bench = try HostileBench(
        """
        [capture.erp]
        database = "erp"
        [apply.x]
        trail = "evil.x"
        database = "erp"
        tables = ["*"]
        [apply.y]
        trail = "evil.y"
        database = "erp"
        tables = ["*"]
        [metrics]
        listen = "127.0.0.1:\(metrics)"
        """, grants: "push = [\"evil.*\"], pull = [\"hq.*\"]")
      let (net, port) = (bench.net, bench.port)
      func send(_ bytes: String) { RawPeer(port).map { _ = $0.send(bytes + "\r\nConnection: close\r\n\r\n") } }
      let text = Self.evil.replacing("\r\n", with: " ").replacing("\n", with: " ")
      for head in [
        "GET /cairn HTTP/1.1\r\nHost: \(text)\r\nCairn-Node: evil",
        "GET /\(text) HTTP/1.1\r\nHost: x\r\nCairn-Node: evil",
        "GET /cairn HTTP/1.1\r\nHost: x\r\nCairn-Node: \(text)",
        "\(text) /cairn HTTP/1.1\r\nHost: x\r\nCairn-Node: evil",
        "GET /cairn/1/trails/evil.%1b%5d0;owned HTTP/1.1\r\nHost: x\r\nCairn-Node: evil",
        "GET /cairn HTTP/1.1\r\nHost: x\r\n\(text): x\r\nCairn-Node: evil\(text)",
        "GET /cairn HTTP/1.1\r\nHost: x\r\nCairn-Node: \(String(repeating: text, count: 100))",
      ] { send(head) }
      // Requests for copies, whose tables are texts.
      #expect(net.wait { FileManager.default.fileExists(atPath: net.bench.path("state-hq/hq.erp")) }, "\(net.logs)")
      let tables = JSONObject.text(.list([.text(Self.evil), .text(String(repeating: Self.evil, count: 200))]))
      #expect(
        bench.evil.post("/cairn/1/trails/hq.erp/requests", "{\"requests\": [{\"id\": \"a1\", \"tables\": \(tables)}]}")
          == 200)
      // Trails with names, defaults and messages of that kind; some cannot be applied.
      for (trail, columns) in [("evil.x", ["id", Self.evil]), ("evil.y", ["id", "\(Self.evil)\u{0}"])] {
        var segment = HostileSegment(trail)
        var records = HostileRecords()
        records.begin(1)
        var schema = TableSchema(
          epoch: 1, engine: .sqlite, name: Self.evil + trail,
          columns: columns.enumerated().map {
            .init(
              name: $0.element, declaredType: $0.offset == 0 ? "INTEGER" : Self.evil,
              keyOrdinal: $0.offset == 0 ? 1 : 0)
          })
        schema.createText = "CREATE TABLE \(Self.evil)"
        records.schema(1, schema)
        records.marker(Self.evil)
        records.change(.insert, 1, before: nil, after: [.integer(1), .text(Array(Self.evil.utf8))])
        records.change(.delete, 1, before: [.integer(9), .text(Array(Self.evil.utf8))], after: nil)
        records.commit(1, changes: 2)
        segment.block(records.bytes)
        bench.evil.push(segment)
      }
      _ = net.wait(seconds: 15) { false }
      let all = try look(net, bench.hq, metrics: metrics)
      #expect(all.contains("owned"), "\(all.suffix(3000))")
      for words in [
        ["trail", "show", "evil.x"], ["trail", "show", "evil.x", "--json"], ["trail", "show", "evil.x", "--sql"],
      ] {
        let outcome = try net.bench.run(Bench.cairn, words + ["--state", net.bench.path("state-hq")])
        #expect(TerminalTests.isClean(outcome.output) && TerminalTests.isClean(outcome.errors), "\(outcome)")
      }
      #expect(bench.isAlive && bench.isCanaryUntouched, "\(net.logs)")
      net.endAll()
    }
  }
}
