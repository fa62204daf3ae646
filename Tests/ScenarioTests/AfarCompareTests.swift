import Foundation
import TestServers
import Testing

extension DaemonScenarios {
  /// Rows are compared over the pump: neither node reaches the database of the other.
  @Suite struct AfarCompareTests {
    private func write(_ net: NetworkBench, _ node: String, _ text: String) throws {
      try FileManager.default.createDirectory(atPath: net.bench.path(node), withIntermediateDirectories: true)
      let head = "[node]\nname = \"\(node)\"\nstate = \"\(net.bench.path("state-\(node)"))\"\n"
      try Data((head + text).utf8).write(to: URL(fileURLWithPath: net.bench.path("\(node)/cairn.toml")))
    }

    private static let tables = """
      CREATE TABLE sale(id INTEGER PRIMARY KEY, text TEXT, price NUMERIC);
      CREATE TABLE word(word TEXT NOT NULL COLLATE NOCASE PRIMARY KEY, meaning TEXT);
      CREATE TABLE note(text TEXT, at INTEGER);
      WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
      INSERT INTO sale SELECT i, 'sale ' || i, i * 0.25 FROM n;
      INSERT INTO word SELECT 'w' || id, text FROM sale WHERE id <= 50;
      INSERT INTO note SELECT text, id % 3 FROM sale WHERE id <= 40;
      INSERT INTO note SELECT text, id % 3 FROM sale WHERE id <= 10
      """

    private func compare(_ net: NetworkBench, _ node: String, _ apply: String, _ more: String...) throws -> Outcome {
      try net.bench.run(Bench.cairn, ["compare", apply, "--config", node] + more)
    }

