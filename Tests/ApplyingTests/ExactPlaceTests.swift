import Applying
import Changes
import Mapping
import SQLiteKit
import TestServers
import Testing

/// A table waits exactly at the place of its change: rows of the old shape before it are applied, whatever their group.
@Suite struct ExactPlaceTests {
  private static let t = "CREATE TABLE t(id INTEGER PRIMARY KEY, a)"
  private static let u = "CREATE TABLE u(id INTEGER PRIMARY KEY)"

  private func started(_ policy: DDLPolicy? = .stop) throws -> Handmade {
    let made = try Handmade(TempFolder())
    try made.begin(Self.t, "t", [[1, 1]])
    try made.begin(Self.u, "u", [[1]])
    made.options.ddl = policy
    return made
  }

  @Test(arguments: [true, false])
  func `rows of the old shape before the change are there, in its transaction and before it`(_ isOne: Bool) throws {
    let made = try started()
    func before() throws {
      try made.insert("t", [2, 2])
      try made.update("t", [1, 1], [nil, 9])
      try made.insert("u", [2])
    }
    if !isOne { try made.transaction(before) }
    try made.transaction {
      if isOne { try before() }
      try made.reshape("t", "CREATE TABLE t(id INTEGER PRIMARY KEY, b)")
      try made.insert("t", [3, 3])
      try made.insert("u", [3])
    }
    try made.transaction { try made.update("t", [2, 2], [nil, 4]) }
    for _ in 0..<2 {
      #expect(failure { try made.replay() }?.code == .schemaStopped)
      #expect(try made.rows("SELECT * FROM t") == [[1, 9], [2, 2]])
      #expect(try made.rows("SELECT * FROM u") == [[1], [2], [3]])
    }
    try made.run("ALTER TABLE t RENAME COLUMN a TO b")
    try made.replay()
    #expect(try made.rows("SELECT id, b FROM t") == [[1, 9], [2, 4], [3, 3]])
    try made.transaction { try made.insert("t", [5, 5]) }
    try made.replay()
    #expect(try made.rows("SELECT count(*), count(b) FROM t") == [[4, 4]])
  }

  @Test(arguments: [true, false])
  func `two changes wait one after the other, with the rows between them applied`(_ isOne: Bool) throws {
    let made = try started()
    let parts: [() throws -> Void] = [
      { try made.insert("t", [2, 2]) },
      {
        try made.reshape("t", "CREATE TABLE t(id INTEGER PRIMARY KEY, b)")
        try made.insert("t", [3, 3])
        try made.insert("u", [2])
      },
      {
        try made.update("t", [2, 2], [nil, 7])
        try made.reshape("t", "CREATE TABLE t(id INTEGER PRIMARY KEY, c)")
        try made.insert("t", [4, 4])
        try made.insert("u", [3])
      },
    ]
    if isOne {
      try made.transaction { for part in parts { try part() } }
    } else {
      for part in parts { try made.transaction(part) }
    }
    #expect(failure { try made.replay() }?.message.contains("rename column a to b") == true)
    #expect(try made.rows("SELECT * FROM t") == [[1, 1], [2, 2]])
    #expect(try made.rows("SELECT * FROM u") == [[1], [2], [3]])
    try made.run("ALTER TABLE t RENAME COLUMN a TO b")
    for _ in 0..<2 {
      #expect(failure { try made.replay() }?.message.contains("rename column b to c") == true)
      #expect(try made.rows("SELECT id, b FROM t") == [[1, 1], [2, 7], [3, 3]])
    }
    try made.run("ALTER TABLE t RENAME COLUMN b TO c")
    try made.replay()
    #expect(try made.rows("SELECT id, c FROM t") == [[1, 1], [2, 7], [3, 3], [4, 4]])
    #expect(try made.rows("SELECT * FROM u") == [[1], [2], [3]])
  }

  @Test func `a table that was renamed before its change in one transaction waits under its new name`() throws {
    let made = try started(.follow)
    // A view of the target's own, which depends on the column that goes.
    try made.run("CREATE VIEW mine AS SELECT a FROM t")
    try made.transaction {
      try made.insert("t", [2, 2])
      try made.reshape("t", "CREATE TABLE s(id INTEGER PRIMARY KEY, a)", as: .rename, to: "s")
      try made.insert("s", [3, 3])
      try made.reshape("s", "CREATE TABLE s(id INTEGER PRIMARY KEY)")
      try made.insert("s", [4])
      try made.insert("u", [2])
    }
    let error = try #require(failure { try made.replay() })
    #expect(error.message.contains("table s is suspended"), "\(error.message)")
    #expect(try made.rows("SELECT * FROM s") == [[1, 1], [2, 2], [3, 3]])
    #expect(try made.rows("SELECT * FROM u") == [[1], [2]])
    try made.run("DROP VIEW mine")
    try made.replay()
    #expect(try made.rows("SELECT * FROM s") == [[1], [2], [3], [4]])
  }

  @Test func `a column that was added by hand without the default waits for the rows that are there`() throws {
    let made = try started()
    try made.transaction {
      try made.reshape("t", "CREATE TABLE t(id INTEGER PRIMARY KEY, a, b DEFAULT 'x', c DEFAULT NULL)")
      try made.insert("t", [2, 2, .null, .null])
    }
    #expect(failure { try made.replay() }?.code == .schemaStopped)
    try made.run("ALTER TABLE t ADD COLUMN b; ALTER TABLE t ADD COLUMN c")
    let error = try #require(failure { try made.replay() })
    #expect(error.message.contains("column b is there, but NULL"), "\(error.message)")
    #expect(error.hint.contains("\n  UPDATE \"t\" SET \"b\" = 'x' WHERE \"b\" IS NULL;"), "\(error.hint)")
    try made.run("UPDATE \"t\" SET \"b\" = 'x' WHERE \"b\" IS NULL")
    try made.replay()
    #expect(try made.rows("SELECT * FROM t") == [[1, 1, "x", .null], [2, 2, .null, .null]])
  }

