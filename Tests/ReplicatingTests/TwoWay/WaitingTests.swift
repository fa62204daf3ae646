import Applying
import Changes
import Conflicts
import Foundation
import SystemKit
import TestServers
import Testing
import Trails

/// A table that waits for a change of its shape, while all write to it.
@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
struct TwoWayWaitingTests {
  private static func mesh(
    _ engines: String, rules: ConflictRules = ConflictRules(), keys: KeyPool = .numbers
  ) throws -> Mesh {
    let schema = "CREATE TABLE item(id \(keys.type) PRIMARY KEY, name TEXT, stock INTEGER)"
    let mesh = try Mesh(engines, schema: schema) { _, _, _ in rules }
    mesh.ddl = .follow
    for node in mesh.nodes where node.isPostgres { try node.execute("ALTER TABLE item REPLICA IDENTITY FULL") }
    try mesh.nodes[0].execute("INSERT INTO item VALUES (\(keys[1]), 'tea', 10), (\(keys[2]), 'milk', 5)")
    try mesh.settle()
    return mesh
  }

  /// Brings a trail as far as it comes; true when the table waits.
  @discardableResult private static func bring(_ from: Int, to: Int, _ mesh: Mesh) throws -> Bool {
    do {
      try mesh.apply(from, to: to)
      return false
    } catch let error as CairnError where error.code == .schemaStopped { return true }
  }

  private static func write(_ node: Int, _ sql: String, _ mesh: Mesh) throws {
    try mesh.nodes[node].execute(sql)
    try mesh.nodes[node].capturePending()
  }

  private static func exchange(_ mesh: Mesh) throws {
    try mesh.apply(0, to: 1)
    try mesh.apply(1, to: 0)
  }

  private static let all = "SELECT id, name, stock, size, price FROM item ORDER BY id"

  @Test(
    "a column added at another node than the first follows where Cairn created the table", arguments: ["sss", "spp"])
  func secondNodeAddsColumn(engines: String) throws {
    let mesh = try Mesh(engines, schema: "CREATE TABLE other(id INTEGER PRIMARY KEY)")
    try mesh.nodes[0].execute("CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT)")
    try mesh.nodes[0].execute("INSERT INTO item VALUES (1, 'tea')")
    for _ in 0..<2 { try mesh.settle() }
    try Self.write(1, "ALTER TABLE item ADD COLUMN size INTEGER", mesh)
    try Self.write(1, "UPDATE item SET size = 3", mesh)
    #expect(try !Self.bring(1, to: 2, mesh))
    let rows = try mesh.nodes[2].rows("SELECT id, name, size FROM item")
    #expect(rows == ["1|tea|3"])
    try mesh.close()
  }

  @Test(
    "only the trail for which Cairn created a table takes the table or its columns away", arguments: ["sss", "spp"],
    ["DROP TABLE item", "ALTER TABLE item DROP COLUMN name", "ALTER TABLE item RENAME TO other_item"])
  func secondNodeTakesAway(engines: String, statement: String) throws {
    let mesh = try Mesh(engines, schema: "CREATE TABLE other(id INTEGER PRIMARY KEY)")
    try mesh.nodes[0].execute("CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT)")
    try mesh.nodes[0].execute("INSERT INTO item VALUES (1, 'tea')")
    for _ in 0..<2 { try mesh.settle() }
    if statement.contains("DROP COLUMN"), engines == "sss" {
      try mesh.nodes[1].execute("ALTER TABLE item RENAME COLUMN name TO title")
      try mesh.nodes[1].capturePending()
    } else {
      try Self.write(1, statement, mesh)
    }
    try Self.bring(1, to: 2, mesh)
    #expect(try mesh.nodes[2].rows("SELECT id, name FROM item") == ["1|tea"])
    try mesh.close()
  }

