import Changes
import Testing

@testable import SQLiteKit

/// The key that identifies a table's rows, and what else is known of the table.
@Suite struct UserTablesTests {
  private func tables(_ sql: String) throws -> [SQLiteTable] {
    let database = try Database(path: ":memory:", mode: .create)
    try database.executeScript(sql)
    return try database.userTables()
  }

  private func table(_ sql: String) throws -> SQLiteTable { try #require(try tables(sql).first) }

  private func key(_ table: SQLiteTable) -> String {
    table.schema.key.map { table.schema.columns[$0].name }.joined(separator: ",")
  }

  @Test(
    arguments: [
      ("CREATE TABLE t(id INTEGER PRIMARY KEY, a UNIQUE)", "id", []),
      ("CREATE TABLE t(a, id INTEGER, PRIMARY KEY(id DESC))", "id", []),
      ("CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT)", "id", .autoincrement),
      ("CREATE TABLE t(id INT PRIMARY KEY)", "id", .nullableKey),
      ("CREATE TABLE t(id INTEGER PRIMARY KEY DESC)", "id", .nullableKey),
      ("CREATE TABLE t(id INT NOT NULL PRIMARY KEY)", "id", []),
      ("CREATE TABLE t(k TEXT PRIMARY KEY)", "k", .nullableKey),
      ("CREATE TABLE t(k TEXT PRIMARY KEY) WITHOUT ROWID", "k", .withoutRowid),
      ("CREATE TABLE t(a, b, c, PRIMARY KEY(c, a)) WITHOUT ROWID", "c,a", .withoutRowid),
      ("CREATE TABLE t(a NOT NULL, b, c, PRIMARY KEY(a, b))", "a,b", .nullableKey),
      ("CREATE TABLE t(a NOT NULL, b NOT NULL, PRIMARY KEY(b, a))", "b,a", []),
      ("CREATE TABLE t(k PRIMARY KEY, u NOT NULL UNIQUE)", "u", []),
      ("CREATE TABLE t(a UNIQUE, b NOT NULL, UNIQUE(b))", "b", []),
      ("CREATE TABLE t(a UNIQUE)", "", .wholeRow), ("CREATE TABLE t(a, b)", "", .wholeRow),
      ("CREATE TABLE t(a NOT NULL); CREATE UNIQUE INDEX i ON t(a) WHERE a > 0", "", .wholeRow),
      ("CREATE TABLE t(a NOT NULL); CREATE UNIQUE INDEX i ON t(lower(a))", "", .wholeRow),
      ("CREATE TABLE t(a NOT NULL); CREATE INDEX i ON t(a)", "", .wholeRow),
      ("CREATE TABLE t(a NOT NULL, b NOT NULL); CREATE UNIQUE INDEX i ON t(b, a)", "b,a", []),
      ("CREATE TABLE t(a, g NOT NULL AS (a + 1) UNIQUE)", "", .wholeRow),
      ("CREATE TABLE t(k INT PRIMARY KEY) STRICT", "k", .strict),
      ("CREATE TABLE t(k ANY PRIMARY KEY) STRICT, WITHOUT ROWID", "k", [.strict, .withoutRowid]),
    ] as [(String, String, TableSchema.Flags)])
  func `the key is chosen`(sql: String, expected: String, flags: TableSchema.Flags) throws {
    let table = try table(sql)
    #expect(key(table) == expected)
    #expect(table.schema.flags == flags)
    #expect(table.refusal == nil)
  }

  @Test func `key columns carry the collation of their index`() throws {
    let plain = try table("CREATE TABLE t(k TEXT COLLATE NOCASE PRIMARY KEY) WITHOUT ROWID")
    #expect(plain.schema.columns[0].collation == "NOCASE")
    let other = try table("CREATE TABLE t(k TEXT NOT NULL COLLATE NOCASE); CREATE UNIQUE INDEX i ON t(k COLLATE RTRIM)")
    #expect(key(other) == "k" && other.schema.columns[0].collation == "RTRIM")
    #expect(try table("CREATE TABLE t(id INTEGER PRIMARY KEY)").schema.columns[0].collation == "BINARY")
  }

  @Test func `unique keys come with collation, expression and predicate`() throws {
    let table = try table(
      "CREATE TABLE t(id INTEGER PRIMARY KEY, a, b TEXT COLLATE NOCASE, g AS (a + 1), UNIQUE(b)); CREATE UNIQUE INDEX i ON t(lower(a) DESC, b COLLATE BINARY, g) WHERE a IS NOT NULL; CREATE INDEX n ON t(a)"
    )
    #expect(table.uniqueKeys.count == 2)
    let index = try #require(table.uniqueKeys.first { $0.predicate != nil })
    #expect(index.predicate == "a IS NOT NULL")
    #expect(index.terms.map(\.text) == ["lower(a)", "\"b\"", "\"g\""])
    #expect(index.terms.map(\.collation) == ["BINARY", "BINARY", "BINARY"])
    #expect(index.terms.map(\.column) == [nil, 2, nil])
    let unique = try #require(table.uniqueKeys.first { $0.predicate == nil })
    #expect(unique.terms == [.init(text: "\"b\"", collation: "NOCASE", column: 2)])
    #expect(table.schema.uniques == [[2]])
    #expect(table.schema.objects.map(\.name) == ["i", "n"])
    #expect(table.generated == ["g"] && table.schema.columns.map(\.name) == ["id", "a", "b"])
  }

  @Test(
    arguments: [
      ("CREATE TABLE t(a)", "rowid", nil), ("CREATE TABLE t(rowid, a)", "_rowid_", nil),
      ("CREATE TABLE t(ROWID, _RowId_)", "oid", nil),
      ("CREATE TABLE t(rowid, _rowid_, oid, k PRIMARY KEY)", nil, nil),
      ("CREATE TABLE t(a, rowid AS (a), k NOT NULL UNIQUE)", "_rowid_", nil),
      ("CREATE TABLE t(rowid INTEGER PRIMARY KEY, _rowid_, oid)", nil, 0),
      ("CREATE TABLE t(a, id INTEGER PRIMARY KEY)", "rowid", 1),
      ("CREATE TABLE t(k PRIMARY KEY) WITHOUT ROWID", nil, nil),
    ] as [(String, String?, Int?)])
  func `a name that reaches the rowid is found`(sql: String, name: String?, column: Int?) throws {
    let table = try table(sql)
    #expect(table.rowidName == name)
    #expect(table.rowidColumn == column)
  }

  @Test func `columns, defaults and foreign keys are read as they are`() throws {
    let table = try #require(
      try tables(
        "CREATE TABLE p(x PRIMARY KEY, y, UNIQUE(x, y)); CREATE TABLE t(a VARCHAR(20) NOT NULL DEFAULT 'it''s', b DECIMAL(10,2) DEFAULT (1 + 1), c, d REFERENCES p ON DELETE CASCADE, FOREIGN KEY(b, c) REFERENCES p(x, y) ON UPDATE SET NULL)"
      ).last)
    #expect(table.schema.columns.map(\.declaredType) == ["VARCHAR(20)", "DECIMAL(10,2)", "", ""])
    #expect(table.schema.columns.map(\.defaultText) == ["'it''s'", "1 + 1", nil, nil])
    #expect(table.schema.columns.map(\.isNotNull) == [true, false, false, false])
    let keys = table.schema.foreignKeys
    #expect(keys.count == 2)
    #expect(keys.contains(.init(columns: [3], table: "p", references: [], onUpdate: "NO ACTION", onDelete: "CASCADE")))
    #expect(
      keys.contains(
        .init(columns: [1, 2], table: "p", references: ["x", "y"], onUpdate: "SET NULL", onDelete: "NO ACTION")))
  }

  @Test func `the program's own tables are listed in the order in which they were made, some with a refusal`() throws {
    let found = try tables(
      """
      CREATE TABLE b(id INTEGER PRIMARY KEY AUTOINCREMENT); CREATE TABLE cairn_journal(x); CREATE TABLE CAIRN_Other(x); CREATE TABLE cairnx(x);
      CREATE VIEW v AS SELECT 1; CREATE VIRTUAL TABLE ft USING fts5(x); CREATE VIRTUAL TABLE r USING rtree(i, lo, hi); CREATE TABLE a(x); ANALYZE;
      CREATE TEMP TABLE gone(x)
      """)
    #expect(found.map(\.name) == ["b", "CAIRN_Other", "cairnx", "ft", "r", "a"])
    #expect(found.filter { $0.refusal != nil }.map(\.name) == ["CAIRN_Other", "ft", "r"])
  }

  @Test(arguments: [
    ("CREATE TABLE t(\((0..<1901).map { "c\($0)" }.joined(separator: ",")))", "1900"),
    ("CREATE TABLE t(rowid, _rowid_, oid)", "hide"),
    ("CREATE TABLE t(a, oid AS (a))", "generated"),
    ("CREATE TABLE \"cairn_\u{301}x\"(x)", "reserved"),
  ])
  func `tables that cannot be captured say why`(sql: String, word: String) throws {
    #expect(try #require(try table(sql).refusal).contains(word))
  }

  @Test func `shapes of other engines' tables in a file share one bound of memory`() {
    var writer = ByteWriter()
    writer.append(TableSchema(epoch: 0, engine: .postgres, name: "t", columns: [.init(name: "a", declaredType: "")]))
    let shape = Value.blob(Array(writer.bytes))
    let rows = ["a", "b", "c"].map { [Value.text($0), shape] }
    let bytes = OriginalShapes.read(rows).values.first?.memoryBytes ?? 0
    #expect(bytes > 1000 && OriginalShapes.read(rows, room: 3 * bytes).count == 3)
    #expect(OriginalShapes.read(rows, room: 3 * bytes - 1).count == 2)
  }
}
