import Applying
import Changes
import Mapping
import SQLiteKit
import TestServers
import Testing

/// Tables that Cairn made follow the source; tables that it did not make are left to their owner.
@Suite struct ShapeTests {
  private static let before = "CREATE TABLE t(id INTEGER PRIMARY KEY, a)"
  private static let after = "CREATE TABLE t(id INTEGER PRIMARY KEY, a, b DEFAULT 7)"

  /// With `isOwn`, the table was at the target before Cairn came.
  private func started(isOwn: Bool) throws -> Handmade {
    let made = try Handmade(TempFolder())
    if isOwn { try made.run(Self.before) }
    try made.begin(Self.before, "t", [[1, 1], [2, 2]])
    return made
  }

  private func change(_ made: Handmade, _ action: String) throws {
    try made.transaction {
      switch action {
      case "reshape":
        try made.reshape("t", Self.after)
        try made.insert("t", [3, 3, 3])
      case "rename":
        try made.reshape("t", "CREATE TABLE u(id INTEGER PRIMARY KEY, a)", as: .rename, to: "u")
        try made.insert("u", [3, 3])
      default: try made.drop("t")
      }
    }
  }

  @Test(arguments: [false, true])
  func `a column that may not be NULL says what to give rows that only the target has`(isOwn: Bool) throws {
    let made = try started(isOwn: isOwn)
    if isOwn { made.options.ddl = .follow }
    try made.transaction {
      try made.reshape("t", "CREATE TABLE t(id INTEGER PRIMARY KEY, a, n INTEGER NOT NULL)")
      try made.insert("t", [3, 3, 3])
    }
    let error = try #require(failure { try made.replay() })
    #expect(error.code == .schemaStopped && error.message.contains("table t"), "\(error.message)")
    #expect(error.message.contains("column n of table t may not be NULL and has no default"), "\(error.message)")
    #expect(error.hint.contains("\n  ALTER TABLE \"t\" ADD COLUMN n INTEGER NOT NULL DEFAULT …;"), "\(error.hint)")
    try made.run("ALTER TABLE t ADD COLUMN n INTEGER NOT NULL DEFAULT 7")
    try made.replay()
    #expect(try made.rows("SELECT * FROM t ORDER BY id") == [[1, 1, 7], [2, 2, 7], [3, 3, 3]])
  }

  @Test(arguments: ["reshape", "rename", "drop"])
  func `a table that Cairn made follows`(action: String) throws {
    let made = try started(isOwn: false)
    try change(made, action)
    try made.replay()
    switch action {
    case "reshape": #expect(try made.rows("SELECT * FROM t") == [[1, 1, 7], [2, 2, 7], [3, 3, 3]])
    case "rename": #expect(try made.rows("SELECT * FROM u") == [[1, 1], [2, 2], [3, 3]])
    default: #expect(try made.rows("SELECT 1 FROM sqlite_master WHERE name = 't'") == [])
    }
  }

  @Test(arguments: [
    (
      "reshape", "ALTER TABLE t ADD COLUMN b DEFAULT 7", "SELECT * FROM t",
      [[1, 1, 7], [2, 2, 7], [3, 3, 3]] as [[Value]]
    ),
    ("rename", "ALTER TABLE t RENAME TO u", "SELECT * FROM u", [[1, 1], [2, 2], [3, 3]]),
    ("drop", "ALTER TABLE t RENAME TO mine", "SELECT * FROM mine", [[1, 1], [2, 2]]),
  ])
  func `a table that Cairn did not make stops apply until it was changed by hand`(
    action: String, byHand: String, query: String, expected: [[Value]]
  ) throws {
    let made = try started(isOwn: true)
    try change(made, action)
    for _ in 0..<2 {
      let error = try #require(failure { try made.replay() })
      #expect(error.code == .schemaStopped && error.message.contains("table t"), "\(error)")
      #expect(error.context["table"] != nil)
      #expect(try made.rows("SELECT * FROM t") == [[1, 1], [2, 2]])
    }
    try made.run(byHand)
    try made.replay()
    #expect(try made.rows(query) == expected)
  }

