import Changes
import Conflicts
import Mapping
import Testing
import Trails

@testable import Applying

/// Decisions of the operator about rows at which a one-way apply has stopped.
@Suite struct RowDecisionTests {
  private func started(
    _ engine: TargetEngine, _ columns: String = "id INTEGER PRIMARY KEY, a INTEGER, b INTEGER"
  ) throws -> EngineTarget {
    let target = try EngineTarget(engine)
    try target.begin("CREATE TABLE t(\(columns))", (1...4).map { [.integer($0), .integer($0), 0] })
    return target
  }

  /// Applies, and returns the row at which the apply stops.
  private func stopped(_ target: EngineTarget, _ code: ErrorCode) throws -> StoppedRow {
    let error = try #require(failure { try target.replay() })
    #expect(error.code == code, "\(error)")
    return try #require(StoppedRow(error), "\(error) \(error.context)")
  }

  /// Decides the row at which the apply stops.
  private func decide(_ target: EngineTarget, _ verdict: RowDecision.Verdict, _ row: StoppedRow) throws {
    target.options.refused.decisions.append(
      RowDecision(
        verdict, of: try Trail.info(folder: target.made.trail).id, at: row.position, transaction: row.transaction,
        by: "uid 1000 (ann)"))
  }

  @Test(arguments: TargetEngine.all) func `skip leaves out one change and no other`(_ engine: TargetEngine) throws {
    let target = try started(engine)
    let made = target.made
    try target.write(.update(1, "a", 70))
    try made.transaction { try made.update("t", [4, 4, 0], [nil, nil, 8]) }
    try made.transaction {
      try made.update("t", [2, 2, 0], [nil, nil, 9])
      try made.update("t", [1, 1, 0], [nil, nil, 9])
      try made.update("t", [3, 3, 0], [nil, nil, 9])
    }
    try made.transaction { try made.update("t", [2, 2, 9], [nil, nil, 10]) }
    let row = try stopped(target, .rowDiffers)
    #expect(row.table == "t" && row.transaction == 3 && !row.isCopied)
    try decide(target, .skip, row)
    try target.replay()
    #expect(try target.rows() == "1|70|0 2|2|10 3|3|9 4|4|8")
    let log = try target.log()
    #expect(log.map(\.kind) == [.updateOriginDiffers])
    #expect(log.first?.rule == "skip by uid 1000 (ann)" && log.first?.winner == .local && log.first?.number == 3)
    #expect(log.first?.local?["a"]?.postgresInput == "70" && log.first?.incoming?["b"]?.postgresInput == "9")
    #expect(log.first?.settled == log.first?.local)
  }

  @Test(arguments: TargetEngine.all) func `take-source writes one row and no other`(_ engine: TargetEngine) throws {
    let target = try started(engine)
    let made = target.made
    try target.write(.update(1, "a", 70), .delete(2), .insert([10, 7, 7]), .update(4, "a", 70))
    try made.transaction {
      try made.update("t", [1, 1, 0], [nil, nil, 9])
      try made.update("t", [3, 3, 0], [nil, nil, 9])
    }
    try made.transaction { try made.insert("t", [10, 9, 9]) }
    try made.transaction { try made.delete("t", [4, 4, 0]) }
    for code in [ErrorCode.rowDiffers, .rowExists, .rowDiffers] {
      try decide(target, .takeSource, stopped(target, code))
    }
    try target.replay()
    #expect(try target.rows() == "1|1|9 3|3|9 10|9|9")
    let log = try target.log()
    #expect(log.map(\.kind) == [.updateOriginDiffers, .insertExists, .deleteOriginDiffers])
    #expect(log.allSatisfy { $0.rule == "take-source by uid 1000 (ann)" && $0.winner == .incoming })
    // The row that only the target lacks was not touched.
    try made.transaction { try made.update("t", [2, 2, 0], [nil, nil, 9]) }
    let missing = try stopped(target, .rowMissing)
    try decide(target, .takeSource, missing)
    try target.replay()
    #expect(try target.rows() == "1|1|9 2|2|9 3|3|9 10|9|9")
  }

