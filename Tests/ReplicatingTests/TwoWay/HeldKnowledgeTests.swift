import Changes
import Conflicts
import TestServers
import Testing

/// While a table is suspended or a transaction is in quarantine, a node states less than it knows: that it lacks the
/// changes from there on. All nodes must still come to the same rows, in the other tables too.
@Suite(
  .enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"), .timeLimit(.minutes(20)))
struct HeldKnowledgeTests {
  private static let schema = """
    CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT);
    CREATE TABLE shelf(id INTEGER PRIMARY KEY, name TEXT);
    CREATE TABLE box(id INTEGER PRIMARY KEY, shelf INTEGER REFERENCES shelf(id), name TEXT);
    """

  private static func mesh(
    _ engines: String, rules: @escaping @Sendable () -> ConflictRules = { ConflictRules() }
  ) throws -> Mesh {
    let mesh = try Mesh(engines, schema: schema) { _, _, _ in rules() }
    for node in mesh.nodes where node.isPostgres {
      for table in ["item", "shelf", "box"] { try node.execute("ALTER TABLE \(table) REPLICA IDENTITY FULL") }
    }
    try mesh.nodes[1].execute(
      "INSERT INTO item VALUES (1, 'tea'); INSERT INTO shelf VALUES (1, 'low'), (2, 'mid'); INSERT INTO box VALUES (1, 1, 'red')")
    for _ in 0..<2 { try mesh.settle() }
    return mesh
  }

  /// Applies a trail. A table that is suspended meanwhile is no error.
  private static func apply(_ mesh: Mesh, _ from: Int, to: Int) throws {
    do { try mesh.apply(from, to: to) } catch let error as CairnError where error.code == .schemaStopped {}
  }

  /// Has node 0 suspend table `item`, at a transaction of node 1.
  private static func suspend(_ mesh: Mesh, before: String = "") throws {
    for from in mesh.nodes.indices.dropFirst() { mesh.nodes[0].policies[mesh.nodes[from].name] = .stop }
    try mesh.nodes[1].execute("BEGIN; \(before) ALTER TABLE item ADD COLUMN note TEXT; COMMIT")
    try mesh.nodes[1].capturePending()
    try apply(mesh, 1, to: 0)
    try #require(mesh.nodes[0].rows("SELECT * FROM item LIMIT 1")[0].split(separator: "|").count == 2)
  }

  /// Makes the change that node 0 waits for, and brings everything everywhere.
  private static func resume(_ mesh: Mesh) throws {
    try mesh.nodes[0].execute("ALTER TABLE item ADD COLUMN note TEXT")
    for _ in 0..<4 {
      for node in mesh.nodes { try node.capturePending() }
      for from in mesh.nodes.indices { for to in mesh.nodes.indices where to != from { try apply(mesh, from, to: to) } }
    }
  }

  private static func expectEqual(_ mesh: Mesh, of tables: [String] = ["shelf", "box", "item"], _ note: String) throws {
    for table in tables {
      let all = try mesh.nodes.map { try $0.rows("SELECT * FROM \(table) ORDER BY id") }
      for (node, rows) in zip(mesh.nodes, all).dropFirst() { #expect(rows == all[0], "\(table) at \(node.name) \(note)") }
    }
  }

  struct Case: Sendable, CustomTestStringConvertible {
    let testDescription: String
    /// At node 1, and later, after node 0 has it, at node 0.
    let first: String
    let then: String
    var rules: @Sendable () -> ConflictRules = { ConflictRules() }
  }

  static let cases = [
    Case(
      testDescription: "a row is deleted that was deleted and inserted again",
      first: "DELETE FROM shelf WHERE id = 2; INSERT INTO shelf VALUES (2, 'new')",
      then: "DELETE FROM shelf WHERE id = 2"),
    Case(
      testDescription: "a row is deleted with the row that refers to it",
      first: "INSERT INTO box VALUES (2, 2, 'blue')",
      then: "DELETE FROM box WHERE id = 2; DELETE FROM shelf WHERE id = 2"),
    Case(
      testDescription: "a row gets another key", first: "INSERT INTO shelf VALUES (8, 'new')",
      then: "UPDATE shelf SET name = 'eight' WHERE id = 8; UPDATE shelf SET id = 7 WHERE id = 8"),
    Case(
      testDescription: "the other node has priority", first: "UPDATE shelf SET name = 'ours' WHERE id = 2",
      then: "UPDATE shelf SET name = 'theirs' WHERE id = 2",
      rules: { ConflictRules(rule: .priority(["n1", "n0"])) }),
    Case(
      testDescription: "the oldest wins", first: "UPDATE shelf SET name = 'ours' WHERE id = 2",
      then: "UPDATE shelf SET name = 'theirs' WHERE id = 2", rules: { ConflictRules(rule: .oldest) }),
  ]

  @Test(
    "what an application writes to other tables while a table is suspended comes to one state",
    arguments: ["ss", "sp", "ps", "pp"], cases)
  func otherTables(engines: String, one: Case) throws {
    let mesh = try Self.mesh(engines, rules: one.rules)
    try Self.suspend(mesh)
    try mesh.nodes[1].execute(one.first)
    try mesh.nodes[1].capturePending()
    try Self.apply(mesh, 1, to: 0)
    try mesh.nodes[0].execute(one.then)
    try mesh.nodes[0].capturePending()
    for _ in 0..<2 {
      try Self.apply(mesh, 0, to: 1)
      try mesh.nodes[1].capturePending()
      try Self.apply(mesh, 1, to: 0)
    }
    try Self.expectEqual(mesh, of: ["shelf", "box"], "while item waits")
    try Self.resume(mesh)
    try Self.expectEqual(mesh, "afterwards")
    try mesh.close()
  }

  @Test(
    "a row that was written in the transaction of the suspension comes to one state",
    arguments: ["ss", "sp", "ps", "pp"])
  func sameTransaction(engines: String) throws {
    let mesh = try Self.mesh(engines)
    try Self.suspend(
      mesh, before: "DELETE FROM item WHERE id = 1; INSERT INTO item VALUES (1, 'new'), (8, 'eight');")
    try #require(mesh.nodes[0].rows("SELECT id, name FROM item") == ["1|new", "8|eight"])
    try mesh.nodes[0].execute(
      "DELETE FROM item WHERE id = 1; UPDATE item SET name = 'seven' WHERE id = 8; UPDATE item SET id = 7 WHERE id = 8")
    try mesh.nodes[0].capturePending()
    try Self.apply(mesh, 0, to: 1)
    try Self.resume(mesh)
    try Self.expectEqual(mesh, "afterwards")
    try mesh.close()
  }
}
