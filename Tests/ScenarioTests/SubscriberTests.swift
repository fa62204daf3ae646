import Foundation
import Testing

extension DaemonScenarios {
  /// `conf/subscriber.toml`, unchanged: tables that come down only, go up only, and go both ways.
  @Suite struct SubscriberTests {
    private func started() throws -> DaemonBench {
      let node = try DaemonBench()
      _ = try node.bench.sqlite(
        "pos.db",
        """
        PRAGMA journal_mode = WAL; CREATE TABLE price(item TEXT PRIMARY KEY, amount) WITHOUT ROWID;
        CREATE TABLE item(id TEXT PRIMARY KEY, pieces) WITHOUT ROWID;
        INSERT INTO price VALUES ('tea', 3); INSERT INTO item VALUES ('tea', 100)
        """)
      _ = try node.bench.sqlite(
        "shop.db",
        """
        PRAGMA journal_mode = WAL; CREATE TABLE sale(id TEXT PRIMARY KEY, item, note) WITHOUT ROWID;
        INSERT INTO sale VALUES ('s1', 'tea', '')
        """)
      return node
    }

    private func values(_ node: DaemonBench) -> [String: String] {
      [
        "CAIRN_STATE": node.bench.path("state"), "CAIRN_SOURCE": node.bench.path("pos.db"),
        "CAIRN_SHOP": node.bench.path("shop.db"),
      ]
    }

    private func expect(_ node: DaemonBench, _ file: String, _ sql: String, _ rows: String) throws {
      let isThere = node.wait {
        (try? node.bench.sqlite(file, sql))?.trimmingCharacters(in: .whitespacesAndNewlines) == rows
      }
      try #require(isThere, "\(file) \((try? node.bench.sqlite(file, sql)) ?? "") \(node.log)")
    }

    @Test func `each table goes its way`() throws {
      let node = try started()
      let conf = Bench.root + "/conf/subscriber.toml"
      try node.start(conf, environment: values(node))
      try expect(node, "shop.db", "SELECT amount FROM price", "3")
      try expect(node, "pos.db", "SELECT id FROM sale", "s1")
      let captured = "SELECT count(*) > 0 FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'item'"
      try expect(node, "shop.db", captured, "1")
      // Down, up, and both ways.
      _ = try node.bench.sqlite("pos.db", "UPDATE price SET amount = 4; UPDATE item SET pieces = 90")
      _ = try node.bench.sqlite("shop.db", "INSERT INTO sale VALUES ('s2', 'tea', '')")
      try expect(node, "shop.db", "SELECT amount FROM price", "4")
      try expect(node, "shop.db", "SELECT pieces FROM item", "90")
      try expect(node, "pos.db", "SELECT count(*) FROM sale", "2")
      _ = try node.bench.sqlite("shop.db", "UPDATE item SET pieces = 80")
      try expect(node, "pos.db", "SELECT pieces FROM item", "80")
      // A price is refused in the shop; what is noted beside a sale stays until the shop changes that sale.
      let refused = try node.bench.run("/usr/bin/sqlite3", ["shop.db", "UPDATE price SET amount = 1"])
      #expect(refused.status != 0 && refused.errors.contains("Cairn refuses writes of other programs"), "\(refused)")
      _ = try node.bench.sqlite("pos.db", "UPDATE sale SET note = 'ours'")
      _ = try node.bench.sqlite("shop.db", "UPDATE sale SET item = 'rice' WHERE id = 's1'")
      try expect(node, "pos.db", "SELECT group_concat(id || item || note) FROM sale", "s1rice,s2teaours")
      let log = try node.bench.run(Bench.cairn, ["conflicts", "list", "--database", "sqlite:pos.db"])
      #expect(log.output.contains("update_origin_differs") && log.output.contains("allow"), "\(log)")
      let turned = try node.bench.run(Bench.cairn, ["conflicts", "overturn", "1", "--database", "sqlite:pos.db"])
      #expect(turned.status == 0, "\(turned)")
      #expect(try node.bench.sqlite("pos.db", "SELECT item || note FROM sale WHERE id = 's1'") == "teaours\n")
      #expect(node.end() == 0)

      let check = try node.bench.run(Bench.cairn, ["check", "--config", conf], environment: values(node))
      #expect(check.status == 0, "\(check)")
      for line in [
        "table price: one-way; for writes of other programs: local_writes = \"refuse\"", "table item: both ways",
        "table sale: one-way; for writes of other programs: local_writes = \"allow\"",
      ] { #expect(check.output.contains(line), "\(line): \(check.output)") }
    }

    @Test func `a table that goes both ways may have none of these settings`() throws {
      let node = try started()
      let text = try String(contentsOfFile: Bench.root + "/conf/subscriber.toml", encoding: .utf8)
      let wrong = node.bench.path("wrong.toml")
      try text.replacingOccurrences(of: "from = \"sale\"", with: "from = \"item\"")
        .write(toFile: wrong, atomically: true, encoding: .utf8)
      _ = try node.bench.sqlite("shop.db", "CREATE TABLE item(id TEXT PRIMARY KEY, pieces) WITHOUT ROWID")
      _ = try node.bench.sqlite("pos.db", "DELETE FROM item")
      let check = try node.bench.run(Bench.cairn, ["check", "--config", wrong], environment: values(node))
      #expect(check.status != 0 && check.errors.contains("local_writes = \"allow\" is not allowed"), "\(check)")
      try node.start(wrong, environment: values(node))
      #expect(node.wait { node.log.contains("[conf-value]") && node.log.contains("is not allowed") }, "\(node.log)")
      #expect(node.end() == 0)
    }
  }
}
