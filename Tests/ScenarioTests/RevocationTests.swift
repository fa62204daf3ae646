import Foundation
import TestServers
import Testing

extension DaemonScenarios {
  /// What becomes of a peer whose rights are taken away, and of the certificates of a node, with daemons and TLS.
  @Suite struct RevocationTests {
    private let net: NetworkBench
    private let port: UInt16

    init() throws {
      net = try NetworkBench()
      port = try NetworkBench.freePort()
    }

    private func write(_ node: String, _ text: String) throws {
      try FileManager.default.createDirectory(atPath: net.bench.path(node), withIntermediateDirectories: true)
      try FileManager.default.createDirectory(
        atPath: net.bench.path("state-\(node)"), withIntermediateDirectories: true)
      let head = "[node]\nname = \"\(node)\"\nstate = \"\(net.bench.path("state-\(node)"))\"\n"
      try Data((head + text).utf8).write(to: URL(fileURLWithPath: net.bench.path("\(node)/cairn.toml")))
    }

    private func capture(_ database: String) -> String {
      "[database.pos]\nurl = \"sqlite://\(net.bench.path(database))\"\n[capture.pos]\ndatabase = \"pos\"\n"
    }

    private var receive: String { "[receive]\nlisten = \"127.0.0.1:\(port)\"\n" }

    /// So many MiB that no compression makes smaller.
    private func fill(_ database: String, mebibytes: Int) throws {
      _ = try net.bench.sqlite(
        database,
        """
        PRAGMA journal_mode = WAL;
        CREATE TABLE sale(id INTEGER PRIMARY KEY, scan BLOB);
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(mebibytes * 64))
        INSERT INTO sale SELECT i, randomblob(16384) FROM n
        """)
    }

    private func peer(_ words: [String], at node: String) throws -> Outcome {
      try net.bench.run(Bench.cairn, ["peer"] + words + ["--config", node])
    }

    /// Starts hq, which invites the shop before; then the shop joins.
    private func join(grants: [String], _ variables: [String: String] = [:]) throws -> NetworkBench.Node {
      let invited = try peer(
        ["invite", "shop", "--address", "127.0.0.1:\(port)", "--write", "--json"] + grants, at: "hq")
      let facts = try JSONSerialization.jsonObject(with: Data(invited.output.utf8)) as? [String: Any]
      let line = try #require(facts?["line"] as? String, "\(invited)")
      let hq = try net.start("hq", net.bench.path("hq"), variables)
      #expect(net.wait { net.log(hq).contains("TLS 1.3") }, "\(net.logs)")
      let joined = try peer(["join", line], at: "shop")
      #expect(joined.status == 0, "\(joined)")
      return hq
    }

    private func error(_ node: NetworkBench.Node) -> String? {
      (net.paths(node).first?["error"] as? [String: Any])?["code"] as? String
    }

    enum Case: String, CaseIterable, Sendable { case pushRevoked, pullRevoked, pushTakenOut, pullTakenOut }

    /// A body of 8 MiB takes sixteen seconds at this rate: whatever ends within three was cut.
    @Test(arguments: Case.allCases) func `an open request ends with the right to it`(_ kind: Case) throws {
      let isPush = kind == .pushRevoked || kind == .pushTakenOut
      let isRevoked = kind == .pushRevoked || kind == .pullRevoked
      try fill("pos.db", mebibytes: 24)
      try write("hq", receive + (isPush ? "" : capture("pos.db")))
      try write(
        "shop",
        (isPush ? capture("pos.db") : "") + "[pump.p]\ntrail = \"\(isPush ? "shop" : "hq").pos\"\n"
          + "\(isPush ? "to" : "from") = \"https://127.0.0.1:\(port)\"\npeer = \"hq\"\nrate = \"512KiB/s\"\n")
      let hq = try join(grants: isPush ? [] : ["--push", "", "--pull", "hq.*"])
      let shop = try net.start("shop", net.bench.path("shop"))
      let (trail, holder) = (isPush ? "shop.pos" : "hq.pos", isPush ? "hq" : "shop")
      let copy = net.bench.path("state-\(holder)/\(trail)/00000001.seg")
      func bytes() -> Int {
        var info = stat()
        return stat(copy, &info) == 0 ? Int(info.st_size) : 0
      }
      #expect(net.wait { bytes() > 2 << 20 && error(shop) == nil }, "\(net.logs)")
      let begun = Date()
      if isRevoked {
        #expect(try peer(["revoke", "shop"], at: "hq").status == 0)
      } else {
        try FileManager.default.removeItem(atPath: net.bench.path("hq/conf.d/peer-shop.toml"))
        #expect(try net.cairn(hq, "reload").status == 0)
      }
      let told = Date()
      #expect(net.wait(seconds: 3) { error(shop) != nil }, "\(Date().timeIntervalSince(begun)) \(net.logs)")
      #expect(Date().timeIntervalSince(told) < 4)
      usleep(500_000)
      let size = bytes()
      #expect(net.wait(seconds: 20) { error(shop) == (isRevoked ? "peer-unknown" : "peer-refused") }, "\(net.logs)")
      usleep(3_000_000)
      #expect(bytes() == size, "\(net.logs)")
      net.endAll()
    }

