import Applying
import Changes
import SQLiteKit
import TestServers
import Testing

/// Trails of PostgreSQL, applied to SQLite.
@Suite struct PostgresTrailTests {
  private func table(
    _ name: String, _ columns: [(name: String, type: String)], key: [String], namespace: String = "public",
    uniques: [[Int]] = []
  ) -> TableSchema {
    TableSchema(
      epoch: 1, engine: .postgres, namespace: namespace, name: name, flags: key.isEmpty ? .wholeRow : [],
      columns: columns.map { column in
        .init(
          name: column.name, declaredType: column.type, isNotNull: key.contains(column.name),
          keyOrdinal: (key.firstIndex(of: column.name) ?? -1) + 1)
      }, uniques: uniques, createText: "CREATE TABLE …")
  }

  private func row(_ texts: String?...) -> [Value] { texts.map { $0.map { .exact(Array($0.utf8)) } ?? .null } }

  /// As ``row(_:)``; `-` is a column that is not given.
  private func part(_ texts: String?...) -> [Value?] {
    texts.map { text in
      if text == "-" { nil } else { text.map { .exact(Array($0.utf8)) } ?? .null }
    }
  }

  private func begin(_ made: Handmade, _ schema: TableSchema, _ rows: [[Value]] = []) throws {
    let name = schema.namespace == "public" ? schema.name : "\(schema.namespace).\(schema.name)"
    made.shape(schema)
    try made.transaction {
      try made.create(name)
      try made.copy(name, rows, schema.flags.contains(.wholeRow) ? .whole : .byKey)
    }
    try made.replay()
  }

  @Test func `columns that an update leaves out stay as they are, in tables of any width`() throws {
    for width in [3, 64, 65, 130] {
      let made = try Handmade(TempFolder())
      let columns = (0..<width).map { (name: "c\($0)", type: "text") }
      try begin(made, table("t", columns, key: ["c0"]), [(0..<width).map { .exact(Array("v\($0)".utf8)) }])
      try made.transaction {
        var after: [Value?] = (0..<width).map { _ in nil }
        after[0] = .exact(Array("v0".utf8))
        after[width - 1] = .exact(Array("new".utf8))
        try made.update("t", to: after)
      }
      try made.replay()
      let expected: [Value] = (0..<width).map { $0 == width - 1 ? "new" : .text("v\($0)") }
      #expect(try made.rows("SELECT * FROM t") == [expected], "\(width) columns")
    }
  }

  @Test func `values arrive in the storage class that keeps them`() throws {
    let made = try Handmade(TempFolder())
    let schema = table(
      "t",
      [
        ("id", "bigint"), ("b", "boolean"), ("n", "numeric"), ("f", "double precision"), ("r", "real"), ("x", "bytea"),
        ("j", "jsonb"), ("d", "timestamp with time zone"),
      ], key: ["id"])
    try begin(
      made, schema,
      [
        row("9223372036854775807", "t", "1.10", "-0", "0.1", "\\x00ff", "{\"a\": 1}", "infinity"),
        row("2", "f", "NaN", "NaN", "NaN", "\\x", nil, "0044-03-15 12:00:00+00 BC"),
      ])
    #expect(
      try made.rows("SELECT * FROM t ORDER BY id") == [
        [
          2, 0, "NaN", "NaN", "NaN", .blob([]), .null, "0044-03-15 12:00:00+00 BC",
        ],
        [
          .integer(.max), 1, "1.10", .real(-0.0), .real(Double(Float(0.1))), .blob([0, 0xff]), "{\"a\": 1}", "infinity",
        ],
      ])
    let zero = try #require(try made.rows("SELECT f FROM t ORDER BY id DESC").first?.first)
    guard case .real(let real) = zero else { return #expect(Bool(false)) }
    #expect(real.sign == .minus)
    let origin = try Database(path: made.target).userTables().first?.schema.original
    #expect(origin?.columns == schema.columns)
    #expect(origin?.engine == .postgres)
  }

