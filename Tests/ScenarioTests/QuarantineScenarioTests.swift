import Foundation
import TestServers
import Testing

extension DaemonScenarios {
  /// A daemon that puts aside what its target does not take, as operators meet it.
  @Suite struct QuarantineScenarioTests {
    @Test func `a transaction is put aside, survives a crash, and comes back when it is asked for`() throws {
      let node = try DaemonBench()
      let bench = node.bench
      let table = "CREATE TABLE item(id INTEGER PRIMARY KEY, n);"
      _ = try bench.sqlite("source.db", "PRAGMA journal_mode = WAL; \(table) INSERT INTO item VALUES (1, 1)")
      _ = try bench.sqlite("target.db", "PRAGMA journal_mode = WAL; \(table)")
      try node.write(node.pair("on_error = \"quarantine\""))
      try node.start()
      #expect(try bench.waitForTarget("SELECT count(*) FROM item", "1"), "\(node.log)")
      _ = try bench.sqlite("target.db", "CREATE UNIQUE INDEX strict ON item(n)")
      func quarantine(_ words: String...) throws -> Outcome {
        try bench.run(Bench.cairn, ["quarantine"] + words + ["--config", "conf"])
      }
      #expect(try quarantine("list").status == 0)

      _ = try bench.sqlite("source.db", "INSERT INTO item VALUES (2, 1)")
      _ = try bench.sqlite("source.db", "INSERT INTO item VALUES (3, 3)")
      #expect(try bench.waitForTarget("SELECT group_concat(id) FROM item", "1,3"), "\(node.log)")
      let isShown = node.wait(seconds: 60) {
        (try? node.cairn("status").output.contains("1 transaction is in quarantine")) == true
      }
      #expect(isShown, "\((try? node.cairn("status").output) ?? "") \(node.log)")
      #expect(try node.cairn("status").status == 1)
      _ = node.end(SIGKILL)
      _ = try bench.sqlite("source.db", "UPDATE item SET n = 1.5 WHERE id = 2")
      try node.start()
      #expect(node.wait { (try? quarantine("list").output.contains("waits for #1")) == true }, "\(node.log)")
      _ = try bench.sqlite("source.db", "INSERT INTO item VALUES (4, 4)")
      #expect(try bench.waitForTarget("SELECT group_concat(id) FROM item", "1,3,4"), "\(node.log)")
      let list = try quarantine("list").output
      #expect(list.contains("#1") && list.contains("row-exists") && list.contains("waits for #1"), "\(list)")
      let shown = try quarantine("show", "1").output
      #expect(shown.contains("holds        2"), "\(shown)")
      #expect(shown.contains(" --state '\(bench.path("state"))' --from "), "\(shown)")
      #expect(try quarantine("show", "7").status == 66)
      let held = try quarantine("retry", "2")
      #expect(held.status == 65 && held.errors.contains("quarantine-held"), "\(held)")
      #expect(held.errors.contains("run 'cairn quarantine retry 1 --config 'conf''"), "\(held)")

      _ = try bench.sqlite("target.db", "DROP INDEX strict")
      #expect(try quarantine("retry", "1").status == 0)
      #expect(try bench.waitForTarget("SELECT n FROM item WHERE id = 2", "1.5"), "\(node.log)")
      // The audit may have met the rows that were held back, and looks again after half a minute.
      #expect(node.wait(seconds: 90) { (try? node.cairn("status").status) == 0 }, "\(node.log)")
      #expect(try quarantine("list", "--json").output == "")
      #expect(node.end() == 0)
    }
  }
}
