import Applying
import Changes
import Mapping
import PostgresKit
import SQLiteKit
import TestServers
import Testing

/// The statements that ``TableSchema/parsed`` makes of schemas: never more than those of the table for hostile schemas,
/// and the same table for legal ones.
@Suite struct ParsedSchemaTests {
  private static let fragments = [
    ";", "; DROP TABLE canary; --", "; DROP TABLE canary", "'", "\"", "`", "[", "]", "/*", "*/", "--", "\n", "$$",
    "$x$",
    "\\", "E'\\'", "(", ")", ",", "CHECK (", "DEFAULT ", "x'00'", "REFERENCES canary", " AS SELECT * FROM canary",
    "\u{600}'", "'\u{301}", "\"\u{fe0f}", "\u{200d}", "NOT NULL", "PRIMARY KEY", "COLLATE ", "load_extension(1)",
    "pg_read_file('x')", "CREATE TABLE pwned(x)", "ATTACH 'x' AS y", "INSERT INTO canary VALUES (8)", "integer", "a",
    "1",
    "||", "::text", "BEGIN", "COMMIT", "WITHOUT ROWID", "U&'\\0027'", "DO $$ BEGIN DROP TABLE canary; END $$",
    "GENERATED",
    "IDENTITY", "USING", "WITH (", "TABLESPACE x", "INHERITS (canary)", "PARTITION BY RANGE (a)", "NULL", "CASE", "END",
  ]

  private func garbage(_ random: inout Seeded) -> String {
    (0..<random.below(8)).map { _ in
      random.below(4) == 0
        ? String(decoding: random.bytes(random.below(6)), as: UTF8.self)
        : Self.fragments[random.below(Self.fragments.count)] + (random.below(2) == 0 ? " " : "")
    }.joined()
  }

  /// Puts garbage into one text of the schema, in place of it or somewhere within.
  private func spoil(_ schema: inout TableSchema, _ random: inout Seeded) {
    let garbage = garbage(&random)
    func spoilt(_ text: String) -> String {
      guard random.below(3) > 0 else { return garbage }
      var scalars = Array(text.unicodeScalars)
      scalars.insert(contentsOf: garbage.unicodeScalars, at: random.below(scalars.count + 1))
      return HostileText.string(scalars)
    }
    let column = random.below(schema.columns.count)
    switch random.below(8) {
    case 0: schema.columns[column].declaredType = spoilt(schema.columns[column].declaredType)
    case 1: schema.columns[column].collation = spoilt(schema.columns[column].collation)
    case 2: schema.columns[column].defaultText = spoilt(schema.columns[column].defaultText ?? "")
    case 3: schema.columns[column].baseType = spoilt(schema.columns[column].baseType)
    case 4 where !schema.foreignKeys.isEmpty: schema.foreignKeys[0].onDelete = spoilt(schema.foreignKeys[0].onDelete)
    case 5 where !schema.objects.isEmpty: schema.objects[0].text = spoilt(schema.objects[0].text)
    default: schema.createText = spoilt(schema.createText)
    }
    // Then what the columns say makes the table.
    if random.below(4) == 0 { schema.createText = "?" }
  }

  private static let sqliteTable = """
    CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, a TEXT COLLATE NOCASE DEFAULT 'x' NOT NULL CHECK (length(a) < 9),
      b DECIMAL(10, 2) DEFAULT (abs(-1)) REFERENCES t(id) ON DELETE CASCADE, c AS (lower(a)) STORED,
      CONSTRAINT one UNIQUE (a, b), CHECK (b > 0 OR a IN ('y', 'z')));
    CREATE INDEX i ON t(a DESC, lower(b)) WHERE a IS NOT NULL;
    """

