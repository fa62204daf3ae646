import Applying
import Changes
import Mapping
import TestServers
import Testing

/// Rows of SQLite whose keys are one value in PostgreSQL: none of them may take the place of the other.
@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
struct SpellingTests {
  private static let lower = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
  private static let upper = "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"
  private static let other = "b0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
  private static let table = "CREATE TABLE t(k UUID NOT NULL PRIMARY KEY, v TEXT)"

  private func text(_ text: String) -> Value { .text(Array(text.utf8)) }

  private func expectRefused(_ target: PostgresTarget, _ names: String...) throws {
    for _ in 0..<2 {
      let error = try #require(failure { try target.replay() })
      #expect(error.code == .rowExists)
      for name in names { #expect(error.message.contains(name), "\(error.message)") }
      #expect((error.hint.contains("merge the two rows") || error.hint.contains("make them one row")), "\(error.hint)")
    }
  }

  @Test(
    arguments: [
      ("uuid", lower, upper), ("uuid", upper, "a0eebc999c0b4ef8bb6d6bb9bd380a11"), ("uuid", lower, "{\(lower)}"),
      ("inet", "10.0.0.1", "10.0.0.1/32"), ("timetz", "10:00:00+00", "10:00+00"), ("numeric", "1.0", "1"),
      ("char(4)", "a", "a "), ("int[]", "{1,2}", "{1, 2}"),
    ], ["x", "y"])
  func `two spellings in a copy stop it`(key: (type: String, one: String, two: String), value: String) throws {
    let target = try PostgresTarget()
    try target.psql("CREATE TABLE t(k \(key.type) PRIMARY KEY, v text)")
    try target.trail.shape("CREATE TABLE t(k TEXT NOT NULL PRIMARY KEY, v TEXT)")
    try target.trail.transaction {
      try target.trail.create("t")
      try target.trail.copy("t", [[text(key.one), "x"], [text(key.two), .text(Array(value.utf8))]])
    }
    try expectRefused(target, text(key.one).shown, text(key.two).shown)
    #expect(try target.psql("SELECT count(*) FROM t") == "0")
  }

  @Test(arguments: ["x", "y"], [true, false])
  func `two spellings stop the copy of a table that Cairn makes, in two chunks and commits too`(
    value: String, isOne: Bool
  ) throws {
    let target = try PostgresTarget()
    let trail = target.trail
    try trail.shape("CREATE TABLE t(id INTEGER, k UUID NOT NULL, v TEXT, PRIMARY KEY (k))")
    try trail.transaction {
      try trail.create("t")
      try trail.refresh("t", .start(.firstCopy, .byKey, estimatedRows: 2))
      try trail.refresh("t", .chunk(.keys(after: nil, through: [nil, text(Self.upper), nil])))
      try trail.row("t", [1, text(Self.upper), "x"])
    }
    // The next run knows of no change before it, and takes an equal row for one that a change brought.
    if !isOne { try target.replay() }
    try trail.transaction {
      try trail.refresh("t", .chunk(.keys(after: [nil, text(Self.upper), nil], through: nil)))
      try trail.row("t", [isOne ? 1 : 2, text(Self.lower), .text(Array(value.utf8))])
      try trail.refresh("t", .end(rows: 2))
    }
    let error = try #require(failure { try target.replay() })
    #expect(error.code == .rowExists && error.message.contains(Self.lower), "\(error.message)")
    let isMade = try target.psql("SELECT count(*) FROM pg_class WHERE relname = 't'") == "1"
    // On a slow machine both chunks may have become two commits, in each run.
    if isOne, isMade { return }
    if !isOne { try expectRefused(target, Self.lower) }
    #expect(try target.psql("SELECT count(*) FROM pg_class WHERE relname = 't'") == (isOne ? "0" : "1"))
    if !isOne { #expect(try target.psql("SELECT id, k FROM t") == "1|\(Self.lower)") }
  }

  @Test func `two spellings of another unique value stop the copy`() throws {
    let target = try PostgresTarget()
    try target.trail.shape("CREATE TABLE t(id INTEGER PRIMARY KEY, u UUID UNIQUE)")
    try target.trail.transaction {
      try target.trail.create("t")
      try target.trail.copy("t", [[1, text(Self.upper)], [2, text(Self.lower)]])
    }
    try expectRefused(target, Self.lower)
  }

  @Test func `a second spelling that a change brings during the copy, or after it, stops it`() throws {
    for isInCopy in [true, false] {
      let target = try PostgresTarget()
      let trail = target.trail
      try trail.shape(Self.table)
      try trail.transaction {
        try trail.create("t")
        try trail.refresh("t", .start(.firstCopy, .byKey, estimatedRows: 1))
        try trail.refresh("t", .chunk(.keys(after: nil, through: isInCopy ? [text(Self.upper), nil] : nil)))
        try trail.row("t", [text(Self.upper), "x"])
        if !isInCopy { try trail.refresh("t", .end(rows: 1)) }
      }
      try target.replay()
      try trail.transaction { try trail.insert("t", [text(Self.lower), "y"]) }
      try expectRefused(target, Self.lower)
      #expect(try target.psql("SELECT * FROM t") == "\(Self.lower)|x")
    }
  }

  @Test func `a key that a change moves to a second spelling during the copy stops it`() throws {
    let target = try PostgresTarget()
    let trail = target.trail
    try trail.shape(Self.table)
    try trail.transaction {
      try trail.create("t")
      try trail.refresh("t", .start(.firstCopy, .byKey, estimatedRows: 2))
      try trail.refresh("t", .chunk(.keys(after: nil, through: [text(Self.other), nil])))
      try trail.row("t", [text(Self.upper), "x"])
      try trail.row("t", [text(Self.other), "y"])
    }
    try target.replay()
    try trail.transaction { try trail.update("t", [text(Self.other), "y"], [text(Self.lower), nil]) }
    try expectRefused(target, Self.lower)
    #expect(try target.psql("SELECT v FROM t ORDER BY k") == "x\ny")
  }

  @Test func `a row that is read again during the copy takes its own place`() throws {
    let target = try PostgresTarget()
    let trail = target.trail
    try trail.shape(Self.table)
    try trail.transaction {
      try trail.create("t")
      try trail.refresh("t", .start(.firstCopy, .byKey, estimatedRows: 2))
      try trail.refresh("t", .chunk(.keys(after: nil, through: [text(Self.upper), nil])))
      try trail.row("t", [text(Self.upper), "x"])
      try trail.refresh("t", .chunk(.some))
      try trail.row("t", [text(Self.upper), "again"])
      try trail.refresh("t", .chunk(.keys(after: [text(Self.upper), nil], through: nil)))
      try trail.row("t", [text(Self.other), "y"])
      try trail.refresh("t", .end(rows: 2))
    }
    try target.replay()
    #expect(try target.psql("SELECT v FROM t ORDER BY k") == "again\ny")
  }

  @Test("rows that changes wrote before their chunk are taken, in one run and in several", arguments: [true, false])
  func early(isOne: Bool) throws {
    let target = try PostgresTarget()
    let trail = target.trail
    let keys = (0..<200).map { "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD38\(String(1000 + $0))" }
    try trail.shape(Self.table)
    try trail.transaction {
      try trail.create("t")
      try trail.refresh("t", .start(.firstCopy, .byKey, estimatedRows: 200))
      try trail.refresh("t", .chunk(.keys(after: nil, through: [text(keys[99]), nil])))
      for key in keys[..<100] where key != keys[50] { try trail.row("t", [text(key), "x"]) }
    }
    if !isOne { try target.replay() }
    try trail.transaction {
      // One in the chunk that has been copied, the others ahead of theirs.
      try trail.insert("t", [text(keys[50]), "i"])
      try trail.insert("t", [text(keys[150]), "i"])
      try trail.update("t", [text(keys[151]), "x"], [nil, "u"])
      try trail.update("t", [text(keys[150]), "i"], [nil, "iu"])
      try trail.update("t", [text(keys[20]), "x"], [text(keys[160]), nil])
      try trail.update("t", [text(keys[161]), "x"], [text(keys[20]), "back"])
      try trail.delete("t", [text(keys[152]), "x"])
      try trail.delete("t", [text(keys[30]), "x"])
      try trail.update("t", [text(keys[150]), "iu"], [text(keys[150].lowercased()), nil])
    }
    if !isOne { try target.replay() }
    try trail.transaction {
      try trail.refresh("t", .chunk(.keys(after: [text(keys[99]), nil], through: nil)))
      for (index, key) in keys.enumerated() where index >= 100 {
        switch index {
        case 150: try trail.row("t", [text(key.lowercased()), "iu"])
        case 151: try trail.row("t", [text(key), "u"])
        case 152, 161: continue
        default: try trail.row("t", [text(key), "x"])
        }
      }
      try trail.refresh("t", .end(rows: 200))
    }
    try target.replay()
    #expect(try target.psql("SELECT count(*) FROM t") == "197")
    #expect(try target.psql("SELECT v, count(*) FROM t GROUP BY 1 ORDER BY 1") == "back|1\ni|1\niu|1\nu|1\nx|193")
    try trail.transaction { try trail.delete("t", [text(keys[160]), "x"]) }
    try target.replay()
    #expect(try target.psql("SELECT count(*) FROM t") == "196")
  }
}