    /// Waits for the drift, compares, mends, and compares again.
    private func findAndMend(
      _ net: NetworkBench, _ node: NetworkBench.Node, _ apply: String, kinds: [String]
    ) throws {
      #expect(net.wait(seconds: 60) { net.log(node).contains("[drift-found]") }, "\(net.logs)")
      #expect(net.wait { (try? net.cairn(node, "status"))?.output.contains("drift in") == true }, "\(net.logs)")
      let found = try compare(net, node.name, apply)
      #expect(found.status == 1, "\(found)")
      for kind in kinds { #expect(found.output.contains(kind), "\(found.output)") }
      let mended = try compare(net, node.name, apply, "--repair")
      #expect(mended.status == 0, "\(mended)\n\(net.logs)")
      let equal = try compare(net, node.name, apply)
      #expect(equal.status == 0, "\(equal)")
      // Each comparison asks many questions.
      let orders = net.log(node).split(separator: "\n").filter { $0.contains("order 'question ") }
      #expect((1...3).contains(orders.count) && orders[0].contains(" of uid \(geteuid()), process "), "\(orders)")
    }

    @Test(.enabled(if: postgresProblem == nil, "\(postgresProblem ?? "")"))
    func `a node that pushes answers for its SQLite source, and the server of the other node is mended`() throws {
      let server = try PostgresServer()
      let url = try server.createDatabase("erp")
      let net = try NetworkBench()
      defer { net.endAll() }
      let port = try NetworkBench.freePort()
      _ = try net.bench.sqlite("pos.db", "PRAGMA journal_mode = WAL; \(Self.tables)")
      try write(
        net, "hq",
        """
        [database.erp]
        url = "\(url)"
        [receive]
        listen = "127.0.0.1:\(port)"
        insecure = true
        [peer.store-042]
        may = { push = ["store-042.*"] }
        [apply.pos]
        trail = "store-042.pos"
        database = "erp"
        tables = ["*"]

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
      let hq = try net.start("hq", net.bench.path("hq"))
      try net.start("store-042", net.bench.path("store-042"))
      #expect(
        net.wait { (try? server.psql("SELECT count(*) FROM note", "erp"))?.contains("50") == true }, "\(net.logs)")
      try server.psql(
        """
        UPDATE sale SET text = 'forged' WHERE id = 7; DELETE FROM sale WHERE id = 1500;
        INSERT INTO sale VALUES (9000, 'extra', 1); UPDATE word SET meaning = NULL WHERE word = 'w3'
        """, "erp")
      try findAndMend(net, hq, "pos", kinds: ["different", "missing", "extra", "word"])
      let rows = try server.psql("SELECT count(*), count(*) FILTER (WHERE text = 'forged') FROM sale", "erp")
      #expect(rows.contains("3000|0"), "\(rows)")
    }

    @Test(.enabled(if: postgresProblem == nil, "\(postgresProblem ?? "")"))
    func `a node that is dialled answers for its server, and the file of the other node is mended`() throws {
      let server = try PostgresServer()
      let url = try server.createDatabase("erp")
      try server.psql(
        """
        CREATE TABLE item(id int PRIMARY KEY, name text, price numeric(10,2), at timestamptz);
        CREATE TABLE label(name text PRIMARY KEY, text text);
        INSERT INTO item SELECT i, 'item ' || i, i * 0.01, '2026-01-01'::timestamptz + i * interval '1 second'
          FROM generate_series(1, 3000) AS i;
        INSERT INTO label SELECT 'Äpfel ' || i, 'x' FROM generate_series(1, 100) AS i
        """, "erp")
      let net = try NetworkBench()
      defer { net.endAll() }
      let port = try NetworkBench.freePort()
      try write(
        net, "hq",
        """
        [database.erp]
        url = "\(url)"
        [capture.erp]
        database = "erp"
        [receive]
        listen = "127.0.0.1:\(port)"
        insecure = true
        [peer.till]
        may = { pull = ["hq.*"] }

        """)
      try write(
        net, "till",
        """
        [database.till]
        url = "sqlite://\(net.bench.path("till.db"))"
        [pump.from-hq]
        trail = "hq.erp"
        from = "http://127.0.0.1:\(port)"
        [apply.erp]
        trail = "hq.erp"
        database = "till"
        tables = ["*"]

        """)
      try net.start("hq", net.bench.path("hq"))
      let till = try net.start("till", net.bench.path("till"))
      #expect(net.wait(for: "till.db", "SELECT count(*) FROM label", "100"), "\(net.logs)")
      #expect(net.wait(for: "till.db", "SELECT count(*) FROM item", "3000"), "\(net.logs)")
      _ = try net.bench.sqlite(
        "till.db",
        """
        UPDATE item SET price = '0.07000' WHERE id = 8; DELETE FROM item WHERE id = 10; DELETE FROM label WHERE name
        = 'Äpfel 5'; INSERT INTO item VALUES (5000, 'extra', '1.00', NULL)
        """)
      try findAndMend(net, till, "erp", kinds: ["different", "missing", "extra", "label"])
      #expect(try net.bench.sqlite("till.db", "SELECT count(*) FROM item WHERE id IN (10, 5000)") == "1\n")
    }

    @Test func `a node in between hands questions on, while programs write`() throws {
      let net = try NetworkBench()
      defer { net.endAll() }
      let port = try NetworkBench.freePort()
      _ = try net.bench.sqlite("pos.db", "PRAGMA journal_mode = WAL; \(Self.tables)")
      try write(
        net, "hub",
        """
        [receive]
        listen = "127.0.0.1:\(port)"
        insecure = true
        [peer.store-042]
        may = { push = ["store-042.*"] }
        [peer.lab]
        may = { pull = ["store-042.*"] }

        """)
      try write(
        net, "store-042",
        """
        [database.pos]
        url = "sqlite://\(net.bench.path("pos.db"))"
        [capture.pos]
        database = "pos"
        [pump.to-hub]
        trail = "store-042.pos"
        to = "http://127.0.0.1:\(port)"

        """)
      try write(
        net, "lab",
        """
        [database.lab]
        url = "sqlite://\(net.bench.path("lab.db"))"
        [pump.from-hub]
        trail = "store-042.pos"
        from = "http://127.0.0.1:\(port)"
        [apply.pos]
        trail = "store-042.pos"
        database = "lab"
        tables = ["*"]
        audit = "1MiB/s"

        """)
      let checked = try net.bench.run(Bench.cairn, ["check", "--config", "lab"])
      #expect(!checked.errors.contains("conf-value"), "\(checked)")
      try net.start("hub", net.bench.path("hub"))
      try net.start("store-042", net.bench.path("store-042"))
      let lab = try net.start("lab", net.bench.path("lab"))
      #expect(net.wait(for: "lab.db", "SELECT count(*) FROM note", "50"), "\(net.logs)")
      // While rows are written all the time, none of them counts as a drift.
      let writing = try net.bench.start(
        "writer", "/bin/sh",
        [
          "-c",
          "for i in $(seq 1 400); do sqlite3 -cmd '.timeout 5000' '\(net.bench.path("pos.db"))' \"UPDATE sale SET text = 'run $i' WHERE id % 7 = $i % 7 AND id < 2000; INSERT INTO note VALUES ('n', $i)\"; sleep 0.05; done",
        ])
      let running = try compare(net, "lab", "pos")
      #expect([0, 75].contains(running.status), "\(running)\n\(net.logs)")
      #expect(!net.log(lab).contains("[drift-found]"), "\(net.logs)")
      _ = try net.bench.sqlite(
        "lab.db",
        """
        DELETE FROM note WHERE rowid = (SELECT min(rowid) FROM note WHERE text = 'sale 3');
        UPDATE word SET meaning = 'other' WHERE word = 'w9'; DELETE FROM sale WHERE id = 2999
        """)
      #expect(net.wait(seconds: 60) { net.log(lab).contains("[drift-found]") }, "\(net.logs)")
      writing.signal(SIGTERM)
      writing.wait(seconds: 30)
      let before = try compare(net, "lab", "pos")
      #expect(before.status == 1 && before.output.contains("note"), "\(before)")
      let mended = try compare(net, "lab", "pos", "--repair")
      #expect(mended.status == 0, "\(mended)\n\(net.logs)")
      let equal = try compare(net, "lab", "pos")
      #expect(equal.status == 0, "\(equal)")
    }
  }
}
