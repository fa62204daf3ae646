import Changes
import Foundation
import HostilePeer
import TestServers
import Testing

extension DaemonScenarios {
  /// Definitions of tables that an invited peer pushes over TLS, into both engines: no text of them is run.
  @Suite struct HostileDefinitionTests {
    private static let sql = "DROP TABLE salaries; CREATE TABLE pwned(x int); --"

    /// A table with a row, in which one text is an attack.
    private static func segment(
      _ trail: String, _ engine: Engine, _ table: String, _ change: (inout TableSchema) -> Void
    ) -> HostileSegment {
      let isPostgres = engine == .postgres
      var schema = TableSchema(
        epoch: 1, engine: engine, namespace: isPostgres ? "public" : "", name: table,
        columns: [
          .init(name: "id", declaredType: isPostgres ? "bigint" : "INTEGER", isNotNull: true, keyOrdinal: 1),
          .init(name: "v", declaredType: isPostgres ? "text" : "TEXT"),
        ], createText: isPostgres ? "" : "CREATE TABLE \(table)(id INTEGER PRIMARY KEY, v TEXT)")
      change(&schema)
      var records = HostileRecords()
      records.begin(1)
      records.schema(1, schema)
      records.ddl(DDL(action: .create, before: 0, after: 1, text: sql))
      records.refresh(1, .start(.firstCopy, .byKey, estimatedRows: 1))
      records.refresh(1, .chunk(.keys(after: nil, through: nil)))
      records.row(1, isPostgres ? [.exact(Array("7".utf8)), .exact([])] : [.integer(7), .text([])])
      records.refresh(1, .end(rows: 1))
      records.commit(1, changes: 1)
      var segment = HostileSegment(trail)
      segment.block(records.bytes)
      return segment
    }

    private static let attacks: [@Sendable (inout TableSchema) -> Void] = [
      { $0.createText = "CREATE TABLE \($0.name)(id bigint PRIMARY KEY, v text); \(sql)" },
      { $0.createText = "CREATE TABLE \($0.name) AS SELECT 1 AS id, 'x' AS v FROM salaries; \(sql)" },
      { $0.columns[1].defaultText = "'x'); \(sql)" }, { $0.columns[1].declaredType = "text); \(sql)" },
      { $0.columns[1].collation = "\"C\"); \(sql)" },
      { $0.objects = [.init(name: "i", text: "CREATE INDEX i ON \($0.name)(v); \(sql)")] },
      { $0.columns[1].name = "v\u{600}\" text); \(sql)" },
    ]

