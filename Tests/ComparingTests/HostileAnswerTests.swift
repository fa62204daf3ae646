import Changes
import PostgresKit
import SQLiteKit
import SystemKit
import TestServers
import Testing
import Trails

@testable import Comparing

/// Answers to questions about rows by a node that means to harm the one that asks.
@Suite struct HostileAnswerTests {
  private static let whole = OriginAnswer.whole

  /// A table `item(id INTEGER PRIMARY KEY, name TEXT)`, or one without a key, and its file.
  private static func table(isKeyed: Bool = true) throws -> (table: ComparedTable, file: Database) {
    let file = try Database(path: ":memory:", mode: .create)
    try file.executeScript("CREATE TABLE item(id INTEGER\(isKeyed ? " PRIMARY KEY" : ""), name TEXT)")
    let database = try CompareDatabase(.sqlite(file))
    let plan = try ComparePlan(database, database, TablePatterns(), .fold)
    return (try #require(plan.tables.first), file)
  }

  private static func answer(_ write: (inout ByteWriter) -> Void) -> OriginSource {
    var writer = ByteWriter()
    writer.append(whole)
    write(&writer)
    let bytes = Array(writer.bytes)
    return OriginSource { _ in bytes }
  }

  private func expectRefusal(_ what: String, _ body: () throws -> Void) {
    let error = #expect(throws: CairnError.self, "\(what)") { try body() }
    #expect(error?.code == .unsupported, "\(what): \(error.map { "\($0)" } ?? "")")
  }

  @Test(arguments: [1 << 62 - 1, 1 << 40, 101, 50_001] as [UInt64], [false, true])
  func `a slice of more rows than were asked for is refused`(rows: UInt64, naming: Bool) throws {
    let (table, _) = try Self.table()
    let origin = Self.answer { writer in
      writer.appendVarint(rows)
      writer.appendVarint(7)
      writer.append(key: nil)
      writer.append([UInt8](repeating: 0, count: 20 * 60_000))
    }
    let reader = OriginRowReader(origin, .sqlite, seed: 1)
    expectRefusal("\(rows) rows") {
      _ = try reader.scan(table, .range(after: nil, through: nil, limit: 100), naming: naming) { _ in }
    }
    guard rows > 50_000 else { return }
    expectRefusal("\(rows) rows, without a limit") {
      _ = try reader.scan(table, .range(after: nil, through: nil, limit: nil), naming: naming) { _ in }
    }
  }

  @Test(arguments: [1 << 62 - 1, 1 << 50, 1 << 40] as [UInt64])
  func `more bytes than an origin can read in its time are refused`(bytes: UInt64) throws {
    let (table, _) = try Self.table()
    let origin = Self.answer { writer in
      writer.appendVarint(1)
      writer.appendVarint(bytes)
      writer.append(key: nil)
      writer.appendFixed(UInt64(5))
    }
    let reader = OriginRowReader(origin, .sqlite, seed: 1)
    expectRefusal("\(bytes) bytes") {
      _ = try reader.scan(table, .range(after: nil, through: nil, limit: 100), naming: false) { _ in }
    }
  }

  @Test(
    arguments: [[], [.integer(1), .integer(2)], [.exact([0x31])]] as [[Value]])
  func `a last key that is none of the table is refused`(key: [Value]) throws {
    let (table, _) = try Self.table()
    let origin = Self.answer { writer in
      writer.appendVarint(1)
      writer.appendVarint(9)
      writer.append(key: key)
      writer.appendFixed(UInt64(5))
    }
    let reader = OriginRowReader(origin, .sqlite, seed: 1)
    expectRefusal("\(key)") {
      _ = try reader.scan(table, .range(after: nil, through: nil, limit: 100), naming: false) { _ in }
    }
  }

  @Test func `a slice that ends where it began is refused`() throws {
    let (table, _) = try Self.table()
    let origin = Self.answer { writer in
      writer.appendVarint(1)
      writer.appendVarint(9)
      writer.append(key: [.integer(7)])
      writer.appendFixed(UInt64(5))
    }
    let reader = OriginRowReader(origin, .sqlite, seed: 1)
    _ = try reader.scan(table, .range(after: [.integer(6)], through: nil, limit: 100), naming: false) { _ in }
    expectRefusal("the same key") {
      _ = try reader.scan(table, .range(after: [.integer(7)], through: nil, limit: 100), naming: false) { _ in }
    }
  }

  @Test func `more pages, or parts, than a table has are refused`() throws {
    let (table, _) = try Self.table()
    for pages: UInt64 in [1 << 32 - 1, 1 << 32, 1 << 62 - 1] {
      let origin = Self.answer { writer in
        writer.append(3)
        writer.appendVarint(1)
        writer.appendVarint(pages)
      }
      expectRefusal("\(pages) pages") { _ = try OriginRowReader(origin, .postgres, seed: 1).parts(of: table) }
    }
    let origin = Self.answer { writer in
      writer.append(3)
      writer.appendVarint(1_000_000)
      writer.append([UInt8](repeating: 1, count: 1_000_000))
    }
    expectRefusal("a million parts") { _ = try OriginRowReader(origin, .postgres, seed: 1).parts(of: table) }
  }

  @Test func `values of another engine are refused`() throws {
    let (table, _) = try Self.table()
    let origin = Self.answer { writer in
      writer.append(1)
      writer.appendZigzag(1)
      writer.appendVarint(1)
      writer.appendVarint(1)
      writer.appendImage([.exact([0x31]), .exact([0x31])])
    }
    expectRefusal("texts of PostgreSQL") {
      try OriginRowReader(origin, .sqlite, seed: 1).rows(table, keys: [[.integer(1)]]) { _, _ in }
    }
  }

  @Test func `more rows than keys can find are refused`() throws {
    let (table, _) = try Self.table()
    let origin = Self.answer { writer in
      writer.append(1)
      writer.appendZigzag(1)
      writer.appendVarint(400_000)
      for _ in 0..<400_000 {
        writer.appendVarint(1)
        writer.appendImage([.integer(1), .null])
      }
    }
    var count = 0
    expectRefusal("400,000 rows of a key") {
      try OriginRowReader(origin, .sqlite, seed: 1).rows(table, keys: [[.integer(1)]]) { _, _ in count += 1 }
    }
    #expect(count == 0)
  }

  // MARK: Tables

  private static func schema(_ name: String) throws -> TableSchema {
    var schema = try table().table.source.schema.compared
    schema.name = name
    return schema
  }

  /// One more page of a list, whatever was asked for.
  private static func tables(_ names: [String], isLast: Bool, engine: Engine = .sqlite) throws -> [UInt8] {
    var writer = ByteWriter()
    writer.append(whole)
    writer.append(engine.rawValue)
    writer.append(1 | (isLast ? 2 : 0))
    writer.appendVarint(UInt64(names.count))
    for name in names { writer.append(OriginTable(name: name, schema: try schema(name))) }
    return Array(writer.bytes)
  }

  private struct Endless: Error {}

  @Test func `a list of tables without an end is refused`() throws {
    let schema = try Self.schema("t")
    for perAnswer in [1, 1000] {
      let told = Counter()
      let origin = OriginSource { _ in
        var writer = ByteWriter()
        writer.append(Self.whole)
        writer.append(Engine.sqlite.rawValue)
        writer.append(1)
        writer.appendVarint(UInt64(perAnswer))
        for _ in 0..<perAnswer {
          var table = schema
          table.name = "t\(told.next())"
          writer.append(OriginTable(name: table.name, schema: table))
        }
        guard told.value <= 30_000 else { throw Endless() }
        return Array(writer.bytes)
      }
      expectRefusal("tables without end") { _ = try origin.tables() }
      #expect(told.value <= 11_000)
    }
  }

  @Test func `a list of tables that takes too much memory is refused`() throws {
    var schema = try Self.schema("t")
    schema.columns = Array(repeating: schema.columns[1], count: 30_000)
    let wide = schema
    let told = Counter()
    let origin = OriginSource { _ in
      guard told.value < 300 else { throw Endless() }
      var table = wide
      table.name = "t\(told.next())"
      var writer = ByteWriter()
      writer.append(Self.whole)
      writer.append(Engine.sqlite.rawValue)
      writer.append(1)
      writer.appendVarint(1)
      writer.append(OriginTable(name: table.name, schema: table))
      return Array(writer.bytes)
    }
    expectRefusal("wide tables") { _ = try origin.tables() }
    #expect(told.value < 100)
  }

  @Test(arguments: [["item", "item"], ["item", "ITEM"], ["a", "b", "a"]])
  func `a table that is listed twice is refused`(names: [String]) throws {
    let answer = try Self.tables(names, isLast: true)
    expectRefusal("\(names)") { _ = try OriginSource { _ in answer }.tables() }
  }

  @Test func `a table of another engine than its database is refused`() throws {
    let answer = try Self.tables(["item"], isLast: true, engine: .postgres)
    expectRefusal("engines") { _ = try OriginSource { _ in answer }.tables() }
  }

  @Test func `names that differ are listed as they are`() throws {
    let answer = try Self.tables(["item", "items", "caf\u{e9}", "cafe\u{301}"], isLast: true)
    #expect(try OriginSource { _ in answer }.tables().tables.count == 4)
  }

  // MARK: Counts

  private static func counts(_ count: UInt64) -> OriginSource {
    answer { writer in
      writer.append(1)
      writer.appendZigzag(1)
      writer.appendVarint(count)
      writer.appendImage([.integer(1), .null])
    }
  }

  @Test(arguments: [1 << 31, 1 << 32, 1 << 62 - 1] as [UInt64])
  func `a row that is there more often than can be counted is refused`(count: UInt64) throws {
    let (table, _) = try Self.table(isKeyed: false)
    expectRefusal("\(count) rows") {
      try OriginRowReader(Self.counts(count), .sqlite, seed: 1).count(table, into: RowCounts([7]))
    }
  }

  @Test func `a row that is there two thousand million times more is reported at once`() throws {
    let (table, file) = try Self.table(isKeyed: false)
    let look = RowLook(
      table, source: OriginRowReader(Self.counts(1 << 31 - 1), .sqlite, seed: 1),
      target: SQLiteRowReader(file, .target, seed: 1), seed: 1)
    let settling = SettlingByLooks(stop: StopSignal(), proves: true)
    var (reports, times) = (0, 0)
    try settling.settle(look, RowVerdict(table, server: nil), whole: [7]) { settlement in
      reports += 1
      times += settlement.differences.reduce(0) { $0 + $1.times }
      guard reports < 100 else { throw Endless() }
    }
    #expect(reports == 1 && times == 1 << 31 - 1)
  }

  @Test func `rows that chance would not bring together are not held without end`() throws {
    var narrowing = Narrowing(rows: .max, isUnique: false)
    let none = UnsafeRawBufferPointer(start: nil, count: 0)
    var held: UInt64 = 0
    #expect(throws: Narrowing.TooMany.self) {
      while held < 4_000_000 {
        narrowing.takeSource(RowMark(keyHash: held, rowHash: 7, bytes: 1, key: none))
        try narrowing.check()
        held += 1
      }
    }
    #expect((1_000_000..<2_000_000).contains(held))
  }

