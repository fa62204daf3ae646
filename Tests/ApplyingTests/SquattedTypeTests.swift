import Applying
import Changes
import Mapping
import PostgresKit
import TestServers
import Testing

/// Types of a target that another role has made under the names that tables of the trail need. Also enums whose labels
/// change in several ways at once.
@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
struct SquattedTypeTests {
  private static let types = "CREATE TYPE mood AS ENUM ('ok', 'sad');"

  private static let squats = [
    "CREATE TYPE public.mood AS ENUM ('x')", "CREATE TYPE public.mood AS ENUM ('ok')",
    "CREATE DOMAIN public.mood AS text", "CREATE TYPE public.mood AS (a int)", "CREATE TABLE public.mood(a int)",
    "CREATE TYPE public.mood AS RANGE (subtype = int4)", "CREATE TYPE public.mood",
  ]

  @Test(arguments: squats, [true, false])
  func `a type of another role under a name that a table needs suspends that table alone`(
    squat: String, isListed: Bool
  ) throws {
    let target = try Squatters.started(isListed: isListed)
    let trail = target.trail
    try target.psql((squat.hasSuffix("mood") ? "" : "SET ROLE squatter; ") + squat)
    try target.shape(postgres: Self.types + "CREATE TABLE k(id integer PRIMARY KEY, m mood)")
    try trail.transaction {
      try trail.create("k")
      try trail.copy("k", [[.exact("1"), .exact("ok")]])
    }
    try trail.transaction { try trail.insert("item", [.exact("2")]) }
    #expect(Squatters.problem(target) == "schema-stopped")
    #expect(try target.psql("SELECT count(*) FROM item") == "2")
    try trail.transaction {
      try trail.insert("k", [.exact("2"), .exact("sad")])
      try trail.insert("item", [.exact("3")])
    }
    #expect(Squatters.problem(target) == "schema-stopped")
    #expect(try target.psql("SELECT count(*) FROM item") == "3")
    try target.psql(squat.hasSuffix("mood") ? "DROP TYPE mood" : "DROP OWNED BY squatter")
    #expect(Squatters.problem(target) == nil)
    #expect(try target.psql("SELECT id, m FROM k ORDER BY id") == "1|ok\n2|sad")
  }

  @Test func `a label that apply may not add suspends that table alone`() throws {
    let target = try Squatters.started(isListed: false)
    let trail = target.trail
    let table = "CREATE TABLE k(id integer PRIMARY KEY, m mood)"
    try target.shape(postgres: Self.types + table)
    let old = try #require(trail.latest("k"))
    try trail.transaction { try trail.create("k") }
    #expect(Squatters.problem(target) == nil)
    try target.psql("ALTER TYPE mood OWNER TO squatter")
    try target.shape(postgres: "CREATE TYPE mood AS ENUM ('new', 'ok', 'sad');" + table)
    let new = try #require(trail.latest("k"))
    trail.shape(old)
    try trail.transaction {
      try trail.reshape("k", new)
      try trail.insert("k", [.exact("1"), .exact("new")])
    }
    try trail.transaction { try trail.insert("item", [.exact("2")]) }
    #expect(Squatters.problem(target) == "schema-stopped")
    #expect(Squatters.problem(target) == "schema-stopped")
    #expect(try target.psql("SELECT count(*) FROM item") == "2")
    try target.psql("ALTER TYPE mood OWNER TO squatted")
    #expect(Squatters.problem(target) == nil)
    #expect(try target.psql("SELECT id, m FROM k ORDER BY id") == "1|new")
  }

  @Test(
    arguments: [
      (["'A', 'b'", "'A', 'zz', 'b'"], "zz", "A zz b", "A"),
      // The name of a label that was renamed is that of a new one.
      (["'x', 'b'", "'x', 'b', 'a'"], "a", "x b a", "x"),
      // The labels change places.
      (["'t', 'b'", "'t', 'a'", "'b', 'a'", "'b', 'z', 'a'"], "z", "b z a", "b"),
    ], [true, false])
  func `labels of an enum are renamed and added in one group`(
    _ given: ([String], String, String, String), isOneTransaction: Bool
  ) throws {
    let (changes, label, labels, first) = given
    let target = try PostgresTarget()
    let trail = target.trail
    let table = "CREATE TABLE t(id integer PRIMARY KEY, m mood)"
    try target.begin(postgres: "CREATE TYPE mood AS ENUM ('a', 'b'); \(table)", "t", [[.exact("1"), .exact("a")]])
    let old = try #require(trail.latest("t"))
    let shapes = try changes.map { text in
      try target.shape(postgres: "CREATE TYPE mood AS ENUM (\(text)); \(table)")
      return try #require(trail.latest("t"))
    }
    trail.shape(old)
    if isOneTransaction {
      try trail.transaction { for shape in shapes { try trail.reshape("t", shape) } }
    } else {
      for shape in shapes { try trail.transaction { try trail.reshape("t", shape) } }
    }
    try trail.transaction { try trail.insert("t", [.exact("2"), .exact(label)]) }
    try target.replay()
    #expect(
      try target.psql("SELECT string_agg(enumlabel, ' ' ORDER BY enumsortorder) FROM pg_enum") == labels)
    #expect(try target.psql("SELECT id, m FROM t ORDER BY id") == "1|\(first)\n2|\(label)")
  }
}
