import Applying
import Changes
import TestServers
import Testing

/// Rows that one end inserts under the former shape of a table, while the other end's copy brings the new one.
@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
struct MergedCopyTests {
  /// A schema change after which capture copies the table, and what it is for each engine.
  enum Change: String, CaseIterable, Sendable {
    case added, filled, required, retyped, renamed, dropped

    func sql(isPostgres: Bool) -> String {
      // A new unique key makes capture copy the whole table.
      let copied = "; CREATE UNIQUE INDEX item_name ON item(id, name)"
      let rebuilt = { (columns: String, selected: String) in
        "BEGIN; CREATE TABLE made(\(columns)); INSERT INTO made SELECT \(selected) FROM item; DROP TABLE item; "
          + "ALTER TABLE made RENAME TO item; COMMIT"
      }
      switch self {
      case .added: return "ALTER TABLE item ADD COLUMN note TEXT" + copied
      case .filled: return "ALTER TABLE item ADD COLUMN note TEXT DEFAULT 'a'" + copied
      case .required: return "ALTER TABLE item ADD COLUMN note TEXT NOT NULL DEFAULT 'a'" + copied
      case .retyped:
        return isPostgres
          ? "ALTER TABLE item ALTER COLUMN size TYPE text USING 's' || size"
          : rebuilt("id INTEGER PRIMARY KEY, name TEXT, size TEXT", "id, name, 's' || size")
      case .renamed: return "ALTER TABLE item RENAME COLUMN size TO width" + copied
      case .dropped:
        return isPostgres
          ? "ALTER TABLE item DROP COLUMN size" + copied : rebuilt("id INTEGER PRIMARY KEY, name TEXT", "id, name")
      }
    }
  }

  @Test(
    "rows that one end inserts while a copy brings another shape are the same at both",
    arguments: Seeds.half(of: ["ss", "sp", "ps", "pp"]), Change.allCases)
  func inserted(engines: String, change: Change) throws {
    let mesh = try Mesh(engines, schema: "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, size INTEGER)")
    mesh.ddl = .follow
    mesh.existing = .merge
    let (a, b) = (mesh.nodes[0], mesh.nodes[1])
    for node in mesh.nodes where node.isPostgres { try node.execute("ALTER TABLE item REPLICA IDENTITY FULL") }
    try a.execute("INSERT INTO item VALUES (1, 'tea', 1), (2, 'milk', 2), (3, 'oil', 3)")
    for _ in 0..<2 { try mesh.settle() }
    try b.execute("INSERT INTO item VALUES (4, 'captured', 4)")
    try b.capturePending()
    try a.execute(change.sql(isPostgres: a.isPostgres))
    try a.execute("INSERT INTO item(id, name) VALUES (6, 'new')")
    try a.capturePending()
    try b.execute("INSERT INTO item VALUES (5, 'open', 5); UPDATE item SET name = 'butter' WHERE id = 2")
    try b.execute("DELETE FROM item WHERE id = 3")
    for _ in 0..<3 { try AddedColumnTests.settleByHints(mesh, rounds: 1) }
    let rows = try mesh.nodes.map { node in try node.rows("SELECT * FROM item ORDER BY id") }
    #expect(rows[0] == rows[1], "\(change)")
    #expect(rows[0].count == 5)
    try mesh.close()
  }

  @Test("a default that each end computes by itself is reported", arguments: ["pp", "ps"])
  func computed(engines: String) throws {
    let mesh = try Mesh(engines, schema: "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT)")
    mesh.ddl = .follow
    try mesh.nodes[0].execute("ALTER TABLE item REPLICA IDENTITY FULL; INSERT INTO item VALUES (1, 'tea')")
    for _ in 0..<2 { try mesh.settle() }
    try mesh.nodes[1].execute("INSERT INTO item VALUES (4, 'on its way')")
    try mesh.nodes[0].execute("ALTER TABLE item ADD COLUMN plain text DEFAULT 'a'")
    try mesh.settle()
    #expect(!mesh.notices.contains { $0.contains("by itself") })
    try mesh.nodes[0].execute("ALTER TABLE item ADD COLUMN note text DEFAULT md5(random()::text)")
    for _ in 0..<2 { try mesh.settle() }
    let notices = mesh.notices.filter { $0.contains("by itself") }
    #expect(notices.count == 1 && notices.first?.contains("cairn compare") == true, "\(mesh.notices)")
    try mesh.close()
  }
}
