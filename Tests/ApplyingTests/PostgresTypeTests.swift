import Applying
import Changes
import Mapping
import PostgresKit
import TestServers
import Testing

/// Changes of types that tables share.
@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
struct PostgresTypeTests {
  private static let tables =
    "CREATE TABLE t(id integer PRIMARY KEY, h c); CREATE TABLE u(id integer PRIMARY KEY, h c[])"
  private static let old = "CREATE TYPE c AS (street text, no int);" + tables
  private static let new = "CREATE TYPE c AS (no int, town text);" + tables

  /// Two tables with a row each, which have one type.
  private func begin(_ sql: String = "", _ ddl: DDLPolicy? = nil) throws -> PostgresTarget {
    let target = try PostgresTarget()
    if !sql.isEmpty { try target.psql(sql) }
    target.options.ddl = ddl
    try target.shape(postgres: Self.old)
    try target.trail.transaction {
      for (table, value) in [("t", "(a,1)"), ("u", #"{"(a,1)"}"#)] {
        try target.trail.create(table)
        try target.trail.copy(table, [[.exact("1"), .exact(value)]])
      }
    }
    try target.replay()
    return target
  }

  /// The change of the type in both tables, as capture records it, with the rows that follow.
  private func change(_ target: PostgresTarget, _ tables: [String] = ["t", "u"], to sql: String = Self.new) throws {
    let trail = target.trail
    let before = tables.compactMap(trail.latest)
    try target.shape(postgres: sql)
    let after = tables.compactMap(trail.latest)
    before.forEach(trail.shape)
    try trail.transaction {
      for (table, schema) in zip(tables, after) { try trail.reshape(table, schema, isRefreshed: true) }
    }
    try trail.transaction {
      for table in tables {
        let (first, second) = table == "t" ? ("(1,)", "(2,x)") : (#"{"(1,)"}"#, #"{"(2,x)"}"#)
        try trail.copy(table, [[.exact("1"), .exact(first)]], reason: .schemaChange)
        try trail.insert(table, [.exact("2"), .exact(second)])
      }
    }
  }

  private func rows(_ target: PostgresTarget) throws -> String {
    try target.psql("SELECT h FROM t ORDER BY id; SELECT h FROM u ORDER BY id")
  }

  private static let changed = "(1,)\n(2,x)\n" + #"{"(1,)"}"# + "\n" + #"{"(2,x)"}"#

  @Test func `a type that two tables have is altered once`() throws {
    let target = try begin()
    try change(target)
    try target.replay()
    #expect(try rows(target) == Self.changed)
  }

  @Test(arguments: [DDLPolicy.stop, .ignore])
  func `by policy, only the tables with the type wait`(policy: DDLPolicy) throws {
    let target = try begin()
    try target.begin("CREATE TABLE other(id INTEGER PRIMARY KEY)", "other", [[1]])
    target.options.ddl = policy
    try change(target)
    try target.trail.transaction { try target.trail.insert("other", [2]) }
    let error = try #require(failure { try target.replay() })
    #expect(error.code == .schemaStopped)
    #expect(error.message.contains("2 tables are suspended: public.t, public.u"), "\(error.message)")
    #expect(try target.psql("SELECT count(*) FROM other") == "2")
    #expect(try target.psql("SELECT h FROM t") == "(a,1)")
    let statements = try target.psql("SELECT hint FROM cairn.waiting LIMIT 1").split(separator: "\n").dropFirst()
    #expect(statements.count == 2, "\(statements)")
    try target.psql(statements.joined(separator: "\n"))
    try target.replay()
    #expect(try rows(target) == Self.changed)
  }

  @Test func `a type that another program's table has is not altered`() throws {
    let target = try begin()
    try target.psql("CREATE TABLE mine(h c); INSERT INTO mine VALUES ('(mine,7)')")
    try change(target)
    let error = try #require(failure { try target.replay() })
    #expect(error.message.contains("public.mine, which Cairn did not create, has the type"), "\(error.message)")
    #expect(try target.psql("SELECT h FROM mine") == "(mine,7)")
    try target.psql("DROP TABLE mine")
    try target.replay()
    #expect(try rows(target) == Self.changed)
  }

  @Test func `a table that was there keeps its type, and one beside it waits with it`() throws {
    let target = try begin("CREATE TYPE c AS (street text, no int); CREATE TABLE u(id integer PRIMARY KEY, h c[])")
    try change(target)
    let error = try #require(failure { try target.replay() })
    #expect(error.message.contains("2 tables are suspended: public.t, public.u"), "\(error.message)")
    try target.psql("ALTER TYPE c DROP ATTRIBUTE street; ALTER TYPE c ADD ATTRIBUTE town text")
    try target.replay()
    #expect(try rows(target) == Self.changed)
  }

  @Test func `a type that remains of a dropped table becomes what a new one needs`() throws {
    let target = try begin()
    let trail = target.trail
    try trail.transaction {
      try trail.drop("t")
      try trail.drop("u")
    }
    try target.shape(postgres: Self.new)
    try trail.transaction {
      try trail.create("t")
      try trail.copy("t", [[.exact("1"), .exact("(1,x)")]])
    }
    try target.replay()
    #expect(try target.psql("SELECT (h).town FROM t") == "x")
    #expect(target.progress.snapshot.notices.contains { $0.contains("other attributes") })
  }

  @Test func `a type of the target's own is not altered for a new table`() throws {
    let target = try PostgresTarget()
    try target.psql("CREATE TYPE c AS (x int); CREATE TABLE mine(h c)")
    try target.shape(postgres: Self.old)
    try target.trail.transaction { try target.trail.create("t") }
    let error = try #require(failure { try target.replay() })
    #expect(error.message.contains("table public.mine has it"), "\(error.message)")
    #expect(try target.psql("SELECT count(*) FROM pg_attribute WHERE attrelid = 'c'::regclass") == "1")
  }

  @Test(arguments: [DDLPolicy.follow, .stop])
  func `CHECKs of a domain follow, and those of the target's own stay`(policy: DDLPolicy) throws {
    let target = try PostgresTarget()
    let trail = target.trail
    let table = "CREATE TABLE t(id integer PRIMARY KEY, v d)"
    try target.begin(postgres: "CREATE DOMAIN d AS int CHECK (VALUE > 0);" + table, "t", [[.exact("1"), .exact("1")]])
    try target.psql("ALTER DOMAIN d ADD CONSTRAINT mine CHECK (VALUE < 99)")
    target.options.ddl = policy
    let before = try #require(trail.latest("t"))
    try target.shape(postgres: "CREATE DOMAIN d AS int CHECK (VALUE > -5);" + table)
    let after = try #require(trail.latest("t"))
    trail.shape(before)
    try trail.transaction {
      try trail.reshape("t", after)
      try trail.insert("t", [.exact("2"), .exact("-3")])
    }
    if policy == .stop {
      let error = try #require(failure { try target.replay() })
      #expect(error.hint.contains("DROP CONSTRAINT d_check;"), "\(error.hint)")
      try target.psql("ALTER DOMAIN d DROP CONSTRAINT d_check; ALTER DOMAIN d ADD CHECK (VALUE > -5)")
    }
    try target.replay()
    #expect(try target.psql("SELECT v FROM t ORDER BY id") == "1\n-3")
    #expect(
      try target.psql(
        "SELECT string_agg(conname, ' ' ORDER BY conname) FROM pg_constraint WHERE contypid = 'd'::regtype")
        == "d_check mine")
  }
}