    @Test func `a list that was deleted lets nobody in`() throws {
      try fill("pos.db", mebibytes: 1)
      try write("hq", receive)
      try write(
        "shop",
        capture("pos.db") + "[pump.p]\ntrail = \"shop.pos\"\nto = \"https://127.0.0.1:\(port)\"\npeer = \"hq\"\n")
      let hq = try join(grants: [])
      let shop = try net.start("shop", net.bench.path("shop"))
      #expect(net.wait { net.paths(shop).first?["state"] as? String == "connected" }, "\(net.logs)")
      try FileManager.default.removeItem(atPath: net.bench.path("state-hq/peers/revoked"))
      #expect(net.wait { error(shop) == "peer-unknown" }, "\(net.logs)")
      #expect(net.wait { net.log(hq).contains("no certificate counts") }, "\(net.logs)")
      // Also after a new start.
      net.end(hq)
      try net.start(hq)
      usleep(2_000_000)
      #expect(error(shop) != nil)
      let checked = try net.bench.run(Bench.cairn, ["check", "--config", "hq"])
      #expect(checked.status != 0 && checked.errors.contains("list of revoked"), "\(checked)")
      try Data().write(to: URL(fileURLWithPath: net.bench.path("state-hq/peers/revoked")))
      #expect(net.wait(seconds: 90) { net.paths(shop).first?["state"] as? String == "connected" }, "\(net.logs)")
      net.endAll()
    }

    @Test func `authority and listener are replaced while two nodes go on replicating`() throws {
      _ = try net.bench.sqlite(
        "pos.db", "PRAGMA journal_mode = WAL; CREATE TABLE sale(id INTEGER PRIMARY KEY, text TEXT)")
      let hqConf =
        receive + "[database.erp]\nurl = \"sqlite://\(net.bench.path("erp.db"))\"\n"
        + "[apply.pos]\ntrail = \"shop.pos\"\ndatabase = \"erp\"\n"
      try write("hq", hqConf)
      try write(
        "shop",
        capture("pos.db") + "[pump.p]\ntrail = \"shop.pos\"\nto = \"https://127.0.0.1:\(port)\"\npeer = \"hq\"\n")
      let quick = ["CAIRN_TEST_UPKEEP_MS": "1000"]
      let hq = try join(grants: [], quick)
      let shop = try net.start("shop", net.bench.path("shop"), quick)
      var rows = 0
      func arrives() throws {
        rows += 1
        _ = try net.bench.sqlite("pos.db", "INSERT INTO sale VALUES (\(rows), 'x')")
        #expect(net.wait(for: "erp.db", "SELECT count(*) FROM sale", "\(rows)"), "\(net.logs)")
      }
      try arrives()
      func authorities() throws -> Int {
        let text = try String(contentsOfFile: net.bench.path("state-hq/peers/ca.crt"), encoding: .utf8)
        return text.components(separatedBy: "-----BEGIN").count - 1
      }
      let files = ["state-hq/peers/ca.crt", "state-hq/peers/node.crt", "state-shop/peers/joined/hq/node.crt"]
      let before = files.map { net.bench.text($0) }
      let rotated = try peer(["rotate"], at: "hq")
      #expect(rotated.status == 0 && rotated.output.contains("new authority"), "\(rotated)")
      #expect(try authorities() == 2)
      try arrives()
      #expect(net.wait(seconds: 60) { (try? authorities()) == 1 }, "\(net.logs)")
      for _ in 0..<3 { try arrives() }
      for (file, text) in zip(files, before) {
        let now = try String(contentsOfFile: net.bench.path(file), encoding: .utf8)
        #expect(!now.isEmpty && now != text, "\(file)")
      }
      // Orders are logged with who gave them.
      #expect(try net.cairn(hq, "reload").status == 0)
      #expect(net.log(hq).contains("order 'reload' of uid \(geteuid()), process "), "\(net.log(hq))")
      // Only the new one is believed: a peer with nothing but the old ones is a stranger.
      let listed = try peer(["list"], at: "hq").output
      #expect(listed.contains("(authority)") && listed.contains("(listener)") && listed.contains("shop"), "\(listed)")
      #expect(net.wait { net.paths(shop).first?["state"] as? String == "connected" }, "\(net.logs)")
      net.endAll()
    }
  }
}