  @Test func `the hint of a stop is the statement that is wanted`() throws {
    let made = try started(isOwn: true)
    try change(made, "reshape")
    let error = try #require(failure { try made.replay() })
    #expect(error.hint.contains("ALTER TABLE \"t\" ADD COLUMN b DEFAULT 7;"), "\(error.hint)")
    #expect(error.message.contains(Self.before) && error.message.contains(Self.after), "\(error.message)")
    #expect(error.message.contains("add column b"), "\(error.message)")
  }

  @Test func `a rebuild keeps rows, indexes, triggers and references of other tables`() throws {
    let made = try Handmade(TempFolder())
    try made.begin("CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, b); CREATE INDEX ti ON t(a)", "t", [[1, "5", 2]])
    try made.run(
      "CREATE TABLE own(t REFERENCES t(id)); INSERT INTO own VALUES (1); CREATE TRIGGER tt AFTER DELETE ON t BEGIN DELETE FROM own; END; CREATE INDEX mine ON t(b)"
    )
    try made.transaction {
      try made.reshape(
        "t", "CREATE TABLE t(b, id INTEGER PRIMARY KEY, a TEXT NOT NULL); CREATE UNIQUE INDEX ti ON t(a) WHERE a > 0"
      )
    }
    try made.replay()
    #expect(try made.rows("SELECT * FROM t") == [[2, 1, "5"]])
    #expect(
      try made.rows("SELECT sql FROM sqlite_master WHERE name = 'ti'") == [
        ["CREATE UNIQUE INDEX ti ON t(a) WHERE a > 0"]
      ])
    #expect(
      try made.rows("SELECT name FROM sqlite_master WHERE name IN ('tt', 'mine') ORDER BY 1") == [["mine"], ["tt"]])
    #expect(try made.rows("SELECT \"table\" FROM pragma_foreign_key_list('own')") == [["t"]])
    #expect(try made.rows("SELECT name FROM sqlite_master WHERE name LIKE 'cairn_aside%'") == [])
  }

  @Test func `rows that do not fit the new shape are left to the refresh that follows`() throws {
    let made = try Handmade(TempFolder())
    try made.begin("CREATE TABLE t(k TEXT PRIMARY KEY, a)", "t", [["x", .null], ["y", 2]])
    try made.transaction {
      try made.reshape("t", "CREATE TABLE t(k INTEGER PRIMARY KEY, a NOT NULL)", isRefreshed: true)
      try made.copy("t", [[1, 1], [2, 2]], reason: .schemaChange)
    }
    try made.replay()
    #expect(try made.rows("SELECT * FROM t") == [[1, 1], [2, 2]])
  }

  @Test func `an index moves from one table to another`() throws {
    let made = try Handmade(TempFolder())
    try made.begin("CREATE TABLE t(id INTEGER PRIMARY KEY, a); CREATE INDEX i ON t(a)", "t", [])
    try made.begin("CREATE TABLE u(id INTEGER PRIMARY KEY, a)", "u", [])
    try made.transaction { try made.reshape("u", "CREATE TABLE u(id INTEGER PRIMARY KEY, a); CREATE INDEX i ON u(a)") }
    try made.transaction { try made.reshape("t", "CREATE TABLE t(id INTEGER PRIMARY KEY, a)") }
    try made.replay()
    #expect(try made.rows("SELECT tbl_name FROM sqlite_master WHERE name = 'i'") == [["u"]])
  }

  @Test func `a table that is dropped and created again starts empty`() throws {
    let made = try started(isOwn: false)
    try made.transaction { try made.drop("t") }
    try made.shape("CREATE TABLE t(x)")
    try made.transaction {
      try made.create("t")
      try made.copy("t", [[5], [5]], .whole)
    }
    try made.replay()
    #expect(try made.rows("SELECT * FROM t") == [[5], [5]])
  }
}

extension ShapeTests {
  private func shape(_ name: String) -> TableSchema {
    TableSchema(
      epoch: 2, engine: .sqlite, name: name,
      columns: [.init(name: "id", declaredType: "INTEGER", keyOrdinal: 1, collation: "BINARY"), .init(name: "v")],
      createText: "CREATE TABLE \"\(name)\"(id INTEGER PRIMARY KEY, v)")
  }

