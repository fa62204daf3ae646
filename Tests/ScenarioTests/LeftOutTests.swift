import Foundation
import TestServers
import Testing

extension Scenarios {
  /// Parts of a table of the source that the table which Cairn makes does not have.
  @Suite(.enabled(if: postgresProblem == nil, "\(postgresProblem ?? "")"))
  struct LeftOutTests {
    private static let table = """
      CREATE FUNCTION lowf(text) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT lower($1)';
      CREATE TYPE pos AS (n int);
      CREATE FUNCTION topos(int) RETURNS pos IMMUTABLE LANGUAGE sql AS 'SELECT ROW($1)::public.pos';
      CREATE CAST (int AS pos) WITH FUNCTION topos(int);
      CREATE TABLE a(id int PRIMARY KEY, t text, d text DEFAULT lowf('X'), p pos DEFAULT 3::pos,
        g text GENERATED ALWAYS AS (lowf(t)) STORED, h int GENERATED ALWAYS AS (id * 2) STORED UNIQUE,
        gp pos GENERATED ALWAYS AS (id::pos) STORED, CONSTRAINT ck CHECK (lowf(t) <> 'q'), CONSTRAINT gk UNIQUE (g),
        CONSTRAINT gx EXCLUDE USING btree (g WITH =), CONSTRAINT gc CHECK (g <> 'zz'));
      CREATE UNIQUE INDEX ix ON a(lowf(t)); CREATE INDEX gi ON a(id) INCLUDE (g);
      INSERT INTO a(id, t) VALUES (1, 'A')
      """
    /// The parts of ``table`` that need a function of the user's or a column that does.
    private static let parts = [
      "the default of column d is left out: public.lowf() is not a known function",
      "the default of column p is left out: public.topos() is not a known function",
      "the generated column g is left out: public.lowf() is not a known function",
      "the generated column gp is left out: public.topos() is not a known function",
      "the constraint ck is left out: public.lowf() is not a known function",
      "the constraint gk is left out: it needs a column that is left out",
      "the constraint gx is left out: it needs a column that is left out",
      "the constraint gc is left out: it needs a column that is left out",
      "the index ix is left out: public.lowf() is not a known function",
      "the index gi is left out: it needs a column that is left out",
    ]

    @Test(
      "what calls a function of the user's is left out with a message, never NULL", arguments: [[], ["--two-way"]])
    func functions(ways: [String]) throws {
      let bench = try PairBench(.postgresToPostgres)
      try bench.sql(bench.from, Self.table)
      let checked = try bench.bench.run(Bench.cairn, ["check", "--from", bench.from.url, "--to", bench.to.url])
      let outcome = try bench.once(ways)
      #expect(outcome.status == 0, "\(outcome.errors)")
      for part in Self.parts {
        #expect(outcome.errors.contains("table public.a: \(part)"), "\(part): \(outcome.errors)")
        #expect(checked.output.components(separatedBy: "table public.a: \(part)").count == 2, "\(checked.output)")
      }
      #expect(try bench.sql(bench.to, "SELECT * FROM a") == "1|A|x|(3)|2")
      // The same for a column that comes later, and at the end that takes a row from the other one.
      try bench.sql(bench.from, "ALTER TABLE a ADD gz text GENERATED ALWAYS AS (lowf(t)) STORED, ADD z int DEFAULT 4")
      if !ways.isEmpty { try bench.sql(bench.to, "INSERT INTO a(id, t) VALUES (2, 'B')") }
      let later = try bench.once(ways)
      #expect(later.status == 0, "\(later.errors)")
      #expect(later.errors.contains("the generated column gz is left out: public.lowf()"), "\(later.errors)")
      #expect(try bench.sql(bench.to, "SELECT * FROM a WHERE id = 1") == "1|A|x|(3)|2|4")
      if !ways.isEmpty {
        #expect(try bench.sql(bench.from, "SELECT id, t, g, h, gz FROM a WHERE id = 2") == "2|B|b|4|b")
      }
      #expect(try bench.sql(bench.from, "SELECT g, gp, gz FROM a WHERE id = 1") == "a|(1)|a")
    }

