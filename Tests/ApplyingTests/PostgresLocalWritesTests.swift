import Changes
import Conflicts
import Foundation
import PostgresKit
import SystemKit
import TestServers
import Testing
@testable import Applying

/// Writes of applications to a PostgreSQL target of a way that leads only there.
@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
struct PostgresLocalWritesTests {
  private func started(_ writes: LocalWrites, _ columns: String = "id INTEGER PRIMARY KEY, a INTEGER, b INTEGER") throws
    -> PostgresTarget
  {
    let target = try PostgresTarget()
    target.options.localWrites = LocalWritesPlan(writes)
    try target.begin("CREATE TABLE t(\(columns))", "t", (1...6).map { [.integer($0), .integer($0), 0] })
    return target
  }

  private func log(_ target: PostgresTarget) throws -> [ConflictRecord] {
    try ConflictLog(PostgresConnection(target.url)).list(before: nil, limit: 100).reversed()
  }

  private static func id(_ row: ConflictRow?) -> String { row?["id"]?.postgresInput ?? "" }

  private func rows(_ target: PostgresTarget) throws -> String {
    try target.psql("SELECT string_agg(concat_ws(':', id, a, b), ' ' ORDER BY id) FROM t")
  }

  @Test(arguments: [LocalWrites.allow, .undo])
  func `a row that is written here stays until the source writes to it`(_ writes: LocalWrites) throws {
    let target = try started(writes)
    let made = target.trail
    try target.psql(
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
    try target.replay()
    #expect(try rows(target) == "1:1:9 3:9:0 5:70:0 6:9:0 10:9:9 11:70:0")
    let log = try log(target)
    let kinds = Dictionary(grouping: log) { Self.id($0.key) }
      .mapValues { $0.map(\.kind) }
    #expect(
      kinds == [
        "1": [.updateOriginDiffers], "2": [.deleteOriginDiffers], "3": [.updateMissing], "4": [.deleteMissing],
        "10": [.insertExists],
      ])
    let first = try #require(log.first { $0.kind == .updateOriginDiffers })
    #expect(first.rule == writes.rawValue && first.winner == .incoming)
    #expect(first.local?["a"] == .exact("70") && first.settled?["a"] == .exact("1"))
    #expect(target.progress.snapshot.conflicts == 5)
  }

  @Test func `with stop, apply stops`() throws {
    let target = try started(.stop)
    try target.psql("UPDATE t SET a = 70 WHERE id = 1")
    try target.trail.transaction { try target.trail.update("t", [1, 1, 0], [nil, nil, 9]) }
    #expect(failure { try target.replay() }?.code == .rowDiffers)
  }

  /// The next copy, asked for as `cairn copy` does.
  private func copied(_ writes: LocalWrites) throws -> PostgresTarget {
    let target = try started(writes)
    try target.psql("UPDATE t SET a = 70 WHERE id = 1; DELETE FROM t WHERE id = 2; INSERT INTO t VALUES (10, 70, 0)")
    let made = target.trail
    try made.transaction {
      try made.copy("t", (1...6).map { [.integer($0), .integer($0), 0] }, reason: .asked)
    }
    try target.replay()
    return target
  }

  @Test func `a copy keeps rows that only the target has`() throws {
    let target = try copied(.allow)
    #expect(try rows(target) == "1:1:0 2:2:0 3:3:0 4:4:0 5:5:0 6:6:0 10:70:0")
    // After the copy, differences are reported as before.
    try target.psql("UPDATE t SET a = 71 WHERE id = 1")
    try target.trail.transaction { try target.trail.update("t", [1, 1, 0], [nil, 9, nil]) }
    try target.replay()
    #expect(try log(target).map(\.kind) == [.updateOriginDiffers])
    // And once nothing of that is allowed any more, apply stops there.
    target.options.localWrites = LocalWritesPlan(.stop)
    try target.psql("UPDATE t SET a = 72 WHERE id = 1")
    try target.trail.transaction { try target.trail.update("t", [1, 9, 0], [nil, 10, nil]) }
    #expect(failure { try target.replay() }?.code == .rowDiffers)
  }

