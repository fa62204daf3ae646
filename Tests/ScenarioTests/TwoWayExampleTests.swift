import Foundation
import TestServers
import Testing

extension DaemonScenarios {
  /// The examples in `conf/` in which several nodes write the same tables, unchanged.
  @Suite struct TwoWayExampleTests {
    private static let conf = Bench.root + "/conf/network/"
    private static let all =
      "SELECT group_concat(id || ' ' || name || ' ' || pieces) FROM (SELECT * FROM item ORDER BY id)"

    private func shop(_ net: NetworkBench, _ file: String) throws {
      _ = try net.bench.sqlite(
        file,
        """
        PRAGMA journal_mode = WAL; CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, pieces INTEGER);
        INSERT INTO item VALUES (1, 'tea', 100), (2, 'rice', 5)
        """)
    }

    private func write(_ net: NetworkBench, _ file: String, _ sql: String) throws {
      _ = try net.bench.sqlite(file, sql)
    }

    private func expect(_ net: NetworkBench, _ files: [String], _ rows: String) throws {
      for file in files {
        let here = (try? net.bench.sqlite(file, Self.all)) ?? ""
        try #require(net.wait(for: file, Self.all, rows), "\(file) \(here) \(net.logs)")
      }
    }

    /// That what programs write from now on is captured: apply has made the table, and capture has found it.
    private func expectCaptured(_ net: NetworkBench, _ files: [String]) throws {
      let triggers = "SELECT count(*) > 0 FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'item'"
      for file in files { try #require(net.wait(for: file, triggers, "1"), "\(file) \(net.logs)") }
    }

    @Test func `bidirectional`() throws {
      let net = try NetworkBench()
      let port = ["CAIRN_HQ": "\(try NetworkBench.freePort())"]
      try shop(net, "hq.db")
      try net.start("hq", Self.conf + "pair-hq.toml", port)
      let shop = try net.start("shop", Self.conf + "pair-shop.toml", port)
      try expect(net, ["shop.db"], "1 tea 100,2 rice 5")
      try expectCaptured(net, ["shop.db"])
      try write(net, "shop.db", "INSERT INTO item VALUES (3, 'milk', 7)")
      try expect(net, ["hq.db"], "1 tea 100,2 rice 5,3 milk 7")
      // While the line is down, both write the same row.
      net.end(shop)
      try write(net, "hq.db", "UPDATE item SET pieces = pieces + 10 WHERE id = 1")
      try write(net, "shop.db", "UPDATE item SET pieces = pieces - 3, name = 'green tea' WHERE id = 1")
      try net.start(shop)
      try expect(net, ["hq.db", "shop.db"], "1 green tea 107,2 rice 5,3 milk 7")
      let told = try net.bench.run(Bench.cairn, ["conflicts", "list", "--database", "sqlite:hq.db"])
      #expect(told.output.contains("update_origin_differs"), "\(told)")
      net.endAll()
    }

    @Test func `peer to peer`() throws {
      let net = try NetworkBench()
      let names = ["north", "south", "west"]
      var ports: [String: String] = [:]
      for name in names { ports["CAIRN_\(name.uppercased())"] = "\(try NetworkBench.freePort())" }
      try shop(net, "north.db")
      let nodes = try names.map { try net.start($0, Self.conf + "mesh-\($0).toml", ports) }
      let files = names.map { "\($0).db" }
      try expect(net, files, "1 tea 100,2 rice 5")
      try expectCaptured(net, files)
      // The third node gets what the other two have of each other from each of them.
      try write(net, "south.db", "INSERT INTO item VALUES (3, 'milk', 7)")
      try write(net, "west.db", "DELETE FROM item WHERE id = 2")
      try expect(net, files, "1 tea 100,3 milk 7")
      net.end(nodes[2], SIGKILL)
      for (index, file) in files.enumerated() {
        try write(net, file, "UPDATE item SET pieces = pieces - \(1 + index) WHERE id = 1")
      }
      try net.start(nodes[2])
      try expect(net, files, "1 tea 94,3 milk 7")
      net.endAll()
    }

    @Test func `a decision of one database comes to the other`() throws {
      let node = try DaemonBench()
      for name in ["pos", "copy"] {
        _ = try node.bench.sqlite(
          "\(name).db",
          "PRAGMA journal_mode = WAL; CREATE TABLE item(id TEXT PRIMARY KEY, pieces INTEGER) WITHOUT ROWID")
      }
      func way(_ from: String, _ to: String) -> String {
        """
        [database.\(from)]
        url = "sqlite://\(node.bench.path("\(from).db"))"
        [capture.\(from)]
        database = "\(from)"
        copy = false
        [apply.\(to)]
        trail = "store-042.\(from)"
        database = "\(to)"
        conflicts = { pieces = "sql:max(local, incoming) * 100 + min(local, incoming)" }
        decides = "store-042.pos"

        """
      }
      try node.write(way("pos", "copy") + way("copy", "pos"))
      func expectBoth(_ rows: String) throws {
        let all = "SELECT group_concat(id || ' ' || pieces) FROM (SELECT * FROM item ORDER BY id)"
        for file in ["pos.db", "copy.db"] {
          let isThere = node.wait {
            (try? node.bench.sqlite(file, all))?.trimmingCharacters(in: .whitespacesAndNewlines) == rows
          }
          try #require(isThere, "\(file) \((try? node.bench.sqlite(file, all)) ?? "") \(node.log)")
        }
      }
      try node.start()
      let captured = "SELECT count(*) > 0 FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'item'"
      for file in ["pos.db", "copy.db"] {
        try #require(node.wait { (try? node.bench.sqlite(file, captured)) == "1\n" }, "\(node.log)")
      }
      _ = try node.bench.sqlite("pos.db", "INSERT INTO item VALUES ('tea', 1), ('rice', 2)")
      try expectBoth("rice 2,tea 1")
      #expect(node.end() == 0)
      _ = try node.bench.sqlite("pos.db", "UPDATE item SET pieces = 7 WHERE id = 'tea'")
      _ = try node.bench.sqlite("copy.db", "UPDATE item SET pieces = 5 WHERE id = 'tea'")
      try node.start()
      try expectBoth("rice 2,tea 705")
      #expect(node.end() == 0)
    }

    @Test(.enabled(if: PostgresServer.problem == nil))
    func `a file and a server, and keys that both would draw are refused until they are separated`() throws {
      let server = try PostgresServer()
      let node = try DaemonBench()
      let url = try server.createDatabase("two_way")
      _ = try node.bench.sqlite(
        "source.db",
        "PRAGMA journal_mode = WAL; CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT); INSERT INTO item VALUES (1, 'tea')"
      )
      try node.start(
        Bench.root + "/conf/two-way.toml",
        environment: [
          "CAIRN_STATE": node.bench.path("state"), "CAIRN_SOURCE": node.bench.path("source.db"),
          "CAIRN_POSTGRES": url,
        ])
      try #require(node.wait { node.log.contains("[keys-alike]") }, "\(node.log)")
      #expect(try server.psql("SELECT name FROM item", "two_way") == "tea")
      let separated = try node.bench.run(
        Bench.cairn, ["identity", "separate", url, "--nodes", "2", "--node", "2", "--below-zero"])
      #expect(separated.status == 0, "\(separated)")
      for apply in ["pos-to-erp", "erp-to-pos"] { _ = try node.cairn("start", "apply.\(apply)") }
      try server.psql("INSERT INTO item(name) VALUES ('rice')", "two_way")
      _ = try node.bench.sqlite("source.db", "INSERT INTO item(name) VALUES ('milk')")
      let rows = "-2 rice,1 tea,2 milk"
      #expect(
        node.wait {
          (try? node.bench.sqlite(
            "source.db", "SELECT group_concat(id || ' ' || name) FROM (SELECT * FROM item ORDER BY id)"))?
            .trimmingCharacters(in: .whitespacesAndNewlines) == rows
            && (try? server.psql("SELECT string_agg(id || ' ' || name, ',' ORDER BY id) FROM item", "two_way")) == rows
        }, "\(node.log)")
      #expect(node.end() == 0)
    }
  }
}
