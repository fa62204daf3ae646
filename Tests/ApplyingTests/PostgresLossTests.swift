import Applying
import Changes
import Foundation
import PostgresKit
import SystemKit
import TestServers
import Testing

/// Servers and connections that go away, rights that are missing, others who are at work in the target.
@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
struct PostgresLossTests {
  /// Runs apply until `stop` is set by the body's end.
  private func running(_ target: PostgresTarget, _ body: () throws -> Void) throws -> CairnError? {
    let (stop, drain) = (StopSignal(), StopSignal())
    let apply = UncheckedApply(try target.open())
    let worker = try WorkerThread<CairnError?> {
      do {
        try apply.value.run(stop: stop, drain: drain)
        return nil
      } catch { return error as? CairnError ?? CairnError(.bug, "\(error)", hint: "") }
    }
    defer { stop.set() }
    try body()
    drain.set()
    return worker.join() ?? nil
  }

  private struct UncheckedApply: @unchecked Sendable {
    let value: PostgresApply
    init(_ value: PostgresApply) { self.value = value }
  }

  /// Invariant 4, where the role may have no replication origin: what a killed cairn was about to commit comes first.
  @Test func `a session of the same trail that has not ended is waited for`() throws {
    let target = try PostgresTarget()
    let before = try PostgresConnection(target.url, application: "cairn apply \(target.trail.name)")
    let (ended, box) = (Clock.monotonicMilliseconds + 300, UncheckedConnection(before))
    let killed = try WorkerThread {
      Clock.sleep(milliseconds: 300)
      _ = try? box.value.execute("SET application_name = ended")
    }
    _ = try target.open()
    #expect(Clock.monotonicMilliseconds >= ended)
    _ = killed.join()
  }

  /// The error names who is in the way.
  @Test func `a session of the same trail that does not end is named`() throws {
    let target = try PostgresTarget()
    let before = try PostgresConnection(target.url, application: "cairn apply \(target.trail.name)")
    let process = try before.first("SELECT pg_backend_pid()") ?? ""
    let error = failure { _ = try target.open() }
    #expect(error?.code == .databaseBusy, "\(String(describing: error))")
    #expect(error?.message.contains("process \(process) of role postgres") == true, "\(error?.message ?? "")")
  }

  /// Any role may connect, take advisory locks and give its sessions any name.
  @Test func `a role that may only connect keeps no apply from its work`() throws {
    let target = try PostgresTarget()
    try target.psql(
      "DO $$ BEGIN CREATE ROLE low LOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN END $$")
    let name = target.trail.name.description
    let low = try PostgresConnection(target.server.url(target.name, user: "low"), application: "cairn apply \(name)")
    for key in ["hashtext('cairn')", "hashtext('cairn.ddl')"] { try low.execute("SELECT pg_advisory_lock(\(key))") }
    try low.run("SELECT pg_advisory_lock(hashtextextended('cairn apply ' || $1, 0))", [name])
    try target.begin("CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT)", "t", [[1, "a"]])
    try target.trail.transaction { try target.trail.insert("t", [2, "b"]) }
    try target.replay()
    #expect(try target.psql("SELECT count(*) FROM t") == "2")
    #expect(throws: PostgresError.self) { try low.execute("LOCK TABLE cairn.checkpoint IN ACCESS SHARE MODE") }
    withExtendedLifetime(low) {}
  }

  private struct UncheckedConnection: @unchecked Sendable {
    let value: PostgresConnection
    init(_ value: PostgresConnection) { self.value = value }
  }

  @Test func `connections that are ended under load lose nothing and double nothing`() throws {
    let target = try PostgresTarget()
    try target.begin("CREATE TABLE t(id INTEGER PRIMARY KEY, v INTEGER)", "t", [])
    let error = try running(target) {
      for round in 0..<50 {
        for n in 0..<20 {
          try target.trail.transaction {
            let id = Int64(round * 100 + n)
            try target.trail.insert("t", [.integer(id), 0])
            try target.trail.update("t", [.integer(id), 0], [nil, .integer(id)])
          }
        }
        try target.psql(
          "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '\(target.name)' AND application_name LIKE 'cairn%'"
        )
        Thread.sleep(forTimeInterval: Double.random(in: 0...0.02))
      }
    }
    #expect(error == nil, "\(String(describing: error))")
    #expect(try target.psql("SELECT count(*), count(*) FILTER (WHERE id = v) FROM t") == "1000|1000")
  }

  @Test func `a server that restarts or crashes is waited for`() throws {
    let server = try PostgresServer()
    let target = try PostgresTarget(server)
    try target.begin("CREATE TABLE t(id INTEGER PRIMARY KEY, v INTEGER)", "t", [])
    let error = try running(target) {
      for round in 0..<6 {
        for n in 0..<30 {
          try target.trail.transaction { try target.trail.insert("t", [.integer(Int64(round * 100 + n)), 1]) }
        }
        try server.restart(round % 2 == 0 ? .fast : .immediate)
      }
    }
    #expect(error == nil, "\(String(describing: error))")
    #expect(try target.psql("SELECT count(*), sum(v) FROM t") == "180|180")
  }

  @Test func `apply waits for a lock that a session holds, and the wait can be ended`() throws {
    let target = try PostgresTarget()
    try target.begin("CREATE TABLE t(id INTEGER PRIMARY KEY, v INTEGER)", "t", [[1, 1]])
    let other = try PostgresConnection(target.url)
    try other.executeScript("BEGIN; UPDATE public.t SET v = 1")
    try target.trail.transaction { try target.trail.update("t", [1, 1], [nil, 2]) }
    let stop = StopSignal()
    let apply = UncheckedApply(try target.open())
    let worker = try WorkerThread<Bool> { (try? apply.value.run(stop: stop, drain: StopSignal())) != nil }
    Thread.sleep(forTimeInterval: 0.3)
    let began = Date()
    stop.set()
    #expect(worker.join() == true)
    #expect(Date().timeIntervalSince(began) < 2)
    try other.execute("ROLLBACK")
    try target.replay()
    #expect(try target.psql("SELECT v FROM t") == "2")
  }

