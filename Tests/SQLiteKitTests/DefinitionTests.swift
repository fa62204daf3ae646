import Foundation
import SQLiteKit
import Testing

/// The second lock for DDL that Cairn builds: one statement, one table, one file.
@Suite struct DefinitionTests {
  private func made() throws -> Database {
    let database = try Database(path: ":memory:", mode: .create)
    try database.executeScript("CREATE TABLE t(a); CREATE TABLE other(x); INSERT INTO other VALUES (1)")
    return database
  }

  @Test(arguments: [
    "CREATE TABLE fresh(a INTEGER PRIMARY KEY AUTOINCREMENT, b UNIQUE, c AS (lower(b)), CHECK (b > 0))",
    "CREATE INDEX i ON t(lower(a)) WHERE a > 1", "ALTER TABLE t RENAME TO fresh",
    "ALTER TABLE t ADD COLUMN b NOT NULL DEFAULT 1 CHECK (b > 0)", "ALTER TABLE t RENAME COLUMN a TO z", "DROP TABLE t",
    "INSERT INTO t SELECT a FROM t", "CREATE TRIGGER g AFTER INSERT ON t BEGIN DELETE FROM t; END",
  ])
  func `a statement that a table needs is allowed`(statement: String) throws {
    let database = try made()
    try database.define(statement, tables: ["T", "fresh"])
    #expect(try database.query("SELECT x FROM other") == [[.integer(1)]])
  }

  @Test func `a column is dropped`() throws {
    let database = try made()
    try database.execute("ALTER TABLE t ADD COLUMN b")
    try database.define("ALTER TABLE t DROP COLUMN b", tables: ["t"])
  }

  @Test(arguments: [
    "DROP TABLE other", "CREATE TABLE fresh(a)", "CREATE INDEX i ON other(x)", "DELETE FROM other",
    "INSERT INTO t SELECT x FROM other", "CREATE TABLE t2 AS SELECT * FROM other", "ATTACH ':memory:' AS evil",
    "PRAGMA writable_schema = ON", "PRAGMA cache_size = -100000000",
    "CREATE VIRTUAL TABLE t3 USING fts5(a)", "CREATE VIEW v AS SELECT 1",
    "CREATE TEMP TABLE t(a)", "ALTER TABLE other RENAME TO t", "DETACH main", "ANALYZE", "BEGIN", "SAVEPOINT s",
    "CREATE TRIGGER g AFTER INSERT ON other BEGIN SELECT 1; END", "SELECT load_extension('x')",
    "CREATE INDEX i ON t(a); DROP TABLE other", "CREATE TABLE t(a); --\n DROP TABLE other", "",
  ])
  func `everything else is refused`(statement: String) throws {
    let database = try made()
    #expect(throws: SQLiteError.self) { try database.define(statement, tables: ["t"]) }
    #expect(try database.query("SELECT x FROM other") == [[.integer(1)]])
    #expect(try database.query("SELECT count(*) FROM sqlite_master") == [[.integer(2)]])
    // The lock is off again.
    try database.execute("CREATE VIEW after_it AS SELECT 1")
  }

  @Test func `a right that a connection was denied before stays denied after`() throws {
    let database = try made()
    database.forbidForeignCode()
    try database.define("CREATE INDEX i ON t(a)", tables: ["t"])
    #expect(throws: SQLiteError.self) { try database.execute("ATTACH ':memory:' AS evil") }
    #expect(throws: SQLiteError.self) { try database.execute("CREATE VIEW v AS SELECT 1") }
  }

  // MARK: Statements that write rows

