import Changes
import Foundation
import HostilePeer
import TestServers
import Testing

extension DaemonScenarios {
  /// A peer's trails that come over TLS into a PostgreSQL database, which also has tables of Cairn and of a program.
  @Suite struct HostileServerTests {
    private static let role = "attacked_server"
    private static let sql = "CREATE TABLE public.pwned(x int)"

    private static func table(_ namespace: String, _ name: String, _ columns: [String]) -> TableSchema {
      TableSchema(
        epoch: 1, engine: .postgres, namespace: namespace, name: name,
        columns: columns.enumerated().map { number, column in
          .init(
            name: column, declaredType: column == "id" || column == "number" ? "bigint" : "text",
            isNotNull: number == 0, keyOrdinal: number == 0 ? 1 : 0)
        })
    }

    private static func values(_ texts: [String]) -> [Value?] { texts.map { .exact(Array($0.utf8)) } }

    /// A trail with a new table that may be listed, and then with an attack in a transaction of its own.
    private static func segment(
      _ trail: String, good: String, _ attacked: TableSchema, changes: UInt64 = 1,
      _ attack: (inout HostileRecords) -> Void
    ) -> HostileSegment {
      var records = HostileRecords()
      records.begin(1)
      records.schema(1, table("public", good, ["id", "v"]))
      records.ddl(DDL(action: .create, before: 0, after: 1, text: sql))
      records.refresh(1, .start(.firstCopy, .byKey, estimatedRows: 1))
      records.refresh(1, .chunk(.keys(after: nil, through: nil)))
      records.row(1, values(["7", "x"]))
      records.refresh(1, .end(rows: 1))
      records.commit(1, changes: 1)
      records.begin(2)
      records.schema(2, attacked)
      attack(&records)
      records.commit(2, changes: changes)
      records.begin(3)
      records.change(.insert, 1, before: nil, after: values(["8", "y"]))
      records.commit(3, changes: 1)
      var segment = HostileSegment(trail)
      segment.block(records.bytes)
      return segment
    }

    /// Rows for tables of Cairn and of the server, in the forms in which a trail can bring rows.
    private static var forbidden: [(table: TableSchema, changes: UInt64, attack: (inout HostileRecords) -> Void)] {
      let pending = table("cairn", "pending", ["schema_name", "table_name", "kind", "name", "statement"])
      let row = values(["public", "ledger", "index", "i", sql])
      let checkpoint = table("cairn", "checkpoint", ["trail", "number"])
      let roles = table("pg_catalog", "pg_authid", ["rolname", "rolpassword"])
      return [
        (pending, 1, { $0.change(.insert, 2, before: nil, after: row) }),
        (
          pending, 1,
          {
            $0.refresh(2, .start(.firstCopy, .byKey, estimatedRows: 1))
            $0.refresh(2, .chunk(.keys(after: nil, through: nil)))
            $0.row(2, row)
            $0.refresh(2, .end(rows: 1))
          }
        ),
        (pending, 0, { $0.ddl(DDL(action: .create, before: 0, after: 2, text: sql)) }),
        (
          checkpoint, 1,
          { $0.change(.update, 2, before: values(["evil.good", "1"]), after: values(["evil.good", "99"])) }
        ),
        (roles, 1, { $0.change(.insert, 2, before: nil, after: values(["pwned", ""])) }),
      ]
    }

