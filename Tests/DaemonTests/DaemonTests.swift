import Changes
import Configuring
import ControlAPI
import Endpoints
import Foundation
import Mapping
import Replicating
import SQLiteKit
import ServiceKit
import SystemKit
import Testing

@testable import Daemon

/// A node in a folder of its own: a supervisor that is looked after by a thread, as in the daemon.
final class TestNode: @unchecked Sendable {
  let folder: String
  let supervisor: Supervisor
  let context: ServiceContext
  private let stop = StopSignal()
  private var thread: WorkerThread<Void>?

  /// `there`: the folder of another one that has ended.
  init(in there: String? = nil, _ make: (String) -> Configuration) throws {
    folder = there ?? FileManager.default.temporaryDirectory.path + "/cairn-serving-" + UUID().uuidString
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    context = ServiceContext(make(folder), log: ServiceLog(level: .error))
    supervisor = Supervisor(context) {}
  }

  func start() {
    supervisor.adopt(WorkerPlan(context.configuration))
    let (supervisor, stop) = (supervisor, stop)
    thread = try? WorkerThread {
      var turns = 0
      while !stop.wait(milliseconds: 20) {
        supervisor.tick()
        turns += 1
        if turns % 20 == 0 { supervisor.keepBudget() }
      }
      supervisor.stopAll()
      while !supervisor.alive.isEmpty {
        supervisor.tick()
        Clock.sleep(milliseconds: 10)
      }
    }
  }

  func end() {
    stop.set()
    _ = thread?.join()
    thread = nil
  }

  deinit { try? FileManager.default.removeItem(atPath: folder) }

  func database(_ name: String) throws -> Database { try Database(path: "\(folder)/\(name)", mode: .create) }

  func count(_ name: String, _ sql: String) -> Int64? {
    (try? Database(path: "\(folder)/\(name)", mode: .readOnly)).flatMap { try? $0.integer(sql) }
  }

  func wait(seconds: Double = 20, _ condition: () -> Bool) -> Bool {
    let limit = Date().addingTimeInterval(seconds)
    while Date() < limit {
      if condition() { return true }
      usleep(20_000)
    }
    return condition()
  }

  func worker(_ name: String) -> NodeStatus.Worker? { supervisor.workers().first { $0.name.description == name } }
}

@Suite struct NodeTests {
  private static func pair(_ folder: String) -> Configuration {
    var conf = Configuration(node: .init(name: "store-042", state: folder + "/state"))
    conf.databases = [
      .init(name: "copy", url: "sqlite://\(folder)/copy.db"), .init(name: "pos", url: "sqlite://\(folder)/pos.db"),
    ]
    conf.captures = [.init(name: "pos", database: "pos")]
    conf.applies = [.init(name: "copy", trail: "store-042.pos", database: "copy")]
    return conf
  }

  private static func shop(_ node: TestNode) throws -> Database {
    let shop = try node.database("pos.db")
    try shop.executeScript("PRAGMA journal_mode = WAL; CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT)")
    try shop.execute("INSERT INTO item VALUES (1, 'tea'), (2, 'milk')")
    return shop
  }

  @Test func `a copy of a trail that ends before its target goes on is waited for`() throws {
    let first = try TestNode(Self.pair)
    let shop = try Self.shop(first)
    let (folder, files) = (first.folder, FileManager.default)
    let trail = folder + "/state/store-042.pos"
    first.start()
    #expect(first.wait { first.count("copy.db", "SELECT count(*) FROM item") == 2 })
    first.end()
    try files.copyItem(atPath: trail, toPath: folder + "/early")
    try shop.execute("INSERT INTO item VALUES (3, 'salt')")
    let second = try TestNode(in: folder, Self.pair)
    second.start()
    #expect(second.wait { second.count("copy.db", "SELECT count(*) FROM item") == 3 })
    second.end()
    try files.moveItem(atPath: trail, toPath: folder + "/late")
    try files.moveItem(atPath: folder + "/early", toPath: trail)
    // Another node, to which it is sent.
    let third = try TestNode(in: folder) { folder in
      var conf = Self.pair(folder)
      (conf.node.name, conf.captures) = ("hq", [])
      return conf
    }
    third.start()
    #expect(third.wait { third.worker("apply.copy")?.problem?.code == "trail-elsewhere" })
    #expect(third.worker("apply.copy")?.state != .failed)
    try files.removeItem(atPath: trail)
    try files.moveItem(atPath: folder + "/late", toPath: trail)
    #expect(third.wait { third.worker("apply.copy")?.isCaughtUp == true }, "\(third.worker("apply.copy") as Any)")
    third.end()
  }

