import Changes
import Foundation
import Mapping
import SQLiteKit
import TestServers
import Testing
@testable import Applying

/// Names that only look alike: Swift takes some of them for one, the databases take them for two.
@Suite struct LookAlikeTests {
  @Test(arguments: [("caf\u{e9}", "cafe\u{301}"), ("k", "\u{212a}"), ("\u{c9}t", "\u{e9}t")])
  func `a trail does not write a table that looks like a listed one`(_ names: (listed: String, other: String)) throws {
    for kind in TargetScopeTests.Kind.allCases {
      let made = try Handmade(TempFolder())
      try made.run("CREATE TABLE \(names.other.quotedName)(id INTEGER PRIMARY KEY, v TEXT)")
      try made.run("INSERT INTO \(names.other.quotedName) VALUES (1, 'whole')")
      made.options.scope = TargetScope([names.listed, "item"])
      try made.begin("CREATE TABLE item(id INTEGER PRIMARY KEY, v TEXT)", "item", [[1, "x"]])
      try TargetScopeTests.attack(made, TargetScopeTests.schema("", names.other, .sqlite), kind)
      try made.replay()
      #expect(try made.rows("SELECT * FROM \(names.other.quotedName)") == [[1, "whole"]], "\(kind)")
    }
    let target = try PostgresTarget()
    let other = names.other.quotedName
    try target.psql("CREATE TABLE \(other)(id int PRIMARY KEY, v text); INSERT INTO \(other) VALUES (1, 'whole')")
    target.options.scope = TargetScope([names.listed])
    for kind in TargetScopeTests.Kind.allCases {
      let evil = try Handmade(TempFolder(), name: .init(origin: "evil", name: "n\(kind)"))
      try TargetScopeTests.attack(evil, TargetScopeTests.schema("public", names.other), kind)
      try target.replay(evil, target.options)
      #expect(try target.psql("SELECT * FROM \(other)") == "1|whole", "\(kind)")
    }
  }

  @Test(arguments: [("caf\u{e9}", "cafe\u{301}"), ("k", "\u{212a}")])
  func `two tables of a trail that look alike stay two at a target`(_ names: (String, String)) throws {
    let (a, b) = (names.0.quotedName, names.1.quotedName)
    let target = try PostgresTarget()
    let made = target.trail
    (made.options.ddl, target.options.ddl) = (.follow, .follow)
    func check(_ first: String, _ second: String) throws {
      try made.replay()
      try target.replay()
      for (table, rows) in [(a, first), (b, second)] {
        let query = "SELECT id || ' ' || v FROM \(table) ORDER BY id"
        #expect(try target.psql(query) == rows)
        #expect(try made.rows(query).map(\.[0].string).joined(separator: "\n") == rows)
      }
    }
    try target.begin("CREATE TABLE \(a)(id INTEGER PRIMARY KEY, v TEXT)", names.0, [[1, "one"], [2, "two"]])
    try target.begin("CREATE TABLE \(b)(id INTEGER PRIMARY KEY, v TEXT)", names.1, [[1, "eins"], [3, "drei"]])
    try made.transaction {
      try made.update(names.0, [1, "one"], [1, "uno"])
      try made.delete(names.1, [3, "drei"])
    }
    try check("1 uno\n2 two", "1 eins")
    // A change of the one leaves the other alone.
    try made.transaction {
      try made.reshape(names.1, "CREATE TABLE \(b)(id INTEGER PRIMARY KEY, v TEXT, n INTEGER)")
      try made.insert(names.1, [4, "vier", 4])
      try made.insert(names.0, [4, "four"])
    }
    try made.transaction { try made.copy(names.0, [[7, "seven"]], reason: .asked) }
    try check("7 seven", "1 eins\n4 vier")
    try made.transaction { try made.drop(names.0) }
    try made.replay()
    try target.replay()
    #expect(try target.psql("SELECT to_regclass('\(a)') IS NULL, count(*) FROM \(b)") == "t|2")
    #expect(try made.rows("SELECT count(*) FROM \(b)") == [[2]])
  }