  @Test func `SQLite gets one statement for each object of a hostile schema`() throws {
    var random = Seeded(UInt64.random(in: 0...UInt64.max))
    let origin = try Database(path: ":memory:", mode: .create)
    try origin.executeScript(Self.sqliteTable)
    let legal = try #require(try origin.userTables().first?.schema)
    for _ in 0..<(isSoak ? 100_000 : 2_000) {
      var schema = legal
      for _ in 0...random.below(2) { spoil(&schema, &random) }
      guard let target = try mapped(schema, to: .sqlite) else { continue }
      let database = try Database(path: ":memory:", mode: .create)
      try database.executeScript("CREATE TABLE canary(x); INSERT INTO canary VALUES (7)")
      for statement in SQLiteAlteration.create(target) {
        // The lock must have nothing to refuse: whatever else is wrong, SQLite says of the statement itself.
        do { try database.define(statement, tables: ["t"]) } catch let error as SQLiteError {
          #expect(
            !error.message.contains("another statement") && !error.message.contains("not authorized"),
            "\(error.message): \(statement)")
        }
        #expect(["CREATE TABLE", "CREATE INDEX", "CREATE UNIQUE"].contains(Self.kind(of: statement)), "\(statement)")
      }
      #expect(try database.query("SELECT x FROM canary") == [[7]])
      let names = try database.query("SELECT name FROM sqlite_master WHERE name NOT LIKE 'sqlite%'").map {
        $0[0].string
      }
      #expect(Set(names).isSubset(of: ["canary", "t", "i"]), "\(names)")
    }
  }

  /// The table at the target; nil if it is refused for a NUL in a name.
  private func mapped(_ schema: TableSchema, to engine: Engine) throws -> TableSchema? {
    do { return try TableMapping(schema, to: engine).target } catch  where error.message.contains("NUL") { return nil }
  }

  /// The first two words of a statement.
  private static func kind(of statement: String) -> String {
    statement.split(whereSeparator: \.isWhitespace).prefix(2).joined(separator: " ").uppercased()
  }

  private static let postgresTables = """
    CREATE SCHEMA sales;
    CREATE TYPE sales.mood AS ENUM ('sad', 'it''s', 'b\\c');
    CREATE TYPE sales.pair AS (a integer, b text);
    CREATE DOMAIN sales.cents AS numeric(9,0) DEFAULT 1 NOT NULL CONSTRAINT positive CHECK (VALUE >= 0);
    CREATE TYPE sales.span AS RANGE (SUBTYPE = integer);
    CREATE TABLE sales.t(id integer GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, n serial, a text COLLATE "C" NOT NULL
        DEFAULT lower('X'::text) || '-'::text CHECK (a ~~ 'x%' AND length(a) < 9), m sales.mood DEFAULT 'sad',
      p sales.pair, c sales.cents, s sales.span, tags text[] DEFAULT '{}', at timestamptz(3) DEFAULT now(),
      d date DEFAULT (now() AT TIME ZONE 'UTC')::date, u uuid DEFAULT gen_random_uuid(), j jsonb DEFAULT '{"a": 1}',
      w interval day to second(2), k bit varying(5), f double precision DEFAULT '-1.5', v varchar(10),
      g integer GENERATED ALWAYS AS (n * 2) STORED, y integer DEFAULT EXTRACT(year FROM now()),
      CONSTRAINT few CHECK (n = ANY (ARRAY[1, 2, 3]) OR CASE WHEN f > 0 THEN true ELSE v IS NOT NULL END),
      CONSTRAINT late UNIQUE (v) DEFERRABLE INITIALLY DEFERRED, EXCLUDE USING gist (s WITH &&));
    CREATE INDEX i ON sales.t (lower(a) DESC NULLS LAST, v) WHERE f > 0 AND v <> '';
    CREATE INDEX i2 ON sales.t USING gin (tags) WITH (fastupdate = off);
    CREATE UNIQUE INDEX i3 ON sales.t ((coalesce(v, '')), (upper(a) COLLATE "C")) INCLUDE (f);
    CREATE INDEX i4 ON sales.t (date_trunc('day', at AT TIME ZONE 'UTC'), "left"(v, 3), substring(v from 1 for 2));
    """

  @Test func `PostgreSQL gets one statement for each object of a hostile schema`() throws {
    let made = try PostgresTarget()
    try made.psql(Self.postgresTables)
    let connection = try PostgresConnection(made.url)
    let legal = try #require(try connection.userTables().first?.schema)
    try made.psql("DROP SCHEMA sales CASCADE; CREATE TABLE canary(x integer); INSERT INTO canary VALUES (7)")
    var random = Seeded(UInt64.random(in: 0...UInt64.max))
    let kinds: Set<String> = [
      "CREATE SCHEMA", "CREATE TABLE", "CREATE SEQUENCE", "CREATE TYPE", "CREATE DOMAIN", "CREATE INDEX",
      "CREATE UNIQUE", "DO $CAIRN$", "DO $CAIRN1$", "ALTER SEQUENCE", "ALTER TYPE", "ALTER TABLE",
    ]
    for _ in 0..<(isSoak ? 10_000 : 150) {
      var schema = legal
      for _ in 0...random.below(2) { spoil(&schema, &random) }
      guard let target = try mapped(schema, to: .postgres) else { continue }
      try connection.execute("BEGIN")
      for statement in PostgresScript.statements(target) {
        #expect(kinds.contains(Self.kind(of: statement)), "\(statement)")
        try connection.execute("SAVEPOINT s")
        do { try connection.run(statement, []) } catch let error as PostgresError {
          #expect(!error.message.contains("multiple commands"), "\(statement)")
          try connection.execute("ROLLBACK TO s")
        }
      }
      #expect(try connection.first("SELECT x FROM public.canary") == "7")
      #expect(try connection.first("SELECT to_regclass('public.pwned') IS NULL") == "t")
      try connection.execute("ROLLBACK")
    }
  }

  @Test func `a script that cannot be read leaves nothing, though the table has types of its own`() throws {
    let schema = TableSchema(
      epoch: 1, engine: .postgres, namespace: "public", name: "t",
      columns: [.init(name: "m", declaredType: "public.mood", baseType: "enum")],
      createText: "DROP TABLE canary; CREATE TABLE public.t (m public.mood); \\")
    let text = schema.parsed.schema.createText
    #expect(!text.contains("canary") && text.hasPrefix("CREATE TABLE"), "\(text)")
  }

  // MARK: Legal schemas

  @Test func `a legal table of PostgreSQL comes out as it went in`() throws {
    let made = try PostgresTarget()
    try made.psql(Self.postgresTables)
    let connection = try PostgresConnection(made.url)
    let legal = try #require(try connection.userTables().first?.schema)
    let (parsed, notices) = legal.parsed
    #expect(notices == [])
    try made.psql("DROP SCHEMA sales CASCADE")
    for statement in PostgresScript.statements(parsed) { try connection.run(statement, []) }
    let again = try #require(try connection.userTables().first?.schema)
    #expect(again == legal)
    #expect(again.parsed.schema == parsed)
  }

  @Test func `functions of PostgreSQL are named with their schema`() throws {
    let schema = TableSchema(
      epoch: 1, engine: .postgres, namespace: "public", name: "t",
      columns: [.init(name: "a", declaredType: "text", defaultText: "lower('X'::text)")])
    #expect(schema.parsed.schema.columns[0].defaultText == "pg_catalog.lower('X'::text)")
  }

  @Test func `legal tables of SQLite come out letter by letter`() throws {
    let tables =
      [
        Self.sqliteTable, "CREATE TABLE [a b](\"x\"\"y\" 'my type', `c` , d INT -- a comment\n, /* one */ e)",
        "CREATE TABLE t(a INT, b TEXT, PRIMARY KEY(b, a)) WITHOUT ROWID", "CREATE TABLE t(a ANY) STRICT",
        "CREATE TABLE t(a UNIQUE ON CONFLICT REPLACE, b DEFAULT -1.5e3, c DEFAULT CURRENT_TIMESTAMP, d DEFAULT x'00ff')",
        "CREATE TABLE t(a CHECK (a BETWEEN 1 AND 9 AND a NOT IN (3, 4) AND a IS NOT NULL), b CHECK (b LIKE 'x%' ESCAPE '!'))",
        "CREATE TABLE t(a, b, CONSTRAINT k FOREIGN KEY(a) REFERENCES t(b) ON UPDATE SET NULL DEFERRABLE INITIALLY DEFERRED)",
        "CREATE TABLE t(a DEFAULT (strftime('%s', 'now')), b AS (json_extract(a, '$.x')) VIRTUAL, c CHECK (c -> 'a' = 1))",
        "CREATE TABLE t(a, b CHECK (CASE WHEN a THEN 1 ELSE cast(b AS INTEGER) END), c DEFAULT TRUE UNIQUE NOT NULL)",
        "CREATE TABLE t(a DEFAULT \"text\", b DEFAULT abc, c CHECK (NOT -c + 1 IS 2 COLLATE NOCASE))",
        "CREATE TABLE t(a INTEGER PRIMARY KEY DESC, key TEXT, desc TEXT, action TEXT CHECK (desc <> '' AND key > action))",
      ]
    for sql in tables {
      let database = try Database(path: ":memory:", mode: .create)
      try database.executeScript(sql)
      for table in try database.userTables() {
        let (parsed, notices) = table.schema.parsed
        #expect(notices == [] && parsed == table.schema, "\(sql): \(notices) \(parsed.createText)")
      }
    }
  }

  // MARK: Memory

  private func postgresDefault(_ text: String) -> String? {
    TableSchema(
      epoch: 1, engine: .postgres, namespace: "public", name: "t",
      columns: [.init(name: "a", declaredType: "text", defaultText: text)]
    ).parsed.schema.columns[0].defaultText
  }

  private func sqliteTable(_ sql: String) throws -> (text: String, notices: [String]) {
    let database = try Database(path: ":memory:", mode: .create)
    try database.executeScript(sql)
    let (parsed, notices) = try #require(try database.userTables().first?.schema).parsed
    try Database(path: ":memory:", mode: .create).execute(parsed.createText)
    return (parsed.createText, notices)
  }

  @Test(arguments: [
    "repeat('x', 1000000000)", "lpad('x', 1000000000)", "rpad('x'::text, 1000000000, '-'::text)",
    "format('%1000000s', 'x')", "replace(a, 'x', a)", "regexp_replace(a, '', 'xxxxxxxxxxxxxxxx', 'g')",
    "array_fill('x'::text, ARRAY[10000000])", "array_to_string(ARRAY[1, 2], a)", "jsonb_pretty(a::jsonb)",
    "jsonb_path_query_array(a, '$.**')", "string_agg(a, 'x')", "concat_ws(a, 'x', 'x', 'x', 'x', 'x', 'x')",
    "'x'::character(10000000)", "B'1'::bit(10000000)", "CAST('x' AS char(70000))",
    String(repeating: "quote_literal(", count: 8) + "a" + String(repeating: ")", count: 8),
    Array(repeating: "a", count: 65).joined(separator: " || "),
    "ARRAY[" + Array(repeating: "a", count: 65).joined(separator: ", ") + "]",
    "(a || 'x')" + String(repeating: "::bytea::text", count: 4), "a::jsonb @? '$.**.**.**'",
    Array(repeating: "(10::numeric ^ 131071)::text", count: 65).joined(separator: " || "),
  ]) func `an expression that builds a large value in PostgreSQL is left out`(text: String) {
    #expect(postgresDefault(text) == nil)
  }

  @Test(arguments: [
    "lower(a)", "upper(a)", "coalesce(a, b)", "round(a, 2)", "now()", "gen_random_uuid()", "substr(a, 1, 3)",
    "(a || ' '::text) || b", "lpad((a)::text, 8, '0'::text)", "replace(a, '-'::text, ''::text)",
    "regexp_replace(a, '[^0-9]'::text, ''::text, 'g'::text)", "concat_ws(' '::text, a, b)",
    "to_char(a, 'YYYY-MM'::text)",
    "to_tsvector('english'::regconfig, (((a)::text || ' '::text) || (b)::text))", "date_trunc('day'::text, a)",
    "(a ->> 'x'::text)", "jsonb_build_object('a', a, 'b', b)", "md5((a)::text)",
    "encode(sha256((a)::bytea), 'hex'::text)",
    "a = ANY (ARRAY[" + (0..<300).map { "'s\($0)'::text" }.joined(separator: ", ") + "])", "(a)::character(64)",
  ]) func `an expression of everyday tables of PostgreSQL stays`(text: String) {
    #expect(postgresDefault(text) != nil)
  }

  @Test(arguments: ["CHECK (a <> 'x')", "CHECK (hex(a) || a <> 'x')"])
  func `CHECKs that name columns very often together are left out in part`(check: String) throws {
    let weight = check.contains("hex") ? 3 : 1
    let most = 1024 / weight
    func count(_ text: String) -> Int { text.components(separatedBy: "CHECK").count - 1 }
    for (given, kept) in [(most - 1, most - 1), (most + 500, most)] {
      let checks = Array(repeating: check, count: given).joined(separator: ", ")
      let sqlite = try sqliteTable("CREATE TABLE t(a TEXT, \(checks))")
      #expect(count(sqlite.text) == kept)
      // One message for all that are left out for the same reason.
      #expect(sqlite.notices.count == (given > kept ? 1 : 0))
      #expect(
        sqlite.notices.allSatisfy { $0.contains("all of them name columns more than 1024 times") },
        "\(sqlite.notices.first ?? "")")
      let ofColumn = try sqliteTable("CREATE TABLE t(a TEXT \(checks.replacing(", ", with: " ")))")
      #expect(count(ofColumn.text) == kept)
    }
    // In PostgreSQL the constraints are counted, and a domain has as many as it likes.
    let long = "CHECK ((\(Array(repeating: "a <> 'x'::text", count: 60).joined(separator: " AND "))))"
    let own = (0..<40).map { "CONSTRAINT c\($0) \(long)" }.joined(separator: ", ")
    let domain = (0..<40).map { "CONSTRAINT d\($0) \(long.replacing("a <>", with: "VALUE <>"))" }.joined(separator: " ")
    var schema = TableSchema(
      epoch: 1, engine: .postgres, namespace: "public", name: "t", columns: [.init(name: "a", declaredType: "text")])
    schema.createText = "CREATE TABLE IF NOT EXISTS public.t (a text, \(own))"
    #expect(count(schema.parsed.schema.createText) == 1024 / 60)
    schema.createText =
      "DO $cairn$ BEGIN CREATE DOMAIN public.d AS text \(domain); EXCEPTION WHEN duplicate_object THEN NULL; END $cairn$; "
      + schema.createText
    #expect(count(schema.parsed.schema.createText) == 1024 / 60)
  }

  @Test func `index texts of a table are parsed up to one size in all`() {
    let long = String(repeating: "1 + ", count: 100_000)
    let schema = TableSchema(
      epoch: 1, engine: .sqlite, name: "t", columns: [.init(name: "a", declaredType: "INTEGER", keyOrdinal: 1)],
      objects: (0..<5).map { .init(name: "i\($0)", text: "CREATE INDEX i\($0) ON t(a) WHERE \(long)$") }
        + [.init(name: "short", text: "CREATE INDEX short ON t(a)")])
    let (parsed, notices) = schema.parsed
    #expect(parsed.objects.map(\.name) == ["short"])
    let isTooMuch = { (notice: String) in notice.contains("longer than 1048576 bytes") }
    #expect(notices.filter(isTooMuch).count == 3, "\(notices)")
  }

  @Test func `expressions that build large values in SQLite are left out`() throws {
    let doubling = (1...40).map { "g\($0) AS (g\($0 - 1) || g\($0 - 1))" }.joined(separator: ", ")
    let backwards = (1...40).reversed().map { "g\($0) AS (g\($0 - 1) || g\($0 - 1))" }.joined(separator: ", ")
    let wide = (1...200).map { "g\($0) AS (lower(a))" }.joined(separator: ", ")
    let hostile = [
      "CREATE TABLE t(a, b DEFAULT (randomblob(1000000000)))", "CREATE TABLE t(a, b DEFAULT (zeroblob(1000000000)))",
      "CREATE TABLE t(a, b AS (replace(a, 'x', a)))", "CREATE TABLE t(a, CHECK (hex(zeroblob(900000000)) <> ''))",
      "CREATE TABLE t(a, b DEFAULT (printf('%1000000000d', 1)))", "CREATE TABLE t(a, b DEFAULT (randomblob(1 << 30)))",
      "CREATE TABLE t(a, b AS (concat_ws(a, 1, 2, 3, 4, 5, 6, 7)))",
      "CREATE TABLE t(a, b AS (\(String(repeating: "hex(", count: 9))a\(String(repeating: ")", count: 9))))",
      "CREATE TABLE t(a, b AS (\(Array(repeating: "a", count: 65).joined(separator: "||"))))",
    ]
    for sql in hostile {
      guard let read = try? sqliteTable(sql) else { continue }
      #expect(!read.notices.isEmpty, "\(sql)")
    }
    for chain in [doubling, backwards, wide] {
      let (text, notices) = try sqliteTable("CREATE TABLE t(a, g0 AS (a), \(chain))")
      #expect(!notices.isEmpty)
      // Whatever is left, one row of 64 KiB must not take more than the bound says.
      let database = try Database(path: ":memory:", mode: .create)
      try database.execute(text)
      try database.run("INSERT INTO t(a) VALUES (?)", [.text(Array(repeating: 0x61, count: 65_536))])
      let names = try database.query("SELECT name FROM pragma_table_xinfo('t')").map { $0[0].string }
      let bytes = try database.integer("SELECT \(names.map { "length(\($0))" }.joined(separator: " + ")) FROM t")
      #expect(bytes ?? 0 <= 65_536 * 130, "\(names.count) columns")
    }
    let indexes = (0..<100).map { "CREATE INDEX i\($0) ON t(a)" }.joined(separator: ";")
    let database = try Database(path: ":memory:", mode: .create)
    try database.executeScript("CREATE TABLE t(a, b)")
    for statement in indexes.split(separator: ";") { try database.execute(String(statement)) }
    #expect(try database.userTables().first?.schema.parsed.schema.objects.count == 64)
  }

  @Test func `lists of very many elements are left out`() throws {
    let list = Array(repeating: "7", count: 6000).joined(separator: ",")
    for sql in [
      "CREATE TABLE t(a CHECK (a NOT IN (\(list))))", "CREATE TABLE t(a, b AS (a IN (\(list))))",
      "CREATE TABLE t(a DEFAULT (1 IN (\(list))))",
      "CREATE TABLE t(a, \((0..<20).map { _ in "CHECK (a NOT IN (\(list.prefix(2000))))" }.joined(separator: ", ")))",
    ] {
      guard let read = try? sqliteTable(sql) else { continue }
      #expect(!read.notices.isEmpty, "\(sql.prefix(60))")
      #expect(read.text.utf8.count < 11_000, "\(sql.prefix(60))")
    }
    let text = "CREATE INDEX i ON t(a) WHERE a NOT IN (\(list))"
    let database = try Database(path: ":memory:", mode: .create)
    try database.executeScript("CREATE TABLE t(a); \(text)")
    #expect(try database.userTables().first?.schema.parsed.schema.objects == [])
  }

  @Test func `expressions of everyday tables of SQLite stay`() throws {
    for sql in [
      "CREATE TABLE t(id TEXT DEFAULT (lower(hex(randomblob(16)))), a)",
      """
      CREATE TABLE t(id TEXT DEFAULT (lower(hex(randomblob(4))) || '-' || lower(hex(randomblob(2))) || '-4' ||
        substr(lower(hex(randomblob(2))), 2) || '-' || substr('89ab', abs(random()) % 4 + 1, 1) ||
        substr(lower(hex(randomblob(2))), 2) || '-' || lower(hex(randomblob(6)))), a)
      """,
      "CREATE TABLE t(a, b AS (trim(replace(a, '-', ''))), c AS (b || a) STORED, d DEFAULT (datetime('now')))",
      "CREATE TABLE t(a, b AS (json_extract(a, '$.x')), c CHECK (json_valid(c)), d AS (coalesce(b, lower(a))))",
      "CREATE TABLE t(a, b CHECK (b IN (\((0..<300).map { "'s\($0)'" }.joined(separator: ", ")))))",
    ] {
      let (_, notices) = try sqliteTable(sql)
      #expect(notices == [], "\(sql)")
    }
  }
}