  @Test func `updates without a row before, with one key before, and with columns that are not repeated`() throws {
    let made = try Handmade(TempFolder())
    try begin(
      made, table("t", [("id", "integer"), ("a", "text"), ("big", "text")], key: ["id"]),
      [row("1", "x", "long"), row("2", "y", "long")])
    try made.transaction {
      try made.update("t", to: part("1", "changed", "-"))
      try made.update("t", part("2", "-", "-"), part("3", "moved", "-"))
      try made.insert("t", row("4", "new", nil))
      try made.delete("t", part("1", "-", "-"))
    }
    try made.replay()
    #expect(try made.rows("SELECT * FROM t ORDER BY id") == [[3, "moved", "long"], [4, "new", .null]])
  }

  @Test func `a row before that is given whole is compared`() throws {
    let made = try Handmade(TempFolder())
    let schema = table("t", [("id", "integer"), ("n", "numeric"), ("f", "double precision")], key: ["id"])
    try begin(made, schema, [row("1", "1.10", "0.1")])
    try made.transaction { try made.update("t", row("1", "1.10", "0.1"), row("1", "1.10", "NaN")) }
    try made.replay()
    #expect(try made.rows("SELECT f FROM t") == [["NaN"]])
    try made.transaction { try made.update("t", row("1", "1.1", "NaN"), row("1", "2", "2")) }
    let error = try #require(failure { try made.replay() })
    #expect(error.code == .rowDiffers)
    #expect(error.message.contains("column n"), "\(error.message)")
  }

  @Test func `outside of a refresh a row that is missing or there already stops apply`() throws {
    for body in [
      { made in try made.update("t", to: [.exact([0x39]), .null]) },
      { made in try made.delete("t", [.exact([0x39]), nil]) },
      { made in try made.insert("t", [.exact([0x31]), .null]) },
    ] as [(Handmade) throws -> Void] {
      let made = try Handmade(TempFolder())
      try begin(made, table("t", [("id", "integer"), ("a", "text")], key: ["id"]), [row("1", "x")])
      try made.transaction { try body(made) }
      let error = try #require(failure { try made.replay() })
      #expect([.rowMissing, .rowExists].contains(error.code), "\(error)")
      #expect(error.hint.contains("'pg_amcheck'") && !error.hint.contains("PRAGMA"), "\(error.hint)")
      #expect(try made.rows("SELECT * FROM t") == [[1, "x"]])
    }
  }

  @Test func `during a refresh an update that cannot be completed is left to the chunk`() throws {
    let made = try Handmade(TempFolder())
    made.shape(table("t", [("id", "integer"), ("a", "text"), ("big", "text")], key: ["id"]))
    try made.transaction {
      try made.create("t")
      try made.refresh("t", .start(.firstCopy, .byKey, estimatedRows: 2))
      try made.update("t", to: part("7", "new", "-"))
      try made.update("t", to: part("8", "new", "whole"))
      try made.delete("t", part("9", "-", "-"))
    }
    try made.replay()
    #expect(try made.rows("SELECT id FROM t") == [[8]])
    try made.transaction {
      try made.refresh("t", .chunk(.keys(after: nil, through: nil)))
      for id in ["7", "8"] { try made.row("t", row(id, "new", "whole")) }
      try made.refresh("t", .end(rows: 2))
    }
    try made.replay()
    #expect(try made.rows("SELECT * FROM t ORDER BY id") == [[7, "new", "whole"], [8, "new", "whole"]])
  }

