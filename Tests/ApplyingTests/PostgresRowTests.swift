import Applying
import Changes
import TestServers
import Testing

@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
struct PostgresRowTests {
  @Test func `rows of SQLite arrive by copy and by changes`() throws {
    let target = try PostgresTarget()
    try target.begin(
      "CREATE TABLE Item(id INTEGER PRIMARY KEY, Name TEXT, price REAL, data BLOB, isOn BOOLEAN)", "Item",
      [[1, "one", .real(1.5), .blob([0, 255]), 1], [2, "tab\tand \\ and\nline", .null, .null, 0]])
    #expect(try target.psql("SELECT * FROM item ORDER BY id") == "1|one|1.5|\\x00ff|t\n2|tab\tand \\ and\nline|||f")
    try target.trail.transaction {
      try target.trail.insert("Item", [3, "", .real(-0.0), .blob([]), .null])
      try target.trail.update("Item", [1, "one", .real(1.5), .blob([0, 255]), 1], [nil, "eins", nil, nil, nil])
      try target.trail.delete("Item", [2, "tab\tand \\ and\nline", .null, .null, 0])
    }
    try target.replay()
    #expect(try target.psql("SELECT * FROM item ORDER BY id") == "1|eins|1.5|\\x00ff|t\n3||-0|\\x|")
    #expect(try target.psql("SELECT number FROM cairn.checkpoint") == "2")
    #expect(try target.psql("INSERT INTO item(name) VALUES ('mine') RETURNING id") == "4")
  }

  @Test func `long runs of inserts and single ones keep their order`() throws {
    let target = try PostgresTarget()
    try target.begin(
      "CREATE TABLE a(id INTEGER PRIMARY KEY, n INTEGER); CREATE TABLE b(id INTEGER PRIMARY KEY)", "a", [])
    try target.trail.transaction {
      try target.trail.create("b")
      for n in 1...500 { try target.trail.insert("a", [.integer(Int64(n)), 0]) }
      for n in 1...40 { try target.trail.insert("b", [.integer(Int64(n))]) }
      for n in 1...500 { try target.trail.update("a", [.integer(Int64(n)), 0], [nil, .integer(Int64(n))]) }
      for n in 501...700 { try target.trail.insert("a", [.integer(Int64(n)), 0]) }
      try target.trail.delete("a", [7, 7])
      try target.trail.insert("a", [7, 8])
    }
    try target.replay()
    #expect(try target.psql("SELECT count(*), sum(n) FROM a") == "700|\(500 * 501 / 2 + 1)")
    #expect(try target.psql("SELECT count(*) FROM b") == "40")
  }

  /// A peer's trail, alone and among as many rows as go by COPY: a crash would end the daemon at each start.
  @Test(arguments: [1, 400]) func `a row to insert that lacks a value is damage`(count: Int) throws {
    for engine in [Engine.sqlite, .postgres] {
      let target = try PostgresTarget()
      let isPostgres = engine == .postgres
      func row(_ id: Int, _ text: Value?) -> [Value?] { [isPostgres ? .exact("\(id)") : .integer(Int64(id)), text] }
      let first: [[Value]] = [[isPostgres ? .exact("1") : 1, isPostgres ? .exact("a") : "a"]]
      if isPostgres {
        try target.begin(postgres: "CREATE TABLE t(id bigint PRIMARY KEY, v text)", "t", first)
      } else {
        try target.begin("CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT)", "t", first)
      }
      try target.trail.transaction {
        for id in 2...count + 1 {
          try target.trail.change(.insert, .after, "t", [row(id, id == count + 1 ? nil : .null)])
        }
      }
      let error = failure { try target.replay() }
      #expect(error?.code == .trailDamaged, "\(String(describing: error))")
      #expect(error?.message.contains("column v") == true)
      #expect(try target.psql("SELECT count(*) FROM t") == "1")
      // An update whose images do not say which row it changes.
      let other = try PostgresTarget()
      try other.begin("CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT)", "t", [[1, "a"]])
      try other.trail.transaction { try other.trail.change(.update, .after, "t", [[nil, "b"]]) }
      #expect(failure { try other.replay() } != nil)
      #expect(try other.psql("SELECT * FROM t") == "1|a")
    }
  }

  @Test func `an insert of a row that is there stops and names it`() throws {
    let target = try PostgresTarget()
    try target.begin("CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT)", "t", [[1, "a"]])
    try target.trail.transaction { try target.trail.insert("t", [5, "good"]) }
    try target.trail.transaction { try target.trail.insert("t", [1, "b"]) }
    let error = failure { try target.replay() }
    #expect(error?.code == .rowExists)
    #expect(error?.message.contains("table t, row id='1'") == true)
    #expect(try target.psql("SELECT * FROM t ORDER BY id") == "1|a\n5|good")
    try target.psql("DELETE FROM t WHERE id = 1")
    try target.replay()
    #expect(try target.psql("SELECT * FROM t ORDER BY id") == "1|b\n5|good")
  }

