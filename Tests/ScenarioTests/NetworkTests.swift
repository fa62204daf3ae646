import Foundation
import TestServers
import Testing

extension DaemonScenarios {
  /// Nodes that know each other by certificates, and what stops them.
  @Suite struct NetworkTests {
    private func write(_ net: NetworkBench, _ node: String, _ text: String) throws {
      try FileManager.default.createDirectory(atPath: net.bench.path(node), withIntermediateDirectories: true)
      let head = "[node]\nname = \"\(node)\"\nstate = \"\(net.bench.path("state-\(node)"))\"\n"
      try Data((head + text).utf8).write(to: URL(fileURLWithPath: net.bench.path("\(node)/cairn.toml")))
    }

    private func sales(_ net: NetworkBench, _ rows: Int) throws {
      _ = try net.bench.sqlite(
        "pos.db",
        """
        PRAGMA journal_mode = WAL;
        CREATE TABLE sale(id INTEGER PRIMARY KEY, text TEXT);
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(rows))
        INSERT INTO sale SELECT i, 'sale ' || i FROM n
        """)
    }

    private func shop(_ net: NetworkBench, _ port: UInt16, scheme: String = "https") -> String {
      """
      [database.pos]
      url = "sqlite://\(net.bench.path("pos.db"))"
      [capture.pos]
      database = "pos"
      [pump.to-hq]
      trail = "store-042.pos"
      to = "\(scheme)://127.0.0.1:\(port)"
      \(scheme == "https" ? "peer = \"hq\"" : "")

      """
    }

    private func hq(_ net: NetworkBench, _ port: UInt16, _ more: String = "") -> String {
      """
      [database.erp]
      url = "sqlite://\(net.bench.path("erp.db"))"
      [receive]
      listen = "127.0.0.1:\(port)"
      \(more)

      """
    }

    private let apply = "[apply.pos]\ntrail = \"store-042.pos\"\ndatabase = \"erp\"\ntables = [\"*\"]\n"

    private func path(_ net: NetworkBench, _ node: NetworkBench.Node, _ member: String) -> String? {
      let path = net.paths(node).first { $0["trail"] as? String == "store-042.pos" }
      return member == "error" ? (path?["error"] as? [String: Any])?["code"] as? String : path?[member] as? String
    }

    @Test func `two machines from nothing: invited, joined, pumped, applied, revoked`() throws {
      let net = try NetworkBench()
      let port = try NetworkBench.freePort()
      try sales(net, 200)
      try write(net, "hq", hq(net, port))
      let hq = try net.start("hq", net.bench.path("hq"))
      // Without certificates no peer is let in, not even on loopback.
      #expect(net.wait { net.log(hq).contains("there is no server certificate") }, "\(net.logs)")
      let invited = try net.bench.run(
        Bench.cairn,
        ["peer", "invite", "store-042", "--address", "127.0.0.1:\(port)", "--config", "hq", "--write", "--json"])
      #expect(invited.status == 0, "\(invited.errors)")
      let facts = try JSONSerialization.jsonObject(with: Data(invited.output.utf8)) as? [String: Any]
      let line = try #require(facts?["line"] as? String, "\(invited.output)")
      try write(net, "hq", self.hq(net, port, apply))
      #expect(try net.cairn(hq, "reload").status == 0)
      // The listener begins by itself when there are certificates.
      #expect(net.wait { net.log(hq).contains("TLS 1.3") }, "\(net.logs)")

      try write(net, "store-042", shop(net, port))
      // The folder is there before the daemon is, as an installation makes it.
      try FileManager.default.createDirectory(
        atPath: net.bench.path("state-store-042"), withIntermediateDirectories: true)
      let joined = try net.bench.run(Bench.cairn, ["peer", "join", line, "--config", "store-042"])
      #expect(joined.status == 0, "\(joined.errors)")
      let again = try net.bench.run(Bench.cairn, ["peer", "join", line, "--config", "store-042"])
      #expect(again.status == 77 && again.errors.contains("the token is unknown"), "\(again.errors)")
      let checked = try net.bench.run(Bench.cairn, ["check", "--config", "store-042"])
      #expect(checked.status == 0 && checked.output.contains("node hq answers, TLS 1.3"), "\(checked)")
      let shop = try net.start("store-042", net.bench.path("store-042"))
      #expect(net.wait(for: "erp.db", "SELECT count(*) FROM sale", "200"), "\(net.logs)")
      #expect(net.wait { path(net, shop, "state") == "connected" })

      // A revoked peer gets a message that says so, and nothing more comes; a peer that is back in goes on at its old
      // place.
      #expect(try net.bench.run(Bench.cairn, ["peer", "revoke", "store-042", "--config", "hq"]).status == 0)
      _ = try net.bench.sqlite("pos.db", "INSERT INTO sale VALUES (201, 'late')")
      #expect(net.wait { path(net, shop, "error") == "peer-unknown" }, "\(net.logs)")
      let status = try net.cairn(shop, "status")
      #expect(status.status == 1 && status.output.contains("was revoked"), "\(status.output)")
      #expect(try net.bench.sqlite("erp.db", "SELECT count(*) FROM sale") == "200\n")
      net.endAll()
    }

