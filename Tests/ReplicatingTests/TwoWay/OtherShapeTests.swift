import Applying
import Changes
import Conflicts
import Mapping
import TestServers
import Testing

/// A peer whose table has another column or another key stops no apply of another trail.
@Suite(
  .enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"), .timeLimit(.minutes(20)))
struct OtherShapeTests {
  /// Applies a trail. Returns the error if a table of the trail is suspended.
  private static func apply(_ mesh: Mesh, _ from: Int, to: Int) throws -> CairnError? {
    do { try mesh.apply(from, to: to) } catch let error as CairnError where error.code == .schemaStopped {
      return error
    }
    return nil
  }

  private static func write(_ node: Mesh.Node, _ sql: String) throws {
    try node.execute(sql)
    try node.capturePending()
  }

  private static func logWholeRows(_ mesh: Mesh, _ tables: [String]) throws {
    for node in mesh.nodes where node.isPostgres {
      for table in tables { try node.execute("ALTER TABLE \(table) REPLICA IDENTITY FULL") }
    }
  }

  @Test(
    "a reference brings a row back that was deleted by a node with a column more",
    arguments: Seeds.half(of: ["sss", "ppp", "psp"]), [DDLPolicy.ignore, .stop])
  func otherColumn(engines: String, policy: DDLPolicy) throws {
    let mesh = try Mesh(
      engines,
      schema: """
        CREATE TABLE shelf(id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE box(id INTEGER PRIMARY KEY, shelf INTEGER REFERENCES shelf(id))
        """, isCaptured: false)
    let (hub, good, other) = (mesh.nodes[0], mesh.nodes[1], mesh.nodes[2])
    try Self.logWholeRows(mesh, ["shelf", "box"])
    try other.execute("ALTER TABLE shelf ADD COLUMN extra TEXT")
    for node in mesh.nodes { try node.startCapture() }
    mesh.ddl = .ignore
    hub.policies["n2"] = policy
    try Self.write(good, "INSERT INTO shelf VALUES (1, 'low'), (2, 'high'); INSERT INTO box VALUES (1, 1)")
    for to in [0, 2] { try mesh.apply(1, to: to) }
    try Self.write(other, "DELETE FROM shelf WHERE id = 2")
    try Self.write(other, "UPDATE shelf SET extra = 'x' WHERE id = 1")
    #expect(try Self.apply(mesh, 2, to: 0)?.code == (policy == .stop ? .schemaStopped : nil))
    if policy == .stop { mesh.renew(hub) }
    try Self.write(good, "INSERT INTO box VALUES (7, 2)")
    try mesh.apply(1, to: 0)
    try #expect(hub.rows("SELECT id, name FROM shelf ORDER BY id") == ["1|low", "2|high"])
    try #expect(hub.rows("SELECT id, shelf FROM box ORDER BY id") == ["1|1", "7|2"])
    if policy == .stop {
      try hub.execute("ALTER TABLE shelf ADD COLUMN extra TEXT")
      #expect(try Self.apply(mesh, 2, to: 0) == nil)
      try #expect(hub.rows("SELECT id, name FROM shelf ORDER BY id") == ["1|low", "2|high"])
      try #expect(hub.rows("SELECT extra FROM shelf WHERE id = 1") == ["x"])
    }
    try mesh.close()
  }

  @Test(
    "a row that was kept for a reference goes though its last version is an insert",
    arguments: Seeds.half(of: ["sss", "ppp", "sps"]))
  func keptInsert(engines: String) throws {
    let mesh = try Mesh(
      engines,
      schema: """
        CREATE TABLE room(id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE shelf(id INTEGER PRIMARY KEY, room INTEGER REFERENCES room(id), name TEXT);
        CREATE TABLE box(id INTEGER PRIMARY KEY, shelf INTEGER REFERENCES shelf(id))
        """
    ) { _, _, _ in ConflictRules(rule: .priority(["n2", "n0", "n1"]), deletes: .deleteWins) }
    try Self.logWholeRows(mesh, ["room", "shelf", "box"])
    let (hub, good, other) = (mesh.nodes[0], mesh.nodes[1], mesh.nodes[2])
    try Self.write(
      other,
      "INSERT INTO room VALUES (4, 'low'); INSERT INTO shelf VALUES (5, 4, 'high'); INSERT INTO box VALUES (6, 5)")
    try mesh.apply(2, to: 0)
    // The node deletes the row before the row that refers to it, as SQLite lets each application do.
    if other.isPostgres { try other.execute("SET session_replication_role = replica") }
    try Self.write(other, "DELETE FROM room WHERE id = 4; DELETE FROM shelf WHERE id = 5")
    try mesh.apply(2, to: 0)
    try Self.write(good, "INSERT INTO shelf VALUES (5, NULL, 'mine')")
    try mesh.apply(1, to: 0)
    try #require(hub.rows("SELECT id FROM shelf") == ["5"])
    try Self.write(other, "DELETE FROM box WHERE id = 6")
    try mesh.apply(2, to: 0)
    for table in ["box", "shelf", "room"] { try #expect(hub.rows("SELECT id FROM \(table)") == [], "\(table)") }
    try mesh.close()
  }

  @Test("a table with another key at a peer is suspended, and its rows are no versions", arguments: ["ssp", "ppp"])
  func otherKey(engines: String) throws {
    let mesh = try Mesh(
      engines, schema: "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, n INTEGER)", isCaptured: false)
    let (hub, good, other) = (mesh.nodes[0], mesh.nodes[1], mesh.nodes[2])
    try other.execute(
      """
      DROP TABLE item; CREATE TABLE item(id INTEGER, name TEXT, n INTEGER NOT NULL PRIMARY KEY);
      INSERT INTO item VALUES (5, 'other', 10), (6, 'other', 11)
      """)
    for node in mesh.nodes { try node.startCapture() }
    // PostgreSQL logs only the key of a deleted row.
    try Self.write(other, "DELETE FROM item WHERE n = 10")
    try Self.write(other, "DELETE FROM item WHERE n = 11")
    let error = try Self.apply(mesh, 2, to: 0)
    #expect(error?.message.contains("key") == true, "\(error?.message ?? "no error")")
    mesh.renew(hub)
    try Self.write(good, "INSERT INTO item VALUES (10, 'mine', 1), (11, 'mine', 2)")
    try mesh.apply(1, to: 0)
    try Self.write(good, "UPDATE item SET name = 'ours'")
    try mesh.apply(1, to: 0)
    try #expect(hub.rows("SELECT id, name, n FROM item ORDER BY id") == ["10|ours|1", "11|ours|2"])
    try mesh.close()
  }

  @Test(
    "rows that a suspended table lacks are no versions after a start", arguments: ["sss", "ppp"], [false, true])
  func suspendedRows(engines: String, isRenewed: Bool) throws {
    let mesh = try Mesh(engines, schema: "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT)") { _, _, _ in
      ConflictRules(rule: .priority(["n2", "n0", "n1"]))
    }
    let (hub, good, other) = (mesh.nodes[0], mesh.nodes[1], mesh.nodes[2])
    try Self.logWholeRows(mesh, ["item"])
    try Self.write(good, "INSERT INTO item VALUES (1, 'first')")
    for to in [0, 2] { try mesh.apply(1, to: to) }
    hub.policies["n2"] = .stop
    try Self.write(other, "ALTER TABLE item ADD COLUMN extra TEXT")
    try Self.write(other, "INSERT INTO item VALUES (2, 'second', 'x')")
    try Self.write(other, "UPDATE item SET name = 'theirs' WHERE id = 1")
    #expect(try Self.apply(mesh, 2, to: 0) != nil)
    if isRenewed { mesh.renew(hub) }
    try Self.write(good, "UPDATE item SET name = 'mine' WHERE id = 1")
    #expect(try mesh.apply(1, to: 0) == 0)
    try #expect(hub.rows("SELECT id, name FROM item") == ["1|mine"])
    if isRenewed { mesh.renew(hub) }
    try hub.execute("ALTER TABLE item ADD COLUMN extra TEXT")
    #expect(try Self.apply(mesh, 2, to: 0) == nil)
    try #expect(hub.rows("SELECT id, name, extra FROM item WHERE id = 2") == ["2|second|x"])
    try #expect(hub.rows("SELECT id, name FROM item WHERE id = 1") == ["1|theirs"])
    try mesh.close()
  }
}
