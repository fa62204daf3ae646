import Changes
import Conflicts
import PostgresKit
import SQLiteKit
import Testing

@testable import Applying

/// Writes of applications to a target of a way that leads only there.
@Suite struct LocalWritesTests {
  private static let columns = "id INTEGER PRIMARY KEY, a INTEGER, b INTEGER"

  private func started(_ engine: TargetEngine, _ writes: LocalWrites, _ columns: String = Self.columns) throws
    -> EngineTarget
  {
    let target = try EngineTarget(engine)
    target.options.localWrites = LocalWritesPlan(writes)
    try target.begin("CREATE TABLE t(\(columns))", (1...6).map { [.integer($0), .integer($0), 0] })
    return target
  }

  @Test(arguments: TargetEngine.all, [LocalWrites.allow, .undo])
  func `a row that is written here stays until the source writes to it`(
    _ engine: TargetEngine, _ writes: LocalWrites
  ) throws {
    let target = try started(engine, writes)
    let made = target.made
    try target.write(
      .update(1, "a", 70), .update(2, "a", 70), .update(5, "a", 70), .delete(3), .delete(4), .insert([10, 70, 0]),
      .insert([11, 70, 0]))
    try made.transaction {
      try made.update("t", [1, 1, 0], [nil, nil, 9])
      try made.delete("t", [2, 2, 0])
      try made.update("t", [3, 3, 0], [nil, 9, nil])
      try made.delete("t", [4, 4, 0])
      try made.insert("t", [10, 9, 9])
    }
    try made.transaction { try made.update("t", [6, 6, 0], [nil, 9, nil]) }
    try target.replay()
    #expect(try target.rows() == "1|1|9 3|9|0 5|70|0 6|9|0 10|9|9 11|70|0")
    let log = try target.log()
    #expect(
      Dictionary(grouping: log) { Optional($0.key).id }.mapValues { $0.map(\.kind) } == [
        "1": [.updateOriginDiffers], "2": [.deleteOriginDiffers], "3": [.updateMissing], "4": [.deleteMissing],
        "10": [.insertExists],
      ])
    let first = try #require(log.first { $0.kind == .updateOriginDiffers })
    #expect(first.rule == writes.rawValue && first.winner == .incoming && first.number == 2)
    #expect(first.local?["a"]?.postgresInput == "70" && first.incoming?["b"]?.postgresInput == "9")
    #expect(first.settled == first.incoming)
    #expect(target.progress.snapshot.conflicts == 5)
  }

  @Test(arguments: TargetEngine.all) func `with stop, apply stops`(_ engine: TargetEngine) throws {
    let target = try started(engine, .stop)
    try target.write(.update(1, "a", 70))
    try target.made.transaction { try target.made.update("t", [1, 1, 0], [nil, nil, 9]) }
    #expect(failure { try target.replay() }?.code == .rowDiffers)
  }

  /// The next copy, asked for as `cairn copy` does.
  private func copied(_ engine: TargetEngine, _ writes: LocalWrites) throws -> EngineTarget {
    let target = try started(engine, writes)
    try target.write(.update(1, "a", 70), .delete(2), .insert([10, 70, 0]))
    try target.made.transaction {
      try target.made.copy("t", (1...6).map { [.integer($0), .integer($0), 0] }, reason: .asked)
    }
    try target.replay()
    return target
  }

  @Test(arguments: TargetEngine.all) func `a copy keeps rows that only the target has`(_ engine: TargetEngine) throws {
    let target = try copied(engine, .allow)
    #expect(try target.rows() == "1|1|0 2|2|0 3|3|0 4|4|0 5|5|0 6|6|0 10|70|0")
    // After the copy, differences are reported as before.
    try target.write(.update(1, "a", 71))
    try target.made.transaction { try target.made.update("t", [1, 1, 0], [nil, 9, nil]) }
    try target.replay()
    #expect(try target.log().map(\.kind) == [.updateOriginDiffers])
    // And once nothing of that is allowed any more, apply stops there.
    target.options.localWrites = LocalWritesPlan(.stop)
    try target.write(.update(1, "a", 72))
    try target.made.transaction { try target.made.update("t", [1, 9, 0], [nil, 10, nil]) }
    #expect(failure { try target.replay() }?.code == .rowDiffers)
  }

  @Test(arguments: TargetEngine.all) func `a copy undoes them`(_ engine: TargetEngine) throws {
    #expect(try copied(engine, .undo).rows() == "1|1|0 2|2|0 3|3|0 4|4|0 5|5|0 6|6|0")
  }

  @Test(arguments: TargetEngine.all)
  func `a row here that has the source's unique value gives way, and is kept in the log`(
    _ engine: TargetEngine
  ) throws {
    let target = try started(engine, .allow, "id INTEGER PRIMARY KEY, a INTEGER UNIQUE, b INTEGER")
    let made = target.made
    try target.write(.insert([10, 70, 0]), .insert([11, 71, 0]), .insert([12, 72, 0]))
    try made.transaction { try made.insert("t", [7, 70, 0]) }
    try made.transaction { try made.update("t", [1, 1, 0], [nil, 71, nil]) }
    try made.transaction { try made.copy("t", [[8, 72, 0]], reason: .asked) }
    try target.replay()
    #expect(try target.rows() == "1|71|0 2|2|0 3|3|0 4|4|0 5|5|0 6|6|0 7|70|0 8|72|0")
    let log = try target.log()
    #expect(log.map(\.kind) == Array(repeating: .multipleUniqueConflicts, count: 3))
    #expect(log.map(\.local.id) == ["10", "11", "12"] && log.allSatisfy { $0.settled == nil })
  }

  @Test(arguments: TargetEngine.databases)
  func `so does one that has it in an index over an expression of a part of the rows`(_ engine: TargetEngine) throws {
    let target = try started(engine, .allow)
    let made = target.made
    try target.run("CREATE UNIQUE INDEX part ON t(abs(a)) WHERE b = 0")
    try target.write(.insert([10, -70, 0]), .insert([11, 71, 1]), .insert([12, -71, 0]))
    try made.transaction { try made.insert("t", [7, 70, 0]) }
    try made.transaction { try made.update("t", [1, 1, 0], [nil, 71, nil]) }
    try target.replay()
    #expect(try target.rows() == "1|71|0 2|2|0 3|3|0 4|4|0 5|5|0 6|6|0 7|70|0 11|71|1")
    #expect(try target.log().map(\.local.id) == ["10", "12"])
  }

  @Test(arguments: TargetEngine.all) func `a row that moves meets what has its new key`(_ engine: TargetEngine) throws {
    let target = try started(engine, .allow)
    let made = target.made
    try target.write(.insert([10, 70, 0]), .update(2, "a", 70))
    try made.transaction { try made.update("t", [1, 1, 0], [10, nil, nil]) }
    try made.transaction { try made.update("t", [2, 2, 0], [12, nil, nil]) }
    try target.replay()
    #expect(try target.rows() == "3|3|0 4|4|0 5|5|0 6|6|0 10|1|0 12|2|0")
    // PostgreSQL writes the first row at the end of its transaction, when only the row after the change is known.
    let first: Conflict.Kind = engine == .postgres ? .insertExists : .updateExists
    #expect(try target.log().map(\.kind) == [first, .updateOriginDiffers])
  }

  @Test(arguments: TargetEngine.all)
  func `several changes of a row that is gone end as at the source`(_ engine: TargetEngine) throws {
    let target = try started(engine, .allow)
    let made = target.made
    try target.write(.delete(1), .delete(2), .delete(3), .delete(4), .insert([10, 70, 0]), .update(5, "a", 70))
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
    #expect(try target.rows() == "1|9|0 3|5|5 10|6|0 15|5|0 20|2|1")
    let keys = try target.log().map { Optional($0.key).id }
    #expect(keys.contains("10") && !keys.contains("20"))
  }

  @Test(arguments: TargetEngine.all)
  func `rows of PostgreSQL that are known in part are passed over, and logged`(_ engine: TargetEngine) throws {
    let target = try EngineTarget(engine)
    let made = target.made
    target.options.localWrites = LocalWritesPlan(tables: [.init(from: "item", .allow)])
    let columns = [("id", "integer"), ("a", "text"), ("b", "text"), ("u", "text")]
    made.shape(
      TableSchema(
        epoch: 1, engine: .postgres, namespace: "public", name: "item",
        columns: columns.map { name, type in
          .init(name: name, declaredType: type, isNotNull: name == "id", keyOrdinal: name == "id" ? 1 : 0)
        }, uniques: [[3]], createText: "CREATE TABLE …"))
    try target.make("CREATE TABLE item(id integer PRIMARY KEY, a text, b text, u text UNIQUE)")
    try made.transaction {
      try made.create("item")
      try made.copy("item", (1...5).map { [.exact("\($0)"), "a", "b", .text("\($0)")] })
    }
    try target.replay()
    try target.write(
      .delete(1), .delete(2), .delete(4), .update(3, "b", "ours"), .insert([10, "a", "b", "x"]), to: "item")
    try made.transaction { try made.update("item", to: [.exact("1"), "x", nil, "1"]) }
    try made.transaction { try made.update("item", to: [.exact("2"), "x", "y", "2"]) }
    try made.transaction { try made.delete("item", [.exact("4"), nil, nil, nil]) }
    try made.transaction { try made.update("item", to: [.exact("5"), "a", "b", "x"]) }
    try target.replay()
    #expect(try target.rows("item") == "2|x|y|2 3|a|ours|3 5|a|b|x")
    let log = try target.log()
    #expect(log.map(\.kind) == [.updateMissing, .updateMissing, .deleteMissing, .multipleUniqueConflicts])
    #expect(log.map(\.winner) == [.local, .incoming, .incoming, .incoming])
    #expect(target.progress.snapshot.notices.contains { $0.contains("stays deleted") })
  }

  @Test(arguments: TargetEngine.databases)
  func `a table without a key waits, unless it is left as it was`(_ engine: TargetEngine) throws {
    let target = try EngineTarget(engine)
    target.options.localWrites = LocalWritesPlan(.allow)
    try target.made.shape("CREATE TABLE t(a INTEGER)")
    try target.made.transaction {
      try target.made.create("t")
      try target.made.copy("t", [[1]], .whole)
    }
    #expect(failure { try target.replay() }?.code == .schemaStopped)
    #expect(target.progress.snapshot.waiting.map(\.code) == [.tableRefused])
    target.options.localWrites.tables = [.init(from: "t", .stop)]
    try target.replay()
    #expect(try target.rows() == "1")
  }

  // MARK: Refused

  private func refuses(_ target: EngineTarget, _ sql: String) -> Bool {
    do {
      try target.run(sql)
      return false
    } catch { return "\(error)".contains("is a replica") }
  }

  /// The number of triggers that refuse writes.
  private func triggers(_ target: EngineTarget) throws -> Int {
    let sqlite = "SELECT count(*) FROM sqlite_master WHERE type = 'trigger' AND name LIKE 'cairn_refuse%'"
    let postgres = "SELECT count(*) FROM pg_trigger WHERE tgname ~ '^cairn_refuse'"
    return Int(try target.answer(target.engine == .sqlite ? sqlite : postgres)) ?? -1
  }

  @Test(arguments: TargetEngine.databases)
  func `who writes to a table that refuses it gets an error, apply does not`(_ engine: TargetEngine) throws {
    let target = try started(engine, .refuse)
    let made = target.made
    let own = engine == .sqlite ? "REPLACE INTO t VALUES (1, 7, 7)" : "TRUNCATE t"
    for sql in [
      "INSERT INTO t VALUES (7, 7, 7)", "UPDATE t SET a = 7 WHERE id = 1", "DELETE FROM t WHERE id = 1", own,
    ] { #expect(refuses(target, sql), "\(sql)") }
    try made.transaction { try made.update("t", [1, 1, 0], [nil, 9, nil]) }
    try made.transaction { try made.copy("t", [[1, 9, 0], [2, 2, 0]], reason: .asked) }
    try target.replay()
    #expect(try target.rows() == "1|9|0 2|2|0")
    try target.run("CREATE TABLE own(a INTEGER); INSERT INTO own VALUES (1)")
  }

  @Test(arguments: TargetEngine.databases)
  func `tables that are made, renamed and reshaped are guarded, and those that go leave nothing`(
    _ engine: TargetEngine
  ) throws {
    let target = try started(engine, .refuse)
    let made = target.made
    try made.transaction { try made.reshape("t", "CREATE TABLE u(\(Self.columns))", as: .rename, to: "u") }
    try target.replay()
    #expect(refuses(target, "DELETE FROM u"))
    try made.transaction {
      try made.reshape(
        "u", "CREATE TABLE u(id INTEGER PRIMARY KEY, a TEXT NOT NULL DEFAULT 'x', c INTEGER)", isRefreshed: true)
      try made.copy("u", [[1, "x", 1]], reason: .asked)
    }
    try target.replay()
    #expect(refuses(target, "DELETE FROM u"))
    #expect(try target.rows("u") == "1|x|1")
    try made.transaction { try made.drop("u") }
    try target.replay()
    #expect(try triggers(target) == 0)
  }

  @Test(arguments: TargetEngine.databases)
  func `it ends with the option, with the trail, and table by table`(_ engine: TargetEngine) throws {
    let target = try started(engine, .refuse)
    let all = engine == .sqlite ? 3 : 2
    if engine == .postgres {
      try target.run("DROP TRIGGER cairn_refuse ON t")
      try target.replay()
    }
    #expect(try triggers(target) == all)
    target.options.localWrites.tables = [.init(from: "t", .stop)]
    try target.replay()
    #expect(try triggers(target) == 0)
    target.options.localWrites = LocalWritesPlan(tables: [.init(from: "t*", .refuse)])
    try target.replay()
    #expect(try triggers(target) == all)
    #expect(try target.forgetTrail())
    #expect(try triggers(target) == 0)
  }
}
