import Changes
import Conflicts
import Mapping
import PostgresKit
import SQLiteKit
import TestServers
import Testing

@testable import Applying

/// Statements that change rows, where a program at the target may have written these rows.
struct OverwritingStatementTests {
  private static let reason = "it changes rows that programs at the target may have written (local_writes)"
  private static let update = "UPDATE item SET stock = 5 WHERE id = 2"
  private static let upsert =
    "INSERT INTO item(id, name, stock) VALUES (7, 'source', 70) ON CONFLICT(id) DO UPDATE SET stock = excluded.stock, name = excluded.name"
  private static let replacing = "INSERT OR REPLACE INTO item(id, name, stock) VALUES (7, 'source', 70)"
  /// The writes of a program at the target to the rows that the statements write.
  private static let program =
    "UPDATE item SET stock = 99 WHERE id = 2; INSERT INTO item(id, name, stock) VALUES (7, 'program', 777)"
  static let overwriting: [(sql: String, code: ErrorCode)] = [
    (update, .rowDiffers), (upsert, .rowExists), (replacing, .rowExists),
  ]

  private func history(_ trail: Handmade) throws -> SourceHistory {
    let history = try SourceHistory(trail)
    for id in 1...3 {
      try history.execute("INSERT INTO item(id, name, stock) VALUES (\(id), 'a', \(id)0)", on: "item")
    }
    try history.commit()
    try history.sync()
    return history
  }

  private func options(_ writes: LocalWrites) -> ApplyOptions {
    var options = ApplyOptions()
    (options.replay, options.localWrites) = (.statements, LocalWritesPlan(writes))
    return options
  }

  private func add(_ sql: String, to history: SourceHistory) throws {
    try history.execute(sql, on: "item")
    try history.commit()
    try history.sync()
  }

  @Test(arguments: overwriting)
  func `a row that a program wrote in SQLite stops the apply, though a statement changes it`(
    _ sql: String, _ code: ErrorCode
  ) throws {
    let trail = try Handmade(TempFolder())
    let history = try history(trail)
    trail.options = options(.stop)
    try trail.replay()
    try Database(ofProgram: trail.target).executeScript(Self.program)
    try add(sql, to: history)
    #expect(failure { try trail.replay() }?.code == code)
    let rows = try trail.rows("SELECT id, stock FROM item ORDER BY id")
    #expect(rows == [[1, 10], [2, 99], [3, 30], [7, 777]])
  }

  @Test(arguments: [update, upsert])
  func `a row that a program wrote in SQLite is in the log of conflicts, though a statement changes it`(
    _ sql: String
  ) throws {
    let trail = try Handmade(TempFolder())
    let history = try history(trail)
    trail.options = options(.allow)
    try trail.replay()
    try Database(ofProgram: trail.target).executeScript(Self.program)
    try add(sql, to: history)
    let progress = ApplyProgress()
    try trail.open(progress).drain()
    #expect(progress.snapshot.statements.reasons == [Self.reason: 1])
    #expect(try ConflictLog(Database(path: trail.target)).list(before: nil, limit: 100).count == 1)
  }

  @Test func `statements change rows in SQLite if programs may not write there`() throws {
    let trail = try Handmade(TempFolder())
    let history = try history(trail)
    trail.options = options(.refuse)
    try trail.replay()
    #expect(throws: SQLiteError.self) { try Database(ofProgram: trail.target).execute("UPDATE item SET stock = 1") }
    for sql in [Self.update, Self.upsert] { try add(sql, to: history) }
    let progress = ApplyProgress()
    try trail.open(progress).drain()
    #expect(progress.snapshot.statements.replayed == 2, "\(progress.snapshot.statements)")
    #expect(try trail.rows("SELECT id, stock FROM item ORDER BY id") == [[1, 10], [2, 5], [3, 30], [7, 70]])
  }

  @Test func `statements that insert and delete are executed also where programs may write`() throws {
    let trail = try Handmade(TempFolder())
    let history = try history(trail)
    trail.options = options(.stop)
    try add("DELETE FROM item WHERE id = 3", to: history)
    let progress = ApplyProgress()
    try trail.open(progress).drain()
    #expect(progress.snapshot.statements.replayed == 4, "\(progress.snapshot.statements)")
  }

  /// The digest of a DELETE has the rows as they were.
  @Test func `a DELETE that meets a row of a program stops the apply`() throws {
    let trail = try Handmade(TempFolder())
    let history = try history(trail)
    trail.options = options(.stop)
    try trail.replay()
    try Database(ofProgram: trail.target).executeScript(Self.program)
    try add("DELETE FROM item WHERE id = 2", to: history)
    #expect(failure { try trail.replay() }?.code == .rowDiffers)
  }

  @Test(arguments: overwriting)
  func `a row that a program wrote in PostgreSQL stops the apply, though a statement changes it`(
    _ sql: String, _ code: ErrorCode
  ) throws {
    guard PostgresServer.isAvailable else { return }
    let target = try PostgresTarget()
    let history = try history(target.trail)
    target.options = options(.stop)
    try target.replay()
    try target.psql(Self.program)
    try add(sql, to: history)
    #expect(failure { try target.replay() }?.code == code)
    #expect(try target.psql("SELECT string_agg(stock::text, ' ' ORDER BY id) FROM item") == "10 99 30 777")
  }

  @Test(arguments: [update, upsert])
  func `a row that a program wrote in PostgreSQL is in the log of conflicts, though a statement changes it`(
    _ sql: String
  ) throws {
    guard PostgresServer.isAvailable else { return }
    let target = try PostgresTarget()
    let history = try history(target.trail)
    target.options = options(.allow)
    try target.replay()
    try target.psql(Self.program)
    try add(sql, to: history)
    try target.replay()
    #expect(target.progress.snapshot.statements.reasons == [Self.reason: 1])
    #expect(target.progress.snapshot.conflicts == 1)
  }

  @Test func `statements are applied as rows while a session keeps a table from its triggers`() throws {
    guard PostgresServer.isAvailable else { return }
    let target = try PostgresTarget()
    let history = try history(target.trail)
    target.options = options(.stop)
    try target.replay()
    target.options = options(.refuse)
    let program = try PostgresConnection(target.url)
    try program.executeScript("BEGIN; INSERT INTO public.item(id, name, stock) VALUES (9, 'program', 9)")
    try add(Self.update, to: history)
    #expect(failure { try target.replay() }?.code == .databaseBusy)
    #expect(target.progress.snapshot.statements.reasons == [Self.reason: 1])
    #expect(try target.psql("SELECT string_agg(stock::text, ' ' ORDER BY id) FROM item") == "10 5 30")
    try program.execute("ROLLBACK")
    try add("UPDATE item SET stock = 6 WHERE id = 2", to: history)
    try target.replay()
    #expect(target.progress.snapshot.statements.asRows == 1, "\(target.progress.snapshot.statements)")
  }

  @Test func `statements change rows in PostgreSQL if programs may not write there`() throws {
    guard PostgresServer.isAvailable else { return }
    let target = try PostgresTarget()
    let history = try history(target.trail)
    target.options = options(.refuse)
    try target.replay()
    #expect(throws: (any Error).self) { try target.psql(Self.program) }
    for sql in [Self.update, Self.upsert, Self.replacing] { try add(sql, to: history) }
    try target.replay()
    #expect(target.progress.snapshot.statements.asRows == 0, "\(target.progress.snapshot.statements)")
    #expect(try target.psql("SELECT string_agg(stock::text, ' ' ORDER BY id) FROM item") == "10 5 30 70")
  }
}
