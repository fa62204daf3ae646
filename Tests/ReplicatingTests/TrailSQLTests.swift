import Changes
import Mapping
import SQLiteKit
import Testing

@testable import TrailText

@Suite struct TrailSQLTests {
  static let oddValues: [Value] = [
    .null, .integer(0), .integer(-1), .integer(.max), .integer(.min), .real(2), .real(-0.5), .real(0.1), .real(1e300),
    .real(-1e300), .real(.leastNonzeroMagnitude), .real(.greatestFiniteMagnitude), .real(.leastNormalMagnitude),
    .real(0.1 + 0.2),
    .real(1e16), .real(9_007_199_254_740_994), .real(.infinity), .real(-.infinity), .real(1e23), .real(.pi),
    .text(""), .text("tea"), .text("it's \"fine\"; -- really"), .text("line\nfeed\ttab"), .text("cr\r\nlf"),
    .text("é€😀"), .text([0x61, 0, 0x62]), .text([0xff, 0x80]), .text([0xc0, 0xaf]), .text("123"), .text("1.0"),
    .blob([]), .blob([0, 1, 0xff]), .blob(Array("tea".utf8)),
  ]

  // MARK: Values

  @Test func `every value comes back in its storage class and with every bit`() throws {
    let table = try schema("CREATE TABLE odd(id INTEGER PRIMARY KEY, v)")
    let trail = try HandmadeTrail()
    for (index, value) in Self.oddValues.enumerated() {
      try trail.transaction { try trail.insert(table, [.integer(Int64(index)), value]) }
    }
    let rows = try trail.replayed().typed("odd")
    #expect(rows.count == Self.oddValues.count)
    for (row, value) in zip(rows, Self.oddValues) {
      #expect(row[1] == value)
      if case (.real(let read), .real(let was)) = (row[1], value) { #expect(read.bitPattern == was.bitPattern) }
    }
  }

  @Test func `values of all kinds are found again in a table without key`() throws {
    let table = try schema("CREATE TABLE odd(v, w TEXT COLLATE NOCASE)")
    let trail = try HandmadeTrail()
    try trail.transaction {
      for value in Self.oddValues { try trail.insert(table, [value, .text("Tea")]) }
      for value in Self.oddValues.reversed() { try trail.update(table, [value, .text("Tea")], [nil, .text("tea")]) }
      for value in Self.oddValues.dropLast() { try trail.delete(table, [value, .text("tea")]) }
    }
    #expect(try trail.replayed().typed("odd") == [[Self.oddValues.last ?? .null, .text("tea")]])
  }

  @Test func `reals are exact, whatever SQLite makes of decimals`() throws {
    var random = SystemRandomNumberGenerator()
    let database = try Database(path: ":memory:", mode: .create)
    let table = try schema("CREATE TABLE t(v)")
    for round in 0..<40 {
      let reals = (0..<250).map { index -> Double in
        switch index % 4 {
        case 0: Double(bitPattern: random.next())
        case 1: Double(Int64.random(in: -1_000_000_000_000...1_000_000_000_000)) / [10, 100, 1000, 1e6][index % 3]
        case 2: Double.random(in: -1000...1000)
        default: Double.random(in: 0...1) * 1e-20
        }
      }.filter { !$0.isNaN && $0.bitPattern != (-0.0).bitPattern }
      let trail = try HandmadeTrail()
      try trail.transaction { for real in reals { try trail.insert(table, [.real(real)]) } }
      try database.execute("DROP TABLE IF EXISTS t")
      try database.executeScript(try trail.render(.sqlite).lines.joined(separator: "\n"))
      for (row, real) in zip(try database.typed("t"), reals) {
        guard case .real(let read) = row[0] else {
          Issue.record("\(real) became \(row[0]) in round \(round)")
          continue
        }
        #expect(read.bitPattern == real.bitPattern, "\(real)")
      }
    }
  }

  @Test func `a value that SQLite has not is named and left out`() throws {
    let table = try schema("CREATE TABLE t(v)")
    let trail = try HandmadeTrail()
    try trail.transaction { try trail.insert(table, [.real(.nan)]) }
    let (lines, problems) = try trail.render(.sqlite)
    #expect(problems.count == 1)
    #expect(lines.contains { $0.hasPrefix("-- cannot be represented: 00000001:") && $0.contains("table t, column v") })
    #expect(!lines.contains { $0.hasPrefix("INSERT") })
  }

  // MARK: Changes

  @Test func `a keyed table goes through insert, update, key change, delete and truncate`() throws {
    let table = try schema("CREATE TABLE item(sku TEXT PRIMARY KEY NOT NULL, name, price REAL)")
    let other = try schema("CREATE TABLE gone(id INTEGER PRIMARY KEY)", epoch: 2)
    let trail = try HandmadeTrail()
    try trail.transaction {
      try trail.insert(table, [.text("a"), .text("tea"), .real(3)])
      try trail.insert(table, [.text("b"), .null, .null])
      try trail.insert(table, [.text("c"), .text("cup"), .real(1.5)])
      try trail.insert(other, [.integer(1)])
    }
    try trail.transaction {
      try trail.update(table, [.text("a"), .text("tea"), .real(3)], [nil, nil, .real(4)])
      try trail.update(table, [.text("b"), .null, .null], [.text("d"), .text("pot"), nil])
      try trail.delete(table, [.text("c"), .text("cup"), .real(1.5)])
      try trail.change(.delete, table, [.text("zz"), nil, nil], nil, isImplied: true)
      try trail.change(.truncate, other, nil, nil)
    }
    let database = try trail.replayed()
    #expect(
      try database.typed("item", order: "sku")
        == [[.text("a"), .text("tea"), .real(4)], [.text("d"), .text("pot"), .null]])
    #expect(try database.typed("gone") == [])
  }

