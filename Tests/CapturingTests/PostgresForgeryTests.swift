import Applying
import Changes
import Foundation
import PostgresKit
import SystemKit
import TestServers
import Testing
import Trails

@testable import Capturing

extension PostgresCapturing {
  /// Attacks by a role that may connect to the captured database, and nothing else.
  @Suite struct ForgeryTests {
    private static let table = "CREATE TABLE t(id int PRIMARY KEY, a int); INSERT INTO t VALUES (1, 1)"

    /// A captured database, its trail's last transaction, and what the attacker's statements begin with.
    private func attacked(
      _ schema: String = table, _ body: (_ origin: PostgresOrigin, _ known: UInt64, _ low: String) throws -> Void
    ) throws {
      let origin = try PostgresOrigin(schema)
      try origin.makeKey()
      try origin.take()
      let role = "low_\(origin.database)"
      try origin.run("CREATE ROLE \(role)")
      defer { _ = try? origin.run("DROP OWNED BY \(role); DROP ROLE \(role)") }
      try body(origin, origin.lastNumber, "SET ROLE \(role);")
    }

    private func emit(_ prefix: String, _ content: String) -> String {
      "SELECT pg_logical_emit_message(true, '\(prefix)', \(content));"
    }

    /// The content of a schema message, as its functions write it.
    private func schemaMessage(_ letter: String, relation: String, document: String = "") -> String {
      let fields = ["1", "DROP TABLE", "false", "DROP TABLE t", relation, ""].map { "\($0.utf8.count):\($0)" }
      return "convert_to(\("\(letter)6;\(fields.joined())\(document)".quotedText), 'UTF8')"
    }

    @Test(arguments: ["cairn.ddl", "cairn.schema"])
    func `a forged DROP drops no table`(_ prefix: String) throws {
      try attacked { origin, known, low in
        let oid = try origin.run("SELECT 't'::regclass::oid")
        let forged = schemaMessage("D", relation: oid)
        try origin.run("\(low) \(emit(prefix, forged)) \(emit(prefix, "sha256('x') || \(forged)"))")
        try origin.take()
        #expect(try origin.lines(from: known) == [])
        try origin.run("INSERT INTO t VALUES (2, 2)")
        try origin.take()
        #expect(try origin.lines(from: known) == ["insert t id=2 a=2"])
      }
    }

    @Test(arguments: ["cairn.ddl", "cairn.schema"])
    func `a forged shape is no shape, and one that cannot be read is no end`(_ prefix: String) throws {
      try attacked { origin, known, low in
        let oid = try origin.run("SELECT 't'::regclass::oid")
        let document =
          try PostgresConnection(origin.uri)
          .first("SELECT \(CatalogDocument.sql(of: "$1::oid"))", [oid])?.replacing("7:integer", with: "4:text") ?? ""
        #expect(document.contains("4:text"))
        for content in [
          schemaMessage("S", relation: oid, document: document), "'\\x53'", "'S6;1:1'", "'S9999999999;'", "''",
        ] {
          try origin.run(
            "\(low) \(emit(prefix, "\(content)::bytea")) \(emit(prefix, "sha256('x') || \(content)::bytea"))")
        }
        try origin.run("INSERT INTO t VALUES (2, 2)")
        try origin.take()
        #expect(try origin.lines(from: known) == ["insert t id=2 a=2"])
        try origin.take()
      }
    }

    @Test func `the memory of a large message is given back, and a barrier of any size is nothing`() throws {
      try attacked { origin, known, low in
        let slot = "FROM pg_replication_slots WHERE database = current_database()"
        let attack = "\(low) \(emit("cairn.barrier", "repeat('x', 1000000)")) \(emit("x", "repeat('x', 70000000)"))"
        let (server, database, stop) = (origin.server, origin.database, StopSignal())
        try origin.with { capture in
          let attacker = try WorkerThread<[String]>({
            defer { stop.set() }
            func run(_ sql: String) -> String { (try? server.psql(sql, database)) ?? "" }
            func wait(_ sql: String, _ isDone: (String) -> Bool) -> String {
              for _ in 0..<300 {
                let found = run(sql)
                if isDone(found) { return found }
                Clock.sleep(milliseconds: 100)
              }
              return ""
            }
            let before = wait("SELECT active_pid \(slot)") { !$0.isEmpty }
            _ = run(attack)
            let after = wait("SELECT active_pid \(slot)") { !$0.isEmpty && $0 != before }
            // Confirmed before: the server does not send the message again.
            let isConfirmed = wait("SELECT pg_current_wal_lsn() - confirmed_flush_lsn < 10000000 \(slot)") { $0 == "t" }
            _ = run("INSERT INTO t VALUES (2, 2)")
            let end = run("SELECT pg_current_wal_lsn()")
            return [before, after, isConfirmed, wait("SELECT confirmed_flush_lsn >= '\(end)' \(slot)") { $0 == "t" }]
          })
          try capture.run(stop: stop, untilCaughtUp: false)
          let found = attacker.join() ?? []
          #expect(found.count == 4 && found[0] != found[1] && found.allSatisfy { !$0.isEmpty }, "\(found)")
        }
        #expect(try origin.lines(from: known) == ["insert t id=2 a=2"])
      }
    }

