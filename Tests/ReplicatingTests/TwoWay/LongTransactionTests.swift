import TestServers
import Testing

/// Long transactions of two nodes that concern the same rows, by their own columns and by references.
@Suite struct LongTransactionTests {
  private static let schema = """
    CREATE TABLE grand(id INTEGER PRIMARY KEY, v INTEGER);
    CREATE TABLE parent(id INTEGER PRIMARY KEY, code TEXT UNIQUE, v INTEGER, grand INTEGER REFERENCES grand(id));
    CREATE TABLE child(id INTEGER PRIMARY KEY, code TEXT REFERENCES parent(code), v INTEGER)
    """

  private func run(_ engines: String, _ first: String, _ second: String) throws {
    let mesh = try Mesh(engines, schema: Self.schema)
    for node in mesh.nodes where node.isPostgres {
      for table in ["grand", "parent", "child"] { try node.execute("ALTER TABLE \(table) REPLICA IDENTITY FULL") }
    }
    // More rows than a transaction has that is always read as a whole.
    let count = 300
    let numbers =
      mesh.nodes[0].isPostgres
      ? "generate_series(1, \(count)) AS n(i)"
      : "(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(count)) SELECT i FROM n) AS n"
    for table in ["grand SELECT i, 0", "parent SELECT i, 'c' || i, 0, i"] {
      try mesh.nodes[0].execute("INSERT INTO \(table) FROM \(numbers)")
    }
    for _ in 0..<2 { try mesh.settle() }
    try mesh.nodes[0].execute("BEGIN; \(first); COMMIT")
    try mesh.nodes[1].execute("BEGIN; \(second); COMMIT")
    for node in mesh.nodes { try node.capturePending() }
    for _ in 0..<3 { try mesh.settle() }
    for table in ["grand", "parent", "child"] {
      let rows = try mesh.nodes.map { try $0.rows("SELECT * FROM \(table) ORDER BY id") }
      #expect(rows[0] == rows[1], "\(table), \(engines)")
    }
    try mesh.close()
  }

  private static let pairs = PostgresServer.isAvailable ? ["ss", "sp", "ps", "pp"] : ["ss"]

  @Test(arguments: pairs) func `parents that both write, and to which one refers by a unique column`(
    _ engines: String
  ) throws {
    let children = (1...20).map { "INSERT INTO child VALUES (\($0), 'c\($0)', 0)" }.joined(separator: "; ")
    try run(engines, "UPDATE parent SET v = 1", "\(children); UPDATE parent SET v = 2")
  }

  @Test(arguments: pairs) func `rows that one deletes, and to which the other refers`(_ engines: String) throws {
    let children = (1...40).map { "INSERT INTO child VALUES (\($0), 'c\($0 * 2)', 0)" }.joined(separator: "; ")
    try run(engines, children, "DELETE FROM parent WHERE id <= 150; DELETE FROM grand WHERE id <= 150")
  }
}
