import Changes
import PostgresKit
import SQLiteKit
import TestServers
import Testing

/// Statements for schema changes, run.
@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
struct TrailSQLShapeTests {
  /// A database that is dropped in the end.
  private final class Scratch {
    let server: PostgresServer
    let name = "sql_\(UInt64.random(in: 1..<(1 << 60)))"
    let url: String
    init() throws {
      server = try PostgresServer.shared
      url = try server.createDatabase(name)
    }
    deinit { try? server.dropDatabase(name) }
    @discardableResult func psql(_ sql: String) throws -> String { try server.psql(sql, name) }
    /// One statement after the other, as `psql -f` does.
    func run(_ lines: [String]) throws {
      let connection = try PostgresConnection(url)
      for line in lines where !line.hasPrefix("--") || line.contains("\n") { try connection.executeScript(line) }
    }
    func tables() throws -> [TableSchema] {
      try PostgresConnection(url).userTables().map(\.schema).sorted { $0.fullName < $1.fullName }
    }
  }

  private func exact(_ texts: String?...) -> [Value?] { texts.map { $0.map { .exact(Array($0.utf8)) } ?? .null } }

  /// The shapes of `t` and `u` after each of these changes.
  private func shapes(_ changes: [String]) throws -> [[TableSchema]] {
    let source = try Scratch()
    var epoch: UInt64 = 0
    return try changes.map { change in
      try source.psql(change)
      return try source.tables().map { table in
        var table = table
        epoch += 1
        table.epoch = epoch
        return table
      }
    }
  }

  /// Without the order of columns and lines.
  private func script(_ schema: TableSchema) -> [String] {
    schema.createText.split(separator: "\n").map { line in String(line.hasSuffix(",") ? line.dropLast() : line) }
      .sorted()
      + schema.objects.map(\.text).sorted()
  }

