import Foundation
import TestServers
import Testing

extension DaemonScenarios {
  /// A peer whose rights are taken away, and the certificates of a node, with daemons and TLS.
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

    private func takeAway(_ isRevoked: Bool, _ hq: NetworkBench.Node) throws {
      if isRevoked {
        #expect(try peer(["revoke", "shop"], at: "hq").status == 0)
      } else {
        try FileManager.default.removeItem(atPath: net.bench.path("hq/conf.d/peer-shop.toml"))
        #expect(try net.cairn(hq, "reload").status == 0)
      }
    }

    /// A body of 8 MiB takes sixteen seconds at this rate.
    @Test(arguments: [true, false]) func `a push that is under way ends with the right to it`(isRevoked: Bool) throws {
      try fill("pos.db", mebibytes: 24)
      try write("hq", receive)
      try write(
        "shop",
        capture("pos.db") + "[pump.p]\ntrail = \"shop.pos\"\nto = \"https://127.0.0.1:\(port)\"\n"
          + "peer = \"hq\"\nrate = \"512KiB/s\"\n")
      let hq = try join(grants: [])
      let shop = try net.start("shop", net.bench.path("shop"))
      let copy = net.bench.path("state-hq/shop.pos/00000001.seg")
      func bytes() -> Int {
        var info = stat()
        return stat(copy, &info) == 0 ? Int(info.st_size) : 0
      }
      #expect(net.wait { bytes() > 2 << 20 }, "\(net.logs)")
      try takeAway(isRevoked, hq)
      usleep(1_000_000)
      let size = bytes()
      usleep(5_000_000)
      #expect(bytes() == size && size < 8 << 20, "\(net.logs)")
      #expect(net.wait(seconds: 40) { error(shop) == (isRevoked ? "peer-unknown" : "peer-refused") }, "\(net.logs)")
      #expect(bytes() == size, "\(net.logs)")
      net.endAll()
    }

    /// Reads a part, waits for a file, and then reads what still comes. The bytes that the kernel holds come in any
    /// case.
    private static let reader = """
      import os, socket, ssl, sys, time
      folder, port, path, go = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
      context = ssl.create_default_context(cafile=folder + "/ca.crt")
      context.load_cert_chain(folder + "/node.crt", folder + "/node.key")
      peer = context.wrap_socket(socket.create_connection(("127.0.0.1", port)), server_hostname="hq")
      peer.sendall(("GET %s HTTP/1.1\\r\\nHost: hq\\r\\n\\r\\n" % path).encode())
      head = b""
      while b"\\r\\n\\r\\n" not in head: head += peer.recv(4096)
      lines = head.split(b"\\r\\n\\r\\n")[0].decode().lower().split("\\r\\n")
      length = int([l for l in lines if l.startswith("content-length")][0].split(":")[1])
      got = len(head.split(b"\\r\\n\\r\\n", 1)[1])
      print(lines[0], length, flush=True)
      while not os.path.exists(go): time.sleep(0.05)
      try:
        while True:
          piece = peer.recv(1 << 20)
          if not piece: break
          got += len(piece)
          if got >= length: break
      except (ssl.SSLError, OSError): pass
      print("whole" if got >= length else "cut", flush=True)
      """

    @Test(arguments: [true, false]) func `a fetch that is under way ends with the right to it`(isRevoked: Bool) throws {
      try fill("pos.db", mebibytes: 48)
      try write("hq", receive + capture("pos.db"))
      try write("shop", "")
      let hq = try join(grants: ["--push", "", "--pull", "hq.*"])
      let trail = net.bench.path("state-hq/hq.pos")
      #expect(net.wait(seconds: 90) { FileManager.default.fileExists(atPath: trail + "/00000002.seg") }, "\(net.logs)")
      let listed = try net.bench.run(Bench.cairn, ["trail", "list", "--state", "state-hq", "--json"])
      let facts = try JSONSerialization.jsonObject(with: Data(listed.output.utf8)) as? [String: Any]
      let id = try #require(facts?["id"] as? String, "\(listed)")
      let go = net.bench.path("go")
      let process = try net.bench.start(
        "reader", Bench.python,
        [
          "-c", Self.reader, net.bench.path("state-shop/peers/joined/hq"), "\(port)",
          "/cairn/1/trails/hq.pos/\(id)/00000001.seg", go,
        ])
      #expect(net.wait { net.bench.text("reader.out").contains("200") }, "\(net.bench.text("reader.err")) \(net.logs)")
      try takeAway(isRevoked, hq)
      usleep(1_000_000)
      try Data().write(to: URL(fileURLWithPath: go))
      process.wait(seconds: 30)
      #expect(net.bench.text("reader.out").hasSuffix("cut\n"), "\(net.bench.text("reader.out")) \(net.logs)")
      net.endAll()
    }

