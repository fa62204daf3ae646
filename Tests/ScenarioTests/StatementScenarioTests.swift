import CairnCapture
import TestServers
import Testing

extension DaemonScenarios {
  /// A daemon that executes the statements of a program once more, as operators meet it.
  @Suite struct StatementScenarioTests {
    @Test func `the status shows how many statements went as such, and why the others did not`() throws {
      let node = try DaemonBench()
      let bench = node.bench
      _ = try bench.sqlite(
        "source.db",
        "PRAGMA journal_mode = WAL; CREATE TABLE item(id INTEGER PRIMARY KEY, n); INSERT INTO item VALUES (1, 1), (2, 2)"
      )
      try node.write(node.pair("replay = \"statements\"\nlocal_writes = \"refuse\""))
      try node.start()
      #expect(try bench.waitForTarget("SELECT sum(n) FROM item", "3"), "\(node.log)")
      #expect(try !node.cairn("status").output.contains("statements executed"))

      let shop = try CapturedDatabase(path: bench.path("source.db"), node: "store-042")
      try shop.execute("UPDATE item SET n = id * ?", 10)
      try shop.execute("UPDATE item SET n = n + 1 + abs(random() % 5) WHERE id = 1")
      try shop.execute("UPDATE item SET n = n + 1 WHERE id = 2")
      let sum = try shop.query("SELECT sum(n) FROM item")[0][0].description
      #expect(try bench.waitForTarget("SELECT sum(n) FROM item", sum), "\(node.log)")
      let told = "apply.copy: 2 of 3 statements executed as such; as rows: random() gives another value each time (1)"
      #expect(
        node.wait { (try? node.cairn("status").output.contains(told)) == true },
        "\(node.worker("apply.copy")?["statements"] ?? "none")")
      #expect(node.end() == 0)
    }
  }
}