    @Test func `a server that lets only Cairn send messages is captured like any other`() throws {
      try attacked { origin, known, low in
        try origin.run(
          """
          DO $$ DECLARE f regprocedure; BEGIN FOR f IN SELECT oid FROM pg_proc WHERE proname = 'pg_logical_emit_message'
          LOOP EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', f); END LOOP; END $$
          """)
        #expect(throws: (any Error).self) { try origin.run("\(low) \(emit("x", "'y'"))") }
        try origin.run("INSERT INTO t VALUES (2, 2); ALTER TABLE t ADD COLUMN b int; INSERT INTO t VALUES (3, 3, 3)")
        try origin.take()
        #expect(
          try origin.lines(from: known).filter { $0.hasPrefix("insert") } == [
            "insert t id=2 a=2", "insert t id=3 a=3 b=3",
          ])
      }
    }

    @Test func `a forged note hides no transaction, and is logged with it`() throws {
      try attacked { origin, known, low in
        try origin.run("GRANT INSERT ON t TO \(low.dropFirst(9).dropLast())")
        try origin.run("\(low) BEGIN; \(emit("cairn", "'1'")) INSERT INTO t VALUES (2, 2); COMMIT")
        let note = AppliedNote(trail: "b.x", number: 1, clock: 1, position: .start).text
        try origin.run("\(low) BEGIN; \(emit("cairn", "'\(note)'")) INSERT INTO t VALUES (3, 3); COMMIT")
        let said = Notices()
        try origin.take(said: said.add)
        #expect(try origin.lines(from: known) == ["insert t id=2 a=2", "insert t id=3 a=3"])
        #expect(said.all.filter { $0.contains("that Cairn did not write") }.count == 1)
      }
    }

    @Test func `a clock at its end stops no trail, forged or not`() throws {
      try attacked { origin, known, low in
        let note = AppliedNote(trail: "b.x", number: 1, clock: .max, position: .start).text
        try origin.run("\(low) \(emit("cairn", "'\(note)'"))")
        try origin.run("INSERT INTO t VALUES (2, 2)")
        try origin.run(PostgresOrigin.message("cairn", "convert_to('\(note)', 'UTF8')"))
        try origin.run("INSERT INTO t VALUES (3, 3)")
        try origin.take()
        #expect(try origin.lines(from: known) == ["insert t id=2 a=2", "insert t id=3 a=3"])
        let headers = try transactions(of: origin.trailFolder).map(\.header).filter { $0.number > known }
        let later = UInt64(Clock.system.microseconds()) + 86_500_000_000
        #expect(headers.allSatisfy { $0.clock < later })
      }
    }

    @Test func `a message that was seen in one transaction is nothing in another`() throws {
      try attacked { origin, known, _ in
        let call = MessageKey.call("cairn", "'1'::bytea")
        let content = call.dropFirst("pg_logical_emit_message(true, 'cairn', ".count).dropLast()
        try origin.run("CREATE TABLE seen AS SELECT \(content) AS message FROM cairn.key AS k")
        try origin.run("BEGIN; \(emit("cairn", "(SELECT message FROM seen)")) INSERT INTO t VALUES (2, 2); COMMIT")
        try origin.run("BEGIN; SELECT \(call) FROM cairn.key AS k; INSERT INTO t VALUES (3, 3); COMMIT")
        try origin.take(TablePatterns(["t"]))
        #expect(try origin.lines(from: known) == ["insert t id=2 a=2"])
      }
    }

    @Test func `a request for rows and for progress takes the key`() throws {
      try attacked { origin, known, low in
        #expect(origin.code { try self.ask(origin, low) } == .privilegeMissing)
        let slot = try origin.run("SELECT slot_name FROM pg_replication_slots WHERE database = current_database()")
        var writer = ByteWriter()
        RequestMessage(slot: slot, namespace: "public", table: "t", isWhole: true, keys: []).encode(to: &writer)
        let content = "'\\x\(Array(writer.bytes).hex)'::bytea"
        for prefix in ["cairn.rows", "cairn.request"] {
          try origin.run("\(low) \(emit(prefix, content)) \(emit(prefix, "sha256('x') || \(content)"))")
        }
        try origin.run("\(low) \(emit("cairn.progress", "''"))")
        try origin.take()
        #expect(try origin.lines(from: known) == [])
      }
    }

