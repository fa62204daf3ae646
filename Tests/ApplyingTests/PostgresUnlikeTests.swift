import Applying
import Changes
import PostgresKit
import TestServers
import Testing

/// Types, functions and settings that source and target do not share.
@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
struct PostgresUnlikeTests {
  @Test func `labels that are added to an enum at its end, or anywhere, follow`() throws {
    let target = try PostgresTarget()
    let table = "CREATE TABLE t(id int PRIMARY KEY, m mood)"
    try target.begin(
      postgres: "CREATE TYPE mood AS ENUM ('ok'); \(table)", "t", [[.exact("1"), .exact("ok")]])
    let trail = target.trail
    for (number, labels) in [
      "'ok', 'late'", "'ok', 'late', 'later', 'last'", "'first', 'ok', 'mid', 'late', 'later', 'last'",
    ]
    .enumerated() {
      let old = try #require(trail.latest("t"))
      try target.shape(postgres: "CREATE TYPE mood AS ENUM (\(labels)); \(table)")
      let new = try #require(trail.latest("t"))
      trail.shape(old)
      try trail.transaction {
        try trail.reshape("t", new)
        try trail.insert("t", [.exact("\(number + 2)"), .exact(number == 2 ? "mid" : "late")])
      }
      try target.replay()
    }
    #expect(try target.psql("SELECT string_agg(m::text, ' ' ORDER BY id) FROM t") == "ok late late mid")
    #expect(
      try target.psql("SELECT string_agg(enumlabel, ' ' ORDER BY enumsortorder) FROM pg_enum")
        == "first ok mid late later last")
  }

  @Test func `a default, a CHECK and a column that call a function which the target lacks are left out`() throws {
    let target = try PostgresTarget()
    try target.shape(
      postgres: """
        CREATE TABLE t(id uuid PRIMARY KEY DEFAULT gen_random_uuid(), n int DEFAULT length('abc'),
          u uuid CHECK (u <> gen_random_uuid()), CHECK (n > 0))
        """)
    // As a newer server has it.
    var schema = try #require(target.trail.latest("t"))
    schema.createText = schema.createText.replacing("gen_random_uuid()", with: "uuidv7()")
    schema.columns[0].defaultText = "uuidv7()"
    target.trail.shape(schema)
    let (one, two) = ("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12")
    try target.trail.transaction {
      try target.trail.create("t")
      try target.trail.copy("t", [[.exact(one), .exact("1"), .exact(two)]])
    }
    try target.replay()
    #expect(try target.psql("SELECT id, n, u FROM t") == "\(one)|1|\(two)")
    #expect(try target.psql("INSERT INTO t(id) VALUES ('\(two)') RETURNING n") == "3")
    let notices = target.progress.snapshot.notices.joined(separator: "\n")
    #expect(notices.contains("the default of column id is left out: the target has no function uuidv7()"), "\(notices)")
    #expect(throws: (any Error).self) { try target.psql("INSERT INTO t(id, n) VALUES (gen_random_uuid(), -1)") }
  }

  @Test func `a UUID is taken in every spelling that PostgreSQL takes`() throws {
    let target = try PostgresTarget()
    let printed = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
    let spellings = [
      printed.uppercased(), printed.replacing("-", with: ""), "{\(printed)}", "A0EE-BC99-9C0B-4EF8-BB6D-6BB9-BD38-0A11",
    ]
    try target.begin("CREATE TABLE t(id UUID PRIMARY KEY, o UUID, v INTEGER)", "t", [])
    for spelling in spellings {
      let (key, value) = (Value.text(Array(spelling.utf8)), Value.text(Array(spelling.utf8)))
      try target.trail.transaction { try target.trail.insert("t", [key, value, 1]) }
      try target.trail.transaction { try target.trail.update("t", [key, value, 1], [key, value, 2]) }
      try target.replay()
      #expect(try target.psql("SELECT * FROM t") == "\(printed)|\(printed)|2")
      try target.trail.transaction { try target.trail.delete("t", [key, value, 2]) }
      try target.replay()
      #expect(try target.psql("SELECT count(*) FROM t") == "0")
    }
    try target.trail.transaction { try target.trail.insert("t", [.text(Array("a0eebc99".utf8)), .null, 1]) }
    #expect(failure { try target.replay() }?.code == .valueMisfit)
  }

  @Test func `NULL in an array stays NULL, whatever array_nulls is at the target`() throws {
    let target = try PostgresTarget()
    try target.psql("ALTER DATABASE \(target.name) SET array_nulls = off")
    try target.begin(
      postgres: "CREATE TABLE t(id int PRIMARY KEY, a text[], n int[])", "t",
      [[.exact("1"), .exact("{x,NULL}"), .exact("{NULL,2}")]])
    try target.trail.transaction {
      try target.trail.insert("t", [.exact("2"), .exact("{NULL,\"NULL\"}"), .exact("{1,NULL}")])
    }
    try target.replay()
    #expect(
      try target.psql("SELECT array_to_string(a, ',', '*'), n[1] IS NULL FROM t ORDER BY id") == "x,*|t\n*,NULL|f")
  }

  @Test func `a table whose name looks like a dollar quote of Cairn's does not stop apply`() throws {
    let target = try PostgresTarget()
    try target.psql("CREATE PUBLICATION cairn_0123456789abcdef")
    try target.shape(
      postgres:
        #"CREATE TYPE "a$cairn$" AS ENUM ('$cairn$', '$cairn1$'); CREATE TABLE "x$cairn$y"(id int PRIMARY KEY, e "a$cairn$")"#
    )
    try target.trail.transaction {
      try target.trail.create("x$cairn$y")
      try target.trail.copy("x$cairn$y", [[.exact("1"), .exact("$cairn1$")]])
    }
    try target.replay()
    #expect(try target.psql(#"SELECT * FROM "x$cairn$y""#) == "1|$cairn1$")
    #expect(try target.psql("SELECT count(*) FROM pg_publication_tables WHERE tablename = 'x$cairn$y'") == "1")
  }
}
