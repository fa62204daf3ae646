import Changes
import Foundation
import TestServers
import Testing

/// A node that is added to nodes that have written for a while.
@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
struct AddedNodeTests {
  /// The rows of all tables.
  private static func rows(_ node: Mesh.Node) throws -> [[String]] {
    try ["SELECT * FROM item", "SELECT * FROM part"].map { try KeyPool.plain(node.rows($0)) }
  }

  private func prepare(_ node: Mesh.Node) throws {
    try node.execute(
      node.isPostgres
        ? "ALTER TABLE item REPLICA IDENTITY FULL; ALTER TABLE part REPLICA IDENTITY FULL" : "PRAGMA foreign_keys = ON")
  }

  private func mesh(_ engines: String, _ keys: KeyPool = .numbers) throws -> Mesh {
    let schema = [keys.table("item", "name TEXT"), keys.table("part", "name TEXT", parents: ["item"])]
    let mesh = try Mesh(engines, schema: schema.joined(separator: ";"))
    for node in mesh.nodes { try prepare(node) }
    return mesh
  }

  private func write(_ mesh: Mesh, _ node: Int, _ sql: String...) throws {
    for sql in sql { try mesh.nodes[node].execute(sql) }
    try mesh.nodes[node].capturePending()
  }

  private func expect(_ mesh: Mesh, _ rows: [[String]], _ note: String = "") throws {
    for _ in 0..<2 { try mesh.settle() }
    for node in mesh.nodes {
      let found = try Self.rows(node)
      #expect(found == rows, "\(node.name) \(note)")
    }
  }

  /// How the node comes: its rows, or nil without a copy of what it holds.
  enum Coming: String, CaseIterable, CustomTestStringConvertible {
    case empty, copied, holding, held
    var testDescription: String { rawValue }
    var rows: String? {
      switch self {
      case .empty: nil
      case .copied: ""
      case .holding, .held:
        "INSERT INTO item VALUES (1, 'tea'), (2, 'milk'); INSERT INTO part VALUES (1, 1, 'a'), (2, 2, 'b')"
      }
    }
  }

  @Test(
    "a node that comes later brings no deleted row back", arguments: Seeds.half(of: ["sss", "spp", "pss", "pps"]),
    Coming.allCases)
  func deletedRows(engines: String, coming: Coming) throws {
    let mesh = try mesh(String(engines.prefix(2)))
    try write(
      mesh, 0, "INSERT INTO item VALUES (1, 'tea'), (2, 'milk'), (3, 'rice')", "INSERT INTO part VALUES (1, 1, 'a')")
    try mesh.settle()
    try write(mesh, 1, "INSERT INTO part VALUES (2, 2, 'b')", "UPDATE part SET name = 'c' WHERE id = 1")
    for _ in 0..<2 { try mesh.settle() }
    try write(mesh, 0, "DELETE FROM part WHERE id = 1", "DELETE FROM item WHERE id = 1")
    try mesh.settle()
    try write(mesh, 1, "BEGIN; DELETE FROM part; DELETE FROM item WHERE id = 2; COMMIT")
    for _ in 0..<2 { try mesh.settle() }
    let last = engines.last ?? "s"
    if coming == .held {
      // It keeps what it holds to itself.
      let node = try mesh.add(last) {
        try prepare($0)
        try $0.execute(coming.rows ?? "")
      }
      node.copiesRows = false
    } else {
      try mesh.add(last, rows: coming.rows, prepare: prepare)
    }
    try expect(mesh, [["3|rice"], []], "\(coming)")
    try mesh.close()
  }

