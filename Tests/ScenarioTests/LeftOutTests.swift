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
  }
}
