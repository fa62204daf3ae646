import Foundation
import TestServers
import Testing

extension DaemonScenarios {
  /// `[limits] disk` bounds the temporary files of a two-way apply.
  @Suite struct DiskLimitTests {
    private static let back = """
      [capture.copy]
      database = "copy"
      copy = false
      [apply.pos]
      trail = "store-042.copy"
      database = "pos"

      """

    @Test func `a transaction in conflict that is larger than the disk allows waits, and loses nothing`() throws {
      let node = try DaemonBench()
      _ = try node.bench.sqlite(
        "source.db",
        """
        PRAGMA journal_mode = WAL; CREATE TABLE item(id TEXT NOT NULL PRIMARY KEY, v TEXT);
        INSERT INTO item SELECT 'r' || value, 'first' FROM generate_series(1, 24)
        """)
      try node.write(node.pair(Self.back + "[limits]\ndisk = \"64 MiB\"\n"))
      try node.start()
      #expect(try node.bench.waitForTarget("SELECT count(*) FROM item", "24"), "\(node.log)")
      #expect(node.wait { node.worker("apply.pos")?["caught_up"] as? Bool == true }, "\(node.log)")
      for name in ["apply.copy", "apply.pos"] {
        #expect(try node.cairn("stop", name).status == 0)
        #expect(node.wait(for: name, "stopped"), "\(node.log)")
      }
      // Values of 1 MB that take little room in the trails, which the limit bounds as well.
      func write(_ file: String, _ letter: String, _ which: String) throws {
        _ = try node.bench.sqlite(
          file,
          "UPDATE item SET v = '\(letter)' || id || replace(hex(zeroblob(500000)), '0', '\(letter)') WHERE \(which)")
      }
      let taken = ["capture.pos", "capture.copy"].map { node.worker($0)?["rows"] as? Int ?? 0 }
      try write("source.db", "a", "true")
      #expect(node.wait { node.worker("capture.pos")?["rows"] as? Int ?? 0 >= taken[0] + 24 }, "\(node.log)")
      try write("target.db", "b", "id <> 'r7'")
      #expect(node.wait { node.worker("capture.copy")?["rows"] as? Int ?? 0 >= taken[1] + 23 }, "\(node.log)")
      for name in ["apply.copy", "apply.pos"] { #expect(try node.cairn("start", name).status == 0) }
      #expect(node.waitForLog("disk-budget", seconds: 60), "\(node.log)")
      #expect(
        node.wait {
          ["apply.copy", "apply.pos"].contains {
            (node.worker($0)?["error"] as? [String: Any])?["code"] as? String == "disk-budget"
          }
        }, "\(node.log)")
      // It tries again, and applies no part of the transaction.
      #expect(node.wait { node.log.components(separatedBy: "disk-budget").count > 3 }, "\(node.log)")
      #expect(try node.bench.sqlite("source.db", "SELECT count(DISTINCT substr(v, 1, 1)) FROM item") == "1\n")
      #expect(try node.bench.sqlite("target.db", "SELECT count(*) FROM item WHERE v LIKE 'b%'") == "23\n")
      try node.write(node.pair(Self.back + "[limits]\ndisk = \"4 GiB\"\n"))
      #expect(try node.cairn("reload").status == 0)
      let sums = "SELECT group_concat(substr(v, 1, 3) || length(v), ' ') FROM (SELECT * FROM item ORDER BY id)"
      #expect(
        node.wait(seconds: 150) {
          guard let one = try? node.bench.sqlite("source.db", sums),
            let other = try? node.bench.sqlite("target.db", sums)
          else { return false }
          return one == other
        }, "\(node.log.suffix(3000))")
      #expect(try node.bench.sqlite("source.db", "SELECT count(*) FROM item WHERE v LIKE 'b%'") == "23\n")
      #expect(try node.bench.sqlite("target.db", "SELECT id FROM item WHERE v LIKE 'a%'") == "r7\n")
      #expect(node.end() == 0)
    }
  }
}
