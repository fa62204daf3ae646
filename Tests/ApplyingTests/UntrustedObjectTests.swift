import Applying
import Changes
import Mapping
import TestServers
import Testing

/// Types, collations and sequences of a target that another role owns, under the names that tables of the trail need.
/// Their owner could change what a table holds, or drop its columns.
@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
struct UntrustedObjectTests {
  struct Squat: Sendable, CustomStringConvertible {
    var squat: String
    /// The statements of the source before its table.
    var source: String
    /// The definition of column m.
    var column: String
    var value: String
    var from = 0
    var description: String { "\(squat) \(column)" }
  }

  private static let mood = "CREATE TYPE public.mood AS ENUM ('ok', 'sad')"
  private static let span = "CREATE TYPE public.span AS RANGE (subtype = int4)"
  private static let collation =
    "CREATE COLLATION public.cc (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
  private static let squats = [
    Squat(squat: mood, source: mood, column: "mood", value: "ok"),
    Squat(squat: mood, source: mood, column: "mood[]", value: "{ok}"),
    Squat(squat: mood, source: mood + "; CREATE DOMAIN public.d AS mood", column: "d", value: "ok"),
    Squat(squat: mood, source: mood + "; CREATE TYPE public.pair AS (a mood, b int)", column: "pair", value: "(ok,1)"),
    Squat(squat: span, source: span, column: "span", value: "[1,2)"),
    Squat(squat: span, source: span, column: "span_multirange", value: "{[1,2)}", from: 140_000),
    Squat(
      squat: collation, source: "CREATE COLLATION public.cc (provider = icu, locale = 'en-US')",
      column: "text COLLATE cc", value: "a"),
    Squat(
      squat: "CREATE SEQUENCE public.ids; GRANT USAGE ON SEQUENCE public.ids TO PUBLIC",
      source: "CREATE SEQUENCE public.ids", column: "bigint DEFAULT nextval('public.ids')", value: "1"),
  ]

  private static func table(_ column: String) -> String {
    "CREATE TABLE k(id integer PRIMARY KEY\(column.isEmpty ? "" : ", m \(column)"))"
  }

  @Test(arguments: squats, [true, false])
  func `a table that needs an object of another role is not created, and others go on`(
    _ given: Squat, isListed: Bool
  ) throws {
    let target = try Squatters.started(isListed: isListed)
    if try Int(target.psql("SHOW server_version_num")) ?? 0 < given.from { return }
    let trail = target.trail
    try target.psql("SET ROLE squatter; \(given.squat)")
    try target.shape(postgres: "\(given.source); \(Self.table(given.column))")
    try trail.transaction {
      try trail.create("k")
      try trail.copy("k", [[.exact("1"), .exact(given.value)]])
    }
    try trail.transaction { try trail.insert("item", [.exact("2")]) }
    if isListed, given.squat.hasPrefix("CREATE SEQUENCE") {
      // Such an apply uses no sequence that exists.
      #expect(Squatters.problem(target) == nil)
      #expect(try target.psql("SELECT count(*) FROM pg_attrdef WHERE adrelid = 'k'::regclass") == "0")
      return
    }
    #expect(Squatters.problem(target) == "schema-stopped")
    #expect(try target.psql("SELECT count(*) FROM item") == "2")
    #expect(try target.psql("SELECT to_regclass('k') IS NULL") == "t")
    try target.psql("REASSIGN OWNED BY squatter TO squatted")
    #expect(Squatters.problem(target) == nil)
    #expect(try target.psql("SELECT id, m FROM k") == "1|\(given.value)")
  }

  @Test(arguments: squats, [true, false])
  func `a table that Cairn alters gets no object of another role`(_ given: Squat, isRetyped: Bool) throws {
    let target = try Squatters.started()
    if try Int(target.psql("SHOW server_version_num")) ?? 0 < given.from { return }
    let trail = target.trail
    try target.shape(postgres: Self.table(isRetyped ? "text" : ""))
    let old = try #require(trail.latest("k"))
    try trail.transaction { try trail.create("k") }
    #expect(Squatters.problem(target) == nil)
    try target.psql("SET ROLE squatter; \(given.squat)")
    try target.shape(postgres: "\(given.source); \(Self.table(given.column))")
    let new = try #require(trail.latest("k"))
    trail.shape(old)
    try trail.transaction {
      try trail.reshape("k", new)
      try trail.insert("k", [.exact("1"), .exact(given.value)])
    }
    try trail.transaction { try trail.insert("item", [.exact("2")]) }
    #expect(Squatters.problem(target) == "schema-stopped")
    #expect(try target.psql("SELECT count(*) FROM item") == "2")
    try target.psql("REASSIGN OWNED BY squatter TO squatted")
    #expect(Squatters.problem(target) == nil)
    #expect(try target.psql("SELECT id, m FROM k") == "1|\(given.value)")
  }

  @Test func `an index that needs a collation of another role is left out`() throws {
    let target = try Squatters.started()
    let trail = target.trail
    try target.psql("SET ROLE squatter; \(Self.collation)")
    try target.shape(
      postgres: """
        CREATE COLLATION public.cc (provider = icu, locale = 'en-US');
        \(Self.table("text")); CREATE UNIQUE INDEX one ON k(m COLLATE cc)
        """)
    try trail.transaction {
      try trail.create("k")
      try trail.copy("k", [[.exact("1"), .exact("a")], [.exact("2"), .exact("A")]])
    }
    #expect(Squatters.problem(target) == nil)
    #expect(try target.psql("SELECT to_regclass('one') IS NULL, count(*) FROM k") == "t|2")
  }

  @Test func `the types of a table's own owner stay in it`() throws {
    let target = try Squatters.started()
    let trail = target.trail
    target.options.ddl = .follow
    // A table of another role is taken only if a list names it.
    target.options.scope.listed = TablePatterns(["k"])
    let enums = "\(Self.mood); CREATE TYPE public.color AS ENUM ('red')"
    try target.psql(
      "GRANT squatter TO squatted; SET ROLE squatter; \(enums); \(Self.table("mood")); GRANT ALL ON k TO squatted")
    try target.shape(postgres: "\(enums); \(Self.table("mood"))")
    let old = try #require(trail.latest("k"))
    try trail.transaction { try trail.create("k") }
    try target.shape(postgres: "\(enums); \(Self.table("mood, c color"))")
    let new = try #require(trail.latest("k"))
    trail.shape(old)
    try trail.transaction {
      try trail.reshape("k", new)
      try trail.insert("k", [.exact("1"), .exact("ok"), .exact("red")])
    }
    let ended = Squatters.problem(target)
    try target.psql("REVOKE squatter FROM squatted")
    #expect(ended == nil)
    #expect(try target.psql("SELECT id, m, c FROM k") == "1|ok|red")
  }
}
