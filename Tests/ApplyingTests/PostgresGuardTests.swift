import Changes
import Conflicts
import Foundation
import Mapping
import PostgresKit
import SystemKit
import TestServers
import Testing

@testable import Applying

/// Triggers that refuse writes of applications (`local_writes = "refuse"`) at tables of other roles. Only the table
/// whose owner prevents them waits.
@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
struct PostgresGuardTests {
  private static let triggers = "SELECT count(*) FROM pg_trigger WHERE tgfoid = to_regproc('cairn.refuse')"

  /// A target of role `entitled`, which is no superuser.
  private func empty() throws -> PostgresTarget {
    let target = try PostgresTarget()
    for role in ["entitled", "keeper"] {
      try target.psql(
        "DO $$ BEGIN CREATE ROLE \(role) LOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN END $$")
    }
    try target.psql(
      """
      GRANT SET ON PARAMETER session_replication_role TO entitled; ALTER DATABASE \(target.name) OWNER TO entitled;
      ALTER SCHEMA public OWNER TO entitled
      """)
    return target
  }

  /// A target of role `entitled`, with a table of role `keeper` that is guarded unless `writes` says otherwise.
  private func started(_ writes: LocalWrites = .refuse) throws -> PostgresTarget {
    let target = try empty()
    try target.psql(
      """
      CREATE SCHEMA s AUTHORIZATION keeper; SET ROLE keeper; CREATE TABLE s.k(id integer PRIMARY KEY, m text);
      GRANT USAGE ON SCHEMA s TO entitled; GRANT ALL ON s.k TO entitled
      """)
    try target.shape(
      postgres: """
        CREATE TABLE item(id integer PRIMARY KEY); CREATE SCHEMA s; CREATE TABLE s.k(id integer PRIMARY KEY, m text)
        """)
    target.options.localWrites = LocalWritesPlan(tables: [.init(from: "s.k", writes)])
    try target.trail.transaction {
      for table in ["item", "s.k"] { try target.trail.create(table) }
      try target.trail.copy("item", [[.exact("1")]])
      try target.trail.copy("s.k", [[.exact("1"), .exact("a")]])
    }
    #expect(failure(target) == nil)
    #expect(try target.psql(Self.triggers) == (writes == .refuse ? "2" : "0"))
    return target
  }

  private func failure(_ target: PostgresTarget) -> CairnError? {
    do { try target.open(user: "entitled").drain() } catch { return error as? CairnError }
    return nil
  }

  private func addRows(_ target: PostgresTarget, _ id: Int) throws {
    try target.trail.transaction {
      try target.trail.insert("item", [.exact("\(id)")])
      try target.trail.insert("s.k", [.exact("\(id)"), .exact("b")])
    }
  }

  private func rows(_ target: PostgresTarget) throws -> String {
    try target.psql("SELECT (SELECT count(*) FROM item), (SELECT count(*) FROM s.k)")
  }

  private func becomes(_ target: PostgresTarget, _ sql: String, _ wanted: String) throws -> Bool {
    for _ in 0..<300 {
      if try target.psql(sql) == wanted { return true }
      Clock.sleep(milliseconds: 50)
    }
    return false
  }

  @Test(arguments: ["cairn_refuse", "cairn_refuse_truncate"])
  func `only the trigger that the owner dropped is made again`(_ name: String) throws {
    let target = try started()
    let kept = "SELECT oid FROM pg_trigger WHERE tgname ~ '^cairn_refuse' AND tgname <> '\(name)'"
    let before = try target.psql(kept)
    try target.psql("SET ROLE keeper; DROP TRIGGER \(name) ON s.k")
    try addRows(target, 2)
    #expect(failure(target) == nil)
    #expect(try target.psql(Self.triggers) == "2")
    #expect(try target.psql(kept) == before)
    #expect(try rows(target) == "2|2")
  }

  @Test func `a table whose triggers apply may not make is suspended, and others go on`() throws {
    let target = try started()
    try target.psql("SET ROLE keeper; DROP TRIGGER cairn_refuse ON s.k; REVOKE TRIGGER ON s.k FROM entitled")
    try addRows(target, 2)
    #expect(failure(target)?.code == .schemaStopped)
    #expect(try rows(target) == "2|1")
    let waiting = try #require(target.progress.snapshot.waiting.first)
    #expect(waiting.name == "s.k" && waiting.code == .privilegeMissing)
    #expect(waiting.message.contains("\"s\".\"k\"") && waiting.message.contains("role entitled"), "\(waiting.message)")
    #expect(waiting.hint.contains("GRANT TRIGGER ON \"s\".\"k\" TO \"entitled\""), "\(waiting.hint)")
    try target.psql("SET ROLE keeper; GRANT TRIGGER ON s.k TO entitled")
    #expect(failure(target) == nil)
    #expect(try target.psql(Self.triggers) == "2")
    #expect(try rows(target) == "2|2")
    #expect(target.progress.snapshot.waiting.isEmpty)
  }

