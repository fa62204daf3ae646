import Applying
import Changes
import Mapping
import SQLiteKit
import TestServers
import Testing
import Transforming

/// Tables with rules in all situations: histories, shares, schema changes, rows that the trail gives too little of.
@Suite struct ReshapeTableTests {
  private static let orders = "CREATE TABLE orders(id INTEGER PRIMARY KEY, total NUMERIC, note TEXT)"

  private static func rule(_ make: (inout TableRule) -> Void) -> TableRule {
    var rule = TableRule(from: "orders")
    make(&rule)
    return rule
  }

  private func postgres(_ columns: [(String, String)]) -> TableSchema {
    TableSchema(
      epoch: 1, engine: .postgres, namespace: "public", name: "orders",
      columns: columns.map {
        .init(name: $0.0, declaredType: $0.1, isNotNull: $0.0 == "id", keyOrdinal: $0.0 == "id" ? 1 : 0)
      })
  }

  @Test func `exact values that are named alone pass byte for byte`() throws {
    let made = try Handmade(TempFolder())
    made.options.rules = [
      Self.rule { rule in
        rule.columns = [.init("id", "id"), .init("sum", "\"total\""), .init("at", "[at]"), .init("more", "total + 0")]
      }
    ]
    made.shape(postgres([("id", "bigint"), ("total", "numeric"), ("at", "timestamp with time zone")]))
    let digits = "12345678901234567890.123456789012345678900"
    try made.transaction {
      try made.create("orders")
      try made.copy("orders", [[.exact("1"), .exact(digits), .exact("2026-01-01 00:00:00+00")]])
      try made.insert("orders", [.exact("2"), .exact("1.10"), .null])
    }
    try made.replay()
    #expect(
      try made.rows("SELECT sum, at, typeof(more) FROM orders ORDER BY id") == [
        [.text(digits), "2026-01-01 00:00:00+00", "text"], ["1.10", .null, "text"],
      ])
  }

  @Test func `a history has a row for each change, and keeps them through copies and drops`() throws {
    let made = try Handmade(TempFolder())
    made.options.rules = [
      Self.rule { rule in
        (rule.mode, rule.to, rule.filter) = (.history, "orders_history", "total > 0")
        rule.columns = [.init("id", "id"), .init("total", "total"), .init("cents", "total * 100")]
      }
    ]
    try made.begin(Self.orders, "orders", [[1, 5, "a"], [2, 0, "b"]])
    try made.transaction {
      try made.insert("orders", [3, 7, "c"])
      try made.update("orders", [3, 7, "c"], [nil, 8, nil])
      try made.update("orders", [3, 8, "c"], [nil, 0, nil])
      try made.update("orders", [3, 0, "c"], [nil, nil, "d"])
      try made.delete("orders", [1, 5, "a"])
      try made.delete("orders", [2, 0, "b"])
      try made.truncate("orders")
      try made.copy("orders", [[9, 9, "x"]], reason: .lostChanges)
      try made.drop("orders")
    }
    try made.replay()
    let sql = "SELECT id, total, cents, cairn_operation FROM orders_history ORDER BY cairn_position"
    #expect(
      try made.rows(sql) == [
        [1, 5, 500, "copy"], [3, 7, 700, "insert"], [3, 8, 800, "update"], [3, 0, 0, "update"],
        [1, 5, 500, "delete"], [.null, .null, .null, "truncate"], [9, 9, 900, "copy"],
      ])
    #expect(
      try made.rows(
        "SELECT DISTINCT cairn_origin, cairn_unknown, datetime(cairn_committed_at) IS NOT NULL FROM orders_history")
        == [["far.shop", .null, 1]])
  }

  @Test func `a history says which columns the source did not give`() throws {
    let made = try Handmade(TempFolder())
    made.options.rules = [Self.rule { $0.mode = .history }]
    made.shape(postgres([("id", "bigint"), ("total", "numeric"), ("note", "text")]))
    try made.transaction {
      try made.create("orders")
      try made.update("orders", to: [.exact("1"), .exact("2"), nil])
      try made.delete("orders", [.exact("1"), nil, nil])
    }
    try made.replay()
    #expect(
      try made.rows("SELECT id, total, note, cairn_unknown FROM orders ORDER BY cairn_position") == [
        [1, "2", .null, "note"], [1, .null, .null, "total,note"],
      ])
  }

  @Test func `a marked row has the time of the commit, and loses it when it comes again`() throws {
    let made = try Handmade(TempFolder())
    made.options.rules = [Self.rule { $0.delete = .mark(column: "gone") }]
    try made.begin(Self.orders, "orders", [[1, 5, "a"], [2, 6, "b"], [3, 7, "c"]])
    try made.transaction {
      try made.delete("orders", [1, 5, "a"])
      try made.delete("orders", [2, 6, "b"])
    }
    try made.transaction { try made.insert("orders", [2, 9, "z"]) }
    try made.replay()
    #expect(
      try made.rows("SELECT id, note, gone IS NULL FROM orders ORDER BY id") == [
        [1, "a", 0], [2, "z", 1], [3, "c", 1],
      ])
    #expect(try made.rows("SELECT abs(julianday(gone) - julianday('now')) < 0.01 FROM orders WHERE id = 1") == [[1]])
    // Dropped at the source, it stays.
    try made.transaction { try made.drop("orders") }
    try made.replay()
    #expect(try made.rows("SELECT count(*) FROM orders") == [[3]])
  }

  @Test func `an update that comes before its row may take it out of the filter`() throws {
    let made = try Handmade(TempFolder())
    made.options.rules = [Self.rule { $0.filter = "total > 0" }]
    try made.begin(Self.orders, "orders", [[1, 5, "a"]])
    try made.transaction {
      try made.update("orders", [2, 5, "b"], [nil, 0, nil])
      try made.insert("orders", [2, 5, "b"])
      try made.update("orders", [3, 5, "c"], [nil, 0, nil])
      try made.update("orders", [3, 0, "c"], [nil, 7, nil])
      try made.insert("orders", [3, 5, "c"])
      try made.update("orders", [4, 5, "d"], [nil, 6, nil])
      try made.update("orders", [4, 6, "d"], [nil, 0, nil])
      try made.insert("orders", [4, 5, "d"])
    }
    try made.replay()
    #expect(try made.rows("SELECT id, total FROM orders ORDER BY id") == [[1, 5], [3, 7]])
    try made.transaction { try made.update("orders", [8, 5, "h"], [nil, 0, nil]) }
    #expect(failure { try made.replay() }?.code == .rowMissing)
  }

  @Test func `two trails have each their share of one table`() throws {
    let folder = try TempFolder()
    let one = try Handmade(folder, trail: "one", name: TrailName(origin: "far", name: "one"))
    let two = try Handmade(folder, trail: "two", name: TrailName(origin: "far", name: "two"))
    try checkShares(one, two, { try $0.replay() }) { sql in
      try one.rows(sql).map { $0.map { $0 == .null ? "" : $0.shown.filter { $0 != "'" } } }
    }
  }

  @Test(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
  func `two trails have each their share of one table of PostgreSQL`() throws {
    let target = try PostgresTarget()
    let two = try Handmade(TempFolder(), trail: "two", name: TrailName(origin: "far", name: "two"))
    try checkShares(target.trail, two, { try target.replay($0, $0.options) }) { sql in
      try target.psql(sql).split(separator: "\n").map {
        $0.split(separator: "|", omittingEmptySubsequences: false).map(String.init)
      }
    }
  }

  private func checkShares(
    _ one: Handmade, _ two: Handmade, _ replay: (Handmade) throws -> Void, _ rows: (String) throws -> [[String]]
  ) throws {
    for (made, store) in [(one, "'01'"), (two, "'02'")] {
      made.options.rules = [Self.rule { $0.columns = [.init("store", store), .init("*", "*")] }]
      try made.shape(Self.orders)
      try made.transaction {
        try made.create("orders")
        // The copy of the second begins while that of the first is under way.
        try made.refresh("orders", .start(.firstCopy, .byKey, estimatedRows: 2))
        try made.refresh("orders", .chunk(.keys(after: nil, through: [1, nil, nil])))
        try made.row("orders", [1, 10, "a"])
      }
      try replay(made)
    }
    for made in [one, two] {
      try made.transaction {
        try made.refresh("orders", .chunk(.keys(after: [1, nil, nil], through: nil)))
        try made.row("orders", [2, 20, "b"])
        try made.refresh("orders", .end(rows: 2))
      }
      try made.transaction { try made.update("orders", [2, 20, "b"], [nil, 21, nil]) }
      try replay(made)
    }
    let sql = "SELECT store, id, total FROM orders ORDER BY store, id"
    #expect(try rows(sql) == [["01", "1", "10"], ["01", "2", "21"], ["02", "1", "10"], ["02", "2", "21"]])
    try one.transaction {
      try one.truncate("orders")
      try one.insert("orders", [7, 70, "g"])
    }
    try replay(one)
    try two.transaction { try two.copy("orders", [[5, 50, "e"]], reason: .lostChanges) }
    try replay(two)
    #expect(try rows(sql) == [["01", "7", "70"], ["02", "5", "50"]])
    // Dropped by the trail that created it, by the other, and created again.
    try one.transaction { try one.drop("orders") }
    try replay(one)
    #expect(try rows(sql) == [["02", "5", "50"]])
    try one.transaction {
      try one.create("orders")
      try one.insert("orders", [8, 80, "h"])
    }
    try replay(one)
    #expect(try rows(sql) == [["01", "8", "80"], ["02", "5", "50"]])
    try two.transaction { try two.drop("orders") }
    try replay(two)
    #expect(try rows(sql) == [["01", "8", "80"]])
    try one.transaction { try one.drop("orders") }
    try replay(one)
    #expect(try rows(sql) == [])
    try two.transaction {
      try two.create("orders")
      try two.insert("orders", [6, 60, "f"])
    }
    try replay(two)
    #expect(try rows(sql) == [["02", "6", "60"]])
  }

  /// Statements of the trail that created a table, which change or remove it.
  enum Harm: CaseIterable {
    case dropsColumn, retypesColumn, renamesColumn, renamesTable, createsAgain, addsUniqueKey
  }

  @Test(arguments: Harm.allCases, [nil, .follow] as [DDLPolicy?])
  func `the trail that created a table takes nothing from the rows of another`(harm: Harm, ddl: DDLPolicy?) throws {
    let folder = try TempFolder()
    let one = try Handmade(folder, trail: "one", name: TrailName(origin: "far", name: "one"))
    let two = try Handmade(folder, trail: "two", name: TrailName(origin: "far", name: "two"))
    for made in [one, two] { made.options.ddl = ddl }
    try check(harm, one, two, { try $0.replay() }) { sql in
      try one.rows(sql).map { $0.map { $0 == .null ? "" : $0.shown.filter { $0 != "'" } } }
    }
  }

  @Test(
    .enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"), arguments: Harm.allCases,
    [nil, .follow] as [DDLPolicy?])
  func `the trail that created a table of PostgreSQL takes nothing from the rows of another`(
    harm: Harm, ddl: DDLPolicy?
  ) throws {
    let target = try PostgresTarget()
    let two = try Handmade(TempFolder(), trail: "two", name: TrailName(origin: "far", name: "two"))
    for made in [target.trail, two] { made.options.ddl = ddl }
    try check(harm, target.trail, two, { try target.replay($0, $0.options) }) { sql in
      try target.psql(sql).split(separator: "\n").map {
        $0.split(separator: "|", omittingEmptySubsequences: false).map(String.init)
      }
    }
  }

  private func check(
    _ harm: Harm, _ one: Handmade, _ two: Handmade, _ replay: (Handmade) throws -> Void,
    _ rows: (String) throws -> [[String]]
  ) throws {
    for (made, store) in [(one, "'01'"), (two, "'02'")] {
      made.options.rules = [Self.rule { $0.columns = [.init("store", store), .init("*", "*")] }]
      if harm == .renamesTable { made.options.rules.append(TableRule(from: "mine")) }
      try made.shape(Self.orders)
      try made.transaction {
        try made.create("orders")
        try made.copy("orders", [[1, 10, "a"]])
      }
      try replay(made)
    }
    let sql = "SELECT store, id, total, note FROM orders ORDER BY store, id"
    let before = [["01", "1", "10", "a"], ["02", "1", "10", "a"]]
    #expect(try rows(sql) == before)
    try one.transaction {
      switch harm {
      case .dropsColumn: try one.reshape("orders", "CREATE TABLE orders(id INTEGER PRIMARY KEY, total NUMERIC)")
      case .retypesColumn:
        try one.reshape("orders", "CREATE TABLE orders(id INTEGER PRIMARY KEY, total NUMERIC, note INTEGER)")
      case .renamesColumn:
        try one.reshape(
          "orders", "CREATE TABLE orders(id INTEGER PRIMARY KEY, total NUMERIC, remark TEXT)", as: .rename)
      case .renamesTable:
        try one.reshape(
          "orders", "CREATE TABLE mine(id INTEGER PRIMARY KEY, total NUMERIC, note TEXT)", as: .rename, to: "mine")
      case .createsAgain:
        try one.shape("CREATE TABLE orders(id INTEGER PRIMARY KEY, total NUMERIC)")
        try one.create("orders")
      case .addsUniqueKey:
        try one.reshape("orders", "CREATE TABLE orders(id INTEGER PRIMARY KEY, total NUMERIC, note TEXT UNIQUE)")
      }
    }
    let found = failure { try replay(one) }
    #expect(try rows(sql) == before, "\(found?.message ?? "made")")
    // The shape stays, whether the trail's table waits or can do with it.
    if [.retypesColumn, .renamesColumn].contains(harm) {
      #expect(found?.code == .schemaStopped)
      #expect(found?.message.contains("far.two brings rows into the table as well") == true, "\(found?.message ?? "")")
    }
    // A table that waits for another name is remembered under that.
    if harm == .renamesTable { return }
    // The other trail goes on, and columns come.
    try two.transaction {
      try two.reshape("orders", "CREATE TABLE orders(id INTEGER PRIMARY KEY, total NUMERIC, note TEXT, extra TEXT)")
      try two.insert("orders", [2, 20, "b", "x"])
    }
    try replay(two)
    #expect(
      try rows("SELECT store, id, total, note, extra FROM orders WHERE store = '02' ORDER BY id")
        == [["02", "1", "10", "a", ""], ["02", "2", "20", "b", "x"]])
  }

  @Test func `a table that another trail feeds waits`() throws {
    let folder = try TempFolder()
    let one = try Handmade(folder, trail: "one", name: TrailName(origin: "far", name: "one"))
    let two = try Handmade(folder, trail: "two", name: TrailName(origin: "far", name: "two"))
    try checkFeeders(one, two, { try $0.replay() }) { sql in
      try one.rows(sql).map { $0.map { $0.shown.filter { $0 != "'" } } }
    }
    // An older version let both in.
    let state =
      "UPDATE cairn_table SET claim = NULL; INSERT INTO cairn_table(trail, name, created, refreshing, existing)"
    try Database(path: one.target, mode: .readWrite).executeScript(
      state + " VALUES ('far.old', 'orders', 1, 0, 'overwrite')")
    try checkOld(two) { try $0.replay() }
  }

  @Test(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
  func `a table of PostgreSQL that another trail feeds waits`() throws {
    let target = try PostgresTarget()
    let two = try Handmade(TempFolder(), trail: "two", name: TrailName(origin: "far", name: "two"))
    try checkFeeders(target.trail, two, { try target.replay($0, $0.options) }) { sql in
      try target.psql(sql).split(separator: "\n").map {
        $0.split(separator: "|", omittingEmptySubsequences: false).map(String.init)
      }
    }
    try target.psql(
      """
      UPDATE cairn.table_state SET claim = NULL; INSERT INTO cairn.table_state VALUES
        ('far.old', 'orders', 'public', 'orders', true, true, 0, false, 'overwrite')
      """)
    try checkOld(two) { try target.replay($0, $0.options) }
  }

  private func checkFeeders(
    _ one: Handmade, _ two: Handmade, _ replay: (Handmade) throws -> Void, _ rows: (String) throws -> [[String]]
  ) throws {
    try one.begin(Self.orders, "orders", [[1, 10, "a"]])
    try replay(one)
    try two.shape(Self.orders)
    try two.transaction {
      try two.create("orders")
      try two.copy("orders", [[2, 20, "b"]])
    }
    try two.transaction { try two.insert("orders", [3, 30, "c"]) }
    for columns in [nil, [TableRule.Column("store", "'02'"), .init("*", "*")]] {
      two.options.rules = [Self.rule { $0.columns = columns }]
      let refused = failure { try replay(two) }
      #expect(refused?.code == .schemaStopped)
      #expect(refused?.message.contains("\(one.name)") == true && refused?.message.contains("far.two") == true)
      #expect(refused?.hint.contains("columns = { source = \"'far.two'\", \"*\" = \"*\" }") == true)
    }
    two.options.rules = []
    try one.transaction {
      try one.insert("orders", [4, 40, "d"])
      try one.copy("orders", [[1, 10, "a"], [4, 40, "d"]], reason: .lostChanges)
    }
    try replay(one)
    #expect(try rows("SELECT id, total FROM orders ORDER BY id") == [["1", "10"], ["4", "40"]])
    try one.transaction { try one.drop("orders") }
    try replay(one)
    try replay(two)
    #expect(try rows("SELECT id, total FROM orders ORDER BY id") == [["2", "20"], ["3", "30"]])
  }

  /// Changes go on, and copies are refused.
  private func checkOld(_ made: Handmade, _ replay: (Handmade) throws -> Void) throws {
    try made.transaction { try made.insert("orders", [5, 50, "e"]) }
    try replay(made)
    try made.transaction { try made.copy("orders", [[9, 90, "x"]], reason: .lostChanges) }
    #expect(failure { try replay(made) }?.message.contains("far.old") == true)
  }

  @Test(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
  func `a table with types of its own is made in another shape`() throws {
    let target = try PostgresTarget()
    target.options.rules = [
      Self.rule { rule in
        (rule.to, rule.filter) = ("shop.sold", "mood <> 'sad'")
        rule.columns = [
          .init("Nr", "id"), .init("mood", "mood"), .init("tags", "tags"),
          .init("n", "round(n, 1)", type: "numeric(10,1)"),
        ]
      }
    ]
    try target.begin(
      postgres: """
        CREATE TYPE mood AS ENUM ('sad', 'ok');
        CREATE TABLE orders(id serial PRIMARY KEY, mood mood, tags text[] DEFAULT '{}', n numeric(10,2), CHECK (n > 0));
        CREATE INDEX ON orders (n);
        """, "orders",
      [
        [.exact("1"), .exact("ok"), .exact("{a,b}"), .exact("1.25")],
        [.exact("2"), .exact("sad"), .exact("{}"), .exact("1.00")],
      ])
    try target.trail.transaction {
      try target.trail.insert("orders", [.exact("3"), .exact("ok"), .exact("{}"), .exact("3.00")])
      try target.trail.delete("orders", [.exact("1"), nil, nil, nil])
    }
    try target.replay()
    #expect(try target.psql("SELECT * FROM shop.sold") == "3|ok|{}|3.0")
    #expect(
      try target.psql(
        "SELECT string_agg(format_type(atttypid, atttypmod), ',' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'shop.sold'::regclass AND attnum > 0"
      ) == "integer,mood,text[],numeric(10,1)")
  }

  // MARK: Schema changes

  @Test func `a column that comes appears where the rule has no columns, and a name is followed`() throws {
    let made = try Handmade(TempFolder())
    made.options.rules = [
      Self.rule { ($0.to, $0.filter) = ("o", "total > 0") }
    ]
    try made.begin(Self.orders, "orders", [[1, 5, "a"]])
    let wide = "CREATE TABLE orders(id INTEGER PRIMARY KEY, total NUMERIC, remark TEXT, extra INTEGER)"
    try made.transaction {
      try made.reshape("orders", wide.replacing("remark", with: "note"))
      try made.insert("orders", [2, 6, "b", 9])
      try made.reshape("orders", wide)
      try made.insert("orders", [3, 0, "c", 9])
      try made.update("orders", [1, 5, "a", .null], [nil, nil, "z", nil])
    }
    try made.replay()
    #expect(
      try made.rows("SELECT id, total, remark, extra FROM o ORDER BY id") == [[1, 5, "z", .null], [2, 6, "b", 9]])
  }

  @Test func `a rule with columns does without those that come, and stops its table when one of its own goes`() throws {
    let made = try Handmade(TempFolder())
    made.options.rules = [
      Self.rule { $0.columns = [.init("id", "id"), .init("amount", "total"), .init("text", "upper(note)")] }
    ]
    try made.begin(Self.orders + "; CREATE TABLE other(id INTEGER PRIMARY KEY)", "orders", [[1, 5, "a"]])
    try made.transaction {
      try made.create("other")
      try made.reshape("orders", "CREATE TABLE orders(id INTEGER PRIMARY KEY, total NUMERIC, note TEXT, extra INTEGER)")
      try made.insert("orders", [2, 6, "b", 9])
    }
    try made.replay()
    #expect(try made.rows("SELECT * FROM orders") == [[1, 5, "A"], [2, 6, "B"]])
    try made.transaction {
      try made.reshape("orders", "CREATE TABLE orders(id INTEGER PRIMARY KEY, total NUMERIC, extra INTEGER)")
      try made.insert("orders", [3, 7, 9])
      try made.insert("other", [1])
    }
    let error = failure { try made.replay() }
    #expect(error?.message.contains("column text") == true && error?.message.contains("no such column: note") == true)
    #expect(try made.rows("SELECT count(*) FROM orders") == [[2]])
    #expect(try made.rows("SELECT count(*) FROM other") == [[1]])
    made.options.rules = [
      Self.rule { $0.columns = [.init("id", "id"), .init("amount", "total"), .init("text", "'none'", isShare: false)] }
    ]
    try made.replay()
    #expect(try made.rows("SELECT * FROM orders") == [[1, 5, "A"], [2, 6, "B"], [3, 7, "none"]])
  }

  @Test func `a table that gets another name waits until the rule has it too`() throws {
    let made = try Handmade(TempFolder())
    made.options.rules = [Self.rule { ($0.to, $0.filter) = ("o", "total > 0") }]
    try made.begin(Self.orders, "orders", [[1, 5, "a"]])
    try made.transaction {
      try made.reshape("orders", Self.orders.replacing("orders", with: "purchases"), as: .rename, to: "purchases")
      try made.insert("purchases", [2, 6, "b"])
      try made.insert("purchases", [3, 0, "c"])
    }
    let error = failure { try made.replay() }
    #expect(error?.message.contains("table orders is now called purchases") == true, "\(error?.message ?? "")")
    #expect(error?.hint.contains("from = \"purchases\"") == true)
    var renamed = made.options.rules[0]
    renamed.from = "purchases"
    made.options.rules.append(renamed)
    try made.replay()
    #expect(try made.rows("SELECT id FROM o ORDER BY id") == [[1], [2]])
  }

  // MARK: Values that cannot be computed

  @Test func `a row that SQLite cannot compute stops its table and is named`() throws {
    let made = try Handmade(TempFolder())
    made.options.rules = [Self.rule { $0.columns = [.init("id", "id"), .init("size", "abs(total)", type: "INTEGER")] }]
    try made.begin(Self.orders, "orders", [[1, -5, "a"]])
    try made.transaction { try made.insert("orders", [2, .integer(.min), "b"]) }
    let error = failure { try made.replay() }
    #expect(error?.message.contains("id=2") == true && error?.message.contains("integer overflow") == true)
    made.options.rules = [
      Self.rule { $0.columns = [.init("id", "id"), .init("size", "abs(total + 1)", type: "INTEGER")] }
    ]
    try made.replay()
    #expect(try made.rows("SELECT * FROM orders") == [[1, 5], [2, .integer(.max)]])
  }

  @Test(arguments: [("numeric", "NaN"), ("numeric", "-Infinity"), ("double precision", "NaN")])
  func `a value that is no number is not counted with`(type: String, value: String) throws {
    let made = try Handmade(TempFolder())
    func rule(_ text: String) -> [TableRule] {
      [Self.rule { $0.columns = [.init("id", "id"), .init("total", "total"), .init("twice", text, type: "NUMERIC")] }]
    }
    made.options.rules = rule("total * 2")
    made.shape(postgres([("id", "bigint"), ("total", type)]))
    try made.transaction {
      try made.create("orders")
      try made.copy("orders", [[.exact("1"), .exact("4")]])
      try made.insert("orders", [.exact("2"), .exact(value)])
    }
    let error = failure { try made.replay() }
    #expect(error?.message.contains("column total is \(value)") == true, "\(error?.message ?? "")")
    made.options.rules = rule("CASE WHEN typeof(total) = 'text' THEN NULL ELSE total * 2 END")
    try made.replay()
    #expect(try made.rows("SELECT id, CAST(twice AS INTEGER) FROM orders ORDER BY id") == [[1, 8], [2, .null]])
    #expect(try made.rows("SELECT total FROM orders WHERE id = 2") == [[.text(value)]])
  }

  @Test func `a value that PostgreSQL leaves out is not guessed, and a copy makes it moot`() throws {
    let made = try Handmade(TempFolder())
    made.options.rules = [Self.rule { $0.filter = "note LIKE 'a%'" }]
    made.shape(postgres([("id", "bigint"), ("total", "integer"), ("note", "text")]))
    try made.transaction {
      try made.create("orders")
      try made.copy("orders", [[.exact("1"), .exact("1"), .exact("abc")], [.exact("2"), .exact("1"), .exact("x")]])
      try made.update("orders", to: [.exact("2"), .exact("3"), nil])
    }
    let error = failure { try made.replay() }
    #expect(error?.message.contains("long value") == true)
    #expect(error?.hint.contains("ALTER TABLE public.orders REPLICA IDENTITY FULL") == true)
    try SQLiteApplyState(Database(path: made.target)).expectRefreshOfAll()
    made.options.askedBehind = 1
    try made.transaction { try made.copy("orders", [[.exact("2"), .exact("4"), .exact("a")]], reason: .asked) }
    try made.replay()
    #expect(try made.rows("SELECT * FROM orders") == [[2, 4, "a"]])
  }

  @Test func `a table that waits for what was left out goes on with a copy that comes later`() throws {
    let made = try Handmade(TempFolder())
    try checkCopyBehindRefusal(made, { try made.replay() }) {
      try made.rows("SELECT * FROM orders").map { $0.map { $0.shown.filter { $0 != "'" } } }
    }
  }

  @Test(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
  func `in PostgreSQL, too, a table that waits for what was left out goes on with a copy`() throws {
    let target = try PostgresTarget()
    try checkCopyBehindRefusal(target.trail, { try target.replay(target.trail, target.trail.options) }) {
      try target.psql("SELECT * FROM orders").split(separator: "\n").map { $0.split(separator: "|").map(String.init) }
    }
  }

  @Test func `a table that keeps rows goes on with a copy, too, and reports what it did not see`() throws {
    let made = try Handmade(TempFolder())
    let progress = ApplyProgress()
    try checkCopyBehindRefusal(made, keeps: true, { try made.open(progress).drain() }) {
      try made.rows("SELECT * FROM orders ORDER BY id").map { $0.map { $0.shown.filter { $0 != "'" } } }
    }
    #expect(progress.snapshot.notices.contains { $0.contains("inserted and deleted") })
  }

  private func checkCopyBehindRefusal(
    _ made: Handmade, keeps: Bool = false, _ replay: () throws -> Void, _ rows: () throws -> [[String]]
  ) throws {
    made.options.rules = [
      Self.rule {
        $0.filter = "note LIKE 'a%'"
        if keeps { $0.delete = .keep }
      }
    ]
    made.shape(postgres([("id", "bigint"), ("total", "integer"), ("note", "text")]))
    try made.transaction {
      try made.create("orders")
      try made.copy("orders", [[.exact("1"), .exact("1"), .exact("abc")], [.exact("2"), .exact("1"), .exact("x")]])
      try made.update("orders", to: [.exact("2"), .exact("3"), nil])
    }
    #expect(failure { try replay() }?.code == .schemaStopped)
    try made.transaction {
      try made.insert("orders", [.exact("7"), .exact("7"), .exact("ay")])
      try made.update("orders", [.exact("2"), .exact("3"), .exact("x")], [.exact("2"), .exact("4"), .exact("a")])
    }
    #expect(failure { try replay() }?.code == .schemaStopped)
    try made.transaction {
      try made.copy(
        "orders", [[.exact("2"), .exact("4"), .exact("a")], [.exact("7"), .exact("7"), .exact("ay")]], reason: .asked)
      try made.delete("orders", [.exact("7"), nil, nil])
    }
    try replay()
    #expect(try rows() == (keeps ? [["1", "1", "abc"]] : []) + [["2", "4", "a"]] + (keeps ? [["7", "7", "ay"]] : []))
  }

  @Test func `a row that enters the filter with a value left out is not lost`() throws {
    let made = try Handmade(TempFolder())
    made.options.rules = [Self.rule { $0.filter = "total > 0" }]
    made.shape(postgres([("id", "bigint"), ("total", "integer"), ("note", "text")]))
    try made.transaction {
      try made.create("orders")
      try made.copy("orders", [[.exact("1"), .exact("1"), .exact("abc")], [.exact("2"), .exact("0"), .exact("x")]])
    }
    try made.transaction { try made.update("orders", to: [.exact("1"), .exact("2"), nil]) }
    try made.replay()
    #expect(try made.rows("SELECT * FROM orders") == [[1, 2, "abc"]])
    try made.transaction { try made.update("orders", to: [.exact("2"), .exact("5"), nil]) }
    #expect(failure { try made.replay() }?.message.contains("long value") == true)
    #expect(try made.rows("SELECT * FROM orders") == [[1, 2, "abc"]])
  }
}

extension String {
  fileprivate func replacing(_ word: String, with other: String) -> String {
    split(separator: word, omittingEmptySubsequences: false).joined(separator: other)
  }
}
