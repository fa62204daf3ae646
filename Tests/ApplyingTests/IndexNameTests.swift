import Applying
import Changes
import Foundation
import PostgresKit
import SQLiteKit
import TestServers
import Testing

/// Indexes of a source whose names are in use at the target.
@Suite struct IndexNameTests {
  private static let a = "CREATE TABLE a(id INTEGER PRIMARY KEY, x TEXT); CREATE UNIQUE INDEX i ON a(x)"
  private static let b = "CREATE TABLE b(id INTEGER PRIMARY KEY, x TEXT); CREATE UNIQUE INDEX i ON b(x)"

  // MARK: SQLite

  /// A second trail to the same target.
  private func other(than one: Handmade) throws -> Handmade {
    try Handmade(one.folder, trail: "other", name: TrailName(origin: "far", name: "other"))
  }

  private func indexes(_ made: Handmade) throws -> [[Value]] {
    try made.rows("SELECT tbl_name, name, sql LIKE '%UNIQUE%' FROM sqlite_master WHERE type = 'index' ORDER BY 1, 2")
  }

  @Test func `two trails may each bring an index of one name to an SQLite target`() throws {
    let one = try Handmade(TempFolder())
    let two = try other(than: one)
    try one.begin(Self.a, "a", [[1, "x"]])
    try two.begin(Self.b, "b", [[1, "x"]])
    #expect(try indexes(one) == [["a", "i", 1], ["b", "i1", 1]])
    // The index keeps its name in a change of the table, and after another start.
    try two.transaction {
      try two.reshape(
        "b",
        """
        CREATE TABLE b(id INTEGER PRIMARY KEY, x TEXT, y TEXT); CREATE UNIQUE INDEX i ON b(x); CREATE INDEX j ON b(y)
        """)
    }
    try two.replay()
    #expect(try indexes(one) == [["a", "i", 1], ["b", "i1", 1], ["b", "j", 0]])
    // The table is created again with its rows.
    let strict = "CREATE TABLE b(id INTEGER PRIMARY KEY, x TEXT NOT NULL, y TEXT)"
    try two.transaction { try two.reshape("b", "\(strict); CREATE UNIQUE INDEX i ON b(x)") }
    try two.replay()
    #expect(try indexes(one) == [["a", "i", 1], ["b", "i1", 1]])
    #expect(try one.rows("SELECT sql FROM sqlite_master WHERE name = 'b'") == [[.text(strict)]])
    try two.transaction { try two.reshape("b", strict) }
    try two.replay()
    #expect(try indexes(one) == [["a", "i", 1]])
    #expect(try one.rows("SELECT count(*) FROM b") == [[1]])
  }

  @Test(arguments: [
    "CREATE TABLE own(z); CREATE INDEX i ON own(z)", "CREATE TABLE I(z)", "CREATE VIEW i AS SELECT 1",
    "CREATE TABLE own(z); CREATE INDEX I1 ON own(z); CREATE VIEW i AS SELECT 1",
  ])
  func `an index gets another name if one of an SQLite target's own objects has its name`(own: String) throws {
    let made = try Handmade(TempFolder())
    try made.run(own)
    try made.begin(Self.b, "b", [[1, "x"]])
    let name: Value = own.contains("I1") ? "i2" : "i1"
    #expect(try indexes(made).filter { $0[0] == "b" } == [["b", name, 1]])
    #expect(try made.rows("SELECT count(*) FROM sqlite_master WHERE lower(name) = 'i'") == [[1]])
    try made.transaction { try made.reshape("b", "CREATE TABLE b(id INTEGER PRIMARY KEY, x TEXT)") }
    try made.replay()
    #expect(try indexes(made).filter { $0[0] == "b" } == [])
  }

  @Test func `an index of an SQLite source that moves to another table keeps its name`() throws {
    let made = try Handmade(TempFolder())
    try made.begin("CREATE TABLE b(id INTEGER PRIMARY KEY, x TEXT)", "b", [[1, "x"]])
    try made.begin(Self.a, "a", [[1, "x"]])
    try made.transaction {
      try made.reshape("b", Self.b)
      try made.reshape("a", "CREATE TABLE a(id INTEGER PRIMARY KEY, x TEXT)")
    }
    try made.replay()
    #expect(try indexes(made) == [["b", "i", 1]])
  }

