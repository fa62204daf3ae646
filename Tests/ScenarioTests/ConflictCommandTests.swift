import Foundation
import TestServers
import Testing

extension Scenarios {
  /// `cairn conflicts` and `cairn identity` with logs that were written by hand.
  @Suite struct ConflictCommandTests {
    /// Two conflicts: of one the local version won, the other one is open.
    private func made() throws -> Bench {
      let bench = try Bench()
      _ = try bench.sqlite(
        "shop.db",
        """
        CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, stock);
        INSERT INTO item VALUES (1, 'tea', 2), (2, 'cocoa', 5);
        CREATE TABLE cairn_conflict(id INTEGER PRIMARY KEY, at INTEGER, trail TEXT, position TEXT, number INTEGER,
          clock INTEGER, kind TEXT, rule TEXT, schema_name TEXT, table_name TEXT, key TEXT, local TEXT, incoming TEXT,
          before TEXT, settled TEXT, winner TEXT, other_origin TEXT, other_number INTEGER, other_clock INTEGER,
          overturned_at INTEGER);
        INSERT INTO cairn_conflict VALUES (1, 1795000000000000, 'far.shop', '00000001:00000100', 7, 1795000000000000,
          'update_origin_differs', 'newest', '', 'item', '{"id":1}', '{"id":1,"name":"tea","stock":2}',
          '{"id":1,"name":"oolong","stock":{"exact":"3"}}', NULL, '{"id":1,"name":"tea","stock":2}', 'local', 'near.shop',
          4, 1795000000000001, NULL), (2, 1795000001000000, 'far.shop', '00000001:00000200', 8, 1795000001000000,
          'delete_origin_differs', 'ask', '', 'item', '{"id":2}', '{"id":2,"name":"cocoa","stock":5}', NULL,
          '{"id":2,"name":"cocoa","stock":4}', '{"id":2,"name":"cocoa","stock":5}', 'local', NULL, NULL, NULL, NULL);
        """)
      return bench
    }

    private func cairn(_ bench: Bench, _ words: String...) throws -> Outcome { try bench.run(Bench.cairn, words) }

    @Test func `conflicts are listed, shown and overturned`() throws {
      let bench = try made()
      let list = try cairn(bench, "conflicts", "list", "--database", "sqlite:shop.db")
      let lines = list.output.split(separator: "\n").dropFirst()
      #expect(list.status == 0 && lines.count == 2, "\(list.output)\(list.errors)")
      #expect(lines.first?.contains("#2") == true && lines.first?.hasSuffix("[open]") == true)
      #expect(lines.last?.contains("item (id 1)  newest: the local version won  with far.shop 7") == true)
      #expect(
        try cairn(bench, "conflicts", "list", "--database", "sqlite:shop.db", "--limit", "1", "--json").output
          .split(separator: "\n").count == 1)
      let shown = try cairn(bench, "conflicts", "show", "1", "--database", "sqlite:shop.db").output
      for part in ["update_origin_differs", "transaction 4 of near.shop", "name", "'tea'", "'oolong'", "(not known)"] {
        #expect(shown.contains(part), "\(shown)")
      }
      let json = try cairn(bench, "conflicts", "show", "1", "--database", "sqlite:shop.db", "--json").output
      #expect(json.contains(#""incoming":{"id":1,"name":"oolong","stock":{"exact":"3"}}"#), "\(json)")