  @Test(arguments: TargetEngine.all)
  func `each row of a transaction is decided by itself`(_ engine: TargetEngine) throws {
    let target = try started(engine)
    let made = target.made
    try target.write(.update(1, "a", 70), .update(2, "a", 70))
    try made.transaction {
      try made.update("t", [1, 1, 0], [nil, nil, 9])
      try made.update("t", [2, 2, 0], [nil, nil, 9])
    }
    let first = try stopped(target, .rowDiffers)
    try decide(target, .skip, first)
    let second = try stopped(target, .rowDiffers)
    #expect(second.position != first.position && second.transaction == first.transaction)
    // Nothing is committed, or logged, until the whole transaction is applied.
    #expect(try target.rows() == "1|70|0 2|70|0 3|3|0 4|4|0")
    try decide(target, .takeSource, second)
    try target.replay()
    #expect(try target.rows() == "1|70|0 2|2|9 3|3|0 4|4|0")
    #expect(try target.log().map(\.winner) == [.local, .incoming])
  }

  @Test(arguments: TargetEngine.all)
  func `a decision counts for its own row of its own trail`(_ engine: TargetEngine) throws {
    let target = try started(engine)
    let made = target.made
    try target.write(.update(1, "a", 70))
    try made.transaction {
      try made.update("t", [2, 2, 0], [nil, nil, 9])
      try made.update("t", [1, 1, 0], [nil, nil, 9])
    }
    let row = try stopped(target, .rowDiffers)
    var other = row
    other.position.offset += 1
    try decide(target, .skip, other)
    other = row
    other.transaction += 1
    try decide(target, .skip, other)
    let foreign = try #require(TrailID(Array(repeating: 7, count: 16)))
    target.options.refused.decisions.append(
      RowDecision(.skip, of: foreign, at: row.position, transaction: row.transaction, by: "uid 0"))
    #expect(try stopped(target, .rowDiffers) == row)
    #expect(try target.rows() == "1|70|0 2|2|0 3|3|0 4|4|0")
  }

  @Test(arguments: TargetEngine.databases)
  func `a row that the target itself refuses can be left out`(_ engine: TargetEngine) throws {
    let target = try EngineTarget(engine)
    try target.make("CREATE TABLE t(id INTEGER PRIMARY KEY, a INTEGER CHECK (a >= 0), b INTEGER)")
    try target.begin("CREATE TABLE t(id INTEGER PRIMARY KEY, a INTEGER, b INTEGER)", [[1, 1, 0]])
    let made = target.made
    try made.transaction {
      try made.insert("t", [2, -2, 0])
      try made.insert("t", [3, 3, 0])
    }
    let row = try stopped(target, .constraintFailed)
    try decide(target, .skip, row)
    try target.replay()
    #expect(try target.rows() == "1|1|0 3|3|0")
    let log = try target.log()
    #expect(log.map(\.kind) == [.changeRefused] && log.first?.local == nil)
    #expect(log.first?.incoming?["a"]?.postgresInput == "-2" && log.first.map { Optional($0.key).id } == "2")
  }

  @Test(.enabled(if: TargetEngine.databases.contains(.postgres)))
  func `a value that fits no column can be left out, in a change and in a copy`() throws {
    let target = try EngineTarget(.postgres)
    let made = target.made
    try made.shape("CREATE TABLE t(id INTEGER PRIMARY KEY, a INTEGER, b INTEGER)")
    try made.transaction {
      try made.create("t")
      try made.copy("t", [[1, 1, 0], [2, .text(Array("tea".utf8)), 0], [3, 3, 0]])
    }
    let copied = try stopped(target, .valueMisfit)
    #expect(copied.isCopied && copied.table == "t")
    try decide(target, .skip, copied)
    try target.replay()
    #expect(try target.rows() == "1|1|0 3|3|0")
    try made.transaction {
      try made.update("t", [1, 1, 0], [nil, .text(Array("rice".utf8)), nil])
      try made.update("t", [3, 3, 0], [nil, 4, nil])
    }
    let changed = try stopped(target, .valueMisfit)
    #expect(!changed.isCopied)
    try decide(target, .skip, changed)
    try target.replay()
    #expect(try target.rows() == "1|1|0 3|4|0")
    let log = try target.log()
    #expect(log.map(\.kind) == [.changeRefused, .changeRefused])
    #expect(log.map { $0.incoming?["a"]?.string } == ["tea", "rice"])
  }

