import Changes
import Foundation
import SystemKit
import TestServers
import Testing
import Trails

extension DaemonScenarios {
  /// A peer's trail that comes over TLS into the databases of another node (invariant 11).
  @Suite struct HostileTrailTests {
    private func write(_ net: NetworkBench, _ node: String, _ text: String) throws {
      try FileManager.default.createDirectory(atPath: net.bench.path(node), withIntermediateDirectories: true)
      let head = "[node]\nname = \"\(node)\"\nstate = \"\(net.bench.path("state-\(node)"))\"\n"
      try Data((head + text).utf8).write(to: URL(fileURLWithPath: net.bench.path("\(node)/cairn.toml")))
    }

    private func hq(_ net: NetworkBench, _ port: UInt16, _ tables: String?) -> String {
      let list = tables.map { "tables = \($0)\n" } ?? ""
      return """
        [database.erp]
        url = "sqlite://\(net.bench.path("erp.db"))"
        [database.own]
        url = "sqlite://\(net.bench.path("own.db"))"
        [database.own-copy]
        url = "sqlite://\(net.bench.path("own-copy.db"))"
        [capture.own]
        database = "own"
        [apply.own]
        trail = "hq.own"
        database = "own-copy"
        [receive]
        listen = "127.0.0.1:\(port)"
        [apply.evil]
        trail = "evil.pos"
        database = "erp"
        \(list)
        """
    }

    /// The node that listens, and a peer that was invited and captures two tables.
    private func started() throws -> (net: NetworkBench, port: UInt16, hq: NetworkBench.Node, evil: NetworkBench.Node) {
      let net = try NetworkBench()
      let port = try NetworkBench.freePort()
      _ = try net.bench.sqlite("own.db", "PRAGMA journal_mode = WAL; CREATE TABLE a(id INTEGER PRIMARY KEY)")
      _ = try net.bench.sqlite(
        "pos.db",
        """
        PRAGMA journal_mode = WAL; CREATE TABLE sale(id INTEGER PRIMARY KEY, text TEXT);
        CREATE TABLE ledger(id INTEGER PRIMARY KEY, text TEXT);
        INSERT INTO sale VALUES (1, 'a'); INSERT INTO ledger VALUES (1, 'mine'), (2, 'all mine')
        """)
      _ = try net.bench.sqlite(
        "erp.db", "CREATE TABLE ledger(id INTEGER PRIMARY KEY, text TEXT); INSERT INTO ledger VALUES (7, 'whole')")
      try write(
        net, "hq", hq(net, port, nil).replacing("[apply.evil]\ntrail = \"evil.pos\"\ndatabase = \"erp\"\n", with: ""))
      let hq = try net.start("hq", net.bench.path("hq"))
      #expect(net.wait { net.log(hq).contains("no server certificate") }, "\(net.logs)")
      let invited = try net.bench.run(
        Bench.cairn,
        [
          "peer", "invite", "evil", "--address", "127.0.0.1:\(port)", "--config", "hq", "--push", "evil.*", "--write",
          "--json",
        ])
      let facts = try JSONSerialization.jsonObject(with: Data(invited.output.utf8)) as? [String: Any]
      let line = try #require(facts?["line"] as? String, "\(invited)")
      // Without a list, a trail of another node is refused with the line to write.
      try write(net, "hq", self.hq(net, port, nil))
      let refused = try net.cairn(hq, "reload")
      #expect(refused.status != 0 && refused.errors.contains("conf-missing"), "\(refused)")
      #expect(refused.errors.contains("tables = [\"*\"]"), "\(refused)")
      try write(net, "hq", self.hq(net, port, "[\"sale\"]"))
      #expect(try net.cairn(hq, "reload").status == 0)
      #expect(net.wait { net.log(hq).contains("TLS 1.3") }, "\(net.logs)")
      try FileManager.default.createDirectory(atPath: net.bench.path("state-evil"), withIntermediateDirectories: true)
      try write(
        net, "evil",
        """
        [database.pos]
        url = "sqlite://\(net.bench.path("pos.db"))"
        [capture.pos]
        database = "pos"
        [pump.to-hq]
        trail = "evil.pos"
        to = "https://127.0.0.1:\(port)"
        peer = "hq"

        """)
      #expect(try net.bench.run(Bench.cairn, ["peer", "join", line, "--config", "evil"]).status == 0)
      let evil = try net.start("evil", net.bench.path("evil"))
      #expect(net.wait(for: "erp.db", "SELECT count(*) FROM sale", "1"), "\(net.logs)")
      return (net, port, hq, evil)
    }

