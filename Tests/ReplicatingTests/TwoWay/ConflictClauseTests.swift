import Conflicts
import TestServers
import Testing

/// Constraints of SQLite tables with an ON CONFLICT clause: it decides about what applications write, never about what apply
/// writes.
@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
struct ConflictClauseTests {
  private static let clauses = ["REPLACE", "IGNORE", "ABORT", "FAIL", "ROLLBACK"]

  @Test("rows of two nodes with one unique value converge", arguments: clauses)
  func unique(clause: String) throws {
    let mesh = try Mesh(
      "ss", schema: "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT UNIQUE ON CONFLICT \(clause))")
    try mesh.nodes[0].execute("INSERT INTO item VALUES (1, 'tea')")
    try mesh.settle()
    try mesh.nodes[0].execute("INSERT INTO item VALUES (12, 'milk'); UPDATE item SET name = 'green tea' WHERE id = 1")
    try mesh.nodes[1].execute("INSERT INTO item VALUES (11, 'milk'), (13, 'green tea')")
    for _ in 0..<3 { try mesh.settle() }
    let rows = try mesh.nodes.map { try $0.rows("SELECT id, name FROM item ORDER BY id") }
    #expect(rows[0] == rows[1] && rows[0].count == 2, "\(rows)")
    try mesh.close()
  }

  @Test("random writes converge", arguments: clauses, KeyPool.runs(MeshConvergenceTests.fewSeeds))
  func random(clause: String, run: KeyPool.Run) throws {
    let (seed, keys) = (run.seed, run.keys)
    var random = Seeded(seed)
    let mesh = try Mesh(
      "sss",
      schema: keys.table("item", "name TEXT UNIQUE ON CONFLICT \(clause), stock INTEGER", onConflict: clause))
    for step in 0..<40 {
      let node = mesh.nodes.indices.randomElement(using: &random) ?? 0
      let (id, name) = (Int.random(in: 1...5, using: &random), Int.random(in: 1...4, using: &random))
      switch Int.random(in: 0..<8, using: &random) {
      case 0..<3: try mesh.nodes[node].execute("INSERT OR IGNORE INTO item VALUES (\(keys[id]), 'n\(name)', \(step))")
      case 3: try mesh.nodes[node].execute("UPDATE OR IGNORE item SET name = 'n\(name)' WHERE \(keys.has(id))")
      case 4: try mesh.nodes[node].execute("DELETE FROM item WHERE \(keys.has(id))")
      default:
        let from = mesh.nodes.indices.filter { $0 != node }.randomElement(using: &random) ?? 0
        try mesh.nodes[from].capturePending()
        try mesh.apply(from, to: node)
      }
    }
    for _ in 0..<3 { try mesh.settle() }
    let rows = try mesh.nodes.map { try KeyPool.plain($0.rows("SELECT * FROM item")) }
    #expect(rows[1] == rows[0] && rows[2] == rows[0], "seed \(seed), \(keys), \(clause): \(rows)")
    try mesh.close()
  }
}
