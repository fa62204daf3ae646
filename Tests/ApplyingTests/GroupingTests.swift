import Applying
import Changes
import Glibc
import SQLiteKit
import Synchronization
import SystemKit
import TestServers
import Testing

/// Invariant 5: a transaction is never split over several commits of the target; several may share one.
@Suite struct GroupingTests {
  /// Counts how often the time is asked: that is done around commits only.
  private final class Count: Sendable {
    let asked = Atomic<Int>(0)
    var clock: Clock {
      Clock { [self] in
        asked.add(1, ordering: .relaxed)
        return Clock.system.microseconds()
      }
    }
  }

  private func askedTimes(transactions: Int, _ set: (inout SQLiteApply.Options) -> Void) throws -> Int {
    let made = try Handmade(TempFolder())
    try made.begin("CREATE TABLE t(id INTEGER PRIMARY KEY)", "t", [])
    for id in 0..<transactions { try made.transaction { try made.insert("t", [.integer(Int64(id))]) } }
    let count = Count()
    made.clock = count.clock
    set(&made.options)
    try made.replay()
    #expect(try made.rows("SELECT count(*) FROM t") == [[.integer(Int64(transactions))]])
    return count.asked.load(ordering: .relaxed)
  }

  @Test func `small transactions that wait share commits`() throws {
    let alone = try askedTimes(transactions: 60) { $0.commitRows = 1 }
    let shared = try askedTimes(transactions: 60) { $0.commitMilliseconds = 10_000 }
    #expect(alone >= 60)
    #expect(shared * 20 < alone, "\(shared) and \(alone)")
  }

  /// Looks from another connection, again and again, until `body` has ended.
  private func watching(_ made: Handmade, _ sql: String, _ body: () throws -> Void) throws -> [Int64] {
    let stop = StopSignal()
    let path = made.target
    let thread = try WorkerThread { () -> [Int64] in
      guard let database = try? Database(path: path, mode: .readOnly), let statement = try? database.prepare(sql) else {
        return [-1]
      }
      var seen: [Int64] = []
      while true {
        let isLast = stop.isSet
        if (try? statement.step()) ?? false, seen.last != statement.integer(0) { seen.append(statement.integer(0)) }
        statement.reset()
        if isLast { return seen }
      }
    }
    do { try body() } catch {
      stop.set()
      _ = thread.join()
      throw error
    }
    stop.set()
    return thread.join() ?? []
  }

  @Test func `a reader never sees one of a pair that was written together`() throws {
    let made = try Handmade(TempFolder())
    try made.begin("CREATE TABLE t(id INTEGER PRIMARY KEY)", "t", [])
    for id in 0..<400 as Range<Int64> {
      try made.transaction {
        try made.insert("t", [.integer(id)])
        try made.insert("t", [.integer(-id - 1)])
      }
    }
    made.options.commitRows = 7
    let seen = try watching(made, "SELECT count(*) FROM t") { try made.replay() }
    #expect(seen.last == 800 && seen.allSatisfy { $0 % 2 == 0 }, "\(seen)")
  }

  @Test func `a transaction larger than any limit is one commit`() throws {
    let made = try Handmade(TempFolder())
    try made.begin("CREATE TABLE t(id INTEGER PRIMARY KEY, a)", "t", [])
    try made.transaction { for id in 0..<20_000 as Range<Int64> { try made.insert("t", [.integer(id), "some text"]) } }
    made.options.commitRows = 10
    made.options.commitMilliseconds = 1
    let seen = try watching(made, "SELECT count(*) FROM t") { try made.replay() }
    #expect(seen.allSatisfy { $0 == 0 || $0 == 20_000 } && seen.last == 20_000, "\(seen)")
  }

  @Test func `a stop within a large transaction takes effect at once, and the next run applies all of it`() throws {
    let made = try Handmade(TempFolder())
    try made.begin("CREATE TABLE t(id INTEGER PRIMARY KEY, a)", "t", [])
    let count: Int64 = 100_000
    try made.transaction { for id in 0..<count { try made.insert("t", [.integer(id), "text"]) } }
    let apply = try made.open()
    let stop = StopSignal()
    let thread = try WorkerThread { () -> Int64 in
      // In the middle of the transaction.
      usleep(300_000)
      defer { stop.set() }
      return Clock.monotonicMilliseconds
    }
    try apply.run(stop: stop, drain: StopSignal())
    let ended = Clock.monotonicMilliseconds
    let stopped = try #require(thread.join())
    #expect(stop.isSet && ended - stopped < 1000, "\(ended - stopped) ms")
    #expect(try made.rows("SELECT count(*) FROM t") == [[0]])
    try made.replay()
    #expect(try made.rows("SELECT count(*) FROM t") == [[.integer(count)]])
  }

  @Test func `a target that is locked for a while is waited for`() throws {
    let made = try Handmade(TempFolder())
    try made.begin("CREATE TABLE t(id INTEGER PRIMARY KEY)", "t", [])
    try made.transaction { try made.insert("t", [1]) }
    let apply = try made.open()
    let path = made.target
    let locked = StopSignal()
    let thread = try WorkerThread {
      guard let other = try? Database(path: path) else { return }
      try? other.execute("BEGIN IMMEDIATE")
      locked.set()
      usleep(700_000)
      try? other.execute("COMMIT")
    }
    _ = locked.wait(milliseconds: 5000)
    try apply.drain()
    _ = thread.join()
    #expect(try made.rows("SELECT * FROM t") == [[1]])
  }
}