    private func apply(_ net: NetworkBench, _ node: NetworkBench.Node, _ name: String) -> [String: Any] {
      let workers = net.status(node)["workers"] as? [[String: Any]] ?? []
      return workers.first { $0["name"] as? String == name } ?? [:]
    }

    @Test func `a table outside of the list is left out, and comes with a copy once it is listed`() throws {
      let (net, port, hq, _) = try started()
      #expect(try net.bench.sqlite("erp.db", "SELECT * FROM ledger") == "7|whole\n")
      #expect(net.wait { apply(net, hq, "apply.evil")["tables_left_out"] as? [String] == ["ledger"] }, "\(net.logs)")
      #expect(try net.cairn(hq, "status").output.contains("leaves out: ledger"))
      #expect(net.log(hq).contains("table ledger is left out"))
      _ = try net.bench.sqlite("pos.db", "ALTER TABLE ledger ADD COLUMN more; DELETE FROM ledger WHERE id = 1")
      _ = try net.bench.sqlite("pos.db", "INSERT INTO sale VALUES (2, 'b')")
      #expect(net.wait(for: "erp.db", "SELECT count(*) FROM sale", "2"), "\(net.logs)")
      #expect(try net.bench.sqlite("erp.db", "SELECT * FROM ledger") == "7|whole\n")
      // Its own rows are in the way of a first copy, unless the conf says what becomes of them.
      _ = try net.bench.sqlite("erp.db", "DROP TABLE ledger")
      try write(net, "hq", self.hq(net, port, "[\"sale\", \"ledger\"]"))
      #expect(try net.cairn(hq, "reload").status == 0)
      #expect(net.wait(for: "erp.db", "SELECT id, text FROM ledger", "2|all mine", seconds: 60), "\(net.logs)")
      #expect(net.wait { (apply(net, hq, "apply.evil")["tables_left_out"] as? [String])?.isEmpty == true })
      net.endAll()
    }

    @Test func `a record for a table of Cairn is left out, and stops no apply`() throws {
      let (net, _, hq, evil) = try started()
      net.end(evil)
      let checkpoints = "SELECT count(*), min(number) > 0 FROM cairn_checkpoint"
      let before = try net.bench.sqlite("erp.db", checkpoints)
      // The peer writes its trail by hand.
      let writer = try TrailWriter.open(
        folder: net.bench.path("state-evil/evil.pos"), name: TrailName(origin: "evil", name: "pos"),
        options: TrailOptions(), now: Clock.system.microseconds)
      let schema = TableSchema(
        epoch: 1, engine: .sqlite, name: "cairn_checkpoint",
        columns: [
          .init(name: "trail", declaredType: "TEXT", keyOrdinal: 1), .init(name: "number", declaredType: "INTEGER"),
        ])
      _ = try writer.begin(TransactionHeader(commitTime: Clock.system.microseconds()))
      let id = try writer.schemaID(schema, token: 999)
      var record = ByteWriter()
      record.append(Operation.insert.rawValue)
      record.append(ChangeFlags.after.rawValue)
      record.appendVarint(id)
      record.appendImage([.text(Array("evil.pos".utf8)), .integer(0)])
      try writer.append(kind: RecordKind.change, record.bytes)
      try writer.commit()
      _ = try writer.sync()
      try writer.close()
      try net.start(evil)
      #expect(
        net.wait {
          (apply(net, hq, "apply.evil")["tables_left_out"] as? [String])?.contains("cairn_checkpoint") == true
        }, "\(net.logs)")
      #expect(!(apply(net, hq, "apply.evil")["error"] is [String: Any]))
      #expect(try net.bench.sqlite("erp.db", checkpoints) == before)
      // All others go on, and the daemon with them.
      _ = try net.bench.sqlite("own.db", "INSERT INTO a VALUES (1)")
      #expect(net.wait(for: "own-copy.db", "SELECT count(*) FROM a", "1"), "\(net.logs)")
      #expect(apply(net, hq, "apply.evil")["restarts"] as? Int ?? 0 <= 1)
      net.endAll()
    }
  }
}