    @Test func `a column that an earlier version made NULL is reported at each start, with the statement`() throws {
      let bench = try PairBench(.postgresToPostgres)
      try bench.sql(bench.from, Self.table)
      try bench.sql(
        bench.to,
        """
        CREATE TYPE pos AS (n int);
        CREATE TABLE a(id int PRIMARY KEY, t text, d text, p pos, g text GENERATED ALWAYS AS (NULL::text) STORED,
          h int GENERATED ALWAYS AS (id * 2) STORED)
        """)
      let mend = #"run at the target: ALTER TABLE "public"."a" DROP COLUMN "g""#
      let checked = try bench.bench.run(Bench.cairn, ["check", "--from", bench.from.url, "--to", bench.to.url])
      #expect(checked.output.contains(mend), "\(checked.output)")
      for _ in 0..<2 {
        try bench.sql(bench.from, "UPDATE a SET t = t || 'x'")
        let outcome = try bench.once()
        #expect(outcome.status == 0 && outcome.errors.contains(mend), "\(outcome.errors)")
      }
      try bench.sql(bench.to, "ALTER TABLE a DROP COLUMN g")
      try bench.sql(bench.from, "UPDATE a SET t = 'y'")
      let outcome = try bench.once()
      #expect(outcome.status == 0 && !outcome.errors.contains("is NULL in every row"), "\(outcome.errors)")
      #expect(try bench.sql(bench.to, "SELECT id, t, h FROM a") == "1|y|2")
    }

    @Test func `SQLite reports the parts of a PostgreSQL table that it does not take`() throws {
      let bench = try PairBench(.postgresToSQLite)
      try bench.sql(bench.from, Self.table)
      try bench.sql(bench.from, "ALTER TABLE a ADD CONSTRAINT plain CHECK (id > 0)")
      let outcome = try bench.once()
      #expect(outcome.status == 0, "\(outcome.errors)")
      for part in [
        "the generated column h of public.a is left out", "the constraint plain of public.a is left out: CHECK",
        "the constraint a_h_key of public.a is left out: it needs a column that is left out",
      ] + Self.parts.map({ "table public.a: \($0)" }) {
        #expect(outcome.errors.contains(part), "\(part): \(outcome.errors)")
      }
    }

    @Test func `an index of SQLite that PostgreSQL does not get is reported when it comes`() throws {
      let bench = try PairBench(.sqliteToPostgres)
      try bench.sql(bench.from, "CREATE TABLE a(id INTEGER PRIMARY KEY, t TEXT, CHECK (id > 0))")
      let first = try bench.once()
      #expect(first.errors.contains("the CHECK constraints of a are left out"), "\(first.errors)")
      try bench.sql(bench.from, "CREATE UNIQUE INDEX part ON a(t) WHERE id > 5; INSERT INTO a VALUES (1, 'x')")
      let outcome = try bench.once()
      #expect(outcome.status == 0 && outcome.errors.contains("the index part of a is left out"), "\(outcome.errors)")
    }

    /// PostgreSQL 18 has `uuidv7()`; the other ends do not.
    @Test(arguments: [Pair.postgresToPostgres, .postgresToSQLite])
    func `defaults of PostgreSQL 18 are left out where the target lacks their function, at the start and later`(
      pair: Pair
    ) throws {
      var settings = PostgresServer.Settings()
      settings.more = ["allow_system_table_mods": "on"]
      let server = try PostgresServer(settings)
      let bench = try PairBench(pair, server)
      let keys = "id uuid PRIMARY KEY DEFAULT uuidv7(), n int DEFAULT 3"
      try bench.sql(
        bench.from,
        """
        CREATE FUNCTION pg_catalog.uuidv7() RETURNS uuid LANGUAGE sql VOLATILE AS 'SELECT gen_random_uuid()';
        CREATE TABLE item(\(keys), t text CHECK (t <> uuidv7()::text)); INSERT INTO item(t) VALUES ('a')
        """)
      let isPostgres = bench.to.isPostgres
      func notice(_ table: String, _ column: String) -> String {
        isPostgres
          ? "table public.\(table): the default of column \(column) is left out: the target has no function uuidv7()"
          : "the default of public.\(table).\(column) is left out: pg_catalog.uuidv7()"
      }
      let said = [
        notice("item", "id"),
        isPostgres ? "the constraint item_t_check is left out" : "item_t_check of public.item is left out",
      ]
      let checked = try bench.bench.run(Bench.cairn, ["check", "--from", bench.from.url, "--to", bench.to.url])
      let first = try bench.once()
      #expect(checked.status == 0 && first.status == 0, "\(checked)\(first)")
      for part in said {
        #expect(checked.output.contains(part) && first.errors.contains(part), "\(part): \(checked)\(first)")
      }
      try bench.sql(
        bench.from,
        """
        CREATE TABLE sale(\(keys)); INSERT INTO sale(n) VALUES (1); ALTER TABLE item ADD w uuid DEFAULT uuidv7();
        ALTER TABLE item ALTER n TYPE bigint; INSERT INTO item(t) VALUES ('b')
        """)
      let later = try bench.once()
      #expect(later.status == 0, "\(later)")
      for part in [notice("sale", "id"), notice("item", "w")] {
        #expect(later.errors.contains(part), "\(part): \(later.errors)")
      }
      for (table, columns) in [("item", "id, n, t, w"), ("sale", "id, n")] {
        let rows = try bench.sql(bench.from, "SELECT \(columns) FROM \(table) ORDER BY id")
        #expect(try bench.sql(bench.to, "SELECT \(columns) FROM \(table) ORDER BY id") == rows)
      }
      // The defaults that the target has stay.
      let key = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
      let own = try bench.sql(bench.to, "INSERT INTO sale(id) VALUES ('\(key)') RETURNING n")
      #expect(own.split(separator: "\n").first == "3")
    }