  @Test func `rows that swap a unique value within a transaction`() throws {
    let made = try Handmade(TempFolder())
    let schema = table("t", [("id", "integer"), ("place", "integer"), ("a", "text")], key: ["id"], uniques: [[1]])
    try begin(made, schema, [row("1", "1", "x"), row("2", "2", "y"), row("3", "3", "z")])
    try made.transaction {
      try made.update("t", to: part("1", "2", "-"))
      try made.update("t", to: part("1", "-", "again"))
      try made.update("t", to: part("2", "3", "-"))
      try made.update("t", to: part("3", "1", "-"))
      try made.insert("t", row("4", "1", "w"))
      try made.update("t", part("4", "-", "-"), part("5", "9", "-"))
      try made.insert("t", row("6", "9", "v"))
      try made.delete("t", part("6", "-", "-"))
    }
    try made.replay()
    #expect(
      try made.rows("SELECT * FROM t ORDER BY id") == [
        [1, 2, "again"], [2, 3, "y"], [3, 1, "z"], [5, 9, "w"],
      ])
    try made.transaction { try made.update("t", to: part("1", "3", "-")) }
    let error = try #require(failure { try made.replay() })
    #expect(error.code == .rowExists)
    #expect(error.message.contains("id=1"), "\(error.message)")
    #expect(try made.rows("SELECT place FROM t WHERE id = 1") == [[2]])
  }

  @Test func `a row that waits for a unique value goes when its table is emptied`() throws {
    let made = try Handmade(TempFolder())
    let schema = table("t", [("id", "integer"), ("place", "integer"), ("a", "text")], key: ["id"], uniques: [[1]])
    try begin(made, schema, [row("1", "1", "x"), row("2", "2", "y")])
    try made.transaction {
      try made.update("t", to: part("1", "2", "-"))
      try made.truncate("t")
      try made.insert("t", row("3", "3", "z"))
    }
    try made.replay()
    #expect(try made.rows("SELECT * FROM t ORDER BY id") == [[3, 3, "z"]])
  }

  @Test func `keys that change places`() throws {
    let made = try Handmade(TempFolder())
    try begin(made, table("t", [("id", "integer"), ("a", "text")], key: ["id"]), [row("1", "x"), row("2", "y")])
    try made.transaction {
      try made.update("t", part("1", "-"), part("2", "-"))
      try made.update("t", part("2", "-"), part("1", "-"))
    }
    try made.replay()
    #expect(try made.rows("SELECT * FROM t ORDER BY id") == [[1, "y"], [2, "x"]])
  }

  @Test func `rows of a table without a key are found by all their values`() throws {
    let made = try Handmade(TempFolder())
    let schema = table("t", [("a", "numeric"), ("f", "double precision")], key: [])
    try begin(made, schema, [row("1.0", "1"), row("1.0", "1"), row("1", "-0"), row("1", "0")])
    try made.transaction {
      try made.delete("t", row("1.0", "1"))
      try made.update("t", row("1", "0"), row("1", "5"))
    }
    try made.replay()
    #expect(
      try made.rows("SELECT a, f FROM t ORDER BY a, f") == [["1", .real(-0.0)], ["1", .real(5)], ["1.0", .real(1)]])
    try made.transaction { try made.truncate("t") }
    try made.replay()
    #expect(try made.rows("SELECT count(*) FROM t") == [[0]])
  }

  @Test func `two tables of the source that would be one are refused with both names`() throws {
    let made = try Handmade(TempFolder())
    try begin(made, table("b", [("id", "integer")], key: ["id"], namespace: "a"))
    made.shape(table("a_b", [("id", "integer")], key: ["id"]))
    try made.transaction { try made.create("a_b") }
    let error = try #require(failure { try made.replay() })
    #expect(error.code == .schemaStopped)
    #expect(error.message.contains("a.b") && error.message.contains("a_b"), "\(error.message)")
  }

  // MARK: Names that collide

  private func collided() throws -> Handmade {
    let made = try Handmade(TempFolder())
    try begin(made, table("t", [("id", "integer"), ("a", "text")], key: ["id"]), [row("1", "x")])
    try begin(made, table("o", [("id", "integer")], key: ["id"]))
    return made
  }

  @Test(arguments: ["drop column", "rename column", "drop table"])
  func `only a table with columns that collide waits, until that is undone at the source`(way: String) throws {
    let made = try collided()
    let twice = table("t", [("id", "integer"), ("a", "text"), ("A", "integer")], key: ["id"])
    try made.transaction {
      try made.insert("t", row("2", "y"))
      try made.reshape("t", twice)
      try made.insert("t", row("3", "z", "7"))
      try made.insert("o", row("1"))
    }
    try made.transaction { try made.update("t", to: part("2", "-", "8")) }
    for _ in 0..<2 {
      let error = try #require(failure { try made.replay() })
      #expect(error.message.contains("table public.t is suspended: columns a and A"), "\(error.message)")
      #expect(try made.rows("SELECT * FROM t") == [[1, "x"], [2, "y"]])
      #expect(try made.rows("SELECT * FROM o") == [[1]])
    }
    try made.transaction {
      switch way {
      case "drop column": try made.reshape("t", table("t", [("id", "integer"), ("a", "text")], key: ["id"]))
      case "rename column":
        try made.reshape("t", table("t", [("id", "integer"), ("a", "text"), ("b", "integer")], key: ["id"]))
      default: try made.drop("t")
      }
      try made.insert("o", row("2"))
    }
    // An object is in the way in the middle.
    if way != "drop table" {
      try made.run("INSERT INTO t VALUES (3, 'mine')")
      try made.transaction { try made.insert("t", way == "drop column" ? row("4", "u") : row("4", "u", "9")) }
      #expect(failure { try made.replay() } != nil)
      try made.run("DELETE FROM t WHERE id = 3")
    }
    try made.replay()
    let expected: [[Value]]
    switch way {
    case "drop column": expected = [[1, "x"], [2, "y"], [3, "z"], [4, "u"]]
    case "rename column": expected = [[1, "x", .null], [2, "y", 8], [3, "z", 7], [4, "u", 9]]
    default: expected = []
    }
    if way == "drop table" {
      #expect(try made.rows("SELECT name FROM sqlite_master WHERE name = 't'") == [])
    } else {
      #expect(try made.rows("SELECT * FROM t ORDER BY id") == expected)
    }
    #expect(try made.rows("SELECT * FROM o") == [[1], [2]])
  }

  @Test(arguments: ["drop", "rename", "rename and drop the other", "drop the other"])
  func `only a table waits whose name is taken in another case, until that is undone at the source`(way: String) throws
  {
    let made = try collided()
    let other = table("T", [("n", "integer"), ("b", "text")], key: ["n"])
    made.shape(other)
    try made.transaction {
      try made.create("T")
      try made.copy("T", [row("1", "p")])
      try made.insert("t", row("2", "y"))
    }
    try made.transaction {
      try made.insert("T", row("2", "q"))
      try made.insert("o", row("1"))
    }
    for _ in 0..<2 {
      let error = try #require(failure { try made.replay() })
      #expect(error.message.contains("table public.T is suspended: tables public.t and public.T"), "\(error.message)")
      #expect(try made.rows("SELECT * FROM t") == [[1, "x"], [2, "y"]])
      #expect(try made.rows("SELECT * FROM o") == [[1]])
    }
    try made.transaction {
      switch way {
      case "drop": try made.drop("T")
      case "drop the other": try made.drop("t")
      default:
        try made.reshape("T", table("u", [("n", "integer"), ("b", "text")], key: ["n"]), as: .rename, to: "u")
        try made.insert("u", row("3", "r"))
      }
    }
    if way == "rename and drop the other" { try made.transaction { try made.drop("t") } }
    try made.replay()
    let rows: [[Value]] = [[1, "p"], [2, "q"]]
    switch way {
    case "drop": #expect(try made.rows("SELECT * FROM t") == [[1, "x"], [2, "y"]])
    case "drop the other": #expect(try made.rows("SELECT n, b FROM T") == rows)
    default: #expect(try made.rows("SELECT * FROM u") == rows + [[3, "r"]])
    }
    let name = way == "drop" ? "t" : way == "drop the other" ? "T" : "u"
    #expect(
      try made.rows("SELECT name, created FROM cairn_table WHERE name LIKE '\(name)%'") == [
        [.text(Array(name.utf8)), 1]
      ])
    // It is one of all now.
    try made.transaction { try made.drop(name) }
    try made.replay()
    #expect(try made.rows("SELECT name FROM sqlite_master WHERE type = 'table' AND name = '\(name)'") == [])
  }

  @Test func `a table that is renamed to a name that is taken in another case waits`() throws {
    let made = try collided()
    try made.transaction {
      try made.reshape("o", table("T", [("id", "integer")], key: ["id"]), as: .rename, to: "T")
      try made.insert("T", row("1"))
      try made.insert("t", row("2", "y"))
    }
    #expect(failure { try made.replay() }?.message.contains("table public.T is suspended") == true)
    #expect(try made.rows("SELECT * FROM t") == [[1, "x"], [2, "y"]])
    try made.transaction {
      try made.reshape("T", table("p", [("id", "integer")], key: ["id"]), as: .rename, to: "p")
      try made.insert("p", row("2"))
    }
    try made.replay()
    #expect(try made.rows("SELECT * FROM p") == [[1], [2]])
    try made.transaction {
      try made.reshape("t", table("T", [("id", "integer"), ("a", "text")], key: ["id"]), as: .rename, to: "T")
      try made.insert("T", row("3", "z"))
    }
    try made.replay()
    #expect(try made.rows("SELECT id FROM T") == [[1], [2], [3]])
  }

  @Test func `keys that sort in another way here are copied again as a whole`() throws {
    let made = try Handmade(TempFolder())
    let schema = table("t", [("n", "numeric"), ("a", "text")], key: ["n"])
    try begin(made, schema, [row("9", "x"), row("10", "y"), row("100", "gone")])
    try made.transaction {
      try made.refresh("t", .start(.asked, .byKey, estimatedRows: 2))
      try made.refresh("t", .chunk(.keys(after: nil, through: part("9", "-"))))
      try made.row("t", row("9", "x2"))
      try made.insert("t", row("11", "new"))
      try made.refresh("t", .chunk(.keys(after: part("9", "-"), through: nil)))
      for (key, text) in [("10", "y2"), ("11", "new")] { try made.row("t", row(key, text)) }
      try made.refresh("t", .end(rows: 3))
    }
    try made.replay()
    #expect(try made.rows("SELECT * FROM t ORDER BY length(n), n") == [["9", "x2"], ["10", "y2"], ["11", "new"]])
  }

  @Test func `the shape follows, and what it was in PostgreSQL with it`() throws {
    let made = try Handmade(TempFolder())
    let schema = table("t", [("id", "integer"), ("a", "text")], key: ["id"])
    try begin(made, schema, [row("1", "x")])
    let wider = table("t", [("id", "integer"), ("a", "text"), ("n", "numeric(5,1)")], key: ["id"])
    try made.transaction {
      try made.reshape("t", wider)
      try made.update("t", to: part("1", "-", "2.5"))
    }
    try made.replay()
    #expect(try made.rows("SELECT * FROM t") == [[1, "x", "2.5"]])
    var moved = wider
    (moved.namespace, moved.name) = ("sales", "orders")
    try made.transaction { try made.reshape("t", moved, as: .rename, to: "sales.orders") }
    try made.replay()
    #expect(try made.rows("SELECT * FROM sales_orders") == [[1, "x", "2.5"]])
    let original = try Database(path: made.target).userTables().first?.schema.original
    #expect(original?.columns.last?.declaredType == "numeric(5,1)")
    #expect(original?.namespace == "sales")
    try made.transaction { try made.drop("sales.orders") }
    try made.replay()
    #expect(try made.rows("SELECT count(*) FROM cairn_origin") == [[0]])
    #expect(try Database(path: made.target).userTables().isEmpty)
  }

  @Test(
    arguments: [
      ("CREATE TABLE t(id INTEGER PRIMARY KEY, n DECIMAL(10,2), d DATETIME, f REAL, b BOOLEAN)", nil),
      ("CREATE TABLE t(id INTEGER PRIMARY KEY, n TEXT, d TEXT, f, b INT)", nil),
      ("CREATE TABLE t(id INTEGER PRIMARY KEY, n TEXT, d TEXT, f TEXT, b INT)", "column f"),
      ("CREATE TABLE t(id INTEGER PRIMARY KEY, n TEXT, d TEXT, f, b TEXT)", "column b"),
      ("CREATE TABLE t(id TEXT PRIMARY KEY, n TEXT, d TEXT, f, b)", "column id"),
    ] as [(String, String?)])
  func `a table that is there must keep the values`(sql: String, word: String?) throws {
    let made = try Handmade(TempFolder())
    try made.run(sql)
    let schema = table(
      "t",
      [
        ("id", "integer"), ("n", "numeric(10,2)"), ("d", "timestamp without time zone"), ("f", "double precision"),
        ("b", "boolean"),
      ], key: ["id"])
    let error = failure { try begin(made, schema, [row("1", "1.10", "2024-01-01 00:00:00", "0.5", "t")]) }
    guard let word else {
      #expect(error == nil)
      #expect(try made.rows("SELECT d, f, b FROM t") == [["2024-01-01 00:00:00", .real(0.5), 1]])
      return
    }
    #expect(error?.code == .schemaStopped)
    #expect(error?.message.contains(word) ?? false, "\(error?.message ?? "")")
  }

  @Test func `sequences and truncation of several tables`() throws {
    let made = try Handmade(TempFolder())
    try begin(made, table("t", [("id", "integer")], key: ["id"]), [row("1")])
    var record = ByteWriter()
    record.append(SequenceState(namespace: "public", name: "t_id_seq", last: 7, increment: 1))
    try made.transaction {
      try made.raw(kind: RecordKind.sequence, Array(record.bytes))
      try made.truncate("t")
      try made.insert("t", row("2"))
    }
    try made.replay()
    #expect(try made.rows("SELECT id FROM t") == [[2]])
  }

  @Test func `side tables of an older version are brought up to date`() throws {
    let made = try Handmade(TempFolder())
    try made.run(
      """
      CREATE TABLE cairn_checkpoint(trail TEXT PRIMARY KEY, trail_id BLOB, segment INTEGER, offset INTEGER,
        chain BLOB, number INTEGER, applied_at INTEGER, version INTEGER) WITHOUT ROWID;
      CREATE TABLE cairn_table(name TEXT PRIMARY KEY COLLATE NOCASE, created INTEGER, refreshing INTEGER,
        existing TEXT) WITHOUT ROWID;
      INSERT INTO cairn_table VALUES ('old', 1, 0, 'overwrite');
      """)
    try begin(made, table("t", [("id", "integer")], key: ["id"]), [row("1")])
    #expect(try made.rows("SELECT name, source FROM cairn_table ORDER BY name") == [["old", ""], ["t", "public.t"]])
  }

  @Test func `more rows than can wait go by each other as they come`() throws {
    let made = try Handmade(TempFolder())
    let schema = table("t", [("id", "integer"), ("place", "integer")], key: ["id"], uniques: [[1]])
    let count = 12_000
    try begin(made, schema, (1...count).map { row(String($0), String($0)) })
    try made.transaction {
      for id in 1...count { try made.update("t", to: part(String(id), String(id + 1))) }
    }
    try made.replay()
    #expect(
      try made.rows("SELECT count(*), min(place), max(place), sum(place - id) FROM t")
        == [[.integer(Int64(count)), 2, .integer(Int64(count + 1)), .integer(Int64(count))]])
  }
}
