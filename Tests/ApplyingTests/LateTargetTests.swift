import Applying
import Changes
import Mapping
import PostgresKit
import SQLiteKit
import SystemKit
import TestServers
import Testing
import Trails
import Transforming

/// A target that comes to a trail whose beginning has been purged gets everything by copies that were asked for.
@Suite struct LateTargetTests {
  private static let item = "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT UNIQUE)"
  private static let note = "CREATE TABLE note(id INTEGER PRIMARY KEY, item INTEGER, text TEXT)"

  /// Returns a trail that one target has applied wholly and that has only its last segment left.
  private func purged(_ folder: TempFolder) throws -> Handmade {
    let made = try Handmade(folder, segmentBytes: 1)
    try made.begin(Self.item, "item", [[1, "tea"], [2, "cup"]])
    try made.begin(Self.note, "note", [[1, 1, "hot"]])
    for id in 3...5 as ClosedRange<Int64> {
      try made.transaction { try made.insert("item", [.integer(id), .text("x\(id)")]) }
    }
    try made.replay()
    let end = try Trail.info(folder: made.trail).end
    _ = try Trail.purge(folder: made.trail, below: end.position)
    #expect(try Trail.info(folder: made.trail).firstPosition.segment > 1)
    return made
  }

  private func options(_ made: Handmade, _ existing: ExistingRows = .overwrite) throws -> ApplyOptions {
    let info = try Trail.info(folder: made.trail)
    var options = ApplyOptions()
    (options.askedBehind, options.askedAt) = (info.lastTransaction, info.end)
    (options.existing, options.existingHolds) = (existing, true)
    options.commitRows = 1
    return options
  }

  /// Writes the records after the request: changes of tables that are not copied yet, a new table, a change of shape.
  /// Then come copies in several chunks, with changes between them. Each `run` lets the target go on in a new run.
  private func follow(_ made: Handmade, _ run: () throws -> Bool) throws {
    try made.transaction { try made.update("item", [2, "cup"], [nil, "mug"]) }
    #expect(try run())
    try made.transaction {
      try made.reshape("note", "CREATE TABLE note(id INTEGER PRIMARY KEY, item INTEGER, text TEXT, stars INTEGER)")
      try made.insert("note", [2, 2, "red", 5])
    }
    try made.shape("CREATE TABLE fresh(id INTEGER PRIMARY KEY)")
    try made.transaction {
      try made.create("fresh")
      try made.insert("fresh", [1])
    }
    #expect(try run())
    try made.transaction {
      try made.refresh("item", .start(.asked, .byKey, estimatedRows: 5))
      try made.refresh("item", .chunk(.keys(after: nil, through: [2, nil])))
      try made.row("item", [1, "tea"])
      try made.row("item", [2, "mug"])
    }
    #expect(try run())
    try made.transaction {
      try made.insert("item", [6, "six"])
      try made.update("item", [1, "tea"], [nil, "green tea"])
      try made.delete("note", [1, 1, "hot", .null])
    }
    #expect(try run())
    try made.transaction {
      try made.refresh("item", .chunk(.keys(after: [2, nil], through: nil)))
      for id in 3...5 as ClosedRange<Int64> { try made.row("item", [.integer(id), .text("x\(id)")]) }
      try made.row("item", [6, "six"])
      try made.refresh("item", .end(rows: 6))
    }
    try made.transaction { try made.copy("note", [[2, 2, "red", 5]], reason: .asked) }
    #expect(try !run())
    try made.transaction {
      try made.delete("item", [3, "x3"])
      try made.update("note", [2, 2, "red", 5], [nil, nil, nil, 4])
      try made.insert("fresh", [2])
    }
    #expect(try !run())
  }

