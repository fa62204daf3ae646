import Applying
import Changes
import Mapping
import TestServers
import Testing

/// Tables of a target that another role has made under the names that tables of the trail get.
@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
struct SquattedTableTests {
  private static let table = "CREATE TABLE k(id integer PRIMARY KEY)"
  private static let squat = "\(table); GRANT ALL ON k TO squatted"

  /// Brings the new table to the target, and a row of another table after it.
  private func bring(_ target: PostgresTarget) throws {
    try target.shape(postgres: Self.table)
    try target.trail.transaction {
      try target.trail.create("k")
      try target.trail.copy("k", [[.exact("1")]])
    }
    try target.trail.transaction { try target.trail.insert("item", [.exact("2")]) }
  }

  @Test(arguments: [nil, DDLPolicy.follow])
  func `a new table does not become the one that another role has made under its name`(_ ddl: DDLPolicy?) throws {
    let target = try Squatters.started()
    target.options.ddl = ddl
    try target.psql("SET ROLE squatter; \(Self.squat)")
    try bring(target)
    #expect(Squatters.problem(target) == "schema-stopped")
    let waiting = try #require(target.progress.snapshot.waiting.first)
    #expect(waiting.message.contains("belongs to role squatter"))
    #expect(waiting.hint.contains("OWNER TO"))
    #expect(try target.psql("SELECT (SELECT count(*) FROM item), (SELECT count(*) FROM k)") == "2|0")
    try target.psql("ALTER TABLE k OWNER TO squatted")
    #expect(Squatters.problem(target) == nil)
    #expect(try target.psql("SELECT id FROM k") == "1")
  }

  @Test func `a table of another role is taken if a list names it, or policy stop leaves it to the operator`() throws {
    for way in 0..<3 {
      let target = try Squatters.started(isListed: way == 0)
      if way == 1 { target.options.scope.listed = TablePatterns(["*", "K"]) }
      if way == 2 { target.options.ddl = .stop }
      try target.psql("SET ROLE squatter; \(Self.squat)")
      try bring(target)
      #expect(Squatters.problem(target) == nil)
      #expect(try target.psql("SELECT id FROM k") == "1")
    }
  }

  @Test func `a table that was there at the first start is taken, also that of another role`() throws {
    let target = try Squatters.started(squat: Self.squat)
    try bring(target)
    #expect(Squatters.problem(target) == nil)
    #expect(try target.psql("SELECT id FROM k") == "1")
  }

  @Test func `tables that were there before an upgrade are taken`() throws {
    let target = try Squatters.started(squat: Self.squat)
    try target.psql("DROP TABLE cairn.tables_found")
    try bring(target)
    #expect(Squatters.problem(target) == nil)
    #expect(try target.psql("SELECT id FROM k") == "1")
  }

  @Test(arguments: ["squatter", "squatted", "part"])
  func `a foreign key acts on rows only if a trusted role owns the referenced table`(_ owner: String) throws {
    let (whole, part) = (
      "CREATE TABLE parent(id integer PRIMARY KEY)", "CREATE TABLE part PARTITION OF parent DEFAULT"
    )
    let squat = owner == "part" ? "\(whole) PARTITION BY LIST (id); \(part)" : whole
    let target = try Squatters.started(squat: "\(squat); GRANT ALL ON parent TO squatted")
    if owner != "squatter" { try target.psql("ALTER TABLE parent OWNER TO squatted") }
    try target.shape(
      postgres: """
        \(whole); CREATE TABLE child(id integer PRIMARY KEY, p integer REFERENCES parent ON DELETE CASCADE
          ON UPDATE CASCADE, q integer REFERENCES parent ON DELETE SET NULL ON UPDATE RESTRICT)
        """)
    try target.trail.transaction {
      try target.trail.create("parent")
      try target.trail.copy("parent", [[.exact("1")]])
      try target.trail.create("child")
      try target.trail.copy("child", [[.exact("1"), .exact("1"), .exact("1")]])
    }
    #expect(Squatters.problem(target) == nil)
    let actions = try target.psql(
      "SELECT string_agg(confdeltype::text || confupdtype::text, ' ' ORDER BY conkey) FROM pg_constraint WHERE conrelid = 'child'::regclass AND contype = 'f' AND conparentid = 0"
    )
    #expect(actions == (owner == "squatted" ? "cc nr" : "aa ar"))
    let notices = target.progress.snapshot.notices.filter { $0.contains("without its actions") }
    #expect(notices.count == (owner == "squatted" ? 0 : 2))
  }
}
