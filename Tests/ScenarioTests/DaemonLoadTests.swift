import Foundation
import TestServers
import Testing

extension DaemonScenarios {
  /// The examples in `conf/`, run by one daemon under load, and judged by the engines' own programs.
  @Suite(.enabled(if: postgresProblem == nil, "\(postgresProblem ?? "")"))
  struct DaemonLoadTests {
    private static let stores = (1...10).map { $0 < 10 ? "0\($0)" : "\($0)" }
    private static let seconds = isSoak ? 600 : 10

    /// Writes at random to ten files, one small transaction after the other.
    private static let tills = """
      import random, sqlite3, sys, time
      end = time.time() + float(sys.argv[1]); random.seed(7)
      shops = [sqlite3.connect("stores/store-%s.db" % n, timeout=30, isolation_level=None) for n in sys.argv[2:]]
      count = 0
      while time.time() < end:
        shop = random.choice(shops)
        shop.execute("BEGIN IMMEDIATE")
        for _ in range(random.randint(1, 5)):
          n = random.random()
          if n < .6: shop.execute("INSERT INTO sale(item_id, pieces, at) VALUES (?, ?, ?)", (random.randint(1, 50), random.randint(1, 9), "t%d" % count))
          elif n < .8: shop.execute("UPDATE sale SET pieces = pieces + 1 WHERE id = (SELECT max(id) - ? FROM sale)", (random.randint(0, 40),))
          elif n < .9: shop.execute("DELETE FROM sale WHERE id = (SELECT max(id) - ? FROM sale)", (random.randint(0, 40),))
          else: shop.execute("UPDATE item SET stock = stock - 1 WHERE id = ?", (random.randint(1, 50),))
        shop.execute("COMMIT"); count += 1
        time.sleep(.004)
      print(count)
      """

    private static let orders = """
      \\set id random(1, 100000)
      \\set store random(1, 6)
      BEGIN;
      INSERT INTO orders VALUES (:id, :store, 1, 'new') ON CONFLICT (id) DO UPDATE SET store = :store, amount = orders.amount + 1;
      DELETE FROM orders WHERE id = :id - 7;
      UPDATE item SET stock = stock - 1 WHERE id = :id % 50;
      COMMIT;
      """

    /// The second example beside the first, under names of its own.
    private func distribution() throws -> String {
      let text = try String(contentsOfFile: Bench.root + "/conf/distribution.toml", encoding: .utf8)
      var kept: [String] = []
      var isKept = true
      for line in text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init) {
        if line.hasPrefix("[") { isKept = !["[node]", "[limits]"].contains(line) }
        if isKept { kept.append(line) }
      }
      return kept.joined(separator: "\n").replacingOccurrences(of: "erp", with: "hub")
        .replacingOccurrences(of: "CAIRN_POSTGRES", with: "CAIRN_HUB")
    }

    private func makeStores(_ node: DaemonBench) throws {
      try FileManager.default.createDirectory(atPath: node.bench.path("stores"), withIntermediateDirectories: true)
      for store in Self.stores {
        _ = try node.bench.sqlite(
          "stores/store-\(store).db",
          """
          PRAGMA journal_mode = WAL;
          CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, stock INTEGER);
          CREATE TABLE sale(id INTEGER PRIMARY KEY, item_id INTEGER, pieces INTEGER, at TEXT);
          WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50)
          INSERT INTO item SELECT i, 'item ' || i || ' of \(store)', 1000 FROM n
          """)
      }
    }

