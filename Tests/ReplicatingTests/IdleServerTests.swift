import Applying
import Capturing
import Changes
import Endpoints
import Foundation
import Replicating
import SQLiteKit
import SystemKit
import TestServers
import Testing
import Trails

/// An idle apply and an idle capture notice within 10 s that their server, or their file, is gone.
@Suite(.serialized, .enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
struct IdleServerTests {
  private func wait(seconds: Double, until isSo: () -> Bool) -> Bool {
    let limit = Date().addingTimeInterval(seconds)
    while Date() < limit {
      if isSo() { return true }
      usleep(20_000)
    }
    return isSo()
  }

  @Test func `an idle apply notices that its server stops, and that it is back`() throws {
    let folder = NSTemporaryDirectory() + "cairn-idle-\(UUID().uuidString.prefix(8))"
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let server = try PostgresServer()
    let url = try DatabaseURL(server.createDatabase("idle"))
    let source = try Database(path: folder + "/source.db", mode: .create)
    try source.executeScript("CREATE TABLE t(id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1)")
    let trail = TrailName(origin: "n", name: "idle")
    let place = folder + "/trail"
    let from = try DatabaseURL("sqlite://\(folder)/source.db")
    try CaptureRun(from, trail: trail, folder: place, place: place)
      .run(stop: StopSignal(), untilCaughtUp: true, progress: CaptureProgress()) {}
    let (progress, stop) = (ApplyProgress(), StopSignal())
    let thread = try WorkerThread<String?> {
      do {
        try ApplyRun(url, trail: trail, folder: place, options: ApplyOptions())
          .run(stop: stop, drain: StopSignal(), progress: progress)
        return nil
      } catch { return "\(error)" }
    }
    #expect(wait(seconds: 60) { progress.snapshot.isCaughtUp })
    usleep(1_500_000)
    try server.stop()
    #expect(wait(seconds: 10) { progress.snapshot.isReconnecting })
    try server.start()
    #expect(wait(seconds: 30) { !progress.snapshot.isReconnecting })
    stop.set()
    let problem = thread.join() ?? nil
    #expect(problem == nil)
  }

  @Test func `an idle apply notices that its target file is gone`() throws {
    let folder = NSTemporaryDirectory() + "cairn-idle-\(UUID().uuidString.prefix(8))"
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let source = try Database(path: folder + "/source.db", mode: .create)
    try source.executeScript("CREATE TABLE t(id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1)")
    let (trail, place) = (TrailName(origin: "n", name: "idle"), folder + "/trail")
    try CaptureRun(DatabaseURL("sqlite://\(folder)/source.db"), trail: trail, folder: place, place: place)
      .run(stop: StopSignal(), untilCaughtUp: true, progress: CaptureProgress()) {}
    let target = try DatabaseURL("sqlite://\(folder)/target.db")
    let (progress, stop) = (ApplyProgress(), StopSignal())
    let thread = try WorkerThread<String> {
      do {
        try ApplyRun(target, trail: trail, folder: place, options: ApplyOptions())
          .run(stop: stop, drain: StopSignal(), progress: progress)
        return ""
      } catch { return "\(error)" }
    }
    #expect(wait(seconds: 60) { progress.snapshot.isCaughtUp })
    usleep(1_500_000)
    try FileManager.default.removeItem(atPath: folder + "/target.db")
    #expect(wait(seconds: 10) { thread.outcome != nil })
    stop.set()
    #expect(thread.join()?.contains("database-missing") == true)
  }

  @Test func `an idle capture notices that its server stops, and that its file is gone`() throws {
    let folder = NSTemporaryDirectory() + "cairn-idle-\(UUID().uuidString.prefix(8))"
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let server = try PostgresServer()
    let uri = try server.createDatabase("idle")
    try server.psql("CREATE TABLE t(id int PRIMARY KEY)", "idle")
    let source = try Database(path: folder + "/source.db", mode: .create)
    try source.executeScript("CREATE TABLE t(id INTEGER PRIMARY KEY)")
    func start(
      _ url: DatabaseURL, _ name: String, _ progress: CaptureProgress, _ stop: StopSignal
    ) throws -> WorkerThread<String?> {
      try WorkerThread<String?> {
        do {
          try CaptureRun(
            url, trail: TrailName(origin: "n", name: name), folder: folder + "/" + name, place: folder + "/" + name
          ).run(stop: stop, untilCaughtUp: false, progress: progress) {}
          return nil
        } catch { return "\(error)" }
      }
    }
    let (stop, ofServer, ofFile) = (StopSignal(), CaptureProgress(), CaptureProgress())
    let server1 = try start(DatabaseURL(uri), "server", ofServer, stop)
    let file = try start(DatabaseURL("sqlite://\(folder)/source.db"), "file", ofFile, stop)
    #expect(wait(seconds: 60) { ofServer.snapshot.isCaughtUp && ofFile.snapshot.isCaughtUp })
    try server.stop()
    try FileManager.default.removeItem(atPath: folder + "/source.db")
    #expect(wait(seconds: 10) { ofServer.snapshot.isReconnecting && file.outcome != nil })
    #expect((file.join() ?? "")?.contains("database-missing") == true)
    stop.set()
    try server.start()
    _ = server1.join()
  }
}