  // MARK: PostgreSQL

  private static let needsServer: any SuiteTrait & TestTrait = .enabled(
    if: PostgresServer.isAvailable, "needs a PostgreSQL server")
  private static let made = """
    SELECT tablename, indexname, indexdef LIKE '%UNIQUE%' FROM pg_indexes WHERE schemaname = 'public'
      AND indexname NOT LIKE '%pkey' ORDER BY 1, 2
    """

  @Test(Self.needsServer) func `two trails may each bring an index of one name to a PostgreSQL target`() throws {
    let target = try PostgresTarget()
    let two = try Handmade(TempFolder(), trail: "other", name: TrailName(origin: "far", name: "other"))
    try target.begin(Self.a, "a", [[1, "x"]])
    try two.shape(Self.b)
    try two.transaction {
      try two.create("b")
      try two.copy("b", [[1, "x"]])
    }
    try target.replay(two, target.options)
    #expect(try target.psql(Self.made) == "a|i|t\nb|i1|t")
    #expect(target.progress.snapshot.notices.contains { $0.contains("index i of public.b is named i1 at the target") })
    let wide = "CREATE TABLE b(id INTEGER PRIMARY KEY, x TEXT, y TEXT)"
    try two.transaction {
      try two.reshape("b", "\(wide); CREATE UNIQUE INDEX i ON b(x); CREATE INDEX j ON b(y)")
    }
    try target.replay(two, target.options)
    #expect(try target.psql(Self.made) == "a|i|t\nb|i1|t\nb|j|f")
    // Another index under the same name.
    try two.transaction { try two.reshape("b", "\(wide); CREATE INDEX i ON b(y)") }
    try target.replay(two, target.options)
    #expect(try target.psql(Self.made) == "a|i|t\nb|i1|f")
    try two.transaction { try two.reshape("b", wide) }
    try target.replay(two, target.options)
    #expect(try target.psql(Self.made) == "a|i|t")
  }

  @Test(
    Self.needsServer,
    arguments: [
      "CREATE TABLE own(z int); CREATE INDEX NAME ON own(z)", "CREATE TABLE NAME(z int)",
      "CREATE VIEW NAME AS SELECT 1",
      "CREATE SEQUENCE NAME", "CREATE TYPE NAME AS (z int)",
    ], ["i", String(repeating: "é", count: 31)])
  func `an index gets another name if one of a PostgreSQL target's own objects has its name`(own: String, name: String)
    throws
  {
    let target = try PostgresTarget()
    try target.psql(own.replacingOccurrences(of: "NAME", with: name))
    let plain = "CREATE TABLE b(id INTEGER PRIMARY KEY, x TEXT)"
    try target.begin("\(plain); CREATE UNIQUE INDEX \(name) ON b(x)", "b", [[1, "x"]])
    let wanted = name == "i" ? "i1" : name + "1"
    let indexes = """
      SELECT indexname, indexdef LIKE '%UNIQUE%' FROM pg_indexes WHERE tablename = 'b' AND indexname <> 'b_pkey'
      """
    #expect(try target.psql(indexes) == "\(wanted)|t")
    try target.trail.transaction { try target.trail.reshape("b", plain) }
    try target.replay()
    #expect(try target.psql(indexes) == "")
    #expect(try target.psql("SELECT count(*) FROM pg_class WHERE relname = '\(name)'") == "1")
  }

  @Test(Self.needsServer) func `another name of an index fits into 63 bytes`() throws {
    let target = try PostgresTarget()
    let name = String(repeating: "é", count: 31) + "x"
    try target.psql("CREATE TABLE \(name)(z int)")
    let plain = "CREATE TABLE b(id INTEGER PRIMARY KEY, x TEXT)"
    try target.begin("\(plain); CREATE UNIQUE INDEX \(name) ON b(x)", "b", [[1, "x"]])
    let indexes = "SELECT indexname FROM pg_indexes WHERE tablename = 'b' AND indexname <> 'b_pkey'"
    #expect(try target.psql(indexes) == String(repeating: "é", count: 31) + "1")
    try target.trail.transaction { try target.trail.reshape("b", plain) }
    try target.replay()
    #expect(try target.psql(indexes) == "")
  }

