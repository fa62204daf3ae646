import Changes
import Conflicts
import Foundation
import Mapping
import PostgresKit
import SQLiteKit
import Statements
import SystemKit
import TestServers
import Testing

@testable import Applying

/// Statements that are executed once more at a target. `CAIRN_SOAK` replays 5,000 of them, `CAIRN_SEED` those of one seed.
struct StatementReplayTests {
  private static let environment = ProcessInfo.processInfo.environment
  private static let count = isSoak ? 5000 : 200
  private static let seed = environment["CAIRN_SEED"].flatMap { UInt64($0) } ?? .random(in: 1...1_000_000)

  private func filled(_ history: SourceHistory) throws {
    try history.execute(
      "INSERT INTO item(id, name, stock, weight, price) VALUES "
        + (1...1100).map { "(\($0), 'name \($0 % 50)', \($0 % 9), \($0).5, \($0 % 7))" }.joined(separator: ", "),
      on: "item")
    try history.commit()
  }

  private static func options(_ policy: ReplayPolicy) -> ApplyOptions {
    var options = ApplyOptions()
    (options.replay, options.localWrites) = (policy, LocalWritesPlan(.refuse))
    // A debug build takes long to judge a statement.
    options.statements.milliseconds = 3_000_000
    return options
  }

  private func apply(_ trail: Handmade, to path: String, _ policy: ReplayPolicy) throws -> StatementCounts {
    let progress = ApplyProgress()
    try SQLiteApply(
      path: path, trail: trail.trail, name: trail.name, options: Self.options(policy), progress: progress
    ).drain()
    return progress.snapshot.statements
  }

  private func expectSame(_ history: SourceHistory, _ path: String, _ comment: Comment) throws {
    let target = try Database(path: path)
    for (table, order) in [("item", "1"), ("sale", "1, 2")] {
      let (wanted, found) = (try history.rows(table), try target.query("SELECT * FROM \(table) ORDER BY \(order)"))
      #expect(wanted.count == found.count, comment)
      for (a, b) in zip(wanted, found) where a != b { Issue.record("\(comment): \(table): \(a) is \(b)") }
    }
  }

