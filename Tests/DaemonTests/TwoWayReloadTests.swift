import Changes
import Configuring
import Conflicts
import Endpoints
import Foundation
import SQLiteKit
import SystemKit
import Testing

@testable import Applying
@testable import Daemon

/// The state that the applies of one database share, when the conf is loaded again while they run.
@Suite struct TwoWayReloadTests {
  private static let names = ["a", "b", "c"]

  /// All write, and each is applied to by all others.
  private static func mesh(
    _ folder: String, _ names: [String], _ conflicts: ConflictPlan.Part = .init(rule: .newest), tables: [String] = ["*"]
  ) -> Configuration {
    var conf = Configuration(node: .init(name: "hq", state: folder + "/state"))
    conf.databases = names.map { .init(name: $0, url: "sqlite://\(folder)/\($0).db") }
    for index in conf.databases.indices { conf.databases[index].sharesKeys = true }
    conf.captures = names.map { .init(name: $0, database: $0) }
    for index in conf.captures.indices {
      (conf.captures[index].copiesRows, conf.captures[index].tables) = (names[index] == "a", tables)
    }
    conf.applies = names.flatMap { to in
      names.filter { $0 != to }.map { from in
        var apply = Configuration.Apply(name: "\(from)-to-\(to)", trail: "hq.\(from)", database: to)
        apply.existing = .merge
        apply.conflicts = conflicts
        return apply
      }
    }
    return conf
  }

  private func make(_ node: TestNode, _ name: String) throws -> Database {
    let database = try node.database("\(name).db")
    try database.executeScript("PRAGMA journal_mode = WAL; CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT)")
    database.setBusyTimeout(milliseconds: 10_000)
    return database
  }

  private func adopt(_ node: TestNode, _ conf: Configuration) {
    node.context.configuration = conf
    node.supervisor.adopt(WorkerPlan(conf))
  }

