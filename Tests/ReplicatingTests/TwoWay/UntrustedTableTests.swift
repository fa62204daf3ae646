import Changes
import Foundation
import PostgresKit
import TestServers
import Testing

/// Attacks by the owner of a table of a two-way node, or by a peer, through rows that apply looks at. Code of another
/// role does not run as apply, and rows that wait have a bound.
@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
struct UntrustedTableTests {
  /// A role that owns a type, a function that leaves a mark, and what the test gives it.
  private struct Untrusted {
    let node: Mesh.Node
    let role = "low_\(UUID().uuidString.prefix(8).lowercased())"

    init(_ node: Mesh.Node) throws {
      self.node = node
      try node.execute(
        """
        CREATE ROLE \(role); GRANT \(role) TO CURRENT_USER; CREATE SCHEMA low AUTHORIZATION \(role);
        CREATE TABLE low.mark(who text); ALTER TABLE low.mark OWNER TO \(role);
        """)
    }

    /// Runs statements as the role.
    func execute(_ sql: String) throws { try node.execute("SET ROLE \(role); \(sql); RESET ROLE") }

    /// Who ran the role's code.
    var marks: [String] { get throws { try node.rows("SELECT who FROM low.mark WHERE who <> '\(role)'") } }

    func drop() throws { try node.execute("DROP SCHEMA low CASCADE; DROP OWNED BY \(role) CASCADE; DROP ROLE \(role)") }
  }

  @Test("a row that waits for a unique value is not written where a trigger of another role would run")
  func waitingRow() throws {
    let mesh = try Mesh("pp", schema: "CREATE TABLE item(id int PRIMARY KEY, code text UNIQUE)")
    for node in mesh.nodes { try node.execute("ALTER TABLE item REPLICA IDENTITY FULL") }
    let (a, b) = (mesh.nodes[0], mesh.nodes[1])
    try a.execute("INSERT INTO item VALUES (1, 'x')")
    try a.capturePending()
    usleep(3000)
    try b.execute("INSERT INTO item VALUES (2, 'x')")
    try b.capturePending()
    for _ in 0..<2 { try mesh.settle() }
    try #require(a.rows("SELECT id FROM item") == ["2"])
    let low = try Untrusted(a)
    try a.execute("ALTER TABLE item OWNER TO \(low.role); GRANT CREATE ON SCHEMA public TO \(low.role)")
    try low.execute(
      """
      CREATE FUNCTION low.spy() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN INSERT INTO low.mark VALUES (current_user); RETURN NULL; END $$;
      CREATE TRIGGER spy AFTER INSERT ON item FOR EACH ROW EXECUTE FUNCTION low.spy();
      ALTER TABLE item ENABLE ALWAYS TRIGGER spy
      """)
    // The value is free now: the next look would write the row.
    try a.execute("UPDATE item SET code = 'y' WHERE id = 2")
    try a.capturePending()
    try mesh.apply(1, to: 0)
    var marks = try low.marks
    #expect(marks.isEmpty)
    try #expect(a.rows("SELECT id FROM item") == ["2"])
    #expect(mesh.notices.contains { $0.contains("written yet") && $0.contains("trigger spy") }, "\(mesh.notices)")
    // Without it, the row comes.
    try low.execute("DROP TRIGGER spy ON item")
    try mesh.apply(1, to: 0)
    marks = try low.marks
    #expect(marks.isEmpty)
    try #expect(a.rows("SELECT id FROM item ORDER BY id") == ["1", "2"])
    try low.drop()
    try mesh.close()
  }