    @Test func `a list that was deleted lets no peer in`() throws {
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
      #expect(net.wait { net.log(hq).contains("no certificate is accepted") }, "\(net.logs)")
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

    /// A copy of the certificate of the shop and its key. Returns the folder.
    private func stealCertificate() throws -> String {
      let (folder, copy) = (net.bench.path("state-shop/peers/joined/hq"), net.bench.path("stolen"))
      try FileManager.default.copyItem(atPath: folder, toPath: copy)
      return copy
    }

    /// The status of a request with a certificate. The client does not verify the listener, whose authority is another
    /// one later.
    private func status(with folder: String) throws -> String {
      let arguments = [
        "-s", "-k", "-o", "/dev/null", "-w", "%{http_code}", "--cert", folder + "/node.crt", "--key",
        folder + "/node.key", "https://127.0.0.1:\(port)/cairn/1/trails/none.none",
      ]
      return try net.bench.run("/usr/bin/curl", arguments).output
    }

    @Test func `after a drop the certificates of the old authority are refused at once`() throws {
      try fill("pos.db", mebibytes: 1)
      try write("hq", receive)
      try write(
        "shop",
        capture("pos.db") + "[pump.p]\ntrail = \"shop.pos\"\nto = \"https://127.0.0.1:\(port)\"\npeer = \"hq\"\n")
      _ = try join(grants: [])
      let shop = try net.start("shop", net.bench.path("shop"))
      #expect(net.wait { net.paths(shop).first?["state"] as? String == "connected" }, "\(net.logs)")
      let stolen = try stealCertificate()
      #expect(try ["403", "404"].contains(status(with: stolen)))
      let rotated = try peer(["rotate", "--ca", "--drop"], at: "hq")
      #expect(rotated.status == 0 && rotated.output.contains("only the newest authority is valid now"), "\(rotated)")
      #expect(rotated.errors.contains("these peers must join again: shop"), "\(rotated)")
      #expect(net.wait { (try? status(with: stolen)) == "401" }, "\(net.logs)")
      #expect(net.wait { error(shop) != nil }, "\(net.logs)")
      let listed = try peer(["list"], at: "hq").output
      #expect(listed.components(separatedBy: "authority ").count == 2, "\(listed)")
      net.endAll()
    }

    @Test func `authority and listener are replaced while two nodes go on replicating`() throws {
      _ = try net.bench.sqlite(
        "pos.db", "PRAGMA journal_mode = WAL; CREATE TABLE sale(id INTEGER PRIMARY KEY, text TEXT)")
      let hqConf =
        receive + "[database.erp]\nurl = \"sqlite://\(net.bench.path("erp.db"))\"\n"
        + "[apply.pos]\ntrail = \"shop.pos\"\ndatabase = \"erp\"\ntables = [\"*\"]\n"
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
      let stolen = try stealCertificate()
      #expect(try ["403", "404"].contains(status(with: stolen)))
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
      #expect(try status(with: stolen) == "401")
      let listed = try peer(["list"], at: "hq").output
      #expect(listed.contains("authority") && listed.contains("listener") && listed.contains("shop"), "\(listed)")
      #expect(net.wait { net.paths(shop).first?["state"] as? String == "connected" }, "\(net.logs)")
      net.endAll()
    }
  }
}