  @Test func `statements, large ones and rows alone leave the same rows`() throws {
    let folder = try TempFolder()
    let trail = try Handmade(folder)
    let history = try SourceHistory(trail)
    try filled(history)
    var random = RandomStatements(seed: Self.seed)
    while history.statementCount < Self.count { try random.transaction(on: history) }
    try history.sync()
    for policy in ReplayPolicy.allCases {
      let path = folder("\(policy.rawValue).db")
      let counts = try apply(trail, to: path, policy)
      try expectSame(history, path, "SQLite, \(policy.rawValue), seed \(Self.seed)")
      print("SQLite, \(policy.rawValue), seed \(Self.seed): \(counts.summary ?? "rows alone")")
      if policy == .statements { #expect(counts.replayed * 3 > counts.asRows) }
    }
    guard PostgresServer.isAvailable else { return }
    var rows: [String: [[String?]]] = [:]
    for policy in ReplayPolicy.allCases {
      let target = try PostgresTarget()
      let progress = ApplyProgress()
      try PostgresApply(
        uri: target.url, trail: trail.trail, name: trail.name, options: Self.options(policy), progress: progress
      ).drain()
      let counts = progress.snapshot.statements
      print("PostgreSQL, \(policy.rawValue), seed \(Self.seed): \(counts.summary ?? "rows alone")")
      if policy == .statements { #expect(counts.replayed * 4 > counts.asRows) }
      let connection = try PostgresConnection(target.url)
      for (table, order) in [("item", "1"), ("sale", "1, 2")] {
        let found = try connection.query("SELECT * FROM public.\(table) ORDER BY \(order)")
        #expect(found.count == (try history.rows(table).count))
        if let wanted = rows[table] {
          for (a, b) in zip(wanted, found) where a != b {
            Issue.record("PostgreSQL, \(policy), seed \(Self.seed): \(table): \(a) is \(b)")
          }
        } else {
          rows[table] = found
        }
      }
    }
  }

  @Test func `a statement that acts otherwise at the target is undone, and its rows are applied`() throws {
    let folder = try TempFolder()
    let trail = try Handmade(folder)
    let history = try SourceHistory(trail)
    try filled(history)
    try history.execute("UPDATE item SET stock = stock + 1", on: "item")
    // The trail says that it set other values.
    try history.commit { $0.statement.text = "UPDATE item SET stock = stock + 2" }
    try history.execute("DELETE FROM item WHERE id > 900", on: "item")
    try history.commit { $0.statement.text = "DELETE FROM item WHERE id > 899" }
    try history.execute("UPDATE item SET stock = 7 WHERE id < 5", on: "item")
    try history.commit()
    try history.sync()
    for policy in [ReplayPolicy.auto, .statements] {
      let path = folder("\(policy.rawValue).db")
      let counts = try apply(trail, to: path, policy)
      try expectSame(history, path, "\(policy.rawValue)")
      #expect(counts.reasons["they did something else at the target"] == (policy == .auto ? 1 : 2))
    }
    guard PostgresServer.isAvailable else { return }
    let target = try PostgresTarget()
    target.options = Self.options(.statements)
    try PostgresApply(
      uri: target.url, trail: trail.trail, name: trail.name, options: target.options, progress: target.progress
    ).drain()
    #expect(
      try target.psql("SELECT sum(stock) || ' ' || count(*) FROM item")
        == "\(try history.rows("item").reduce(Int64(0)) { if case .integer(let n) = $1[2] { $0 + n } else { $0 } }) 900"
    )
    #expect(target.progress.snapshot.statements.replayed == 2)
  }

  @Test func `a statement that the target refuses goes as rows, though some were passed over by then`() throws {
    let folder = try TempFolder()
    let trail = try Handmade(folder)
    let history = try SourceHistory(trail)
    try filled(history)
    for _ in 1...2 {
      try history.execute("UPDATE item SET stock = stock + 1", on: "item")
      try history.commit { $0.statement.text = "INSERT INTO item(id, name) VALUES (1, 'a')" }
    }
    try history.sync()
    for policy in [ReplayPolicy.auto, .statements] {
      let counts = try apply(trail, to: folder("\(policy.rawValue).db"), policy)
      try expectSame(history, folder("\(policy.rawValue).db"), "\(policy.rawValue)")
      #expect(counts.reasons["the target does not take them"] == 2)
    }
  }

  /// An expression that takes some microseconds for each row.
  private static let slow =
    "coalesce(" + Array(repeating: "nullif(\(sum), \(sum))", count: 5).joined(separator: ", ") + ", 5)"
  private static let sum = Array(repeating: "abs(stock)", count: 45).joined(separator: " + ")

  /// A peer may send statements that take long.
  @Test(.timeLimit(.minutes(20)), arguments: [ReplayPolicy.auto, .statements])
  func `a statement that takes too long is undone, and its rows are applied`(_ policy: ReplayPolicy) throws {
    let folder = try TempFolder()
    let trail = try Handmade(folder)
    let history = try SourceHistory(trail)
    try filled(history)
    try history.execute(
      "INSERT INTO item(id, name, stock) SELECT id + 1100 * n, name, stock FROM item, (SELECT id AS n FROM item WHERE id < 9)",
      on: "item")
    try history.commit()
    try history.sync()
    let path = folder("\(policy.rawValue).db")
    _ = try apply(trail, to: path, .rows)
    let target = PostgresServer.isAvailable ? try PostgresTarget() : nil
    if let target { try PostgresApply(uri: target.url, trail: trail.trail, name: trail.name, options: .init()).drain() }
    for _ in 1...2 {
      try history.execute("UPDATE item SET stock = stock + 1", on: "item")
      try history.commit {
        ($0.statement.text, $0.statement.rowsAffected) = ("UPDATE item SET stock = \(Self.slow)", 1000)
      }
    }
    try history.sync()
    var options = Self.options(policy)
    options.statements.milliseconds = 1
    let progress = ApplyProgress()
    try SQLiteApply(path: path, trail: trail.trail, name: trail.name, options: options, progress: progress).drain()
    try expectSame(history, path, "SQLite, \(policy.rawValue)")
    guard let target else { return }
    target.options = options
    try PostgresApply(
      uri: target.url, trail: trail.trail, name: trail.name, options: target.options, progress: target.progress
    ).drain()
    let wanted = try history.rows("item").map { row in
      if case .integer(let id) = row[0], case .integer(let stock) = row[2] { "\(id) \(stock)" } else { "" }
    }
    let found = try PostgresConnection(target.url).query("SELECT id, stock FROM public.item ORDER BY id")
    #expect(found.map { "\($0[0] ?? "") \($0[1] ?? "")" } == wanted)
    for snapshot in [progress.snapshot, target.progress.snapshot] {
      let count = snapshot.statements.reasons["they take too long at the target"]
      #expect(count == 2, "\(snapshot.statements)")
      #expect(snapshot.notices.count { $0.contains("ran longer than") } == 1, "\(snapshot.notices)")
    }
  }

  @Test func `an apply that ended while it executed a statement goes on with rows`() throws {
    let folder = try TempFolder()
    let trail = try Handmade(folder)
    let history = try SourceHistory(trail)
    try filled(history)
    try history.execute("UPDATE item SET stock = stock + 1", on: "item")
    try history.commit()
    try history.sync()
    let mark = URL(filePath: folder("applies/copy.statement"))
    func run(_ target: String) throws -> ApplyProgress.Snapshot {
      var options = Self.options(.statements)
      options.statements.mark = mark.path
      let progress = ApplyProgress()
      let path = folder(target)
      try SQLiteApply(path: path, trail: trail.trail, name: trail.name, options: options, progress: progress).drain()
      try expectSame(history, path, "\(target)")
      return progress.snapshot
    }
    #expect(try run("first.db").statements.replayed > 0)
    #expect(try String(contentsOf: mark, encoding: .utf8) == "0")
    try Data("1".utf8).write(to: mark)
    let after = try run("second.db")
    #expect(after.statements.replayed == 0)
    #expect(after.notices.contains { $0.contains("ended while a statement of the trail was executed") })
    #expect(try String(contentsOf: mark, encoding: .utf8) == "0")
  }

  /// Each statement that fails has its group done again.
  @Test func `after three failures, the rest of a transaction gets rows`() throws {
    let folder = try TempFolder()
    let trail = try Handmade(folder)
    let history = try SourceHistory(trail)
    try filled(history)
    try history.sync()
    let path = folder("target.db")
    _ = try apply(trail, to: path, .rows)
    for number in 1...8 {
      try history.execute("UPDATE item SET stock = \(number) WHERE id < 9", on: "item")
    }
    // The target has other rows now, so each statement acts otherwise there.
    try history.commit()
    try history.sync()
    let other = try Database(path: path)
    other.setTriggersEnabled(false)
    try other.execute("INSERT INTO item(id, name) VALUES (-1, 'x')")
    let counts = try apply(trail, to: path, .statements)
    #expect(counts.reasons["they did something else at the target"] == 3, "\(counts)")
    #expect(counts.asRows == 8 && counts.replayed == 0, "\(counts)")
    try other.execute("DELETE FROM item WHERE id = -1")
    try expectSame(history, path, "after failures")
  }

  /// SQLite reports a full database, and rolls back the transaction, if AUTOINCREMENT is at its end.
  @Test(.timeLimit(.minutes(20))) func `a statement whose error ends the transaction goes as rows`() throws {
    let folder = try TempFolder()
    let trail = try Handmade(folder)
    let history = try SourceHistory(trail)
    let path = folder("target.db")
    let create = try history.database.text("SELECT sql FROM sqlite_master WHERE name = 'item'") ?? ""
    #expect(create.contains("INTEGER PRIMARY KEY"))
    try Database(path: path, mode: .create).execute(
      create.replacing("INTEGER PRIMARY KEY", with: "INTEGER PRIMARY KEY AUTOINCREMENT"))
    try filled(history)
    try history.sync()
    _ = try apply(trail, to: path, .rows)
    try Database(ofProgram: path).execute("UPDATE sqlite_sequence SET seq = 9223372036854775807")
    try history.execute("INSERT INTO item(name) VALUES ('last')", on: "item")
    try history.commit()
    try history.sync()
    let counts = try apply(trail, to: path, .statements)
    #expect(counts.asRows == 1 && counts.replayed == 0, "\(counts)")
    try expectSame(history, path, "after SQLITE_FULL")
  }

  @Test func `a statement that is refused after its check leaves no mark`() throws {
    let folder = try TempFolder()
    let mark = folder("statement")
    var options = SQLiteApply.Options()
    (options.replay, options.statements.mark) = (.statements, mark)
    let desk = try #require(try StatementSession(options, ApplyProgress()))
    let table = TableSchema(
      epoch: 1, engine: .sqlite, name: "item",
      columns: [.init(name: "id", declaredType: "INTEGER", isNotNull: true, keyOrdinal: 1)])
    for text in ["DELETE FROM item", "no statement"] {
      let statement = ExecutedStatement(dialect: .sqlite, text: text, parameters: [], rowsAffected: 1, now: nil)
      _ = try desk.judge(statement, for: .sqlite) { _ in StatementTable(table, isGuarded: true) }
      #expect(try String(contentsOfFile: mark, encoding: .utf8) == "0", "\(text)")
    }
  }

  @Test(.timeLimit(.minutes(20)))
  func `a server that ends during a statement gets the rows, also after another start`() throws {
    guard PostgresServer.isAvailable else { return }
    let folder = try TempFolder()
    let trail = try Handmade(folder)
    let history = try SourceHistory(trail)
    try filled(history)
    try history.sync()
    let mark = URL(filePath: folder("statement"))
    let target = try PostgresTarget()
    target.options = Self.options(.statements)
    target.options.statements.mark = mark.path
    func apply() throws -> PostgresApply {
      try PostgresApply(
        uri: target.url, trail: trail.trail, name: trail.name, options: target.options, progress: target.progress)
    }
    try apply().drain()
    try history.execute("UPDATE item SET stock = stock + 1", on: "item")
    try history.commit()
    try history.execute("UPDATE item SET price = 3", on: "item")
    try history.commit()
    try history.sync()
    // The statement waits for this row, until its session is ended.
    let blocker = try PostgresConnection(target.url)
    try blocker.execute("BEGIN")
    _ = try blocker.query("SELECT 1 FROM public.item WHERE id = 7 FOR UPDATE")
    let ending = try WorkerThread { [server = target.server, name = target.name] in
      let ends =
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = '\(name)' AND wait_event_type = 'Lock'"
      let limit = Clock.monotonicMilliseconds + 30_000
      while (try? server.psql(ends, name)) == "0", Clock.monotonicMilliseconds < limit { Clock.sleep(milliseconds: 50) }
      _ = try? server.psql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '\(name)' AND state = 'idle in transaction'",
        name)
    }
    try apply().drain()
    _ = ending.join()
    #expect(target.progress.snapshot.notices.contains { $0.hasPrefix("the server ended while it executed") })
    // Only the first transaction's.
    #expect(target.progress.snapshot.statements.replayed == 1)
    let found = try PostgresConnection(target.url).query("SELECT sum(stock), sum(price) FROM public.item")
    let stock = try history.rows("item").reduce(Int64(0)) { if case .integer(let n) = $1[2] { $0 + n } else { $0 } }
    #expect(found == [["\(stock)", "3300.00"]])
    #expect(try String(contentsOf: mark, encoding: .utf8) == "1")
  }