    /// The rows of a store at both ends, as the engines' own programs print them.
    private func differs(_ node: DaemonBench, _ server: PostgresServer) throws -> String? {
      for store in Self.stores {
        for (table, columns) in [("item", "id, name, stock"), ("sale", "id, item_id, pieces, at")] {
          let here = try node.bench.sqlite("stores/store-\(store).db", "SELECT \(columns) FROM \(table) ORDER BY id")
          let there = try server.psql(
            "SELECT \(columns) FROM \(table) WHERE store = '\(store)' ORDER BY id", "consolidated")
          if here.trimmingCharacters(in: .newlines) != there { return "\(table) of store \(store)" }
        }
      }
      for store in 1...5 {
        let items = try server.psql("SELECT id, name, stock FROM item ORDER BY id", "hub")
        let mine = try server.psql(
          "SELECT id, store, amount, note FROM orders WHERE store = \(store) ORDER BY id", "hub")
        for (sql, expected) in [
          ("SELECT id, name, stock FROM item ORDER BY id", items),
          ("SELECT id, store, amount, note FROM orders ORDER BY id", mine),
        ] {
          let there = try node.bench.sqlite("stores/store-\(store).db", sql)
          if there.trimmingCharacters(in: .newlines) != expected { return "\(sql) of store-\(store).db" }
        }
      }
      return nil
    }

    @Test func `ten files into one server, and one server into five files, by one daemon`() throws {
      let server = try PostgresServer()
      let node = try DaemonBench()
      let consolidated = try server.createDatabase("consolidated")
      let hub = try server.createDatabase("hub")
      try makeStores(node)
      try server.psql(
        """
        CREATE TABLE item(id int PRIMARY KEY, name text, stock int);
        INSERT INTO item SELECT i, 'item ' || i, 1000 FROM generate_series(0, 49) AS i;
        CREATE TABLE orders(id int PRIMARY KEY, store int, amount int, note text);
        ALTER TABLE orders REPLICA IDENTITY FULL
        """, "hub")
      try FileManager.default.copyItem(
        atPath: Bench.root + "/conf/consolidation.toml", toPath: node.bench.path("conf/cairn.toml"))
      try Data(distribution().utf8).write(to: URL(fileURLWithPath: node.bench.path("conf/conf.d/distribution.toml")))
      try node.start(environment: [
        "CAIRN_STATE": node.bench.path("state"), "CAIRN_STORES": node.bench.path("stores"),
        "CAIRN_POSTGRES": consolidated, "CAIRN_HUB": hub,
      ])
      defer { _ = node.end(SIGKILL) }
      let tills = try node.bench.start(
        "tills", Bench.python, ["-c", Self.tills, "\(Self.seconds)"] + Self.stores)
      try Data(Self.orders.utf8).write(to: URL(fileURLWithPath: node.bench.path("orders.sql")))
      let orders = try node.bench.start(
        "orders", server.path(of: "pgbench"),
        ["-n", "-f", "orders.sql", "-T", "\(Self.seconds)", "-R", "100", hub])
      var most = 0
      while tills.isRunning || orders.isRunning {
        most = max(most, node.daemon?.anonymousKiB ?? 0)
        usleep(200_000)
      }
      #expect(tills.terminationStatus == 0, "\(node.bench.text("tills.err"))")
      #expect(orders.terminationStatus == 0, "\(node.bench.text("orders.err"))")
      let status = try node.cairn("status")
      #expect(status.output.contains("apply.store-10") && status.output.contains(" ms"), "\(status.output)")
      var found: String?
      #expect(
        node.wait(seconds: 90) { (try? { found = try differs(node, server) }()) != nil && found == nil },
        "\(found ?? ""): \(node.log.suffix(3000)) \((try? node.cairn("status").output) ?? "")")
      print(
        "at most \(most / 1024) MiB anonymous, \(node.bench.text("tills.out").trimmingCharacters(in: .newlines)) transactions"
      )
      #expect(most > 0 && most < 150 * 1024)
      #expect(node.end() == 0)
      #expect(try differs(node, server) == nil)
    }

    @Test func `one file into a server, by the unchanged example`() throws {
      let server = try PostgresServer()
      let node = try DaemonBench()
      let url = try server.createDatabase("one_way")
      _ = try node.bench.sqlite(
        "source.db", "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT); INSERT INTO item VALUES (1, 'tea')")
      try node.start(
        Bench.root + "/conf/one-way.toml",
        environment: [
          "CAIRN_STATE": node.bench.path("state"), "CAIRN_SOURCE": node.bench.path("source.db"),
          "CAIRN_POSTGRES": url,
        ])
      #expect(node.wait { (try? server.psql("SELECT name FROM item", "one_way")) == "tea" }, "\(node.log)")
      #expect(node.end() == 0)
    }
  }
}