  private func expect(_ node: TestNode, _ names: [String], _ name: String, id: Int = 1) {
    let sql = "SELECT count(*) FROM item WHERE id = \(id) AND name = '\(name)'"
    #expect(
      node.wait { names.allSatisfy { node.count("\($0).db", sql) == 1 } },
      "\(names.map { (try? Database(path: "\(node.folder)/\($0).db", mode: .readOnly).text("SELECT name FROM item WHERE id = \(id)")) ?? "" }) \(node.supervisor.workers().map { ($0.name, $0.state, $0.problem) })"
    )
  }

  /// Has two databases write one row before either hears of the other; `first` is captured first.
  private func clash(_ node: TestNode, _ first: (String, Database), _ second: (String, Database), id: Int = 1) throws {
    let applies = Self.names.flatMap { to in Self.names.map { "apply.\($0)-to-\(to)" } }
    let running = applies.filter { node.worker($0) != nil }
    for apply in running { try node.supervisor.order(.stop, apply) }
    #expect(node.wait { running.allSatisfy { node.worker($0)?.state == .stopped } })
    for (name, database) in [first, second] {
      try database.execute("UPDATE item SET name = '\(name) \(id)' WHERE id = \(id)")
      let last = try database.integer("SELECT max(seq) FROM cairn_journal") ?? 0
      #expect(node.wait { (try? database.integer("SELECT taken FROM cairn_control WHERE id = 0")) ?? 0 >= last })
    }
    for apply in running { try node.supervisor.order(.start, apply) }
  }

  @Test func `a trail that begins again at a later segment makes the applies of its databases start again`() throws {
    let node = try TestNode { Self.mesh($0, ["a", "b", "c"]) }
    func shared(_ name: String) throws -> TwoWay {
      let apply = try #require(node.context.configuration.applies.first { $0.database == name })
      let location = try DatabaseURL("sqlite://\(node.folder)/\(name).db")
      return try #require(node.context.twoWays.twoWay(for: apply, at: location, in: node.context))
    }
    let before = try Self.names.map(shared)
    for (name, twoWay) in zip(Self.names, before) {
      let again = try shared(name)
      #expect(twoWay.isSound && again === twoWay)
    }
    let hooks = NetworkHooks(
      context: node.context, reader: { _, _ in nil }, worker: .init(.receive, ""),
      plan: { RetentionPlan(.init(), trails: [], readers: [], isPaused: false, now: 0) }
    ).hooks
    hooks.restarted(TrailName(origin: "other", name: "x"))
    #expect(before.allSatisfy { $0.isSound })
    hooks.restarted(TrailName(origin: "hq", name: "a"))
    for (name, twoWay) in zip(Self.names, before) {
      #expect(!twoWay.isSound)
      let error = #expect(throws: CairnError.self) { try twoWay.enter(StopSignal()) }
      #expect(error?.code == .busy && error?.remedy == .retry)
      let again = try shared(name)
      #expect(again !== twoWay)
    }
  }

  @Test func `a reload that adds a database, or changes a rule, leaves no apply with what was before`() throws {
    let node = try TestNode { Self.mesh($0, ["a", "b"]) }
    let (a, b) = (try make(node, "a"), try make(node, "b"))
    try a.execute("INSERT INTO item VALUES (1, 'tea'), (2, 'milk'), (3, 'rice')")
    node.start()
    defer { node.end() }
    expect(node, ["a", "b"], "rice", id: 3)
    try clash(node, ("a", a), ("b", b))
    expect(node, ["a", "b"], "b 1")

    let c = try make(node, "c")
    adopt(node, Self.mesh(node.folder, Self.names))
    expect(node, Self.names, "rice", id: 3)
    expect(node, Self.names, "b 1")
    #expect(node.wait { Self.names.allSatisfy { node.worker("capture.\($0)")?.state == .running } })
    try clash(node, ("c", c), ("a", a), id: 2)
    expect(node, Self.names, "a 2", id: 2)

    adopt(node, Self.mesh(node.folder, Self.names, .init(rule: .oldest)))
    try clash(node, ("b", b), ("c", c), id: 3)
    expect(node, Self.names, "b 3", id: 3)
  }

  @Test("a reload while programs write to all loses no conflict", arguments: ["removes a database", "captures less"])
  func underLoad(change: String) throws {
    let all = Self.names + ["d"]
    let sum = ConflictPlan.Part(rule: .newest, columns: ["stock": .delta])
    let node = try TestNode { Self.mesh($0, all, sum) }
    let databases = try all.map { try make(node, $0) }
    for database in databases {
      try database.executeScript(
        "ALTER TABLE item ADD stock INTEGER NOT NULL DEFAULT 0; CREATE TABLE note(id INTEGER PRIMARY KEY)")
    }
    try databases[0].execute("INSERT INTO item VALUES (1, 'tea', 0)")
    node.start()
    defer { node.end() }
    expect(node, all, "tea")
    try databases[3].execute("UPDATE item SET stock = stock + 1000, name = 'milk'")
    expect(node, all, "milk")

    let stop = StopSignal()
    let folder = node.folder
    let programs = try Self.names.map { name in
      try WorkerThread<Int?> {
        guard let database = try? Database(ofProgram: "\(folder)/\(name).db") else { return nil }
        database.setBusyTimeout(milliseconds: 10_000)
        var count = 0
        while !stop.wait(milliseconds: 5) {
          let sql = "UPDATE item SET stock = stock + 1, name = '\(name) \(count)'"
          do { try database.execute(sql) } catch { return nil }
          count += 1
        }
        return count
      }
    }
    Clock.sleep(milliseconds: 500)
    let left = change == "captures less" ? all : Self.names
    adopt(node, Self.mesh(node.folder, left, sum, tables: left == all ? ["*", "!note"] : ["*"]))
    Clock.sleep(milliseconds: 500)
    // One of the applies to each database starts again alone.
    for (from, to) in zip(Self.names, ["b", "c", "a"]) { try node.supervisor.order(.restart, "apply.\(from)-to-\(to)") }
    Clock.sleep(milliseconds: 1000)
    stop.set()
    let written = try programs.reduce(1000) { try $0 + #require($1.join() ?? nil) }
    let rows = "SELECT count(*) FROM item WHERE stock = \(written)"
    #expect(node.wait { left.allSatisfy { node.count("\($0).db", rows) == 1 } }, "\(state(node, left)), not \(written)")
    #expect(node.wait { Set(state(node, left)).count == 1 }, "\(state(node, left))")
  }

  /// The one row of each database.
  private func state(_ node: TestNode, _ names: [String]) -> [String?] {
    names.map { name in
      try? Database(path: "\(node.folder)/\(name).db", mode: .readOnly).text("SELECT stock || ' ' || name FROM item")
    }
  }

  @Test(arguments: [
    "CREATE TABLE late(v TEXT)", "CREATE TABLE late(k TEXT COLLATE NOCASE NOT NULL PRIMARY KEY)",
    "CREATE TABLE late(id TEXT PRIMARY KEY, up TEXT REFERENCES late(id) ON UPDATE CASCADE)",
  ])
  func `a later table that cannot go both ways holds up no other table, also at the next start`(table: String) throws {
    let node = try TestNode { Self.mesh($0, ["a", "b"]) }
    let (a, b) = (try make(node, "a"), try make(node, "b"))
    try a.execute("INSERT INTO item VALUES (1, 'tea')")
    node.start()
    expect(node, ["a", "b"], "tea")
    try b.execute(table)
    try b.execute("INSERT INTO late VALUES (\(table.contains("up TEXT") ? "'1', '1'" : "'1'"))")
    try a.execute("INSERT INTO item VALUES (2, 'milk')")
    expect(node, ["a", "b"], "milk", id: 2)
    for apply in ["apply.a-to-b", "apply.b-to-a"] { try node.supervisor.order(.restart, apply) }
    try a.execute("INSERT INTO item VALUES (3, 'rice')")
    try b.execute("INSERT INTO item VALUES (4, 'salt')")
    expect(node, ["a", "b"], "rice", id: 3)
    expect(node, ["a", "b"], "salt", id: 4)
    #expect(node.wait { node.worker("apply.b-to-a")?.waits.contains { $0.table.hasSuffix("late") } ?? false })
    node.end()
    #expect(node.count("a.db", "SELECT count(*) FROM late") ?? 0 == 0)
  }

  @Test func `an apply that has what was shared before a reload writes nothing any more`() throws {
    let node = try TestNode { Self.mesh($0, ["a", "b"]) }
    let location = try DatabaseURL("sqlite://\(node.folder)/a.db")
    let book = node.context.twoWays
    let before = try #require(book.twoWay(for: node.context.configuration.applies[0], at: location, in: node.context))
    #expect(book.twoWay(for: node.context.configuration.applies[0], at: location, in: node.context) === before)
    let stop = StopSignal()
    // An apply has a group under way.
    #expect(try before.enter(stop))
    node.context.configuration = Self.mesh(node.folder, Self.names)
    let now = try #require(book.twoWay(for: node.context.configuration.applies[0], at: location, in: node.context))
    #expect(now !== before)
    let entered = try WorkerThread { try? now.enter(stop) }
    Clock.sleep(milliseconds: 100)
    #expect(entered.outcome == nil, "it waits until that group has ended")
    before.leave()
    #expect(entered.join() == true)
    now.leave()
    let error = #expect(throws: CairnError.self) { _ = try before.enter(stop) }
    #expect(error?.code == .busy && error?.remedy == .retry)
    #expect(try now.enter(stop), "who is refused does not keep the turn")
  }
}
