import Applying
import Changes
import Mapping
import SystemKit
import TestServers
import Testing

/// Changes that programs made to the tables of a target, one way, when a schema change of the source comes.
@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
struct TargetsOwnShapeTests {
  /// A source and a target. Cairn has created the table at the target.
  private static func mesh(_ engines: String) throws -> Mesh {
    let mesh = try Mesh(engines, schema: "CREATE TABLE other(id INTEGER PRIMARY KEY)")
    mesh.isOneWay = true
    try mesh.nodes[0].execute("CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT)")
    try mesh.nodes[0].execute("INSERT INTO item VALUES (1, 'tea'), (2, 'milk')")
    // Capture may not have seen the table yet.
    for _ in 0..<200 {
      try mesh.nodes[0].capturePending()
      try mesh.apply(0, to: 1)
      if (try? mesh.nodes[1].rows("SELECT id FROM item ORDER BY id")) == ["1", "2"] { return mesh }
      Clock.sleep(milliseconds: 50)
    }
    throw TestFailure("the table does not come")
  }

  private static func write(_ sql: String, _ mesh: Mesh) throws {
    try mesh.nodes[0].execute(sql)
    try mesh.nodes[0].capturePending()
  }

  @Test(
    "a column that only the target has stays when the trail begins again with another shape", arguments: ["ss", "ps"])
  func keptColumn(engines: String) throws {
    let mesh = try Self.mesh(engines)
    let (a, b) = (mesh.nodes[0], mesh.nodes[1])
    try b.execute("ALTER TABLE item ADD COLUMN mine TEXT")
    try b.execute("UPDATE item SET mine = 'own' WHERE id = 2")
    try Self.write("ALTER TABLE item ADD COLUMN note TEXT", mesh)
    try Self.write("UPDATE item SET note = 'n' WHERE id = 1", mesh)
    a.copiesRows = true
    try mesh.beginAgain(a)
    try a.capturePending()
    try mesh.apply(0, to: 1)
    let rows = try b.rows("SELECT id, name, coalesce(note, '-'), coalesce(mine, '-') FROM item ORDER BY id")
    #expect(rows == ["1|tea|n|-", "2|milk|-|own"])
    try mesh.close()
  }

  @Test(
    "a new column whose name a column of the target's own has, with another type, waits at once",
    arguments: ["sp", "pp"])
  func otherType(engines: String) throws {
    let mesh = try Self.mesh(engines)
    let b = mesh.nodes[1]
    try b.execute("ALTER TABLE item ADD COLUMN note integer")
    try Self.write("ALTER TABLE item ADD COLUMN note TEXT", mesh)
    let error = #expect(throws: CairnError.self) { try mesh.apply(0, to: 1) }
    #expect(error?.code == .schemaStopped)
    #expect(error?.hint.contains("rename or drop the target's own column note") == true, "\(error?.hint ?? "")")
    try Self.write("INSERT INTO item(id, name, note) VALUES (3, 'new', 'x')", mesh)
    try b.execute("ALTER TABLE item DROP COLUMN note")
    try mesh.apply(0, to: 1)
    try #expect(b.rows("SELECT id, coalesce(note, '-') FROM item ORDER BY id") == ["1|-", "2|-", "3|x"])
    try mesh.close()
  }

  @Test(
    "a table that was renamed at the target waits for its name", arguments: Seeds.half(of: ["ss", "sp", "ps", "pp"]),
    [DDLPolicy.follow, nil])
  func renamed(engines: String, ddl: DDLPolicy?) throws {
    let mesh = try Self.mesh(engines)
    mesh.ddl = ddl
    let b = mesh.nodes[1]
    try b.execute("ALTER TABLE item RENAME TO kept")
    try Self.write("ALTER TABLE item ADD COLUMN note TEXT", mesh)
    try Self.write("INSERT INTO item(id, name, note) VALUES (3, 'new', 'x')", mesh)
    let error = #expect(throws: CairnError.self) { try mesh.apply(0, to: 1) }
    #expect(error?.code == .schemaStopped)
    #expect(error?.hint.contains("rename it back to") == true, "\(error?.hint ?? "")")
    #expect(throws: (any Error).self) { try b.rows("SELECT * FROM item") }
    try b.execute("ALTER TABLE kept RENAME TO item")
    try mesh.apply(0, to: 1)
    try #expect(b.rows("SELECT id, coalesce(note, '-') FROM item ORDER BY id") == ["1|-", "2|-", "3|x"])
    try mesh.close()
  }
}