  @Test func `a long COPY that is refused at its beginning names the row`() throws {
    let target = try PostgresTarget()
    try target.begin("CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT)", "t", [[1, "a"]])
    let text = Value.text(String(repeating: "long ", count: 400))
    try target.trail.transaction { for n in 1...6000 { try target.trail.insert("t", [.integer(Int64(n)), text]) } }
    let error = failure { try target.replay() }
    #expect(error?.code == .rowExists && error?.message.contains("row id='1'") == true)
    try target.psql("DELETE FROM t")
    try target.replay()
    #expect(try target.psql("SELECT count(*) FROM t") == "6000")
  }

  @Test func `updates and deletes of rows that are missing or differ stop and name them`() throws {
    let target = try PostgresTarget()
    try target.begin("CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT, w TEXT)", "t", [[1, "a", "x"]])
    try target.psql("UPDATE t SET w = 'changed'")
    try target.trail.transaction { try target.trail.update("t", [1, "a", "x"], [nil, "b", nil]) }
    let error = failure { try target.replay() }
    #expect(error?.code == .rowDiffers)
    #expect(error?.message.contains("row id='1'") == true && error?.message.contains("column w") == true)
    #expect(error?.hint.contains("another program wrote to the target, or") == true)
    #expect(error?.hint.contains("PRAGMA integrity_check") == true)
    try target.psql("DELETE FROM t")
    #expect(failure { try target.replay() }?.code == .rowMissing)
    try target.psql("INSERT INTO t VALUES (1, 'a', 'x')")
    try target.replay()
    try target.trail.transaction { try target.trail.delete("t", [2, "a", "x"]) }
    #expect(failure { try target.replay() }?.code == .rowMissing)
    #expect(try target.psql("SELECT * FROM t") == "1|b|x")
  }

  @Test func `a trail of PostgreSQL updates by key, leaves unchanged columns alone, and moves keys`() throws {
    let target = try PostgresTarget()
    try target.begin(
      postgres: "CREATE TABLE t(id int PRIMARY KEY, v text, big text, j json, p point)", "t",
      [[.exact("1"), .exact("a"), .exact("long"), .exact("{\"a\":  1}"), .exact("(1,2)")]])
    try target.trail.transaction {
      try target.trail.change(.update, .after, "t", [[.exact("1"), .exact("b"), nil, .exact("[]"), .exact("(3,4)")]])
    }
    try target.replay()
    #expect(try target.psql("SELECT * FROM t") == "1|b|long|[]|(3,4)")
    try target.trail.transaction {
      try target.trail.update(
        "t", [.exact("1"), nil, nil, nil, nil], [.exact("2"), .exact("c"), nil, .exact("{}"), .null])
    }
    try target.replay()
    #expect(try target.psql("SELECT * FROM t") == "2|c|long|{}|")
    try target.trail.transaction { try target.trail.delete("t", [.exact("2"), nil, nil, nil, nil]) }
    try target.replay()
    #expect(try target.psql("SELECT count(*) FROM t") == "0")
  }

  @Test func `full images before are compared, of types without equality too`() throws {
    let target = try PostgresTarget()
    let row: [Value] = [.exact("1"), .exact("{\"a\":  1}"), .exact("<a/>"), .exact("(1,2)"), .exact("{1,NULL}")]
    try target.begin(
      postgres: "CREATE TABLE t(id int PRIMARY KEY, j json, x xml, p point, a int[])", "t", [row])
    try target.trail.transaction {
      try target.trail.update("t", row, [.exact("1"), .exact("{}"), .exact("<b/>"), .exact("(3,4)"), .exact("{}")])
    }
    try target.replay()
    #expect(try target.psql("SELECT * FROM t") == "1|{}|<b/>|(3,4)|{}")
    try target.trail.transaction { try target.trail.delete("t", row) }
    #expect(failure { try target.replay() }?.code == .rowDiffers)
  }

  @Test func `one of several equal rows goes`() throws {
    let target = try PostgresTarget()
    try target.begin("CREATE TABLE t(a INTEGER, b TEXT)", "t", [[1, .null], [1, .null], [2, "x"]], .whole)
    try target.trail.transaction {
      try target.trail.delete("t", [1, .null])
      try target.trail.update("t", [1, .null], [nil, "y"])
    }
    try target.replay()
    #expect(try target.psql("SELECT * FROM t ORDER BY 1") == "1|y\n2|x")
    try target.trail.transaction { try target.trail.delete("t", [1, "none"]) }
    #expect(failure { try target.replay() }?.code == .rowMissing)
  }

  @Test func `an update that comes before its row waits for it`() throws {
    let target = try PostgresTarget()
    try target.begin("CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT)", "t", [])
    try target.trail.transaction {
      try target.trail.update("t", [1, "a"], [nil, "b"])
      try target.trail.insert("t", [1, "a"])
    }
    try target.replay()
    #expect(try target.psql("SELECT * FROM t") == "1|b")
  }

