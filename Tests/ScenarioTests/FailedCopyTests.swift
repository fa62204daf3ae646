import Foundation
import TestServers
import Testing

extension DaemonScenarios {
  /// `cairn copy --tables` for an apply that a row has stopped.
  @Suite struct FailedCopyTests {
    @Test func `only the tables that are named are copied again, and the apply continues`() throws {
      let node = try DaemonBench()
      let bench = node.bench
      let tables = "CREATE TABLE item(id INTEGER PRIMARY KEY, n INTEGER); CREATE TABLE sale(id INTEGER PRIMARY KEY)"
      _ = try bench.sqlite(
        "source.db", "PRAGMA journal_mode = WAL; \(tables); INSERT INTO item VALUES (1, 0), (2, 0)")
      try node.write(node.pair())
      try node.start()
      #expect(try bench.waitForTarget("SELECT count(*) FROM item", "2"), "\(node.log)")
      #expect(node.wait(for: "apply.copy", "running"), "\(node.log)")
      _ = try bench.sqlite("target.db", "UPDATE item SET n = 7; INSERT INTO sale VALUES (9)")
      _ = try bench.sqlite("source.db", "UPDATE item SET n = n + 1; INSERT INTO sale VALUES (1)")
      #expect(node.wait(for: "apply.copy", "failed", code: "row-differs"), "\(node.log)")

      let other = try node.cairn("copy", "copy", "--tables", "sale")
      #expect(other.status == 65 && other.errors.contains("is stopped at a row of table item"), "\(other)")
      #expect(other.errors.contains("run 'cairn copy copy --tables 'item''"), "\(other)")
      let unknown = try node.cairn("copy", "copy", "--tables", "item,sael")
      #expect(unknown.status == 65 && unknown.errors.contains("table 'sael' is not captured"), "\(unknown)")
      #expect(node.wait(for: "apply.copy", "failed"), "\(node.log)")

      let copied = try node.cairn("copy", "copy", "--tables", "item", "--wait")
      #expect(copied.status == 0 && copied.output.contains("copying again: item"), "\(copied) \(node.log)")
      #expect(try bench.waitForTarget("SELECT group_concat(n) FROM item", "1,1"), "\(node.log)")
      #expect(node.wait(for: "apply.copy", "running"), "\(node.log)")
      // Rows of the other table that only the target has are still there.
      #expect(try bench.waitForTarget("SELECT group_concat(id) FROM sale", "1,9"), "\(node.log)")
      _ = try bench.sqlite("source.db", "UPDATE item SET n = n + 1")
      #expect(try bench.waitForTarget("SELECT group_concat(n) FROM item", "2,2"), "\(node.log)")
      #expect(node.end() == 0)
    }
  }
}
