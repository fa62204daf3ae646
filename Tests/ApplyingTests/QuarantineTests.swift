import Changes
import Foundation
import SQLiteKit
import SystemKit
import TestServers
import Testing
import Trails
@testable import Applying

/// A change that the target does not take is put aside, with all that depends on it, and comes back in order.
@Suite struct QuarantineTests {
  /// The target takes no negative amounts; the source does.
  private func started() throws -> Handmade {
    let made = try Handmade(TempFolder())
    try made.run(
      "CREATE TABLE t(id INTEGER PRIMARY KEY, a CHECK (a >= 0)); CREATE TABLE c(id INTEGER PRIMARY KEY, t REFERENCES t)"
    )
    try made.begin("CREATE TABLE t(id INTEGER PRIMARY KEY, a)", "t", [[1, 1], [2, 2]])
    try made.begin("CREATE TABLE c(id INTEGER PRIMARY KEY, t REFERENCES t)", "c", [])
    made.options.quarantines = true
    return made
  }

  /// Transactions 3 to 8: the target refuses the first; the second and the fourth depend on it.
  private func write(_ made: Handmade) throws {
    try made.transaction { try made.insert("t", [3, -3]) }
    try made.transaction { try made.insert("c", [1, 3]) }
    try made.transaction { try made.update("t", [1, 1], [nil, 10]) }
    try made.transaction {
      try made.update("t", [2, 2], [nil, 20])
      try made.update("c", [1, 3], [nil, 2])
    }
    try made.transaction { try made.update("t", [2, 20], [nil, 21]) }
    try made.transaction { try made.insert("t", [4, 4]) }
  }

  private func log(_ made: Handmade) throws -> [QuarantinedTransaction] {
    try QuarantineLog(Database(path: made.target)).list()
  }

  private func ask(_ made: Handmade, _ id: Int64, _ wish: QuarantinedTransaction.Wish) throws {
    #expect(try QuarantineLog(Database(path: made.target, mode: .readWrite)).ask(id, for: wish))
  }

  /// The target takes negative amounts from here on.
  private func mend(_ made: Handmade) throws {
    try made.run(
      """
      CREATE TABLE n(id INTEGER PRIMARY KEY, a); INSERT INTO n SELECT * FROM t; DROP TABLE t;
      ALTER TABLE n RENAME TO t
      """)
  }

  @Test(arguments: [
    "CREATE INDEX i ON w(json_extract(c, '$.a'))", "CREATE INDEX i ON w(id) WHERE json_extract(c, '$.a') > 1",
  ])
  func `a row that a function of an index does not take is put aside`(index: String) throws {
    let made = try started()
    try made.run("CREATE TABLE w(id INTEGER PRIMARY KEY, c); \(index)")
    try made.begin("CREATE TABLE w(id INTEGER PRIMARY KEY, c)", "w", [[1, "{}"]])
    try made.transaction { try made.insert("w", [2, "{bad"]) }
    try made.transaction { try made.update("w", [1, "{}"], [nil, "{worse"]) }
    try made.transaction { try made.insert("t", [3, 3]) }
    for _ in 0..<2 { try made.replay() }
    #expect(try log(made).map(\.code) == ["value-misfit", "value-misfit"])
    #expect(try made.rows("SELECT id FROM t") == [[1], [2], [3]])
    #expect(try made.rows("SELECT * FROM w") == [[1, "{}"]])
  }

  @Test func `changes that depend on it wait, and all else goes on`() throws {
    let made = try started()
    try write(made)
    let progress = ApplyProgress()
    try made.open(progress).drain()
    let kept = try log(made)
    #expect(kept.map(\.number) == [3, 4, 6, 7])
    #expect(kept.map(\.heldBy) == [nil, 1, 1, 3])
    #expect(kept.map(\.code) == ["constraint-failed"] + Array(repeating: "quarantine-held", count: 3))
    #expect(kept[0].message.contains("row id=3") && kept[0].writeSet.changeCount == 1)
    #expect(try made.rows("SELECT * FROM t") == [[1, 10], [2, 2], [4, 4]])
    #expect(try made.rows("SELECT * FROM c") == [])
    #expect(progress.snapshot.quarantined == 4)
    // The same at the next start, and for what comes then.
    try made.transaction { try made.delete("c", [1, 2]) }
    try made.transaction { try made.insert("t", [5, 5]) }
    try made.replay()
    #expect(try log(made).map(\.number) == [3, 4, 6, 7, 9])
    #expect(try made.rows("SELECT id FROM t") == [[1], [2], [4], [5]])
  }

  @Test func `without it, apply stops`() throws {
    let made = try started()
    made.options.quarantines = false
    try write(made)
    #expect(failure { try made.replay() }?.code == .constraintFailed)
    #expect(try log(made).isEmpty)
  }