    // No `await` while the role is dropped: others' grants wait for its session, on all threads that could go on here.
    @Test func `the key is made while another session drops a role that would read it`() throws {
      let origin = try PostgresOrigin(Self.table)
      let role = "dropped_\(origin.database)"
      try origin.run("CREATE ROLE \(role) REPLICATION")
      let (other, uri) = (try PostgresConnection(origin.uri), origin.uri)
      try other.execute("BEGIN")
      try other.execute("DROP ROLE \(role)")
      let made = try WorkerThread { Result { try MessageKey.ensure(PostgresConnection(uri)) } }
      let waiting = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
      while try origin.run(waiting).isEmpty { usleep(10_000) }
      try other.execute("COMMIT")
      try #require(made.join()).get()
      try origin.take()
      try origin.run("INSERT INTO t VALUES (2, 2)")
      let known = try origin.lastNumber
      try origin.take()
      #expect(try origin.lines(from: known) == ["insert t id=2 a=2"])
    }

    private func ask(_ origin: PostgresOrigin, _ low: String) throws {
      let connection = try PostgresConnection(origin.uri)
      try connection.execute(low)
      try MessageKey.emit(PostgresCapture.progressPrefix, [], connection)
    }

    @Test func `random messages neither stop capture nor change the trail`() throws {
      try attacked { origin, known, low in
        var random = SystemRandomNumberGenerator()
        let prefixes = [
          "cairn", "cairn.ddl", "cairn.schema", "cairn.rows", "cairn.request", "cairn.barrier", "cairn.progress",
          "cairn.pad", "cairn.", "cairn_", "kairn",
        ]
        let starts = ["", "S6;", "D6;1:1", "1 a.b 1 ", "watch ", "\u{1}\u{0}", "S6;1:1-5:false-"]
        var expected: [String] = []
        for id in 2..<(isSoak ? 400 : 40) {
          var messages = ""
          for _ in 0..<5 {
            let prefix = prefixes.randomElement(using: &random) ?? ""
            let start = Array((starts.randomElement(using: &random) ?? "").utf8)
            let rest = (0..<Int.random(in: 0..<80, using: &random)).map { _ in
              UInt8.random(in: .min ... .max, using: &random)
            }
            let isTransactional = Int.random(in: 0..<4, using: &random) > 0
            messages +=
              "SELECT pg_logical_emit_message(\(isTransactional), '\(prefix)', '\\x\((start + rest).hex)'::bytea);"
          }
          try origin.run("BEGIN; \(low) \(messages) RESET ROLE; INSERT INTO t VALUES (\(id), \(id)); COMMIT")
          expected.append("insert t id=\(id) a=\(id)")
          if id % 10 == 0 { try origin.take() }
        }
        try origin.take()
        #expect(try origin.lines(from: known) == expected)
        #expect(try origin.ddl().count == 1)
      }
    }