  @Test(Self.needsServer) func `an index that finds no free name is reported`() throws {
    let target = try PostgresTarget()
    try target.psql("CREATE TABLE own(z int); CREATE SEQUENCE i")
    for number in 1..<100 { try target.psql("CREATE SEQUENCE i\(number)") }
    try target.begin(Self.b, "b", [[1, "x"]])
    #expect(try target.psql("SELECT count(*) FROM pg_indexes WHERE tablename = 'b'") == "1")
    #expect(target.progress.snapshot.notices.contains { $0.contains("index i of public.b was not created") })
    #expect(try target.psql("SELECT count(*) FROM cairn.pending") == "0")
  }

  @Test(Self.needsServer) func `an index of the target's own is not taken for that of the source`() throws {
    let target = try PostgresTarget()
    let plain = "CREATE TABLE b(id INTEGER PRIMARY KEY, x TEXT)"
    try target.psql("CREATE TABLE b(id bigint PRIMARY KEY, x text); CREATE INDEX i1 ON b(x)")
    try target.begin("\(plain); CREATE INDEX i ON b(x)", "b", [[1, "x"]])
    try target.trail.transaction { try target.trail.reshape("b", plain) }
    try target.replay()
    #expect(try target.psql(Self.made) == "b|i1|f")
  }

  @Test(Self.needsServer) func `an index of a PostgreSQL source takes no name that is in use`() throws {
    let target = try PostgresTarget()
    let plain = "CREATE TABLE b(id int PRIMARY KEY, x text)"
    try target.psql("CREATE SEQUENCE k; CREATE SEQUENCE i")
    try target.begin(postgres: "\(plain); CREATE UNIQUE INDEX i ON b(lower(x))", "b", [[.exact("1"), "x"]])
    #expect(try target.psql(Self.made) == "b|i1|t")
    for (name, wanted) in [("k", "k1"), ("m", "m"), ("i", "i1")] {
      let source = try PostgresTarget()
      try source.psql("\(plain); CREATE UNIQUE INDEX \(name) ON b(lower(x))")
      let table = try #require(try PostgresConnection(source.url).userTables().first).schema
      try target.trail.transaction { try target.trail.reshape("b", table) }
      try target.replay()
      #expect(try target.psql(Self.made) == "b|\(wanted)|t", "\(target.progress.snapshot.notices)")
    }
  }

  @Test(Self.needsServer) func `an index that moves to another table in one transaction is there afterwards`() throws {
    let target = try PostgresTarget()
    try target.begin("CREATE TABLE b(id INTEGER PRIMARY KEY, x TEXT)", "b", [[1, "x"]])
    try target.begin(Self.a, "a", [[1, "x"]])
    try target.trail.transaction {
      try target.trail.reshape("b", Self.b)
      try target.trail.reshape("a", "CREATE TABLE a(id INTEGER PRIMARY KEY, x TEXT)")
    }
    try target.replay()
    #expect(try target.psql(Self.made) == "b|i1|t")
  }

  @Test(
    Self.needsServer,
    arguments: [
      "CREATE TABLE own(z int); CREATE INDEX b ON own(z)", "CREATE SEQUENCE b",
      "CREATE VIEW b AS SELECT 1 AS id, 'a' AS x", "CREATE MATERIALIZED VIEW b AS SELECT 1 AS id, 'a'::text AS x",
    ])
  func `a table whose name another object of a PostgreSQL target has is reported`(own: String) throws {
    let target = try PostgresTarget()
    try target.psql(own)
    let kind = try target.psql("SELECT relkind FROM pg_class WHERE relname = 'b'")
    let error = failure { try target.begin(Self.b, "b", [[1, "x"]]) }
    #expect(error?.code == .schemaStopped, "\(String(describing: error))")
    #expect(try target.psql("SELECT relkind FROM pg_class WHERE relname = 'b'") == kind)
    try target.psql(
      "DROP \(kind == "i" ? "INDEX" : kind == "S" ? "SEQUENCE" : kind == "v" ? "VIEW" : "MATERIALIZED VIEW") b")
    try target.replay()
    #expect(try target.psql("SELECT * FROM b") == "1|x")
  }
}
