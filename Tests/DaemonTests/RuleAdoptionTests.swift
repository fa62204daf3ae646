import Applying
import Changes
import Configuring
import ControlAPI
import Foundation
import Mapping
import SQLiteKit
import Testing

@testable import Daemon

/// A daemon whose conf gives tables other rules while it runs.
@Suite struct RuleAdoptionTests {
  private static func conf(_ folder: String) -> Configuration {
    var conf = Configuration(node: .init(name: "store-042", state: folder + "/state"))
    conf.databases = [
      .init(name: "copy", url: "sqlite://\(folder)/copy.db"), .init(name: "pos", url: "sqlite://\(folder)/pos.db"),
    ]
    conf.captures = [.init(name: "pos", database: "pos")]
    conf.applies = [.init(name: "copy", trail: "store-042.pos", database: "copy")]
    return conf
  }

  private static func rule(_ body: (inout TableRule) -> Void) -> [TableRule] {
    var rule = TableRule(from: "item")
    body(&rule)
    return [rule]
  }

  private func adopt(_ node: TestNode, _ rules: [TableRule], captures: Bool = true) {
    var conf = node.context.configuration
    conf.applies[0].rules = rules
    if !captures { conf.captures = [] }
    node.context.configuration = conf
    node.supervisor.adopt(WorkerPlan(conf))
  }

  private func text(_ node: TestNode, _ sql: String) -> String? {
    (try? Database(path: node.folder + "/copy.db", mode: .readOnly)).flatMap { try? $0.text(sql) }
  }

  @Test
  func `a changed rule brings its table in line, whatever ends the daemon, and one that cannot be kept is refused`()
    throws
  {
    let node = try TestNode(Self.conf)
    let shop = try node.database("pos.db")
    try shop.executeScript("PRAGMA journal_mode = WAL; CREATE TABLE item(id INTEGER PRIMARY KEY, price INTEGER)")
    try shop.executeScript("CREATE TABLE note(id INTEGER PRIMARY KEY); INSERT INTO note VALUES (1)")
    try shop.execute("INSERT INTO item VALUES (1, 5), (2, 0), (3, 7)")
    let desk = RefreshCoordinator(node.context, node.supervisor)
    let wait = { (condition: () -> Bool) in
      node.wait {
        desk.look()
        return condition()
      }
    }
    let ids = "SELECT group_concat(id) FROM (SELECT id FROM item ORDER BY id)"
    node.start()
    #expect(wait { text(node, ids) == "1,2,3" && node.worker("apply.copy")?.isCaughtUp == true })
    // An apply of an older version has no note: the note is made, and asks for nothing.
    let path = node.folder + "/state/applies/copy.rules"
    #expect(try String(contentsOfFile: path, encoding: .utf8) == "{\"rules\":[],\"changed\":[]}\n")

    let cheap = Self.rule {
      ($0.filter, $0.columns) = (
        "price < 6", [.init("*", "*"), .init("tax", "price / 5")]
      )
    }
    adopt(node, cheap)
    try shop.executeScript("UPDATE item SET price = 9 WHERE id = 1; UPDATE item SET price = 1 WHERE id = 3")
    let taxes = "SELECT group_concat(id || ':' || tax) FROM (SELECT * FROM item ORDER BY id)"
    #expect(wait { text(node, taxes) == "2:0,3:0" && node.worker("apply.copy")?.isCaughtUp == true })
    #expect(wait { node.context.requests.all.isEmpty })
    #expect(try String(contentsOfFile: path, encoding: .utf8).hasSuffix("\"changed\":[]}\n"))
    node.end()

    // The change is noted, and no more: as `kill -9` may leave it.
    let note = RuleNote(state: node.folder + "/state", apply: "copy")
    var content = try #require(try note.read())
    content.changed = [.init("item", before: [content.rules.first], isCopied: true)]
    content.rules = []
    try note.note(content)
    let again = try TestNode(in: node.folder, Self.conf)
    let desk2 = RefreshCoordinator(again.context, again.supervisor)
    again.start()
    defer { again.end() }
    let wait2 = { (condition: () -> Bool) in
      again.wait {
        desk2.look()
        return condition()
      }
    }
    #expect(wait2 { text(again, ids) == "1,2,3" && again.worker("apply.copy")?.isCaughtUp == true })
    #expect(again.count("copy.db", "SELECT count(*) FROM pragma_table_info('item')") == 2)

    // Another table: the old one stays.
    adopt(again, Self.rule { $0.to = "goods" })
    #expect(
      wait2 {
        again.count("copy.db", "SELECT count(*) FROM goods") == 3 && again.worker("apply.copy")?.isCaughtUp == true
      })
    try shop.execute("DELETE FROM item WHERE id = 2")
    #expect(wait2 { again.count("copy.db", "SELECT count(*) FROM goods") == 2 })
    #expect(text(again, ids) == "1,2,3")

