import Changes
import Mapping
import SQLiteKit
import Testing

/// Tables of one engine in the other.
@Suite struct TableMappingTests {
  private func column(
    _ name: String, _ type: String, key: Int = 0, notNull: Bool = false, _ defaultText: String? = nil, base: String = ""
  ) -> TableSchema.Column {
    .init(
      name: name, declaredType: type, isNotNull: notNull || key > 0, keyOrdinal: key, defaultText: defaultText,
      baseType: base)
  }

  private func postgres(
    _ columns: [TableSchema.Column], name: String = "t", namespace: String = "public", uniques: [[Int]] = [],
    objects: [String] = []
  ) -> TableSchema {
    TableSchema(
      epoch: 3, engine: .postgres, namespace: namespace, name: name,
      flags: columns.contains { $0.keyOrdinal > 0 } ? [] : .wholeRow, columns: columns, uniques: uniques,
      createText: "", objects: objects.enumerated().map { .init(name: "i\($0)", text: $1) })
  }

  private func sqlite(_ sql: String) throws -> TableSchema {
    let database = try Database(path: ":memory:", mode: .create)
    try database.executeScript(sql)
    return try #require(try database.userTables().last?.schema)
  }

  @Test func `a NUL in any name is refused, and so are two columns of one name`() throws {
    let good = try sqlite(
      "CREATE TABLE p(id INTEGER PRIMARY KEY); CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT COLLATE NOCASE, c REFERENCES p(id)); CREATE INDEX i ON t(b)"
    )
    let changes: [(inout TableSchema) -> Void] = [
      { $0.name = "t\0" }, { $0.columns[1].name = "b\0x" }, { $0.columns[1].collation = "NOCASE\0" },
      { $0.objects[0].name = "i\0\n.shell x" }, { $0.foreignKeys[0].table = "p\0" },
      { $0.foreignKeys[0].references = ["id\0"] }, { $0.foreignKeys[0].namespace = "\0" },
      { schema in
        var original = schema
        original.objects[0].name = "\0"
        schema.original = original
      }, { $0.columns[1].name = "a" }, { $0.columns[1].name = "A" },
    ]
    for engine in [Engine.sqlite, .postgres] {
      _ = try TableMapping(good, to: engine)
      for (index, change) in changes.enumerated() {
        var schema = good
        change(&schema)
        let error = #expect(throws: CairnError.self, "\(index)") { try TableMapping(schema, to: engine) }
        #expect(error?.code == .tableRefused, "\(index): \(String(describing: error))")
      }
    }
    let twice = postgres([column("a", "integer"), column("a", "text")])
    #expect(throws: CairnError.self) { try TableMapping(twice, to: .postgres) }
    _ = try TableMapping(postgres([column("a", "integer"), column("A", "text")]), to: .postgres)
  }

  @Test func `no printed definition has a variable of psql`() throws {
    var schema = postgres([column("id", "integer", key: 1), column("a", "integer[]", "('{1}'::integer[])[1:1]")])
    schema.createText =
      """
      CREATE TABLE public.t (id integer NOT NULL, a integer[] DEFAULT ('{1}'::integer[])[1:1], CONSTRAINT t_pkey PRIMARY KEY (id), CONSTRAINT k CHECK (a[1:id] = a[:id] AND a["id":"id"] = a[1:'2'] AND a[id::integer:id] = a[1:]));
      """
    schema.objects = [.init(name: "i", text: "CREATE INDEX i ON public.t USING btree ((a[1:id]))")]
    let target = try TableMapping(schema, to: .postgres).target
    let texts = [target.createText] + target.objects.map(\.text) + target.columns.compactMap(\.defaultText)
    #expect(target.objects.count == 1 && target.createText.contains("a[1: id]"), "\(texts)")
    for text in texts {
      #expect(!text.replacing("::", with: "").contains(#/:[A-Za-z0-9_"'{]/#), "\(text)")
    }
    // Printed again, the text stays the same.
    let again = try TableMapping(target, to: .postgres).target
    #expect(again.createText.hasSameBytes(as: target.createText))
  }

  @Test func `a table of SQLite without its statement is made from its columns`() throws {
    var schema = try sqlite("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)")
    schema.createText = ""
    let wanted = #"CREATE TABLE "t"("a" INTEGER PRIMARY KEY, "b" TEXT)"#
    #expect(try TableMapping(schema, to: .sqlite).target.createText == wanted)
  }

