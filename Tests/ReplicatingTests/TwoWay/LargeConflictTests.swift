import Applying
import Capturing
import Endpoints
import Foundation
import Mapping
import PostgresKit
import SQLiteKit
import Synchronization
import SystemKit
import TestServers
import Testing

/// A large transaction of one node, while a program at the other node writes to one of its rows.
///
/// Each case runs in a process of its own, so that the memory of other tests does not count.
@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"), .serialized)
struct LargeConflictTests {
  /// Every case changes all rows, and `plain` does only that. In the other cases all rows are settled one by one.
  /// In `passing`, a unique value also passes from a row that is deleted to a new one. In `rivals`, the other node
  /// changed every row, too. In `deletes`, most rows are deleted. The tables of `passing` and `deletes` have a foreign
  /// key to them.
  enum Kind: String { case plain, passing, rivals, deletes }

  /// `CAIRN_ROWS` is another number of rows. With few of them, only the time says something.
  private static var count: Int {
    ProcessInfo.processInfo.environment["CAIRN_ROWS"].flatMap { Int($0) } ?? (isSoak ? 60_000 : 3000)
  }

  /// Above what the process held before the transaction came.
  static let growthMax = 64 << 20

  @Test func `a hot row of PostgreSQL`() async {
    let result = await #expect(processExitsWith: .success, observing: [\.standardOutputContent]) {
      try Self.check("sp", .plain, Self.count)
    }
    Self.report(result)
  }

  @Test func `a hot row of SQLite`() async {
    let result = await #expect(processExitsWith: .success, observing: [\.standardOutputContent]) {
      try Self.check("ps", .plain, Self.count)
    }
    Self.report(result)
  }

  @Test func `a unique value that is passed on in PostgreSQL`() async {
    let result = await #expect(processExitsWith: .success, observing: [\.standardOutputContent]) {
      try Self.check("sp", .passing, Self.count)
    }
    Self.report(result)
  }

  @Test func `a unique value that is passed on in SQLite`() async {
    let result = await #expect(processExitsWith: .success, observing: [\.standardOutputContent]) {
      try Self.check("ps", .passing, Self.count)
    }
    Self.report(result)
  }

  @Test func `deletes of rows to which others may refer, in PostgreSQL`() async {
    let result = await #expect(processExitsWith: .success, observing: [\.standardOutputContent]) {
      try Self.check("sp", .deletes, Self.count)
    }
    Self.report(result)
  }

  @Test func `deletes of rows to which others may refer, in SQLite`() async {
    let result = await #expect(processExitsWith: .success, observing: [\.standardOutputContent]) {
      try Self.check("ps", .deletes, Self.count)
    }
    Self.report(result)
  }

  @Test func `a conflict in every row, in PostgreSQL`() async {
    let result = await #expect(processExitsWith: .success, observing: [\.standardOutputContent]) {
      try Self.check("sp", .rivals, Self.count)
    }
    Self.report(result)
  }

  @Test func `a conflict in every row, in SQLite`() async {
    let result = await #expect(processExitsWith: .success, observing: [\.standardOutputContent]) {
      try Self.check("ps", .rivals, Self.count)
    }
    Self.report(result)
  }

  // MARK: One case

  private static func report(_ result: ExitTest.Result?) {
    let lines = String(decoding: result?.standardOutputContent ?? [], as: UTF8.self).split(separator: "\n")
    for line in lines where line.hasPrefix("large conflict") { print(line) }
  }

  private static let columns = "id, name, code, stock"

  private static func check(_ engines: String, _ kind: Kind, _ count: Int) throws {
    let mesh = try Mesh(
      engines,
      schema: """
        CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, code TEXT UNIQUE, stock INTEGER);
        CREATE TABLE sale(id INTEGER PRIMARY KEY, item INTEGER REFERENCES item(id))
        """, hasSmallLimits: false)
    let (source, target) = (mesh.nodes[0], mesh.nodes[1])
    for node in mesh.nodes where node.isPostgres { try node.execute("ALTER TABLE item REPLICA IDENTITY FULL") }
    let numbers =
      source.isPostgres
      ? "generate_series(1, \(count)) AS n(i)"
      : "(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(count)) SELECT i FROM n) AS n"
    let filler = String(repeating: "some words of a row ", count: 10)
    try source.execute("INSERT INTO item SELECT i, '\(filler)', 'code ' || i, 0 FROM \(numbers)")
    try mesh.settle()
    if !source.isPostgres { try source.execute("CREATE INDEX sale_item ON sale(item)") }
    try target.execute("CREATE INDEX sale_item ON sale(item)")

    let update = "UPDATE item SET name = '%' || id || '\(filler)';"
    try source.execute(update.replacingOccurrences(of: "%", with: "a"))
    try source.capturePending()
    let usual = try milliseconds { try mesh.apply(0, to: 1) }
    for _ in 0..<2 { try mesh.settle() }

    let hot = count / 2
    let own =
      switch kind {
      case .plain, .rivals: update.replacingOccurrences(of: "%", with: "b")
      case .passing:
        "BEGIN; DELETE FROM item WHERE id = 1; INSERT INTO item VALUES (\(count + 1), '', 'code 1', 0); "
          + update.replacingOccurrences(of: "%", with: "b") + "COMMIT"
      case .deletes: "DELETE FROM item WHERE id <> \(hot)"
      }
    if kind == .rivals {
      try target.execute(update.replacingOccurrences(of: "%", with: "c"))
      try target.capturePending()
    }
    try source.execute(own)
    try source.capturePending()

    let writing = Atomic<Bool>(true)
    let longest = Atomic<Int>(0)
    let highest = Atomic<Int>(0)
    let before = try anonymousBytes()
    let url = target.url
    // Apply to SQLite comes through only while capture is level with the program.
    let pause = target.isPostgres ? 5 : 300
    let program = try WorkerThread<String?> {
      do {
        let program = try Program(url)
        while writing.load(ordering: .relaxed) {
          let wait = try milliseconds { try program.execute("UPDATE item SET stock = stock + 1 WHERE id = \(hot)") }
          longest.store(max(wait, longest.load(ordering: .relaxed)), ordering: .relaxed)
          Clock.sleep(milliseconds: pause)
        }
        return nil
      } catch { return "\(error)" }
    }
    let sampler = try WorkerThread<String?> {
      while writing.load(ordering: .relaxed) {
        let bytes = (try? anonymousBytes()) ?? 0
        highest.store(max(bytes, highest.load(ordering: .relaxed)), ordering: .relaxed)
        Clock.sleep(milliseconds: 10)
      }
      return nil
    }
    Clock.sleep(milliseconds: 50)
    let taken = try milliseconds { try mesh.apply(0, to: 1) }
    writing.store(false, ordering: .relaxed)
    #expect((program.join() ?? nil) == nil)
    _ = sampler.join()
    let (wait, growth) = (longest.load(ordering: .relaxed), highest.load(ordering: .relaxed) - before)
    print(
      "large conflict \(engines) \(kind.rawValue): usual \(usual) ms, taken \(taken) ms, longest wait \(wait) ms,",
      "memory grew by \(growth >> 20) MiB")
    #expect(growth < growthMax)
    if kind == .plain { #expect(wait < 3 * usual + 2000) }
    // At any speed of the machine, a program waits for one commit of apply at most.
    #expect(wait < taken + 1000)
    if kind == .deletes, target.isPostgres { #expect(wait < taken / 4 + 300, "the hot row is not in the transaction") }
    if kind == .rivals, taken > 3000 {
      #expect(mesh.notices.contains { $0.contains("apply resolves \(count) rows one by one") }, "\(mesh.notices)")
    }

    for _ in 0..<2 { try mesh.settle() }
    let rows = try mesh.nodes.map { try $0.rows("SELECT \(columns) FROM item ORDER BY id") }
    #expect(rows[0] == rows[1])
    #expect(rows[0].count == (kind == .deletes ? 1 : count))
    try mesh.close()
  }

  private static func milliseconds(_ body: () throws -> some Any) rethrows -> Int {
    let begun = Clock.monotonicMilliseconds
    _ = try body()
    return Int(Clock.monotonicMilliseconds - begun)
  }

  private static func anonymousBytes() throws -> Int {
    let status = try String(contentsOfFile: "/proc/self/status", encoding: .utf8)
    let line = status.split(separator: "\n").first { $0.hasPrefix("RssAnon:") } ?? ""
    return (Int(line.split(separator: " ").dropFirst().first ?? "") ?? 0) * 1024
  }

  /// A session of a program.
  private final class Program {
    private let sqlite: Database?
    private let postgres: PostgresConnection?

    init(_ url: DatabaseURL) throws {
      switch url {
      case .sqlite(let path):
        (sqlite, postgres) = (try Database(path: path, mode: .readWrite), nil)
        sqlite?.setBusyTimeout(milliseconds: 120_000)
      case .postgres(let uri):
        (sqlite, postgres) = (nil, try PostgresConnection(uri))
        try postgres?.execute("SET search_path = public")
      }
    }

    func execute(_ sql: String) throws {
      try sqlite?.executeScript(sql)
      try postgres?.executeScript(sql)
    }
  }
}
