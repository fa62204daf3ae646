import Changes
import Configuring
import Foundation
import SystemKit
import Testing

@testable import ControlAPI
@testable import Daemon

/// Pauses of workers by the operator.
@Suite(.timeLimit(.minutes(20))) struct WorkerPausesTests {
  private let erp = WorkerName(.apply, "erp")
  private let pos = WorkerName(.capture, "pos")

  // MARK: The list

  @Test func `a pause ends at its time, another one does not`() {
    var pauses = WorkerPauses()
    pauses.pause(erp, until: 1000)
    pauses.pause(pos, until: nil)
    #expect(pauses.takeEnded(now: 999) == [] && pauses.names == [pos, erp])
    #expect(pauses.takeEnded(now: 1000) == [erp] && pauses.names == [pos])
    #expect(pauses.takeEnded(now: .max) == [])
    #expect(pauses.resume(pos) && !pauses.resume(pos) && pauses.names.isEmpty)
  }

  @Test func `another pause replaces the time`() {
    var pauses = WorkerPauses()
    pauses.pause(erp, until: 0)
    #expect(
      pauses.detail(of: erp)
        == "paused by the operator until 1970-01-01T00:00:00Z: 'cairn resume apply.erp' ends the pause")
    pauses.pause(erp, until: nil)
    #expect(pauses.end(of: erp) == nil && pauses.takeEnded(now: .max) == [])
    #expect(pauses.detail(of: erp) == "paused by the operator: 'cairn resume apply.erp' ends the pause")
    #expect(pauses.detail(of: pos) == nil)
  }

  @Test func `the file has every pause, and any other file is refused`() throws {
    let folder = NSTemporaryDirectory() + "cairn-pauses-\(UUID().uuidString)"
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(atPath: folder) }
    #expect(try WorkerPauses(state: folder).names.isEmpty)
    var pauses = WorkerPauses()
    pauses.pause(erp, until: 1_764_396_000_123_456)
    pauses.pause(.receive, until: nil)
    try pauses.save(state: folder)
    #expect(try WorkerPauses(state: folder) == pauses)
    for text in [
      "x", "{}\n", "{\"worker\":\"tea\"}\n", "{\"worker\":\"apply.erp\",\"until\":\"tea\"}\n",
      "{\"worker\":\"apply.erp\"}\n{", String(repeating: "x", count: 2 << 20),
    ] {
      try text.write(toFile: WorkerPauses.path(state: folder), atomically: true, encoding: .utf8)
      let error = #expect(throws: CairnError.self) { try WorkerPauses(state: folder) }
      #expect(error?.code == .stateForeign && error?.message.contains("/pauses") == true)
    }
  }

  @Test func `a request has the end of a pause, and refuses an end that is no time`() throws {
    let request = ControlRequest(.pause, "erp", until: 1_764_396_000_123_456)
    #expect(try ControlRequest(parsing: Array(request.line.utf8)) == request)
    #expect(try ControlRequest(parsing: Array(ControlRequest(.pause, "erp").line.utf8)).until == nil)
    for end in ["\"tea\"", "7", "null", "[]", "\"\""] {
      let line = "{\"version\":1,\"command\":\"pause\",\"subject\":\"erp\",\"until\":\(end)}"
      #expect(throws: CairnError.self, "\(end)") { try ControlRequest(parsing: Array(line.utf8)) }
    }
  }

  // MARK: The supervision

  @Test func `a pause outlasts orders, reloads, restarts and the budget of the disk`() {
    var supervision = Supervision(startAt: 0)
    supervision.started(now: 0)
    #expect(supervision.stop(.held, now: 1) && supervision.isHeld)
    // While its thread ends.
    #expect(!supervision.stop(.ordered, now: 2) && !supervision.start(now: 2) && !supervision.restart(now: 2))
    supervision.ended(nil, now: 3, jitter: 0)
    #expect(supervision.rest == .held)
    #expect(!supervision.stop(.paused, now: 4) && !supervision.stop(.ordered, now: 4))
    #expect(!supervision.start(now: 5) && !supervision.restart(now: 5))
    supervision.tryAgain(at: 5)
    #expect(supervision.rest == .held && !supervision.isDue(now: .max))
    supervision.resume(now: 6)
    #expect(supervision.isDue(now: 6) && !supervision.isHeld)
  }

  @Test func `a pause that ends before the thread does starts the worker again`() {
    var supervision = Supervision(startAt: 0)
    supervision.started(now: 0)
    _ = supervision.stop(.held, now: 1)
    supervision.resume(now: 2)
    supervision.ended(nil, now: 3, jitter: 0)
    #expect(supervision.isDue(now: 3))
    // Without a pause there is nothing to resume.
    supervision.started(now: 4)
    supervision.resume(now: 5)
    #expect(supervision.isRunning)
  }

  @Test func `a failed worker that was paused and resumed is tried again`() {
    var supervision = Supervision(startAt: 0)
    supervision.started(now: 0)
    supervision.ended(CairnError(.rowDiffers, "row 7 differs", hint: "compare"), now: 1, jitter: 0)
    #expect(supervision.rest == .failed)
    _ = supervision.stop(.held, now: 2)
    #expect(supervision.rest == .held && supervision.failure?.code == .rowDiffers)
    supervision.resume(now: 3)
    #expect(supervision.isDue(now: 3))
  }

  // MARK: The supervisor

  private static func pair(_ folder: String) -> Configuration {
    var conf = Configuration(node: .init(name: "store-042", state: folder + "/state"))
    conf.databases = [
      .init(name: "copy", url: "sqlite://\(folder)/copy.db"), .init(name: "pos", url: "sqlite://\(folder)/pos.db"),
    ]
    conf.captures = [.init(name: "pos", database: "pos")]
    conf.applies = [.init(name: "copy", trail: "store-042.pos", database: "copy")]
    return conf
  }

  @Test func `a paused apply lets changes wait, and continues by itself at its time`() throws {
    let node = try TestNode(Self.pair)
    try FileManager.default.createDirectory(atPath: node.folder + "/state", withIntermediateDirectories: true)
    let source = try node.database("pos.db")
    for sql in [
      "PRAGMA journal_mode = WAL", "CREATE TABLE item(id INTEGER PRIMARY KEY)", "INSERT INTO item VALUES (1)",
    ] { try source.execute(sql) }
    node.start()
    defer { node.end() }
    #expect(node.wait { node.count("copy.db", "SELECT count(*) FROM item") == 1 })
    #expect(throws: CairnError.self) { try node.supervisor.resume("copy") }
    try node.supervisor.pause("copy", until: nil)
    #expect(node.wait { node.worker("apply.copy")?.state == .paused })
    #expect(node.worker("apply.copy")?.detail.hasPrefix("paused by the operator: ") == true)
    for order in [Supervisor.Order.start, .restart] {
      let error = #expect(throws: CairnError.self) { try node.supervisor.order(order, "copy") }
      #expect(error?.hint == "run 'cairn resume apply.copy'")
    }
    try source.execute("INSERT INTO item VALUES (2)")
    // A reload that concerns the worker does not start it.
    node.context.configuration.applies[0].onError = .quarantine
    node.supervisor.adopt(WorkerPlan(node.context.configuration))
    usleep(500_000)
    #expect(node.worker("apply.copy")?.state == .paused && node.count("copy.db", "SELECT count(*) FROM item") == 1)
    let soon = Clock.system.microseconds() + 1_000_000
    try node.supervisor.pause("copy", until: soon)
    #expect(node.worker("apply.copy")?.pausedUntil == soon)
    #expect(node.wait { node.count("copy.db", "SELECT count(*) FROM item") == 2 })
    #expect(try WorkerPauses(state: node.context.statePath).names.isEmpty)
  }
}
