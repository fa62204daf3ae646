import Applying
import Changes
import Mapping
import PostgresKit
import TestServers
import Testing

/// As ``ExactPlaceTests``, at a PostgreSQL target.
@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
struct PostgresExactPlaceTests {
  private func started() throws -> PostgresTarget {
    let target = try PostgresTarget()
    try target.begin("CREATE TABLE t(id INTEGER PRIMARY KEY, a INTEGER)", "t", [[1, 1]])
    try target.begin("CREATE TABLE u(id INTEGER PRIMARY KEY)", "u", [[1]])
    target.options.ddl = .stop
    return target
  }

  private func rows(_ target: PostgresTarget) throws -> String {
    try target.psql("SELECT string_agg(t::text, ' ' ORDER BY id) FROM t")
  }

  private func others(_ target: PostgresTarget) throws -> String {
    try target.psql("SELECT string_agg(id::text, ' ' ORDER BY id) FROM u")
  }

  @Test(arguments: [true, false])
  func `rows of the old shape before the change are there, in its transaction and before it`(_ isOne: Bool) throws {
    let target = try started()
    let trail = target.trail
    func before() throws {
      try trail.insert("t", [2, 2])
      try trail.update("t", [1, 1], [nil, 9])
      try trail.insert("u", [2])
    }
    if !isOne { try trail.transaction(before) }
    try trail.transaction {
      if isOne { try before() }
      try trail.reshape("t", "CREATE TABLE t(id INTEGER PRIMARY KEY, b INTEGER)")
      try trail.insert("t", [3, 3])
      try trail.insert("u", [3])
    }
    try trail.transaction { try trail.update("t", [2, 2], [nil, 4]) }
    for _ in 0..<2 {
      #expect(failure { try target.replay() }?.code == .schemaStopped)
      #expect(try rows(target) == "(1,9) (2,2)")
      #expect(try others(target) == "1 2 3")
    }
    try target.psql("ALTER TABLE t RENAME COLUMN a TO b")
    try target.replay()
    #expect(try rows(target) == "(1,9) (2,4) (3,3)")
    #expect(try target.psql("SELECT count(*) FROM cairn.waiting") == "0")
    try trail.transaction { try trail.insert("t", [5, 5]) }
    try target.replay()
    #expect(try rows(target) == "(1,9) (2,4) (3,3) (5,5)")
  }

  @Test(arguments: [true, false])
  func `two changes wait one after the other, with the rows between them applied`(_ isOne: Bool) throws {
    let target = try started()
    let trail = target.trail
    let parts: [() throws -> Void] = [
      { try trail.insert("t", [2, 2]) },
      {
        try trail.reshape("t", "CREATE TABLE t(id INTEGER PRIMARY KEY, b INTEGER)")
        try trail.insert("t", [3, 3])
        try trail.insert("u", [2])
      },
      {
        try trail.update("t", [2, 2], [nil, 7])
        try trail.reshape("t", "CREATE TABLE t(id INTEGER PRIMARY KEY, c INTEGER)")
        try trail.insert("t", [4, 4])
        try trail.insert("u", [3])
      },
    ]
    if isOne {
      try trail.transaction { for part in parts { try part() } }
    } else {
      for part in parts { try trail.transaction(part) }
    }
    #expect(failure { try target.replay() }?.message.contains("rename column a to b") == true)
    #expect(try rows(target) == "(1,1) (2,2)")
    #expect(try others(target) == "1 2 3")
    try target.psql("ALTER TABLE t RENAME COLUMN a TO b")
    for _ in 0..<2 {
      #expect(failure { try target.replay() }?.message.contains("rename column b to c") == true)
      #expect(try rows(target) == "(1,1) (2,7) (3,3)")
    }
    try target.psql("ALTER TABLE t RENAME COLUMN b TO c")
    try target.replay()
    #expect(try rows(target) == "(1,1) (2,7) (3,3) (4,4)")
    #expect(try others(target) == "1 2 3")
  }

