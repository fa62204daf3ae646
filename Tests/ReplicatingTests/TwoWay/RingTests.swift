import TestServers
import Testing

/// Rows that refer to each other in a ring, or to themselves.
@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
struct RingTests {
  private static let item = """
    CREATE TABLE item(id INTEGER PRIMARY KEY, up INTEGER REFERENCES item(id) ON DELETE CASCADE ON UPDATE CASCADE, name TEXT)
    """

  private func mesh(_ engines: String, schema: String = Self.item, tables: [String] = ["item"]) throws -> Mesh {
    let mesh = try Mesh(engines, schema: schema)
    for node in mesh.nodes {
      if !node.isPostgres { try node.execute("PRAGMA foreign_keys = ON") }
      for table in tables where node.isPostgres { try node.execute("ALTER TABLE \(table) REPLICA IDENTITY FULL") }
    }
    return mesh
  }

  private func write(_ mesh: Mesh, _ node: Int, _ sql: String...) throws {
    for sql in sql { try mesh.nodes[node].execute(sql) }
    try mesh.nodes[node].capturePending()
  }

  private func expect(_ mesh: Mesh, _ rows: [String], _ sql: String = "SELECT id, up FROM item ORDER BY id") throws {
    for _ in 0..<2 { try mesh.settle() }
    for node in mesh.nodes {
      let found = try node.rows(sql)
      #expect(found == rows, "\(node.name)")
    }
  }

  @Test(
    "a ring that one node deletes is gone at the other one, also where rows refer to themselves",
    arguments: ["sp", "ps"])
  func deletedRing(engines: String) throws {
    let mesh = try mesh(engines)
    try write(
      mesh, 0, "INSERT INTO item VALUES (1, NULL, 'a')", "INSERT INTO item VALUES (2, 1, 'b')",
      "INSERT INTO item VALUES (3, 3, 'c')", "UPDATE item SET up = 2 WHERE id = 1")
    try expect(mesh, ["1|2", "2|1", "3|3"])
    try write(mesh, 0, "DELETE FROM item WHERE id = 2", "DELETE FROM item WHERE id = 3")
    try #expect(mesh.apply(0, to: 1) == 0, "no conflict")
    try expect(mesh, [])
    try mesh.close()
  }

  @Test("a row that refers to itself takes the key of one that was deleted", arguments: ["ss", "sp"])
  func movedKey(engines: String) throws {
    let mesh = try mesh(engines)
    try write(mesh, 0, "INSERT INTO item VALUES (6, 6, 'a')", "INSERT INTO item VALUES (4, NULL, 'b')")
    try expect(mesh, ["4|NULL", "6|6"])
    // The trail has what the cascade did to the row before the change of its key.
    try write(mesh, 0, "DELETE FROM item WHERE id = 4", "UPDATE item SET id = 4 WHERE id = 6")
    try expect(mesh, ["4|4"])
    try mesh.close()
  }

  @Test(
    "a ring of two tables goes as a whole, and stays as a whole where somebody refers to it",
    arguments: Seeds.half(of: ["ss", "sp", "ps"]))
  func tables(engines: String) throws {
    // PostgreSQL takes no reference to a table that is not there yet.
    let mesh = try mesh(
      engines,
      schema: """
        CREATE TABLE customer(id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE address(id INTEGER PRIMARY KEY, customer INTEGER NOT NULL REFERENCES customer(id) ON DELETE CASCADE);
        ALTER TABLE customer ADD COLUMN address INTEGER REFERENCES address(id) ON DELETE SET NULL;
        CREATE TABLE visit(id INTEGER PRIMARY KEY, address INTEGER REFERENCES address(id))
        """, tables: ["customer", "address"])
    let all = "SELECT c.id, c.name, a.id FROM customer c LEFT JOIN address a ON a.customer = c.id ORDER BY c.id"
    for id in 1...2 {
      try write(
        mesh, 0, "INSERT INTO customer VALUES (\(id), 'c', NULL)", "INSERT INTO address VALUES (\(id), \(id))",
        "UPDATE customer SET address = \(id) WHERE id = \(id)")
    }
    try expect(mesh, ["1|c|1", "2|c|2"], all)
    try write(mesh, 0, "DELETE FROM customer")
    try write(mesh, 1, "INSERT INTO visit VALUES (1, 2)")
    try expect(mesh, ["2|c|2"], all)
    try mesh.close()
  }

  @Test(
    "a row that came to refer to another one beside the delete of a ring is the same everywhere",
    arguments: Seeds.half(of: ["ss", "sp", "ps"]))
  func movedRing(engines: String) throws {
    let mesh = try mesh(engines)
    try write(
      mesh, 0, "INSERT INTO item VALUES (1, NULL, 'a')", "INSERT INTO item VALUES (2, 1, 'b')",
      "INSERT INTO item VALUES (3, 2, 'c')", "INSERT INTO item VALUES (4, 4, 'd')")
    try expect(mesh, ["1|NULL", "2|1", "3|2", "4|4"])
    try write(mesh, 0, "DELETE FROM item")
    try write(mesh, 1, "UPDATE item SET up = 3 WHERE id = 2")
    try expect(mesh, ["1|NULL", "2|3", "3|2"])
    try mesh.close()
  }
}
