import Foundation
import Testing

extension Scenarios {
  /// Invariant 6: what is damaged is reported with its place, and nothing of it is applied.
  @Suite struct DamageTests {
    /// Flips one bit in the middle of what was written to a segment.
    private func flip(_ bench: Bench, _ segment: String) throws {
      let path = bench.path("state/local.source/\(segment)")
      var bytes = [UInt8](try Data(contentsOf: URL(fileURLWithPath: path)))
      let used = (bytes.lastIndex { $0 != 0 } ?? 0) + 1
      bytes[used / 2] ^= 1
      try Data(bytes).write(to: URL(fileURLWithPath: path))
    }

    private func expectDamage(_ bench: Bench, _ arguments: [String], in segment: String) throws {
      let outcome = try bench.run(Bench.cairn, arguments)
      #expect(outcome.status == 65, "\(arguments)")
      #expect(
        outcome.errors.contains("[trail-damaged]") && outcome.errors.contains("\(segment):"),
        "\(arguments): \(outcome.errors)")
    }

    @Test func `a flipped bit in the live segment is an error with the position, never another row`() throws {
      let bench = try Bench()
      try bench.makeSample()
      #expect(try bench.replicateOnce().status == 0)
      try flip(bench, "00000001.seg")
      for arguments in [["trail", "verify"], ["trail", "show"], ["trail", "show", "--sql", "sqlite"]] {
        try expectDamage(bench, arguments + ["--state", "state"], in: "00000001")
      }
    }

    @Test
    func `a flipped bit in a sealed segment stops apply at its position, and overwrite into a new state mends it`()
      throws
    {
      let bench = try Bench()
      _ = try bench.sqlite(
        "source.db",
        "PRAGMA journal_mode = WAL; CREATE TABLE t(id INTEGER PRIMARY KEY, v BLOB); INSERT INTO t VALUES (0, 'first')")
      #expect(try bench.replicateOnce().status == 0)
      let cairn = try bench.startReplicating()
      usleep(500_000)
      // While the target is locked, the trail grows over its first segment, which stays since it was not applied.
      let lock = try bench.start(
        "lock", Bench.python,
        [
          "-c",
          "import sqlite3,time\nc=sqlite3.connect('target.db',isolation_level=None)\nc.execute('BEGIN IMMEDIATE')\ntime.sleep(100)",
        ])
      usleep(300_000)
      for start in stride(from: 1, to: 10_000, by: 1000) {
        _ = try bench.sqlite(
          "source.db",
          "WITH RECURSIVE n(i) AS (SELECT \(start) UNION ALL SELECT i + 1 FROM n WHERE i < \(start + 999)) INSERT INTO t SELECT i, randomblob(2500) FROM n"
        )
      }
      let sealed = bench.path("state/local.source/00000002.seg")
      for _ in 0..<300 where !FileManager.default.fileExists(atPath: sealed) { usleep(100_000) }
      try #require(FileManager.default.fileExists(atPath: sealed))
      usleep(500_000)
      cairn.signal(SIGKILL)
      cairn.waitUntilExit()
      lock.signal(SIGKILL)
      lock.waitUntilExit()

      try flip(bench, "00000001.seg")
      try expectDamage(bench, bench.replicateArguments + ["--once"], in: "00000001")
      try expectDamage(bench, ["trail", "verify", "--state", "state"], in: "00000001")
      #expect(try bench.run(Bench.python, [Bench.tool("compare.py"), "source.db", "target.db"]).status == 1)

      #expect(try bench.run(Bench.cairn, ["detach", "sqlite:source.db"]).status == 0)
      let mended = try bench.run(
        Bench.cairn,
        [
          "replicate", "--from", "sqlite:source.db", "--to", "sqlite:target.db", "--state", "other", "--once",
          "--existing", "overwrite",
        ])
      #expect(mended.status == 0, "\(mended.errors)")
      #expect(try bench.differences() == "")
    }
  }
}
