import Foundation
import TestServers
import Testing

extension DaemonScenarios {
  /// Names in the option `tables` of an apply that no table of its trail has.
  @Suite struct ListedNamesTests {
    private func write(_ net: NetworkBench, _ node: String, _ text: String) throws {
      try FileManager.default.createDirectory(atPath: net.bench.path(node), withIntermediateDirectories: true)
      let head = "[node]\nname = \"\(node)\"\nstate = \"\(net.bench.path("state-\(node)"))\"\n"
      try Data((head + text).utf8).write(to: URL(fileURLWithPath: net.bench.path("\(node)/cairn.toml")))
    }

    @Test func `an apply whose list has a slip does not begin, and begins when the name is right`() throws {
      let node = try DaemonBench()
      _ = try node.bench.sqlite(
        "source.db",
        "CREATE TABLE item(id INTEGER PRIMARY KEY); INSERT INTO item VALUES (1); CREATE TABLE sale(id INTEGER PRIMARY KEY)"
      )
      try node.write(node.pair("tables = [\"itme\"]"))
      let checked = try node.bench.run(Bench.cairn, ["check", "--config", "conf"])
      #expect(checked.status == 65 && checked.errors.contains("did you mean item?"), "\(checked)")
      try node.start()
      #expect(node.wait(for: "apply.copy", "failed", code: "table-missing"), "\(node.log)")
      #expect(node.log.contains("'tables' of [apply.copy] names itme"), "\(node.log)")
      #expect(node.log.contains("did you mean item?"), "\(node.log)")
      try node.write(node.pair("tables = [\"item\"]"))
      node.daemon?.signal(SIGHUP)
      #expect(try node.bench.waitForTarget("SELECT count(*) FROM item", "1"), "\(node.log)")
      // A table may be dropped later: its name stays in the list, and the apply goes on.
      _ = try node.bench.sqlite("source.db", "DROP TABLE item")
      #expect(node.waitForLog("'tables' of [apply.copy] names item", seconds: 40), "\(node.log)")
      #expect(node.end() == 0)
      try node.start()
      #expect(node.wait(for: "apply.copy", "running"), "\(node.log)")
      #expect(
        node.wait { (node.worker("apply.copy")?["detail"] as? String)?.contains("names item") == true }, "\(node.log)")
      #expect(node.end() == 0)
    }

    @Test func `a slip in the list for the trail of another node is reported as soon as its tables are known`() throws {
      let net = try NetworkBench()
      defer { net.endAll() }
      let port = try NetworkBench.freePort()
      try write(
        net, "hq",
        """
        [database.erp]
        url = "sqlite://\(net.bench.path("erp.db"))"
        [receive]
        listen = "127.0.0.1:\(port)"
        insecure = true
        [peer.store-042]
        may = { push = ["store-042.*"] }
        [apply.pos]
        trail = "store-042.pos"
        database = "erp"
        tables = ["itme", "sale"]

        """)
      try write(
        net, "store-042",
        """
        [database.pos]
        url = "sqlite://\(net.bench.path("pos.db"))"
        [capture.pos]
        database = "pos"
        [pump.to-hq]
        trail = "store-042.pos"
        to = "http://127.0.0.1:\(port)"

        """)
      let text = "'tables' of [apply.pos] names itme, and trail store-042.pos has no table itme"
      func check() throws -> Outcome { try net.bench.run(Bench.cairn, ["check", "--config", "hq"]) }
      let hq = try net.start("hq", net.bench.path("hq"))
      #expect(try !check().output.contains("names itme"))
      _ = try net.bench.sqlite(
        "pos.db",
        "CREATE TABLE item(id INTEGER PRIMARY KEY); CREATE TABLE sale(id INTEGER PRIMARY KEY); INSERT INTO sale VALUES (1)"
      )
      try net.start("store-042", net.bench.path("store-042"))
      #expect(net.wait(for: "erp.db", "SELECT count(*) FROM sale", "1"), "\(net.logs)")
      #expect(net.wait(seconds: 30) { net.log(hq).contains(text) }, "\(net.logs)")
      #expect(net.log(hq).contains("did you mean item?"), "\(net.logs)")
      let status = try net.cairn(hq, "status").output
      #expect(status.contains("names itme"), "\(status)")
      let checked = try check()
      #expect(checked.output.contains("notice: \(text); did you mean item?"), "\(checked)")
      // The table may also be created later.
      _ = try net.bench.sqlite("pos.db", "CREATE TABLE itme(id INTEGER PRIMARY KEY); INSERT INTO itme VALUES (7)")
      #expect(net.wait(for: "erp.db", "SELECT count(*) FROM itme", "1"), "\(net.logs)")
      #expect(
        net.wait(seconds: 40) { (try? net.cairn(hq, "status").output.contains("names itme")) == false }, "\(net.logs)")
      #expect(try !check().output.contains("names itme"))
    }
  }
}