  @Test func `a copy undoes them`() throws {
    #expect(try rows(copied(.undo)) == "1:1:0 2:2:0 3:3:0 4:4:0 5:5:0 6:6:0")
  }

  @Test func `a row here that has the source's unique value gives way, and is kept in the log`() throws {
    let target = try started(.allow, "id INTEGER PRIMARY KEY, a INTEGER UNIQUE, b INTEGER")
    let made = target.trail
    try target.psql("INSERT INTO t VALUES (10, 70, 0), (11, 71, 0), (12, 72, 0)")
    try made.transaction { try made.insert("t", [7, 70, 0]) }
    try made.transaction { try made.update("t", [1, 1, 0], [nil, 71, nil]) }
    try made.transaction { try made.copy("t", [[8, 72, 0]], reason: .asked) }
    try target.replay()
    #expect(
      try target.psql("SELECT string_agg(id || ':' || a, ' ' ORDER BY id) FROM t WHERE a >= 70") == "1:71 7:70 8:72")
    let log = try log(target)
    #expect(log.map(\.kind) == Array(repeating: .multipleUniqueConflicts, count: 3))
    let given = log.map { Self.id($0.local) }
    #expect(given == ["10", "11", "12"] && log.allSatisfy { $0.settled == nil })
  }

  @Test func `so does one that has it in an index over an expression of a part of the rows`() throws {
    let target = try started(.allow, "id INTEGER PRIMARY KEY, a INTEGER, b INTEGER")
    let made = target.trail
    try target.psql(
      """
      CREATE UNIQUE INDEX part ON t(abs(a)) WHERE b = 0;
      INSERT INTO t VALUES (10, -70, 0), (11, 71, 1), (12, -71, 0)
      """)
    try made.transaction { try made.insert("t", [7, 70, 0]) }
    try made.transaction { try made.update("t", [1, 1, 0], [nil, 71, nil]) }
    try target.replay()
    #expect(
      try target.psql("SELECT string_agg(id || ':' || a, ' ' ORDER BY id) FROM t WHERE abs(a) >= 70")
        == "1:71 7:70 11:71")
    #expect(try log(target).map { Self.id($0.local) } == ["10", "12"])
  }

  @Test func `several changes of a row that is gone end as at the source`() throws {
    let target = try started(.allow)
    let made = target.trail
    try target.psql("DELETE FROM t WHERE id <= 4; INSERT INTO t VALUES (10, 70, 0); UPDATE t SET a = 70 WHERE id = 5")
    try made.transaction {
      try made.update("t", [1, 1, 0], [nil, 8, nil])
      try made.update("t", [1, 8, 0], [nil, 9, nil])
      try made.update("t", [2, 2, 0], [nil, 9, nil])
      try made.delete("t", [2, 9, 0])
      try made.update("t", [3, 3, 0], [nil, 9, nil])
      try made.delete("t", [3, 9, 0])
      try made.insert("t", [3, 5, 5])
      try made.update("t", [5, 5, 0], [15, nil, nil])
    }
    // Triggers of the source put the later change first: that is no meeting.
    try made.transaction {
      try made.update("t", [6, 6, 0], [10, nil, nil])
      try made.update("t", [20, 1, 1], [nil, 2, nil])
      try made.insert("t", [20, 1, 1])
    }
    try target.replay()
    #expect(try rows(target) == "1:9:0 3:5:5 10:6:0 15:5:0 20:2:1")
    let log = try log(target)
    let keys = log.map { Self.id($0.key) }
    #expect(!keys.contains("20"))
    #expect(zip(log, keys).contains { $0.kind == .insertExists && $1 == "10" })
  }

  @Test func `rows of PostgreSQL that are known in part are passed over, and logged`() throws {
    let target = try PostgresTarget()
    target.options.localWrites = LocalWritesPlan(tables: [.init(from: "item", .allow)])
    try target.begin(
      postgres: "CREATE TABLE item(id bigint PRIMARY KEY, a text, b text, u text UNIQUE)", "item",
      (1...5).map { [.exact("\($0)"), "a", "b", .text(Array("\($0)".utf8))] })
    try target.psql(
      """
      DELETE FROM item WHERE id IN (1, 2, 4); UPDATE item SET b = 'ours' WHERE id = 3;
      INSERT INTO item VALUES (10, 'a', 'b', 'x')
      """)
    let made = target.trail
    try made.transaction { try made.update("item", to: [.exact("1"), "x", nil, "1"]) }
    try made.transaction { try made.update("item", to: [.exact("2"), "x", "y", "2"]) }
    try made.transaction { try made.delete("item", [.exact("4"), nil, nil, nil]) }
    try made.transaction { try made.update("item", to: [.exact("5"), "a", "b", "x"]) }
    try target.replay()
    #expect(
      try target.psql("SELECT string_agg(concat_ws(':', id, a, b, u), ' ' ORDER BY id) FROM item")
        == "2:x:y:2 3:a:ours:3 5:a:b:x")
    let log = try log(target)
    #expect(log.map(\.kind) == [.updateMissing, .updateMissing, .deleteMissing, .multipleUniqueConflicts])
    #expect(log.map(\.winner) == [.local, .incoming, .incoming, .incoming])
    #expect(target.progress.snapshot.notices.contains { $0.contains("stays deleted") })
  }

  @Test func `a table without a key waits`() throws {
    let target = try PostgresTarget()
    target.options.localWrites = LocalWritesPlan(.allow)
    #expect(failure { try target.begin("CREATE TABLE t(a INTEGER)", "t", [[1]], .whole) }?.code == .schemaStopped)
    #expect(target.progress.snapshot.waiting.map(\.code) == [.tableRefused])
  }

  // MARK: Refused

  private func refuses(_ target: PostgresTarget, _ sql: String) -> Bool {
    do {
      try target.psql(sql)
      return false
    } catch { return "\(error)".contains("is a replica") }
  }

  private static let triggers = "SELECT count(*) FROM pg_trigger WHERE tgname ~ '^cairn_refuse'"

  @Test func `who writes to a table that refuses it gets an error, apply does not`() throws {
    let target = try started(.refuse)
    let made = target.trail
    for sql in [
      "INSERT INTO t VALUES (7, 7, 7)", "UPDATE t SET a = 7 WHERE id = 1", "DELETE FROM t WHERE id = 1", "TRUNCATE t",
    ] { #expect(refuses(target, sql), "\(sql)") }
    try made.transaction { try made.update("t", [1, 1, 0], [nil, 9, nil]) }
    try made.transaction { try made.copy("t", [[1, 9, 0], [2, 2, 0]], reason: .asked) }
    try target.replay()
    #expect(try rows(target) == "1:9:0 2:2:0")
  }

  @Test func `tables that are made, renamed and reshaped are guarded, and those that go leave nothing`() throws {
    let target = try started(.refuse)
    let made = target.trail
    try made.transaction {
      try made.reshape("t", "CREATE TABLE u(id INTEGER PRIMARY KEY, a INTEGER, b INTEGER)", as: .rename, to: "u")
    }
    try made.transaction {
      try made.reshape("u", "CREATE TABLE u(id INTEGER PRIMARY KEY, a TEXT, c INTEGER)", isRefreshed: true)
      try made.copy("u", [[1, "x", 1]], reason: .asked)
    }
    try target.replay()
    #expect(refuses(target, "DELETE FROM u"))
    try made.transaction { try made.drop("u") }
    try target.replay()
    #expect(try target.psql(Self.triggers) == "0")
  }

  @Test func `it ends with the option, with the trail, and table by table`() throws {
    let target = try started(.refuse)
    try target.psql("DROP TRIGGER cairn_refuse ON t")
    try target.replay()
    #expect(try target.psql(Self.triggers) == "2")
    target.options.localWrites.tables = [.init(from: "t", .stop)]
    try target.replay()
    #expect(try target.psql(Self.triggers) == "0")
    target.options.localWrites = LocalWritesPlan(tables: [.init(from: "t*", .refuse)])
    try target.replay()
    #expect(try target.psql(Self.triggers) == "2")
    #expect(try PostgresApplyState(PostgresConnection(target.url), of: target.trail.name).forgetTrail())
    #expect(try target.psql(Self.triggers) == "0")
  }
}