  @Test(
    "two nodes add a column each, and a third catches up with both", arguments: ["sps", "psp"], [false, true])
  func twoColumns(engines: String, isRestarted: Bool) throws {
    let mesh = try Self.mesh(engines)
    try Self.write(0, "ALTER TABLE item ADD COLUMN size INTEGER", mesh)
    try Self.write(1, "ALTER TABLE item ADD COLUMN price INTEGER", mesh)
    try Self.exchange(mesh)
    try Self.write(0, "UPDATE item SET name = 'a1', price = 1 WHERE id = 1", mesh)
    try Self.write(1, "UPDATE item SET name = 'b1', size = 1 WHERE id = 2", mesh)
    try Self.exchange(mesh)
    try Self.write(0, "UPDATE item SET name = 'a2', price = 2 WHERE id = 2", mesh)
    try Self.exchange(mesh)
    try Self.write(1, "UPDATE item SET name = 'b2', size = 2 WHERE id = 1", mesh)
    #expect(try Self.bring(1, to: 2, mesh))
    if isRestarted { mesh.renew(mesh.nodes[2]) }
    #expect(try !Self.bring(0, to: 2, mesh))
    if isRestarted { mesh.renew(mesh.nodes[2]) }
    #expect(try !Self.bring(1, to: 2, mesh))
    try mesh.settle()
    for node in mesh.nodes { #expect(try node.rows(Self.all) == ["1|b2|10|2|1", "2|a2|5|1|2"], "\(node.name)") }
    try mesh.close()
  }

  @Test func `a change of shape that apply makes is recorded by the capture of its target`() throws {
    let mesh = try Mesh("sp", schema: "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT)")
    try mesh.nodes[0].execute("INSERT INTO item VALUES (1, 'tea')")
    try mesh.settle()
    mesh.ddl = .follow
    try mesh.nodes[0].execute("ALTER TABLE item ADD COLUMN size INTEGER; UPDATE item SET size = 2")
    try mesh.nodes[0].capturePending()
    try mesh.apply(0, to: 1)
    try mesh.nodes[1].capturePending()
    let reader = try TrailReader.open(folder: mesh.nodes[1].folder, at: nil)
    var told: [[String]] = []
    while let record = try reader.next() {
      if case .ddl(let ddl) = record { told.append(reader.schema(ddl.after)?.columns.map(\.name) ?? []) }
    }
    #expect(told.last == ["id", "name", "size"])
    try #expect(mesh.nodes[1].rows("SELECT * FROM item") == ["1|tea|2"])
    try mesh.close()
  }

  // MARK: Random

  private static let books: [(name: String, rules: ConflictRules)] = [
    ("newest", ConflictRules()), ("columns", ConflictRules(tracking: .column)),
    ("delta", ConflictRules(tracking: .column, columns: [2: .delta])), ("oldest", ConflictRules(rule: .oldest)),
  ]

  @Test("random writes while nodes add columns converge", arguments: MeshConvergenceTests.fewSeeds)
  func random(seed: UInt64) throws { try converge(seed, .numbers) }

  @Test("random writes to rows whose keys look alike, while nodes add columns, converge", arguments: KeyPool.seeds)
  func randomTexts(seed: UInt64) throws { try converge(seed, KeyPool(.texts, seed: seed)) }

  private func converge(_ seed: UInt64, _ keys: KeyPool) throws {
    var random = Seeded(seed)
    let book = Self.books[Int(seed % UInt64(Self.books.count))]
    let mesh = try Self.mesh(["sss", "spp", "pss", "psp"][Int(seed / 4 % 4)], rules: book.rules, keys: keys)
    if seed % 2 == 1 { mesh.commitRows = 1 }
    var columns = ["size", "price"]
    for step in 0..<40 {
      let node = mesh.nodes.indices.randomElement(using: &random) ?? 0
      switch Int.random(in: 0..<12, using: &random) {
      case 0..<6: try Self.writeRandomly(step, mesh.nodes[node], keys, &random)
      case 6: mesh.renew(mesh.nodes[node])
      case 7:
        guard let column = columns.popLast() else { continue }
        // In SQLite, rows that are written before capture has seen the change come as a copy.
        try Self.write(node, "ALTER TABLE item ADD COLUMN \(column) INTEGER", mesh)
      default:
        let from = mesh.nodes.indices.filter { $0 != node }.randomElement(using: &random) ?? 0
        try Self.bring(from, to: node, mesh)
      }
    }
    for column in columns { try mesh.nodes[0].execute("ALTER TABLE item ADD COLUMN \(column) INTEGER") }
    for _ in 0..<3 {
      for node in mesh.nodes { try node.capturePending() }
      for from in 0..<3 { for to in 0..<3 where to != from { try Self.bring(from, to: to, mesh) } }
    }
    try mesh.settle()
    let rows = try mesh.nodes.map { try KeyPool.plain($0.rows(Self.all)) }
    #expect(rows[1] == rows[0], "seed \(seed), \(keys), rule \(book.name)")
    #expect(rows[2] == rows[0], "seed \(seed), \(keys), rule \(book.name)")
    try mesh.close()
  }

  private static func writeRandomly(
    _ step: Int, _ node: Mesh.Node, _ keys: KeyPool, _ random: inout Seeded
  ) throws {
    let id = keys[Int.random(in: 1...3, using: &random)]
    var values = [("name", "'\(node.name) \(step)'"), ("stock", "stock + \(step)")]
    for column in ["size", "price"] where try has(column, node) { values.append((column, "\(step)")) }
    let (column, value) = values.randomElement(using: &random) ?? values[0]
    switch Int.random(in: 0..<6, using: &random) {
    case 0:
      try node.execute(
        "INSERT INTO item(id, name, stock) VALUES (\(id), '\(node.name) \(step)', 0) ON CONFLICT (id) DO NOTHING")
    case 1: try node.execute("DELETE FROM item WHERE id = \(id)")
    default: try node.execute("UPDATE item SET \(column) = \(value) WHERE id = \(id)")
    }
  }

  private static func has(_ column: String, _ node: Mesh.Node) throws -> Bool {
    let columns =
      node.isPostgres
      ? "SELECT column_name FROM information_schema.columns WHERE table_schema = 'public' AND table_name = 'item'"
      : "SELECT name FROM pragma_table_info('item')"
    return try node.rows(columns).contains(column)
  }
}
