import Foundation
import TestServers
import Testing

extension DaemonScenarios {
  /// A daemon that publishes snapshots, and devices that fetch them over TLS.
  @Suite(.timeLimit(.minutes(30))) struct SnapshotNetworkTests {
    private func write(_ net: NetworkBench, _ node: String, _ text: String) throws {
      try FileManager.default.createDirectory(atPath: net.bench.path(node), withIntermediateDirectories: true)
      try FileManager.default.createDirectory(
        atPath: net.bench.path("state-\(node)"), withIntermediateDirectories: true)
      let head = "[node]\nname = \"\(node)\"\nstate = \"\(net.bench.path("state-\(node)"))\"\n"
      try Data((head + text).utf8).write(to: URL(fileURLWithPath: net.bench.path("\(node)/cairn.toml")))
    }

    private func hq(_ net: NetworkBench, _ port: UInt16, _ more: String) -> String {
      """
      [database.prices]
      url = "sqlite://\(net.bench.path("prices.db"))"
      [capture.prices]
      database = "prices"
      [receive]
      listen = "127.0.0.1:\(port)"
      \(more)

      """
    }

    private func invite(_ net: NetworkBench, _ node: String, _ port: UInt16) throws -> String {
      let invited = try net.bench.run(
        Bench.cairn,
        [
          "peer", "invite", node, "--address", "127.0.0.1:\(port)", "--pull", "hq.prices", "--config", "hq", "--write",
          "--json",
        ])
      #expect(invited.status == 0, "\(invited.errors)")
      let facts = try JSONSerialization.jsonObject(with: Data(invited.output.utf8)) as? [String: Any]
      return try #require(facts?["line"] as? String)
    }

    private func fetch(_ net: NetworkBench, _ node: String, _ port: UInt16, _ name: String = "prices") throws
      -> Outcome
    {
      try net.bench.run(
        Bench.cairn,
        [
          "snapshot", "fetch", "https://127.0.0.1:\(port)", name, "--peer", "hq", "--to", "\(node).db", "--config",
          node, "--json",
        ])
    }

    private func state(_ outcome: Outcome) throws -> String? {
      let facts = try JSONSerialization.jsonObject(with: Data(outcome.output.utf8)) as? [String: Any]
      return facts?["state"] as? String
    }

    @Test func `a daemon makes snapshots, one device gets them, and another one gets nothing`() throws {
      let net = try NetworkBench()
      let port = try NetworkBench.freePort()
      _ = try net.bench.sqlite(
        "prices.db",
        "PRAGMA journal_mode = WAL; CREATE TABLE price(item TEXT PRIMARY KEY, cents INTEGER); CREATE TABLE cost(x);"
          + "INSERT INTO price VALUES ('tea', 250); INSERT INTO cost VALUES ('SECRET')")
      try write(net, "hq", hq(net, port, ""))
      let lines = try ["store-1", "store-2"].map { ($0, try invite(net, $0, port)) }
      let snapshot =
        "[snapshot.prices]\ndatabase = \"prices\"\nevery = \"1 s\"\nkeep = 2\ntables = [\"price\"]\npeers = [\"store-1\"]"
      try write(net, "hq", hq(net, port, snapshot))
      let hq = try net.start("hq", net.bench.path("hq"))
      #expect(net.wait { net.log(hq).contains("TLS 1.3") }, "\(net.logs)")
      for (node, line) in lines {
        try write(net, node, "")
        let joined = try net.bench.run(Bench.cairn, ["peer", "join", line, "--config", node])
        #expect(joined.status == 0, "\(joined.errors)")
      }
      let folder = net.bench.path("state-hq/snapshots/prices")
      func files() -> [String] { ((try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []).sorted() }
      #expect(net.wait { files().filter { $0.hasSuffix(".db") }.count == 2 }, "\(net.logs)")

      var outcome = try fetch(net, "store-1", port)
      #expect(outcome.status == 0, "\(outcome.errors)\(net.logs)")
      #expect(try state(outcome) == "pending")
      let pending = try net.bench.run(Bench.cairn, ["snapshot", "pending", "store-1.db", "--json"])
      #expect(try state(pending) == "pending")
      #expect(pending.output.contains("hq.prices"))
      outcome = try net.bench.run(Bench.cairn, ["snapshot", "apply", "store-1.db"])
      #expect(outcome.status == 0, "\(outcome.errors)")
      #expect(
        try net.bench.sqlite("store-1.db", "SELECT * FROM price; SELECT name FROM sqlite_schema WHERE type = 'table'")
          == "tea|250\nprice\ncairn_snapshot\n")

      // A device with a certificate that is not listed.
      let refused = try fetch(net, "store-2", port)
      #expect(refused.status == 77 && refused.errors.contains("peer-refused"), "\(refused.errors)")
      let none = try fetch(net, "store-2", port, "none")
      #expect(none.status == 77 && none.errors.contains("answers 403"), "\(none.errors)")
      #expect(!FileManager.default.fileExists(atPath: net.bench.path("store-2.db.pending")))

      // Later rows are in a later file, and not more than two files are kept.
      _ = try net.bench.sqlite("prices.db", "UPDATE price SET cents = 300")
      #expect(
        net.wait {
          guard (try? fetch(net, "store-1", port).status) == 0 else { return false }
          guard (try? net.bench.run(Bench.cairn, ["snapshot", "apply", "store-1.db"]).status) == 0 else { return false }
          return (try? net.bench.sqlite("store-1.db", "SELECT cents FROM price")) == "300\n"
        }, "\(net.logs)")
      #expect(files().filter { $0.hasSuffix(".db") }.count <= 3)

      let worker = (net.status(hq)["workers"] as? [[String: Any]])?.first { $0["name"] as? String == "snapshot.prices" }
      #expect(worker?["state"] as? String == "running")
      let facts = worker?["snapshot"] as? [String: Any]
      #expect(facts?["bytes"] as? Int ?? 0 > 0 && (facts?["sha256"] as? String)?.count == 64, "\(worker ?? [:])")

      // Without the grant, nothing more.
      try write(net, "hq", self.hq(net, port, snapshot.replacing("store-1", with: "store-2")))
      #expect(try net.cairn(hq, "reload").status == 0)
      #expect(try fetch(net, "store-1", port).status == 77)
      #expect(try fetch(net, "store-2", port).status == 0)

      // An error is that of the worker.
      try write(net, "hq", self.hq(net, port, snapshot.replacing("\"price\"", with: "\"prize\"")))
      #expect(try net.cairn(hq, "reload").status == 0)
      #expect(
        net.wait { (try? net.cairn(hq, "status").output.contains("there is no table 'prize'")) == true }, "\(net.logs)")
      // A file that was made by other rules is not published.
      let gone = try fetch(net, "store-1", port)
      #expect(gone.status != 0 && gone.errors.contains("answers 404"), "\(gone.errors)")
      net.endAll()
    }
  }
}
