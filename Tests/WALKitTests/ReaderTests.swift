import Changes
import Foundation
import SQLiteFormat
import SQLiteKit
import Synchronization
import TestServers
import Testing

@testable import WALKit

/// A reader beside real programs. Each commit adds one to a counter, so the reader sees a commit that is missing.
@Suite struct ReaderTests {
  /// Writes until it is killed: a counter in each commit, rows, all kinds of checkpoints, pauses, new connections.
  private static let program = """
    import random, sqlite3, sys, time
    path, seed, end = sys.argv[1], int(sys.argv[2]), time.time() + float(sys.argv[3])
    draw = random.Random(seed)
    def opened():
        db = sqlite3.connect(path, isolation_level=None, timeout=20)
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute(f"PRAGMA wal_autocheckpoint = {draw.choice([20, 100, 1000])}")
        return db
    db = opened()
    while time.time() < end:
        db.execute("BEGIN IMMEDIATE")
        db.execute("UPDATE counter SET n = n + 1")
        for _ in range(draw.choice([0, 0, 1, 10, 200])):
            db.execute("INSERT INTO item(name) VALUES (?)", ("x" * draw.randrange(200),))
        if draw.random() < 0.02:
            db.execute("DELETE FROM item WHERE id % 3 = 0")
        db.execute("COMMIT")
        chance = draw.random()
        if chance < 0.01:
            kind = draw.choice(["PASSIVE", "FULL", "RESTART", "TRUNCATE"])
            db.execute(f"PRAGMA wal_checkpoint({kind})").fetchall()
        elif chance < 0.03:
            time.sleep(draw.random() * 0.02)
        elif chance < 0.035:
            db.close()
            db = opened()
    """

  private let folder = FileManager.default.temporaryDirectory.path + "/cairn-log-\(UUID().uuidString)"

  private func database() throws -> (path: String, counterPage: UInt32) {
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    let path = folder + "/shop.db"
    let database = try Database(path: path, mode: .create)
    try database.executeScript(
      """
      PRAGMA journal_mode = WAL;
      CREATE TABLE counter(id INTEGER PRIMARY KEY, n); INSERT INTO counter VALUES (1, 0);
      CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT);
      """)
    let root = try database.integer("SELECT rootpage FROM sqlite_master WHERE name = 'counter'")
    return (path, UInt32(try #require(root)))
  }

  private func python(_ arguments: [String]) throws -> Process {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/python3")
    process.arguments = ["-c", Self.program] + arguments
    try process.run()
    return process
  }

  /// Returns the value of the counter in a page.
  private static func counter(_ page: PageBytes, _ layout: PageLayout) throws -> Int64 {
    let payload = try TreePage(page, layout).row(0).payload
    var values = try RecordValues(PageBytes(number: page.number, bytes: try page.slice(payload.local)))
    _ = try values.next()
    guard case .integer(let number)? = try values.next() else { throw TestFailure("no counter") }
    return number
  }

  /// Reads while `write` runs on another thread. Returns the counter of each commit.
  private func counters(
    _ path: String, page: UInt32, limits: WALHolds.Limits, while write: @Sendable @escaping () throws -> Void
  ) throws -> (counters: [Int64], reader: WALReader) {
    let reader = try WALReader(path: path, limits: limits)
    let layout = try #require(PageLayout(pageSize: 4096, reserved: 0))
    let failure = Mutex<(any Error)?>(nil)
    let isDone = Atomic(false)
    var thread: Thread?
    var counters: [Int64] = []
    var quietUntil: Date?
    try reader.run(
      until: {
        // The writers begin when nothing can be missed any more.
        if thread == nil, reader.holds.isHeld {
          let started = Thread {
            do { try write() } catch { failure.withLock { $0 = error } }
            isDone.store(true, ordering: .releasing)
          }
          thread = started
          started.start()
        }
        guard isDone.load(ordering: .acquiring) else { return false }
        if quietUntil == nil { quietUntil = Date(timeIntervalSinceNow: 0.5) }
        return quietUntil.map { $0 < Date() } ?? false
      },
      { transaction in
        let found = try reader.withPage(page, of: transaction) { try Self.counter($0, layout) }
        if let found { counters.append(found) }
      })
    if let error = failure.withLock({ $0 }) { throw error }
    return (counters, reader)
  }

  private static var small: WALHolds.Limits {
    var limits = WALHolds.Limits()
    (limits.windowFrames, limits.checkpointFrames) = (300, 50)
    return limits
  }

  private func check(_ path: String, _ counters: [Int64]) throws {
    let database = try Database(path: path)
    let last = try #require(try database.integer("SELECT n FROM counter"))
    #expect(counters == (last == 0 ? [] : Array(1...last)), "\(counters.count) commits of \(last)")
    #expect(try database.text("PRAGMA integrity_check") == "ok")
    try FileManager.default.removeItem(atPath: folder)
  }

  @Test func `each commit of three programs with checkpoints of all kinds is read once`() throws {
    let (path, page) = try database()
    let seconds = isSoak ? 60.0 : 3
    let (counters, reader) = try counters(path, page: page, limits: Self.small) {
      let programs = try (1...3).map { try python([path, "\($0)", "\(seconds)"]) }
      for program in programs { program.waitUntilExit() }
    }
    print("\(counters.count) commits, \(reader.counts)")
    #expect(counters.count > 20 && reader.counts.rests > 0 && reader.counts.marks > 0)
    try check(path, counters)
  }

  @Test func `each commit of programs that are killed is read once`() throws {
    let (path, page) = try database()
    let kills = isSoak ? 2000 : 20
    let (counters, reader) = try counters(path, page: page, limits: Self.small) {
      var random = Seeded(7)
      for kill in 0..<kills / 2 {
        let programs = try (0..<2).map { try python([path, "\(kill * 2 + $0)", "60"]) }
        usleep(UInt32(150_000 + random.below(250_000)))
        for program in programs {
          Glibc.kill(program.processIdentifier, SIGKILL)
          program.waitUntilExit()
        }
      }
    }
    print("\(kills) kills, \(counters.count) commits, \(reader.counts)")
    #expect(counters.count > 0)
    try check(path, counters)
  }

  /// A program that waits for readers gets the log for itself.
  @Test func `an explicit checkpoint succeeds while a reader is attached`() throws {
    let (path, page) = try database()
    let busy = Mutex<[Int64]>([])
    let (counters, _) = try counters(path, page: page, limits: WALHolds.Limits()) {
      let database = try Database(path: path, busyTimeoutMilliseconds: 10_000)
      for round in 0..<20 {
        for _ in 0..<5 { try database.execute("UPDATE counter SET n = n + 1") }
        let kind = ["FULL", "RESTART", "TRUNCATE"][round % 3]
        let row = try database.query("PRAGMA wal_checkpoint(\(kind))").first
        if case .integer(let isBusy)? = row?.first { busy.withLock { $0.append(isBusy) } }
      }
    }
    #expect(busy.withLock { $0 } == Array(repeating: 0, count: 20))
    try check(path, counters)
  }

  @Test func `a database without a log is refused`() throws {
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    let path = folder + "/plain.db"
    try Database(path: path, mode: .create).execute("CREATE TABLE item(id INTEGER PRIMARY KEY)")
    #expect(throws: SQLiteError.self) { try WALFile(path: path) }
    try FileManager.default.removeItem(atPath: folder)
  }
}