  @Test func `identity columns that are always generated take the source's values`() throws {
    let target = try PostgresTarget()
    try target.begin(
      postgres:
        "CREATE TABLE t(id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n int, g int GENERATED ALWAYS AS (n * 2) STORED)",
      "t", [[.exact("5"), .exact("1")]])
    try target.trail.transaction {
      try target.trail.insert("t", [.exact("6"), .exact("2")])
      try target.trail.change(.update, .after, "t", [[.exact("5"), .exact("10")]])
      try target.trail.update("t", [.exact("6"), nil], [.exact("7"), .exact("20")])
    }
    try target.replay()
    #expect(try target.psql("SELECT * FROM t ORDER BY id") == "5|10|20\n7|20|40")
  }

  @Test func `values that swap in one transaction swap, whether the target checks at once or not`() throws {
    for constraint in ["UNIQUE DEFERRABLE", "UNIQUE"] {
      let target = try PostgresTarget()
      try target.shape(postgres: "CREATE TABLE t(id int PRIMARY KEY, v int UNIQUE DEFERRABLE)")
      try target.psql("CREATE TABLE t(id int PRIMARY KEY, v int \(constraint))")
      try target.trail.transaction {
        try target.trail.create("t")
        try target.trail.copy("t", [[.exact("1"), .exact("1")], [.exact("2"), .exact("2")]])
      }
      try target.trail.transaction {
        try target.trail.change(.update, .after, "t", [[.exact("1"), .exact("2")]])
        try target.trail.change(.update, .after, "t", [[.exact("2"), .exact("1")]])
      }
      try target.replay()
      #expect(try target.psql("SELECT * FROM t ORDER BY id") == "1|2\n2|1")
      try target.trail.transaction { try target.trail.change(.update, .after, "t", [[.exact("1"), .exact("1")]]) }
      let error = failure { try target.replay() }
      #expect(error?.code == .rowExists)
      #expect(error?.hint.contains("'pg_amcheck'") == true && error?.hint.contains("PRAGMA") == false)
      #expect(try target.psql("SELECT * FROM t ORDER BY id") == "1|2\n2|1")
    }
  }

  @Test func `more rows than can wait go by each other as they come`() throws {
    let target = try PostgresTarget()
    let count = 10_500
    let rows = (1...count).map { [Value.exact("\($0)"), .exact("\($0)")] }
    try target.begin(postgres: "CREATE TABLE t(id int PRIMARY KEY, place int UNIQUE)", "t", rows)
    try target.trail.transaction {
      for id in 1...count { try target.trail.update("t", to: [.exact("\(id)"), .exact("\(id + 1)")]) }
    }
    try target.replay()
    #expect(
      try target.psql("SELECT count(*), min(place), max(place), sum(place - id) FROM t")
        == "\(count)|2|\(count + 1)|\(count)")
  }

  @Test func `a key that is deferrable is checked all the same`() throws {
    let target = try PostgresTarget()
    try target.begin(
      postgres: "CREATE TABLE t(id int PRIMARY KEY DEFERRABLE, v text)", "t", [[.exact("1"), .exact("a")]])
    try target.trail.transaction {
      for n in 2...200 { try target.trail.insert("t", [.exact("\(n)"), .exact("x")]) }
      try target.trail.insert("t", [.exact("1"), .exact("b")])
    }
    let error = failure { try target.replay() }
    #expect(error?.code == .rowExists)
    #expect(try target.psql("SELECT * FROM t") == "1|a")
  }

  @Test func `truncate empties a table that others reference`() throws {
    let target = try PostgresTarget()
    try target.begin(postgres: "CREATE TABLE t(id int PRIMARY KEY)", "t", [[.exact("1")]])
    try target.psql("CREATE TABLE mine(id int REFERENCES t)")
    try target.trail.transaction { try target.trail.truncate("t") }
    try target.replay()
    #expect(try target.psql("SELECT count(*) FROM t") == "0")
  }

  @Test func `every transaction begins with the message that capture knows it by`() throws {
    let target = try PostgresTarget()
    try target.psql("SELECT pg_create_logical_replication_slot('\(target.name)', 'test_decoding')")
    defer { _ = try? target.psql("SELECT pg_drop_replication_slot('\(target.name)')") }
    try target.begin("CREATE TABLE t(id INTEGER PRIMARY KEY)", "t", [[1]])
    let seen = try target.psql(
      "SELECT data FROM pg_logical_slot_get_changes('\(target.name)', NULL, NULL) WHERE data ~ 'message' OR data ~ 'public.t:'"
    )
    #expect(seen.contains("transactional: 1 prefix: cairn, sz:"))
    #expect(seen.hasPrefix("message") && seen.contains("table public.t: INSERT"))
  }
}
