import Applying
import Capturing
import Changes
import SQLiteKit
import TestServers
import Testing
import Trails

/// Tables that Cairn brought into a file from PostgreSQL, captured from there.
@Suite struct OriginTests {
  private let original = TableSchema(
    epoch: 4, engine: .postgres, namespace: "sales", name: "orders",
    columns: [
      .init(name: "id", declaredType: "integer", isNotNull: true, keyOrdinal: 1),
      .init(name: "n", declaredType: "numeric(10,2)"),
    ], createText: "CREATE TABLE …")

  /// A file as an apply from PostgreSQL leaves it.
  private func replica() throws -> Replica {
    let replica = Replica(try TempFolder())
    let database = try Database(path: replica.source, mode: .create)
    var shape = ByteWriter()
    shape.append(original)
    try database.executeScript(
      """
      CREATE TABLE sales_orders(id INTEGER PRIMARY KEY, n TEXT); INSERT INTO sales_orders VALUES (1, '1.10');
      CREATE TABLE own(id INTEGER PRIMARY KEY);
      CREATE TABLE cairn_origin(name TEXT PRIMARY KEY COLLATE NOCASE, shape BLOB) WITHOUT ROWID;
      CREATE TABLE cairn_checkpoint(trail TEXT PRIMARY KEY, number INTEGER, trail_id BLOB); CREATE TABLE cairn_table(name TEXT PRIMARY KEY);
      """)
    try database.run(
      "INSERT INTO cairn_origin VALUES ('SALES_orders', ?)", [.blob(Array(shape.bytes))])
    return replica
  }

  private func schemas(_ replica: Replica) throws -> [String: TableSchema] {
    let reader = try TrailReader.open(folder: replica.trail, at: nil)
    var found: [String: TableSchema] = [:]
    while let record = try reader.next() { if case .schema(_, let schema) = record { found[schema.name] = schema } }
    return found
  }

  @Test func `the trail says what a table was in PostgreSQL, and Cairn's own tables are none`() throws {
    let replica = try replica()
    try replica.takeAndReplay()
    let schemas = try schemas(replica)
    #expect(schemas.keys.sorted() == ["own", "sales_orders"])
    #expect(schemas["sales_orders"]?.original == original)
    #expect(schemas["own"]?.original == nil)
    // A copy in another SQLite file can go back too.
    let copy = try Database(path: replica.target).userTables()
    #expect(copy.first { $0.name == "sales_orders" }?.schema.original == original)
    #expect(copy.first { $0.name == "own" }?.schema.original == nil)
  }

  @Test func `a capture that begins again leaves the tables of an apply`() throws {
    let replica = try replica()
    try replica.take()
    replica.close()
    let again = Replica(replica.folder, trail: "other")
    try again.take()
    let names = try Database(path: replica.source).query(
      "SELECT name FROM sqlite_master WHERE name LIKE 'cairn%' AND type = 'table' ORDER BY name")
    #expect(
      Set(["cairn_checkpoint", "cairn_journal", "cairn_origin", "cairn_table"]).isSubset(of: names.map { $0[0].string })
    )
  }

  @Test func `detach removes everything of Cairn's, of source and target`() throws {
    let replica = try replica()
    try replica.take()
    replica.close()
    #expect(try Journal(try Database(path: replica.source)).detach())
    let left = try Database(path: replica.source).query("SELECT name FROM sqlite_master ORDER BY name")
    #expect(left.map { $0[0].string } == ["own", "sales_orders"])
  }
}