  @Test(
    .enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"),
    arguments: [("caf\u{e9}", "cafe\u{301}"), ("K", "\u{212a}")])
  func `the script of a listed table reaches no table that looks like it`(_ names: (listed: String, other: String))
    throws
  {
    let target = try PostgresTarget()
    let other = names.other.quotedName
    target.options.scope = TargetScope([names.listed])
    try target.psql("CREATE TABLE \(other)(id int PRIMARY KEY, v text); INSERT INTO \(other) VALUES (1, 'whole')")
    var schema = TargetScopeTests.schema("public", names.listed)
    schema.createText = """
      CREATE TABLE IF NOT EXISTS public.\(other) (id integer NOT NULL, v text, CONSTRAINT mine PRIMARY KEY (id)); \
      ALTER TABLE public.\(other) REPLICA IDENTITY FULL; ALTER TABLE public.\(other) ALTER COLUMN v SET STATISTICS 9
      """
    schema.objects = [.init(name: "i", text: "CREATE INDEX i ON public.\(other) USING btree (v)")]
    target.trail.shape(schema)
    try target.trail.transaction {
      try target.trail.create(names.listed)
      try target.trail.insert(names.listed, [.exact("2"), .exact("new")])
    }
    try target.replay()
    let look = "FROM pg_class WHERE oid = '\(other)'::regclass"
    #expect(try target.psql("SELECT relreplident, relhasindex \(look)") == "d|t")
    #expect(try target.psql("SELECT count(*) FROM pg_index WHERE indrelid = '\(other)'::regclass") == "1")
    #expect(try target.psql("SELECT * FROM \(other)") == "1|whole")
    #expect(try target.psql("SELECT * FROM \(names.listed.quotedName)") == "2|new")
  }

  @Test(
    .enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"),
    arguments: [("caf\u{e9}", "cafe\u{301}"), ("K", "\u{212a}")])
  func `a unique key over a column that looks like the key is none`(_ names: (key: String, other: String)) throws {
    let target = try PostgresTarget()
    let (key, other) = (names.key.quotedName, names.other.quotedName)
    target.options.names = .keep
    try target.psql("CREATE TABLE t(\(other) int UNIQUE, \(key) int NOT NULL)")
    let error = failure { try target.begin("CREATE TABLE t(\(key) INTEGER PRIMARY KEY)", "t", [[1]]) }
    #expect(error?.message.contains("it has no unique key over \(names.key)") == true, "\(String(describing: error))")
    try target.psql("ALTER TABLE t ADD UNIQUE (\(key))")
    try target.replay()
    #expect(try target.psql("SELECT * FROM t") == "|1")
  }

  @Test(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
  func `two rows that are parked stay two if their keys look alike`() throws {
    let target = try PostgresTarget()
    let made = target.trail
    let (a, b) = ("caf\u{e9}", "cafe\u{301}")
    let rows: [[Value]] = [[.text(a), 1, 0], [.text(b), 2, 0], ["x", 3, 0], ["y", 4, 0]]
    try target.begin("CREATE TABLE t(id TEXT PRIMARY KEY, v INTEGER UNIQUE, w INTEGER)", "t", rows)
    // Two pairs of rows swap their values, and a row that is parked changes again.
    try made.transaction {
      try made.update("t", [.text(a), 1, 0], [.text(a), 3, 0])
      try made.update("t", [.text(b), 2, 0], [.text(b), 4, 0])
      try made.update("t", [.text(a), 3, 0], [.text(a), 3, 7])
      try made.update("t", ["x", 3, 0], ["x", 1, 0])
      try made.update("t", ["y", 4, 0], ["y", 2, 0])
    }
    try target.replay()
    let query = "SELECT id || ' ' || v || ' ' || w FROM t ORDER BY v"
    #expect(try target.psql(query).utf8.elementsEqual("x 1 0\ny 2 0\n\(a) 3 7\n\(b) 4 0".utf8))
  }

  @Test func `a name that holds Cairn's separator is no name that Cairn composed`() {
    #expect(SQLiteTables.wanted("item\u{1e}public.^Item") == "item\u{1e}public.^Item")
    #expect(SQLiteTables.wanted("Item\u{1e}public.^Item") == "Item")
    #expect(SQLiteTables.wanted("sales_item\u{1e}sales.item") == "sales_item")
    #expect(SQLiteTables.wanted("a.b_item\u{1e}a.b.item") == "a.b_item")
    // Tables of their own.
    for name in ["a\u{1e}b", "\u{1e}", "a\u{1e}", "a\u{1e}a", "a\u{1e}sales.b", "plain"] {
      #expect(SQLiteTables.wanted(name) == name)
    }
    #expect(SQLiteTables.wanted("a\u{1e}b\u{1e}public.a\u{1e}b") == "a\u{1e}b")
  }

  @Test func `a table that waits keeps its names, whatever they hold`() throws {
    let names = ["a\u{1f}b", "c\u{10}", "\u{1f}"]
    let place = Checkpoint(trail: try #require(TrailID(Array(repeating: 1, count: 16))), position: .start, chain: .zero)
    let waiting = SQLiteApplyState.Waiting(
      table: WaitingTable(name: "t", checkpoint: place, number: 1, code: .schemaStopped, message: "", hint: ""),
      names: names)
    #expect(try SQLiteApplyState.Waiting("t", waiting.values)?.names == names)
  }
}