    @Test func `a trail that is not granted is refused with the name of the grant`() throws {
      let net = try NetworkBench()
      let port = try NetworkBench.freePort()
      try sales(net, 10)
      try write(net, "hq", hq(net, port, "insecure = true\n[peer.store-042]\nmay = { push = [\"store-042.other\"] }\n"))
      try write(net, "store-042", shop(net, port, scheme: "http"))
      let hq = try net.start("hq", net.bench.path("hq"))
      let shop = try net.start("store-042", net.bench.path("store-042"))
      #expect(net.wait { path(net, shop, "error") == "peer-refused" }, "\(net.logs)")
      let checked = try net.bench.run(Bench.cairn, ["check", "--config", "store-042"])
      #expect(checked.status == 77 && checked.errors.contains("may in [peer.store-042]"), "\(checked)")
      // A grant counts with the next request, and no worker is restarted for it.
      try write(
        net, "hq",
        self.hq(net, port, "insecure = true\n" + apply + "[peer.store-042]\nmay = { push = [\"store-042.*\"] }\n"))
      let reloaded = try net.cairn(hq, "reload")
      #expect(reloaded.status == 0 && !reloaded.output.contains("receive"), "\(reloaded)")
      #expect(net.wait(for: "erp.db", "SELECT count(*) FROM sale", "10", seconds: 90), "\(net.logs)")
      net.endAll()
    }

    @Test func `a new node makes its database from what comes, and its own capture follows`() throws {
      let net = try NetworkBench()
      defer { net.endAll() }
      let port = try NetworkBench.freePort()
      try sales(net, 10)
      let granted = "[peer.store-042]\nmay = { push = [\"store-042.*\"], pull = [\"hq.*\"] }\n"
      let text = hq(net, port, "insecure = true\n" + apply + granted) + "[capture.back]\ndatabase = \"erp\"\n"
      try write(net, "hq", text.replacing("erp.db\"\n", with: "erp.db\"\nkeys = \"shared\"\n"))
      try write(net, "store-042", shop(net, port, scheme: "http"))
      let checked = try net.bench.run(Bench.cairn, ["check", "--config", "hq"])
      #expect(checked.status == 0 && checked.output.contains("does not exist yet"), "\(checked)")
      let hq = try net.start("hq", net.bench.path("hq"))
      try net.start("store-042", net.bench.path("store-042"))
      #expect(net.wait(for: "erp.db", "SELECT count(*) FROM sale", "10", seconds: 90), "\(net.logs)")
      // Then capture begins.
      #expect(
        net.wait(for: "erp.db", "SELECT count(*) FROM cairn_control WHERE id = 0", "1", seconds: 90), "\(net.logs)")
      #expect(!net.log(hq).contains("apply.pos: [database-missing]"), "\(net.logs)")
    }

