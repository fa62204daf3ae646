import Changes
import Foundation
import PostgresKit
import TestServers
import Testing

/// Tables of a two-way PostgreSQL node whose owner takes rights of apply's role. Only such a table is suspended.
@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
struct LostTwoWayRightTests {
  private static let grant =
    "GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON kept TO \(user); ALTER TABLE kept DISABLE ROW LEVEL SECURITY"
  private static let user = "entitled_both"

  /// Two nodes with tables `item` and `kept`. At the first node, apply's role owns only `item`.
  private func started() throws -> Mesh {
    for role in [Self.user, "keeper"] {
      try PostgresServer.shared.psql(
        """
        DO $$ BEGIN CREATE ROLE \(role) LOGIN REPLICATION; EXCEPTION
          WHEN duplicate_object OR unique_violation THEN END $$
        """)
    }
    try PostgresServer.shared.psql(
      "GRANT SET ON PARAMETER session_replication_role TO \(Self.user); GRANT pg_read_all_stats TO \(Self.user)")
    let mesh = try Mesh(
      "pp",
      schema: "CREATE TABLE item(id int PRIMARY KEY); CREATE TABLE kept(id int PRIMARY KEY, m text, code text UNIQUE)",
      user: Self.user)
    for node in mesh.nodes {
      try node.execute("ALTER TABLE item REPLICA IDENTITY FULL; ALTER TABLE kept REPLICA IDENTITY FULL")
    }
    let a = mesh.nodes[0]
    try a.execute("INSERT INTO item VALUES (1); INSERT INTO kept VALUES (1, 'a', 'x'), (2, 'b', 'y')")
    for _ in 0..<2 { try mesh.settle() }
    try administer(a, "GRANT CREATE, USAGE ON SCHEMA public TO keeper; ALTER TABLE kept OWNER TO keeper; \(Self.grant)")
    mesh.renew(a)
    return mesh
  }

  private func administer(_ node: Mesh.Node, _ sql: String) throws {
    guard case .postgres(let uri) = node.url else { return }
    let session = try PostgresConnection(uri.replacingOccurrences(of: "user=\(Self.user)", with: "user=postgres"))
    try session.executeScript("SET search_path = public; \(sql)")
  }

  @Test(
    "a two-way table that apply may not lock or write is suspended, and others go on",
    arguments: [
      "REVOKE ALL ON kept FROM \(user)", "REVOKE UPDATE ON kept FROM \(user)",
      "REVOKE INSERT, DELETE ON kept FROM \(user)",
      "REVOKE SELECT ON kept FROM \(user)",
      "ALTER TABLE kept ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY",
    ], ["change", "conflict", "locked", "waiting"])
  func lostRight(_ statement: String, kind: String) throws {
    let mesh = try started()
    let (a, b) = (mesh.nodes[0], mesh.nodes[1])
    if kind == "waiting" {
      try b.execute("INSERT INTO kept VALUES (7, 'b', 'z')")
      try b.capturePending()
      usleep(3000)
      try a.execute("INSERT INTO kept VALUES (8, 'a', 'z')")
      try a.capturePending()
      for _ in 0..<2 { try mesh.settle() }
      try #require(a.rows("SELECT id FROM kept WHERE code = 'z'") == ["8"])
      try a.execute("UPDATE kept SET code = 'zz' WHERE id = 8")
    }
    if kind == "conflict" {
      try a.execute("UPDATE kept SET m = 'mine' WHERE id = 1")
      try a.capturePending()
      usleep(3000)
    }
    try a.capturePending()
    try administer(a, "SET ROLE keeper; \(statement)")
    try b.execute("BEGIN; INSERT INTO item VALUES (2); UPDATE kept SET m = 'theirs' WHERE id = 1; COMMIT")
    try b.execute("INSERT INTO item VALUES (3)")
    try b.capturePending()
    mesh.locksFirst = kind == "locked"
    mesh.renew(a)
    var problem: CairnError?
    do { try mesh.apply(1, to: 0) } catch let error as CairnError { problem = error }
    try #expect(a.rows("SELECT count(*) FROM item") == ["3"], "\(problem.map { "\($0)" } ?? "")")
    if let problem { #expect(problem.message.contains("kept"), "\(problem)") }
    // The table goes on by itself.
    try administer(a, "SET ROLE keeper; \(Self.grant)")
    mesh.locksFirst = false
    mesh.renew(a)
    for _ in 0..<3 { try mesh.settle() }
    for node in mesh.nodes {
      try #expect(node.rows("SELECT m FROM kept WHERE id = 1") == ["theirs"], "\(node.name)")
      if kind == "waiting" { try #expect(node.rows("SELECT id FROM kept WHERE id > 6 ORDER BY id") == ["7", "8"]) }
    }
    try mesh.close()
  }
}
