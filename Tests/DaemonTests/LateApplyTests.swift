import Changes
import Configuring
import ControlAPI
import Foundation
import SQLiteKit
import Testing

@testable import Daemon

/// An apply that is added to a trail which other applies have already applied.
@Suite struct LateApplyTests {
  private static let rows = "SELECT count(*) || ' ' || min(id) || ' ' || max(id) || ' ' || sum(length(name)) FROM item"

  private static func conf(_ folder: String) -> Configuration {
    var conf = Configuration(node: .init(name: "store-042", state: folder + "/state"))
    conf.databases = [
      .init(name: "copy", url: "sqlite://\(folder)/copy.db"), .init(name: "late", url: "sqlite://\(folder)/late.db"),
      .init(name: "pos", url: "sqlite://\(folder)/pos.db"),
    ]
    conf.captures = [.init(name: "pos", database: "pos")]
    conf.captures[0].purge = .seconds(1)
    conf.applies = [.init(name: "copy", trail: "store-042.pos", database: "copy")]
    return conf
  }

  private func text(_ node: TestNode, _ name: String) -> String? {
    (try? Database(path: "\(node.folder)/\(name)", mode: .readOnly)).flatMap { try? $0.text(Self.rows) }
  }

  /// A node whose trail has lost its beginning.
  private func purged() throws -> (TestNode, Database) {
    let node = try TestNode(Self.conf)
    let shop = try node.database("pos.db")
    try shop.executeScript("PRAGMA journal_mode = WAL; CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT)")
    try shop.execute("CREATE TABLE note(id INTEGER PRIMARY KEY, text TEXT)")
    try shop.executeScript("INSERT INTO item VALUES (1, 'tea'), (2, 'milk'); INSERT INTO note VALUES (1, 'hot')")
    node.start()
    // Two of them fill a segment.
    for round in 0..<3 {
      try shop.executeScript(
        """
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(round < 2 ? 90 : 1))
        INSERT INTO item SELECT i + \(10 + round * 100), hex(randomblob(100000)) FROM n; DELETE FROM item WHERE id = 1
        """)
      let expected = try shop.text(Self.rows)
      #expect(node.wait(seconds: 40) { text(node, "copy.db") == expected })
    }
    #expect(node.wait { node.context.trailInfos["store-042.pos"]?.firstPosition.segment ?? 1 > 1 })
    return (node, shop)
  }

  private func add(_ node: TestNode) {
    var conf = node.context.configuration
    conf.applies.append(.init(name: "late", trail: "store-042.pos", database: "late"))
    node.context.configuration = conf
    node.supervisor.adopt(WorkerPlan(conf))
  }

  @Test func `gets everything by a copy, is stopped in between, lost, and lost in part`() throws {
    let (node, shop) = try purged()
    defer { node.end() }
    add(node)
    #expect(node.wait { node.worker("apply.late")?.state == .running })
    for id in 0..<3 {
      try shop.executeScript(
        "UPDATE item SET name = 'new' WHERE id = \(20 + id); INSERT INTO note VALUES (\(10 + id), 'x')")
      try node.supervisor.order(.restart, "apply.late")
      #expect(node.wait { node.worker("apply.late")?.state == .running }, "\(node.supervisor.workers())")
    }
    let expected = try shop.text(Self.rows)
    #expect(node.wait(seconds: 60) { text(node, "late.db") == expected }, "\(node.supervisor.workers())")
    #expect(node.wait { node.count("late.db", "SELECT count(*) FROM note") == 4 })
    #expect(node.wait { node.worker("apply.late")?.isCaughtUp == true })
    #expect(node.wait { text(node, "copy.db") == expected })
    // The file is lost, and created again: the trail may still have the copy, or another one is asked for.
    try node.supervisor.order(.stop, "apply.late")
    #expect(node.wait { node.worker("apply.late")?.state == .stopped })
    for suffix in ["", "-wal", "-shm"] { unlink(node.folder + "/late.db" + suffix) }
    try node.database("late.db").execute("PRAGMA journal_mode = WAL")
    try shop.execute("DELETE FROM item WHERE id = 20")
    try node.supervisor.order(.start, "apply.late")
    let later = try shop.text(Self.rows)
    #expect(node.wait(seconds: 60) { text(node, "late.db") == later }, "\(node.supervisor.workers())")
    #expect(node.wait { node.count("late.db", "SELECT count(*) FROM note") == 4 })

    // It had a part of the trail, and it is not known which.
    try node.supervisor.order(.stop, "apply.late")
    #expect(node.wait { node.worker("apply.late")?.state == .stopped })
    try node.database("late.db").executeScript("DELETE FROM cairn_checkpoint; DELETE FROM item")
    try FileManager.default.removeItem(atPath: node.folder + "/state/applies/late")
    var conf = node.context.configuration
    conf.applies[1].existing = .overwrite
    node.context.configuration = conf
    node.supervisor.adopt(WorkerPlan(conf))
    try node.supervisor.order(.start, "apply.late")
    #expect(node.wait { node.worker("apply.late")?.state == .failed }, "\(node.supervisor.workers())")
    #expect(node.worker("apply.late")?.problem?.hint.contains("cairn copy late") == true)
    let desk = ControlHandler(
      context: node.context, supervisor: node.supervisor,
      status: { NodeStatus(node: "", version: "", process: 0, now: 0, startedAt: 0, loadedAt: 0) },
      reload: { throw CairnError(.bug, "not asked", hint: "") })
    let refused = #expect(throws: CairnError.self) {
      try desk.answer(ControlRequest(.copy, "late", tables: ["item"]), from: ControlPeer(user: nil, process: nil))
    }
    #expect(refused?.hint.contains("'cairn copy late' without --tables") == true)
    _ = try desk.answer(ControlRequest(.copy, "late"), from: ControlPeer(user: nil, process: nil))
    #expect(node.wait(seconds: 60) { text(node, "late.db") == later }, "\(node.supervisor.workers())")
  }
}