  @Test func `two tables that take each other's names keep their rows`() throws {
    let made = try Handmade(TempFolder())
    for name in ["a", "b"] {
      try made.begin("CREATE TABLE \(name)(id INTEGER PRIMARY KEY, v)", name, [[1, .text(name)]])
    }
    try made.transaction {
      try made.reshape("a", shape("cairn_moving_1"), as: .rename, to: "cairn_moving_1")
      try made.reshape("b", shape("cairn_moving_2"), as: .rename, to: "cairn_moving_2")
      try made.reshape("cairn_moving_1", shape("b"), as: .rename, to: "b")
      try made.reshape("cairn_moving_2", shape("a"), as: .rename, to: "a")
      try made.insert("a", [2, "a"])
    }
    try made.replay()
    #expect(try made.rows("SELECT v FROM a") == [["b"], ["a"]])
    #expect(try made.rows("SELECT v FROM b") == [["a"]])
  }

  @Test func `a change that would break a view or a trigger of the target waits`() throws {
    for object in [
      "CREATE VIEW mine AS SELECT a FROM t", "CREATE TRIGGER mine AFTER INSERT ON u BEGIN UPDATE t SET a = new.id; END",
      "CREATE INDEX mine ON t(a)",
    ] {
      let made = try started(isOwn: false)
      try made.begin("CREATE TABLE u(id INTEGER PRIMARY KEY)", "u", [])
      try made.run(object)
      try made.transaction { try made.reshape("t", "CREATE TABLE t(id INTEGER PRIMARY KEY)") }
      let error = try #require(failure { try made.replay() })
      #expect(error.code == .schemaStopped && error.message.contains(" mine "), "\(error.message)")
      try made.run("DROP \(object.split(separator: " ")[1]) mine")
      try made.replay()
      #expect(try made.rows("SELECT * FROM t") == [[1], [2]])
    }
  }

  @Test func `a rebuild that would alter a value waits`() throws {
    for (value, type) in [("5", "INTEGER"), (.real(-0.0), "REAL"), (5, "TEXT")] as [(Value, String)] {
      let made = try Handmade(TempFolder())
      try made.begin("CREATE TABLE t(id INTEGER PRIMARY KEY, a)", "t", [[1, value], [2, .blob([1])]])
      try made.transaction { try made.reshape("t", "CREATE TABLE t(id INTEGER PRIMARY KEY, a \(type))") }
      let error = try #require(failure { try made.replay() })
      #expect(error.message.contains("values of column a would change"), "\(error.message)")
      #expect(try made.rows("SELECT a FROM t") == [[value], [.blob([1])]])
      try made.run("DELETE FROM t WHERE id = 1")
      try made.replay()
      #expect(try made.rows("SELECT type FROM pragma_table_info('t') WHERE name = 'a'") == [[.text(type)]])
    }
  }

  @Test func `a zero without a sign is no value that REAL alters`() throws {
    let made = try Handmade(TempFolder())
    try made.begin("CREATE TABLE t(id INTEGER PRIMARY KEY, a)", "t", [[1, .real(0)], [2, .real(-1.5)]])
    try made.transaction { try made.reshape("t", "CREATE TABLE t(id INTEGER PRIMARY KEY, a REAL)") }
    try made.replay()
    #expect(try made.rows("SELECT a FROM t") == [[.real(0)], [.real(-1.5)]])
  }

  @Test func `columns and indexes that only the target has survive a rebuild`() throws {
    let made = try started(isOwn: false)
    try made.run("ALTER TABLE t ADD COLUMN own DEFAULT 'o'; CREATE INDEX mine ON t(own)")
    try made.transaction { try made.reshape("t", "CREATE TABLE t(a NOT NULL, id INTEGER PRIMARY KEY)") }
    try made.replay()
    #expect(try made.rows("SELECT id, a, own FROM t") == [[1, 1, "o"], [2, 2, "o"]])
    #expect(try made.rows("SELECT tbl_name FROM sqlite_master WHERE name = 'mine'") == [["t"]])
  }