  @Test func `a table whose target was taken away waits from the row that misses it`() throws {
    let target = try started()
    let trail = target.trail
    try trail.transaction { try trail.insert("t", [2, 2]) }
    try target.replay()
    try target.psql("ALTER TABLE t RENAME COLUMN a TO lost")
    try trail.transaction {
      try trail.insert("u", [2])
      try trail.insert("t", [3, 3])
      try trail.insert("t", [4, 4])
    }
    for _ in 0..<2 { #expect(failure { try target.replay() }?.code == .schemaStopped) }
    #expect(try others(target) == "1 2")
    try target.psql("ALTER TABLE t RENAME COLUMN lost TO a")
    try target.replay()
    #expect(try rows(target) == "(1,1) (2,2) (3,3) (4,4)")
  }

  @Test func `a column that was added by hand without the default waits for the rows that are there`() throws {
    let target = try started()
    let trail = target.trail
    try trail.transaction {
      try trail.reshape("t", "CREATE TABLE t(id INTEGER PRIMARY KEY, a INTEGER, b TEXT DEFAULT 'x')")
      try trail.insert("t", [2, 2, .null])
    }
    #expect(failure { try target.replay() }?.code == .schemaStopped)
    try target.psql("ALTER TABLE t ADD b text")
    let error = try #require(failure { try target.replay() })
    #expect(error.message.contains("column b is there, but NULL"), "\(error.message)")
    #expect(error.hint.contains("\n  UPDATE \"public\".\"t\" SET \"b\" = 'x'"), "\(error.hint)")
    try target.psql("UPDATE t SET b = 'x' WHERE b IS NULL")
    try target.replay()
    #expect(try rows(target) == "(1,1,x) (2,2,)")
  }

  @Test(
    "a column that was added by hand with another default waits for the rows that are there",
    arguments: [DDLPolicy.follow, .stop, .ignore],
    ["TEXT DEFAULT 'x'", "TEXT", "INTEGER DEFAULT 5", "JSON DEFAULT '{}'"])
  func otherDefault(policy: DDLPolicy, definition: String) throws {
    let target = try started()
    target.options.ddl = policy
    let trail = target.trail
    let theirs = ["TEXT": "text DEFAULT 'mine'", "INTEGER": "bigint DEFAULT 7", "JSON": "json DEFAULT '[]'"]
    try target.psql("ALTER TABLE t ADD b \(theirs[String(definition.prefix { $0 != " " })] ?? "")")
    try trail.transaction {
      try trail.reshape("t", "CREATE TABLE t(id INTEGER PRIMARY KEY, a INTEGER, b \(definition))")
      try trail.insert("t", [2, 2, .null])
    }
    let error = try #require(failure { try target.replay() })
    #expect(error.message.contains("column b is there, but has another value"), "\(error.message)")
    let statement = try #require(error.hint.split(separator: "\n").first { $0.contains("UPDATE") })
    try target.psql(String(statement))
    try target.replay()
    let value = definition.split(separator: " ").last.map { $0.filter { $0 != "'" } } ?? ""
    #expect(try rows(target) == "(1,1,\(definition.contains("DEFAULT") ? value : "")) (2,2,)")
  }

  @Test(
    "a column that only the target has is not given away to one that is renamed",
    arguments: [DDLPolicy?.none, .follow, .stop, .ignore], [false, true])
  func ownColumn(policy: DDLPolicy?, isRefreshed: Bool) throws {
    let target = try started()
    target.options.ddl = policy
    let trail = target.trail
    try target.psql("ALTER TABLE t ADD b text DEFAULT 'own'")
    try trail.transaction {
      try trail.reshape("t", "CREATE TABLE t(id INTEGER PRIMARY KEY, b INTEGER)", isRefreshed: isRefreshed)
      try trail.insert("t", [2, 2])
    }
    for _ in 0..<2 {
      let error = try #require(failure { try target.replay() })
      #expect(error.code == .schemaStopped && error.message.contains("column b, which only the target has"), "\(error)")
      #expect(error.hint.contains("rename or drop the target's own column b"), "\(error.hint)")
      #expect(try rows(target) == "(1,1,own)")
    }
    guard policy != .ignore else { return }
    try target.psql("ALTER TABLE t RENAME COLUMN b TO mine")
    if policy == .stop { try target.psql("ALTER TABLE t RENAME COLUMN a TO b") }
    try target.replay()
    let found = try target.psql("SELECT string_agg(id || ' ' || b || ' ' || mine, ', ' ORDER BY id) FROM t")
    #expect(found == "1 1 own, 2 2 own")
  }

  @Test(arguments: [DDLPolicy?.none, .follow, .stop])
  func `a table that only the target has is not given away to one that is renamed`(policy: DDLPolicy?) throws {
    let target = try started()
    target.options.ddl = policy
    let trail = target.trail
    try target.psql("CREATE TABLE s(id bigint PRIMARY KEY, a text); INSERT INTO s VALUES (7, 'own')")
    try trail.transaction {
      try trail.reshape("t", "CREATE TABLE s(id INTEGER PRIMARY KEY, a INTEGER)", as: .rename, to: "s")
      try trail.insert("s", [2, 2])
    }
    #expect(failure { try target.replay() }?.code == .schemaStopped)
    #expect(try target.psql("SELECT string_agg(s::text, ' ') FROM s") == "(7,own)")
    #expect(try rows(target) == "(1,1)")
    try target.psql("ALTER TABLE s RENAME TO mine")
    if policy == .stop { try target.psql("ALTER TABLE t RENAME TO s") }
    try target.replay()
    #expect(try target.psql("SELECT string_agg(s::text, ' ' ORDER BY id) FROM s") == "(1,1) (2,2)")
    #expect(try target.psql("SELECT string_agg(s::text, ' ') FROM mine AS s") == "(7,own)")
  }
}
