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
  /// One field of a schema record that carries SQL. `FILE` in it is replaced by a path.
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

  @Test func `a value that grows past the limit at the target stops the apply at its row`() throws {
    let made = try Handmade(TempFolder())
    made.options.valueBytesMax = 1 << 20
    try made.shape("CREATE TABLE t(id INTEGER PRIMARY KEY, a, b AS (a || a || a) STORED)")
    try made.transaction {
      try made.create("t")
      try made.copy("t", [[1, .text(Array(repeating: 0x61, count: 100_000))]])
    }
    try made.replay()
    try made.transaction { try made.insert("t", [2, .text(Array(repeating: 0x61, count: 500_000))]) }
    #expect(failure { try made.replay() }?.code == .valueMisfit)
    #expect(try made.rows("SELECT count(*) FROM t WHERE id = 2") == [[0]])
    made.options.valueBytesMax = nil
    try made.replay()
    #expect(try made.rows("SELECT id, length(b) FROM t") == [[1, 300_000], [2, 1_500_000]])
  }

  // MARK: Objects of other tables

  /// A database with a table, sequences and types that the trail may not touch.
  private func neighbours() throws -> PostgresTarget {
    let made = try PostgresTarget()
    made.options.scope = TargetScope(["t", "u"])
    try made.psql(
      """
      CREATE SCHEMA hr; CREATE TABLE hr.salaries(id serial PRIMARY KEY, pay int);
      INSERT INTO hr.salaries(pay) VALUES (100); CREATE SEQUENCE public.numbers; CREATE SEQUENCE public.t_id_free;
      CREATE TYPE hr.mood AS ENUM ('sad'); CREATE TYPE hr.pair AS (a int, b int); CREATE DOMAIN hr.cents AS int;
      CREATE TABLE hr.staff(id int PRIMARY KEY, m hr.mood, p hr.pair, c hr.cents); CREATE TYPE hr.alone AS ENUM ('one')
      """)
    return made
  }

  private func state(_ made: PostgresTarget) throws -> String {
    try made.psql(
      """
      SELECT concat_ws(' ', relname, seqincrement, deptype, (SELECT relname FROM pg_class r WHERE r.oid = d.refobjid),
          pg_sequence_last_value(s.oid))
        FROM pg_class s JOIN pg_sequence q ON q.seqrelid = s.oid
        LEFT JOIN pg_depend d ON d.objid = s.oid AND d.deptype IN ('a', 'i') AND d.classid = 'pg_class'::regclass
        WHERE relnamespace IN ('hr'::regnamespace, 'public'::regnamespace) ORDER BY 1;
      SELECT enumlabel FROM pg_enum ORDER BY 1;
      SELECT typname FROM pg_type WHERE typnamespace = 'hr'::regnamespace ORDER BY 1;
      SELECT attname FROM pg_attribute WHERE attrelid = 'hr.pair'::regclass ORDER BY 1;
      SELECT conname FROM pg_constraint WHERE contypid = 'hr.cents'::regtype;
      SELECT conname FROM pg_constraint WHERE confrelid = 'hr.salaries'::regclass
      """)
  }

  static let reaching = [
    Attack("a foreign key") {
      $0.foreignKeys = [
        .init(columns: [1], namespace: "hr", table: "salaries", references: ["id"], onUpdate: "", onDelete: "")
      ]
    },
    Attack(
      "a default of another table's sequence", create: head + "a bigint DEFAULT nextval('hr.salaries_id_seq'), " + tail),
    Attack("the same as a default of its own") {
      $0.columns[1].defaultText = "nextval('hr.salaries_id_seq'::regclass)"
    },
    Attack(
      "a default of a sequence of no table",
      create: head + "a bigint DEFAULT nextval('public.numbers'::regclass), " + tail),
    Attack(
      "a sequence by an expression", create: head + "a bigint DEFAULT nextval('hr.' || 'salaries_id_seq'), " + tail),
    Attack("a sequence by its number", create: head + "a bigint DEFAULT nextval(16400), " + tail),
    Attack("an owner") {
      $0.createText +=
        "; ALTER SEQUENCE public.numbers OWNED BY public.t.id; ALTER SEQUENCE public.t_id_free OWNED BY public.t.id"
    },
    Attack("a check", create: head + "a bigint CHECK (a < nextval('hr.salaries_id_seq'::regclass)), " + tail),
    Attack("a domain") {
      $0.createText =
        """
        DO $cairn$ BEGIN CREATE DOMAIN public.d AS bigint DEFAULT nextval('hr.salaries_id_seq'::regclass); \
        EXCEPTION WHEN duplicate_object THEN NULL; END $cairn$; \(head)a public.d, \(tail)
        """
    },
    Attack("a label") { $0.createText = "ALTER TYPE hr.mood ADD VALUE IF NOT EXISTS 'evil'; " + $0.createText },
    Attack("a label of a type of no table") {
      $0.createText = "ALTER TYPE hr.alone ADD VALUE IF NOT EXISTS 'evil'; " + $0.createText
    },
    Attack("the labels of a type that it uses") {
      $0.createText = guardedType("hr.mood AS ENUM ('sad', 'evil')") + head + "a hr.mood, " + tail
    },
    Attack("the attributes of a type of no table") {
      $0.createText = guardedType("hr.pair AS (a int, evil int)") + head + "a text, " + tail
    },
    Attack("a new type of another schema") {
      $0.createText = guardedType("hr.evil AS ENUM ('evil')") + head + "a text, " + tail
    },
    Attack("a new range of another schema") {
      $0.createText =
        guardedType("public.evil AS RANGE (subtype = int4, multirange_type_name = hr.evils)") + head + "a text, " + tail
    },
    Attack("a new domain of another schema") {
      $0.createText =
        "DO $cairn$ BEGIN CREATE DOMAIN hr.evil AS int; EXCEPTION WHEN duplicate_object THEN NULL; END $cairn$; "
        + head + "a text, " + tail
    },
    Attack("a new sequence of another schema") {
      $0.createText = "CREATE SEQUENCE IF NOT EXISTS hr.evil; " + $0.createText
    },
    Attack("an object by a literal", create: head + "a text DEFAULT 'hr.salaries'::regclass::text, " + tail),
  ]

  private static func guardedType(_ text: String) -> String {
    "DO $cairn$ BEGIN CREATE TYPE \(text); EXCEPTION WHEN duplicate_object THEN NULL; END $cairn$; "
  }

  @Test(arguments: reaching) func `a table reaches no object of tables outside of the list`(attack: Attack) throws {
    let made = try neighbours()
    let before = try state(made)
    try made.shape(postgres: "CREATE TABLE t(id integer PRIMARY KEY, a bigint)")
    var schema = try #require(made.trail.latest("t"))
    attack.change(&schema)
    made.trail.shape(schema)
    try made.trail.transaction {
      try made.trail.create("t")
      try made.trail.copy("t", [[.exact("7"), .null]])
    }
    _ = failure { try made.replay() }
    // A row of a program, which draws its defaults.
    _ = failure { try made.psql("INSERT INTO t(id) VALUES (8)") }
    #expect(try state(made) == before)
    _ = failure { try made.psql("DROP TABLE t") }
    #expect(try state(made) == before)
  }

  @Test func `a change of a table reaches no object of tables outside of the list`() throws {
    let made = try neighbours()
    try made.begin(postgres: "CREATE TABLE t(id integer PRIMARY KEY, a bigint)", "t", [[.exact("7"), .null]])
    let before = try state(made)
    for text in [
      "CREATE SEQUENCE IF NOT EXISTS public.numbers INCREMENT BY 1; ",
      "CREATE SEQUENCE IF NOT EXISTS public.numbers INCREMENT BY 9; ",
      Self.guardedType("hr.alone AS ENUM ('one')"), Self.guardedType("hr.alone AS ENUM ('other')"),
      Self.guardedType("hr.pair AS (a int, b int)"), Self.guardedType("hr.pair AS (a int, evil int)"),
    ] {
      var schema = try #require(made.trail.latest("t"))
      schema.createText =
        text + Self.head + "\"a\" bigint DEFAULT nextval('hr.salaries_id_seq'::regclass), " + Self.tail
      schema.columns[1].defaultText = "nextval('public.numbers'::regclass)"
      schema.foreignKeys = [
        .init(columns: [1], namespace: "hr", table: "salaries", references: ["id"], onUpdate: "", onDelete: "CASCADE")
      ]
      try made.trail.transaction { try made.trail.reshape("t", schema) }
      _ = failure { try made.replay() }
      _ = failure { try made.psql("INSERT INTO t(id) SELECT coalesce(max(id), 0) + 1 FROM t") }
      #expect(try state(made) == before)
    }
  }

  @Test func `sequences, keys and types of listed tables come along`() throws {
    let made = try neighbours()
    try made.shape(
      postgres: """
        CREATE TYPE mood AS ENUM ('sad', 'glad');
        CREATE TABLE t(id serial PRIMARY KEY, m mood DEFAULT 'sad'); CREATE TABLE u(id integer PRIMARY KEY REFERENCES t);
        """)
    try made.trail.transaction {
      for name in ["t", "u"] { try made.trail.create(name) }
      try made.trail.copy("t", [[.exact("7"), .exact("glad")]])
      try made.trail.copy("u", [[.exact("7")]])
    }
    try made.replay()
    #expect(try made.psql("SELECT conname FROM pg_constraint WHERE contype = 'f'") == "u_id_fkey")
    try made.psql("INSERT INTO t DEFAULT VALUES")
    #expect(try made.psql("SELECT m FROM t ORDER BY m") == "sad\nglad")
    #expect(try made.psql("SELECT pg_get_serial_sequence('t', 'id')") == "public.t_id_seq")
  }

  @Test func `types and sequences come into the schemas of listed tables only`() throws {
    let made = try PostgresTarget()
    made.options.scope = TargetScope(["sales.*", "hr.*", "!hr.*"])
    try made.psql("CREATE SCHEMA sales; CREATE SCHEMA hr; CREATE SCHEMA kinds")
    try made.shape(postgres: "CREATE SCHEMA sales; CREATE TABLE sales.t(id integer PRIMARY KEY, a text)")
    var schema = try #require(made.trail.latest("sales.t"))
    let types = ["sales.ours", "hr.excluded", "kinds.other", "public.plain"]
    schema.createText =
      types.map { Self.guardedType("\($0) AS ENUM ('a')") }.joined()
      + types.map { "CREATE SEQUENCE IF NOT EXISTS \($0)_seq; " }.joined()
      + "CREATE TABLE IF NOT EXISTS sales.t (id integer NOT NULL, a text, CONSTRAINT t_pkey PRIMARY KEY (id))"
    made.trail.shape(schema)
    try made.trail.transaction {
      try made.trail.create("sales.t")
      try made.trail.copy("sales.t", [[.exact("7"), .exact("one")]])
    }
    try made.replay()
    let found = """
      SELECT nspname || '.' || typname FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace WHERE typtype = 'e'
      UNION ALL
      SELECT schemaname || '.' || sequencename FROM pg_sequences WHERE schemaname <> 'cairn' ORDER BY 1
      """
    #expect(try made.psql(found) == "sales.ours\nsales.ours_seq")
    #expect(try made.psql("SELECT id, a FROM sales.t") == "7|one")
    let notices = made.progress.snapshot.notices
    #expect(
      notices.contains { $0.contains("lists no table of schema kinds, so other is not made there") }, "\(notices)")
  }

  @Test func `a foreign key of SQLite references listed tables only`() throws {
    let made = try Handmade(TempFolder())
    let progress = ApplyProgress()
    made.options.scope = TargetScope(["t", "u"])
    try made.run("CREATE TABLE salaries(id INTEGER PRIMARY KEY); INSERT INTO salaries VALUES (1), (2)")
    try made.shape(
      """
      CREATE TABLE u(id INTEGER PRIMARY KEY);
      CREATE TABLE t(id INTEGER PRIMARY KEY, a REFERENCES salaries(id) ON DELETE RESTRICT, b REFERENCES u(id),
        FOREIGN KEY (a) REFERENCES salaries ON DELETE CASCADE, CHECK (a > 0))
      """)
    try made.transaction {
      for name in ["u", "t"] {
        try made.create(name)
        try made.copy(name, name == "u" ? [[1]] : [[1, 1, 1]])
      }
    }
    try made.open(progress).drain()
    #expect(try made.rows("SELECT \"table\" FROM pragma_foreign_key_list('t')") == [["u"]])
    #expect(
      progress.snapshot.notices.contains { $0.contains("references table salaries") }, "\(progress.snapshot.notices)")
    try made.run("PRAGMA foreign_keys = ON; DELETE FROM salaries")
    #expect(try made.rows("SELECT count(*) FROM salaries") == [[0]])
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