  @Test func `after a statement that took too long, none is executed for nine times as long`() {
    var time = StatementTime(milliseconds: 30_000)
    #expect(time.limit(rows: 0) == 30_000 && time.limit(rows: 1_000_000) == 40_000)
    #expect(time.limit(rows: .max) == 120_000 && !time.isOver(now: .min))
    time.ranOut(after: 30_000, now: 1000)
    #expect(time.isOver(now: 270_999) && !time.isOver(now: 271_000))
  }

  @Test func `slow statements that succeed pause the execution too, and fast ones do not`() {
    var time = StatementTime(milliseconds: 30_000)
    for _ in 0..<1000 { time.took(105, rows: 10_000, now: 0) }
    #expect(!time.isOver(now: 0))
    for _ in 0..<10 { time.took(110, rows: 1000, now: 0) }
    #expect(!time.isOver(now: 0))
    time.took(110, rows: 1000, now: 50)
    #expect(time.isOver(now: 9454) && !time.isOver(now: 9455))
  }

  @Test func `damage among the rows of a statement is reported, and nothing of it stays`() throws {
    let folder = try TempFolder()
    let trail = try Handmade(folder)
    let history = try SourceHistory(trail)
    try filled(history)
    try history.sync()
    let path = folder("target.db")
    _ = try apply(trail, to: path, .auto)
    let before = try Database(path: path).query("SELECT * FROM item")
    let segment = URL(filePath: trail.trail + "/00000001.seg")
    let length = try #require(try Data(contentsOf: segment).range(of: Data("CBLK".utf8), options: .backwards))
      .upperBound
    try history.execute("UPDATE item SET name = name || hex(randomblob(200))", on: "item")
    try history.commit { $0.statement.text = "UPDATE item SET name = name || 'x'" }
    try history.sync()
    var bytes = try Data(contentsOf: segment)
    let last = try #require(bytes.range(of: Data("CBLK".utf8), options: .backwards)).upperBound
    // The statement's first rows are in a block before it.
    #expect(bytes[length..<last].count > 100_000)
    bytes[last + 100] ^= 1
    try bytes.write(to: segment)
    let error = #expect(throws: CairnError.self) { try apply(trail, to: path, .auto) }
    #expect(error?.code == .trailDamaged)
    #expect(try Database(path: path).query("SELECT * FROM item") == before)
  }

