import Applying
import Changes
import SQLiteKit
import SystemKit
import TestServers
import Testing

/// Invariant 4: the checkpoint moves with the rows, once.
@Suite struct CheckpointTests {
  private let table = "CREATE TABLE t(id INTEGER PRIMARY KEY, a)"

  private func checkpoint(_ made: Handmade) throws -> [[Value]] {
    try made.rows("SELECT segment, offset, chain, number FROM cairn_checkpoint")
  }

  @Test func `the second of two applies sees that the checkpoint was moved, and applies nothing`() throws {
    let made = try Handmade(TempFolder())
    try made.begin("CREATE TABLE f(a)", "f", [[1]], .whole)
    let (first, second) = (try made.open(), try made.open())
    try made.transaction { try made.insert("f", [2]) }
    try first.drain()
    let there = try checkpoint(made)
    #expect(failure { try second.drain() }?.code == .checkpointMoved)
    #expect(try made.rows("SELECT a FROM f ORDER BY a") == [[1], [2]])
    #expect(try checkpoint(made) == there)
    try made.replay()
    #expect(try made.rows("SELECT count(*) FROM f") == [[2]])
  }

  @Test func `two applies that begin an empty target together do not both begin it`() throws {
    let made = try Handmade(TempFolder())
    let (first, second) = (try made.open(), try made.open())
    try made.run("CREATE TABLE f(a)")
    try made.shape("CREATE TABLE f(a)")
    try made.transaction { try made.insert("f", [1]) }
    try first.drain()
    #expect(failure { try second.drain() }?.code == .checkpointMoved)
    #expect(try made.rows("SELECT count(*) FROM f") == [[1]])
  }

  @Test func `nothing of a transaction that fails stays, and the next run fails at the same place`() throws {
    let made = try Handmade(TempFolder())
    try made.begin(table, "t", [[1, 1], [2, 2]])
    let there = try checkpoint(made)
    try made.transaction {
      try made.insert("t", [3, 3])
      try made.delete("t", [1, 1])
      try made.update("t", [9, 9], [nil, 10])
    }
    for _ in 0..<2 {
      #expect(failure { try made.replay() }?.code == .rowMissing)
      #expect(try made.rows("SELECT id, a FROM t ORDER BY id") == [[1, 1], [2, 2]])
      #expect(try checkpoint(made) == there)
    }
    try made.run("INSERT INTO t VALUES (9,9)")
    try made.replay()
    #expect(try made.rows("SELECT id, a FROM t ORDER BY id") == [[2, 2], [3, 3], [9, 10]])
  }

  @Test func `a target that was fed from another trail is refused`() throws {
    let folder = try TempFolder()
    let made = try Handmade(folder)
    try made.begin(table, "t", [[1, 1]])
    let other = try Handmade(folder, trail: "other")
    try other.shape(table)
    try other.transaction { try other.insert("t", [2, 2]) }
    #expect(failure { try other.replay() }?.code == .checkpointForeign)
    #expect(try made.rows("SELECT count(*) FROM t") == [[1]])
  }

  @Test func `a checkpoint after the end of the trail is refused`() throws {
    let made = try Handmade(TempFolder())
    try made.begin(table, "t", [[1, 1]])
    try made.run("UPDATE cairn_checkpoint SET offset = offset + 100000")
    #expect(failure { try made.replay() }?.code == .checkpointForeign)
  }

  @Test func `a run that has nothing to do changes nothing`() throws {
    let made = try Handmade(TempFolder())
    try made.begin(table, "t", [[1, 1]])
    let there = try made.rows("SELECT * FROM cairn_checkpoint")
    try made.replay()
    #expect(try made.rows("SELECT * FROM cairn_checkpoint") == there)
  }

  @Test func `a record of a kind that is reserved stops apply`() throws {
    let made = try Handmade(TempFolder())
    try made.begin(table, "t", [[1, 1]])
    try made.transaction {
      try made.insert("t", [2, 2])
      try made.raw(kind: RecordKind.reserved, [0])
    }
    #expect(failure { try made.replay() }?.code == .trailVersion)
    #expect(try made.rows("SELECT count(*) FROM t") == [[1]])
  }

  @Test func `optional records that are not known are passed over`() throws {
    let made = try Handmade(TempFolder())
    try made.begin(table, "t", [[1, 1]])
    try made.transaction {
      try made.raw(kind: 0xf0, [1, 2, 3])
      try made.insert("t", [2, 2])
    }
    try made.replay()
    #expect(try made.rows("SELECT count(*) FROM t") == [[2]])
  }
}
