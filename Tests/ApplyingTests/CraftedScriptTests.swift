import Applying
import Changes
import Mapping
import PostgresKit
import SQLiteKit
import TestServers
import Testing

/// Scripts of tables whose statements are all known: they make no object for other users of the server, few objects, and
/// expressions that end soon.
@Suite(.timeLimit(.minutes(20))) struct CraftedScriptTests {
  private static let table = "CREATE TABLE IF NOT EXISTS public.t (id integer NOT NULL, a text, PRIMARY KEY (id));"

  /// Applies a trail with a table of that script and one row.
  private func replay(_ script: String, _ value: String = "one", into made: PostgresTarget) throws {
    try made.shape(postgres: "CREATE TABLE t(id integer PRIMARY KEY, a text)")
    var schema = try #require(made.trail.latest("t"))
    schema.createText = script
    made.trail.shape(schema)
    try made.trail.transaction {
      try made.trail.create("t")
      try made.trail.copy("t", [[.exact("7"), .exact(value)]])
    }
    try made.replay()
  }

  // MARK: Extensions

  @Test(arguments: [true, false]) func `a trail creates no extension in a schema of the server or of Cairn`(
    isList: Bool
  )
    throws
  {
    let made = try PostgresTarget()
    if isList { made.options.scope = TargetScope(["t"]) }
    try replay(
      """
      CREATE EXTENSION IF NOT EXISTS intarray WITH SCHEMA pg_catalog;
      CREATE EXTENSION IF NOT EXISTS citext WITH SCHEMA cairn;
      CREATE EXTENSION IF NOT EXISTS hstore WITH SCHEMA "cairn_x"; \(Self.table)
      """, into: made)
    #expect(try made.psql("SELECT extname FROM pg_extension") == "plpgsql")
    #expect(try made.psql("SELECT id, a FROM t") == "7|one")
  }

  @Test func `a list of tables creates no extension and reports the statement`() throws {
    let made = try PostgresTarget()
    made.options.scope = TargetScope(["t"])
    let script = "CREATE EXTENSION IF NOT EXISTS \"citext\" WITH SCHEMA \"public\"; \(Self.table)"
    let notice =
      "run at the target: CREATE EXTENSION IF NOT EXISTS \"citext\" WITH SCHEMA \"public\";"
    try replay(script, into: made)
    #expect(try made.psql("SELECT extname FROM pg_extension") == "plpgsql")
    #expect(made.progress.snapshot.notices.contains { $0.hasSuffix(notice) }, "\(made.progress.snapshot.notices)")
  }

  @Test func `a table uses an extension that its target has, and one for all tables creates it`() throws {
    let made = try PostgresTarget()
    made.options.scope = TargetScope(["t"])
    try made.psql("CREATE EXTENSION citext")
    let script = """
      CREATE EXTENSION IF NOT EXISTS "citext" WITH SCHEMA "public";
      CREATE TABLE IF NOT EXISTS public.t (id integer NOT NULL, a public.citext, PRIMARY KEY (id));
      """
    try replay(script, "Tea", into: made)
    #expect(try made.psql("SELECT id FROM t WHERE a = 'tea'") == "7")
    #expect(made.progress.snapshot.notices == [])
    let open = try PostgresTarget()
    try replay(script, "Tea", into: open)
    #expect(try open.psql("SELECT id FROM t WHERE a = 'tea'") == "7")
  }

  // MARK: Numbers of objects

  @Test(arguments: [true, false]) func `the script of one table makes few objects`(isList: Bool) throws {
    let made = try PostgresTarget()
    if isList { made.options.scope = TargetScope(["t"]) }
    func many(_ count: Int, _ text: (Int) -> String) -> String { (0..<count).map(text).joined() }
    try replay(
      many(20) { "CREATE SCHEMA IF NOT EXISTS s\($0);" } + many(3000) { "CREATE SEQUENCE IF NOT EXISTS public.q\($0);" }
        + many(200) { "CREATE TYPE public.y\($0) AS ENUM ('a');" }
        + "CREATE TABLE IF NOT EXISTS public.t (id integer NOT NULL, a text, PRIMARY KEY (id)"
        + many(100) { ", CONSTRAINT k\($0) UNIQUE (id)" } + many(300) { ", CONSTRAINT c\($0) CHECK (id > 0)" } + ");",
      into: made)
    func count(_ sql: String) throws -> Int { Int(try made.psql("SELECT count(*) FROM \(sql)")) ?? -1 }
    #expect(try made.psql("SELECT id, a FROM t") == "7|one")
    #expect(try count("pg_namespace WHERE nspname ~ '^s[0-9]'") == (isList ? 0 : 8))
    #expect(try count("pg_class WHERE relkind = 'S' AND relname ~ '^q[0-9]'") == 2)
    #expect(try count("pg_type WHERE typtype = 'e'") == 64)
    #expect(try count("pg_index WHERE indrelid = 't'::regclass") <= 64)
    #expect(try count("pg_constraint WHERE conrelid = 't'::regclass AND contype = 'c'") == 256)
    let notices = made.progress.snapshot.notices
    #expect(notices.contains { $0.contains("more than 2 sequence") }, "\(notices.prefix(9))")
    #expect(notices.contains { $0.contains("more objects are left out") } && notices.count < 50)
  }

  // MARK: Expressions that end soon

  private func postgresDefault(_ text: String) -> String? {
    TableSchema(
      epoch: 1, engine: .postgres, namespace: "public", name: "t",
      columns: [.init(name: "a", declaredType: "text", defaultText: text)]
    ).parsed.schema.columns[0].defaultText
  }

  private static let references = "'^(a+)(a+)(a+)(a+)b\\1\\2\\3\\4b$'"

  static let slow = [
    "a ~ \(references)", "a ~ \(references)::text", "a !~* ((\(references)))", "a ~ b", "a ~ ('x' || b)",
    "a ~ 'x' || b", "a ~ 'x' OPERATOR(pg_catalog.||) b", "a ~ 'x' 'y'", "a ~ E'(a)\\\\1'", "a ~ ANY (ARRAY['x', b])",
    "a ~ ANY (ARRAY[\(references)])", "a OPERATOR(pg_catalog.~) \(references)", "a ~ '(?=.*x)'", "a ~ '***:x'",
    "a ~ '((x{255}){255}){255}'", "a ~ 'x{256}'", "a ~ '\(String(repeating: "x", count: 257))'", "a SIMILAR TO 'x'",
    "a LIKE '%a%a%a%a%a%a%a%a%a'", "a ~~ '%a%a%a%a%a%a%a%a%a'::text", "a NOT ILIKE b", "a ~~* ('%' || b)",
    "a LIKE '\(String(repeating: "x", count: 1025))'", "regexp_replace(a, \(references), '')",
    "regexp_match(a, b)", "regexp_like(a, \(references)::text)", "\"substring\"(a, \(references))",
    "\"substring\"(a, b)", "SUBSTRING(a FROM \(references))", "SUBSTRING(a FROM b)",
    "SUBSTRING(a FROM '%#\"x#\"%' FOR '#')", "SUBSTRING(a SIMILAR b ESCAPE '#')", "substring(a, b || c + 1)",
    "substring(a, CASE b + 1 WHEN 1 THEN c END)", "a @> b", "a || '{}' && b", "b ?| a", "a <-> b", "a @@ b", "a !!! b",
    "strpos(a, b)", "POSITION(a IN b)", "btrim(a, b)", "TRIM(BOTH a FROM b)", "split_part(a, b, 1)",
    "string_to_array(a, b)", "translate(a, b, '')",
  ]
  @Test(arguments: slow) func `an expression of PostgreSQL that may never end is left out`(text: String) {
    #expect(postgresDefault(text) == nil)
  }

  @Test(arguments: [
    "(a)::text ~ '^[0-9]{4}-[0-9]{2}$'::text", "a ~* '^([0-9]{1,3}\\.){3}[0-9]{1,3}$'::text", "a ~ '(?:x|y)+\\d\\w'",
    "a !~ '(?i)^x'::text", "((a)::text ~ ANY ((ARRAY['x'::character varying, 'y'::character varying])::text[]))",
    "a ~~ '%@%.%'::text", "a LIKE '10!%' ESCAPE '!'", "(a ~~ 'x%'::text) AND (length(a) < 9)", "a NOT LIKE 'x%' OR b",
    "a ~~* ALL (ARRAY['x%'::text, 'y_'::text])", "a <@ ARRAY['x'::text, 'y'::text]", "'[1,9]'::int4range @> a",
    "(a && '{1,2}'::integer[]) AND (b > 1)", "\"substring\"(a, 1, 3)", "SUBSTRING(a FROM 1 FOR 3)",
    "SUBSTRING(a FROM (POSITION(('@'::text) IN (a)) + 1))", "SUBSTRING(a FROM '[0-9]+'::text)",
    "\"substring\"(a, pg_catalog.length(b))", "strpos(a, '@'::text)", "split_part(a, '@'::text, 2)",
    "btrim(a, ' '::text)", "TRIM(BOTH FROM a)", "TRIM(BOTH ' '::text FROM a)", "a -> 'x'", "a ? 'x'",
    "(a)::text ^@ 'x'",
  ]) func `an expression of PostgreSQL with a harmless pattern stays`(text: String) {
    #expect(postgresDefault(text) != nil)
  }

  @Test func `a regular expression with back references does not reach the server`() throws {
    let made = try PostgresTarget()
    made.options.scope = TargetScope(["t"])
    let long = String(repeating: "a", count: 1000)
    try replay(
      "CREATE TABLE public.t (id integer NOT NULL, a text, PRIMARY KEY (id), CHECK (a ~ \(Self.references)));",
      long + "b" + long + "ab", into: made)
    #expect(try made.psql("SELECT length(a) FROM t") == "2003")
    #expect(try made.psql("SELECT count(*) FROM pg_constraint WHERE conrelid = 't'::regclass AND contype = 'c'") == "0")
  }

  @Test(arguments: [
    ("a LIKE '%a%a%a%a%a%a%a%a%a'", false), ("a LIKE b", false), ("a LIKE 'x' || b", false), ("a GLOB b", false),
    ("a GLOB '*a*a*a*a*a*a*a*a*a'", false), ("glob(b, a)", false), ("like(b, a)", false), ("instr(a, b)", false),
    ("trim(a, b)", false), ("a LIKE 'x%'", true), ("a NOT LIKE '10!%' ESCAPE '!' AND b", true),
    ("a GLOB '[0-9]*'", true),
    ("like('x%', a)", true), ("instr(a, 'x')", true), ("trim(a, ' ')", true),
  ]) func `a pattern of SQLite is a harmless literal`(check: String, isKept: Bool) throws {
    let schema = TableSchema(
      epoch: 1, engine: .sqlite, namespace: "", name: "t",
      columns: [.init(name: "a", declaredType: ""), .init(name: "b", declaredType: "")],
      createText: "CREATE TABLE t(a, b, CHECK (\(check)))")
    #expect(schema.parsed.schema.createText.contains("CHECK") == isKept, "\(schema.parsed)")
  }
}
