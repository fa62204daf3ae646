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
  }
}
