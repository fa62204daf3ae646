import Changes
import SQLiteKit
import TestServers
import Testing

/// Statements are taken apart as SQLite's own tokenizer would.
@Suite struct SQLTextTests {
  @Test(
    arguments: [
      ("CREATE INDEX i ON t(a)", ["a"], nil), ("CREATE UNIQUE INDEX i ON t(a, b DESC,c ASC)", ["a", "b", "c"], nil),
      ("CREATE INDEX i ON t (lower(a), b || ',' || c)", ["lower(a)", "b || ',' || c"], nil),
      ("CREATE INDEX i ON t(a COLLATE NOCASE DESC)", ["a COLLATE NOCASE"], nil),
      ("CREATE INDEX i ON t(a) WHERE b > 0", ["a"], "b > 0"),
      ("CREATE INDEX i ON t((a + 1)) WHERE (b) IN (1, 2)", ["(a + 1)"], "(b) IN (1, 2)"),
      ("create index i on t(a)where b is not null", ["a"], "b is not null"),
      ("CREATE INDEX \"on (x, y\" ON t(a)", ["a"], nil),
      ("CREATE INDEX [where (] ON `t (`(\"a,b)\", 'c')", ["\"a,b)\"", "'c'"], nil),
      ("CREATE INDEX i ON t(a /* ) , ( */, b -- ) ,\n, c)", ["a", "b", "c"], nil),
      (
        "CREATE INDEX i ON t(substr(a, 1, instr(a, ')')), 'it''s' || b)",
        ["substr(a, 1, instr(a, ')'))", "'it''s' || b"], nil
      ),
      ("CREATE INDEX IF NOT EXISTS main.i ON t(\"desc\" DESC, \"x\"\"y\")", ["\"desc\"", "\"x\"\"y\""], nil),
      ("CREATE INDEX i ON t(a) WHERE b = 'x' -- the end", ["a"], "b = 'x'"),
      ("CREATE INDEX ключ ON море(соль) WHERE соль > 0", ["соль"], "соль > 0"),
    ] as [(String, [String], String?)])
  func `an index is taken apart`(sql: String, terms: [String], predicate: String?) throws {
    let database = try Database(path: ":memory:", mode: .create)
    // The text that SQLite itself keeps of the statement is taken apart.
    try database.executeScript(
      "CREATE TABLE t(a, b, c, \"desc\", \"x\"\"y\", \"a,b)\"); CREATE TABLE \"t (\"(\"a,b)\", c); CREATE TABLE море(соль)"
    )
    try database.executeScript(sql)
    let parts = try #require(SQLText.indexParts(sql))
    #expect(parts.terms == terms)
    #expect(parts.predicate == predicate)
  }

  @Test(arguments: [
    "", "CREATE INDEX", "CREATE INDEX i ON t", "CREATE INDEX i ON t(", "CREATE INDEX i ON t(a",
    "CREATE INDEX i ON t(a,)", "CREATE INDEX i ON t(a) b",
  ])
  func `a text that is no index is refused`(sql: String) { #expect(SQLText.indexParts(sql) == nil) }

  @Test func `tokens keep their places, and open quotes and comments end with the text`() {
    #expect(SQLText.tokens(Array("a 'b".utf8)).map(\.range) == [0..<1, 2..<4])
    #expect(SQLText.tokens(Array("x /* y".utf8)).map(\.word) == ["X"])
    #expect(SQLText.tokens(Array("/*/ x */ y".utf8)).map(\.word) == ["Y"])
    #expect(SQLText.tokens(Array("/**/z".utf8)).map(\.word) == ["Z"])
    #expect(SQLText.tokens(Array("a--b\nc".utf8)).map(\.word) == ["A", "C"])
    #expect(SQLText.tokens(Array("a-b/c".utf8)).map(\.word) == ["A", "", "B", "", "C"])
    #expect(SQLText.tokens([]).isEmpty)
  }

  @Test(arguments: ["plain", "with \"quotes\"", "\"", "it's", "", "two words"])
  func `quoted names and texts are read back by SQLite`(text: String) throws {
    let database = try Database(path: ":memory:", mode: .create)
    #expect(try database.text("SELECT \(text.quotedText)") == text)
    try database.execute("CREATE TABLE t(\(text.quotedName))")
    #expect(try database.text("SELECT name FROM pragma_table_info('t')") == text)
  }
}

/// SQLite reads back what is quoted, whatever is beside the quotes. (C1 of the threat model.)
@Suite struct QuotingTests {
  @Test func `SQLite reads literals and names back`() throws {
    let database = try Database(path: ":memory:", mode: .create)
    let seed = UInt64.random(in: .min ... .max)
    var random = Seeded(seed)
    for scalar in HostileText.scalars {
      var texts = [random.hostileText(upTo: 10)]
      for quote in ["'", "\"", "\\"] as [Unicode.Scalar] {
        texts += [HostileText.string([scalar, quote, random.hostileScalar()])]
        texts += [HostileText.string([random.hostileScalar(), quote, scalar, quote])]
      }
      for text in texts {
        let statement = try database.prepare("SELECT \(text.quotedText) AS \(text.quotedName)")
        #expect(!statement.hasMore, "seed \(seed)")
        #expect(statement.columnName(0).utf8.elementsEqual(text.utf8), "seed \(seed)")
        #expect(try statement.step())
        #expect(statement.value(0) == .text(Array(text.utf8)), "seed \(seed)")
      }
    }
  }

  @Test func `one call runs one statement`() throws {
    let database = try Database(path: ":memory:", mode: .create)
    try database.execute("CREATE TABLE canary(v)")
    for run in [
      { try database.execute("SELECT 1; DROP TABLE canary") }, { try database.run("SELECT 1; DROP TABLE canary") },
      { _ = try database.query("SELECT 1; DROP TABLE canary") },
      { try database.execute("DELETE FROM canary; ATTACH ':memory:' AS other") },
      { try database.execute("SELECT 1 \0 rubbish") },
    ] as [() throws -> Void] {
      #expect(throws: SQLiteError.self) { try run() }
    }
    try database.execute("SELECT 1; -- a comment behind it ;")
    #expect(try database.integer("SELECT count(*) FROM sqlite_master") == 1)
    #expect(try database.integer("SELECT count(*) FROM pragma_database_list") == 1)
  }

  @Test func `tables and columns that Swift takes for one are refused, each with the name of the other`() throws {
    let database = try Database(path: ":memory:", mode: .create)
    let names = ["caf\u{e9}", "cafe\u{301}"]
    for name in names { try database.execute("CREATE TABLE \(name.quotedName)(id)") }
    try database.execute("CREATE TABLE columns(\"\u{e9}\", \"e\u{301}\")")
    let tables = try database.userTables()
    #expect(tables.count == 3)
    for (index, other) in [(0, names[1]), (1, names[0]), (2, "e\u{301}")] {
      #expect(Array((tables[index].refusal ?? "").utf8).contains(Array(other.utf8)))
    }
  }
}
