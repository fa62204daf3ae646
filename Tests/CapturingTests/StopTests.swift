import Capturing
import Changes
import Foundation
import SQLiteKit
import SystemKit
import TestServers
import Testing
import Trails

/// Invariant 5: a stop within a transaction that is being taken leaves nothing of it in the trail.
@Suite struct StopTests {
  private static func bytes(_ folder: String) -> Int {
    let names = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
    return names.reduce(0) { sum, name in
      let size = try? FileManager.default.attributesOfItem(atPath: folder + "/" + name)[.size] as? Int
      return sum + (size ?? 0)
    }
  }

  @Test func `a stop ends capture within a large transaction, and the next run takes all of it`() throws {
    let folder = try TempFolder()
    let replica = Replica(folder)
    let program = try Database(path: replica.source, mode: .create)
    try program.executeScript("PRAGMA journal_mode = WAL; CREATE TABLE item(id INTEGER PRIMARY KEY, name BLOB)")
    try replica.take()
    let before = try Trail.info(folder: replica.trail).lastTransaction
    let rows = 60_000
    try program.executeScript(
      """
      WITH RECURSIVE s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < \(rows))
      INSERT INTO item SELECT i, randomblob(300) FROM s
      """)
    let size = Self.bytes(replica.trail)
    let stop = StopSignal()
    // The test thread only waits meanwhile.
    nonisolated(unsafe) let unshared = replica
    let worker = try WorkerThread<String?> {
      do { try unshared.follow(until: stop) } catch { return "\(error)" }
      return nil
    }
    while Self.bytes(replica.trail) < size + (4 << 20), worker.outcome == nil { Clock.sleep(milliseconds: 1) }
    stop.set()
    #expect((worker.join() ?? nil) == nil)
    #expect(try Trail.info(folder: replica.trail).lastTransaction == before)
    replica.close()
    try replica.take()
    try replica.replay()
    let target = try Database(path: replica.target, mode: .readOnly)
    #expect(try target.integer("SELECT count(*) FROM item") == Int64(rows))
  }
}
