import Changes
import Foundation
import Mapping
import SQLiteKit
import TestServers
import Testing
@testable import Applying

/// A target that has, beside what the trail knows, a table and a column of the same looks: they are the target's own.
@Suite struct LookAlikeColumnTests {
  /// The name that the trail knows, and the target's own.
  static let pairs = [
    ("caf\u{e9}", "cafe\u{301}"), ("cafe\u{301}", "caf\u{e9}"), ("k", "\u{212a}"), ("\u{212a}", "k"),
    ("\u{c4}RZTE", "\u{e4}rzte"), ("\u{e4}rzte", "\u{c4}RZTE"),
  ]

  @Test(arguments: pairs)
  func `a column that only the target has keeps its values in SQLite`(_ known: String, _ own: String) throws {
    let made = try Handmade(TempFolder())
    let (a, b) = (known.quotedName, own.quotedName)
    let text = "CREATE TABLE t(id INTEGER PRIMARY KEY, \(a) TEXT)"
    try made.run("CREATE TABLE t(id INTEGER PRIMARY KEY, \(b) TEXT DEFAULT 'new', \(a) TEXT)")
    try made.run("INSERT INTO t VALUES (1, 'mine', 'old')")
    made.options.ddl = .follow
    try made.begin(text, "t", [[1, "x"], [2, "y"]])
    try made.transaction {
      try made.update("t", [1, "x"], [1, "z"])
      try made.insert("t", [3, "w"])
      try made.delete("t", [2, "y"])
    }
    try made.replay()
    #expect(try made.rows("SELECT id, \(a), \(b) FROM t ORDER BY id") == [[1, "z", "mine"], [3, "w", "new"]])
    // Another copy empties nothing of it, and a new column does not touch it.
    try made.transaction {
      try made.reshape("t", "CREATE TABLE t(id INTEGER PRIMARY KEY, \(a) TEXT, n INTEGER)")
      try made.copy("t", [[1, "v", 7], [3, "w", 8]], reason: .asked)
    }
    try made.replay()
    #expect(
      try made.rows("SELECT id, \(a), \(b), n FROM t ORDER BY id") == [[1, "v", "mine", 7], [3, "w", "new", 8]])
    try made.transaction {
      try made.reshape("t", "CREATE TABLE t(id INTEGER PRIMARY KEY, n INTEGER)")
      try made.insert("t", [4, 9])
    }
    try made.replay()
    #expect(
      try made.rows("SELECT id, \(b), n FROM t ORDER BY id") == [[1, "mine", 7], [3, "new", 8], [4, "new", 9]])
  }

  @Test(arguments: pairs)
  func `a table that only the target has stays as it is in SQLite`(_ known: String, _ own: String) throws {
    let made = try Handmade(TempFolder())
    let (a, b) = (known.quotedName, own.quotedName)
    try made.run("CREATE TABLE \(b)(id INTEGER PRIMARY KEY, v TEXT); INSERT INTO \(b) VALUES (9, 'mine')")
    try made.begin("CREATE TABLE \(a)(id INTEGER PRIMARY KEY, v TEXT)", known, [[1, "x"]])
    try made.transaction { try made.update(known, [1, "x"], [1, "y"]) }
    try made.replay()
    #expect(try made.rows("SELECT * FROM \(a)") == [[1, "y"]])
    try made.transaction { try made.reshape(known, "CREATE TABLE \(a)(id INTEGER PRIMARY KEY, v TEXT, n INTEGER)") }
    try made.replay()
    #expect(try made.rows("SELECT * FROM \(a)") == [[1, "y", .null]])
    #expect(try made.rows("SELECT * FROM \(b)") == [[9, "mine"]])
    try made.transaction { try made.drop(known) }
    try made.replay()
    #expect(try made.rows("SELECT * FROM \(b)") == [[9, "mine"]])
    #expect(try made.rows("SELECT 1 FROM sqlite_master WHERE name = '\(known)'") == [])
  }

  @Test(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"), arguments: pairs)
  func `a column that only the target has keeps its values in PostgreSQL`(_ known: String, _ own: String) throws {
    let target = try PostgresTarget()
    let (a, b) = (known.quotedName, own.quotedName)
    try target.psql("CREATE TABLE t(id bigint PRIMARY KEY, \(b) text DEFAULT 'new', \(a) text)")
    try target.psql("INSERT INTO t VALUES (1, 'mine', 'old')")
    target.options.ddl = .follow
    target.options.names = .keep
    try target.begin("CREATE TABLE t(id INTEGER PRIMARY KEY, \(a) TEXT)", "t", [[1, "x"], [2, "y"]])
    try target.trail.transaction {
      try target.trail.update("t", [1, "x"], [1, "z"])
      try target.trail.insert("t", [3, "w"])
      try target.trail.delete("t", [2, "y"])
    }
    try target.replay()
    #expect(try target.psql("SELECT id, \(a), \(b) FROM t ORDER BY id") == "1|z|mine\n3|w|new")
    try target.trail.transaction {
      try target.trail.reshape("t", "CREATE TABLE t(id INTEGER PRIMARY KEY, \(a) TEXT, n INTEGER)")
      try target.trail.copy("t", [[1, "v", 7], [3, "w", 8]], reason: .asked)
    }
    try target.replay()
    #expect(try target.psql("SELECT id, \(a), \(b), n FROM t ORDER BY id") == "1|v|mine|7\n3|w|new|8")
    try target.trail.transaction {
      try target.trail.reshape("t", "CREATE TABLE t(id INTEGER PRIMARY KEY, n INTEGER)")
      try target.trail.insert("t", [4, 9])
    }
    try target.replay()
    #expect(try target.psql("SELECT id, \(b), n FROM t ORDER BY id") == "1|mine|7\n3|new|8\n4|new|9")
  }
}