      _ = try bench.sqlite("shop.db", "UPDATE item SET stock = 9 WHERE id = 1")
      let stale = try cairn(bench, "conflicts", "overturn", "1", "--database", "sqlite:shop.db")
      #expect(stale.status == 65 && stale.errors.contains("conflict-stale"), "\(stale.errors)")
      let forced = try cairn(bench, "conflicts", "overturn", "1", "--force", "--database", "sqlite:shop.db")
      #expect(forced.status == 0 && forced.output.contains("is the incoming one now"), "\(forced.errors)")
      #expect(try cairn(bench, "conflicts", "overturn", "2", "--database", "sqlite:shop.db").status == 0)
      #expect(try bench.sqlite("shop.db", "SELECT * FROM item") == "1|oolong|3\n")
      #expect(
        try cairn(bench, "conflicts", "show", "2", "--database", "sqlite:shop.db").output.contains("overturned 2"))
    }

    @Test func `rows that wait for a unique value are listed`() throws {
      let bench = try made()
      let none = try cairn(bench, "conflicts", "list", "--waiting", "--database", "sqlite:shop.db")
      #expect(none.status == 0 && none.errors.contains("no row waits"), "\(none)")
      _ = try bench.sqlite(
        "shop.db",
        """
        CREATE UNIQUE INDEX item_name ON item(name);
        CREATE TABLE cairn_candidate(schema_name TEXT, table_name TEXT, key TEXT, content TEXT, clock INTEGER,
          origin TEXT, number INTEGER, earlier TEXT, since INTEGER, PRIMARY KEY (table_name, key)) WITHOUT ROWID;
        INSERT INTO cairn_candidate VALUES ('', 'item', '{"id":7}', '{"id":7,"name":"tea","stock":"\\u001b[2J"}',
          1795000000000000, 'near.shop', 4, '', 1795000001000000);
        """)
      let list = try cairn(bench, "conflicts", "list", "--waiting", "--database", "sqlite:shop.db")
      #expect(list.status == 0 && !list.output.contains("\u{1b}"), "\(list)")
      #expect(
        list.output.contains("item (id 7)  waits for name 'tea', which item (id 1) has  since 2026-11-18T"), "\(list)")
      let json = try cairn(bench, "conflicts", "list", "--waiting", "--json", "--database", "sqlite:shop.db").output
      #expect(json.contains(#""waits_for":[{"values":{"name":"tea"},"held_by":{"id":1}}]"#), "\(json)")
      let refused = try cairn(bench, "detach", "sqlite:shop.db")
      #expect(refused.status == 65 && refused.errors.contains("cairn conflicts list --waiting"), "\(refused)")
    }

    @Test func `the databases come from the state of a replication, or from a conf`() throws {
      let bench = try made()
      _ = try bench.sqlite("other.db", "CREATE TABLE t(id INTEGER PRIMARY KEY)")
      let folder = URL(fileURLWithPath: bench.folder)
      try FileManager.default.createDirectory(at: folder.appending(path: "state"), withIntermediateDirectories: true)
      try "from \(bench.path("other.db"))\nto \(bench.path("shop.db"))\n"
        .write(to: folder.appending(path: "state/replication"), atomically: true, encoding: .utf8)
      #expect(try cairn(bench, "conflicts", "list", "--state", "state").output.contains("#1"))
      try """
      [node]
      name = "hq"
      [database.shop]
      url = "sqlite://\(bench.path("shop.db"))"
      [database.other]
      url = "sqlite://\(bench.path("other.db"))"
      [capture.other]
      database = "other"
      [apply.shop]
      trail = "hq.other"
      database = "shop"
      """.write(to: folder.appending(path: "cairn.toml"), atomically: true, encoding: .utf8)
      #expect(try cairn(bench, "conflicts", "show", "2", "--config", ".").output.contains("delete_origin_differs"))
      #expect(try cairn(bench, "conflicts", "show", "2", "--config", ".", "--database", "shop").status == 0)
      let none = try cairn(bench, "conflicts", "show", "2", "--config", ".", "--database", "other")
      #expect(none.status == 66 && none.errors.contains("conflict-missing"), "\(none.errors)")
      #expect(try cairn(bench, "conflicts", "list", "--config", ".", "--database", "othr").status == 64)
    }

    @Test func `a row outside of the list of its apply is not overturned`() throws {
      let bench = try made()
      func overturn(trail: String, tables: String) throws -> Outcome {
        try """
        [node]
        name = "hq"
        [database.shop]
        url = "sqlite://\(bench.path("shop.db"))"
        [receive]
        listen = "127.0.0.1:17420"
        insecure = true
        [peer.far]
        may = { push = ["far.*"] }
        [apply.shop]
        trail = "\(trail)"
        database = "shop"
        tables = [\(tables)]
        """.write(toFile: bench.path("cairn.toml"), atomically: true, encoding: .utf8)
        return try cairn(bench, "conflicts", "overturn", "1", "--config", ".", "--database", "sqlite:shop.db")
      }
      for (trail, tables) in [("far.shop", "\"other\""), ("far.shop", "\"*\", \"!item\""), ("far.more", "\"*\"")] {
        let refused = try overturn(trail: trail, tables: tables)
        #expect(refused.status != 0 && refused.errors.contains("table-forbidden"), "\(refused)")
      }
      #expect(try bench.sqlite("shop.db", "SELECT name FROM item WHERE id = 1") == "tea\n")
      let turned = try overturn(trail: "far.shop", tables: "\"item\"")
      #expect(turned.status == 0, "\(turned)")
      #expect(try bench.sqlite("shop.db", "SELECT name FROM item WHERE id = 1") == "oolong\n")
    }

    @Test(.enabled(if: postgresProblem == nil, "\(postgresProblem ?? "")"))
    func `to overturn a conflict runs no trigger of another role, also in a table that the row's deletion reaches`()
      throws
    {
      let server = try PostgresServer.shared
      let bench = try Bench()
      let name = "turn_" + UUID().uuidString.prefix(8).lowercased()
      let url = try server.createDatabase(name)
      let role = "keeper_\(name)"
      defer {
        try? server.dropDatabase(name)
        _ = try? server.psql("DROP ROLE \(role)", "postgres")
      }
      try server.psql(
        """
        CREATE TABLE item(id integer PRIMARY KEY, name text); INSERT INTO item VALUES (1, 'tea');
        CREATE ROLE \(role); CREATE SCHEMA mine AUTHORIZATION \(role); GRANT REFERENCES ON item TO \(role);
        SET ROLE \(role);
        CREATE TABLE mine.child(id integer PRIMARY KEY REFERENCES item ON DELETE CASCADE);
        CREATE FUNCTION mine.took() RETURNS trigger LANGUAGE plpgsql AS
          $$ BEGIN CREATE TABLE public.taken AS SELECT 1; RETURN OLD; END $$;
        CREATE TRIGGER took BEFORE DELETE ON mine.child FOR EACH ROW EXECUTE FUNCTION mine.took();
        INSERT INTO mine.child VALUES (1);
        RESET ROLE;
        CREATE SCHEMA cairn;
        CREATE TABLE cairn.conflict(id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at bigint, trail text,
          position text, number bigint, clock bigint, kind text, rule text, schema_name text, table_name text, key text,
          local text, incoming text, before text, settled text, winner text, other_origin text, other_number bigint,
          other_clock bigint, overturned_at bigint);
        INSERT INTO cairn.conflict(at, trail, position, number, clock, kind, rule, schema_name, table_name, key, local,
          before, settled, winner)
        VALUES (1795000001000000, 'far.shop', '00000001:00000200', 8, 1795000001000000, 'delete_origin_differs', 'ask',
          'public', 'item', '{"id":1}', '{"id":1,"name":"tea"}', '{"id":1,"name":"tea"}', '{"id":1,"name":"tea"}',
          'local')
        """, name)
      func overturn() throws -> Outcome {
        try cairn(bench, "conflicts", "overturn", "1", "--to", "incoming", "--database", url)
      }
      let refused = try overturn()
      #expect(refused.status != 0 && refused.errors.contains("owners-code"), "\(refused)")
      #expect(try server.psql("SELECT to_regclass('public.taken') IS NULL, count(*) FROM item", name) == "t|1")
      // The statement itself is possible: without that trigger it deletes the row.
      // A row of a table that inherits from this one is another row, under any key.
      try server.psql(
        """
        DROP TRIGGER took ON mine.child;
        CREATE TABLE heir() INHERITS (item); INSERT INTO heir VALUES (1, 'tea');
        ALTER TABLE heir OWNER TO \(role)
        """, name)
      let turned = try overturn()
      #expect(turned.status == 0, "\(turned)")
      #expect(try server.psql("SELECT count(*) FROM ONLY item", name) == "0")
      #expect(try server.psql("SELECT * FROM heir", name) == "1|tea")
    }

    @Test(arguments: [
      (["conflicts", "lst"], "did you mean 'list'?"), (["conflicts", "show"], "which conflict?"),
      (["conflicts", "show", "x"], "which conflict?"),
      (["conflicts", "show", "1", "--limit", "3"], "--limit is not for"),
      (
        ["conflicts", "overturn", "1", "--to", "both", "--database", "sqlite:shop.db"], "allowed are local and incoming"
      ),
      (["identity", "separate", "sqlite:shop.db", "--nodes", "2"], "--node is missing"),
      (["identity", "separate", "sqlite:shop.db", "--nodes", "2", "--node", "3"], "there is no node 3 of 2"),
      (["identity", "separate", "sqlite:shop.db", "--nodes", "2", "--node", "1"], "cannot take a stride"),
      (["identity", "show", "sqlite:shop.db", "--nodes", "2"], "is for 'cairn identity separate'"),
    ])
    func `a command that cannot be done is reported`(words: [String], text: String) throws {
      let bench = try made()
      let outcome = try bench.run(Bench.cairn, words)
      #expect([64, 69].contains(outcome.status) && outcome.errors.contains(text), "\(outcome.errors)")
    }

    @Test func `keys that an SQLite file draws are shown`() throws {
      let bench = try made()
      let outcome = try cairn(bench, "identity", "show", "sqlite:shop.db")
      #expect(outcome.output == "item.id: one more than the greatest key; another node would generate the same\n")
    }

    @Test(.enabled(if: postgresProblem == nil), arguments: [false, true])
    func `an overturned decision is a change that replicates`(isPostgres: Bool) throws {
      let pairs = try PairBench(fromPostgres: isPostgres, toPostgres: false)
      try pairs.sql(pairs.from, "CREATE TABLE item(id integer PRIMARY KEY, name text)")
      try pairs.sql(pairs.from, "INSERT INTO item VALUES (1, 'tea'), (2, 'cocoa')")
      #expect(try pairs.once().status == 0)
      let (log, kind) = isPostgres ? ("cairn.conflict", "bigint") : ("cairn_conflict", "INTEGER")
      if isPostgres { try pairs.sql(pairs.from, "CREATE SCHEMA IF NOT EXISTS cairn") }
      try pairs.sql(
        pairs.from,
        """
        CREATE TABLE \(log)(id \(kind) PRIMARY KEY, at \(kind), trail text, position text, number \(kind),
          clock \(kind), kind text, rule text, schema_name text, table_name text, key text, local text, incoming text,
          before text, settled text, winner text, other_origin text, other_number \(kind), other_clock \(kind),
          overturned_at \(kind));
        INSERT INTO \(log) VALUES (1, 5, 'far.shop', '00000001:00000100', 7, 5, 'update_origin_differs', 'newest',
          '\(isPostgres ? "public" : "")', 'item', '{"id":1}', '{"id":1,"name":"tea"}', '{"id":1,"name":"oolong"}', NULL,
          '{"id":1,"name":"tea"}', 'local', NULL, NULL, NULL, NULL), (2, 6, 'far.shop', '00000001:00000100', 8, 6,
          'delete_origin_differs', 'newest', '\(isPostgres ? "public" : "")', 'item', '{"id":2}',
          '{"id":2,"name":"cocoa"}', NULL, NULL, '{"id":2,"name":"cocoa"}', 'local', NULL, NULL, NULL, NULL);
        """)
      for number in ["1", "2"] {
        let outcome = try pairs.bench.run(
          Bench.cairn, ["conflicts", "overturn", number, "--database", pairs.from.url])
        #expect(outcome.status == 0, "\(outcome.errors)")
      }
      #expect(try pairs.once().status == 0)
      #expect(try pairs.sql(pairs.to, "SELECT * FROM item") == "1|oolong")
      // The log is no table of the user's.
      #expect(try pairs.sql(pairs.to, "SELECT count(*) FROM sqlite_master WHERE name LIKE '%conflict%'") == "0")
    }
  }
}
