import Applying
import Changes
import Mapping
import PostgresKit
import SystemKit
import TestServers
import Testing

/// Tables of a PostgreSQL target whose owner takes the rights of apply's role. Only such a table waits.
@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
struct LostRightTests {
  /// A target of a role that is no superuser, with a table of role `keeper`.
  private func started(_ server: PostgresServer? = nil) throws -> PostgresTarget {
    let target = try PostgresTarget(server)
    for role in ["entitled", "keeper"] {
      try target.psql(
        "DO $$ BEGIN CREATE ROLE \(role) LOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN END $$")
    }
    try target.psql(
      """
      GRANT SET ON PARAMETER session_replication_role TO entitled; ALTER DATABASE \(target.name) OWNER TO entitled;
      ALTER SCHEMA public OWNER TO entitled; CREATE SCHEMA s AUTHORIZATION keeper;
      SET ROLE keeper; CREATE TABLE s.k(id integer PRIMARY KEY, m text); \(Self.grant)
      """)
    try target.shape(
      postgres: """
        CREATE TABLE item(id integer PRIMARY KEY); CREATE SCHEMA s; CREATE TABLE s.k(id integer PRIMARY KEY, m text)
        """)
    try target.trail.transaction {
      for table in ["item", "s.k"] { try target.trail.create(table) }
      try target.trail.copy("item", [[.exact("1")]])
      try target.trail.copy("s.k", [[.exact("1"), .exact("a")], [.exact("2"), .exact("b")]])
    }
    #expect(problem(target) == nil)
    return target
  }

  private static let grant = "GRANT USAGE ON SCHEMA s TO entitled; GRANT ALL ON s.k TO entitled"

  private func problem(_ target: PostgresTarget) -> String? {
    do { try target.open(user: "entitled").drain() } catch { return "\(error)" }
    return nil
  }

