import TestServers
import Testing

/// A node keeps a deleted row because another row refers to it, and then that row refers to another one.
@Suite(
  .enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"), .timeLimit(.minutes(20)))
struct ChangedReferenceTests {
  private static let schema = """
    CREATE TABLE shelf(id INTEGER PRIMARY KEY, name TEXT);
    CREATE TABLE box(id INTEGER PRIMARY KEY, shelf INTEGER REFERENCES shelf(id), name TEXT);
    """

  @Test(
    "a row that was kept for a reference goes when the reference changes",
    arguments: Seeds.half(of: ["sss", "sps", "ssp"]),
    ["DELETE FROM box WHERE id = 3", "UPDATE box SET shelf = 1 WHERE id = 3"])
  func goes(engines: String, change: String) throws {
    let mesh = try Mesh(engines, schema: Self.schema)
    mesh.ddl = .follow
    for node in mesh.nodes where node.isPostgres {
      for table in ["shelf", "box"] { try node.execute("ALTER TABLE \(table) REPLICA IDENTITY FULL") }
    }
    let (a, b) = (mesh.nodes[0], mesh.nodes[1])
    try b.execute("INSERT INTO shelf VALUES (1, 'low'), (2, 'high'); INSERT INTO box VALUES (1, 1, 'red')")
    for _ in 0..<3 { try mesh.settle() }
    try b.execute("DELETE FROM shelf WHERE id = 2")
    try b.capturePending()
    // Capture copies a row that was written between two changes of its table which it sees at once.
    try a.stopCapture()
    try a.execute(
      """
      ALTER TABLE box ADD COLUMN a TEXT; INSERT INTO box(id, shelf, name) VALUES (3, 2, 'blue');
      ALTER TABLE box ADD COLUMN b TEXT
      """)
    try a.startCapture()
    try a.capturePending()
    // The third node has the copy before the delete, so it keeps the shelf.
    try mesh.apply(0, to: 2)
    try mesh.apply(1, to: 2)
    try #require(mesh.nodes[2].rows("SELECT id FROM shelf ORDER BY id") == ["1", "2"])
    try a.execute(change)
    for _ in 0..<3 { try mesh.settle() }
    for node in mesh.nodes {
      try #expect(node.rows("SELECT id FROM shelf") == ["1"], "\(node.name) \(engines) \(change)")
    }
    try mesh.close()
  }
}
