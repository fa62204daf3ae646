import Foundation
import TestServers
import Testing

extension DaemonScenarios {
  /// An operator's `cairn stop` while tables of the apply are suspended.
  @Suite struct StopOrderTests {
    @Test func `a stop between the suspensions of two tables is obeyed, and nothing is lost`() throws {
      let node = try DaemonBench()
      _ = try node.bench.sqlite(
        "source.db",
        """
        PRAGMA journal_mode = WAL; CREATE TABLE one(id INTEGER PRIMARY KEY); CREATE TABLE two(id INTEGER PRIMARY KEY);
        CREATE TABLE three(id INTEGER PRIMARY KEY); INSERT INTO three VALUES (1)
        """)
      try node.write(node.pair("ddl = \"stop\"\n"))
      for table in ["one", "two", "three"] {
        _ = try node.bench.sqlite("target.db", "CREATE TABLE \(table)(id INTEGER PRIMARY KEY)")
      }
      try node.start()
      #expect(try node.bench.waitForTarget("SELECT count(*) FROM three", "1"), "\(node.log)")
      func suspended() -> Int { (node.worker("apply.copy")?["tables_waiting"] as? [Any])?.count ?? -1 }
      _ = try node.bench.sqlite("source.db", "ALTER TABLE one ADD COLUMN v; INSERT INTO one VALUES (1, 'a')")
      #expect(node.wait { suspended() == 1 }, "\(node.log)")
      #expect(try node.cairn("stop", "apply.copy").status == 0)
      #expect(node.wait(for: "apply.copy", "stopped"), "\(node.log)")
      let taken = node.worker("capture.pos")?["rows"] as? Int ?? 0
      _ = try node.bench.sqlite(
        "source.db", "ALTER TABLE two ADD COLUMN v; INSERT INTO two VALUES (1, 'b'); INSERT INTO three VALUES (2)")
      #expect(node.wait { node.worker("capture.pos")?["rows"] as? Int ?? 0 >= taken + 2 }, "\(node.log)")
      // The row itself may have come before the new column. The operator makes the change of the first table, on which a running apply would go on.
      _ = try node.bench.sqlite("target.db", "ALTER TABLE one ADD COLUMN v")
      sleep(3)
      #expect(node.worker("apply.copy")?["state"] as? String == "stopped")
      #expect(try node.bench.sqlite("target.db", "SELECT count(*) FROM three") == "1\n")
      #expect(try node.bench.sqlite("target.db", "SELECT count(v) FROM one") == "0\n")
      #expect(!node.log.contains("table two is suspended"))
      // A reload starts no worker that an operator stopped.
      #expect(try node.cairn("reload").status == 0)
      sleep(1)
      #expect(node.worker("apply.copy")?["state"] as? String == "stopped")
      #expect(try node.cairn("start", "apply.copy").status == 0)
      #expect(try node.bench.waitForTarget("SELECT * FROM one", "1|a"), "\(node.log)")
      #expect(try node.bench.waitForTarget("SELECT count(*) FROM three", "2"), "\(node.log)")
      #expect(node.wait { suspended() == 1 && node.log.contains("table two is suspended") }, "\(node.log)")
      // The same, while the second table is suspended.
      #expect(try node.cairn("stop", "apply.copy").status == 0)
      #expect(node.wait(for: "apply.copy", "stopped"), "\(node.log)")
      _ = try node.bench.sqlite("target.db", "ALTER TABLE two ADD COLUMN v")
      sleep(2)
      #expect(try node.bench.sqlite("target.db", "SELECT count(v) FROM two") == "0\n")
      #expect(try node.cairn("start", "apply.copy").status == 0)
      #expect(try node.bench.waitForTarget("SELECT * FROM two", "1|b"), "\(node.log)")
      #expect(node.wait { suspended() == 0 }, "\(node.log)")
      #expect(node.end() == 0)
    }
  }
}