  @Test(
    arguments: [
      "REVOKE ALL ON s.k FROM entitled", "REVOKE INSERT ON s.k FROM entitled",
      "REVOKE UPDATE, DELETE ON s.k FROM entitled",
      "REVOKE SELECT ON s.k FROM entitled", "REVOKE USAGE ON SCHEMA s FROM entitled",
      "ALTER TABLE s.k ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY",
    ], [0, 1, 2, 3])
  func `a table that apply may not write is suspended, and others go on`(_ statement: String, kind: Int) throws {
    let target = try started()
    let trail = target.trail
    try target.psql("SET ROLE keeper; \(statement)")
    try trail.transaction {
      try trail.insert("item", [.exact("2")])
      switch kind {
      case 0: try trail.insert("s.k", [.exact("3"), .exact("c")])
      case 1: try trail.update("s.k", [.exact("1"), .exact("a")], [.exact("1"), .exact("z")])
      case 2: try trail.delete("s.k", [.exact("2"), .exact("b")])
      default: try trail.copy("s.k", [[.exact("1"), .exact("y")], [.exact("4"), .exact("d")]])
      }
      try trail.insert("item", [.exact("3")])
    }
    try trail.transaction { try trail.insert("item", [.exact("4")]) }
    let found = problem(target)
    let (after, whole) = (["1|a\n2|b\n3|c", "1|z\n2|b", "1|a", "1|y\n4|d"][kind], "SELECT id, m FROM s.k ORDER BY id")
    #expect(try target.psql("SELECT count(*) FROM item") == "4", "\(found ?? "")")
    if found == nil {
      // This right is not needed for the change.
      #expect(try target.psql(whole) == after)
      #expect(["INSERT", "UPDATE", "SELECT"].contains { statement.contains($0) })
      return
    }
    // A copy may have begun.
    if kind < 3 { #expect(try target.psql(whole) == "1|a\n2|b") }
    try trail.transaction { try trail.insert("item", [.exact("5")]) }
    #expect(problem(target)?.contains("s.k") == true)
    #expect(try target.psql("SELECT count(*) FROM item") == "5")
    try target.psql("SET ROLE keeper; ALTER TABLE s.k DISABLE ROW LEVEL SECURITY; \(Self.grant)")
    #expect(problem(target) == nil)
    #expect(try target.psql(whole) == after)
  }

  @Test func `a foreign key whose table another session writes is created later, and holds up no table`() throws {
    let target = try started()
    let keeper = try PostgresConnection(target.server.url(target.name, user: "keeper"), application: "shop")
    try target.psql("GRANT REFERENCES ON s.k TO entitled")
    try target.shape(
      postgres: """
        CREATE SCHEMA s; CREATE TABLE item(id integer PRIMARY KEY); CREATE TABLE s.k(id integer PRIMARY KEY, m text);
        CREATE TABLE part(id integer PRIMARY KEY, k integer REFERENCES s.k(id))
        """)
    try keeper.executeScript("BEGIN; LOCK TABLE s.k IN ROW EXCLUSIVE MODE")
    try target.trail.transaction {
      try target.trail.create("part")
      try target.trail.copy("part", [[.exact("1"), .exact("1")]])
    }
    try target.trail.transaction { try target.trail.insert("item", [.exact("2")]) }
    func waited(_ sql: String, for wanted: String, seconds: Int = 30) throws -> Bool {
      for _ in 0..<10 * seconds {
        if try target.psql(sql) == wanted { return true }
        Clock.sleep(milliseconds: 100)
      }
      return false
    }
    try target.applying(as: "entitled") {
      #expect(try waited("SELECT count(*) FROM item", for: "2"))
      let keys = "SELECT count(*), bool_and(convalidated) FROM pg_constraint WHERE contype = 'f'"
      #expect(try target.psql(keys) == "0|")
      #expect(target.progress.snapshot.notices.contains { $0.contains("foreign key") && $0.contains("later") })
      try keeper.execute("COMMIT")
      #expect(try waited(keys, for: "1|t"))
    }
    #expect(try target.psql("SELECT count(*) FROM cairn.pending") == "0")
  }

  @Test func `a foreign key that another session holds up is created after a restart`() throws {
    let target = try started()
    let keeper = try PostgresConnection(target.server.url(target.name, user: "keeper"), application: "shop")
    try target.psql("GRANT REFERENCES ON s.k TO entitled")
    try target.shape(
      postgres: """
        CREATE SCHEMA s; CREATE TABLE s.k(id integer PRIMARY KEY, m text);
        CREATE TABLE part(id integer PRIMARY KEY, k integer REFERENCES s.k(id))
        """)
    try keeper.executeScript("BEGIN; LOCK TABLE s.k IN ROW EXCLUSIVE MODE")
    try target.trail.transaction {
      try target.trail.create("part")
      try target.trail.copy("part", [[.exact("1"), .exact("1")]])
    }
    #expect(problem(target) == nil)
    let keys = "SELECT count(*), bool_and(convalidated) FROM pg_constraint WHERE contype = 'f'"
    #expect(try target.psql(keys) == "0|")
    try keeper.execute("COMMIT")
    #expect(problem(target) == nil)
    #expect(try target.psql(keys) == "1|t")
  }

  /// Applies a row while the table is locked, until the holder of the lock is reported; then calls `release`.
  private func expectNamed(_ name: String, at target: PostgresTarget, hint: String, release: () throws -> Void) throws {
    try target.trail.transaction { try target.trail.insert("s.k", [.exact("3"), .exact("c")]) }
    let (stop, drain) = (StopSignal(), StopSignal())
    let (url, options, progress) = (
      target.server.url(target.name, user: "entitled"), target.options, target.progress
    )
    let (folder, trail) = (target.trail.trail, target.trail.name)
    let worker = try WorkerThread {
      let apply = try? PostgresApply(uri: url, trail: folder, name: trail, options: options, progress: progress)
      try? apply?.run(stop: stop, drain: drain)
    }
    for _ in 0..<300 where progress.snapshot.lockHolder == nil { Clock.sleep(milliseconds: 100) }
    #expect(target.progress.snapshot.lockHolder == name)
    #expect(target.progress.snapshot.notices.contains { $0.contains("table s.k, which \(name) holds; \(hint)") })
    try release()
    drain.set()
    _ = worker.join()
    #expect(target.progress.snapshot.lockHolder == nil)
    #expect(try target.psql("SELECT count(*) FROM s.k") == "3")
  }

  @Test func `a session that keeps a table locked is named`() throws {
    let target = try started()
    let keeper = try PostgresConnection(target.server.url(target.name, user: "keeper"), application: "shop")
    try keeper.executeScript("BEGIN; LOCK TABLE s.k")
    let name = "process \(keeper.backendPID) of role keeper (shop)"
    try expectNamed(name, at: target, hint: "end that session") { try keeper.execute("COMMIT") }
  }

  @Test func `a prepared transaction that keeps a table locked is named`() throws {
    var settings = PostgresServer.Settings()
    settings.more["max_prepared_transactions"] = "2"
    let target = try started(PostgresServer(settings))
    let keeper = try PostgresConnection(target.server.url(target.name, user: "keeper"), application: "shop")
    for statement in ["BEGIN", "LOCK TABLE s.k", "PREPARE TRANSACTION 'it''s'"] { try keeper.execute(statement) }
    try expectNamed(
      "prepared transaction 'it''s' of role keeper", at: target,
      hint: "if it is not wanted, run in that database: ROLLBACK PREPARED 'it''s'"
    ) { try keeper.execute("ROLLBACK PREPARED 'it''s'") }
  }
}