    @Test func `no text of a definition is run in SQLite or in PostgreSQL`() throws {
      var conf = ""
      var database: String?
      let server = postgresProblem == nil ? try PostgresServer.shared : nil
      if let server {
        let (name, role) = ("attack_\(UUID().uuidString.prefix(8).lowercased())", "attacked")
        database = name
        if try server.psql("SELECT 1 FROM pg_roles WHERE rolname = '\(role)'").isEmpty {
          try server.psql("CREATE ROLE \(role) LOGIN; GRANT SET ON PARAMETER session_replication_role TO \(role)")
        }
        try server.createDatabase(name)
        try server.psql("ALTER DATABASE \(name) OWNER TO \(role); ALTER SCHEMA public OWNER TO \(role)", name)
        try server.psql(
          """
          SET ROLE \(role); CREATE TABLE salaries(id int PRIMARY KEY, pay int); INSERT INTO salaries VALUES (1, 100)
          """, name)
        conf += "[database.pg]\nurl = \"\(server.url(name, user: role))\"\n"
      }
      defer { if let database { try? server?.dropDatabase(database) } }
      // A trail and a table for each attack, from either engine; each goes into SQLite, and into PostgreSQL.
      var segments: [HostileSegment] = []
      for (number, attack) in Self.attacks.enumerated() {
        for engine in [Engine.sqlite, .postgres] {
          let (trail, table) = ("evil.a\(number)\(engine)", "t\(number)\(engine)")
          segments.append(Self.segment(trail, engine, table, attack))
          for target in ["erp"] + (server == nil ? [] : ["pg"]) {
            conf += "[apply.a\(number)-\(engine)-\(target)]\ntrail = \"\(trail)\"\ndatabase = \"\(target)\"\n"
            conf += "tables = [\"\(table)\"]\n"
          }
        }
      }
      let bench = try HostileBench(conf, isTLS: true)
      let push = try bench.joinOverTLS()
      for segment in segments { #expect(try push(segment) == "200", "\(bench.net.logs)") }
      func workers() -> [[String: Any]] {
        let all = bench.net.status(bench.hq)["workers"] as? [[String: Any]] ?? []
        return all.filter { ($0["name"] as? String ?? "").hasPrefix("apply.a") }
      }
      func hasDone(_ worker: [String: Any]) -> Bool {
        if worker["last_error"] is [String: Any] { return true }
        return (worker["rows"] as? Int ?? 0) > 0 || (worker["tables_waiting"] as? [Any])?.isEmpty == false
      }
      let count = segments.count * (server == nil ? 1 : 2)
      #expect(bench.net.wait(seconds: 60) { workers().count(where: hasDone) == count }, "\(workers())")
      let made = workers().count { ($0["rows"] as? Int ?? 0) > 0 }
      print("definitions that carry SQL: \(made) of \(count) tables were made of their other parts")
      #expect(made > count / 2)
      #expect(bench.isCanaryUntouched)
      #expect(try bench.net.bench.sqlite("erp.db", "SELECT name FROM sqlite_master WHERE name = 'pwned'") == "")
      if let server, let database {
        #expect(try server.psql("SELECT id, pay FROM salaries", database) == "1|100")
        #expect(try server.psql("SELECT to_regclass('pwned')", database) == "")
      }
      bench.net.endAll()
    }
  }
}

extension Scenarios {
  /// Attacks inside of a captured PostgreSQL database, against `cairn replicate` as it runs.
  @Suite struct DatabaseRoleTests {
    private static func emit(_ prefix: String, _ content: String) -> String {
      "SELECT pg_logical_emit_message(true, '\(prefix)', \(content));"
    }

    /// The content of a message about a schema change, as earlier versions believed it.
    private static func change(_ letter: String, _ relation: String) -> String {
      let fields = ["1", "DROP TABLE", "false", "DROP TABLE t", relation, ""].map { "\($0.utf8.count):\($0)" }
      return "convert_to('\(letter)6;\(fields.joined())', 'UTF8')"
    }

