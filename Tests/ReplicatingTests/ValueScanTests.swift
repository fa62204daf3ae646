import Changes
import Mapping
import SQLiteKit
import SystemKit
import Testing

@testable import Replicating

@Suite struct ValueScanTests {
  private func scan(
    _ sql: String, created: Bool = true, rows: Int = 1000, milliseconds: Int64 = 60_000
  ) throws -> ValueScan.Outcome {
    let database = try Database(path: ":memory:", mode: .create)
    try database.executeScript(sql)
    let table = try #require(try database.userTables().first)
    let mapping = try TableMapping(table.schema, to: .postgres, names: .fold)
    return try ValueScan(mapping, in: database, created: created).run(
      .init(rows: rows, deadline: Clock.monotonicMilliseconds + milliseconds))
  }

  @Test func `values that fit are none of its business`() throws {
    let outcome = try scan(
      """
      CREATE TABLE t(id INTEGER PRIMARY KEY, n INTEGER, r REAL, d DATE, note TEXT, any);
      INSERT INTO t VALUES (1, 2, 1.5, '2024-05-31', 'tea', x'00'), (2, NULL, NULL, NULL, NULL, NULL)
      """)
    #expect(outcome.rows == 2 && outcome.isWhole)
    #expect(outcome.findings.map(\.column).filter { $0 != "any" } == [])
  }

  @Test func `each kind of value that does not fit is found, with its first row and the settings that take it`() throws
  {
    let outcome = try scan(
      """
      CREATE TABLE t(id INTEGER PRIMARY KEY, n INTEGER NOT NULL, s DECIMAL(4, 2), d DATE, note TEXT, bad TEXT, b TEXT);
      INSERT INTO t VALUES (1, 1, 1, '2024-05-31', 'tea', 'tea', 'tea');
      INSERT INTO t VALUES (2, 'n/a', 40000.5, '2024-02-30', 'a' || char(0) || 'b', CAST(x'ff' AS TEXT), x'01');
      INSERT INTO t VALUES (3, 'none', 1, '2024-05-31', 'tea', 'tea', 'tea')
      """)
    #expect(outcome.findings.map(\.column) == ["n", "s", "d", "note", "bad", "b"])
    #expect(outcome.findings.map(\.rows) == [2, 1, 1, 1, 1, 1])
    #expect(outcome.findings.allSatisfy { $0.key == "id=2" })
    let found = Dictionary(uniqueKeysWithValues: outcome.findings.map { ($0.column.nameKey, $0) })
    #expect(found["n".nameKey]?.value == "'n/a'" && found["n".nameKey]?.reason == "it is not an integer")
    #expect(found["s".nameKey]?.reason.contains("more digits than") == true)
    #expect(found["d".nameKey]?.reason.contains("not a date") == true)
    #expect(found["note".nameKey]?.reason == "it holds the character NUL")
    #expect(found["bad".nameKey]?.reason == "it is not valid UTF-8")
    #expect(found["b".nameKey]?.reason == "it is a blob")
    // A column that is NOT NULL takes no NULL, and text stays text.
    #expect(found["n".nameKey]?.policies == [.widen] && found["s".nameKey]?.policies == [.null, .widen])
    #expect(found["note".nameKey]?.policies == [.null])
  }

  @Test func `a key takes no policy, and a table that is there is not widened`() throws {
    let sql =
      "CREATE TABLE t(id DATE PRIMARY KEY, n INTEGER) WITHOUT ROWID; INSERT INTO t VALUES ('tomorrow', 'n/a')"
    #expect(try scan(sql).findings.map(\.policies) == [[], [.null, .widen]])
    #expect(try scan(sql, created: false).findings.map(\.policies) == [[], [.null]])
  }

  @Test func `a column with a blob is not widened`() throws {
    let sql =
      "CREATE TABLE t(id INTEGER PRIMARY KEY, n INTEGER); INSERT INTO t VALUES (1, 'n/a'), (2, x'01'), (3, 'none')"
    #expect(try scan(sql, rows: 1).findings.map(\.policies) == [[.null, .widen]])
    #expect(try scan(sql).findings.map(\.policies) == [[.null]])
  }

  @Test func `rows and time are bounded, and it says how much it read`() throws {
    let sql = """
      CREATE TABLE t(id INTEGER PRIMARY KEY, n INTEGER);
      WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 100)
        INSERT INTO t SELECT i, CASE WHEN i > 50 THEN 'n/a' ELSE i END FROM c
      """
    let part = try scan(sql, rows: 60)
    #expect(part.rows == 60 && !part.isWhole && part.findings.first?.rows == 10)
    let exact = try scan(sql, rows: 100)
    #expect(exact.rows == 100 && exact.isWhole && exact.findings.first?.rows == 50)
    let none = try scan(sql, milliseconds: -1)
    #expect(none.rows == 0 && !none.isWhole && none.findings == [])
  }
}
