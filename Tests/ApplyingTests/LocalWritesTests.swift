import Changes
import Conflicts
import Foundation
import SQLiteKit
import SystemKit
import Testing
import Trails
@testable import Applying

/// Writes of applications to an SQLite target of a way that leads only there.
@Suite struct LocalWritesTests {
  private func started(_ writes: LocalWrites, _ columns: String = "id INTEGER PRIMARY KEY, a, b") throws -> Handmade {
    let made = try Handmade(TempFolder())
    made.options.localWrites = LocalWritesPlan(writes)
    try made.begin("CREATE TABLE t(\(columns))", "t", (1...6).map { [.integer($0), .integer($0), 0] })
    return made
  }

  private func log(_ made: Handmade) throws -> [ConflictRecord] {
    try ConflictLog(Database(path: made.target)).list(before: nil, limit: 100).reversed()
  }

  private func rows(_ made: Handmade) throws -> [[Value]] { try made.rows("SELECT * FROM t ORDER BY id") }

  @Test(arguments: [LocalWrites.allow, .undo])
  func `a row that is written here stays until the source writes to it`(_ writes: LocalWrites) throws {
    let made = try started(writes)
    try made.run(
      """
      UPDATE t SET a = 70 WHERE id IN (1, 2, 5); DELETE FROM t WHERE id IN (3, 4);
      INSERT INTO t VALUES (10, 70, 0), (11, 70, 0)
      """)
    try made.transaction {
      try made.update("t", [1, 1, 0], [nil, nil, 9])
      try made.delete("t", [2, 2, 0])
      try made.update("t", [3, 3, 0], [nil, 9, nil])
      try made.delete("t", [4, 4, 0])
      try made.insert("t", [10, 9, 9])
    }
    try made.transaction { try made.update("t", [6, 6, 0], [nil, 9, nil]) }
    let progress = ApplyProgress()
    try made.open(progress).drain()
    #expect(try rows(made) == [[1, 1, 9], [3, 9, 0], [5, 70, 0], [6, 9, 0], [10, 9, 9], [11, 70, 0]])
    let log = try log(made)
    #expect(
      Dictionary(grouping: log, by: { $0.key["id"] ?? .null }).mapValues { $0.map(\.kind) } == [
        1: [.updateOriginDiffers], 2: [.deleteOriginDiffers], 3: [.updateMissing], 4: [.deleteMissing],
        10: [.insertExists],
      ])
    let first = try #require(log.first { $0.key["id"] == 1 })
    #expect(first.rule == writes.rawValue && first.winner == .incoming && first.number == 2)
    #expect(first.local?["a"] == 70 && first.incoming?["b"] == 9 && first.settled == first.incoming)
    #expect(progress.snapshot.conflicts == 5)
  }

  @Test func `with stop, apply stops`() throws {
    let made = try started(.stop)
    try made.run("UPDATE t SET a = 70 WHERE id = 1")
    try made.transaction { try made.update("t", [1, 1, 0], [nil, nil, 9]) }
    #expect(failure { try made.replay() }?.code == .rowDiffers)
  }

  /// The next copy, asked for as `cairn copy` does.
  private func copied(_ writes: LocalWrites) throws -> Handmade {
    let made = try started(writes)
    try made.run("UPDATE t SET a = 70 WHERE id = 1; DELETE FROM t WHERE id = 2; INSERT INTO t VALUES (10, 70, 0)")
    try made.transaction {
      try made.copy("t", (1...6).map { [.integer($0), .integer($0), 0] }, reason: .asked)
    }
    try made.replay()
    return made
  }

  @Test func `a copy keeps rows that only the target has`() throws {
    let made = try copied(.allow)
    #expect(try rows(made) == [[1, 1, 0], [2, 2, 0], [3, 3, 0], [4, 4, 0], [5, 5, 0], [6, 6, 0], [10, 70, 0]])
    // After the copy, differences are reported as before.
    try made.run("UPDATE t SET a = 71 WHERE id = 1")
    try made.transaction { try made.update("t", [1, 1, 0], [nil, 9, nil]) }
    try made.replay()
    #expect(try log(made).map(\.kind) == [.updateOriginDiffers])
    // And once nothing of that is allowed any more, apply stops there.
    made.options.localWrites = LocalWritesPlan(.stop)
    try made.run("UPDATE t SET a = 72 WHERE id = 1")
    try made.transaction { try made.update("t", [1, 9, 0], [nil, 10, nil]) }
    #expect(failure { try made.replay() }?.code == .rowDiffers)
  }

  @Test func `a copy undoes them`() throws {
    #expect(try rows(copied(.undo)) == (1...6).map { [.integer($0), .integer($0), 0] })
  }

  @Test func `a row here that has the source's unique value gives way, and is kept in the log`() throws {
    let made = try started(.allow, "id INTEGER PRIMARY KEY, a UNIQUE, b")
    try made.run("INSERT INTO t VALUES (10, 70, 0), (11, 71, 0), (12, 72, 0)")
    try made.transaction { try made.insert("t", [7, 70, 0]) }
    try made.transaction { try made.update("t", [1, 1, 0], [nil, 71, nil]) }
    try made.transaction { try made.copy("t", [[8, 72, 0]], reason: .asked) }
    try made.replay()
    #expect(try made.rows("SELECT id, a FROM t WHERE a >= 70 ORDER BY id") == [[1, 71], [7, 70], [8, 72]])
    let log = try log(made)
    #expect(log.map(\.kind) == Array(repeating: .multipleUniqueConflicts, count: 3))
    #expect(log.map { $0.local?["id"] } == [10, 11, 12] && log.allSatisfy { $0.settled == nil })
  }

  @Test func `so does one that has it in an index over an expression of a part of the rows`() throws {
    let made = try started(.allow, "id INTEGER PRIMARY KEY, a, b")
    try made.run(
      """
      CREATE UNIQUE INDEX part ON t(abs(a)) WHERE b = 0;
      INSERT INTO t VALUES (10, -70, 0), (11, 71, 1), (12, -71, 0)
      """)
    try made.transaction { try made.insert("t", [7, 70, 0]) }
    try made.transaction { try made.update("t", [1, 1, 0], [nil, 71, nil]) }
    try made.replay()
    #expect(try made.rows("SELECT id, a FROM t WHERE abs(a) >= 70 ORDER BY id") == [[1, 71], [7, 70], [11, 71]])
    #expect(try log(made).map { $0.local?["id"] } == [10, 12])
  }

  @Test func `a row that moves meets what has its new key`() throws {
    let made = try started(.allow)
    try made.run("INSERT INTO t VALUES (10, 70, 0); UPDATE t SET a = 70 WHERE id = 2")
    try made.transaction { try made.update("t", [1, 1, 0], [10, nil, nil]) }
    try made.transaction { try made.update("t", [2, 2, 0], [12, nil, nil]) }
    try made.replay()
    #expect(try made.rows("SELECT * FROM t WHERE id < 3 OR id > 9 ORDER BY id") == [[10, 1, 0], [12, 2, 0]])
    #expect(try log(made).map(\.kind) == [.updateExists, .updateOriginDiffers])
  }

  @Test func `several changes of a row that is gone end as at the source`() throws {
    let made = try started(.allow)
    try made.run("DELETE FROM t WHERE id <= 4")
    try made.transaction {
      try made.update("t", [1, 1, 0], [nil, 8, nil])
      try made.update("t", [1, 8, 0], [nil, 9, nil])
      try made.update("t", [2, 2, 0], [nil, 9, nil])
      try made.delete("t", [2, 9, 0])
      try made.update("t", [3, 3, 0], [nil, 9, nil])
      try made.delete("t", [3, 9, 0])
      try made.insert("t", [3, 5, 5])
    }
    // Triggers of the source put the later change first: that is no meeting.
    try made.transaction {
      try made.update("t", [20, 1, 1], [nil, 2, nil])
      try made.insert("t", [20, 1, 1])
    }
    try made.replay()
    #expect(try rows(made) == [[1, 9, 0], [3, 5, 5], [5, 5, 0], [6, 6, 0], [20, 2, 1]])
    #expect(try log(made).filter { $0.key["id"] == 20 }.isEmpty)
  }

  @Test func `rows of PostgreSQL that are known in part are passed over, and logged`() throws {
    let made = try Handmade(TempFolder())
    made.options.localWrites = LocalWritesPlan(tables: [.init(from: "item", .allow)])
    let schema = TableSchema(
      epoch: 1, engine: .postgres, namespace: "public", name: "item",
      columns: [("id", "bigint"), ("a", "text"), ("b", "text")].map { name, type in
        .init(name: name, declaredType: type, isNotNull: name == "id", keyOrdinal: name == "id" ? 1 : 0)
      }, createText: "CREATE TABLE …")
    made.shape(schema)
    try made.transaction {
      try made.create("item")
      try made.copy("item", (1...4).map { [.integer($0), "a", "b"] })
    }
    try made.replay()
    try made.run("DELETE FROM item WHERE id IN (1, 2, 4); UPDATE item SET b = 'ours' WHERE id = 3")
    try made.transaction { try made.update("item", to: [1, "x", nil]) }
    try made.transaction { try made.update("item", to: [2, "x", "y"]) }
    try made.transaction { try made.delete("item", [4, nil, nil]) }
    let progress = ApplyProgress()
    try made.open(progress).drain()
    #expect(try made.rows("SELECT * FROM item ORDER BY id") == [[2, "x", "y"], [3, "a", "ours"]])
    let log = try log(made)
    #expect(log.map(\.kind) == [.updateMissing, .updateMissing, .deleteMissing])
    #expect(log.map(\.winner) == [.local, .incoming, .incoming])
    #expect(progress.snapshot.notices.contains { $0.contains("stays deleted") })
  }

  @Test func `a table without a key waits, unless it is left as it was`() throws {
    let made = try Handmade(TempFolder())
    made.options.localWrites = LocalWritesPlan(.allow)
    #expect(failure { try made.begin("CREATE TABLE t(a)", "t", [[1]], .whole) }?.code == .schemaStopped)
    made.options.localWrites.tables = [.init(from: "t", .stop)]
    try made.replay()
    #expect(try made.rows("SELECT * FROM t") == [[1]])
  }

  // MARK: Refused

  /// Returns SQLite's error for a program that runs `sql`; nil if SQLite accepts it.
  private func refusal(_ made: Handmade, _ sql: String) -> String? {
    do {
      try made.run(sql)
      return nil
    } catch { return "\(error)" }
  }

  @Test func `who writes to a table that refuses it gets an error, apply does not`() throws {
    let made = try started(.refuse)
    for sql in [
      "INSERT INTO t VALUES (7, 7, 7)", "UPDATE t SET a = 7 WHERE id = 1", "DELETE FROM t WHERE id = 1",
      "REPLACE INTO t VALUES (1, 7, 7)",
    ] { #expect(refusal(made, sql)?.contains("table t is a replica") == true, "\(sql)") }
    try made.transaction { try made.update("t", [1, 1, 0], [nil, 9, nil]) }
    try made.transaction { try made.copy("t", [[1, 9, 0], [2, 2, 0]], reason: .asked) }
    try made.replay()
    #expect(try rows(made) == [[1, 9, 0], [2, 2, 0]])
    #expect(refusal(made, "CREATE TABLE own(a); INSERT INTO own VALUES (1)") == nil)
  }

  @Test func `tables that are made, renamed and reshaped are guarded, and those that go leave nothing`() throws {
    let made = try started(.refuse)
    try made.transaction { try made.reshape("t", "CREATE TABLE u(id INTEGER PRIMARY KEY, a, b)", as: .rename, to: "u") }
    try made.replay()
    #expect(refusal(made, "DELETE FROM u")?.contains("table u is a replica") == true)
    try made.transaction {
      try made.reshape("u", "CREATE TABLE u(id INTEGER PRIMARY KEY, a TEXT NOT NULL DEFAULT 'x', c)", isRefreshed: true)
      try made.copy("u", [[1, "x", 1]], reason: .asked)
    }
    try made.replay()
    #expect(refusal(made, "DELETE FROM u")?.contains("table u is a replica") == true)
    #expect(try made.rows("SELECT * FROM u") == [[1, "x", 1]])
    try made.transaction { try made.drop("u") }
    try made.replay()
    #expect(try made.rows("SELECT name FROM sqlite_master WHERE type = 'trigger'").isEmpty)
  }

  @Test func `it ends with the option, with the trail, and table by table`() throws {
    let made = try started(.refuse)
    let triggers = "SELECT count(*) FROM sqlite_master WHERE type = 'trigger'"
    #expect(try made.rows(triggers) == [[3]])
    made.options.localWrites.tables = [.init(from: "t", .stop)]
    try made.replay()
    #expect(try made.rows(triggers) == [[0]])
    made.options.localWrites = LocalWritesPlan(tables: [.init(from: "t*", .refuse)])
    try made.replay()
    #expect(try made.rows(triggers) == [[3]])
    #expect(try SQLiteApplyState(Database(path: made.target, mode: .readWrite), of: made.name).forgetTrail())
    #expect(try made.rows(triggers) == [[0]])
  }
}