    @Test(.enabled(if: postgresProblem == nil))
    func `a role that may only connect drops nothing, hides nothing and stops no capture`() throws {
      let pair = try PairBench(.postgresToSQLite)
      let (low, owner) = ("low_\(pair.from.name)", "own_\(pair.from.name)")
      try pair.server.psql(
        """
        CREATE ROLE \(low) LOGIN; CREATE ROLE \(owner) LOGIN REPLICATION;
        ALTER DATABASE \(pair.from.name) OWNER TO \(owner)
        """)
      try pair.server.psql(
        """
        ALTER SCHEMA public OWNER TO \(owner); SET ROLE \(owner);
        CREATE TABLE t(id int PRIMARY KEY, a int); INSERT INTO t VALUES (1, 1); GRANT INSERT ON t TO \(low)
        """, pair.from.name)
      defer {
        pair.bench.killAll()
        try? pair.server.dropDatabase(pair.from.name)
        _ = try? pair.server.psql("DROP ROLE \(low); DROP ROLE \(owner)")
      }
      let running = try pair.bench.start(
        "cairn", Bench.cairn,
        [
          "replicate", "--from", pair.server.url(pair.from.name, user: owner), "--to", pair.to.url, "--state", "state",
        ])
      #expect(pair.waitForTarget("SELECT count(*) FROM t", "1"), "\(pair.said("cairn"))")
      func attack(_ sql: String) throws { try pair.server.psql(sql, pair.from.name, user: low) }
      let oid = try pair.server.psql("SELECT 't'::regclass::oid", pair.from.name)
      for prefix in ["cairn.ddl", "cairn.schema"] {
        try attack(Self.emit(prefix, Self.change("D", oid)))
        for content in ["'\\x53'::bytea", "'S6;1:1'::bytea", "'S9999999999;'::bytea"] {
          try attack(Self.emit(prefix, content))
        }
      }
      // A transaction that calls itself one of Cairn's, and a clock at its end.
      try attack("BEGIN; \(Self.emit("cairn", "'1'")) INSERT INTO t VALUES (2, 2); COMMIT")
      let note = Self.emit("cairn", "'1 b.x 1 18446744073709551615 00000001:00000000'")
      try attack("BEGIN; \(note) INSERT INTO t VALUES (3, 3); COMMIT")
      try pair.server.psql("SET ROLE \(owner); INSERT INTO t VALUES (4, 4)", pair.from.name)
      #expect(pair.waitForTarget("SELECT group_concat(id) FROM t", "1,2,3,4"), "\(pair.said("cairn"))")
      #expect(running.isRunning)
      #expect(pair.bench.stop(running) == 0, "\(pair.said("cairn"))")
      // And after a restart, which reads what the slot still has.
      try pair.server.psql("SET ROLE \(owner); INSERT INTO t VALUES (5, 5)", pair.from.name)
      let again = try pair.bench.run(
        Bench.cairn,
        [
          "replicate", "--from", pair.server.url(pair.from.name, user: owner), "--to", pair.to.url, "--state", "state",
          "--once",
        ])
      #expect(again.status == 0, "\(again.errors)")
      #expect(try pair.sql(pair.to, "SELECT group_concat(id) FROM t") == "1,2,3,4,5")
    }

    @Test(.enabled(if: postgresProblem == nil), arguments: ["cairn", "cairn_ddl"])
    func `the owner of a database becomes no superuser by the event triggers`(schema: String) throws {
      let pair = try PairBench(.postgresToSQLite)
      let app = "app_\(pair.from.name)"
      func asApp(_ sql: String) throws { try pair.server.psql(sql, pair.from.name, user: app) }
      func isSuperuser() throws -> Bool {
        try pair.server.psql("SELECT rolsuper FROM pg_roles WHERE rolname = '\(app)'") == "t"
      }
      try pair.server.psql("CREATE ROLE \(app) LOGIN; ALTER DATABASE \(pair.from.name) OWNER TO \(app)")
      defer {
        pair.bench.killAll()
        try? pair.server.dropDatabase(pair.from.name)
        _ = try? pair.server.psql("DROP ROLE \(app)")
      }
      try asApp("CREATE SCHEMA app; CREATE TABLE app.t(id int PRIMARY KEY); CREATE SCHEMA \(schema)")
      // A superuser replicates once, as the documentation advises. Then the owner replaces every function that it can.
      let outcome = try pair.once()
      let functions = ["ddl_write(text, text[], text)", "ddl_command_end()", "sql_drop()", "table_rewrite()"]
      for name in functions {
        let kind = name.hasSuffix("()") ? "event_trigger LANGUAGE plpgsql" : "void LANGUAGE plpgsql"
        _ = try? asApp("DROP FUNCTION \(schema).\(name) CASCADE")
        _ = try? asApp(
          """
          CREATE OR REPLACE FUNCTION \(schema).\(name) RETURNS \(kind) AS $$ BEGIN
          EXECUTE 'ALTER ROLE \(app) SUPERUSER'; EXCEPTION WHEN OTHERS THEN NULL; END $$
          """)
      }
      _ = try? asApp("CREATE TABLE app.mine(id int PRIMARY KEY); ALTER TABLE app.mine ADD x int; DROP TABLE app.mine")
      _ = try pair.once()
      _ = try? asApp("CREATE TABLE app.mine(id int PRIMARY KEY); DROP TABLE app.mine")
      #expect(try !isSuperuser())
      #expect(outcome.status != 0 && outcome.errors.contains("[privilege-missing]"), "\(outcome)")
    }
  }
}