  @Test func `a row that is counted too often stays at the most that there can be`() throws {
    let counts = RowCounts([7])
    for _ in 0..<3 { counts.add(7, times: 1 << 31 - 1) { [.integer(1)] } }
    #expect(counts[7] == 1 << 31 - 1 && counts.bytes > 0 && counts.bytes < 10)
  }

  @Test func `a row without a key counts with the bytes that it has at either end`() throws {
    let narrowing = { (here: Int, there: Int) in
      var narrowing = Narrowing(rows: 1, isUnique: false)
      let none = UnsafeRawBufferPointer(start: nil, count: 0)
      for _ in 0..<2 { narrowing.takeSource(RowMark(keyHash: 7, rowHash: 7, bytes: here, key: none)) }
      narrowing.takeTarget(RowMark(keyHash: 7, rowHash: 7, bytes: there, key: none))
      var found: [Int] = []
      narrowing.finish { found.append($0.rowBytes) }
      return found
    }
    #expect(narrowing(0, 1 << 20) == [1 << 20] && narrowing(1 << 20, 0) == [1 << 20])
  }

  // MARK: Moments

  @Test(arguments: [
    "1:18446744073709551615:", "18446744073709551615:18446744073709551615:", "1:4611686018427387904:",
    "1:10:18446744073709551615", "10:1:", "1:10:11", "1:10:x", "1:10:2,,3",
  ])
  func `a snapshot with numbers that no server has is refused`(text: String) throws {
    let origin = Self.answer { writer in
      writer.append(2)
      writer.appendString(text)
      writer.appendFixed(UInt64.max)
      writer.append(0)
      writer.appendVarint(1)
    }
    expectRefusal(text) { _ = try origin.standing() }
  }
}