  @Test func `an index that only its engine can read is known by its name`() {
    let source = postgres(
      [column("a", "text")],
      objects: [
        "CREATE UNIQUE INDEX i0 ON public.t USING btree (lower(a))",
        "CREATE UNIQUE INDEX i1 ON public.t USING btree (a) WHERE (a <> ''::text)",
        "CREATE UNIQUE INDEX i2 ON public.t USING btree (a)", "CREATE INDEX i3 ON public.t USING btree (lower(a))",
      ])
    #expect(["I0", "i1", "i2", "i3", "i4"].map(source.hasUniqueIndexOfItsOwn) == [true, true, false, false, false])
  }

  // MARK: PostgreSQL to SQLite

  @Test func `a table of PostgreSQL is created in SQLite`() throws {
    let source = TableSchema(
      epoch: 3, engine: .postgres, namespace: "sales", name: "orders",
      columns: [
        column("id", "bigint", key: 1, "nextval('sales.orders_id_seq'::regclass)"),
        column("total", "numeric(10,2)", "0"),
        column("ratio", "double precision", "'-1.5'::double precision"), column("ok", "boolean", notNull: true, "true"),
        column("note", "character varying(20)", "'it''s'::character varying"), column("n", "integer", "(-1)"),
        column("mood", "public.mood", "'ok'::public.mood", base: "enum"), column("raw", "bytea", "'\\x00ff'::bytea"),
        column("at", "timestamp with time zone", "now()"), column("day", "date", "'2024-01-01'::date"),
      ],
      uniques: [[4], [5, 6]],
      foreignKeys: [
        .init(
          columns: [5], namespace: "public", table: "item", references: ["id"], onUpdate: "NO ACTION",
          onDelete: "SET NULL"),
        .init(
          columns: [1], namespace: "sales", table: "sum", references: ["v"], onUpdate: "CASCADE", onDelete: "NO ACTION"),
      ],
      objects: [
        .init(
          name: "by_total",
          text: "CREATE INDEX by_total ON sales.orders USING btree (total DESC NULLS LAST, n) INCLUDE (ok)"),
        .init(name: "by_note", text: "CREATE INDEX by_note ON sales.orders USING btree (lower((note)::text))"),
        .init(name: "some", text: "CREATE UNIQUE INDEX some ON sales.orders USING btree (n) WHERE (n > 0)"),
        .init(name: "hashed", text: "CREATE INDEX hashed ON sales.orders USING hash (n)"),
        .init(name: "again", text: "CREATE UNIQUE INDEX again ON sales.orders USING btree (note)"),
      ])
    let mapping = try TableMapping(source, to: .sqlite)
    #expect(
      mapping.target.createText == """
        CREATE TABLE "sales_orders" (
          "id" INTEGER PRIMARY KEY,
          "total" TEXT DEFAULT '0.00',
          "ratio" DEFAULT -1.5,
          "ok" INTEGER NOT NULL DEFAULT 1,
          "note" TEXT DEFAULT 'it''s',
          "n" INTEGER DEFAULT -1,
          "mood" TEXT DEFAULT 'ok',
          "raw" BLOB DEFAULT x'00ff',
          "at" TEXT,
          "day" TEXT DEFAULT '2024-01-01',
          UNIQUE ("note"),
          UNIQUE ("n", "mood"),
          FOREIGN KEY ("n") REFERENCES "item" ("id") ON DELETE SET NULL,
          FOREIGN KEY ("total") REFERENCES "sales_sum" ("v") ON UPDATE CASCADE
        )
        """)
    #expect(
      mapping.target.objects.map(\.text) == [
        "CREATE INDEX \"sales_by_total\" ON \"sales_orders\" (\"total\" DESC, \"n\")"
      ])
    for part in ["orders.at", "index by_note", "index some", "index hashed"] {
      #expect(mapping.notices.contains { $0.contains(part) && $0.contains("left out") }, "\(part)")
    }
    // SQLite itself makes of it what the mapping says.
    let database = try Database(path: ":memory:", mode: .create)
    try database.executeScript(mapping.target.createText)
    for object in mapping.target.objects { try database.executeScript(object.text) }
    let made = try #require(try database.userTables().first)
    #expect(made.schema.key == mapping.target.key)
    #expect(made.schema.columns.map(\.declaredType) == mapping.target.columns.map(\.declaredType))
    #expect(try database.text("SELECT sql FROM sqlite_master WHERE name = 'sales_orders'") == mapping.target.createText)
    #expect(
      try database.text("SELECT sql FROM sqlite_master WHERE name = 'sales_by_total'") == mapping.target.objects[0].text
    )
  }

  @Test func `keys are keys, and only one of integers is the rowid`() throws {
    func text(_ columns: [TableSchema.Column]) throws -> String {
      try TableMapping(postgres(columns), to: .sqlite).target.createText
    }
    #expect(
      try text([column("k", "text", key: 1)])
        == "CREATE TABLE \"t\" (\n  \"k\" TEXT NOT NULL,\n  PRIMARY KEY (\"k\")\n)")
    #expect(try text([column("k", "boolean", key: 1)]).contains("PRIMARY KEY (\"k\")"))
    #expect(
      try text([column("b", "integer", key: 2), column("a", "integer", key: 1)]).contains("PRIMARY KEY (\"a\", \"b\")"))
    #expect(try text([column("k", "public.id", key: 1, base: "integer")]).contains("\"k\" INTEGER PRIMARY KEY"))
    #expect(try !text([column("k", "integer")]).contains("KEY"))
  }

  @Test func `names that SQLite cannot have are refused`() throws {
    let twice = postgres([column("id", "integer", key: 1), column("Id", "integer")])
    #expect(throws: (any Error).self) { try TableMapping(twice, to: .sqlite) }
    do { _ = try TableMapping(twice, to: .sqlite) } catch { #expect(error.code == .nameCollision) }
    for (namespace, name) in [("public", "sqlite_x"), ("public", "cairn_x"), ("cairn", "x")] {
      let table = postgres([column("id", "integer", key: 1)], name: name, namespace: namespace)
      do {
        _ = try TableMapping(table, to: .sqlite)
        Issue.record("\(name) was taken")
      } catch { #expect(error.code == .tableRefused) }
    }
  }

  // MARK: SQLite to PostgreSQL

  @Test func `a table of SQLite is created in PostgreSQL`() throws {
    let source = try sqlite(
      """
      CREATE TABLE Artist(id INTEGER PRIMARY KEY);
      CREATE TABLE "Order Line"(OrderId INTEGER PRIMARY KEY, "User" NVARCHAR(160) NOT NULL DEFAULT 'a\\b',
        Price NUMERIC(10,2) DEFAULT 0.99, At DATETIME DEFAULT CURRENT_TIMESTAMP, Flag BOOLEAN DEFAULT 1, Open,
        Pic BLOB DEFAULT x'00FF', Ref INT REFERENCES Artist ON DELETE CASCADE, Day DATE DEFAULT (date('now')),
        Twice INT AS (Ref * 2), UNIQUE (Price, Flag), UNIQUE (Open), CHECK (Price > 0));
      CREATE INDEX byAt ON "Order Line"(At DESC, [User]);
      CREATE UNIQUE INDEX byDay ON "Order Line"(Day);
      CREATE INDEX lowered ON "Order Line"(lower("User"));
      CREATE INDEX partly ON "Order Line"(Day) WHERE Day > '';
      """)
    let mapping = try TableMapping(source, to: .postgres)
    let target = mapping.target
    #expect(
      target.createText == """
        CREATE TABLE IF NOT EXISTS public."order line" (
          orderid bigint NOT NULL GENERATED BY DEFAULT AS IDENTITY,
          "user" character varying(160) NOT NULL DEFAULT E'a\\\\b',
          price numeric(10,2) DEFAULT '0.99',
          at timestamp without time zone DEFAULT date_trunc('second', now() AT TIME ZONE 'UTC'),
          flag boolean DEFAULT true,
          open text,
          pic bytea DEFAULT '\\x00ff',
          ref bigint,
          day date,
          PRIMARY KEY (orderid),
          UNIQUE (price, flag)
        );
        """)
    #expect(
      target.objects.map(\.text) == [
        "CREATE INDEX byat ON public.\"order line\" (at DESC, \"user\")",
        "CREATE UNIQUE INDEX byday ON public.\"order line\" (day)",
      ])
    #expect(
      target.foreignKeys == [
        .init(
          columns: [7], namespace: "public", table: "artist", references: [], onUpdate: "NO ACTION", onDelete: "CASCADE"
        )
      ])
    #expect(target.uniques.map(Set.init) == [[8], [2, 4]] || target.uniques.map(Set.init) == [[2, 4], [8]])
    for part in ["over Open", "CHECK", "generated", "Day is left out", "lowered", "partly"] {
      #expect(mapping.notices.contains { $0.contains(part) }, "\(part) in \(mapping.notices)")
    }
    #expect(mapping.contracts[5].verdict == .lossy("numbers become their text: 5 and '5' are one"))
    #expect(mapping.contracts[2].verdict == .lossless)
  }

  @Test func `keys other than INTEGER PRIMARY KEY`() throws {
    func target(_ sql: String) throws -> TableSchema { try TableMapping(try sqlite(sql), to: .postgres).target }
    #expect(
      try target("CREATE TABLE t(k TEXT PRIMARY KEY NOT NULL)").createText.contains("k text COLLATE \"C\" NOT NULL"))
    let nullable = try target("CREATE TABLE t(k TEXT PRIMARY KEY, v INT)").createText
    #expect(nullable.contains("k text COLLATE \"C\",") && nullable.contains("UNIQUE (k)"))
    #expect(nullable.contains("REPLICA IDENTITY FULL"))
    let keyless = try target("CREATE TABLE t(v INT)").createText
    #expect(!keyless.contains("KEY") && keyless.contains("REPLICA IDENTITY FULL"))
    #expect(
      try target("CREATE TABLE t(a INT, b INT, PRIMARY KEY(b, a)) WITHOUT ROWID").createText.contains(
        "PRIMARY KEY (b, a)"))
    #expect(try !target("CREATE TABLE t(a INT NOT NULL UNIQUE)").createText.contains("IDENTITY"))
  }

  @Test func `names fold, or are kept, and long ones stay two`() throws {
    let source = try sqlite("CREATE TABLE Album(AlbumId INTEGER PRIMARY KEY, \"Äpfel\" TEXT)")
    #expect(try TableMapping(source, to: .postgres).target.columns.map(\.name) == ["albumid", "Äpfel"])
    let kept = try TableMapping(source, to: .postgres, names: .keep).target
    #expect(kept.name == "Album" && kept.createText.contains("public.\"Album\""))
    let long = String(repeating: "x", count: 70)
    let names = [long + "a", long + "b"].map(NamePolicy.fold.postgresName)
    #expect(Set(names).count == 2)
    #expect(names.allSatisfy { $0.utf8.count == 63 })
    #expect(throws: (any Error).self) {
      try TableMapping(try sqlite("CREATE TABLE t(ctid INTEGER PRIMARY KEY)"), to: .postgres)
    }
  }

  // MARK: There and back

  @Test func `a table of PostgreSQL comes back from SQLite as it was`() throws {
    let source = postgres(
      [column("Id", "integer", key: 1), column("n", "numeric(10,2)"), column("m", "public.mood", base: "enum")],
      name: "Things", namespace: "sales", objects: ["CREATE INDEX i0 ON sales.\"Things\" USING gin (n)"])
    let there = try TableMapping(source, to: .sqlite)
    var kept = try sqlite(there.target.createText)
    kept.original = source
    let back = try TableMapping(kept, to: .postgres)
    #expect(back.target == source.atEpoch(0))
    #expect(back.contracts.allSatisfy { $0.verdict == .lossless })
    #expect(TableMapping.targetName(of: kept, in: .postgres) == "sales.Things")
  }

  @Test func `a table that was changed in SQLite keeps the types of what is left`() throws {
    let source = postgres(
      [
        column("Id", "integer", key: 1), column("n", "numeric(10,2)"), column("m", "public.mood", base: "enum"),
        column("d", "public.cents", base: "numeric(9,0)"), column("x", "real"),
      ], namespace: "sales")
    var changed = try sqlite(
      "CREATE TABLE sales_t(Id INTEGER PRIMARY KEY, n TEXT, m TEXT, d TEXT, x TEXT, fresh DATETIME)")
    changed.original = source
    let target = try TableMapping(changed, to: .postgres).target
    #expect(
      target.columns.map(\.declaredType) == [
        "integer", "numeric(10,2)", "text", "numeric(9,0)", "text", "timestamp without time zone",
      ])
    #expect(target.namespace == "sales" && target.name == "t")
    #expect(target.columns[0].name == "Id")
    #expect(target.createText.contains("CREATE SCHEMA IF NOT EXISTS sales;"))
  }

  @Test func `within an engine nothing changes`() throws {
    let source = try sqlite("CREATE TABLE T(A INTEGER PRIMARY KEY, b)")
    #expect(try TableMapping(source, to: .sqlite).target == source)
    let other = postgres([column("id", "integer", key: 1)])
    #expect(try TableMapping(other, to: .postgres).target == other)
  }
}

extension TableSchema {
  fileprivate func atEpoch(_ epoch: UInt64) -> TableSchema {
    var copy = self
    copy.epoch = epoch
    return copy
  }
}
