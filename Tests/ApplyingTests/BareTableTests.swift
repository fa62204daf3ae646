import Applying
import Changes
import SQLiteKit
import TestServers
import Testing

/// Tables without columns, and tables without their statement, in a trail of another node.
@Suite struct BareTableTests {
  private static func bare(_ engine: Engine) -> TableSchema {
    TableSchema(
      epoch: 1, engine: engine, namespace: engine == .postgres ? "public" : "", name: "bare",
      flags: .wholeRow, columns: [])
  }

  /// Writes rows of a table without columns, between those of another one.
  private func write(_ trail: Handmade, _ rows: [[Value]]) throws {
    trail.shape(Self.bare(.sqlite))
    try trail.transaction {
      try trail.create("t")
      try trail.copy("t", [rows[0]])
    }
    try trail.transaction { try trail.insert("bare", []) }
    try trail.transaction { try trail.delete("bare", []) }
    try trail.transaction { try trail.insert("t", rows[1]) }
  }

  @Test func `a table without columns waits in SQLite, and the others go on`() throws {
    let made = try Handmade(TempFolder())
    try made.run("CREATE TABLE bare(a)")
    try made.shape("CREATE TABLE t(id INTEGER PRIMARY KEY, a)")
    try write(made, [[1, "one"], [2, "two"]])
    let error = failure { try made.replay() }
    #expect(error?.message.contains("no columns") == true, "\(String(describing: error))")
    #expect(try made.rows("SELECT id, a FROM t ORDER BY id") == [[1, "one"], [2, "two"]])
  }

  @Test func `a reshape to no columns, or without a statement, ends no apply`() throws {
    let made = try Handmade(TempFolder())
    try made.begin("CREATE TABLE t(id INTEGER PRIMARY KEY, a)", "t", [[1, "one"]])
    try made.begin("CREATE TABLE u(id INTEGER PRIMARY KEY, a)", "u", [[1, "one"]])
    var told = try #require(made.latest("u"))
    told.createText = ""
    told.columns[1].declaredType = "INTEGER"
    var bare = try #require(made.latest("t"))
    (bare.createText, bare.columns, bare.flags) = ("", [], .wholeRow)
    try made.transaction { try made.reshape("u", told) }
    try made.transaction { try made.reshape("t", bare) }
    try made.transaction { try made.insert("u", [2, 2]) }
    let error = failure { try made.replay() }
    #expect(error?.message.contains("no columns") == true, "\(String(describing: error))")
    #expect(try made.rows("SELECT id, a FROM u ORDER BY id") == [[1, "one"], [2, 2]])
    #expect(try made.rows("SELECT id, a FROM t") == [[1, "one"]])
  }

  @Test(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
  func `a table without columns waits in PostgreSQL, and the others go on`() throws {
    let made = try PostgresTarget()
    try made.psql("CREATE TABLE bare()")
    try made.trail.shape("CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT)")
    try write(made.trail, [[1, "one"], [2, "two"]])
    let error = failure { try made.replay() }
    #expect(error?.message.contains("no columns") == true, "\(String(describing: error))")
    #expect(try made.psql("SELECT id, a FROM t ORDER BY id") == "1|one\n2|two")
  }
}