  @Test func `once the target is mended, all come back in their order`() throws {
    let made = try started()
    try write(made)
    try made.replay()
    // Nothing is mended yet: it stays, with those that it holds.
    try ask(made, 1, .retry)
    try made.replay()
    #expect(try log(made).map(\.number) == [3, 4, 6, 7])
    #expect(try log(made).allSatisfy { $0.wish == nil })
    try mend(made)
    try ask(made, 1, .retry)
    let progress = ApplyProgress()
    try made.open(progress).drain()
    #expect(try log(made).isEmpty)
    #expect(progress.snapshot.quarantined == 0)
    #expect(try made.rows("SELECT * FROM t") == [[1, 10], [2, 21], [3, -3], [4, 4]])
    #expect(try made.rows("SELECT * FROM c") == [[1, 2]])
  }

  @Test func `those that were held are tried when it is discarded`() throws {
    let made = try started()
    try made.transaction { try made.update("t", [1, 1], [nil, -1]) }
    try made.transaction { try made.update("t", [1, -1], [nil, 5]) }
    try made.transaction {
      try made.update("t", [1, 5], [nil, 6])
      try made.insert("t", [7, 7])
    }
    try made.replay()
    try ask(made, 1, .discard)
    try made.replay()
    // The second does not find what the first would have left; the third still waits, for the second.
    let kept = try log(made)
    #expect(kept.map(\.number) == [4, 5])
    #expect(kept.map(\.code) == ["row-differs", "quarantine-held"])
    try made.run("UPDATE t SET a = 5 WHERE id = 1")
    try ask(made, 2, .discard)
    try made.replay()
    #expect(try log(made).isEmpty)
    #expect(try made.rows("SELECT * FROM t") == [[1, 6], [2, 2], [7, 7]])
  }

  @Test func `a change of shape waits with its table`() throws {
    let made = try started()
    try made.run("ALTER TABLE t ADD COLUMN b")
    try made.transaction { try made.insert("t", [3, -3]) }
    try made.transaction { try made.reshape("t", "CREATE TABLE t(id INTEGER PRIMARY KEY, a, b)") }
    try made.transaction { try made.insert("t", [4, 4, 4]) }
    try made.transaction { try made.insert("c", [9, .null]) }
    try made.replay()
    #expect(try log(made).map(\.number) == [3, 4, 5])
    #expect(try made.rows("SELECT id FROM c") == [[9]])
    try ask(made, 1, .discard)
    try made.replay()
    #expect(try log(made).isEmpty)
    #expect(try made.rows("SELECT * FROM t WHERE id > 2") == [[4, 4, 4]])
  }

  @Test func `the part of the trail that it needs is not forgotten`() throws {
    let made = try started()
    made.options.purgesTrail = true
    try made.transaction { try made.insert("t", [3, -3]) }
    var generator = SystemRandomNumberGenerator()
    for id in 10..<40 as Range<Int64> {
      let blob = (0..<(1 << 17)).flatMap { _ in withUnsafeBytes(of: generator.next()) { Array($0) } }
      try made.transaction { try made.insert("c", [.integer(id), .blob(blob)]) }
    }
    for _ in 0..<2 { try made.replay() }
    let progress = ApplyProgress()
    try made.open(progress).drain()
    #expect(progress.snapshot.needs?.segment == 1 && progress.snapshot.position.segment > 1)
    try mend(made)
    try ask(made, 1, .retry)
    try made.replay()
    #expect(try made.rows("SELECT a FROM t WHERE id = 3") == [[-3]])
    let segments = try FileManager.default.contentsOfDirectory(atPath: made.trail).filter { $0.hasSuffix(".seg") }
    #expect(!segments.contains("00000001.seg"), "\(segments)")
  }

  @Test func `each is put aside once, however small the commits and however often apply begins`() throws {
    let made = try started()
    try write(made)
    made.options.commitRows = 1
    for _ in 0..<3 { try made.replay() }
    #expect(try log(made).map(\.number) == [3, 4, 6, 7])
    #expect(try log(made).map(\.id) == [1, 2, 3, 4])
    #expect(try made.rows("SELECT id FROM t") == [[1], [2], [4]])
  }

  @Test func `a copy of everything brings what was put aside`() throws {
    let made = try started()
    try write(made)
    try made.replay()
    try SQLiteApplyState(Database(path: made.target, mode: .readWrite), of: made.name).expectRefreshOfAll()
    #expect(try log(made).isEmpty)
  }

  @Test func `footprints are the same after they were written`() throws {
    var writeSet = WriteSet()
    writeSet.touchAll(of: "a\\n \nb")
    writeSet.tables.insert("c")
    writeSet.rows = [.init(table: "c", key: [1])]
    writeSet.parents = [.init(table: "a", key: ["x"])]
    writeSet.changeCount = 3
    #expect(WriteSet(writeSet.text) == writeSet)
    #expect(WriteSet("other 1") == nil)
  }

  @Test(arguments: ["\u{301}x", "x\u{301}", "\r", "\n", "\r\n", "\n\u{301}", " \u{fe0f}", "\\", "\\n", "\u{200d}\\"])
  func `a writeSet comes back from its text, whatever the name of a table is`(name: String) {
    var writeSet = WriteSet()
    writeSet.touchAll(of: name)
    writeSet.tables.insert("c")
    writeSet.changeCount = 1
    #expect(WriteSet(writeSet.text) == writeSet)
  }
}
