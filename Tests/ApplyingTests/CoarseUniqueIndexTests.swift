import Changes
import SQLiteKit
import SystemKit
import TestServers
import Testing
@testable import Applying

/// Unique indexes that are not just over columns: the values that they may keep apart hold back transactions after one
/// that is put aside.
@Suite struct CoarseUniqueIndexTests {
  private func all(_ sql: String) throws -> [CoarseUniqueIndex] {
    let database = try Database(path: ":memory:", mode: .create)
    try database.executeScript(sql)
    return try CoarseUniqueIndex.all(of: #require(database.userTables().first).schema)
  }

  @Test func `an index keeps rows apart by the columns whose values are known`() throws {
    let table = "CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT, code INTEGER UNIQUE, gone INTEGER);"
    #expect(try all(table + "CREATE UNIQUE INDEX u ON t(name, gone); CREATE INDEX i ON t(lower(name))").isEmpty)
    let expression = try all(table + "CREATE UNIQUE INDEX u ON t(lower(name), code)")
    #expect(expression.map { $0.terms.map(\.column) } == [[2]])
    #expect(expression.map(\.concerned) == [[1, 2]])
    let part = try all(table + "CREATE UNIQUE INDEX u ON t(code) WHERE gone = 0")
    #expect(part.map { $0.terms.map(\.column) } == [[2]] && part.map(\.concerned) == [[2, 3]])
    let collated = try all(table + "CREATE UNIQUE INDEX u ON t(name COLLATE NOCASE)")
    #expect(collated.map(\.terms) == [[.init(column: 1, fold: .letterCase)]])
    // One key within CREATE TABLE has it: which, the schema does not say.
    let keyed = try all("CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, UNIQUE (a COLLATE RTRIM))")
    #expect(keyed.contains { $0.terms == [.init(column: 1, fold: .blanksAtEnd)] })
    let computed = try all(
      "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, b, low AS (lower(a))); CREATE UNIQUE INDEX u ON t(low)")
    #expect(computed.map(\.concerned) == [[0, 1, 2]])
  }

  @Test func `in PostgreSQL it hangs on types and collations too`() {
    func all(_ columns: [TableSchema.Column], _ index: String) -> [CoarseUniqueIndex] {
      var schema = TableSchema(
        epoch: 1, engine: .postgres, namespace: "public", name: "t",
        columns: [.init(name: "id", declaredType: "bigint", isNotNull: true, keyOrdinal: 1)] + columns)
      schema.objects = [.init(name: "u", text: index)]
      schema.uniques = [[1]]
      return CoarseUniqueIndex.all(of: schema)
    }
    let text = TableSchema.Column(name: "a", declaredType: "text")
    #expect(all([text], "CREATE UNIQUE INDEX u ON public.t USING btree (a)").isEmpty)
    let lower = all([text], "CREATE UNIQUE INDEX u ON public.t USING btree (lower(a), id) NULLS NOT DISTINCT")
    #expect(lower.map(\.terms) == [[]] && lower.map(\.concerned) == [[0, 1]])
    let foreign = TableSchema.Column(name: "a", declaredType: "text", collation: "public.\"any case\"")
    #expect(all([foreign], "").map(\.terms) == [[]])
    let free = TableSchema.Column(name: "a", declaredType: "citext", baseType: "")
    #expect(all([free], "").map { $0.values([.integer(1), .exact(Array("Ab".utf8))])?.count } == [1])
  }

  @Test(arguments: zip(["lower(name)", "name COLLATE NOCASE", "name) WHERE (a > -9"], ["a", "a", "A"]))
  func `a row that takes a value freed by one put aside waits for it`(index: String, value: String) throws {
    let table = "CREATE TABLE t(id INTEGER PRIMARY KEY, name, a); CREATE UNIQUE INDEX u ON t(\(index))"
    let made = try Handmade(TempFolder())
    try made.run(table.replacing(" a);", with: " a CHECK (a >= 0));"))
    try made.begin(table, "t", [[1, "A", 1], [2, "B", 2]])
    made.options.quarantines = true
    try made.transaction { try made.update("t", [1, "A", 1], [nil, "C", -1]) }
    try made.transaction { try made.insert("t", [4, .text(Array(value.utf8)), 4]) }
    try made.transaction { try made.update("t", [2, "B", 2], [nil, nil, 3]) }
    try made.replay()
    let kept = try QuarantineLog(Database(path: made.target)).list()
    #expect(kept.map(\.number) == [2, 3] && kept.map(\.heldBy) == [nil, 1])
    #expect(kept.map(\.code) == ["constraint-failed", "quarantine-held"])
    #expect(try made.rows("SELECT id, a FROM t") == [[1, 1], [2, 3]])
  }
}