    adopt(again, Self.rule { ($0.to, $0.mode) = ("goods", .history) })
    #expect(wait2 { again.worker("apply.copy")?.problem?.code == "rule-refused" })
    #expect(again.worker("apply.copy")?.problem?.hint.contains("another `to`") == true)
    adopt(again, Self.rule { $0.filter = "price > 1" }, captures: false)
    #expect(wait2 { again.worker("apply.copy")?.problem?.hint.contains("[capture.pos]") == true })
    // Put back, it goes on as if nothing had been.
    adopt(again, Self.rule { $0.to = "goods" }, captures: false)
    #expect(wait2 { again.worker("apply.copy")?.isCaughtUp == true && again.context.requests.all.isEmpty })
  }

  @Test func `a ruled table that gets another name waits, and goes on under the rule that the hint asks for`() throws {
    let node = try TestNode(Self.conf)
    let shop = try node.database("pos.db")
    try shop.executeScript("PRAGMA journal_mode = WAL; CREATE TABLE item(id INTEGER PRIMARY KEY, price INTEGER)")
    try shop.executeScript("CREATE TABLE note(id INTEGER PRIMARY KEY); INSERT INTO item VALUES (1, 5), (2, 0), (3, 7)")
    let desk = RefreshCoordinator(node.context, node.supervisor)
    let wait = { (condition: () -> Bool) in
      node.wait {
        desk.look()
        return condition()
      }
    }
    let ids = "SELECT group_concat(id) FROM (SELECT id FROM item ORDER BY id)"
    adopt(node, Self.rule { $0.filter = "price < 6" })
    node.start()
    defer { node.end() }
    #expect(wait { text(node, ids) == "1,2" && node.worker("apply.copy")?.isCaughtUp == true })
    try shop.executeScript(
      "ALTER TABLE item RENAME TO goods; INSERT INTO goods VALUES (4, 1), (5, 9); DELETE FROM goods WHERE id = 1")
    #expect(wait { node.worker("apply.copy")?.waits.first?.code == "rule-refused" }, "\(node.supervisor.workers())")
    var rule = TableRule(from: "goods")
    (rule.to, rule.filter) = ("item", "price < 6")
    adopt(node, [rule])
    #expect(
      wait {
        text(node, ids) == "2,4" && node.worker("apply.copy")?.isCaughtUp == true
          && node.worker("apply.copy")?.waits.isEmpty == true
      }, "\(node.worker("apply.copy") as Any)")
    try shop.executeScript("INSERT INTO goods VALUES (6, 2), (7, 9); DELETE FROM goods WHERE id = 2")
    #expect(wait { text(node, ids) == "4,6" && node.worker("apply.copy")?.isCaughtUp == true })
  }

  @Test func `if a trail comes from another node, that node is asked for the copy`() throws {
    let store = try TestNode { folder in
      var conf = Self.conf(folder)
      conf.applies = []
      return conf
    }
    let shop = try store.database("pos.db")
    try shop.executeScript("PRAGMA journal_mode = WAL; CREATE TABLE item(id INTEGER PRIMARY KEY, price INTEGER)")
    try shop.execute("INSERT INTO item VALUES (1, 5), (2, 0)")
    let hq = try TestNode { folder in
      var conf = Self.conf(folder)
      (conf.node.name, conf.captures) = ("hq", [])
      conf.peers = [.init(name: "store-042", push: TrailPatterns(["*"]), pull: TrailPatterns([]))]
      return conf
    }
    try FileManager.default.createDirectory(atPath: hq.folder + "/state", withIntermediateDirectories: true)
    try FileManager.default.createSymbolicLink(
      atPath: hq.folder + "/state/store-042.pos", withDestinationPath: store.folder + "/state/store-042.pos")
    store.start()
    hq.start()
    defer {
      hq.end()
      store.end()
    }
    let ids = "SELECT group_concat(id) FROM (SELECT id FROM item ORDER BY id)"
    #expect(hq.wait { text(hq, ids) == "1,2" && hq.worker("apply.copy")?.isCaughtUp == true })
    adopt(hq, Self.rule { ($0.to, $0.filter) = ("cheap", "price < 3") })
    let trail = try #require(TrailName("store-042.pos"))
    #expect(hq.wait { hq.context.requests.open(trail).map(\.tables) == [["item"]] })
    // As a pump hands it on.
    let request = try #require(hq.context.requests.open(trail).first)
    store.context.requests.note(request.id, trail, request.tables, from: "hq", now: request.askedAt)
    RefreshCoordinator(store.context, store.supervisor).look()
    #expect(hq.wait { text(hq, "SELECT group_concat(id) FROM cheap") == "2" })
    #expect(text(hq, ids) == "1,2")
    let desk = RefreshCoordinator(hq.context, hq.supervisor)
    #expect(
      hq.wait {
        desk.look()
        return hq.context.requests.all.isEmpty && hq.worker("apply.copy")?.isCaughtUp == true
      })
  }

  @Test func `a copy that does not begin is asked for again, and one of a table that is gone is given up`() throws {
    let node = try TestNode(Self.conf)
    let trail = try #require(TrailName("store-042.pos"))
    let book = node.context.requests
    let upkeep = RuleUpkeep("copy", node.context, askAgainMilliseconds: 0)
    upkeep.begin([], [.init("item", before: [nil], isCopied: true), .init("note", before: [nil], isCopied: false)])
    try book.ask(trail, ["item"], for: "copy", behind: 3, now: 1)
    // The capture took a copy that was under way for it.
    let first = try #require(book.all.first)
    book.carriedOut(first)
    var now = ApplyProgress().snapshot
    #expect(upkeep.look(now, trail).isEmpty && book.all.map(\.id) == [first.id])
    now.isCaughtUp = true
    now.rulesAdopted = ["note"]
    #expect(upkeep.look(now, trail).isEmpty && upkeep.awaited == ["item"])
    let second = try #require(book.open(trail).first)
    #expect(book.all.count == 1 && second.id != first.id && second.tables == ["item"])
    let note = RuleNote(state: node.folder + "/state", apply: "copy")
    #expect(try note.read()?.changed.map(\.table) == ["item"])

    book.carriedOut(second, isMissing: true)
    #expect(upkeep.look(now, trail).count == 1 && upkeep.awaited.isEmpty && book.all.isEmpty)
    #expect(try note.read()?.changed.isEmpty == true)
  }

  @Test func `a rule that matches nothing stops the apply, unless its table was there before`() throws {
    let node = try TestNode(Self.conf)
    let shop = try node.database("pos.db")
    try shop.executeScript("PRAGMA journal_mode = WAL; CREATE TABLE item(id INTEGER PRIMARY KEY, price INTEGER)")
    try shop.executeScript("CREATE TABLE note(id INTEGER PRIMARY KEY); INSERT INTO item VALUES (1, 5), (2, 0)")
    var (wrong, filter) = (TableRule(from: "itme"), TableRule(from: "item"))
    (wrong.filter, filter.filter) = ("price > 1", "price > 1")
    adopt(node, [wrong])
    node.start()
    let apply = { node.worker("apply.copy") }
    #expect(node.wait { apply()?.state == .failed }, "\(node.supervisor.workers())")
    #expect(apply()?.problem?.code == "table-missing")
    #expect(apply()?.problem?.hint.contains("did you mean from = \"item\"?") == true, "\(apply() as Any)")
    #expect(text(node, "SELECT count(*) FROM sqlite_master WHERE name = 'item'") != "1", "no row came unfiltered")
    adopt(node, [filter])
    #expect(node.wait { text(node, "SELECT group_concat(id) FROM item") == "1" }, "\(node.supervisor.workers())")
    // A reload with another slip.
    adopt(node, [filter, TableRule(from: "noet")])
    #expect(node.wait { apply()?.state == .failed && apply()?.problem?.code == "table-missing" })
    // A rule that leads to the table of another one does not count as its rule.
    var stray = TableRule(from: "itme")
    stray.to = "item"
    adopt(node, [stray])
    #expect(node.wait { apply()?.problem?.hint.contains("did you mean from = \"item\"?") == true }, "\(apply() as Any)")
    #expect(apply()?.problem?.code == "table-missing")
    adopt(node, [filter, TableRule(from: "note")])
    #expect(node.wait { apply()?.state == .running && apply()?.isCaughtUp == true })
    node.end()
    // A rule that was adopted does not stop the apply when its table is dropped.
    try shop.execute("DROP TABLE item")
    let again = try TestNode(in: node.folder) { folder in
      var conf = Self.conf(folder)
      conf.applies[0].rules = [filter, TableRule(from: "note")]
      return conf
    }
    again.start()
    defer { again.end() }
    #expect(again.wait { again.worker("apply.copy")?.isCaughtUp == true }, "\(again.supervisor.workers())")
    #expect(again.worker("apply.copy")?.problem == nil)
  }

  @Test func `a table that a two-way capture lists must be in one of the databases`() throws {
    let node = try TestNode { folder in
      var conf = Configuration(node: .init(name: "hq", state: folder + "/state"))
      conf.databases = ["a", "b"].map { .init(name: $0, url: "sqlite://\(folder)/\($0).db") }
      conf.captures = ["a", "b"].map { .init(name: $0, database: $0) }
      conf.captures[0].tables = ["item", "slae"]
      conf.applies = [("a", "b"), ("b", "a")].map { .init(name: $0, trail: "hq.\($1)", database: $0) }
      return conf
    }
    try node.database("a.db").executeScript(
      "PRAGMA journal_mode = WAL; CREATE TABLE item(id TEXT NOT NULL PRIMARY KEY)")
    try node.database("b.db").executeScript(
      """
      PRAGMA journal_mode = WAL; CREATE TABLE item(id TEXT NOT NULL PRIMARY KEY);
      CREATE TABLE sale(id TEXT NOT NULL PRIMARY KEY); INSERT INTO sale VALUES (7)
      """)
    node.start()
    defer { node.end() }
    let capture = { node.worker("capture.a") }
    #expect(node.wait { capture()?.problem?.code == "table-missing" }, "\(node.supervisor.workers())")
    #expect(capture()?.state == .failed)
    // The apply to `a` creates this one.
    var conf = node.context.configuration
    conf.captures[0].tables = ["item", "sale"]
    node.context.configuration = conf
    node.supervisor.adopt(WorkerPlan(conf))
    #expect(node.wait { node.count("a.db", "SELECT 0 + id FROM sale") == 7 }, "\(node.supervisor.workers())")
    #expect(node.wait { capture()?.state == .running }, "\(node.supervisor.workers())")
  }

  @Test func `a listed table that is not there stops the capture, unless it was there before`() throws {
    let node = try TestNode(Self.conf)
    let shop = try node.database("pos.db")
    try shop.executeScript("PRAGMA journal_mode = WAL; CREATE TABLE item(id INTEGER PRIMARY KEY, price INTEGER)")
    try shop.executeScript("CREATE TABLE note(id INTEGER PRIMARY KEY); INSERT INTO item VALUES (1, 5)")
    func list(_ node: TestNode, _ tables: [String]) {
      var conf = node.context.configuration
      conf.captures[0].tables = tables
      node.context.configuration = conf
      node.supervisor.adopt(WorkerPlan(conf))
    }
    list(node, ["itme", "note"])
    node.start()
    let capture = { node.worker("capture.pos") }
    #expect(node.wait { capture()?.state == .failed }, "\(node.supervisor.workers())")
    #expect(capture()?.problem?.code == "table-missing")
    #expect(capture()?.problem?.hint.contains("did you mean item?") == true, "\(capture() as Any)")
    list(node, ["item"])
    #expect(node.wait { node.count("copy.db", "SELECT count(*) FROM item") == 1 }, "\(node.supervisor.workers())")
    list(node, ["item", "ntoe"])
    #expect(node.wait { capture()?.state == .failed && capture()?.problem?.code == "table-missing" })
    list(node, ["item", "note"])
    #expect(node.wait { node.count("copy.db", "SELECT count(*) FROM note") == 0 }, "\(node.supervisor.workers())")
    node.end()
    try shop.execute("DROP TABLE note")
    let again = try TestNode(in: node.folder) { folder in
      var conf = Self.conf(folder)
      conf.captures[0].tables = ["item", "note"]
      return conf
    }
    again.start()
    defer { again.end() }
    #expect(again.wait { again.worker("capture.pos")?.state == .running }, "\(again.supervisor.workers())")
    #expect(again.wait { again.worker("apply.copy")?.isCaughtUp == true })
    #expect(again.worker("capture.pos")?.problem == nil)
  }
}
