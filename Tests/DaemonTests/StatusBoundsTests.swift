import Changes
import ControlAPI
import Testing

@testable import Daemon

/// The size of a daemon's status.
@Suite struct StatusBoundsTests {
  private func status() -> NodeStatus {
    NodeStatus(node: "hub", version: "1", process: 1, now: 0, startedAt: 0, loadedAt: 0)
  }

  @Test func `a status stays below the limit of a client, whatever the number of trails and tables`() throws {
    var status = status()
    let long = String(repeating: "x", count: 4000)
    for number in 0..<30_000 {
      let name = "evil.t\(number)-\(long.prefix(180))"
      status.trails.append(.init(name: name, bytes: 1, segments: 1, end: "00000001:00000000", oldest: 0))
      var path = NodeStatus.Path(name, "evil", .received, .failed)
      path.problem = .init(code: "trail-forked", message: String(long.prefix(300)), hint: "", times: 1)
      status.paths.append(path)
    }
    status.paths.append(NodeStatus.Path("good.pos", "good", .received, .connected))
    for number in 0..<4 {
      guard let name = WorkerName("apply.a\(number)") else { continue }
      var worker = NodeStatus.Worker(name, .running)
      worker.waits = (0..<1000).map { .init(table: "t\($0)", code: "schema-stopped", message: long, hint: long) }
      worker.leftOut = (0..<1000).map { "t\($0)\(long)" }
      status.workers.append(worker)
    }
    let json = status.json
    #expect(json.line.utf8.count < 15 << 20)
    let (trails, paths) = (json.objects("trails"), json.objects("paths"))
    #expect(trails.count > 1000 && Int64(trails.count) + (json.integer("trails_more") ?? 0) == 30_000)
    #expect(paths.count > 1000 && Int64(paths.count) + (json.integer("paths_more") ?? 0) == 30_001)
    #expect(paths.contains { $0.text("peer") == "good" })
    let worker = try #require(json.objects("workers").first)
    #expect(worker.integer("waits_more") == 1000 - Int64(worker.objects("waits").count))
    #expect(worker.list("waits").count == worker.list("tables_waiting").count && !worker.list("waits").isEmpty)
  }

  @Test func `a short status has all of its lists, in their order`() {
    var status = status()
    status.paths = [
      .init("a.x", "p", .served, .connected), .init("b.x", "q", .received, .failed), .init("c.x", "p", .pull, .failed),
    ]
    let json = status.json
    #expect(json.objects("paths").map { $0.text("trail") } == ["a.x", "b.x", "c.x"])
    #expect(json.integer("paths_more") == 0 && json.integer("trails_more") == 0)
  }
}
