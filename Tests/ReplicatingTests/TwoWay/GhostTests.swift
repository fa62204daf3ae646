import TestServers
import Testing

/// Rows that one transaction inserts and deletes again.
@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
struct GhostTests {
  @Test(
    "a row that its transaction deletes again does not wait for a unique value",
    arguments: Seeds.half(of: ["ss", "sp", "ps", "pp"]), [false, true])
  func ghost(engines: String, isThere: Bool) throws {
    let mesh = try Mesh(
      engines,
      schema: """
        CREATE TABLE item(k TEXT NOT NULL PRIMARY KEY, barcode TEXT UNIQUE);
        CREATE TABLE sale(id INTEGER PRIMARY KEY, k TEXT REFERENCES item(k))
        """)
    let a = mesh.nodes[0]
    if isThere { try a.execute("INSERT INTO item VALUES ('tea', '4711')") }
    try mesh.settle()
    try a.execute(
      """
      BEGIN; INSERT INTO item VALUES ('tmp', '\(isThere ? "4712" : "4711")'); DELETE FROM item WHERE k = 'tmp';
      DELETE FROM item WHERE k = 'tea';
      INSERT INTO item VALUES ('tea', '\(isThere ? "4712" : "4711")'); COMMIT
      """)
    try mesh.settle()
    try a.execute("UPDATE item SET barcode = '1'")
    for _ in 0..<2 { try mesh.settle() }
    for node in mesh.nodes {
      let rows = try node.rows("SELECT * FROM item ORDER BY k")
      #expect(rows == ["tea|1"], "\(node.name)")
      #expect(try node.rows("SELECT key FROM \(node.isPostgres ? "cairn.candidate" : "cairn_candidate")") == [])
    }
    try mesh.close()
  }

  /// The second row holds a unique value of the first, whose delete waits for the end of the transaction.
  @Test(
    "of two rows with one unique value that their transaction deletes again, none stays",
    arguments: Seeds.half(of: ["ss", "sp", "ps", "pp"]), [false, true])
  func heldGhost(engines: String, isUpdated: Bool) throws {
    let mesh = try Mesh(
      engines,
      schema: """
        CREATE TABLE item(k TEXT NOT NULL PRIMARY KEY, barcode TEXT UNIQUE, n INTEGER);
        CREATE TABLE sale(id INTEGER PRIMARY KEY, k TEXT REFERENCES item(k))
        """)
    let a = mesh.nodes[0]
    try a.execute("INSERT INTO item VALUES ('tea', '4711', 0)")
    try mesh.settle()
    let last = isUpdated ? "UPDATE item SET n = 2 WHERE k = 'rum'" : "DELETE FROM item WHERE k = 'rum'"
    try a.execute(
      """
      BEGIN; INSERT INTO item VALUES ('mate', '4713', 1); DELETE FROM item WHERE k = 'mate';
      INSERT INTO item VALUES ('rum', '4713', 1); \(last); COMMIT
      """)
    for _ in 0..<2 { try mesh.settle() }
    for node in mesh.nodes {
      let rows = try node.rows("SELECT * FROM item ORDER BY k")
      #expect(rows == (isUpdated ? ["rum|4713|2"] : []) + ["tea|4711|0"], "\(node.name)")
      #expect(try node.rows("SELECT key FROM \(node.isPostgres ? "cairn.candidate" : "cairn_candidate")") == [])
    }
    try mesh.close()
  }

  @Test(
    "a unique value that passes from a deleted row to a new one is no conflict",
    arguments: Seeds.half(of: ["ss", "sp", "pp"]))
  func passedOn(engines: String) throws {
    let mesh = try Mesh(
      engines,
      schema: """
        CREATE TABLE item(k TEXT NOT NULL PRIMARY KEY, barcode TEXT UNIQUE);
        CREATE TABLE sale(id INTEGER PRIMARY KEY, k TEXT REFERENCES item(k))
        """)
    try mesh.nodes[0].execute("INSERT INTO item VALUES ('tea', '4711')")
    try mesh.settle()
    try mesh.nodes[0].execute("BEGIN; DELETE FROM item; INSERT INTO item VALUES ('mate', '4711'); COMMIT")
    try mesh.nodes[0].capturePending()
    try #expect(mesh.apply(0, to: 1) == 0)
    #expect(try mesh.nodes[1].rows("SELECT * FROM item") == ["mate|4711"])
    try mesh.close()
  }
}
