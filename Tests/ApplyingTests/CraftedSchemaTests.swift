import Applying
import Changes
import Foundation
import Mapping
import PostgresKit
import SQLiteKit
import TestServers
import Testing

/// Trails whose schema records carry SQL: no text of them is run, and nothing but the table is made.
@Suite struct CraftedSchemaTests {
  /// One field of a schema record that carries SQL. `FILE` in it stands for a path.
  struct Attack: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let change: @Sendable (inout TableSchema) -> Void
    init(_ name: String, _ change: @escaping @Sendable (inout TableSchema) -> Void) {
      (testDescription, self.change) = (name, change)
    }
    /// The statement that creates the table.
    init(_ name: String, create text: String) { self.init(name) { $0.createText = text } }
  }

  // MARK: SQLite

  private static let more = """
    ; CREATE TABLE pwned(x); DROP TABLE canary; COMMIT; ATTACH 'FILE' AS evil; CREATE TABLE evil.pwned(x); \
    BEGIN IMMEDIATE
    """

  static let sqliteAttacks = [
    Attack("behind the statement", create: "CREATE TABLE t(id INTEGER PRIMARY KEY, a)" + more),
    Attack("ahead of it", create: "DROP TABLE canary; CREATE TABLE t(id INTEGER PRIMARY KEY, a)"),
    Attack("in a type", create: "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT)\(more); --)"),
    Attack("in a default", create: "CREATE TABLE t(id INTEGER PRIMARY KEY, a DEFAULT 'x')\(more); --)"),
    Attack("in a collation", create: "CREATE TABLE t(id INTEGER PRIMARY KEY, a COLLATE NOCASE)\(more); --)"),
    Attack("in a check", create: "CREATE TABLE t(id INTEGER PRIMARY KEY, a, CHECK (1))\(more); --)"),
    Attack("in a generated column", create: "CREATE TABLE t(id INTEGER PRIMARY KEY, a, g AS (1))\(more); --)"),
    Attack("in an action", create: "CREATE TABLE t(id REFERENCES t ON DELETE CASCADE)\(more); --)"),
    Attack("in a comment", create: "CREATE TABLE t(id INTEGER PRIMARY KEY, a) /* */\(more); /* */"),
    Attack("a query", create: "CREATE TABLE t AS SELECT x AS id, 'one' AS a FROM canary"),
    Attack("another table", create: "CREATE TABLE pwned(id INTEGER PRIMARY KEY, a)"),
    Attack("a virtual table", create: "CREATE VIRTUAL TABLE t USING fts5(id, a)"),
    Attack("a view", create: "CREATE VIEW t AS SELECT 7 AS id, 'one' AS a"),
    Attack("a trigger", create: "CREATE TRIGGER t AFTER INSERT ON canary BEGIN DELETE FROM canary; END"),
    Attack("an index") { $0.objects = [.init(name: "i", text: "CREATE INDEX i ON t(a)" + more)] },
    Attack("an index on another table") {
      $0.objects = [.init(name: "i", text: "CREATE UNIQUE INDEX i ON canary(x)")]
    },
    Attack("a statement in place of an index") { $0.objects = [.init(name: "i", text: "DROP TABLE canary")] },
    Attack("the condition of an index") {
      $0.objects = [.init(name: "i", text: "CREATE INDEX i ON t(a) WHERE a IN (SELECT x FROM canary)")]
    },
    Attack("fields without a statement") {
      $0.createText = "?"
      $0.columns[1].declaredType = "TEXT)" + more
      $0.columns[1].collation = "NOCASE)" + more
      $0.columns[1].defaultText = "'x')" + more
    },
    Attack("a foreign key") {
      $0.createText = "?"
      $0.foreignKeys = [
        .init(columns: [1], table: "t", references: ["id"], onUpdate: "", onDelete: "CASCADE)" + more)
      ]
    },
  ]

  @Test(arguments: sqliteAttacks) func `nothing but the table is made in SQLite`(attack: Attack) throws {
    let made = try Handmade(TempFolder())
    let file = made.folder("evil.db")
    try made.run("CREATE TABLE canary(x); INSERT INTO canary VALUES (7)")
    try made.shape("CREATE TABLE t(id INTEGER PRIMARY KEY, a)")
    var schema = try #require(made.latest("t"))
    attack.change(&schema)
    schema.createText = schema.createText.replacing("FILE", with: file)
    made.shape(schema)
    try made.transaction {
      try made.create("t")
      try made.copy("t", [[7, "one"]])
      try made.insert("t", [8, "two"])
    }
    _ = failure { try made.replay() }
    #expect(!FileManager.default.fileExists(atPath: file))
    #expect(try made.rows("SELECT x FROM canary") == [[7]])
    #expect(try made.rows("SELECT id, a FROM t ORDER BY id") == [[7, "one"], [8, "two"]])
    let names = try made.rows(
      "SELECT name FROM sqlite_master WHERE name NOT LIKE 'cairn\\_%' ESCAPE '\\' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
    ).map { $0[0].string }
    #expect(Set(names).subtracting(["canary", "t", "i"]) == [], "\(names)")
    #expect(try made.rows("SELECT name FROM sqlite_master WHERE tbl_name = 'canary' AND name <> 'canary'") == [])
    #expect(
      try made.rows("SELECT name FROM sqlite_master WHERE tbl_name = 't' AND type NOT IN ('table', 'index')") == [])
  }

  @Test func `a column that is added carries nothing along`() throws {
    let made = try Handmade(TempFolder())
    try made.run("CREATE TABLE canary(x); INSERT INTO canary VALUES (7)")
    try made.begin("CREATE TABLE t(id INTEGER PRIMARY KEY, a)", "t", [[1, 1]])
    try made.shape("CREATE TABLE u(id INTEGER PRIMARY KEY, a, b INT)")
    var schema = try #require(made.latest("u"))
    schema.name = "t"
    schema.createText = "CREATE TABLE t(id INTEGER PRIMARY KEY, a, b INT; DROP TABLE canary)"
    try made.transaction {
      try made.reshape("t", schema)
      try made.insert("t", [2, 2, 2])
    }
    try made.replay()
    #expect(try made.rows("SELECT x FROM canary") == [[7]])
    #expect(try made.rows("SELECT * FROM t") == [[1, 1, .null], [2, 2, 2]])
  }

  @Test func `functions that reach out are left out and reported`() throws {
    let made = try Handmade(TempFolder())
    let progress = ApplyProgress()
    try made.shape(
      """
      CREATE TABLE t(id INTEGER PRIMARY KEY, a CHECK (length(a) < 9), b DEFAULT (load_extension('x')),
        CONSTRAINT evil CHECK (load_extension('x') IS NULL), CHECK (a <> 'no'))
      """)
    try made.transaction {
      try made.create("t")
      try made.copy("t", [[7, "one", 1]])
    }
    try made.open(progress).drain()
    let text = try made.rows("SELECT sql FROM sqlite_master WHERE name = 't'")[0][0].string
    #expect(!text.contains("load_extension") && text.contains("length(a) < 9") && text.contains("'no'"), "\(text)")
    let notices = progress.snapshot.notices
    #expect(
      notices.contains("table t: a CHECK is left out: load_extension() is not a known function")
        && notices.contains { $0.hasPrefix("table t: the default of column b is left out") }, "\(notices)")
  }

  // MARK: PostgreSQL

  private static let morePostgres =
    "; CREATE TABLE public.pwned(x int); DROP TABLE public.canary; COPY (SELECT 1) TO PROGRAM 'touch FILE'"
  private static let head = "CREATE TABLE IF NOT EXISTS \"public\".\"t\" (\"id\" integer NOT NULL, "
  private static let tail = "CONSTRAINT t_pkey PRIMARY KEY (id))"
  /// A built-in function that runs the text that it is given.
  private static let runner = "query_to_xml('DROP TABLE public.canary', true, true, '')"

  static let postgresAttacks = [
    Attack("behind the script") { $0.createText += morePostgres },
    Attack("ahead of it") { $0.createText = "DROP TABLE public.canary; " + $0.createText },
    Attack("in a block") { $0.createText = "DO $$ BEGIN DROP TABLE public.canary; END $$; " + $0.createText },
    Attack("in a type's block") {
      $0.createText =
        """
        DO $cairn$ BEGIN CREATE TYPE public.m AS ENUM ('a'); DROP TABLE public.canary; \
        EXCEPTION WHEN duplicate_object THEN NULL; END $cairn$; \($0.createText)
        """
    },
    Attack("in a type", create: head + "a text, \(tail)\(morePostgres); --"),
    Attack("in a default", create: head + "a text DEFAULT 'x', \(tail)\(morePostgres); --"),
    Attack("a default that runs SQL", create: head + "a text DEFAULT (\(runner))::text, \(tail)"),
    Attack("a check that runs SQL", create: head + "a text, CHECK (\(runner) IS NULL), \(tail)"),
    Attack("a domain that runs SQL") {
      $0.createText = "CREATE DOMAIN public.d AS text CHECK (\(runner) IS NULL); " + head + "a public.d, " + tail
    },
    Attack("in a collation", create: head + "a text COLLATE pg_catalog.\"C\", \(tail)\(morePostgres); --"),
    Attack("a query", create: "CREATE TABLE public.t AS SELECT 7 AS id, 'one'::text AS a"),
    Attack("another table", create: "CREATE TABLE IF NOT EXISTS public.pwned (id integer PRIMARY KEY, a text)"),
    Attack("an extension") {
      $0.createText = "CREATE EXTENSION IF NOT EXISTS dblink WITH SCHEMA public; " + $0.createText
    },
    Attack("a schema of ours") {
      $0.createText = "CREATE SEQUENCE IF NOT EXISTS cairn.pwned; CREATE SCHEMA IF NOT EXISTS cairn; " + $0.createText
    },
    Attack("an owner of a sequence") {
      $0.createText +=
        " ALTER SEQUENCE other.numbers OWNED BY public.t.id; ALTER TABLE public.canary REPLICA IDENTITY FULL;"
    },
    Attack("an index") {
      $0.objects = [.init(name: "i", text: "CREATE INDEX i ON public.t USING btree (a)" + morePostgres)]
    },
    Attack("an index on another table") {
      $0.objects = [.init(name: "i", text: "CREATE UNIQUE INDEX i ON public.canary USING btree (x)")]
    },
    Attack("an index that runs SQL") {
      $0.objects = [.init(name: "i", text: "CREATE INDEX i ON public.t USING btree ((\(runner)::text))")]
    },
    Attack("a foreign key") {
      $0.foreignKeys = [
        .init(
          columns: [0], namespace: "public", table: "canary", references: ["x"], onUpdate: "",
          onDelete: "CASCADE" + morePostgres)
      ]
    },
    Attack("fields without a script") {
      $0.createText = "?"
      $0.columns[1].declaredType = "text)" + morePostgres
      $0.columns[1].collation = "pg_catalog.\"C\")" + morePostgres
      $0.columns[1].defaultText = "'x')" + morePostgres
    },
  ]

  private func expectUntouched(_ made: PostgresTarget, _ file: String) throws {
    #expect(!FileManager.default.fileExists(atPath: file))
    #expect(try made.psql("SELECT x FROM canary") == "7")
    let names = try made.psql(
      """
      SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema' AND c.relname NOT LIKE '%\\_pkey'
        AND (n.nspname <> 'cairn' OR c.relname = 'pwned') ORDER BY 1
      """)
    let made = Set(names.split(separator: "\n").map(String.init))
    #expect(made.subtracting(["other.numbers", "public.canary", "public.canary_x_key", "public.i", "public.t"]) == [])
  }

  private func target() throws -> (PostgresTarget, file: String) {
    let made = try PostgresTarget()
    try made.psql(
      "CREATE TABLE canary(x integer UNIQUE); INSERT INTO canary VALUES (7); CREATE SCHEMA other; CREATE SEQUENCE other.numbers"
    )
    let file = "/tmp/\(made.name).pwned"
    return (made, file)
  }

  @Test(arguments: postgresAttacks) func `nothing but the table is made in PostgreSQL`(attack: Attack) throws {
    let (made, file) = try target()
    try made.shape(postgres: "CREATE TABLE t(id integer PRIMARY KEY, a text)")
    var schema = try #require(made.trail.latest("t"))
    attack.change(&schema)
    schema.createText = schema.createText.replacing("FILE", with: file)
    made.trail.shape(schema)
    try made.trail.transaction {
      try made.trail.create("t")
      try made.trail.copy("t", [[.exact("7"), .exact("one")]])
    }
    _ = failure { try made.replay() }
    try expectUntouched(made, file)
    #expect(try made.psql("SELECT id, a FROM t") == "7|one")
    #expect(
      try made.psql("SELECT relreplident FROM pg_class WHERE relname = 'canary'") == "d"
        && made.psql("SELECT count(*) FROM pg_index WHERE indrelid = 'canary'::regclass") == "1")
  }

  @Test func `a change of a column's type, default or check carries nothing along`() throws {
    let (made, file) = try target()
    try made.begin(
      postgres: "CREATE TABLE t(id integer PRIMARY KEY, a text)", "t", [[.exact("7"), .exact("one")]])
    let more = Self.morePostgres.replacing("FILE", with: file)
    for text in ["", Self.head + "a text, b text, CHECK (\(Self.runner) IS NULL), " + Self.tail] {
      var schema = try #require(made.trail.latest("t"))
      schema.createText = text
      schema.columns[1].defaultText = "'x'" + more
      schema.columns[1].declaredType = "character varying(9)" + more
      if schema.columns.count < 3 {
        schema.columns.append(.init(name: "b", declaredType: "text" + more, defaultText: "now()" + more))
      }
      try made.trail.transaction { try made.trail.reshape("t", schema) }
      _ = failure { try made.replay() }
      try expectUntouched(made, file)
      #expect(try made.psql("SELECT id, a FROM t") == "7|one")
    }
  }

  // MARK: Files that programs write

  /// The tables of a file as capture reads them.
  private func captured(_ folder: TempFolder, _ sql: String, _ blob: [UInt8]? = nil) throws -> [TableSchema] {
    let database = try Database(ofProgram: folder("captured.db"))
    try database.executeScript(sql)
    if let blob { try database.run("INSERT INTO cairn_origin VALUES ('t', ?)", [.blob(blob)]) }
    return try Database(path: folder("captured.db")).userTables().map(\.schema)
  }

  @Test func `a shape that a program has written into cairn_origin runs nothing in PostgreSQL`() throws {
    let (made, file) = try target()
    var shape = TableSchema(
      epoch: 1, engine: .postgres, namespace: "public", name: "t",
      columns: [
        .init(name: "id", declaredType: "integer", isNotNull: true, keyOrdinal: 1),
        .init(name: "a", declaredType: "text", defaultText: "'x')" + Self.morePostgres),
      ])
    shape.createText =
      Self.head + "a text DEFAULT (\(Self.runner))::text, " + Self.tail
      + Self.morePostgres.replacing("FILE", with: file)
    shape.objects = [.init(name: "i", text: "CREATE INDEX i ON public.t (a)" + Self.morePostgres)]
    var bytes = ByteWriter()
    bytes.append(shape)
    let create = """
      CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT);
      CREATE TABLE cairn_origin(name TEXT PRIMARY KEY COLLATE NOCASE, shape BLOB) WITHOUT ROWID;
      """
    let schema = try #require(try captured(TempFolder(), create, Array(bytes.bytes)).first { $0.name == "t" })
    #expect(schema.original?.name == "t")
    made.trail.shape(schema)
    try made.trail.transaction {
      try made.trail.create("t")
      try made.trail.copy("t", [[7, "one"]])
    }
    try made.replay()
    try expectUntouched(made, file)
    #expect(try made.psql("SELECT id, a FROM t") == "7|one")
    // A blob that is none, and one that holds a shape within a shape, do not stop capture.
    var nested = shape
    nested.original = shape
    var other = ByteWriter()
    other.append(nested)
    for blob in [[1, 2, 3], Array(repeating: 0xff, count: 99), Array(other.bytes)] {
      let schema = try captured(TempFolder(), create, blob).first { $0.name == "t" }
      #expect(schema != nil && schema?.original?.original == nil)
    }
  }

  @Test func `text that writable_schema put into sqlite_master is not run at the target`() throws {
    let folder = try TempFolder()
    let made = try Handmade(folder)
    try made.run("CREATE TABLE canary(x); INSERT INTO canary VALUES (7)")
    let tables = try captured(
      folder,
      """
      CREATE TABLE t(id INTEGER PRIMARY KEY, a);
      CREATE INDEX i ON t(a);
      PRAGMA writable_schema = ON;
      UPDATE sqlite_master SET sql = sql || '; CREATE TABLE pwned(x); DROP TABLE canary';
      """)
    #expect(tables.first?.createText.hasSuffix("DROP TABLE canary") == true)
    for schema in tables { made.shape(schema) }
    try made.transaction {
      try made.create("t")
      try made.copy("t", [[7, "one"]])
    }
    try made.replay()
    #expect(try made.rows("SELECT x FROM canary") == [[7]])
    #expect(try made.rows("SELECT name FROM sqlite_master WHERE name = 'pwned'") == [])
    #expect(try made.rows("SELECT * FROM t") == [[7, "one"]])
  }
}