  @Test(
    "random writes converge with a node that comes later",
    arguments: KeyPool.runs(MeshConvergenceTests.fewSeeds), [Coming.empty, .copied])
  func random(run: KeyPool.Run, coming: Coming) throws {
    let (seed, keys) = (run.seed, run.keys)
    var random = Seeded(seed)
    let engines = ["sss", "sps", "pss", "pps", "ssp", "spp"][Int(seed % 6)]
    let mesh = try mesh(String(engines.prefix(2)), keys)
    let absent = "ON CONFLICT (\(keys.names)) DO NOTHING"
    if seed % 2 == 1 { mesh.commitRows = 1 }
    func work(_ steps: Int, appliesMore: Bool) throws {
      for step in 0..<steps {
        let node = mesh.nodes.indices.randomElement(using: &random) ?? 0
        let (item, part) = (Int.random(in: 1...3, using: &random), Int.random(in: 1...4, using: &random))
        let text = "'n\(node) \(step)'"
        let ofItem = keys.has(item, keys.columns(to: "item"))
        switch Int.random(in: 0..<(appliesMore ? 12 : 9), using: &random) {
        case 0, 1:
          try mesh.nodes[node].execute("INSERT INTO item VALUES (\(keys[item]), \(text)) \(absent)")
        case 2:
          try mesh.nodes[node].execute("DELETE FROM part WHERE \(ofItem); DELETE FROM item WHERE \(keys.has(item))")
        case 3, 4:
          try mesh.nodes[node].execute(
            "INSERT INTO part SELECT \(keys[part]), \(keys.names), \(text) FROM item WHERE \(keys.has(item)) \(absent)")
        case 5: try mesh.nodes[node].execute("DELETE FROM part WHERE \(keys.has(part))")
        case 6: try mesh.nodes[node].execute("UPDATE item SET name = \(text) WHERE \(keys.has(item))")
        default:
          let from = mesh.nodes.indices.filter { $0 != node }.randomElement(using: &random) ?? 0
          try mesh.nodes[from].capturePending()
          try mesh.apply(from, to: node)
        }
      }
    }
    try work(25, appliesMore: false)
    // A row that was deleted here must not come back by the node that comes.
    for _ in 0..<2 { try mesh.settle() }
    let before = try Self.rows(mesh.nodes[0])
    try mesh.add(engines.last ?? "s", rows: coming.rows, prepare: prepare)
    for _ in 0..<2 { try mesh.settle() }
    for node in mesh.nodes {
      let found = try Self.rows(node)
      #expect(found == before, "seed \(seed), \(keys), \(coming), \(node.name): the new node wrote nothing")
    }
    try work(25, appliesMore: true)
    for _ in 0..<2 { try mesh.settle() }
    let rows = try mesh.nodes.map(Self.rows)
    #expect(rows[1] == rows[0], "seed \(seed), \(keys), \(coming)")
    #expect(rows[2] == rows[0], "seed \(seed), \(keys), \(coming)")
    try mesh.close()
  }

  @Test(
    "a node that comes while others write and have not heard all converges",
    arguments: KeyPool.runs(MeshConvergenceTests.fewSeeds), [Coming.empty, .copied])
  func midway(run: KeyPool.Run, coming: Coming) throws {
    let (seed, keys) = (run.seed, run.keys)
    var random = Seeded(seed)
    let engines = ["sss", "sps", "pss", "pps", "ssp", "spp"][Int(seed % 6)]
    let mesh = try mesh(String(engines.prefix(2)), keys)
    let absent = "ON CONFLICT (\(keys.names)) DO NOTHING"
    if seed % 2 == 1 { mesh.commitRows = 1 }
    for step in 0..<50 {
      if step == 25 { try mesh.add(engines.last ?? "s", rows: coming.rows, prepare: prepare) }
      let node = mesh.nodes.indices.randomElement(using: &random) ?? 0
      let (item, part) = (Int.random(in: 1...3, using: &random), Int.random(in: 1...4, using: &random))
      let text = "'n\(node) \(step)'"
      let ofItem = keys.has(item, keys.columns(to: "item"))
      switch Int.random(in: 0..<10, using: &random) {
      case 0, 1:
        try mesh.nodes[node].execute("INSERT INTO item VALUES (\(keys[item]), \(text)) \(absent)")
      case 2:
        try mesh.nodes[node].execute("DELETE FROM part WHERE \(ofItem); DELETE FROM item WHERE \(keys.has(item))")
      case 3, 4:
        try mesh.nodes[node].execute(
          "INSERT INTO part SELECT \(keys[part]), \(keys.names), \(text) FROM item WHERE \(keys.has(item)) \(absent)")
      case 5: try mesh.nodes[node].execute("DELETE FROM part WHERE \(keys.has(part))")
      case 6: try mesh.nodes[node].execute("UPDATE item SET name = \(text) WHERE \(keys.has(item))")
      default:
        let from = mesh.nodes.indices.filter { $0 != node }.randomElement(using: &random) ?? 0
        try mesh.apply(from, to: node)
      }
    }
    for _ in 0..<2 { try mesh.settle() }
    let rows = try mesh.nodes.map(Self.rows)
    #expect(rows[1] == rows[0], "seed \(seed), \(keys), \(coming)")
    #expect(rows[2] == rows[0], "seed \(seed), \(keys), \(coming)")
    for node in mesh.nodes {
      let item = KeyPool.tuple(keys.columns(to: "item"))
      let orphans = try node.rows(
        "SELECT \(keys.names) FROM part WHERE \(item) NOT IN (SELECT \(keys.names) FROM item)")
      #expect(orphans == [], "seed \(seed), \(keys), \(coming), \(node.name)")
    }
    try mesh.close()
  }
}