  @Test func `changes by triggers go as rows`() throws {
    let folder = try TempFolder()
    let trail = try Handmade(folder)
    let history = try SourceHistory(trail)
    try filled(history)
    try history.execute("UPDATE item SET stock = 8", on: "item")
    try history.commit {
      $0.changes.append(("sale", nil, [1, 2, 3, "by a trigger"]))
      $0.end.changes += 1
    }
    try history.sync()
    let path = folder("target.db")
    let counts = try apply(trail, to: path, .auto)
    #expect(counts.reasons["they did something else at the target"] == 1)
    #expect(try Database(path: path).query("SELECT note FROM sale") == [["by a trigger"]])
    #expect(try Database(path: path).integer("SELECT count(*) FROM item WHERE stock = 8") == 1100)
  }

  @Test func `a table that a rule changes, or that has columns of its own, goes as rows`() throws {
    let folder = try TempFolder()
    let trail = try Handmade(folder)
    let history = try SourceHistory(trail)
    try history.sync()
    let path = folder("target.db")
    _ = try apply(trail, to: path, .statements)
    try Database(path: path).execute("ALTER TABLE item ADD COLUMN own TEXT")
    try filled(history)
    try history.sync()
    let counts = try apply(trail, to: path, .statements)
    #expect(counts.reasons == ["table item is not one that the target has as it is": 1])
    #expect(try Database(path: path).integer("SELECT count(*) FROM item") == 1100)
  }

