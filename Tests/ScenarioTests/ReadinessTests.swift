import Foundation
import TestServers
import Testing

extension DaemonScenarios {
  @Suite struct ReadinessTests {
    @Test(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
    func `an idle node says within 10 s that a target is gone, and when it is back`() throws {
      let server = try PostgresServer()
      let url = try server.createDatabase("erp")
      let node = try DaemonBench()
      _ = try node.bench.sqlite("source.db", "CREATE TABLE item(id INTEGER PRIMARY KEY); INSERT INTO item VALUES (1)")
      let port = try NetworkBench.freePort()
      try node.write(
        node.pair(
          """
          [database.erp]
          url = "\(url)"
          [apply.erp]
          trail = "store-042.pos"
          database = "erp"
          [metrics]
          listen = "127.0.0.1:\(port)"
          """))
      func ready() -> (code: String, body: String) {
        let said = try? node.bench.run(
          "/usr/bin/curl", ["-s", "-m", "5", "-w", "%{http_code}", "http://127.0.0.1:\(port)/readyz"])
        let text = said?.output ?? ""
        return (String(text.suffix(3)), String(text.dropLast(3)))
      }
      try node.start()
      #expect(node.wait(seconds: 60) { ready().code == "200" }, "\(node.log)")
      let caughtUp = { (name: String) in node.worker(name)?["caught_up"] as? Bool == true }
      #expect(node.wait(seconds: 60) { caughtUp("apply.erp") && caughtUp("apply.copy") }, "\(node.log)")

      try server.stop()
      #expect(node.wait(seconds: 10) { ready().code == "503" })
      #expect(ready().body == "apply.erp is waiting\n")
      #expect(node.worker("apply.erp")?["state"] as? String == "waiting")
      #expect(node.waitForLog("waits for the server of"), "\(node.log)")
      try server.start()
      #expect(node.wait(seconds: 60) { ready().code == "200" }, "\(node.log)")

      let (there, away) = (node.bench.path("target.db"), node.bench.path("away.db"))
      #expect(rename(there, away) == 0)
      #expect(node.wait(seconds: 10) { ready().code == "503" })
      #expect(ready().body.hasPrefix("apply.copy is "), "\(ready().body)")
      #expect(node.worker("apply.copy")?["state"] as? String != "running")
      #expect(node.waitForLog("database-missing"), "\(node.log)")
      #expect(rename(away, there) == 0)
      #expect(node.wait(seconds: 90) { ready().code == "200" }, "\(node.log)")
      #expect(node.end() == 0)
    }

    @Test(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
    func `an apply whose trail has brought nothing waits for its first copy, and is not caught up`() throws {
      let server = try PostgresServer()
      let url = try server.createDatabase("shop")
      try server.psql("CREATE TABLE item(id int PRIMARY KEY); INSERT INTO item VALUES (1)", "shop")
      let node = try DaemonBench()
      let port = try NetworkBench.freePort()
      try node.write(
        """
        [database.shop]
        url = "\(url)"
        [database.copy]
        url = "sqlite://\(node.bench.path("target.db"))"
        [capture.shop]
        database = "shop"
        [apply.copy]
        trail = "store-042.shop"
        database = "copy"
        [metrics]
        listen = "127.0.0.1:\(port)"
        """)
      func page(_ path: String) -> String {
        let said = try? node.bench.run(
          "/usr/bin/curl", ["-s", "-m", "5", "-w", "%{http_code}", "http://127.0.0.1:\(port)/\(path)"])
        return said?.output ?? ""
      }
      // Capture cannot read the table while a program locks it.
      let locking = try node.bench.start(
        "locking", server.path(of: "psql"),
        ["-d", url, "-c", "BEGIN; LOCK TABLE item; SELECT pg_sleep(600)"])
      #expect(
        node.wait {
          (try? server.psql("SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND granted", "shop"))
            != "0"
        })
      try node.start()
      let text = "waits for its first copy: trail store-042.shop has brought nothing yet"
      #expect(node.wait { node.worker("apply.copy")?["detail"] as? String == text }, "\(node.log)")
      let apply = node.worker("apply.copy")
      #expect(apply?["state"] as? String == "waiting" && apply?["caught_up"] as? Bool == false)
      #expect(page("readyz") == "apply.copy is waiting\n503")
      let caughtUp = page("metrics").split(separator: "\n").first {
        $0.hasPrefix("cairn_caught_up") && $0.contains("copy")
      }
      #expect(caughtUp?.hasSuffix(" 0") == true, "\(caughtUp ?? "")")
      try server.psql(
        "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND granted", "shop")
      locking.wait(seconds: 30)
      #expect(node.wait(for: "apply.copy", "running", seconds: 60), "\(node.log)")
      #expect(try node.bench.waitForTarget("SELECT count(*) FROM item", "1"), "\(node.log)")
      #expect(node.wait { node.worker("apply.copy")?["caught_up"] as? Bool == true }, "\(node.log)")
      #expect(node.wait { page("readyz") == "ready\n200" })
      #expect(node.end() == 0)
    }
  }
}