  @Test(arguments: [DDLPolicy.follow, .ignore])
  func `a copy leaves what only the target has in its rows`(policy: DDLPolicy) throws {
    let made = try Handmade(TempFolder())
    let rows: [[Value]] = (1...5).map { [.integer($0), .integer($0), .integer($0)] }
    try made.begin("CREATE TABLE t(id INTEGER PRIMARY KEY, a UNIQUE, b)", "t", rows)
    try made.run("ALTER TABLE t ADD COLUMN mine TEXT; UPDATE t SET mine = 'm' || id")
    made.options.ddl = policy
    try made.transaction {
      try made.reshape("t", "CREATE TABLE t(id INTEGER PRIMARY KEY, a UNIQUE)", isRefreshed: true)
    }
    try made.transaction {
      try made.refresh("t", .start(.schemaChange, .byKey, estimatedRows: 4))
      // Its chunk is still to come.
      try made.insert("t", [4, "four"])
    }
    try made.transaction {
      try made.refresh("t", .chunk(.keys(after: nil, through: [2, nil])))
      try made.row("t", [1, "one"])
      try made.update("t", [1, nil], [10, nil])
    }
    try made.transaction {
      try made.refresh("t", .chunk(.keys(after: [2, nil], through: nil)))
      for (id, name) in [(3, "three"), (4, "4"), (10, "one"), (11, "new")] {
        try made.row("t", [.integer(Int64(id)), .text(Array(name.utf8))])
      }
      try made.refresh("t", .end(rows: 5))
    }
    try made.replay()
    #expect(
      try made.rows("SELECT id, a, mine FROM t ORDER BY id")
        == [[3, "three", "m3"], [4, "4", "m4"], [10, "one", "m1"], [11, "new", .null]])
    if policy == .ignore {
      #expect(try made.rows("SELECT b FROM t ORDER BY id") == [[3], [4], [1], [.null]])
    }
  }

  @Test func `rows with what only the target has are not given up for a constraint`() throws {
    let made = try Handmade(TempFolder())
    try made.begin("CREATE TABLE t(id INTEGER PRIMARY KEY, a)", "t", [[1, .null], [2, 2]])
    try made.run("ALTER TABLE t ADD COLUMN mine TEXT; UPDATE t SET mine = 'm' || id")
    try made.transaction {
      try made.reshape("t", "CREATE TABLE t(id INTEGER PRIMARY KEY, a NOT NULL)", isRefreshed: true)
      try made.copy("t", [[1, 1], [2, 2]], reason: .schemaChange)
    }
    let error = try #require(failure { try made.replay() })
    #expect(error.message.contains("only the target has column mine"), "\(error.message)")
    try made.run("UPDATE t SET a = 0 WHERE id = 1")
    try made.replay()
    #expect(try made.rows("SELECT id, a, mine FROM t ORDER BY id") == [[1, 1, "m1"], [2, 2, "m2"]])
  }

  @Test func `emptying a table without a key is reported if the target has a column of its own`() throws {
    let made = try Handmade(TempFolder())
    try made.begin("CREATE TABLE t(a)", "t", [[1], [2]], .whole)
    try made.run("ALTER TABLE t ADD COLUMN mine TEXT; UPDATE t SET mine = 'm'")
    try made.transaction { try made.copy("t", [[1], [3]], .whole, reason: .lostChanges) }
    let progress = ApplyProgress()
    try made.open(progress).drain()
    #expect(progress.snapshot.notices.contains { $0.contains("table t is emptied") && $0.contains("mine") })
  }

  @Test func `the text of the table is the source's after every change`() throws {
    let made = try started(isOwn: false)
    let steps = [
      "ALTER TABLE t ADD COLUMN b INT DEFAULT 5", "ALTER TABLE t RENAME COLUMN a TO \"A b\"",
      "ALTER TABLE t ADD COLUMN c REFERENCES t(id)", "ALTER TABLE t DROP COLUMN b",
      "ALTER TABLE t RENAME COLUMN c TO d",
    ]
    let source = try Database(path: ":memory:", mode: .create)
    try source.executeScript(Self.before)
    for step in steps {
      try source.executeScript(step)
      let text = try #require(try source.text("SELECT sql FROM sqlite_master WHERE name = 't'"))
      try made.transaction { try made.reshape("t", text) }
      try made.replay()
      #expect(try made.rows("SELECT sql FROM sqlite_master WHERE name = 't'") == [[.text(text)]])
    }
    #expect(try made.rows("SELECT id, \"A b\", d FROM t") == [[1, 1, .null], [2, 2, .null]])
  }
}