  @Test func `deadlocks are tried again`() throws {
    let target = try PostgresTarget()
    try target.begin("CREATE TABLE t(id INTEGER PRIMARY KEY, v INTEGER)", "t", [[1, 0], [2, 0]])
    let other = try PostgresConnection(target.url)
    try other.executeScript("SET deadlock_timeout = '10s'; BEGIN; UPDATE public.t SET v = 0 WHERE id = 2")
    try target.trail.transaction {
      try target.trail.update("t", [1, 0], [nil, 1])
      try target.trail.update("t", [2, 0], [nil, 1])
    }
    let error = try running(target) {
      Thread.sleep(forTimeInterval: 0.3)
      try other.execute("UPDATE public.t SET v = 0 WHERE id = 1")
      try other.execute("COMMIT")
    }
    #expect(error == nil, "\(String(describing: error))")
    #expect(try target.psql("SELECT * FROM t ORDER BY id") == "1|1\n2|1")
  }

  @Test func `a role needs the right to silence triggers, and a schema of ours`() throws {
    let target = try PostgresTarget()
    let role = "role_" + target.name
    try target.psql("CREATE ROLE \(role) LOGIN")
    defer { _ = try? target.psql("DROP OWNED BY \(role); DROP ROLE \(role)") }
    let first = failure { _ = try target.open(user: role) }
    #expect(first?.code == .privilegeMissing)
    #expect(first?.hint.contains("GRANT SET ON PARAMETER session_replication_role TO \"\(role)\"") == true)
    try target.psql("GRANT SET ON PARAMETER session_replication_role TO \(role)")
    let second = failure { _ = try target.open(user: role) }
    #expect(second?.code == .privilegeMissing, "\(String(describing: second))")
    #expect(second?.hint.contains("GRANT CREATE ON DATABASE \"\(target.name)\" TO \"\(role)\"") == true)
    #expect(
      failure { _ = try PostgresApply.prove(target.server.url(target.name, user: role)) }?.code == .privilegeMissing)
    try target.psql("GRANT CREATE ON DATABASE \(target.name) TO \(role); GRANT CREATE ON SCHEMA public TO \(role)")
    _ = try PostgresApply.prove(target.server.url(target.name, user: role))
    #expect(try target.psql("SELECT count(*) FROM pg_namespace WHERE nspname = 'cairn'") == "0")
    try target.trail.shape("CREATE TABLE t(id INTEGER PRIMARY KEY)")
    try target.trail.transaction {
      try target.trail.create("t")
      try target.trail.copy("t", [[1]])
    }
    try target.open(user: role).drain()
    #expect(try target.psql("SELECT * FROM t") == "1")
    try target.psql("REVOKE SET ON PARAMETER session_replication_role FROM \(role)")
  }

  @Test func `a database that cannot hold every text, or is not there, is refused at once`() throws {
    let target = try PostgresTarget()
    let server = target.server
    try server.psql("CREATE DATABASE \(target.name)_latin TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'")
    defer { try? server.dropDatabase(target.name + "_latin") }
    #expect(failure { _ = try PostgresApply.prove(server.url(target.name + "_latin")) }?.code == .serverSetting)
    #expect(failure { _ = try PostgresApply.prove(server.url("nowhere")) }?.code == .databaseMissing)
    #expect(failure { _ = try PostgresApply.prove("postgresql:///x?host=/nowhere") }?.code == .databaseUnreachable)
  }

  @Test func `a checkpoint that another apply moved ends this one`() throws {
    let target = try PostgresTarget()
    try target.begin("CREATE TABLE t(id INTEGER PRIMARY KEY)", "t", [])
    let apply = try target.open()
    try target.psql("UPDATE cairn.checkpoint SET content_offset = content_offset + 1")
    try target.trail.transaction { try target.trail.insert("t", [1]) }
    #expect(failure { try apply.drain() }?.code == .checkpointMoved)
    #expect(try target.psql("SELECT count(*) FROM t") == "0")
  }

  @Test func `the knowledge of an older version about tables is kept`() throws {
    let target = try PostgresTarget()
    try target.begin("CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT)", "t", [[1, "a"]])
    try target.psql(
      """
      CREATE TABLE cairn.older(source text PRIMARY KEY, schema_name text NOT NULL, table_name text NOT NULL,
        created boolean NOT NULL, loaded boolean NOT NULL, refreshing integer NOT NULL, emptied boolean NOT NULL,
        existing text NOT NULL, UNIQUE (schema_name, table_name));
      INSERT INTO cairn.older SELECT source, schema_name, table_name, created, loaded, refreshing, emptied, existing
        FROM cairn.table_state;
      DROP TABLE cairn.table_state;
      ALTER TABLE cairn.older RENAME TO table_state;
      ALTER TABLE cairn.table_state RENAME CONSTRAINT older_pkey TO table_state_pkey;
      ALTER TABLE cairn.table_state RENAME CONSTRAINT older_schema_name_table_name_key
        TO table_state_schema_name_table_name_key;
      """)
    try target.trail.transaction { try target.trail.insert("t", [2, "b"]) }
    try target.replay()
    #expect(try target.psql("SELECT string_agg(v, '' ORDER BY id) FROM t") == "ab")
    #expect(try target.psql("SELECT trail, source, created FROM cairn.table_state") == "far.shop|t|t")
  }
}
