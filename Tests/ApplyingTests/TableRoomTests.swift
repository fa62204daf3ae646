import Changes
import TestServers
import Testing

@testable import Applying

/// A peer whose schema changes are followed creates a bounded number of tables.
@Suite struct TableRoomTests {
  @Test func `apply creates no more tables in a shared file than it may, and goes on with the others`() throws {
    let made = try Handmade(TempFolder())
    try made.begin("CREATE TABLE t(id INTEGER PRIMARY KEY)", "t", [[1]])
    try made.run(
      """
      WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(SchemaRefusal.createdMax - 1))
        INSERT INTO cairn_table(trail, name, created) SELECT 'other.shop', 'o' || i, 1 FROM n
      """)
    try made.shape("CREATE TABLE u(id INTEGER PRIMARY KEY)")
    try made.transaction {
      try made.create("u")
      try made.insert("u", [5])
      try made.insert("t", [2])
    }
    let error = failure { try made.replay() }
    #expect(error?.code == .schemaStopped && error?.message.contains("which is the limit") == true, "\(error as Any)")
    #expect(try made.rows("SELECT id FROM t ORDER BY id") == [[1], [2]])
    #expect(try made.rows("SELECT 1 FROM sqlite_master WHERE name = 'u'") == [])
    // Others drop a table.
    try made.run("DELETE FROM cairn_table WHERE name = 'o7'")
    try made.replay()
    #expect(try made.rows("SELECT id FROM u") == [[5]])
  }

  @Test func `a file that lists very many tables gets no more tables that wait`() throws {
    let made = try Handmade(TempFolder())
    try made.begin("CREATE TABLE t(id INTEGER PRIMARY KEY)", "t", [[1]])
    try made.run(
      """
      WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50000)
        INSERT INTO cairn_table(trail, name, created) SELECT 'other.shop', 'o' || i, 1 FROM n
      """)
    try made.shape("CREATE TABLE u(id INTEGER PRIMARY KEY)")
    try made.transaction { try made.create("u") }
    let error = failure { try made.replay() }
    #expect(error?.message.contains("suspends no more") == true, "\(error as Any)")
    #expect(try made.rows("SELECT count(*) FROM cairn_table") == [[50_001]])
  }

  @Test(.enabled(if: PostgresServer.isAvailable))
  func `apply creates no more tables in a shared database than it may, and goes on with the others`() throws {
    let target = try PostgresTarget()
    try target.begin("CREATE TABLE t(id INTEGER PRIMARY KEY)", "t", [[1]])
    try target.psql(
      """
      INSERT INTO cairn.table_state
          (trail, source, schema_name, table_name, created, loaded, refreshing, emptied, existing)
        SELECT 'other.shop', 'o' || i, 'public', 'o' || i, true, true, 0, false, 'overwrite'
        FROM generate_series(1, \(SchemaRefusal.createdMax - 1)) AS i
      """)
    try target.trail.shape("CREATE TABLE u(id INTEGER PRIMARY KEY)")
    try target.trail.transaction {
      try target.trail.create("u")
      try target.trail.insert("u", [5])
      try target.trail.insert("t", [2])
    }
    let error = failure { try target.replay() }
    #expect(error?.code == .schemaStopped && error?.message.contains("which is the limit") == true, "\(error as Any)")
    #expect(try target.psql("SELECT id FROM t ORDER BY id") == "1\n2")
    try target.psql("DELETE FROM cairn.table_state WHERE source = 'o7'")
    try target.replay()
    #expect(try target.psql("SELECT id FROM u") == "5")
  }
}