  @Test func `reasons are counted, the most frequent first, and no more of them than people read`() {
    var counts = StatementCounts()
    #expect(counts.summary == nil)
    counts.addReplayed()
    for number in 0..<60 { counts.addRows("reason \(number)") }
    counts.addRows("reason 3")
    #expect(counts.asRows == 61 && counts.reasons.count == 51)
    #expect(counts.ordered.first?.reason == "other reasons" && counts.ordered[1].reason == "reason 3")
    #expect(counts.summary?.hasPrefix("1 of 62 statements were executed as such; for the rest") ?? false)
  }

  /// A user of a program types it, and the program binds it: C1 of the threat model.
  @Test(arguments: [ReplayPolicy.auto, .statements])
  func `a bound parameter is data, whatever is in it`(policy: ReplayPolicy) throws {
    let folder = try TempFolder()
    let trail = try Handmade(folder)
    let history = try SourceHistory(trail)
    try filled(history)
    let seed = UInt64.random(in: .min ... .max)
    var random = Seeded(seed)
    for id in 1...100 {
      let joiner = HostileText.string([HostileText.scalars[random.below(HostileText.scalars.count)]])
      let payload = "; DROP TABLE public.canary; --"
      let text = [
        "a\(joiner)'\(payload)", "a'\(joiner)\(payload)", "a\\'\(joiner)\(payload)", random.hostileText(upTo: 12),
      ][id % 4]
      try history.execute(
        "UPDATE item SET name = ? WHERE id = ?", [.text(Array(text.utf8)), .integer(Int64(id))], on: "item")
      if id % 10 == 0 { try history.commit() }
    }
    try history.sync()
    let path = folder("target.db")
    _ = try apply(trail, to: path, policy)
    try expectSame(history, path, "SQLite, seed \(seed)")
    guard PostgresServer.isAvailable else { return }
    let target = try PostgresTarget()
    let connection = try PostgresConnection(target.url)
    try connection.execute("CREATE TABLE public.canary()")
    let progress = ApplyProgress()
    try PostgresApply(
      uri: target.url, trail: trail.trail, name: trail.name, options: Self.options(policy), progress: progress
    ).drain()
    if policy == .statements { #expect(progress.snapshot.statements.replayed >= 100) }
    let found = try connection.query("SELECT name FROM public.item ORDER BY id")
    let wanted = try history.rows("item").map { $0[1].string }
    #expect(found.map { Array(($0[0] ?? "").utf8) } == wanted.map { Array($0.utf8) }, "seed \(seed)")
    #expect(try connection.first("SELECT to_regclass('public.canary') IS NOT NULL") == "t", "seed \(seed)")
  }
}
