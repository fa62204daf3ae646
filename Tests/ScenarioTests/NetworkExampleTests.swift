import Foundation
import TestServers
import Testing

extension DaemonScenarios {
  /// The examples in `conf/network`, unchanged: a daemon for each node, on loopback.
  @Suite struct NetworkExampleTests {
    private static let conf = Bench.root + "/conf/network/"

    private func table(_ net: NetworkBench, _ file: String, _ name: String, rows: Int) throws {
      _ = try net.bench.sqlite(
        file,
        """
        PRAGMA journal_mode = WAL;
        CREATE TABLE \(name)(id INTEGER PRIMARY KEY, text TEXT);
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(rows))
        INSERT INTO \(name) SELECT i, 'of \(file) ' || i FROM n
        """)
    }

    private func insert(_ net: NetworkBench, _ file: String, _ name: String, _ id: Int) throws {
      _ = try net.bench.sqlite(file, "INSERT INTO \(name) VALUES (\(id), 'late')")
    }

    /// That a trail of two nodes is the same byte for byte, as far as both have it.
    private func expectSameTrail(_ net: NetworkBench, _ trail: String, _ one: String, _ other: String) throws {
      let folders = [one, other].map { net.bench.path("state-\($0)/\(trail)") }
      let names = try folders.map { Set(try FileManager.default.contentsOfDirectory(atPath: $0)) }
      let segments = names[0].intersection(names[1]).filter { $0.hasSuffix(".seg") }
      #expect(!segments.isEmpty)
      for name in segments {
        let bytes = folders.compactMap { FileManager.default.contents(atPath: "\($0)/\(name)") }
        let count = min(bytes[0].count, bytes[1].count)
        // A segment that is being written is longer than what it holds.
        let ends = bytes.map { $0.prefix(count).lastIndex { $0 != 0 } ?? 0 }
        let end = ends.min() ?? 0
        #expect(bytes[0].prefix(end) == bytes[1].prefix(end), "\(trail) \(name) of \(one) and \(other)")
      }
    }

    @Test func `broadcast`() throws {
      let net = try NetworkBench()
      let port = ["CAIRN_HQ": "\(try NetworkBench.freePort())"]
      try table(net, "hq.db", "price", rows: 500)
      let stores = try (1...3).map { store in
        try net.start("store-\(store)", Self.conf + "broadcast-store.toml", port.merging(["STORE": "\(store)"]) { $1 })
      }
      let hq = try net.start("hq", Self.conf + "broadcast-hq.toml", port)
      for store in 1...3 {
        #expect(net.wait(for: "store-\(store).db", "SELECT count(*) FROM price", "500", seconds: 60), "\(net.logs)")
      }
      // One that is away, and the one that all fetch from, are back where they were.
      net.end(stores[0], SIGKILL)
      try insert(net, "hq.db", "price", 501)
      #expect(net.wait(for: "store-2.db", "SELECT count(*) FROM price", "501"), "\(net.logs)")
      if isSoak { net.end(hq, SIGKILL) }
      try net.start(stores[0])
      try insert(net, "hq.db", "price", 502)
      if isSoak { try net.start(hq) }
      for store in 1...3 {
        #expect(net.wait(for: "store-\(store).db", "SELECT count(*) FROM price", "502", seconds: 60), "\(net.logs)")
      }
      #expect(
        net.wait {
          net.paths(hq).filter { $0["behind_bytes"] as? Int == 0 && $0["state"] as? String == "connected" }.count == 3
        }, "\(net.status(hq))")
      let told = try net.cairn(hq, "status").output
      #expect(told.contains("pulled by") && told.contains("store-3"), "\(told)")
      net.endAll()
      for store in 1...3 { try expectSameTrail(net, "hq.prices", "hq", "store-\(store)") }
    }