  @Test(
    "a column that was added by hand with another default waits for the rows that are there",
    arguments: [DDLPolicy?.none, .follow, .stop, .ignore], ["b DEFAULT 'x'", "b", "b DEFAULT 5", "b TEXT DEFAULT '5'"])
  func otherDefault(policy: DDLPolicy?, definition: String) throws {
    let made = try started(policy)
    let type = definition.contains("TEXT") ? "TEXT" : ""
    try made.run("ALTER TABLE t ADD COLUMN b \(type) DEFAULT 'mine'")
    try made.transaction {
      try made.reshape("t", "CREATE TABLE t(id INTEGER PRIMARY KEY, a, \(definition))")
      try made.insert("t", [2, 2, .null])
    }
    let error = try #require(failure { try made.replay() })
    #expect(error.message.contains("column b is there, but has another value"), "\(error.message)")
    #expect(try made.rows("SELECT * FROM t") == [[1, 1, "mine"]])
    let statement = try #require(error.hint.split(separator: "\n").first { $0.contains("UPDATE") })
    try made.run(String(statement))
    try made.replay()
    let value: Value =
      definition.contains("'x'") ? "x" : definition.contains("'5'") ? "5" : definition.contains("5") ? 5 : .null
    #expect(try made.rows("SELECT * FROM t") == [[1, 1, value], [2, 2, .null]])
  }

  @Test(
    "a column that only the target has is not given away to one that is renamed",
    arguments: [DDLPolicy?.none, .follow, .stop, .ignore], [false, true])
  func ownColumn(policy: DDLPolicy?, isRefreshed: Bool) throws {
    let made = try started(policy)
    try made.run("ALTER TABLE t ADD COLUMN b DEFAULT 'own'")
    try made.transaction {
      try made.reshape("t", "CREATE TABLE t(id INTEGER PRIMARY KEY, b)", isRefreshed: isRefreshed)
      try made.insert("t", [2, 2])
    }
    for _ in 0..<2 {
      let error = try #require(failure { try made.replay() })
      #expect(error.code == .schemaStopped && error.message.contains("column b, which only the target has"), "\(error)")
      #expect(error.hint.contains("rename or drop the target's own column b"), "\(error.hint)")
      #expect(try made.rows("SELECT id, a, b FROM t") == [[1, 1, "own"]])
    }
    guard policy != .ignore else { return }
    try made.run("ALTER TABLE t RENAME COLUMN b TO mine")
    if policy == .stop { try made.run("ALTER TABLE t RENAME COLUMN a TO b") }
    try made.replay()
    #expect(try made.rows("SELECT id, b, mine FROM t") == [[1, 1, "own"], [2, 2, "own"]])
  }

  @Test func `a column that is dropped and one that is added leave the target's own`() throws {
    let made = try started(.follow)
    try made.run("ALTER TABLE t ADD COLUMN b DEFAULT 'own'")
    try made.transaction {
      try made.reshape("t", "CREATE TABLE t(id INTEGER PRIMARY KEY)")
      try made.reshape("t", "CREATE TABLE t(id INTEGER PRIMARY KEY, b INTEGER)")
      try made.insert("t", [2, 2])
    }
    #expect(failure { try made.replay() }?.code == .schemaStopped)
    #expect(try made.rows("SELECT id, b FROM t") == [[1, "own"]])
  }

  @Test(arguments: [DDLPolicy?.none, .follow, .stop])
  func `a table that only the target has is not given away to one that is renamed`(policy: DDLPolicy?) throws {
    let made = try started(policy)
    try made.run("CREATE TABLE s(id INTEGER PRIMARY KEY, a); INSERT INTO s VALUES (7, 'own')")
    try made.transaction {
      try made.reshape("t", "CREATE TABLE s(id INTEGER PRIMARY KEY, a)", as: .rename, to: "s")
      try made.insert("s", [2, 2])
    }
    #expect(failure { try made.replay() }?.code == .schemaStopped)
    #expect(try made.rows("SELECT * FROM s") == [[7, "own"]])
    #expect(try made.rows("SELECT * FROM t") == [[1, 1]])
    try made.run("ALTER TABLE s RENAME TO mine")
    if policy == .stop { try made.run("ALTER TABLE t RENAME TO s") }
    try made.replay()
    #expect(try made.rows("SELECT * FROM s") == [[1, 1], [2, 2]])
    #expect(try made.rows("SELECT * FROM mine") == [[7, "own"]])
  }

  @Test func `a column that applications of the target fill is left to them`() throws {
    let made = try started(.follow)
    made.options.localWrites = .init(.allow)
    try made.run("ALTER TABLE t ADD COLUMN b DEFAULT 'mine'")
    try made.transaction { try made.reshape("t", "CREATE TABLE t(id INTEGER PRIMARY KEY, a, b DEFAULT 'x')") }
    try made.replay()
    #expect(try made.rows("SELECT * FROM t") == [[1, 1, "mine"]])
  }
}