  @Test func `a running apply continues a table when its triggers can be made again`() throws {
    let target = try started()
    try target.psql("SET ROLE keeper; DROP TRIGGER cairn_refuse ON s.k; REVOKE TRIGGER ON s.k FROM entitled")
    try addRows(target, 2)
    try target.applying(as: "entitled") {
      #expect(try becomes(target, "SELECT count(*) FROM item", "2"))
      try target.psql("SET ROLE keeper; GRANT TRIGGER ON s.k TO entitled")
      #expect(try becomes(target, "SELECT count(*) FROM s.k", "2"))
      #expect(try target.psql(Self.triggers) == "2")
    }
  }

  @Test func `a trigger of the owner with the name of one of ours suspends its table only`() throws {
    let target = try started()
    try target.psql(
      """
      SET ROLE keeper; DROP TRIGGER cairn_refuse ON s.k;
      CREATE FUNCTION s.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
      CREATE TRIGGER cairn_refuse BEFORE INSERT ON s.k FOR EACH ROW EXECUTE FUNCTION s.f()
      """)
    try addRows(target, 2)
    #expect(failure(target)?.code == .schemaStopped)
    #expect(try rows(target) == "2|1")
    let waiting = try #require(target.progress.snapshot.waiting.first)
    #expect(waiting.name == "s.k" && waiting.message.contains("cairn_refuse"), "\(waiting)")
    try target.psql("SET ROLE keeper; DROP TRIGGER cairn_refuse ON s.k")
    #expect(failure(target) == nil)
    #expect(try rows(target) == "2|2")
  }

  @Test func `triggers that apply may not drop stay, and apply goes on`() throws {
    let target = try started()
    target.options.localWrites = LocalWritesPlan()
    try addRows(target, 2)
    #expect(failure(target) == nil)
    #expect(try rows(target) == "2|2")
    let notices = target.progress.snapshot.notices
    #expect(
      notices.contains { $0.contains("DROP TRIGGER \"cairn_refuse\" ON \"s\".\"k\"") && $0.contains("entitled") },
      "\(notices)")
  }

  @Test func `tables go on while a session keeps a table from its triggers, and the session is named`() throws {
    let target = try started(.stop)
    target.options.localWrites = LocalWritesPlan(tables: [.init(from: "s.k", .refuse)])
    let keeper = try PostgresConnection(target.server.url(target.name, user: "keeper"), application: "shop")
    try keeper.executeScript("BEGIN; INSERT INTO s.k VALUES (77, 'x')")
    try addRows(target, 2)
    try target.applying(as: "entitled") {
      #expect(try becomes(target, "SELECT count(*) FROM s.k", "2"))
      #expect(try rows(target) == "2|2")
      #expect(try target.psql(Self.triggers) == "0")
      let name = "process \(keeper.backendPID) of role keeper (shop)"
      let open = target.progress.snapshot.guards.open.first
      #expect(open?.message.contains(name) == true, "\(String(describing: open))")
      #expect(target.progress.snapshot.notices.contains { $0.contains(name) && $0.contains("\"s\".\"k\"") })
      try keeper.execute("ROLLBACK")
      #expect(try becomes(target, Self.triggers, "2"))
      for _ in 0..<40 where target.progress.snapshot.guards.open.first != nil { Clock.sleep(milliseconds: 50) }
      #expect(target.progress.snapshot.guards.open.isEmpty)
    }
  }

  @Test func `a run to the end of the trail reports triggers that a session prevented`() throws {
    let target = try started(.stop)
    target.options.localWrites = LocalWritesPlan(tables: [.init(from: "s.k", .refuse)])
    let keeper = try PostgresConnection(target.server.url(target.name, user: "keeper"), application: "shop")
    try keeper.executeScript("BEGIN; INSERT INTO s.k VALUES (77, 'x')")
    try addRows(target, 2)
    let error = failure(target)
    #expect(error?.code == .databaseBusy && error?.message.contains("(shop)") == true, "\(String(describing: error))")
    #expect(try rows(target) == "2|2")
    try keeper.execute("ROLLBACK")
    #expect(failure(target) == nil)
    #expect(try target.psql(Self.triggers) == "2")
  }

  @Test func `a session that keeps a new table from ANALYZE holds up nothing`() throws {
    let target = try empty()
    try target.trail.shape("CREATE TABLE t(id INTEGER PRIMARY KEY, v INTEGER)")
    try target.trail.transaction { try target.trail.create("t") }
    #expect(failure(target) == nil)
    let other = try PostgresConnection(target.url, application: "shop")
    try other.executeScript("BEGIN; LOCK TABLE public.t IN SHARE UPDATE EXCLUSIVE MODE")
    try target.trail.transaction { try target.trail.copy("t", [[1, 1]]) }
    try target.applying(as: "entitled") {
      #expect(try becomes(target, "SELECT count(*) FROM t", "1"))
      try other.execute("ROLLBACK")
    }
  }
}
