import Foundation
import TestServers
import Testing

extension DaemonScenarios {
  /// Targets that come to a trail which has lost its beginning.
  @Suite struct LateTargetTests {
    /// Two of them fill a segment.
    private func fill(_ bench: Bench, _ round: Int) throws {
      _ = try bench.sqlite(
        "source.db",
        """
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(round < 2 ? 90 : 1))
        INSERT INTO item SELECT i + \(10 + round * 100), hex(randomblob(100000)) FROM n
        """)
    }

    private func hasLostItsBeginning(_ bench: Bench, _ trail: String) -> Bool {
      !FileManager.default.fileExists(atPath: bench.path("state/\(trail)/00000001.seg"))
    }

    @Test(.enabled(if: postgresProblem == nil, "\(postgresProblem ?? "")"))
    func `a running distribution gets two more targets, killed in between`() throws {
      let server = try PostgresServer()
      let url = try server.createDatabase("late")
      let node = try DaemonBench()
      _ = try node.bench.sqlite(
        "source.db",
        """
        PRAGMA journal_mode = WAL; CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE sale(id INTEGER PRIMARY KEY, item INTEGER, pieces INTEGER);
        CREATE INDEX sale_item ON sale(item); INSERT INTO item VALUES (1, 'tea')
        """)
      let first = node.pair().replacingOccurrences(
        of: "database = \"pos\"", with: "database = \"pos\"\npurge = \"1 s\"")
      try node.write(first)
      try node.start()
      for round in 0..<3 {
        try fill(node.bench, round)
        #expect(
          try node.bench.waitForTarget("SELECT count(*) FROM item", "\([91, 181, 182][round])", seconds: 60),
          "\(node.log)")
      }
      #expect(node.wait(seconds: 30) { hasLostItsBeginning(node.bench, "store-042.pos") }, "\(node.log)")
      try node.write(
        first + """

          [database.late]
          url = "sqlite://\(node.bench.path("late.db"))"
          [database.server]
          url = "\(url)"
          [apply.late]
          trail = "store-042.pos"
          database = "late"
          [apply.server]
          trail = "store-042.pos"
          database = "server"

          """)
      #expect(try node.cairn("reload").status == 0, "\(node.log)")
      for round in 0..<(isSoak ? 40 : 5) {
        _ = try node.bench.sqlite(
          "source.db",
          """
          INSERT INTO sale(item, pieces) SELECT id, \(round) FROM item WHERE id % 3 = 0; DELETE FROM sale WHERE pieces = \(round - 3);
          UPDATE item SET name = substr(name, 1, 50000) || \(round) WHERE id % 7 = \(round); DELETE FROM item WHERE id = \(20 + round)
          """)
        usleep(useconds_t(Int.random(in: 50_000...500_000)))
        node.daemon?.signal(SIGKILL)
        node.daemon?.wait(seconds: 5)
        try node.start()
      }
      for apply in ["copy", "late", "server"] {
        #expect(
          node.wait(seconds: 60) { node.worker("apply.\(apply)")?["caught_up"] as? Bool == true },
          "\(apply): \(node.log)")
        #expect(node.wait(seconds: 60) { (try? node.cairn("compare", apply).status) == 0 }, "\(apply): \(node.log)")
      }
      #expect(try node.bench.run(Bench.python, [Bench.tool("compare.py"), "source.db", "late.db"]).status == 0)
      #expect(try node.cairn("status").status == 0)
      #expect(node.end() == 0)
    }

    @Test func `a target that was lost and created again is filled by the same replication`() throws {
      let bench = try Bench()
      _ = try bench.sqlite(
        "source.db", "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT); CREATE TABLE note(id INTEGER PRIMARY KEY)")
      for round in 0..<3 {
        try fill(bench, round)
        #expect(try bench.replicateOnce().status == 0)
      }
      #expect(try bench.replicateOnce().status == 0)
      #expect(hasLostItsBeginning(bench, "local.source"))
      for suffix in ["", "-wal", "-shm"] { unlink(bench.path("target.db" + suffix)) }
      _ = try bench.sqlite("source.db", "INSERT INTO note VALUES (1); DELETE FROM item WHERE id = 20")
      let going = try bench.startReplicating()
      usleep(useconds_t(Int.random(in: 20_000...600_000)))
      going.signal(SIGKILL)
      going.wait(seconds: 5)
      _ = try bench.sqlite("source.db", "INSERT INTO note VALUES (2); DELETE FROM item WHERE id = 21")
      let outcome = try bench.replicateOnce()
      #expect(outcome.status == 0, "\(outcome.errors)")
      #expect(try bench.differences() == "")
    }
  }
}
