import SQLiteKit
import Testing

/// Tables of a captured file whose names no target takes.
@Suite struct ReservedNameTests {
  @Test func `a table with a reserved name, or with none, is refused, and the others are not`() throws {
    let database = try Database(path: ":memory:", mode: .create)
    try database.executeScript(
      """
      CREATE TABLE ""(id INTEGER PRIMARY KEY); CREATE TABLE cairn_x(id INTEGER PRIMARY KEY);
      CREATE TABLE "Cairn_\u{301}"(id INTEGER PRIMARY KEY); CREATE TABLE item(id INTEGER PRIMARY KEY);
      CREATE TABLE pg_item(id INTEGER PRIMARY KEY); CREATE TABLE moved(id INTEGER PRIMARY KEY);
      ALTER TABLE moved RENAME TO CAIRN_moved
      """)
    let tables = try database.userTables()
    #expect(tables.filter { $0.refusal == nil }.map(\.name) == ["item", "pg_item"])
    #expect(tables.count == 6)
  }
}
