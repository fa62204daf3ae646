import Applying
import Changes
import Conflicts
import TestServers
import Testing

/// While a table is suspended or a transaction is in quarantine, a node states less than it knows. All nodes must still
/// come to the same rows, in the other tables too.
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
      "INSERT INTO item VALUES (1, 'tea'); INSERT INTO shelf VALUES (1, 'low'), (2, 'mid'); INSERT INTO box VALUES (1, 1, 'red')"
    )
    for _ in 0..<2 { try mesh.settle() }
    return mesh
  }

  /// Applies a trail. A table that is suspended meanwhile is no error.
  private static func apply(_ mesh: Mesh, _ from: Int, to: Int) throws {
    do { try mesh.apply(from, to: to) } catch let error as CairnError where error.code == .schemaStopped {
      Mesh.trace("\(mesh.nodes[from].name) -> \(mesh.nodes[to].name): \(error.message)")
    }
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
      for (node, rows) in zip(mesh.nodes, all).dropFirst() {
        #expect(rows == all[0], "\(table) at \(node.name) \(note)")
      }
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
    arguments: Seeds.half(of: ["ss", "sp", "ps", "pp"]), cases)
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
    arguments: Seeds.half(of: ["ss", "sp", "ps", "pp"]))
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

  @Test("a deleted row does not stay where its last reference goes later", arguments: ["sss", "psp"])
  func lastReference(engines: String) throws {
    let mesh = try Self.mesh(engines)
    for _ in 0..<2 { try mesh.settle() }
    try Self.suspend(mesh)
    try mesh.nodes[1].execute("DELETE FROM box WHERE id = 1")
    try mesh.nodes[1].capturePending()
    try Self.apply(mesh, 1, to: 0)
    // Node 0 has the delete and does not state it, so node 2 takes it for one that it did not know.
    try mesh.nodes[0].execute("DELETE FROM shelf WHERE id = 1")
    try mesh.nodes[0].capturePending()
    try Self.apply(mesh, 0, to: 2)
    // A capture of PostgreSQL may have appended more, so that node 2 sees that it lacks something.
    if engines == "sss" { try #require(mesh.nodes[2].rows("SELECT id FROM shelf ORDER BY id") == ["1", "2"]) }
    try Self.apply(mesh, 1, to: 2)
    try #expect(mesh.nodes[2].rows("SELECT id FROM shelf") == ["2"])
    try mesh.nodes[2].execute("ALTER TABLE item ADD COLUMN note TEXT")
    try Self.resume(mesh)
    try Self.expectEqual(mesh, "afterwards")
    try mesh.close()
  }

  @Test(
    "what an application writes while a transaction is in quarantine comes to one state",
    arguments: ["sp", "pp"], cases)
  func quarantine(engines: String, one: Case) throws {
    let mesh = try Self.mesh(engines, rules: one.rules)
    mesh.quarantines = true
    let (a, b) = (mesh.nodes[0], mesh.nodes[1])
    try b.execute("ALTER TABLE item ADD CONSTRAINT fine CHECK (name <> 'bad')")
    try a.execute("UPDATE item SET name = 'bad' WHERE id = 1")
    try mesh.settle()
    try a.execute(one.first)
    try a.capturePending()
    try mesh.apply(0, to: 1)
    let log = try QuarantineLog(#require(b.server))
    try #require(!log.list().isEmpty)
    try b.execute(one.then)
    for _ in 0..<2 { try mesh.settle() }
    try Self.expectEqual(mesh, of: ["shelf", "box"], "while a transaction is in quarantine")
    try b.execute("ALTER TABLE item DROP CONSTRAINT fine")
    for held in try log.list() where held.heldBy == nil { try #expect(log.ask(held.id, for: .retry)) }
    for _ in 0..<3 { try mesh.settle() }
    try #expect(log.list().isEmpty)
    try Self.expectEqual(mesh, "afterwards")
    try mesh.close()
  }

  // MARK: Random

  private static func write(_ step: Int, _ node: String, _ random: inout Seeded) -> String {
    let id = Int.random(in: 1...4, using: &random)
    let other = Int.random(in: 1...4, using: &random)
    let table = ["item", "shelf"].randomElement(using: &random) ?? "item"
    switch Int.random(in: 0..<10, using: &random) {
    case 0, 1: return "INSERT INTO \(table)(id, name) VALUES (\(id), '\(node) \(step)') ON CONFLICT (id) DO NOTHING"
    case 2: return "DELETE FROM item WHERE id = \(id)"
    case 3: return "DELETE FROM box WHERE shelf = \(id); DELETE FROM shelf WHERE id = \(id)"
    case 4:
      return """
        BEGIN; DELETE FROM item WHERE id = \(id); INSERT INTO item(id, name) VALUES (\(id), '\(node) new \(step)'); COMMIT
        """
    case 5:
      return """
        UPDATE item SET id = \(other), name = '\(node) moved \(step)'
        WHERE id = \(id) AND NOT EXISTS (SELECT 1 FROM item AS other WHERE other.id = \(other))
        """
    case 6, 7:
      return """
        INSERT INTO box SELECT \(other), id, '\(node) \(step)' FROM shelf WHERE id = \(id)
        ON CONFLICT (id) DO UPDATE SET shelf = excluded.shelf, name = excluded.name
        """
    case 8: return "DELETE FROM box WHERE id = \(id)"
    default: return "UPDATE \(table) SET name = '\(node) \(step)' WHERE id = \(id)"
    }
  }

  @Test(
    "random writes at three nodes come to one state, although tables are suspended again and again",
    arguments: Seeds.drawn(reduced: 4))
  func randomly(seed: UInt64) throws {
    var random = Seeded(seed)
    let book = MeshConvergenceTests.books[Int(seed % 4)]
    let mesh = try Self.mesh(["sss", "ssp", "spp", "psp"][Int(seed / 4 % 4)], rules: { book.rules })
    for _ in 0..<2 { try mesh.settle() }
    var columns = [0, 0, 0]
    /// Adds columns until node `to` has as many as node `from`: then it goes on.
    func follow(_ from: Int, _ to: Int) throws {
      while columns[to] < columns[from] {
        columns[to] += 1
        try mesh.nodes[to].execute("ALTER TABLE item ADD COLUMN note\(columns[to]) TEXT")
      }
    }
    for node in mesh.nodes { for other in mesh.nodes { node.policies[other.name] = .stop } }
    for step in 0..<50 {
      let index = Int.random(in: 0..<3, using: &random)
      switch Int.random(in: 0..<12, using: &random) {
      case 0 where columns[index] < 4 && columns[index] == columns.max():
        let written = Self.write(step, mesh.nodes[index].name, &random)
          .replacing("BEGIN; ", with: "").replacing("; COMMIT", with: "")
        try mesh.nodes[index].execute(
          "BEGIN; \(written); ALTER TABLE item ADD COLUMN note\(columns[index] + 1) TEXT; COMMIT")
        columns[index] += 1
      case 1:
        let from = Int.random(in: 0..<3, using: &random)
        try follow(from, index)
      case 2: mesh.renew(mesh.nodes[index])
      case 3..<8: try mesh.nodes[index].execute(Self.write(step, mesh.nodes[index].name, &random))
      default:
        let from = (index + Int.random(in: 1...2, using: &random)) % 3
        try mesh.nodes[from].capturePending()
        try Self.apply(mesh, from, to: index)
      }
    }
    let most = columns.firstIndex(of: columns.max() ?? 0) ?? 0
    for index in 0..<3 { try follow(most, index) }
    for _ in 0..<6 {
      for node in mesh.nodes { try node.capturePending() }
      for from in 0..<3 { for to in 0..<3 where to != from { try Self.apply(mesh, from, to: to) } }
    }
    try Self.expectEqual(mesh, "seed \(seed), \(book.name)")
    try mesh.close()
  }
}