  @Test func `a copy into SQLite, whatever ends it in between`() throws {
    let folder = try TempFolder()
    let made = try purged(folder)
    let late = folder("late.db")
    let options = try options(made)
    try follow(made) {
      let progress = ApplyProgress()
      for _ in 0..<2 {
        try SQLiteApply(path: late, trail: made.trail, name: made.name, options: options, progress: progress).drain()
      }
      return progress.snapshot.awaitsCopies
    }
    // The first target has followed without a break.
    try made.replay()
    let copy = try Database(path: late)
    for (table, rows) in [("item", 5), ("note", 1), ("fresh", 2)] as [(String, Int64)] {
      let sql = "SELECT * FROM \(table) ORDER BY id"
      #expect(try copy.query(sql) == made.rows(sql))
      #expect(try copy.integer("SELECT count(*) FROM \(table)") == rows)
    }
    // Strict again.
    try made.transaction { try made.delete("item", [3, "x3"]) }
    #expect(
      failure {
        try SQLiteApply(path: late, trail: made.trail, name: made.name, options: options, progress: .init()).drain()
      }?.code == .rowMissing)
  }

  @Test(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
  func `a copy into PostgreSQL, whatever ends it in between`() throws {
    let target = try PostgresTarget()
    let made = try purged(TempFolder())
    let options = try options(made)
    try follow(made) {
      for _ in 0..<2 { try target.replay(made, options) }
      return target.progress.snapshot.awaitsCopies
    }
    #expect(
      try target.psql("SELECT id, name FROM item ORDER BY id") == "1|green tea\n2|mug\n4|x4\n5|x5\n6|six")
    #expect(try target.psql("SELECT * FROM note") == "2|2|red|4")
    #expect(try target.psql("SELECT id FROM fresh ORDER BY id") == "1\n2")
    #expect(
      try target.psql("SELECT count(*) FROM pg_indexes WHERE tablename = 'item' AND schemaname = 'public'") == "2")
    try made.transaction { try made.delete("item", [3, "x3"]) }
    #expect(failure { try target.replay(made, options) }?.code == .rowMissing)
  }

  @Test(arguments: [ExistingRows.keep, .merge, .overwrite])
  func `rows that it holds are dealt with as at a first copy`(existing: ExistingRows) throws {
    let folder = try TempFolder()
    let made = try purged(folder)
    let late = folder("late.db")
    let database = try Database(path: late, mode: .create)
    try database.executeScript(Self.item + "; INSERT INTO item VALUES (2, 'own'), (99, 'mine')")
    let options = try options(made, existing)
    try made.transaction { try made.copy("item", [[1, "tea"], [2, "cup"]], reason: .asked) }
    try SQLiteApply(path: late, trail: made.trail, name: made.name, options: options, progress: .init()).drain()
    let expected: [[Value]] =
      switch existing {
      case .keep: [[1, "tea"], [2, "own"], [99, "mine"]]
      case .merge: [[1, "tea"], [2, "cup"], [99, "mine"]]
      case .overwrite: [[1, "tea"], [2, "cup"]]
      }
    #expect(try database.query("SELECT * FROM item ORDER BY id") == expected)
  }

  private static func history() -> [TableRule] {
    var rule = TableRule(from: "item")
    (rule.mode, rule.to) = (.history, "log")
    return [rule]
  }

  private static let told = "SELECT cairn_operation, id FROM log ORDER BY cairn_position"

  /// A copy of everything was asked for: of a history everything that is read counts, before its copy too.
  private func ask(_ made: Handmade, _ run: (ApplyOptions) throws -> Bool) throws {
    var asked = try options(made)
    asked.rules = Self.history()
    try made.transaction { try made.insert("item", [7, "seven"]) }
    #expect(try !run(asked))
    try made.transaction { try made.copy("item", [[1, "tea"], [7, "seven"]], reason: .asked) }
    try made.transaction { try made.delete("item", [1, "tea"]) }
    #expect(try !run(asked))
  }

  @Test func `a history of SQLite misses nothing while a copy of everything is awaited`() throws {
    let made = try purged(TempFolder())
    let target = made.folder("history.db")
    try ask(made) { options in
      let progress = ApplyProgress()
      try SQLiteApply(path: target, trail: made.trail, name: made.name, options: options, progress: progress).drain()
      return progress.snapshot.awaitsCopies
    }
    let expected: [[Value]] = [["insert", 7], ["copy", 1], ["copy", 7], ["delete", 1]]
    #expect(try Database(path: target).query(Self.told) == expected)
    // It is known by now, and the way on is lost.
    try SQLiteApplyState(Database(path: target, mode: .readWrite), of: made.name).expectRefreshOfAll()
    try ask(made) { options in
      let progress = ApplyProgress()
      try SQLiteApply(path: target, trail: made.trail, name: made.name, options: options, progress: progress).drain()
      return progress.snapshot.awaitsCopies
    }
    #expect(try Database(path: target).query(Self.told) == expected + expected)
  }

  @Test(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
  func `a history of PostgreSQL misses nothing while a copy of everything is awaited`() throws {
    let target = try PostgresTarget()
    let made = try purged(TempFolder())
    let run = { (options: ApplyOptions) in
      let progress = ApplyProgress()
      try PostgresApply(uri: target.url, trail: made.trail, name: made.name, options: options, progress: progress)
        .drain()
      return progress.snapshot.awaitsCopies
    }
    try ask(made, run)
    let expected = "insert|7\ncopy|1\ncopy|7\ndelete|1"
    #expect(try target.psql(Self.told) == expected)
    let connection = try PostgresConnection(target.url)
    try PostgresApplyState(connection, of: made.name).expectRefreshOfAll()
    try ask(made, run)
    #expect(try target.psql(Self.told) == expected + "\n" + expected)
  }
}
