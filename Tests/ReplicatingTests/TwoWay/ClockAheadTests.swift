import Applying
import Changes
import Replicating
import SystemKit
import TestServers
import Testing

/// A peer whose clock is wrong.
@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
struct ClockAheadTests {
  @Test("a clock that is an hour ahead holds back its own trail only, and says until when", arguments: ["sss", "ssp"])
  func heldBack(engines: String) throws {
    let mesh = try Mesh(engines, schema: "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT)")
    let (ahead, right, target) = (mesh.nodes[0], mesh.nodes[1], mesh.nodes[2])
    try mesh.restart(ahead, clockAhead: 3600)
    try ahead.execute("INSERT INTO item VALUES (1, 'later')")
    try ahead.capturePending()
    try right.execute("INSERT INTO item VALUES (2, 'now')")
    try right.capturePending()
    var options = ApplyOptions()
    options.twoWay = target.twoWay
    let (stop, progress) = (StopSignal(), ApplyProgress())
    let run = ApplyRun(target.url, trail: ahead.trail, folder: ahead.folder, options: options)
    let thread = try WorkerThread<String?> {
      do { try run.run(stop: stop, drain: StopSignal(), progress: progress) } catch { return "\(error)" }
      return nil
    }
    for _ in 0..<500 where progress.snapshot.heldUntil == nil { Clock.sleep(milliseconds: 20) }
    let until = try #require(progress.snapshot.heldUntil)
    #expect(until > Clock.system.microseconds() + 3_000_000_000)
    let begun = Clock.monotonicMilliseconds
    for name in ["now", "again", "once more"] {
      try right.execute("UPDATE item SET name = '\(name)' WHERE id = 2")
      try right.capturePending()
      try mesh.apply(1, to: 2)
    }
    #expect(Clock.monotonicMilliseconds - begun < 30_000)
    let rows = try target.rows("SELECT id, name FROM item")
    #expect(rows == ["2|once more"])
    stop.set()
    #expect(thread.join() == .some(nil))
    try mesh.close()
  }
}