    @Test func `what a PostgreSQL source has and no target gets is named at the start`() throws {
      let bench = try PairBench(.postgresToSQLite, PostgresServer())
      try bench.sql(
        bench.from,
        """
        CREATE TABLE a(id int PRIMARY KEY, up int REFERENCES a); CREATE TABLE owned(id serial PRIMARY KEY)
        """)
      let plain = try bench.bench.run(Bench.cairn, ["check", "--from", bench.from.url])
      #expect(plain.status == 0 && !plain.output.contains("not replicated"), "\(plain)")
      try bench.sql(
        bench.from,
        """
        CREATE VIEW v AS SELECT 1; CREATE MATERIALIZED VIEW "M v" AS SELECT 1; CREATE SEQUENCE lone;
        CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
        CREATE TRIGGER t1 BEFORE INSERT ON a FOR EACH ROW EXECUTE FUNCTION f();
        CREATE TABLE part(id int PRIMARY KEY) PARTITION BY RANGE (id);
        CREATE TABLE part1 PARTITION OF part FOR VALUES FROM (0) TO (9);
        CREATE TABLE kid(PRIMARY KEY (id)) INHERITS (a); CREATE TEMP VIEW tv AS SELECT 1; SELECT lo_create(0);
        SELECT pg_create_physical_replication_slot('standby1')
        """)
      let said = [
        #"views are not replicated: public."M v", public.v"#,
        "triggers are not replicated, what they write is: t1 on public.a",
        "sequences that no column owns are not replicated: public.lone",
        "partitioned and inheriting tables arrive without partitions and inheritance: public.kid, public.part",
        "large objects are not replicated: there are 1",
        "capture's slot does not follow a failover to a standby, after which the tables are copied again; standbys use slots: standby1",
      ]
      let checked = try bench.bench.run(Bench.cairn, ["check", "--from", bench.from.url])
      let first = try bench.once()
      let again = try bench.once()
      #expect(first.status == 0 && again.status == 0, "\(first)\(again)")
      for line in said {
        #expect(checked.output.contains("note: \(line)\n"), "\(line): \(checked.output)")
        #expect(first.errors.contains("cairn: \(line)\n"), "\(line): \(first.errors)")
        #expect(!again.errors.contains(line), "\(again.errors)")
      }
    }

    @Test func `what an SQLite source has and no target gets is named at the start`() throws {
      let bench = try PairBench(.sqliteToPostgres)
      try bench.sql(
        bench.from,
        """
        PRAGMA encoding = 'UTF-16'; CREATE TABLE k(id TEXT PRIMARY KEY NOT NULL);
        CREATE TABLE a(id INTEGER PRIMARY KEY, v); CREATE TABLE g(id INTEGER PRIMARY KEY, d AS (id * 2));
        CREATE VIEW v AS SELECT 1; CREATE TRIGGER t1 AFTER INSERT ON a BEGIN UPDATE a SET v = 1; END;
        CREATE TRIGGER t2 BEFORE UPDATE ON a BEGIN UPDATE a SET v = 2 WHERE id = NEW.id; END
        """)
      let said = [
        "views are not replicated: v", "triggers are not replicated, what they write is: t1, t2",
        "SQLite leaves the result undefined of BEFORE triggers that update or delete the row for which they fire; these may: t2 on a",
        "the file is in UTF-16, and each copied piece of 100,000 rows sorts the whole table if its key has texts: k",
        "while it is captured, INSERT INTO … SELECT * needs a list of columns in tables with generated columns: g",
      ]
      let checked = try bench.bench.run(Bench.cairn, ["check", "--from", bench.from.url])
      let first = try bench.once()
      let captured = try bench.bench.run(Bench.cairn, ["check", "--from", bench.from.url])
      let again = try bench.once()
      for line in said {
        #expect(checked.output.contains("note: \(line)\n"), "\(line): \(checked.output)")
        #expect(captured.output.contains("note: \(line)\n"), "without Cairn's own triggers: \(captured.output)")
        #expect(first.errors.contains("cairn: \(line)\n"), "\(line): \(first.errors)")
        #expect(!again.errors.contains(line), "\(again.errors)")
      }
    }
  }
}