  private func written(_ statement: String) throws {
    let database = try made()
    try database.executeScript(
      "CREATE TABLE u(b); INSERT INTO u VALUES (7); CREATE VIEW v AS SELECT x FROM other;"
        + "CREATE TABLE fired(a); CREATE TRIGGER f AFTER INSERT ON fired BEGIN DELETE FROM other; END")
    let before = try database.query("SELECT name FROM sqlite_master")
    defer { #expect(throws: Never.self) { try database.execute("CREATE VIEW after_it AS SELECT 1") } }
    let table = statement.contains("fired") ? "fired" : "t"
    do {
      try database.writing(only: table) { try database.execute(statement) }
    } catch {
      #expect(try database.query("SELECT x FROM other") == [[.integer(1)]])
      #expect(try database.query("SELECT b FROM u") == [[.integer(7)]])
      #expect(try database.query("SELECT name FROM sqlite_master") == before)
      throw error
    }
  }

  @Test(arguments: [
    "INSERT INTO t SELECT a FROM T", "UPDATE t SET a = (SELECT max(a) FROM T)", "DELETE FROM t WHERE abs(a) > 1",
    "INSERT INTO t VALUES (1) RETURNING a",
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3) INSERT INTO t SELECT i FROM n",
    "INSERT INTO t SELECT count(*) FROM (SELECT a FROM t GROUP BY a)", "DELETE FROM t",
  ])
  func `a statement that reads and writes only its table is allowed`(statement: String) throws {
    try written(statement)
  }

  @Test(arguments: [
    "INSERT INTO t SELECT b FROM u", "DELETE FROM t WHERE a IN (SELECT b FROM U)",
    "INSERT INTO other VALUES (2)", "DELETE FROM u", "UPDATE other SET x = 2", "INSERT INTO t SELECT x FROM other",
    "INSERT INTO t SELECT x FROM v", "INSERT INTO fired VALUES (1)", "DELETE FROM sqlite_sequence",
    "INSERT INTO t SELECT name FROM sqlite_master", "DROP TABLE t", "PRAGMA user_version = 7", "ATTACH ':memory:' AS e",
    "INSERT INTO t SELECT load_extension('x')", "INSERT INTO t SELECT name FROM pragma_database_list", "VACUUM",
    "SAVEPOINT s", "INSERT INTO temp.t VALUES (1)", "CREATE INDEX i ON t(a)", "UPDATE t SET a = x FROM other",
    "INSERT INTO t SELECT count(*) FROM other", "DELETE FROM t WHERE EXISTS (SELECT 1 FROM other)",
    "WITH \u{feff}u AS (SELECT x FROM other) INSERT INTO t SELECT * FROM \u{feff}u",
  ])
  func `a statement that reaches further is refused`(statement: String) throws {
    #expect(throws: SQLiteError.self) { try written(statement) }
  }

  @Test func `a statement with long values is refused, and the limits are back after it`() throws {
    let database = try made()
    for statement in ["INSERT INTO t VALUES (zeroblob(300000))", "DELETE FROM t WHERE 'x' < hex(zeroblob(150000))"] {
      try database.execute("INSERT INTO t VALUES (1)")
      #expect(throws: SQLiteError.self) {
        try database.writing(only: "t") { try database.execute(statement) }
      }
      try database.execute("INSERT INTO t VALUES (zeroblob(300000))")
      try database.execute("DELETE FROM t")
    }
  }

  /// The statement would write 2 GB. So it reaches the limit of 50 MiB even if other programs delete files meanwhile.
  @Test func `a statement ends when it has taken its part of the disk`() throws {
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent("cairn-limit-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    let database = try Database(path: folder.path + "/a.db", mode: .create)
    try database.executeScript("PRAGMA cache_size = -1000; CREATE TABLE t(a); INSERT INTO t VALUES (1)")
    let rows = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)"
    try database.execute("BEGIN")
    let error = #expect(throws: SQLiteError.self) {
      try database.within(milliseconds: 120_000, diskBytes: 50 << 20) {
        try database.execute("\(rows) INSERT INTO t SELECT randomblob(100000) FROM n")
      }
    }
    #expect(error?.isInterrupted == true && !database.isInTransaction)
    #expect(try database.query("SELECT a FROM t") == [[.integer(1)]])
  }
}