    @Test func `messages of an earlier build count up to the key that its successor makes`() throws {
      let origin = try PostgresOrigin(Self.table)
      try origin.take()
      let known = try origin.lastNumber
      let note = AppliedNote(trail: "b.x", number: 7, clock: 1, position: .start).text
      let applied = "BEGIN; \(emit("cairn", "'\(note)'")) INSERT INTO t VALUES "
      try origin.run("\(applied) (2, 2); COMMIT")
      let connection = try PostgresConnection(origin.uri)
      try connection.execute("CREATE SCHEMA cairn")
      try connection.transaction { try MessageKey.install(.own, connection, hadMessages: true) }
      try origin.run("\(applied) (3, 3); COMMIT")
      try origin.take()
      #expect(try origin.lines(from: known) == ["insert t id=3 a=3"])
      #expect(try transactions(of: origin.trailFolder).last?.header.dependencies == [.init(origin: "b.x", number: 7)])
    }
  }

  /// Attacks by the owner of the captured database.
  @Suite struct DatabaseOwnerTests {
    private func owned(_ body: (_ origin: PostgresOrigin, _ app: String) throws -> Void) throws {
      let origin = try PostgresOrigin("CREATE TABLE t(id int PRIMARY KEY)")
      let role = "app_\(origin.database)"
      try origin.run(
        "CREATE ROLE \(role); ALTER DATABASE \(origin.database) OWNER TO \(role); ALTER TABLE t OWNER TO \(role)")
      defer { _ = try? origin.run("REASSIGN OWNED BY \(role) TO postgres; DROP OWNED BY \(role); DROP ROLE \(role)") }
      try body(origin, role)
      #expect(try origin.run("SELECT rolsuper FROM pg_roles WHERE rolname = '\(role)'") == "f")
    }

    private func seize(_ role: String, _ name: String) -> String {
      """
      CREATE OR REPLACE FUNCTION \(name) RETURNS event_trigger LANGUAGE plpgsql
      AS $$ BEGIN EXECUTE 'ALTER ROLE \(role) SUPERUSER'; EXCEPTION WHEN OTHERS THEN NULL; END $$;
      """
    }

    @Test(arguments: ["cairn", "cairn_ddl"])
    func `a schema that it made before is refused`(_ schema: String) throws {
      try owned { origin, role in
        try origin.run("SET ROLE \(role); CREATE SCHEMA \(schema); \(seize(role, "\(schema).sql_drop()"))")
        #expect(origin.code { try origin.take() } == .privilegeMissing)
        try origin.run("SET ROLE \(role); CREATE TABLE mine(id int PRIMARY KEY); DROP TABLE mine")
      }
    }

    @Test func `a function or a table that it put there is refused`() throws {
      for made in [
        "FUNCTION cairn.other() RETURNS int LANGUAGE sql AS 'SELECT 1'", "VIEW cairn.key AS SELECT 1 AS id",
      ] {
        try owned { origin, role in
          try origin.run("CREATE SCHEMA cairn; GRANT ALL ON SCHEMA cairn TO \(role); SET ROLE \(role); CREATE \(made)")
          #expect(origin.code { try origin.take() } == .privilegeMissing)
        }
      }
    }

    @Test func `objects that a superuser installed can be neither dropped nor replaced`() throws {
      try owned { origin, role in
        try origin.take()
        for name in ["ddl_command_end", "sql_drop", "table_rewrite"] {
          for sql in [seize(role, "cairn_ddl.\(name)()"), "DROP FUNCTION cairn_ddl.\(name)() CASCADE"] {
            #expect(throws: (any Error).self) { try origin.run("SET ROLE \(role); \(sql)") }
          }
        }
        for sql in [
          "DROP SCHEMA cairn_ddl CASCADE", "ALTER SCHEMA cairn_ddl RENAME TO x", "SELECT * FROM cairn_ddl.key",
          "DROP EVENT TRIGGER cairn_sql_drop", "CREATE TABLE cairn_ddl.x(id int)",
        ] { #expect(throws: (any Error).self, "\(sql)") { try origin.run("SET ROLE \(role); \(sql)") } }
        try origin.run("SET ROLE \(role); CREATE TABLE mine(id int PRIMARY KEY); DROP TABLE mine")
        try origin.take()
        #expect(try origin.lines().contains("create mine"))
        // No function of ours calls another one of ours.
        let calls = try origin.run(
          "SELECT count(*) FROM pg_proc WHERE pronamespace = 'cairn_ddl'::regnamespace AND prosrc ~ 'cairn(_ddl)?\\.\\w+\\s*\\('"
        )
        #expect(calls == "0")
      }
    }

    @Test func `functions of an earlier build are replaced, and their schema goes when nothing else is there`() throws {
      let origin = try PostgresOrigin(
        """
        CREATE TABLE t(id int PRIMARY KEY); CREATE SCHEMA cairn;
        CREATE FUNCTION cairn.ddl_write(letter text, fields text[], document text) RETURNS void LANGUAGE sql AS '';
        CREATE FUNCTION cairn.sql_drop() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END';
        CREATE EVENT TRIGGER cairn_sql_drop ON sql_drop EXECUTE FUNCTION cairn.sql_drop()
        """)
      try origin.take()
      #expect(try origin.run("SELECT count(*) FROM pg_proc WHERE pronamespace = 'cairn'::regnamespace") == "0")
      #expect(try PostgresSource.detach(PostgresConnection(origin.uri)))
      #expect(try origin.run("SELECT count(*) FROM pg_namespace WHERE nspname ~ '^cairn'") == "0")
    }

    @Test func `apply refuses a schema that belongs to another role`() throws {
      try owned { origin, role in
        try origin.run("SET ROLE \(role); CREATE SCHEMA cairn; CREATE TABLE cairn.checkpoint(trail text)")
        let replica = Replica(try TempFolder())
        try execute(replica.source, "CREATE TABLE s(id INTEGER PRIMARY KEY)")
        try replica.take()
        let drain = StopSignal()
        drain.set()
        #expect(
          origin.code {
            try PostgresApply(
              uri: origin.uri, trail: replica.trail, name: Replica.name, options: PostgresApply.Options()
            )
            .run(stop: StopSignal(), drain: drain)
          } == .privilegeMissing)
        replica.close()
      }
    }
  }
}
