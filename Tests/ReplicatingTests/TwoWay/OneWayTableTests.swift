import Applying
import Changes
import Conflicts
import TestServers
import Testing

/// Tables that go one way between databases that write to each other: those that are captured at one end only.
@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
struct OneWayTableTests {
  private static let schema = """
    CREATE TABLE item(id INTEGER PRIMARY KEY, stock INTEGER); CREATE TABLE price(id INTEGER PRIMARY KEY, amount INTEGER);
    """
  /// A table without a key, which PostgreSQL does not let be captured as it is.
  private static let log = "CREATE TABLE log(line INTEGER)"

  /// Prices come from the first one only, and so does a table without a key.
  private func pair(_ engines: String) throws -> Mesh {
    let mesh = try Mesh(
      engines, schema: Self.schema + (engines.first == "s" ? Self.log : ""),
      tables: [TablePatterns(), TablePatterns(["*", "!price", "!log"])])
    for node in mesh.nodes where node.isPostgres { try node.execute("ALTER TABLE price REPLICA IDENTITY FULL") }
    try mesh.nodes[0].execute("INSERT INTO item VALUES (1, 10); INSERT INTO price VALUES (1, 3), (2, 3)")
    if !mesh.nodes[0].isPostgres { try mesh.nodes[0].execute("INSERT INTO log VALUES (1)") }
    try mesh.settle()
    return mesh
  }

  @Test("what is written to them stays, and others go both ways", arguments: Seeds.half(of: ["ss", "sp", "ps", "pp"]))
  func allowed(engines: String) throws {
    let mesh = try pair(engines)
    let (hq, shop) = (mesh.nodes[0], mesh.nodes[1])
    mesh.localWrites = LocalWritesPlan(tables: [.init(from: "price", .allow)])
    try shop.execute("UPDATE price SET amount = 9; INSERT INTO price VALUES (7, 7); UPDATE item SET stock = 11")
    try mesh.settle()
    #expect(try hq.rows("SELECT * FROM price ORDER BY id") == ["1|3", "2|3"])
    #expect(try hq.rows("SELECT * FROM item") == ["1|11"])
    try hq.execute("UPDATE price SET amount = 4 WHERE id = 1")
    if !hq.isPostgres { try hq.execute("DELETE FROM log; INSERT INTO log VALUES (2)") }
    try hq.execute("UPDATE item SET stock = 12")
    try mesh.settle()
    #expect(try shop.rows("SELECT * FROM price ORDER BY id") == ["1|4", "2|9", "7|7"])
    #expect(try shop.rows("SELECT * FROM item") == ["1|12"])
    if !hq.isPostgres { #expect(try shop.rows("SELECT * FROM log") == ["2"]) }
    let log = shop.isPostgres ? "cairn.conflict" : "cairn_conflict"
    #expect(try shop.rows("SELECT kind, rule, table_name FROM \(log)") == ["update_origin_differs|allow|price"])
    try mesh.close()
  }

  @Test("without a word the apply stops at them, as one-way", arguments: ["ss", "pp"])
  func stopped(engines: String) throws {
    let mesh = try pair(engines)
    try mesh.nodes[1].execute("UPDATE price SET amount = 9")
    try mesh.nodes[0].execute("UPDATE price SET amount = 4 WHERE id = 1")
    try mesh.nodes[0].capturePending()
    try mesh.nodes[1].capturePending()
    #expect { try mesh.apply(0, to: 1) } throws: { ($0 as? CairnError)?.code == .rowDiffers }
    try mesh.close()
  }
}