  @Test func `exactly one of equal rows without key is changed or deleted`() throws {
    let table = try schema("CREATE TABLE log(a, b)")
    let trail = try HandmadeTrail()
    let row: [Value?] = [.integer(1), .null]
    try trail.transaction {
      for _ in 0..<3 { try trail.insert(table, row) }
      try trail.update(table, row, [nil, .text("x")])
      try trail.delete(table, row)
      try trail.insert(table, [.real(1), .null])
      try trail.delete(table, [.real(1), .null])
    }
    #expect(try trail.replayed().typed("log") == [[.integer(1), .text("x")], [.integer(1), .null]])
  }

  @Test func `rows with NULL in their key are distinguished by all values`() throws {
    let table = try schema("CREATE TABLE t(k TEXT PRIMARY KEY, v)")
    #expect(table.flags.contains(.nullableKey))
    let trail = try HandmadeTrail()
    try trail.transaction {
      try trail.insert(table, [.null, .integer(1)])
      try trail.insert(table, [.null, .integer(2)])
      try trail.insert(table, [.text("k"), .integer(3)])
      try trail.update(table, [.null, .integer(2)], [nil, .integer(20)])
      try trail.update(table, [.text("k"), .integer(3)], [.null, nil])
      try trail.delete(table, [.null, .integer(1)])
    }
    #expect(try trail.replayed().typed("t") == [[.null, .integer(20)], [.null, .integer(3)]])
  }

  @Test func `a key is compared under its own collation`() throws {
    let table = try schema(
      "CREATE TABLE t(k TEXT NOT NULL COLLATE NOCASE, v)", indexes: ["CREATE UNIQUE INDEX tk ON t(k COLLATE BINARY)"])
    let trail = try HandmadeTrail()
    try trail.transaction {
      try trail.insert(table, [.text("A"), .integer(1)])
      try trail.insert(table, [.text("a"), .integer(2)])
      try trail.update(table, [.text("a"), .integer(2)], [nil, .integer(3)])
    }
    let database = try trail.replayed()
    #expect(try database.typed("t") == [[.text("A"), .integer(1)], [.text("a"), .integer(3)]])
    #expect(try database.text("SELECT name FROM sqlite_master WHERE type = 'index'") == "tk")
  }

