import Changes
import TestServers
import Testing

/// Rows that several nodes insert under one key before they know of each other, and then change and delete.
@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
struct SameKeyTests {
  private static let schema = "CREATE TABLE item(id integer PRIMARY KEY, name text, stock integer)"

  private static func mesh(_ engines: String) throws -> Mesh { try Mesh(engines, schema: schema) }

  /// Exchanges changes at random moments between the statements, which are given with the node that executes each.
  private func run(_ mesh: Mesh, _ steps: [(node: Int, sql: String)], _ random: inout Seeded) throws {
    for step in steps {
      try mesh.nodes[step.node].execute(step.sql)
      try mesh.nodes[step.node].capturePending()
      while Int.random(in: 0..<3, using: &random) == 0 {
        let from = mesh.nodes.indices.randomElement(using: &random) ?? 0
        let to = mesh.nodes.indices.filter { $0 != from }.randomElement(using: &random) ?? 0
        try mesh.apply(from, to: to)
      }
    }
    for _ in 0..<2 { try mesh.settle() }
  }

  @Test(
    "no superseded version of a key that two nodes inserted stays after the update and delete of the other one",
    arguments: Seeds.half(of: ["ss", "sp", "ps", "pp", "sss", "spp"]), Seeds.half(of: [1, 2, 3, 4, 5, 6] as [UInt64]))
  func superseded(engines: String, seed: UInt64) throws {
    var random = Seeded(seed)
    let mesh = try Self.mesh(engines)
    // The node that writes last updates and deletes its own row, or the one that it has by then.
    let last = mesh.nodes.indices.randomElement(using: &random) ?? 0
    let others = mesh.nodes.indices.filter { $0 != last }
    func insert(_ node: Int) -> (node: Int, sql: String) { (node, "INSERT INTO item VALUES (1, 'of \(node)', 0)") }
    for node in others {
      try mesh.nodes[node].execute(insert(node).sql)
      try mesh.nodes[node].capturePending()
    }
    var steps = [insert(last)]
    if Bool.random(using: &random) { steps.append((others[0], "UPDATE item SET stock = stock + 1")) }
    steps += [(last, "UPDATE item SET name = 'last', stock = 5"), (last, "DELETE FROM item")]
    try run(mesh, steps, &random)
    #expect(try mesh.nodes.map { try $0.rows("SELECT * FROM item") } == mesh.nodes.map { _ in [] }, "seed \(seed)")
    // The key is free again, at each node.
    try run(mesh, [(others[0], "INSERT INTO item VALUES (1, 'again', 6)")], &random)
    let rows = try mesh.nodes.map { try $0.rows("SELECT * FROM item") }
    #expect(rows == mesh.nodes.map { _ in ["1|again|6"] }, "seed \(seed)")
    try mesh.close()
  }

  @Test(
    "the row of the later insert has the later values, whatever the other node did to its own before",
    arguments: Seeds.half(of: ["ss", "sp", "pp", "sps"]), Seeds.half(of: [1, 2, 3, 4] as [UInt64]))
  func later(engines: String, seed: UInt64) throws {
    var random = Seeded(seed)
    let mesh = try Self.mesh(engines)
    for (node, sql) in [
      (0, "INSERT INTO item VALUES (1, 'a', 1)"), (0, "UPDATE item SET name = 'a2'"), (0, "UPDATE item SET stock = 2"),
      (0, "DELETE FROM item"), (0, "INSERT INTO item VALUES (1, 'a3', 3)"),
    ] {
      try mesh.nodes[node].execute(sql)
      try mesh.nodes[node].capturePending()
    }
    try mesh.nodes[1].execute("INSERT INTO item VALUES (1, 'b', 4)")
    try mesh.nodes[1].capturePending()
    try run(mesh, [(1, "UPDATE item SET stock = 5, name = 'b2'")], &random)
    let rows = try mesh.nodes.map { try $0.rows("SELECT * FROM item") }
    #expect(rows == mesh.nodes.map { _ in ["1|b2|5"] }, "seed \(seed)")
    try mesh.close()
  }
}
