import Foundation
import TestServers
import Testing

extension Scenarios {
  /// A fault of a server is reported in one line with a code and a hint; once it is mended, the next run succeeds.
  @Suite(.enabled(if: postgresProblem == nil, "\(postgresProblem ?? "")"))
  struct ServerErrorTests {
    private func refuse(
      _ bench: Bench, _ from: String, _ to: String, _ code: String, _ status: Int32, says words: [String] = [],
      _ more: [String] = []
    ) throws {
      let arguments = ["replicate", "--from", from, "--to", to, "--state", "state", "--once"] + more
      let outcome = try bench.run(Bench.cairn, arguments, seconds: 90)
      // Passwords on the command line and servers that prove nothing are warned of besides.
      let lines = outcome.errorLines.filter {
        !$0.hasPrefix("cairn: warning: ") && !$0.contains("does not prove which one it is")
      }
      #expect(outcome.status == status, "\(code): \(outcome.errors)")
      #expect(lines.count == 2, "\(outcome.errors)")
      #expect(lines.first?.hasPrefix("cairn: error [\(code)]: ") ?? false, "\(outcome.errors)")
      #expect(lines.last?.hasPrefix("hint: ") ?? false, "\(outcome.errors)")
      for word in words { #expect(outcome.errors.contains(word), "no '\(word)' in: \(outcome.errors)") }
      #expect(!outcome.errors.contains("secret"))
      #expect(try bench.run(Bench.cairn, ["explain", code]).status == 0)
    }

    private let source = "CREATE TABLE t(id int PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'one')"

    @Test func `logins and addresses`() throws {
      var settings = PostgresServer.Settings()
      settings.listens = true
      let server = try PostgresServer(settings)
      let bench = try Bench()
      try server.psql("CREATE ROLE guest LOGIN REPLICATION PASSWORD 'secret'")
      try server.psql(source)
      try bench.makeSample()
      let wrong = server.url(user: "guest", password: "secretly")
      try refuse(bench, wrong, "sqlite:target.db", "login-refused", 77, says: ["guest"])
      try refuse(bench, "sqlite:source.db", wrong, "login-refused", 77, says: ["guest"])
      let nobody = server.url(user: "nobody", password: "secret")
      try refuse(bench, nobody, "sqlite:target.db", "login-refused", 77, says: ["nobody"])
      let missing = server.url("nowhere", user: "guest", password: "secret")
      try refuse(bench, missing, "sqlite:target.db", "database-missing", 66, says: ["nowhere"])
      try refuse(bench, "sqlite:source.db", missing, "database-missing", 66, says: ["nowhere"])
      let deaf = "postgresql://guest:secret@127.0.0.1:1/postgres"
      try refuse(bench, deaf, "sqlite:target.db", "database-unreachable", 69, says: ["127.0.0.1"])
      try refuse(bench, "sqlite:source.db", deaf, "database-unreachable", 69, says: ["127.0.0.1"])
      let unnamed = "postgresql://guest:secret@no-such-host.invalid/postgres"
      try refuse(bench, unnamed, "sqlite:target.db", "database-unreachable", 69, says: ["no-such-host.invalid"])
      #expect(!FileManager.default.fileExists(atPath: bench.path("target.db")))
    }

    @Test func `rights of the roles`() throws {
      let server = try PostgresServer.shared
      let pairs = try PairBench(.postgresToPostgres)
      let id = UUID().uuidString.prefix(8).lowercased()
      let (plain, writer) = ("plain_\(id)", "writer_\(id)")
      try server.psql("CREATE ROLE \(plain) LOGIN; CREATE ROLE \(writer) LOGIN")
      defer {
        for database in [pairs.from.name, pairs.to.name] {
          _ = try? server.psql("DROP OWNED BY \(plain), \(writer) CASCADE", database)
        }
        _ = try? server.psql("DROP ROLE \(plain), \(writer)")
      }
      try pairs.sql(pairs.from, source)
      let bench = pairs.bench
      let from = server.url(pairs.from.name, user: plain)
      try refuse(bench, from, "sqlite:target.db", "privilege-missing", 77, says: ["REPLICATION", plain])
      try server.psql("ALTER ROLE \(plain) REPLICATION")
      // A notice about the event triggers comes before the error.
      let refused = try bench.run(
        Bench.cairn, ["replicate", "--from", from, "--to", "sqlite:target.db", "--state", "state", "--once"])
      #expect(refused.status == 77 && refused.errors.contains("error [privilege-missing]"), "\(refused.errors)")
      #expect(refused.errors.contains("hint: run as the owner of the tables"), "\(refused.errors)")
      try server.psql("GRANT CREATE ON DATABASE \(pairs.from.name) TO \(plain)")
      try pairs.sql(pairs.from, "ALTER TABLE t OWNER TO \(plain)")
      let copied = try bench.run(
        Bench.cairn, ["replicate", "--from", from, "--to", "sqlite:target.db", "--state", "state", "--once"])
      #expect(copied.status == 0, "\(copied.errors)")
      #expect(try bench.sqlite("target.db", "SELECT * FROM t") == "1|one\n")

      try bench.makeSample("other.db")
      try bench.run("/bin/rm", ["-rf", "state"])
      let to = server.url(pairs.to.name, user: writer)
      try refuse(bench, "sqlite:other.db", to, "privilege-missing", 77, says: ["GRANT"])
      try server.psql("GRANT SET ON PARAMETER session_replication_role TO \(writer)")
      try refuse(bench, "sqlite:other.db", to, "privilege-missing", 77, says: ["GRANT"])
      try server.psql("GRANT CREATE ON DATABASE \(pairs.to.name) TO \(writer)")
      try pairs.sql(pairs.to, "GRANT CREATE ON SCHEMA public TO \(writer)")
      _ = try bench.sqlite("other.db", "UPDATE operator SET since = NULL WHERE since = ''")
      let applied = try bench.run(
        Bench.cairn, ["replicate", "--from", "sqlite:other.db", "--to", to, "--state", "state", "--once"])
      #expect(applied.status == 0, "\(applied.errors)")
      #expect(try pairs.sql(pairs.to, "SELECT count(*) FROM ship") == "120")
    }

    @Test func `settings of the server`() throws {
      var settings = PostgresServer.Settings()
      settings.walLevel = "replica"
      settings.more["max_replication_slots"] = "1"
      let server = try PostgresServer(settings)
      let bench = try Bench()
      try server.psql(source)
      try refuse(bench, server.url(), "sqlite:target.db", "server-setting", 78, says: ["wal_level", "replica"])
      try server.psql("ALTER SYSTEM SET wal_level = logical")
      // The lines of the test's own file come first in time, so the server's own file wins.
      try server.restart()
      try server.psql("SELECT pg_create_physical_replication_slot('taken')")
      try refuse(bench, server.url(), "sqlite:target.db", "server-setting", 78, says: ["max_replication_slots"])
      try server.psql("SELECT pg_drop_replication_slot('taken')")
      let outcome = try bench.run(
        Bench.cairn, ["replicate", "--from", server.url(), "--to", "sqlite:target.db", "--state", "state", "--once"])
      #expect(outcome.status == 0, "\(outcome.errors)")
    }

    @Test func `encodings`() throws {
      let server = try PostgresServer.shared
      let bench = try Bench()
      let id = UUID().uuidString.prefix(8).lowercased()
      defer { for name in ["ascii", "latin", "blank"] { try? server.dropDatabase("\(name)_\(id)") } }
      try server.psql("CREATE DATABASE ascii_\(id) TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C'")
      try server.psql("CREATE DATABASE blank_\(id) TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C'")
      try server.psql("CREATE DATABASE latin_\(id) TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'")
      try server.psql(source, "ascii_\(id)")
      _ = try bench.sqlite("source.db", source)
      try refuse(bench, server.url("ascii_\(id)"), "sqlite:t.db", "server-setting", 78, says: ["SQL_ASCII"])
      try refuse(bench, "sqlite:source.db", server.url("blank_\(id)"), "server-setting", 78, says: ["SQL_ASCII"])
      try refuse(bench, "sqlite:source.db", server.url("latin_\(id)"), "server-setting", 78, says: ["LATIN1"])
      // As a source it is converted.
      try server.psql(
        "CREATE TABLE t(id int PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'Åse')",
        "latin_\(id)")
      let arguments = [
        "replicate", "--from", server.url("latin_\(id)"), "--to", "sqlite:t.db", "--state", "latin", "--once",
      ]
      let outcome = try bench.run(Bench.cairn, arguments)
      #expect(outcome.status == 0, "\(outcome.errors)")
      try server.psql("UPDATE t SET v = 'Zoë'", "latin_\(id)")
      #expect(try bench.run(Bench.cairn, arguments).status == 0)
      #expect(try bench.sqlite("t.db", "SELECT v FROM t") == "Zoë\n")
    }

    @Test(
      arguments: [
        "CREATE TABLE k2(id interval PRIMARY KEY)", "CREATE TABLE k2(id int, v text)",
        "CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false); CREATE TABLE k2(id text COLLATE loose PRIMARY KEY)",
      ], [false, true])
    func `a later table that cannot go both ways holds up no other table at the next starts`(
      table: String, isAtTarget: Bool
    ) throws {
      let pairs = try PairBench(fromPostgres: true, toPostgres: true)
      try pairs.sql(pairs.from, "CREATE TABLE t(id int PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'first')")
      let first = try pairs.once(["--two-way"])
      #expect(first.status == 0, "\(first.errors)")
      try pairs.sql(isAtTarget ? pairs.to : pairs.from, table)
      try pairs.sql(pairs.from, "UPDATE t SET v = 'second'")
      try pairs.sql(pairs.to, "INSERT INTO t VALUES (2, 'back')")
      var outcome = first
      for _ in 0..<2 { outcome = try pairs.once(["--two-way"]) }
      #expect(outcome.errors.contains("k2"), "\(outcome)")
      for end in [pairs.from, pairs.to] {
        #expect(try pairs.sql(end, "SELECT * FROM t ORDER BY id") == "1|second\n2|back", "\(outcome)")
      }
    }

    @Test func `a run both ways brings all rows of one way, though the other way ends with a suspended table`()
      throws
    {
      let pairs = try PairBench(fromPostgres: true, toPostgres: true)
      try pairs.sql(
        pairs.from, "CREATE TABLE t(id int PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'first')")
      let first = try pairs.once(["--two-way"])
      #expect(first.status == 0, "\(first.errors)")
      try pairs.sql(pairs.from, "CREATE TABLE k2(id interval PRIMARY KEY)")
      try pairs.sql(
        pairs.to,
        "DO $$ BEGIN FOR n IN 10..6000 LOOP INSERT INTO t VALUES (n, 'back'); COMMIT; END LOOP; END $$")
      let outcome = try pairs.once(["--two-way"])
      #expect(outcome.status != 0 && outcome.errors.contains("k2"), "\(outcome)")
      #expect(try pairs.sql(pairs.from, "SELECT count(*) FROM t WHERE v = 'back'") == "5991", "\(outcome)")
    }

    @Test func `a suspended table takes no other table's changes from a run that ends by itself`() throws {
      let pairs = try PairBench(fromPostgres: true, toPostgres: true)
      try pairs.sql(pairs.from, "CREATE TABLE t(id int PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'first')")
      #expect(try pairs.once().status == 0)
      try pairs.sql(pairs.from, "CREATE TABLE nokey(id int, v text)")
      for round in 1...5 {
        try pairs.sql(pairs.from, "UPDATE t SET v = 'round \(round)'")
        let outcome = try pairs.once()
        #expect(outcome.status != 0 && outcome.errors.contains("nokey"), "\(outcome)")
        #expect(try pairs.sql(pairs.to, "SELECT v FROM t") == "round \(round)", "\(outcome)")
      }
    }

    @Test func `a table without identity is refused before its own program would be`() throws {
      let pairs = try PairBench(.postgresToSQLite)
      try pairs.sql(pairs.from, "CREATE TABLE loose(a int, b text); INSERT INTO loose VALUES (1, 'x')")
      try refuse(
        pairs.bench, pairs.from.url, pairs.to.url, "table-refused", 65,
        says: ["loose", "ALTER TABLE", "REPLICA IDENTITY FULL"])
      try pairs.sql(pairs.from, "UPDATE loose SET b = 'y'")
      try pairs.sql(pairs.from, "ALTER TABLE loose REPLICA IDENTITY FULL")
      let outcome = try pairs.once()
      #expect(outcome.status == 0, "\(outcome.errors)")
      try pairs.sql(pairs.from, "UPDATE loose SET b = 'z'")
      #expect(try pairs.once().status == 0)
      try pairs.expectEqual()
    }

    @Test func `the one script that check prints for tables and partitions lets their changes be captured`() throws {
      let pairs = try PairBench(.postgresToSQLite)
      try pairs.sql(
        pairs.from,
        """
        CREATE TABLE pay(id int, d text, v int) PARTITION BY LIST (d); ALTER TABLE pay REPLICA IDENTITY FULL;
        CREATE TABLE pay_a PARTITION OF pay FOR VALUES IN ('a'); ALTER TABLE pay_a ADD PRIMARY KEY (id);
        CREATE TABLE pay_b PARTITION OF pay FOR VALUES IN ('b');
        CREATE TABLE slot(id int, d text, u int NOT NULL, PRIMARY KEY (id, d)) PARTITION BY LIST (d);
        CREATE TABLE slot_a PARTITION OF slot FOR VALUES IN ('a') PARTITION BY LIST (id);
        CREATE TABLE slot_a1 PARTITION OF slot_a FOR VALUES IN (1);
        CREATE UNIQUE INDEX u ON slot_a1(u); ALTER TABLE slot_a1 REPLICA IDENTITY USING INDEX u;
        CREATE TABLE loose(a int, b text); INSERT INTO loose VALUES (1, 'x');
        INSERT INTO pay VALUES (1, 'a', 1), (9, 'a', 9), (2, 'b', 2), (3, 'b', 3); INSERT INTO slot VALUES (1, 'a', 1)
        """)
      func check() throws -> (outcome: Outcome, script: String?) {
        let outcome = try pairs.bench.run(Bench.cairn, ["check", "--from", pairs.from.url, "--to", pairs.to.url])
        let said = outcome.output.split(separator: "\n")
        let lines = said.compactMap { $0.wholeMatch(of: /one script for all tables: (.*)/) }
        #expect(lines.count < 2, "\(outcome)")
        return (outcome, lines.first.map { String($0.1) })
      }
      let refused = try check()
      #expect(refused.outcome.status != 0, "\(refused.outcome)")
      try pairs.sql(pairs.from, try #require(refused.script, "\(refused.outcome)"))
      let good = try check()
      #expect(good.outcome.status == 0 && good.script == nil, "\(good.outcome)")
      #expect(try pairs.once().status == 0)
      try pairs.sql(
        pairs.from,
        """
        DELETE FROM pay WHERE id IN (3, 9); UPDATE pay SET v = 7; UPDATE slot SET u = 5; DELETE FROM slot;
        UPDATE loose SET b = 'y'
        """)
      let outcome = try pairs.once()
      #expect(outcome.status == 0, "\(outcome.errors)")
      #expect(try pairs.sql(pairs.to, "SELECT id, d, v FROM pay ORDER BY id") == "1|a|7\n2|b|7")
      try pairs.expectEqual()
    }

    @Test(arguments: [
      ("CREATE TABLE \"Tea\"(id int PRIMARY KEY); CREATE TABLE tea(id int PRIMARY KEY)", ["Tea", "tea"]),
      ("CREATE SCHEMA a; CREATE TABLE a.b(id int PRIMARY KEY); CREATE TABLE a_b(id int PRIMARY KEY)", ["a.b", "a_b"]),
    ])
    func `if two names become one, one is refused with both, and the other tables go on`(
      tables: String, names: [String]
    ) throws {
      let pairs = try PairBench(.postgresToSQLite)
      try pairs.sql(pairs.from, tables + "; CREATE TABLE other(id int PRIMARY KEY); INSERT INTO other VALUES (1)")
      let outcome = try pairs.once()
      #expect(outcome.status == 65, "\(outcome.errors)")
      let told = outcome.errors.split(separator: "\n").first { $0.contains("name-collision") }
      #expect(told.map { line in names.allSatisfy { line.contains($0) } } == true, "\(outcome.errors)")
      #expect(try pairs.sql(pairs.to, "SELECT count(*) FROM other").hasPrefix("1"))
    }

    @Test func `a slot that is gone is reported, and overwriting brings everything back`() throws {
      let pairs = try PairBench(.postgresToSQLite)
      try pairs.sql(pairs.from, source)
      #expect(try pairs.once().status == 0)
      try pairs.sql(
        pairs.from,
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = current_database()")
      try pairs.sql(pairs.from, "UPDATE t SET v = 'unseen'; INSERT INTO t VALUES (2, 'two')")
      try refuse(pairs.bench, pairs.from.url, pairs.to.url, "slot-lost", 65, says: ["--existing overwrite"])
      let outcome = try pairs.once(["--existing", "overwrite"])
      #expect(outcome.status == 0, "\(outcome.errors)")
      try pairs.expectEqual()
    }

    @Test(arguments: Pair.allCases)
    func `rows that were changed at the target stop apply by name, and overwrite mends them`(pair: Pair) throws {
      let pairs = try PairBench(pair)
      let full = pairs.from.isPostgres ? "; ALTER TABLE t REPLICA IDENTITY FULL" : ""
      try pairs.sql(
        pairs.from,
        "CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT); INSERT INTO t VALUES (1, 'one'), (2, 'two'), (3, 'three')\(full)"
      )
      #expect(try pairs.once().status == 0)
      try pairs.sql(pairs.to, "UPDATE t SET v = 'stray' WHERE id = 2; DELETE FROM t WHERE id = 3")
      try pairs.sql(pairs.from, "UPDATE t SET v = 'second' WHERE id = 2")
      try refuse(pairs.bench, pairs.from.url, pairs.to.url, "row-differs", 65, says: ["t, row id=", "2", "column v"])
      try pairs.sql(pairs.to, "UPDATE t SET v = 'two' WHERE id = 2")
      #expect(try pairs.once().status == 0)
      try pairs.sql(pairs.from, "UPDATE t SET v = 'third' WHERE id = 3")
      try refuse(pairs.bench, pairs.from.url, pairs.to.url, "row-missing", 65, says: ["t, row id=", "3"])
      let mended = try pairs.once(["--existing", "overwrite"])
      #expect(mended.status == 0, "\(mended.errors)")
      try pairs.expectEqual()
    }
  }
}