  @Test func `rows are copied and followed, a worker is stopped and started`() throws {
    let node = try TestNode(Self.pair)
    let shop = try Self.shop(node)
    node.start()
    defer { node.end() }
    let rows = "SELECT count(*) FROM item"
    #expect(node.wait { node.count("copy.db", rows) == 2 }, "\(node.supervisor.workers())")
    try shop.execute("INSERT INTO item VALUES (3, 'rice')")
    #expect(node.wait { node.count("copy.db", rows) == 3 })
    #expect(node.wait { node.worker("apply.copy")?.rows ?? 0 >= 3 && node.worker("capture.pos")?.state == .running })

    try node.supervisor.order(.stop, "apply.copy")
    #expect(node.wait { node.worker("apply.copy")?.state == .stopped })
    #expect(node.worker("apply.copy")?.isCaughtUp == true)
    try shop.execute("INSERT INTO item VALUES (4, 'salt')")
    #expect(
      node.wait {
        node.worker("apply.copy").map { !$0.isCaughtUp && ($0.lagMilliseconds ?? 0) > 300 } ?? false
      }, "\(node.supervisor.workers())")
    #expect(node.count("copy.db", rows) == 3)
    try node.supervisor.order(.start, "copy")
    #expect(node.wait { node.count("copy.db", rows) == 4 })
    #expect(node.wait { node.worker("apply.copy")?.isCaughtUp == true })
  }

  @Test func `a source that is away is reported, and taken up again when it is back`() throws {
    let node = try TestNode(Self.pair)
    try Self.shop(node).execute("PRAGMA wal_checkpoint")
    let (there, away) = (node.folder + "/pos.db", node.folder + "/away.db")
    node.start()
    defer { node.end() }
    #expect(node.wait { node.count("copy.db", "SELECT count(*) FROM item") == 2 })
    try node.supervisor.order(.stop, "capture.pos")
    #expect(node.wait { node.worker("capture.pos")?.state == .stopped })
    rename(there, away)
    try node.supervisor.order(.start, "capture.pos")
    #expect(node.wait { node.worker("capture.pos")?.problem != nil })
    #expect(node.worker("capture.pos")?.state == .retrying, "\(String(describing: node.worker("capture.pos")))")
    #expect(node.worker("apply.copy")?.state == .running)
    rename(away, there)
    #expect(node.wait { node.worker("capture.pos")?.state == .running })
    try node.database("pos.db").execute("INSERT INTO item VALUES (3, 'rice')")
    #expect(node.wait { node.count("copy.db", "SELECT count(*) FROM item") == 3 })
  }

  @Test func `a trail that is removed while it is written is reported, and a new one begins with a copy`() throws {
    let node = try TestNode { folder in
      var conf = Self.pair(folder)
      conf.captures[0].purge = .seconds(1)
      return conf
    }
    let shop = try Self.shop(node)
    node.start()
    defer { node.end() }
    #expect(node.wait { node.count("copy.db", "SELECT count(*) FROM item") == 2 })
    #expect(node.wait { node.context.trailInfos["store-042.pos"] != nil })
    try FileManager.default.removeItem(atPath: node.folder + "/state/store-042.pos")
    // Capture or the purge may see it first; the source must not forget what is written now.
    try shop.execute("INSERT INTO item VALUES (3, 'rice')")
    #expect(
      node.wait { ["capture.pos", "purge.pos"].contains { node.worker($0)?.problem?.code == "trail-missing" } },
      "\(node.supervisor.workers())")
    #expect(node.wait { node.worker("apply.copy")?.state == .failed }, "\(node.supervisor.workers())")
    #expect(node.worker("apply.copy")?.problem?.code == "checkpoint-foreign")
    try CopyRequest(state: node.folder + "/state", apply: "copy").ask()
    try node.supervisor.order(.start, "copy")
    #expect(node.wait { node.count("copy.db", "SELECT count(*) FROM item") == 3 }, "\(node.supervisor.workers())")
  }

  @Test func `an apply of another node's trail waits for it`() throws {
    let node = try TestNode { folder in
      var conf = Configuration(node: .init(name: "hq", state: folder + "/state"))
      conf.databases = [.init(name: "copy", url: "sqlite://\(folder)/copy.db")]
      conf.applies = [.init(name: "copy", trail: "store-042.pos", database: "copy")]
      return conf
    }
    node.start()
    defer { node.end() }
    #expect(node.wait { node.worker("apply.copy")?.state == .waiting && node.worker("apply.copy")?.detail != "" })
    #expect(node.worker("apply.copy")?.detail == "waits for trail store-042.pos, which is not received yet")
  }

  @Test func `a target with other rows is not overwritten unasked, and is when the conf says so`() throws {
    let node = try TestNode(Self.pair)
    _ = try Self.shop(node)
    try node.database("copy.db").execute("CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT)")
    try node.database("copy.db").execute("INSERT INTO item VALUES (9, 'mine')")
    node.start()
    defer { node.end() }
    #expect(node.wait { node.worker("apply.copy")?.state == .failed })
    #expect(node.worker("apply.copy")?.problem?.hint.contains("[apply.copy]") == true)
    #expect(node.count("copy.db", "SELECT count(*) FROM item") == 1)
    var conf = node.context.configuration
    conf.applies[0].existing = .merge
    node.context.configuration = conf
    node.supervisor.adopt(WorkerPlan(conf))
    #expect(node.wait { node.count("copy.db", "SELECT count(*) FROM item") == 3 })
  }

  @Test func `changes that a waiting table missed are not left out when the conf gives it another name`() throws {
    let node = try TestNode(Self.pair)
    let shop = try Self.shop(node)
    node.start()
    defer { node.end() }
    #expect(node.wait { node.count("copy.db", "SELECT count(*) FROM item") == 2 })
    func adopt(_ rules: [TableRule]) {
      var conf = node.context.configuration
      // The table of the other name is not made.
      (conf.applies[0].rules, conf.applies[0].ddl) = (rules, .stop)
      node.context.configuration = conf
      node.supervisor.adopt(WorkerPlan(conf))
    }
    var rule = TableRule(from: "item")
    rule.to = "item2"
    adopt([rule])
    try shop.executeScript("UPDATE item SET name = 'oat milk' WHERE id = 2; INSERT INTO item VALUES (3, 'rice')")
    #expect(node.wait { node.worker("apply.copy")?.waits.map(\.table) == ["item2"] }, "\(node.supervisor.workers())")
    adopt([])
    #expect(node.wait { node.worker("apply.copy")?.state == .failed }, "\(node.supervisor.workers())")
    #expect(node.worker("apply.copy")?.problem?.code == "rule-refused")
    try CopyRequest(state: node.folder + "/state", apply: "copy").ask()
    try node.supervisor.order(.start, "copy")
    #expect(
      node.wait { node.count("copy.db", "SELECT count(*) FROM item WHERE name IN ('tea', 'oat milk', 'rice')") == 3 },
      "\(node.supervisor.workers())")
  }

  @Test func `without a word in the conf, a row that a program changes at the target is seen in a minute`() throws {
    let node = try TestNode(Self.pair)
    _ = try Self.shop(node)
    node.start()
    defer { node.end() }
    #expect(
      node.wait { node.worker("apply.copy")?.isCaughtUp == true && node.count("copy.db", "SELECT 1 FROM item") == 1 })
    // The audit has found nothing in its first round.
    usleep(3_000_000)
    #expect(node.worker("apply.copy")?.detail.contains("drift") == false)
    let copy = try node.database("copy.db")
    try copy.execute("UPDATE item SET name = 'coffee' WHERE id = 1")
    #expect(
      node.wait(seconds: 60) {
        node.worker("apply.copy")?.detail.contains("drift in 1 table, the first item") == true
      },
      "\(node.worker("apply.copy") as Any)")
    #expect(node.worker("apply.copy")?.isWell(lagMilliseconds: .infinity) == false)
    try copy.execute("UPDATE item SET name = 'tea' WHERE id = 1")
    #expect(node.wait(seconds: 60) { node.worker("apply.copy")?.detail.contains("drift") == false })
    #expect(node.worker("apply.copy")?.isWell(lagMilliseconds: .infinity) == true)
  }

  @Test func `the status counts rows that wait for a unique value`() throws {
    let node = try TestNode { folder in
      var conf = Configuration(node: .init(name: "hq", state: folder + "/state"))
      conf.databases = ["a", "b"].map { .init(name: $0, url: "sqlite://\(folder)/\($0).db") }
      conf.captures = ["a", "b"].map { .init(name: $0, database: $0) }
      conf.applies = [("a", "b"), ("b", "a")].map { .init(name: $0, trail: "hq.\($1)", database: $0) }
      return conf
    }
    let databases = try ["a.db", "b.db"].map { name in
      let database = try node.database(name)
      try database.executeScript(
        "PRAGMA journal_mode = WAL; CREATE TABLE item(id TEXT NOT NULL PRIMARY KEY, mail TEXT UNIQUE)")
      return database
    }
    node.start()
    defer { node.end() }
    // At the end of a trail that has no first copy yet, an apply is caught up too.
    for apply in ["apply.a", "apply.b"] { try #require(node.wait { node.worker(apply)?.tablesCopied == 1 }) }
    try node.supervisor.order(.stop, "apply.a")
    try node.supervisor.order(.stop, "apply.b")
    #expect(node.wait { ["a", "b"].allSatisfy { node.worker("apply.\($0)")?.state == .stopped } })
    try databases[0].execute("INSERT INTO item VALUES (1, 'bert@x')")
    try databases[1].execute("INSERT INTO item VALUES (2, 'bert@x')")
    try node.supervisor.order(.start, "apply.a")
    try node.supervisor.order(.start, "apply.b")
    for apply in ["apply.a", "apply.b"] {
      #expect(node.wait { node.worker(apply)?.rowsWaiting == ["item": 1] })
    }
    // In one of them: the other one gets the row, and where it comes first, its own update would meet the row that waited.
    try databases[0].execute("UPDATE item SET mail = 'free@x' WHERE mail = 'bert@x'")
    for apply in ["apply.a", "apply.b"] {
      #expect(node.wait { node.worker(apply)?.rowsWaiting == [:] })
    }
  }

  @Test func `an apply that lags too far is given up, and gets everything again when it comes back`() throws {
    let node = try TestNode { folder in
      var conf = Self.pair(folder)
      conf.limits.diskBytes = 20 << 20
      conf.captures[0].purge = .seconds(1)
      return conf
    }
    let shop = try Self.shop(node)
    node.start()
    defer { node.end() }
    #expect(node.wait { node.count("copy.db", "SELECT count(*) FROM item") == 2 })
    try node.supervisor.order(.stop, "apply.copy")
    #expect(node.wait { node.worker("apply.copy")?.state == .stopped })
    // Two of them fill a segment.
    for round in 0..<3 {
      let before = node.worker("capture.pos")?.rows ?? 0
      try shop.executeScript(
        """
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9000)
        INSERT INTO item SELECT i + \(10 + round * 9000), hex(randomblob(1000)) FROM n; DELETE FROM item WHERE id = 1
        """)
      #expect(node.wait { node.worker("capture.pos")?.rows ?? 0 >= before + 9000 })
    }
    #expect(node.wait { node.context.trailInfos["store-042.pos"]?.firstPosition.segment ?? 1 > 1 })
    #expect(node.worker("apply.copy")?.detail.contains("lags too far") == true)
    #expect(node.worker("capture.pos")?.state == .running)
    try node.supervisor.order(.start, "apply.copy")
    let rows = "SELECT count(*) || ' ' || min(id) || ' ' || max(id) || ' ' || sum(length(name)) FROM item"
    let expected = try shop.text(rows)
    func copied() -> String? {
      (try? Database(path: node.folder + "/copy.db", mode: .readOnly)).flatMap { try? $0.text(rows) }
    }
    #expect(node.wait(seconds: 40) { copied() == expected }, "\(String(describing: node.worker("apply.copy")))")
    try shop.execute("INSERT INTO item VALUES (99999, 'late')")
    #expect(node.wait { node.count("copy.db", "SELECT count(*) FROM item WHERE id = 99999") == 1 })
    #expect(node.worker("apply.copy")?.problem == nil)
  }
}