  @Test(.enabled(if: TargetEngine.databases.contains(.postgres)), arguments: RowDecision.Verdict.allCases)
  func `a decided row may widen a column`(_ verdict: RowDecision.Verdict) throws {
    let target = try EngineTarget(.postgres)
    target.options.misfits = try MisfitPolicies(parsing: "widen")
    let made = target.made
    // Cairn makes the table, so it may widen its columns.
    try made.shape("CREATE TABLE t(id INTEGER PRIMARY KEY, a INTEGER, b INTEGER)")
    try made.transaction {
      try made.create("t")
      try made.copy("t", [[1, 1, 0], [2, 2, 0]])
    }
    try target.replay()
    try target.write(.update(1, "a", 70))
    try made.transaction {
      try made.update("t", [1, 1, 0], [nil, nil, .text(Array("tea".utf8))])
      try made.update("t", [2, 2, 0], [nil, nil, 9])
    }
    try decide(target, verdict, stopped(target, .rowDiffers))
    try target.replay()
    #expect(try target.rows() == (verdict == .skip ? "1|70|0 2|2|9" : "1|1|tea 2|2|9"))
  }

  @Test(arguments: TargetEngine.databases)
  func `a table without a key has no row that the source could take`(_ engine: TargetEngine) throws {
    let target = try EngineTarget(engine)
    try target.begin("CREATE TABLE t(id INTEGER, a INTEGER, b INTEGER)", [[1, 1, 0], [2, 2, 0]])
    let made = target.made
    try target.write(.update(1, "a", 70))
    try made.transaction { try made.update("t", [1, 1, 0], [1, 1, 9]) }
    let row = try stopped(target, .rowMissing)
    try decide(target, .takeSource, row)
    #expect(try stopped(target, .rowMissing) == row)
    #expect(target.progress.snapshot.notices.contains { $0.contains("take-source") && $0.contains("is not possible") })
    target.options.refused.decisions.removeAll()
    try decide(target, .skip, row)
    try target.replay()
    #expect(try target.rows() == "1|70|0 2|2|0")
  }

  // MARK: A copy of the table instead

  @Test(arguments: TargetEngine.databases)
  func `a copy of the stopped table brings it back, and other tables are applied as before`(
    _ engine: TargetEngine
  ) throws {
    let target = try started(engine)
    let made = target.made
    try made.shape("CREATE TABLE u(id INTEGER PRIMARY KEY, a INTEGER, b INTEGER)")
    try made.transaction {
      try made.create("u")
      try made.copy("u", [[1, 1, 0]])
    }
    try target.replay()
    try target.write(.update(1, "a", 70))
    try target.write([.insert([9, 9, 9])], to: "u")
    try made.transaction {
      try made.update("t", [1, 1, 0], [nil, nil, 9])
      try made.update("u", [1, 1, 0], [nil, nil, 9])
    }
    _ = try stopped(target, .rowDiffers)
    try target.expectRefresh(of: "t")
    try made.transaction { try made.update("t", [2, 2, 0], [nil, nil, 9]) }
    try target.replay()
    #expect(try target.rows() == "1|70|0 2|2|0 3|3|0 4|4|0")
    #expect(try target.rows("u") == "1|1|9 9|9|9")
    #expect(target.progress.snapshot.awaitsCopies)
    try made.transaction { try made.copy("t", [[1, 1, 9], [2, 2, 9]], reason: .asked) }
    try made.transaction { try made.update("t", [2, 2, 9], [nil, nil, 10]) }
    try target.replay()
    #expect(try target.rows() == "1|1|9 2|2|10")
    #expect(try target.rows("u") == "1|1|9 9|9|9" && !target.progress.snapshot.awaitsCopies)
  }
}
