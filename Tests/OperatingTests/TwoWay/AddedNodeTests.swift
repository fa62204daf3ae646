import Changes
import Foundation
import TestServers
import Testing

/// A node that is added to nodes that have written for a while.
@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
struct AddedNodeTests {
  private static let schema = """
    CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT);
    CREATE TABLE part(id INTEGER PRIMARY KEY, item INTEGER REFERENCES item(id), name TEXT)
    """
  private static let queries = [
    "SELECT id, name FROM item ORDER BY id", "SELECT id, item, name FROM part ORDER BY id",
  ]

  private func prepare(_ node: Mesh.Node) throws {
    try node.execute(
      node.isPostgres
        ? "ALTER TABLE item REPLICA IDENTITY FULL; ALTER TABLE part REPLICA IDENTITY FULL" : "PRAGMA foreign_keys = ON")
  }

  private func mesh(_ engines: String) throws -> Mesh {
    let mesh = try Mesh(engines, schema: Self.schema)
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
      let found = try Self.queries.map(node.rows)
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
    "a node that comes later brings no deleted row back", arguments: ["sss", "spp", "pss", "pps"], Coming.allCases)
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
    "random writes converge with a node that comes later", arguments: MeshConvergenceTests.fewSeeds,
    [Coming.empty, .copied])
  func random(seed: UInt64, coming: Coming) throws {
    var random = Seeded(seed)
    let engines = ["sss", "sps", "pss", "pps", "ssp", "spp"][Int(seed % 6)]
    let mesh = try mesh(String(engines.prefix(2)))
    if seed % 2 == 1 { mesh.commitRows = 1 }
    func work(_ steps: Int, appliesMore: Bool) throws {
      for step in 0..<steps {
        let node = mesh.nodes.indices.randomElement(using: &random) ?? 0
        let (item, part) = (Int.random(in: 1...3, using: &random), Int.random(in: 1...4, using: &random))
        let text = "'n\(node) \(step)'"
        switch Int.random(in: 0..<(appliesMore ? 12 : 9), using: &random) {
        case 0, 1:
          try mesh.nodes[node].execute("INSERT INTO item VALUES (\(item), \(text)) ON CONFLICT (id) DO NOTHING")
        case 2:
          try mesh.nodes[node].execute("DELETE FROM part WHERE item = \(item); DELETE FROM item WHERE id = \(item)")
        case 3, 4:
          try mesh.nodes[node].execute(
            """
            INSERT INTO part SELECT \(part), id, \(text) FROM item WHERE id = \(item) ON CONFLICT (id) DO NOTHING
            """)
        case 5: try mesh.nodes[node].execute("DELETE FROM part WHERE id = \(part)")
        case 6: try mesh.nodes[node].execute("UPDATE item SET name = \(text) WHERE id = \(item)")
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
    let before = try Self.queries.map(mesh.nodes[0].rows)
    try mesh.add(engines.last ?? "s", rows: coming.rows, prepare: prepare)
    for _ in 0..<2 { try mesh.settle() }
    for node in mesh.nodes {
      let found = try Self.queries.map(node.rows)
      #expect(found == before, "seed \(seed), \(coming), \(node.name): the new node wrote nothing")
    }
    try work(25, appliesMore: true)
    for _ in 0..<2 { try mesh.settle() }
    let rows = try mesh.nodes.map { try Self.queries.map($0.rows) }
    #expect(rows[1] == rows[0], "seed \(seed), \(coming)")
    #expect(rows[2] == rows[0], "seed \(seed), \(coming)")
    try mesh.close()
  }

  @Test(
    "a node that comes while others write and have not heard all converges", arguments: MeshConvergenceTests.fewSeeds,
    [Coming.empty, .copied])
  func midway(seed: UInt64, coming: Coming) throws {
    var random = Seeded(seed)
    let engines = ["sss", "sps", "pss", "pps", "ssp", "spp"][Int(seed % 6)]
    let mesh = try mesh(String(engines.prefix(2)))
    if seed % 2 == 1 { mesh.commitRows = 1 }
    for step in 0..<50 {
      if step == 25 { try mesh.add(engines.last ?? "s", rows: coming.rows, prepare: prepare) }
      let node = mesh.nodes.indices.randomElement(using: &random) ?? 0
      let (item, part) = (Int.random(in: 1...3, using: &random), Int.random(in: 1...4, using: &random))
      let text = "'n\(node) \(step)'"
      switch Int.random(in: 0..<10, using: &random) {
      case 0, 1:
        try mesh.nodes[node].execute("INSERT INTO item VALUES (\(item), \(text)) ON CONFLICT (id) DO NOTHING")
      case 2:
        try mesh.nodes[node].execute("DELETE FROM part WHERE item = \(item); DELETE FROM item WHERE id = \(item)")
      case 3, 4:
        try mesh.nodes[node].execute(
          "INSERT INTO part SELECT \(part), id, \(text) FROM item WHERE id = \(item) ON CONFLICT (id) DO NOTHING")
      case 5: try mesh.nodes[node].execute("DELETE FROM part WHERE id = \(part)")
      case 6: try mesh.nodes[node].execute("UPDATE item SET name = \(text) WHERE id = \(item)")
      default:
        let from = mesh.nodes.indices.filter { $0 != node }.randomElement(using: &random) ?? 0
        try mesh.apply(from, to: node)
      }
    }
    for _ in 0..<2 { try mesh.settle() }
    let rows = try mesh.nodes.map { try Self.queries.map($0.rows) }
    #expect(rows[1] == rows[0], "seed \(seed), \(coming)")
    #expect(rows[2] == rows[0], "seed \(seed), \(coming)")
    for node in mesh.nodes {
      let orphans = try node.rows("SELECT id FROM part WHERE item NOT IN (SELECT id FROM item)")
      #expect(orphans == [], "seed \(seed), \(coming), \(node.name)")
    }
    try mesh.close()
  }
}