    @Test func `consolidation`() throws {
      let net = try NetworkBench()
      let port = ["CAIRN_HQ": "\(try NetworkBench.freePort())"]
      for store in 1...2 {
        try table(net, "store-\(store).db", "sale", rows: 100 * store)
        try net.start(
          "store-\(store)", Self.conf + "consolidation-store.toml", port.merging(["STORE": "\(store)"]) { $1 })
      }
      let hq = try net.start("hq", Self.conf + "consolidation-hq.toml", port)
      #expect(
        net.wait(
          for: "hq.db", "SELECT group_concat(n) FROM (SELECT count(*) AS n FROM sale GROUP BY store)", "100,200"),
        "\(net.logs)")
      func isCopied() -> Bool {
        (net.status(hq)["workers"] as? [[String: Any]] ?? []).contains {
          $0["name"] as? String == "apply.store-1" && $0["tables_copied"] as? Int == 1
        }
      }
      #expect(net.wait { isCopied() }, "\(net.status(hq))")
      // A copy of one table travels back to where the rows are.
      _ = try net.bench.sqlite("hq.db", "DELETE FROM sale WHERE store = '1' AND id < 50")
      let asked = try net.cairn(hq, "copy", "store-1", "--tables", "sale", "--wait")
      #expect(asked.status == 0 && asked.output.hasPrefix("asked node store-1"), "\(asked)")
      #expect(asked.output.hasSuffix("copied 1 table\n"), "\(asked) \(net.logs)")
      #expect(net.wait(for: "hq.db", "SELECT count(*) FROM sale WHERE store = '1'", "100"), "\(net.logs)")
      // The sender sees what it brought, and in time what is applied at the other end.
      #expect(
        net.wait {
          net.paths(net.nodes[0]).contains {
            $0["way"] as? String == "push" && $0["behind_bytes"] as? Int == 0
              && (!isSoak || $0["applied_lag_ms"] as? Double == 0)
          }
        }, "\(net.status(net.nodes[0]))")
      net.endAll()
      for store in 1...2 { try expectSameTrail(net, "store-\(store).pos", "store-\(store)", "hq") }
    }

    @Test func `cascade`() throws {
      let net = try NetworkBench()
      let port = ["CAIRN_REGION": "\(try NetworkBench.freePort())"]
      try table(net, "hq.db", "price", rows: 300)
      for name in ["hq", "region", "store"] { try net.start(name, Self.conf + "cascade-\(name).toml", port) }
      for name in ["region", "store"] {
        #expect(net.wait(for: "\(name).db", "SELECT count(*) FROM price", "300", seconds: 60), "\(net.logs)")
      }
      try insert(net, "hq.db", "price", 301)
      #expect(net.wait(for: "store.db", "SELECT count(*) FROM price", "301"), "\(net.logs)")
      try expectSameTrail(net, "hq.prices", "hq", "store")
      guard isSoak else { return net.endAll() }
      // A request of the last node reaches the first one over the one between.
      _ = try net.bench.sqlite("store.db", "DELETE FROM price WHERE id < 100")
      #expect(try net.cairn(net.nodes[2], "copy", "prices", "--tables", "price").status == 0)
      #expect(net.wait(for: "store.db", "SELECT count(*) FROM price", "301", seconds: 60), "\(net.logs)")
      net.endAll()
    }

    @Test func `hub and spokes`() throws {
      let net = try NetworkBench()
      let port = ["CAIRN_HUB": "\(try NetworkBench.freePort())"]
      let spokes = ["north", "south"]
      for (index, spoke) in spokes.enumerated() { try table(net, "\(spoke).db", "sale", rows: 50 * (index + 1)) }
      try net.start("hub", Self.conf + "hub.toml", port)
      for spoke in spokes { try net.start(spoke, Self.conf + "spoke-\(spoke).toml", port) }
      let sql = "SELECT count(*) || ' ' || min(spoke) FROM sale"
      #expect(net.wait(for: "north-others.db", sql, "100 south", seconds: 60), "\(net.logs)")
      #expect(net.wait(for: "south-others.db", sql, "50 north", seconds: 60), "\(net.logs)")
      try insert(net, "north.db", "sale", 1000)
      #expect(net.wait(for: "south-others.db", sql, "51 north"), "\(net.logs)")
      // No trail comes back to where it began.
      #expect(!FileManager.default.fileExists(atPath: net.bench.path("state-north/north.sales.copy")))
      net.endAll()
      try expectSameTrail(net, "north.sales", "north", "south")
    }
  }
}