    @Test(.enabled(if: postgresProblem == nil))
    func `records for tables of Cairn or outside of the list change nothing in PostgreSQL`() throws {
      let server = try PostgresServer.shared
      let database = "trails_\(UUID().uuidString.prefix(8).lowercased())"
      if try server.psql("SELECT 1 FROM pg_roles WHERE rolname = '\(Self.role)'").isEmpty {
        try server.psql(
          "CREATE ROLE \(Self.role) LOGIN; GRANT SET ON PARAMETER session_replication_role TO \(Self.role)")
      }
      try server.createDatabase(database)
      defer { try? server.dropDatabase(database) }
      try server.psql(
        "ALTER DATABASE \(database) OWNER TO \(Self.role); ALTER SCHEMA public OWNER TO \(Self.role)", database)
      try server.psql(
        """
        SET ROLE \(Self.role); CREATE TABLE ledger(id bigint PRIMARY KEY, v text); INSERT INTO ledger VALUES (7, 'whole')
        """, database)
      let ledger = Self.table("public", "ledger", ["id", "v"])
      var segments = [
        Self.segment("evil.good", good: "good", ledger, changes: 2) {
          $0.change(.insert, 2, before: nil, after: Self.values(["9", "evil"]))
          $0.change(.delete, 2, before: Self.values(["7", "whole"]), after: nil)
        }
      ]
      var conf = "[database.pg]\nurl = \"\(server.url(database, user: Self.role))\"\n"
      func add(_ trail: String, _ tables: String) {
        conf += "[apply.\(trail)]\ntrail = \"evil.\(trail)\"\ndatabase = \"pg\"\ntables = [\"\(tables)\"]\n"
      }
      add("good", "good")
      for (number, (table, changes, attack)) in Self.forbidden.enumerated() {
        // Even a list of all tables leaves out these.
        add("bad\(number)", "*")
        segments.append(Self.segment("evil.bad\(number)", good: "bad\(number)", table, changes: changes, attack))
      }
      let bench = try HostileBench(conf, isTLS: true)
      let push = try bench.joinOverTLS()
      for segment in segments.reversed() { #expect(try push(segment) == "200", "\(bench.net.logs)") }
      func worker(_ name: String) -> [String: Any] {
        let all = bench.net.status(bench.hq)["workers"] as? [[String: Any]] ?? []
        return all.first { $0["name"] as? String == "apply.\(name)" } ?? [:]
      }
      let bad = Self.forbidden.indices.map { "bad\($0)" }
      let names = Self.forbidden.map { "\($0.table.namespace).\($0.table.name)" }
      func isLeftOut() -> Bool {
        zip(bad, names).allSatisfy {
          worker($0)["tables_left_out"] as? [String] == [$1] && !(worker($0)["error"] is [String: Any])
        }
      }
      #expect(bench.net.wait(seconds: 60) { isLeftOut() }, "\(bad.map { worker($0) }) \(bench.net.logs)")
      // The rest of the same trail is applied.
      #expect(
        bench.net.wait(seconds: 60) {
          bad.allSatisfy { (try? server.psql("SELECT count(*) FROM \($0)", database)) == "2" }
        }, "\(bad.map { worker($0) })")
      #expect(
        bench.net.wait { (try? server.psql("SELECT count(*) FROM good", database)) == "2" }, "\(worker("good"))")
      #expect(
        bench.net.wait { worker("good")["tables_left_out"] as? [String] == ["ledger"] }, "\(worker("good"))")
      #expect(try server.psql("SELECT id, v FROM ledger", database) == "7|whole")
      #expect(try server.psql("SELECT to_regclass('public.pwned')", database) == "")
      #expect(try server.psql("SELECT count(*) FROM pg_roles WHERE rolname = 'pwned'", database) == "0")
      #expect(try server.psql("SELECT count(*) FROM cairn.pending", database) == "0")
      // No attack moved the place of another trail.
      let numbers = try server.psql("SELECT trail, number FROM cairn.checkpoint ORDER BY trail", database)
      #expect(
        numbers.split(separator: "\n").map(String.init) == bad.map { "evil.\($0)|3" } + ["evil.good|3"], "\(numbers)")
      // A restart reads the same records again.
      #expect(try bench.restart())
      #expect(bench.net.wait(seconds: 60) { isLeftOut() }, "\(bad.map { worker($0) })")
      #expect(try server.psql("SELECT id, v FROM ledger", database) == "7|whole")
      #expect(try server.psql("SELECT to_regclass('public.pwned')", database) == "")
      #expect(bench.isCanaryUntouched)
      bench.net.endAll()
    }
  }
}
