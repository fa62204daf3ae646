import Changes
import SystemKit
import TestServers
import Testing
import Trails

@testable import Capturing

extension PostgresCapturing {
  /// An apply that waits for the capture of its own database.
  @Suite struct LocalWatchTests {
    @Test func `all that was committed before is durable in the trail when the wait is over`() throws {
      let origin = try PostgresOrigin("CREATE TABLE t(id int PRIMARY KEY)")
      try origin.take()
      let known = try origin.lastNumber
      let (server, database, folder) = (origin.server, origin.database, origin.trailFolder)
      let watch = LocalWatch(uri: origin.uri)
      let stop = StopSignal()
      let apply = try WorkerThread<[String]> {
        defer { stop.set() }
        var wrong: [String] = []
        do {
          for id in 1...20 {
            _ = try server.psql("INSERT INTO t VALUES (\(id))", database)
            guard let reach = watch.wait(try watch.mark(), stop, milliseconds: 20_000) else { return ["no answer"] }
            let durable = try transactions(of: folder)
            if durable.filter({ $0.header.number > known && $0.records == 1 }).count != id {
              wrong.append("row \(id) is not there")
            }
            if durable.last?.header.number ?? 0 < reach.number { wrong.append("\(reach) is not durable") }
          }
          // Nothing stood before it.
          let before = try transactions(of: folder).count
          if try watch.catchUp(stop) == nil { wrong.append("stopped") }
          if try transactions(of: folder).count > before { wrong.append("a message alone is in the trail") }
        } catch { wrong.append("\(error)") }
        return wrong
      }
      var options = PostgresCapture.Options()
      (options.place, options.watch) = (origin.folder("state"), watch)
      let writer = try TrailWriter.open(folder: folder, name: origin.name, now: { 0 })
      try PostgresCapture(uri: origin.uri, trail: writer, options: options).run(stop: stop, untilCaughtUp: false)
      try writer.close()
      #expect(apply.join() == [])
    }

    @Test func `a wait without an answer ends in time, or when it is stopped`() throws {
      let origin = try PostgresOrigin("CREATE TABLE t(id int PRIMARY KEY)")
      let watch = LocalWatch(uri: origin.uri)
      let stop = StopSignal()
      #expect(watch.wait(try watch.mark(), stop, milliseconds: 10) == nil)
      stop.set()
      #expect(watch.wait(try watch.mark(), stop, milliseconds: 60_000) == nil)
      #expect(try watch.catchUp(stop) == nil)
    }
  }
}