  @Test func `the SQL for PostgreSQL makes its tables what those of the source are`() throws {
    let steps = try shapes([
      """
      CREATE TYPE c AS (street text, no int); CREATE TYPE mood AS ENUM ('ok', 'sad');
      CREATE DOMAIN d AS int CHECK (VALUE > 0);
      CREATE TABLE t(id int PRIMARY KEY, h c, m mood, a text, n int CHECK (n > 0)); CREATE INDEX ti ON t(a);
      CREATE TABLE u(id int PRIMARY KEY, h c[], v d)
      """,
      """
      ALTER TYPE c DROP ATTRIBUTE street; ALTER TYPE c ADD ATTRIBUTE town text; ALTER TYPE mood ADD VALUE 'new' BEFORE 'ok';
      ALTER DOMAIN d DROP CONSTRAINT d_check; ALTER DOMAIN d ADD CHECK (VALUE > -5)
      """,
      """
      ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'; ALTER TABLE t RENAME a TO b; ALTER TABLE t ALTER n TYPE numeric(9,2);
      ALTER TABLE t ADD x bigint NOT NULL DEFAULT 4, DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (id, x);
      CREATE UNIQUE INDEX tj ON t(b, id)
      """,
    ])
    let trail = try HandmadeTrail()
    let (first, second, third) = (steps[0], steps[1], steps[2])
    try trail.transaction {
      for table in first { try trail.ddl(.create, nil, table) }
      try trail.insert(first[0], exact("1", "(a,1)", "ok", "x", "5"))
      try trail.insert(first[1], exact("1", "{}", "7"))
    }
    try trail.transaction {
      for (before, after) in zip(first, second) { try trail.ddl(.reshape, before, after, isRefreshed: true) }
      try trail.refresh(second[0], .start(.schemaChange, .byKey, estimatedRows: 1))
      try trail.refresh(second[0], .chunk(.keys(after: nil, through: nil)))
      try trail.row(second[0], exact("1", "(1,x)", "new", "x", "5"))
      try trail.refresh(second[0], .end(rows: 1))
      try trail.insert(second[1], exact("2", #"{"(2,y)"}"#, "-3"))
    }
    try trail.transaction {
      try trail.insert(second[1], exact("3", nil, nil))
      try trail.ddl(.reshape, second[0], third[0], origins: [0, 1, 2, 3, 4, nil])
      try trail.insert(third[0], exact("2", nil, "blue", "y", "1.50", "9"))
    }
    let target = try Scratch()
    let (lines, problems) = try trail.render(.postgres)
    #expect(problems.isEmpty)
    try target.run(lines)
    for (made, wanted) in zip(try target.tables(), third) { #expect(script(made) == script(wanted)) }
    let rows = try target.psql("SELECT id, h, m, b, n, x FROM t ORDER BY id")
    #expect(rows == "1|(1,x)|new|x|5.00|4\n2||blue|y|1.50|9")
    #expect(try target.psql("SELECT * FROM u ORDER BY id") == "1|{}|7\n2|{\"(2,y)\"}|-3\n3||")
  }

  @Test func `the SQL for a trail of SQLite runs in both engines`() throws {
    let (first, second, third) = (
      try schema(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, b INTEGER, p REFERENCES t(id))",
        indexes: ["CREATE INDEX ta ON t(a)"]),
      try schema(
        "CREATE TABLE u(id INTEGER PRIMARY KEY, b INTEGER, c TEXT NOT NULL DEFAULT 'new')",
        indexes: ["CREATE UNIQUE INDEX ub ON u(b)"], epoch: 3),
      try schema("CREATE TABLE u(id INTEGER PRIMARY KEY, b REAL, c TEXT UNIQUE)", epoch: 4)
    )
    var named = first
    (named.name, named.epoch) = ("u", 2)
    named.createText = "CREATE TABLE \"u\"(id INTEGER PRIMARY KEY, a TEXT, b INTEGER, p REFERENCES \"u\"(id))"
    named.objects = [.init(name: "ta", text: "CREATE INDEX ta ON \"u\"(a)")]
    let trail = try HandmadeTrail()
    try trail.transaction {
      try trail.ddl(.create, nil, first)
      for id in 1...3 { try trail.insert(first, [.integer(Int64(id)), .text("x"), .integer(Int64(id)), .null]) }
    }
    try trail.transaction {
      try trail.ddl(.rename, first, named)
      try trail.ddl(.reshape, named, second)
      try trail.update(second, [.integer(2), .integer(2), .text("new")], [nil, .integer(20), .text("mine")])
    }
    try trail.transaction {
      try trail.ddl(.reshape, second, third, isRefreshed: true)
      try trail.refresh(third, .start(.schemaChange, .byKey, estimatedRows: 3))
      try trail.refresh(third, .chunk(.keys(after: nil, through: nil)))
      for id in 1...3 { try trail.row(third, [.integer(Int64(id)), .real(0.5), .text("c\(id)")]) }
      try trail.refresh(third, .end(rows: 3))
    }
    let database = try trail.replayed()
    #expect(try database.query("SELECT count(*), sum(b), max(c) FROM u") == [[.integer(3), .real(1.5), .text("c3")]])
    #expect(try database.text("SELECT sql FROM sqlite_master WHERE type = 'table'") == third.createText)
    #expect(try database.integer("SELECT count(*) FROM sqlite_master WHERE name IN ('ta', 'ub')") == 0)
    let target = try Scratch()
    try target.run(try trail.render(.postgres).lines)
    #expect(try target.psql("SELECT count(*), sum(b), max(c) FROM u") == "3|1.5|c3")
    #expect(try target.tables().first?.columns.map(\.declaredType) == ["bigint", "double precision", "text"])
    #expect(
      try target.psql("SELECT string_agg(indexname, ' ' ORDER BY indexname) FROM pg_indexes WHERE tablename = 'u'")
        == "t_pkey u_c_key")
  }
}