  @Test(
    "a trail makes no more rows wait than have room, and goes on when they have other values", arguments: ["ss", "pp"])
  func waitingRows(engines: String) throws {
    let mesh = try Mesh(engines, schema: "CREATE TABLE item(id INTEGER PRIMARY KEY, code TEXT UNIQUE, pad TEXT)")
    let (a, b) = (mesh.nodes[0], mesh.nodes[1])
    mesh.waitingBytesMax = 2000
    mesh.renew(b)
    for number in 1...3 {
      try a.execute("INSERT INTO item VALUES (\(number), 'x\(number)', '\(String(repeating: "p", count: 900))')")
      try a.capturePending()
    }
    usleep(3000)
    try b.execute("INSERT INTO item VALUES (11, 'x1', ''), (12, 'x2', ''), (13, 'x3', '')")
    try b.capturePending()
    let error = #expect(throws: CairnError.self) { try mesh.apply(0, to: 1) }
    #expect(error?.code == .constraintFailed && error?.message.contains("would wait for unique values") == true)
    #expect(error?.hint.contains("cairn conflicts list --waiting") == true)
    try b.execute("UPDATE item SET code = 'y' || id")
    try b.capturePending()
    mesh.renew(b)
    for _ in 0..<2 { try mesh.settle() }
    for node in mesh.nodes { try #expect(node.rows("SELECT count(*) FROM item") == ["6"], "\(node.name)") }
    try mesh.close()
  }

  @Test("no cast of another role runs to find out whether rows of its table refer to a row")
  func referringTable() throws {
    let mesh = try Mesh("pp", schema: "CREATE TABLE item(id bigint PRIMARY KEY, name text)")
    for node in mesh.nodes { try node.execute("ALTER TABLE item REPLICA IDENTITY FULL") }
    let (a, b) = (mesh.nodes[0], mesh.nodes[1])
    try a.execute("INSERT INTO item VALUES (1, 'tea'), (2, 'milk')")
    for _ in 0..<2 { try mesh.settle() }
    let low = try Untrusted(a)
    try a.execute("GRANT REFERENCES, SELECT ON item TO \(low.role)")
    try low.execute(
      """
      CREATE TYPE low.t AS (a bigint);
      CREATE FUNCTION low.spy(low.t) RETURNS bigint LANGUAGE plpgsql AS $$
        BEGIN INSERT INTO low.mark VALUES (current_user); RETURN ($1).a; END $$;
      CREATE CAST (low.t AS bigint) WITH FUNCTION low.spy(low.t) AS IMPLICIT;
      CREATE TABLE low.child(r low.t REFERENCES item(id));
      GRANT SELECT ON low.child TO PUBLIC
      """)
    try a.execute("SET session_replication_role = replica; INSERT INTO low.child VALUES (ROW(7)); RESET ALL")
    try a.execute("SET search_path = public; DELETE FROM low.mark")
    mesh.renew(a)
    try b.execute("DELETE FROM item WHERE id = 1")
    try b.capturePending()
    let error = #expect(throws: CairnError.self) { try mesh.apply(1, to: 0) }
    #expect(error?.message.contains("low\".\"child") == true, "\(error as Any)")
    let marks = try low.marks
    #expect(marks.isEmpty)
    try #expect(a.rows("SELECT id FROM item ORDER BY id") == ["1", "2"])
    try low.drop()
    // Without the foreign key, the table goes on.
    try mesh.apply(1, to: 0)
    try #expect(a.rows("SELECT id FROM item ORDER BY id") == ["2"])
    try mesh.close()
  }

  @Test(
    "a table of another role that refers to a row is not read where its code would run, and holds up no other table",
    arguments: ["index", "lock"])
  func plannedReferrer(trap: String) throws {
    let mesh = try Mesh(
      "pp", schema: "CREATE TABLE item(id bigint PRIMARY KEY, name text); CREATE TABLE other(id int PRIMARY KEY)")
    for node in mesh.nodes { try node.execute("ALTER TABLE item REPLICA IDENTITY FULL") }
    let (a, b) = (mesh.nodes[0], mesh.nodes[1])
    try a.execute("INSERT INTO item VALUES (1, 'tea'), (2, 'milk')")
    for _ in 0..<2 { try mesh.settle() }
    let low = try Untrusted(a)
    try a.execute("GRANT REFERENCES, SELECT ON item TO \(low.role)")
    try low.execute(
      """
      CREATE FUNCTION low.spy(v text) RETURNS void LANGUAGE plpgsql AS $$
        BEGIN INSERT INTO low.mark VALUES (current_user); END $$;
      CREATE FUNCTION low.pure(v text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS $$
        BEGIN PERFORM low.spy(v); RETURN v; END $$;
      CREATE TABLE low.child(r bigint REFERENCES item(id))
      """)
    guard case .postgres(let uri) = a.url else { return }
    let session = try PostgresConnection(uri)
    if trap == "index" {
      try low.execute("CREATE INDEX spy ON low.child (r) WHERE low.pure('x') = 'x'")
    } else {
      try session.executeScript("BEGIN; LOCK TABLE low.child")
    }
    try a.execute("DELETE FROM low.mark")
    mesh.renew(a)
    try b.execute("DELETE FROM item WHERE id = 1; INSERT INTO other VALUES (5)")
    try b.capturePending()
    if trap == "index" {
      let error = #expect(throws: CairnError.self) { try mesh.apply(1, to: 0) }
      #expect(error?.message.contains("index") == true, "\(error as Any)")
    } else {
      _ = try? mesh.apply(1, to: 0)
    }
    let marks = try low.marks
    #expect(marks.isEmpty)
    try #expect(a.rows("SELECT id FROM item ORDER BY id") == ["1", "2"])
    try #expect(a.rows("SELECT id FROM other") == ["5"])
    if trap == "index" { try low.execute("DROP INDEX low.spy") } else { try session.execute("ROLLBACK") }
    try mesh.apply(1, to: 0)
    try #expect(a.rows("SELECT id FROM item ORDER BY id") == ["2"])
    try low.drop()
    try mesh.close()
  }
}