    @Test(.enabled(if: isSoak, "it fills segments, set CAIRN_SOAK=1"))
    func `a peer that is away for too long is given up, and begins again with a copy when it is back`() throws {
      let net = try NetworkBench()
      let port = try NetworkBench.freePort()
      try sales(net, 10)
      let granted =
        "[receive]\nlisten = \"127.0.0.1:\(port)\"\ninsecure = true\n[peer.hq]\nmay = { pull = [\"store-042.pos\"] }\n"
      try write(
        net, "store-042",
        "[database.pos]\nurl = \"sqlite://\(net.bench.path("pos.db"))\"\n[capture.pos]\ndatabase = \"pos\"\n"
          + "[limits]\ndisk = \"64 MiB\"\n" + granted)
      try write(
        net, "hq",
        "[database.erp]\nurl = \"sqlite://\(net.bench.path("erp.db"))\"\n"
          + "[pump.pos]\ntrail = \"store-042.pos\"\nfrom = \"http://127.0.0.1:\(port)\"\n" + apply)
      let shop = try net.start("store-042", net.bench.path("store-042"))
      let hq = try net.start("hq", net.bench.path("hq"))
      #expect(net.wait(for: "erp.db", "SELECT count(*) FROM sale", "10"), "\(net.logs)")
      net.end(hq, SIGKILL)
      for _ in 0..<12 {
        _ = try net.bench.sqlite(
          "pos.db",
          """
          WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1500)
          INSERT INTO sale (text) SELECT hex(randomblob(5000)) FROM n
          """)
        usleep(2_000_000)
      }
      #expect(net.wait(seconds: 60) { path(net, shop, "state") == "given_up" }, "\(net.logs)")
      // Rows that are deleted meanwhile are not in the copies that come.
      _ = try net.bench.sqlite("pos.db", "DELETE FROM sale WHERE id < 100")
      try net.start(hq)
      let sum = "SELECT count(*) || ' ' || sum(id) || ' ' || sum(length(text)) FROM sale"
      let expected = try net.bench.sqlite("pos.db", sum).trimmingCharacters(in: .whitespacesAndNewlines)
      #expect(net.wait(for: "erp.db", sum, expected, seconds: 120), "\(net.logs)")
      #expect(net.log(hq).contains("starting the copy of trail store-042.pos again"), "\(net.log(hq))")
      #expect(net.log(shop).contains("requested by hq"), "\(net.log(shop))")
      #expect(net.wait { path(net, shop, "state") == "connected" })
      net.endAll()
    }

    @Test func `rows that the target of a received trail holds stop its apply before it writes`() throws {
      let net = try NetworkBench()
      let port = try NetworkBench.freePort()
      try sales(net, 10)
      _ = try net.bench.sqlite(
        "erp.db", "CREATE TABLE sale(id INTEGER PRIMARY KEY, text TEXT); INSERT INTO sale VALUES (1, 'mine')")
      let granted = "[peer.store-042]\nmay = { push = [\"store-042.*\"] }\n"
      try write(net, "hq", hq(net, port, "insecure = true\n" + apply + granted))
      try write(net, "store-042", shop(net, port, scheme: "http"))
      let hq = try net.start("hq", net.bench.path("hq"))
      try net.start("store-042", net.bench.path("store-042"))
      #expect(net.wait { net.log(hq).contains("[target-differs]") }, "\(net.logs)")
      #expect(try net.bench.sqlite("erp.db", "SELECT group_concat(text) FROM sale") == "mine\n")
      try write(net, "hq", self.hq(net, port, "insecure = true\n" + apply + "existing = \"overwrite\"\n" + granted))
      #expect(try net.cairn(hq, "reload").status == 0)
      #expect(net.wait(for: "erp.db", "SELECT count(*) || min(text) FROM sale", "10sale 1"), "\(net.logs)")
      // A rule with a slip filters nothing: its table is at another node, and may still come.
      let slip = "[[apply.pos.table]]\nfrom = \"sael\"\nwhere = \"id > 5\"\n"
      try write(
        net, "hq", self.hq(net, port, "insecure = true\n" + apply + "existing = \"overwrite\"\n" + slip + granted))
      #expect(try net.cairn(hq, "reload").status == 0)
      #expect(net.wait { net.log(hq).contains("the rule for table sael has matched nothing") }, "\(net.logs)")
      let check = try net.bench.run(Bench.cairn, ["check", "--config", "hq"])
      #expect((check.output + check.errors).contains("did you mean from = \"sale\"?"), "\(check)")
      net.endAll()
    }
  }
}