  @Test func `odd names are quoted`() throws {
    let table = try schema(
      "CREATE TABLE \"order \"\"x\"\"\"(\"group\" INTEGER PRIMARY KEY, \"a;b\" TEXT, rowid TEXT)")
    let trail = try HandmadeTrail()
    try trail.transaction {
      try trail.insert(table, [.integer(1), .text("x"), .text("r")])
      try trail.update(table, [.integer(1), .text("x"), .text("r")], [nil, .text("y"), nil])
    }
    #expect(
      try trail.replayed().query("SELECT * FROM \"order \"\"x\"\"\"") == [[.integer(1), .text("y"), .text("r")]])
  }

  // MARK: Refresh

  @Test func `a refresh by key replaces the rows of its ranges, and changes meanwhile are tolerated`() throws {
    let table = try schema("CREATE TABLE t(a INTEGER NOT NULL, b TEXT NOT NULL, v, PRIMARY KEY(a, b))")
    let trail = try HandmadeTrail()
    func key(_ a: Int64, _ b: String) -> [Value?] { [.integer(a), .text(b), nil] }
    try trail.transaction {
      try trail.refresh(table, .start(.firstCopy, .byKey, estimatedRows: 3))
      try trail.refresh(table, .chunk(.keys(after: nil, through: key(1, "m"))))
      try trail.row(table, [.integer(1), .text("a"), .integer(1)])
      try trail.row(table, [.integer(1), .text("m"), .integer(2)])
    }
    try trail.transaction {
      // Rows that no chunk has brought yet.
      try trail.insert(table, [.integer(1), .text("z"), .integer(3)])
      try trail.update(table, [.integer(2), .text("a"), .integer(0)], [nil, nil, .integer(4)])
      try trail.update(table, [.integer(1), .text("m"), .integer(2)], [nil, .text("n"), nil])
      try trail.delete(table, [.integer(9), .text("q"), .null])
    }
    try trail.transaction {
      try trail.refresh(table, .chunk(.keys(after: key(1, "m"), through: nil)))
      try trail.row(table, [.integer(1), .text("n"), .integer(2)])
      try trail.row(table, [.integer(1), .text("z"), .integer(3)])
      try trail.row(table, [.integer(2), .text("a"), .integer(4)])
      try trail.refresh(table, .end(rows: 5))
    }
    try trail.transaction { try trail.insert(table, [.integer(3), .text("c"), .null]) }
    let database = try trail.replayed(
      onto: """
        CREATE TABLE t(a INTEGER NOT NULL, b TEXT NOT NULL, v, PRIMARY KEY(a, b));
        INSERT INTO t VALUES (0, 'old', 1), (1, 'a', 'old'), (1, 'n', 'old'), (7, 'old', 1);
        """)
    #expect(
      try database.typed("t", order: "a, b") == [
        [.integer(1), .text("a"), .integer(1)], [.integer(1), .text("n"), .integer(2)],
        [.integer(1), .text("z"), .integer(3)], [.integer(2), .text("a"), .integer(4)],
        [.integer(3), .text("c"), .null],
      ])
    let last = try trail.render(.sqlite).lines.filter { $0.hasPrefix("INSERT") }.last
    #expect(last?.hasPrefix("INSERT INTO \"t\" (") == true)
  }

  @Test func `rows with NULL in the key have a chunk of their own`() throws {
    let table = try schema("CREATE TABLE t(k TEXT PRIMARY KEY, v)")
    let trail = try HandmadeTrail()
    try trail.transaction {
      try trail.refresh(table, .start(.lostChanges, .byKey, estimatedRows: 2))
      try trail.refresh(table, .chunk(.nullKeys))
      try trail.row(table, [.null, .integer(1)])
      try trail.row(table, [.null, .integer(1)])
      try trail.update(table, [.null, .integer(1)], [nil, .integer(5)])
      try trail.refresh(table, .chunk(.keys(after: nil, through: nil)))
      try trail.row(table, [.text("k"), .integer(2)])
      try trail.refresh(table, .end(rows: 3))
    }
    let database = try trail.replayed(
      onto: "CREATE TABLE t(k TEXT PRIMARY KEY, v); INSERT INTO t VALUES (NULL, 'old'), ('old', 1)")
    #expect(
      try database.typed("t", order: "k, v")
        == [[.null, .integer(1)], [.null, .integer(5)], [.text("k"), .integer(2)]])
  }

  @Test func `a whole refresh empties the table first`() throws {
    let table = try schema("CREATE TABLE log(a)")
    let trail = try HandmadeTrail()
    try trail.transaction {
      try trail.refresh(table, .start(.asked, .whole, estimatedRows: 2))
      try trail.refresh(table, .chunk(.unkeyed))
      try trail.row(table, [.integer(1)])
      try trail.row(table, [.integer(1)])
      try trail.refresh(table, .end(rows: 2))
      try trail.insert(table, [.integer(1)])
    }
    let database = try trail.replayed(onto: "CREATE TABLE log(a); INSERT INTO log VALUES (7)")
    #expect(try database.typed("log") == [[.integer(1)], [.integer(1)], [.integer(1)]])
  }

  // MARK: Schema

  @Test func `tables are created, renamed, reshaped and dropped with their rows`() throws {
    let first = try schema(
      "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, old INT)", indexes: ["CREATE INDEX by_name ON item(name)"])
    let renamed = try schema(
      "CREATE TABLE goods(id INTEGER PRIMARY KEY, name TEXT, old INT)",
      indexes: ["CREATE INDEX by_name ON goods(name)"], epoch: 2)
    let reshaped = try schema(
      "CREATE TABLE goods(id INTEGER PRIMARY KEY, name TEXT NOT NULL DEFAULT '?', price REAL DEFAULT 1.5)",
      indexes: ["CREATE UNIQUE INDEX by_name ON goods(name)"], epoch: 3)
    let labelled = try schema(
      "CREATE TABLE goods(id INTEGER PRIMARY KEY, label TEXT NOT NULL DEFAULT '?', price REAL DEFAULT 1.5)", epoch: 4)
    let gone = try schema("CREATE TABLE gone(x)", epoch: 5)
    let trail = try HandmadeTrail()
    try trail.transaction {
      try trail.ddl(.create, nil, first)
      try trail.ddl(.create, nil, gone)
      try trail.insert(first, [.integer(1), .text("tea"), .integer(7)])
      try trail.insert(first, [.integer(2), .null, .integer(8)])
      try trail.insert(gone, [.integer(2)])
    }
    try trail.transaction {
      try trail.ddl(.rename, first, renamed)
      try trail.ddl(.reshape, renamed, reshaped, isRefreshed: true)
      try trail.ddl(.drop, gone, nil)
      // A refresh brings the old rows back: NULL does not fit into the new column.
      try trail.refresh(reshaped, .start(.schemaChange, .byKey, estimatedRows: 2))
      try trail.refresh(reshaped, .chunk(.keys(after: nil, through: nil)))
      try trail.row(reshaped, [.integer(1), .text("tea"), .real(1.5)])
      try trail.row(reshaped, [.integer(2), .text("?"), .real(1.5)])
      try trail.refresh(reshaped, .end(rows: 2))
    }
    try trail.transaction {
      try trail.ddl(.reshape, reshaped, labelled)
      try trail.update(labelled, [.integer(2), .text("?"), .real(1.5)], [nil, .text("cup"), nil])
    }
    let database = try trail.replayed()
    #expect(
      try database.typed("goods") == [
        [.integer(1), .text("tea"), .real(1.5)], [.integer(2), .text("cup"), .real(1.5)],
      ])
    #expect(try database.query("SELECT name FROM sqlite_master ORDER BY name") == [[.text("goods")]])
    #expect(try database.userTables().first?.schema.columns.map(\.name) == ["id", "label", "price"])
    #expect(try database.text("SELECT sql FROM sqlite_master") == labelled.createText)
  }

  @Test func `an index alone comes and goes without a copy of the table`() throws {
    let without = try schema("CREATE TABLE t(id INTEGER PRIMARY KEY, a)")
    let with = try schema("CREATE TABLE t(id INTEGER PRIMARY KEY, a)", indexes: ["CREATE INDEX ta ON t(a)"], epoch: 2)
    let trail = try HandmadeTrail()
    try trail.transaction {
      try trail.ddl(.create, nil, without)
      try trail.ddl(.reshape, without, with)
    }
    #expect(try trail.replayed().integer("SELECT count(*) FROM sqlite_master WHERE name = 'ta'") == 1)
    #expect(try !trail.render(.sqlite).lines.contains { $0.hasPrefix("ALTER") })
    try trail.transaction { try trail.ddl(.reshape, with, without.atEpoch(3)) }
    #expect(try trail.replayed().integer("SELECT count(*) FROM sqlite_master WHERE name = 'ta'") == 0)
  }

  @Test func `the name of an index can go to another table before the first table's change`() throws {
    let first = try schema("CREATE TABLE a(id INTEGER PRIMARY KEY, x)", indexes: ["CREATE INDEX i ON a(x)"])
    let bare = try schema("CREATE TABLE a(id INTEGER PRIMARY KEY, x)", epoch: 2)
    let second = try schema("CREATE TABLE b(id INTEGER PRIMARY KEY, x)", indexes: ["CREATE INDEX i ON b(x)"], epoch: 3)
    let trail = try HandmadeTrail()
    try trail.transaction {
      try trail.ddl(.create, nil, first)
      try trail.ddl(.create, nil, second)
      try trail.ddl(.reshape, first, bare)
    }
    let index = try trail.replayed().query("SELECT name, tbl_name FROM sqlite_master WHERE type = 'index'")
    #expect(index == [[.text("i"), .text("b")]])
  }

  @Test func `a new unique index does not stumble over rows that a refresh brings again`() throws {
    let before = try schema("CREATE TABLE t(id INTEGER PRIMARY KEY, a)")
    let unique = ["CREATE UNIQUE INDEX ta ON t(a)"]
    let after = try schema("CREATE TABLE t(id INTEGER PRIMARY KEY, a)", indexes: unique, epoch: 2)
    let wider = try schema("CREATE TABLE t(id INTEGER PRIMARY KEY, a, b DEFAULT 1)", indexes: unique, epoch: 3)
    for shape in [after, wider] {
      let trail = try HandmadeTrail()
      try trail.transaction {
        try trail.insert(before, [.integer(1), .integer(5)])
        try trail.insert(before, [.integer(2), .integer(5)])
        try trail.ddl(.reshape, before, shape, isRefreshed: true)
        try trail.refresh(shape, .start(.schemaChange, .byKey, estimatedRows: 1))
        try trail.refresh(shape, .chunk(.keys(after: nil, through: nil)))
        try trail.row(shape, [.integer(2), .integer(5), .integer(1)].prefix(shape.columns.count).map { $0 })
        try trail.refresh(shape, .end(rows: 1))
      }
      #expect(try trail.replayed().query("SELECT id, a FROM t") == [[.integer(2), .integer(5)]])
    }
  }

  @Test func `two columns can exchange their names`() throws {
    let before = try schema("CREATE TABLE t(id INTEGER PRIMARY KEY, a, b)")
    let after = try schema("CREATE TABLE t(id INTEGER PRIMARY KEY, b, a)", epoch: 2)
    let trail = try HandmadeTrail()
    try trail.transaction {
      try trail.insert(before, [.integer(1), .text("first"), .text("second")])
      try trail.ddl(.reshape, before, after)
    }
    #expect(try trail.replayed().query("SELECT b, a FROM t") == [[.text("first"), .text("second")]])
    #expect(
      try trail.render(.postgres).lines.filter { $0.hasPrefix("ALTER") } == [
        "ALTER TABLE public.t RENAME COLUMN a TO cairn_moving_2;", "ALTER TABLE public.t RENAME COLUMN b TO a;",
        "ALTER TABLE public.t RENAME COLUMN cairn_moving_2 TO b;",
      ])
  }

  @Test func `a case of a name can change`() throws {
    let lower = try schema("CREATE TABLE item(id INTEGER PRIMARY KEY)")
    let upper = try schema("CREATE TABLE Item(id INTEGER PRIMARY KEY)", epoch: 2)
    let trail = try HandmadeTrail()
    try trail.transaction {
      try trail.insert(lower, [.integer(1)])
      try trail.ddl(.rename, lower, upper)
      try trail.insert(upper, [.integer(2)])
    }
    let database = try trail.replayed()
    #expect(try database.typed("Item").count == 2)
    #expect(try database.text("SELECT name FROM sqlite_master") == "Item")
  }

  @Test func `references of other tables stay as they are through a reshape`() throws {
    let parent = try schema("CREATE TABLE p(id INTEGER PRIMARY KEY)")
    let wider = try schema("CREATE TABLE p(id INTEGER PRIMARY KEY, v DEFAULT 3)", epoch: 2)
    let child = try schema("CREATE TABLE c(id INTEGER PRIMARY KEY, p REFERENCES p(id))", epoch: 3)
    let trail = try HandmadeTrail()
    try trail.transaction {
      // The child first: nothing may ask for the parent.
      try trail.insert(child, [.integer(1), .integer(1)])
      try trail.insert(parent, [.integer(1)])
      try trail.ddl(.reshape, parent, wider)
    }
    let database = try trail.replayed()
    #expect(try database.typed("p") == [[.integer(1), .integer(3)]])
    #expect(try database.text("SELECT sql FROM sqlite_master WHERE name = 'c'") == child.createText)
  }

  // MARK: The text

  @Test func `each transaction is one, and one without changes is left out`() throws {
    let table = try schema("CREATE TABLE t(a)")
    let trail = try HandmadeTrail()
    try trail.transaction { try trail.progress() }
    try trail.transaction { try trail.insert(table, [.integer(1)]) }
    #expect(
      try trail.render(.sqlite).lines.dropFirst(2) == [
        "CREATE TABLE IF NOT EXISTS t(a);", "INSERT INTO \"t\" (\"a\") VALUES (1);", "COMMIT;",
      ])
    let lines = try trail.render(.sqlite).lines
    #expect(lines[0] == "PRAGMA foreign_keys = OFF;")
    #expect(lines[1].hasPrefix("-- transaction 2 at 00000001:"))
    #expect(lines[1].hasSuffix(", 2026-03-01T12:30:00.000123Z\nBEGIN;"))
  }

  @Test func `tables are known across segments`() throws {
    let table = try schema("CREATE TABLE t(id INTEGER PRIMARY KEY)")
    let trail = try HandmadeTrail(segmentBytes: 1)
    for n in 1...5 { try trail.transaction { try trail.insert(table, [.integer(Int64(n))]) } }
    #expect(try trail.render(.sqlite).lines.filter { $0.hasPrefix("CREATE") }.count == 1)
    #expect(try trail.replayed().typed("t").count == 5)
  }

  // MARK: PostgreSQL

  @Test func `a table is made for PostgreSQL from its neutral schema`() throws {
    let table = try schema(
      """
      CREATE TABLE "Order"(ID INTEGER PRIMARY KEY, "user" VARCHAR(9) NOT NULL, price DOUBLE, ok BOOLEAN, at DATETIME,
        total DECIMAL(10,2), pic BLOB, any, ref INT REFERENCES other(id), UNIQUE("user", at))
      """)
    let trail = try HandmadeTrail()
    try trail.transaction {
      try trail.insert(
        table,
        [
          .integer(.min), .text("it's\n\\"), .real(2), .integer(1), .text("2026-03-01"), .real(1.25), .blob([0, 255]),
          .integer(5), .null,
        ])
    }
    let (lines, problems) = try trail.render(.postgres)
    #expect(problems.isEmpty)
    #expect(
      lines.contains(
        """
        CREATE TABLE IF NOT EXISTS public."order" (
          id bigint NOT NULL GENERATED BY DEFAULT AS IDENTITY,
          "user" character varying(9) NOT NULL,
          price double precision,
          ok boolean,
          at timestamp without time zone,
          total numeric(10,2),
          pic bytea,
          "any" text,
          ref bigint,
          PRIMARY KEY (id),
          UNIQUE ("user", at)
        );
        """))
    #expect(
      lines.contains(
        "INSERT INTO public.\"order\" (id, \"user\", price, ok, at, total, pic, \"any\", ref) VALUES (-9223372036854775808, "
          + "E'it''s\\n\\\\', '2', 't', '2026-03-01', 1.25, E'\\\\x00ff', '5', NULL);"))
    for part in [
      "Order.any has no type, text here: numbers become their text", "foreign key of Order from ref",
    ] {
      #expect(lines.contains { $0.hasPrefix("-- ") && $0.contains(part) }, "\(part)")
    }
  }

  @Test(arguments: [
    ("TEXT", Value.text([0xff]), "not valid UTF-8"), ("TEXT", .text([0x61, 0]), "NUL"),
    ("INT", .text("x"), "'x' cannot be kept: it is not an integer"),
    ("INT", .real(0.5), "a real"), ("REAL", .text("x"), "it is not a number"), ("TEXT", .blob([1]), "a blob"),
    ("DECIMAL", .blob([1]), "a blob"), ("BLOB", .integer(1), "an integer"), ("", .blob([1]), "a blob"),
  ])
  func `a value that PostgreSQL cannot hold is named and left out`(type: String, value: Value, reason: String) throws {
    let table = try schema("CREATE TABLE t(id INTEGER PRIMARY KEY, v \(type))")
    let trail = try HandmadeTrail()
    try trail.transaction { try trail.insert(table, [.integer(1), value]) }
    let (lines, problems) = try trail.render(.postgres)
    #expect(problems.count == 1)
    #expect(problems.first?.contains("table t, column v: ") == true && problems.first?.contains(reason) == true)
    #expect(lines.contains { $0.hasPrefix("-- cannot be represented: ") && $0.contains(reason) })
    #expect(!lines.contains { $0.hasPrefix("INSERT") })
  }

  @Test func `changes for PostgreSQL name their row`() throws {
    let keyed = try schema("CREATE TABLE k(a INT NOT NULL, b TEXT NOT NULL, v REAL, PRIMARY KEY(a, b))")
    let keyless = try schema("CREATE TABLE l(x INT, y REAL)", epoch: 2)
    let trail = try HandmadeTrail()
    try trail.transaction {
      try trail.update(keyed, [.integer(1), .text("x"), .real(.infinity)], [nil, nil, .real(-.infinity)])
      try trail.delete(keyless, [.integer(1), .null])
      try trail.refresh(keyed, .start(.asked, .byKey, estimatedRows: 1))
      try trail.refresh(
        keyed, .chunk(.keys(after: [.integer(1), .text("a"), nil], through: nil)))
      try trail.row(keyed, [.integer(1), .text("b"), .real(1e-7)])
      try trail.refresh(keyed, .end(rows: 1))
    }
    let lines = try trail.render(.postgres).lines
    for line in [
      "UPDATE public.k SET v = '-Infinity' WHERE a = 1 AND b = 'x';",
      "DELETE FROM public.l WHERE ctid = (SELECT ctid FROM public.l WHERE x = 1 AND y IS NULL LIMIT 1);",
      "DELETE FROM public.k WHERE (a, b COLLATE \"C\") > (1, 'a' COLLATE \"C\");",
      "INSERT INTO public.k (a, b, v) VALUES (1, 'b', '1e-07') ON CONFLICT (a, b) DO UPDATE SET v = EXCLUDED.v;",
    ] { #expect(lines.contains(line), "\(line)") }
  }

  @Test func `a trail of PostgreSQL is shown in its own language and as SQLite`() throws {
    let table = TableSchema(
      epoch: 1, engine: .postgres, namespace: "sales", name: "orders",
      columns: [
        .init(name: "id", declaredType: "integer", isNotNull: true, keyOrdinal: 1, identity: .always),
        .init(name: "n", declaredType: "numeric(10,2)"), .init(name: "j", declaredType: "json"),
        .init(name: "x", declaredType: "bytea"),
      ], uniques: [[1]],
      createText: "CREATE SCHEMA IF NOT EXISTS sales;\nCREATE TABLE IF NOT EXISTS sales.orders (…);",
      objects: [.init(name: "i", text: "CREATE INDEX i ON sales.orders USING btree (n)")])
    func exact(_ texts: String?...) -> [Value?] { texts.map { $0.map { .exact(Array($0.utf8)) } } }
    let trail = try HandmadeTrail()
    try trail.transaction {
      try trail.refresh(table, .start(.firstCopy, .byKey, estimatedRows: 1))
      try trail.refresh(table, .chunk(.keys(after: nil, through: nil)))
      try trail.row(table, exact("1", "1.10", "{}", "\\x00ff"))
      try trail.refresh(table, .end(rows: 1))
      try trail.change(.update, table, nil, exact("1", "2.50", nil, "\\x"))
      try trail.insert(table, exact("2", "-1.00", "[1]", "\\x01"))
      try trail.delete(table, exact("2", nil, nil, nil))
    }
    let database = try trail.replayed()
    #expect(
      try database.typed("sales_orders") == [[.integer(1), .text("2.50"), .text("{}"), .blob([])]])
    let lines = try trail.render(.postgres).lines
    for line in [
      "CREATE INDEX IF NOT EXISTS i ON sales.orders USING btree (n);",
      "DELETE FROM sales.orders WHERE n = 1.10 AND NOT (id = 1);",
      "UPDATE sales.orders SET n = 2.50, x = E'\\\\x' WHERE id = 1;", "DELETE FROM sales.orders WHERE id = 2;",
    ] { #expect(lines.contains(line), "\(line)") }
    #expect(
      lines.contains {
        $0.hasPrefix("INSERT INTO sales.orders (id, n, j, x) OVERRIDING SYSTEM VALUE VALUES (1, 1.10, '{}'")
      })
  }

  @Test func `a reshape for PostgreSQL adds, drops and renames columns`() throws {
    let first = try schema("CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, b TEXT NOT NULL)")
    let second = try schema("CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, c INT NOT NULL)", epoch: 2)
    let third = try schema("CREATE TABLE t(id INTEGER PRIMARY KEY, z TEXT, c INT NOT NULL)", epoch: 3)
    let trail = try HandmadeTrail()
    try trail.transaction {
      try trail.ddl(.create, nil, first)
      try trail.ddl(.reshape, first, second)
      try trail.ddl(.reshape, second, third)
    }
    let lines = try trail.render(.postgres).lines.filter { $0.hasPrefix("ALTER") }
    #expect(
      lines == [
        "ALTER TABLE public.t DROP COLUMN b;", "ALTER TABLE public.t ADD COLUMN c bigint NOT NULL;",
        "ALTER TABLE public.t RENAME COLUMN a TO z;",
      ])
  }

  @Test func `a NUL in the name of an index ends no line of the output`() throws {
    let trail = try HandmadeTrail()
    var table = try schema("CREATE TABLE t(id INTEGER PRIMARY KEY, a)", indexes: ["CREATE INDEX i ON t(a)"])
    table.objects[0].name = "i\0\n.shell touch /tmp/x\n"
    try trail.transaction { try trail.insert(table, [.integer(1), .null]) }
    for dialect in TrailSQL.Dialect.allCases {
      let error = #expect(throws: CairnError.self) { try trail.render(dialect) }
      #expect(error?.code == .tableRefused)
    }
    #expect(throws: Unrepresentable.self) { try ["SELECT 1;", "SELECT '\0';"].printable() }
    #expect(throws: Never.self) { try ["SELECT 1;"].printable() }
  }

  @Test func `a definition that is too long for a check is a comment, also in a reshape`() throws {
    let trail = try HandmadeTrail()
    func long(_ name: String, _ more: Int, _ epoch: UInt64) throws -> TableSchema {
      let head = "CREATE TABLE t(id INTEGER PRIMARY KEY, \(name) DEFAULT '"
      let text = String(repeating: "x", count: (1 << 20) - head.utf8.count - 4 - more)
      return try schema(head + text + "\r')", epoch: epoch)
    }
    let (short, table) = try (long("a", 100, 1), long("a", 0, 2))
    try trail.transaction { try trail.ddl(.create, nil, short) }
    #expect(try trail.render(.sqlite).problems.isEmpty)
    try trail.transaction {
      try trail.ddl(.reshape, short, table)
      try trail.insert(table, [.integer(1), .null])
    }
    let first = try trail.render(.sqlite)
    #expect(first.problems.isEmpty && !first.lines.contains { $0.utf8.contains(0x0d) })
    let other = try HandmadeTrail()
    try other.transaction { try other.ddl(.create, nil, table) }
    let (lines, problems) = try other.render(.sqlite)
    #expect(problems.count == 1 && problems[0].contains("the sqlite3 shell may read"), "\(problems)")
    #expect(!lines.contains { $0.utf8.contains(0x0d) || $0.hasPrefix("CREATE") })
    #expect(lines.contains { $0.hasPrefix("-- cannot be represented: ") })
  }

  @Test(arguments: [
    ("0", true), ("-5", true), ("12.50", true), ("-0.1", true), ("7--", false), ("--7", false), ("1/0", false),
    ("1-1", false), ("", false), ("-", false), (".", false), ("1.", false), (".5", false), ("1.2.3", false),
    ("NaN", false), ("1e5", false),
  ])
  func `only a number is printed without quotes`(text: String, isNumber: Bool) throws {
    let type = PostgresType(TableSchema.Column(name: "n", declaredType: "numeric"))
    let literal = try Array(text.utf8).withUnsafeBytes { bytes throws in try SQLLiteral.postgres(bytes, type) }
    #expect(literal == (isNumber ? text : text.quotedText))
  }
}

extension TableSchema {
  fileprivate func atEpoch(_ epoch: UInt64) -> TableSchema {
    var copy = self
    copy.epoch = epoch
    return copy
  }
}

@Suite struct UTCTimeTests {
  @Test(arguments: [
    (Int64(0), "1970-01-01T00:00:00.000000Z"), (1_772_368_200_000_123, "2026-03-01T12:30:00.000123Z"),
    (951_825_599_999_999, "2000-02-29T11:59:59.999999Z"), (-1, "1969-12-31T23:59:59.999999Z"),
    (4_107_542_399_000_000, "2100-02-28T23:59:59.000000Z"), (4_107_542_400_000_000, "2100-03-01T00:00:00.000000Z"),
  ])
  func `a moment is printed in UTC`(microseconds: Int64, text: String) {
    #expect(UTCTime(microseconds).description == text)
  }
}