/// Counts over the calls of a closure that others may keep.
private final class Counter: @unchecked Sendable {
  private(set) var value = 0
  func next() -> Int {
    value += 1
    return value
  }
}

/// The work that a source is asked to do is bounded.
@Suite(.enabled(if: PostgresServer.isAvailable, "\(PostgresServer.problem ?? "")"))
struct ProgressRateTests {
  @Test func `a trail is asked for its progress once a second, for all that ask meanwhile`() throws {
    let server = try PostgresServer.shared
    let uri = try server.createDatabase("progress_rate")
    defer { try? server.dropDatabase("progress_rate") }
    try MessageKey.ensure(PostgresConnection(uri))
    let trail = TrailPlace(state: "/nowhere", name: try #require(TrailName("hq.erp")))
    let answers = OriginAnswers(.postgres(uri: uri), patterns: TablePatterns(), trail: trail)
    var question = ByteWriter()
    question.append(OriginQuestion.progress)
    let bytes = Array(question.bytes)
    @Sendable func ask(_ asker: String) throws {
      _ = try answers.answer(bytes, of: asker, mayRepair: { _ in false }, isOver: { false })
    }
    try ask("evil")
    var begun = Clock.monotonicMilliseconds
    for _ in 0..<3 { try ask("evil") }
    let took = Clock.monotonicMilliseconds - begun
    #expect(took >= 2_900, "\(took) ms")
    // Twenty peers at once need one word of the trail, or two.
    begun = Clock.monotonicMilliseconds
    let askers = try (0..<20).map { number in try WorkerThread({ Result { try ask("peer \(number)") } }) }
    for asker in askers { try asker.join()?.get() }
    let together = Clock.monotonicMilliseconds - begun
    #expect(together < 6_000, "\(together) ms")
  }
}
