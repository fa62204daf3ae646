import Changes
import Configuring
import Foundation
import Mapping
import SQLiteKit
import Synchronization
import SystemKit
import TestServers
import Testing
import Trails

@testable import Comparing
@testable import Daemon

/// A node's answers to questions about the rows of its sources, to peers that mean well and to others.
@Suite struct QuestionTests {
  private static let needle = "SECRET-OF-ANOTHER-TABLE"

  private static func conf(_ folder: String) -> Configuration {
    var conf = Configuration(node: .init(name: "store-042", state: folder + "/state"))
    conf.databases = [.init(name: "pos", url: "sqlite://\(folder)/pos.db")]
    conf.captures = [.init(name: "pos", database: "pos")]
    conf.captures[0].tables = ["*", "!secret"]
    return conf
  }

  private func started() throws -> (node: TestNode, trail: TrailName) {
    let node = try TestNode(Self.conf)
    try node.database("pos.db").executeScript(
      """
      PRAGMA journal_mode = WAL;
      CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, price NUMERIC);
      CREATE TABLE word(word TEXT NOT NULL PRIMARY KEY, meaning) WITHOUT ROWID; CREATE TABLE note(text, at);
      CREATE TABLE maybe(a TEXT UNIQUE, b INT, PRIMARY KEY (a, b));
      CREATE TABLE secret(id INTEGER PRIMARY KEY, name TEXT);
      WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
      INSERT INTO item SELECT i, 'item ' || i, i * 0.5 FROM n;
      INSERT INTO word SELECT name, price FROM item; INSERT INTO note SELECT name, id % 3 FROM item;
      INSERT INTO maybe SELECT name, nullif(id % 5, 0) FROM item;
      INSERT INTO secret VALUES (1, '\(Self.needle)')
      """)
    node.start()
    let trail = try #require(TrailName("store-042.pos"))
    let folder = node.context.folder(of: trail)
    try #require(node.wait { node.worker("capture.pos")?.isCaughtUp == true && Trail.exists(folder: folder) })
    return (node, trail)
  }

  /// The questions that a comparison of the file with itself asks, and some more.
  private func questions(_ node: TestNode, _ origin: OriginSource) throws -> [OriginQuestion] {
    let source = try CompareDatabase(.origin(origin))
    let target = try CompareDatabase(.sqlite(node.database("pos.db")))
    let plan = try ComparePlan(source, target, TablePatterns(["*", "!secret"]), .fold)
    #expect(plan.tables.count == 4 && plan.differences.isEmpty, "\(plan.differences) \(plan.notices)")
    var questions: [OriginQuestion] = [.tables(from: 0), .standing, .progress]
    for table in plan.tables {
      let asked = QuestionedTable(table, seed: 7)
      let key = table.key.map { _ in Value.text("item 7") }
      questions += [
        .parts(asked), .scan(asked, .range(after: nil, through: nil, limit: 100), naming: true),
        .scan(asked, .range(after: key.isEmpty ? nil : key, through: nil, limit: nil), naming: false),
        .scan(asked, .behind(nil, limit: 10), naming: true), .scan(asked, .nullKeys, naming: true),
        .scan(asked, .all, naming: true), .scan(asked, .pages(table: "3", from: 0, below: nil), naming: true),
        .counts(asked, hashes: [1, 5, 9]), .rows(asked, keys: [key, key]), .repair(asked, keys: [key]), .copy(asked),
      ]
      var other = asked
      (other.name, other.shape) = ("secret", asked.shape)
      questions.append(.scan(other, .range(after: nil, through: nil, limit: 10), naming: true))
      other.name = "item\"; DELETE FROM item; --"
      questions.append(.rows(other, keys: [key]))
      other = asked
      other.target.name = "x\"; DELETE FROM item; --"
      other.target.columns[0].declaredType = "int'); DELETE FROM item; --"
      questions.append(.scan(other, .behind(nil, limit: 10), naming: true))
    }
    return questions
  }

  @Test func `a table is read from afar as it is at hand`() throws {
    let (node, trail) = try started()
    defer { node.end() }
    let origin = OriginSource { try node.context.answer($0, about: trail, of: "hq") { false } }
    let file = try node.database("pos.db")
    let plan = try ComparePlan(CompareDatabase(.origin(origin)), CompareDatabase(.sqlite(file)), TablePatterns(), .fold)
    let tables = plan.tables
    #expect(tables.map(\.name).sorted() == ["item", "maybe", "note", "word"])
    let local = try ComparePlan(CompareDatabase(.sqlite(file)), CompareDatabase(.sqlite(file)), TablePatterns(), .fold)
    for table in tables {
      let same = try #require(local.tables.first { $0.name == table.name })
      #expect(table.order == same.order, "\(table.name)")
      let (afar, here) = (OriginRowReader(origin, .sqlite, seed: 3), SQLiteRowReader(file, .source, seed: 3))
      for slice in [Slice.behind(nil, limit: 200), .behind(nil, limit: 5000)] {
        var marks: [[String]] = []
        for (reader, table) in [(afar, table), (here, same)] as [(any RowReader, ComparedTable)] {
          var found: [String] = []
          let end = try reader.scan(table, slice, naming: true) { mark in
            found.append("\(mark.keyHash) \(mark.rowHash) \(mark.bytes) \(Array(mark.key))")
          }
          marks.append(found + ["\(end.rows) \(end.bytes) \(end.last.map { $0.map(\.shown) } ?? [])"])
        }
        #expect(marks[0] == marks[1], "\(table.name)")
      }
      var sums: [UInt64] = []
      for (reader, table) in [(afar, table), (here, same)] as [(any RowReader, ComparedTable)] {
        var sum: UInt64 = 0
        _ = try reader.scan(table, .behind(nil, limit: 5000), naming: false) { sum &+= $0.rowHash }
        sums.append(sum)
      }
      #expect(sums[0] == sums[1] && sums[0] != 0)
    }
    let unknown = TrailName(origin: "store-042", name: "x")
    #expect(throws: CairnError.self) { try node.context.answer([1, 2], about: unknown, of: "hq") { false } }
  }

  @Test func `questions with any bytes get no row of a table that is not captured, and change none`() throws {
    let (node, trail) = try started()
    defer { node.end() }
    let seed = UInt64.random(in: 0 ... .max)
    var random = Seeded(seed)
    let origin = OriginSource { try node.context.answer($0, about: trail, of: "evil") { false } }
    let before = try rows(node)
    let samples = try questions(node, origin).map { question in
      var writer = ByteWriter()
      writer.append(question)
      return Array(writer.bytes)
    }
    var outcomes: [String: Int] = [:]
    for n in 0..<4000 {
      var bytes = samples[n < samples.count ? n : Int.random(in: 0..<samples.count, using: &random)]
      if n >= samples.count {
        for _ in 0..<Int.random(in: 1...4, using: &random) {
          let at = Int.random(in: 0..<max(1, bytes.count), using: &random)
          switch Int.random(in: 0..<4, using: &random) {
          case 0 where !bytes.isEmpty: bytes[at] = UInt8.random(in: 0...255, using: &random)
          case 1 where !bytes.isEmpty: bytes[at] ^= 1 << UInt8.random(in: 0..<8, using: &random)
          case 2: bytes = Array(bytes.prefix(at))
          default:
            let more = (0..<9).map { _ in UInt8.random(in: 0...255, using: &random) }
            bytes.insert(contentsOf: more, at: min(at, bytes.count))
          }
        }
      }
      do {
        let answer = try node.context.answer(bytes, about: trail, of: "evil") { false }
        #expect(answer.count <= 4 << 20)
        #expect(!String(decoding: answer, as: UTF8.self).contains(Self.needle))
        outcomes["answered", default: 0] += 1
      } catch let error as CairnError {
        #expect(error.code != .bug, "\(error) of \(bytes), seed \(seed)")
        outcomes[error.code.rawValue, default: 0] += 1
      }
    }
    #expect(outcomes["answered", default: 0] > 100 && outcomes["usage", default: 0] > 100, "\(outcomes), seed \(seed)")
    #expect(try rows(node) == before)
    // A whole table three times, then one a minute.
    #expect(outcomes["busy", default: 0] > 0, "\(outcomes)")
  }

  @Test func `rows are not read further than an answer can hold`() throws {
    let (node, trail) = try started()
    defer { node.end() }
    try node.database("pos.db").execute(
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200) INSERT INTO note SELECT zeroblob(100000 + i), i FROM n"
    )
    let origin = OriginSource { try node.context.answer($0, about: trail, of: "hq") { false } }
    let file = try node.database("pos.db")
    let plan = try ComparePlan(CompareDatabase(.origin(origin)), CompareDatabase(.sqlite(file)), TablePatterns(), .fold)
    let local = try ComparePlan(CompareDatabase(.sqlite(file)), CompareDatabase(.sqlite(file)), TablePatterns(), .fold)
    let table = try #require(plan.tables.first { $0.name == "note" })
    let same = try #require(local.tables.first { $0.name == "note" })
    var hashes: Set<UInt64> = []
    _ = try SQLiteRowReader(file, .source, seed: 3).scan(same, .behind(nil, limit: 5000), naming: true) {
      if $0.bytes > 100_000 { hashes.insert($0.keyHash) }
    }
    #expect(hashes.count == 200)
    var question = ByteWriter()
    question.append(OriginQuestion.counts(QuestionedTable(table, seed: 3), hashes: hashes.sorted()))
    // Whether anybody waits is asked with each row.
    var read = 0
    let answer = try node.context.answer(Array(question.bytes), about: trail, of: "hq") {
      read += 1
      return false
    }
    #expect(answer == [OriginAnswer.tooLarge])
    // 500 small rows come first, then 32 that fill an answer.
    #expect((500..<560).contains(read), "\(read)")
  }

  /// The way in which a reader of the source at another node takes an answer to each question.
  private typealias Reading = @Sendable (OriginSource) throws -> Void

  private func readings(_ tables: [ComparedTable]) -> [Reading] {
    var readings: [Reading] = [
      { _ = try $0.tables() }, { _ = try $0.standing() },
      { _ = try OriginRowReader($0, .sqlite, seed: 3).atOneMoment {} },
    ]
    for table in tables {
      let key = table.key.map { Value.text(Array("item \($0)".utf8)) }
      func read(_ body: @escaping @Sendable (OriginRowReader) throws -> Void) {
        readings.append { try body(OriginRowReader($0, .sqlite, seed: 3)) }
      }
      read { _ = try $0.parts(of: table) }
      read { _ = try $0.scan(table, .behind(nil, limit: 200), naming: true) { _ in } }
      read { _ = try $0.scan(table, .all, naming: true) { _ in } }
      read { reader in
        let counts = RowCounts([1, 5, 9])
        _ = try reader.atOneMoment { try reader.count(table, into: counts) }
      }
      guard !key.isEmpty else { continue }
      read { _ = try $0.scan(table, .range(after: nil, through: nil, limit: 90), naming: false) { _ in } }
      read { _ = try $0.scan(table, .range(after: key, through: nil, limit: nil), naming: true) { _ in } }
      read { reader in
        _ = try reader.atOneMoment {
          try reader.rows(table, keys: [key, [.integer(7)], [.integer(400)]].filter { $0.count == key.count }) { _, _ in
          }
        }
      }
    }
    return readings
  }

  @Test func `answers with any bytes are read or refused, in little memory`() throws {
    let (node, trail) = try started()
    defer { node.end() }
    let seed = UInt64.random(in: 0 ... .max)
    var random = Seeded(seed)
    let honest: @Sendable ([UInt8]) throws -> [UInt8] = {
      try node.context.answer($0, about: trail, of: "hq") { false }
    }
    let path = node.folder + "/pos.db"
    let plan = try ComparePlan(
      CompareDatabase(.origin(OriginSource(send: honest))), CompareDatabase(.sqlite(Database(path: path))),
      TablePatterns(), .fold)
    var outcomes: [String: Int] = [:]
    let before = residentMemory()
    for reading in readings(plan.tables) {
      let recorder = Teller(honest)
      _ = try? reading(OriginSource { try recorder.answer($0) })
      let answers = recorder.known
      guard !answers.isEmpty else { continue }
      for _ in 0..<(isSoak ? 20_000 : 400) {
        let bytes = Teller.mutated(answers[random.below(answers.count)], &random)
        do {
          try reading(OriginSource { _ in bytes })
          outcomes["read", default: 0] += 1
        } catch let error as CairnError {
          #expect(error.code == .unsupported, "\(error), seed \(seed)")
          outcomes["refused", default: 0] += 1
        } catch is OriginSource.TooLarge { outcomes["too large", default: 0] += 1 }
      }
    }
    // Whole comparisons, in which the answers to some questions are others.
    let teller = Teller(honest)
    for _ in 0..<(isSoak ? 5_000 : 300) {
      let table = plan.tables[random.below(plan.tables.count)]
      teller.begin(Seeded(random.next()))
      let ends = CompareEnds(
        source: .origin(OriginSource { try teller.answer($0) }, .sqlite), target: .sqlite(path: path), seed: 3)
      let looks = (source: try ends.reader(.source), target: try ends.reader(.target))
      let comparison = TableComparison(table, ends, CompareWatch(), settling: SettlingAtOnce(), looks: looks) { _ in }
      do {
        try comparison.run()
        outcomes["compared", default: 0] += 1
      } catch { outcomes["not compared", default: 0] += 1 }
    }
    for outcome in ["read", "refused", "compared", "not compared"] {
      #expect(outcomes[outcome, default: 0] > 30, "\(outcomes), seed \(seed)")
    }
    #expect(residentMemory() < before + 512 << 20, "seed \(seed)")
  }

  private func rows(_ node: TestNode) throws -> [String] {
    let file = try node.database("pos.db")
    return try ["item", "word", "note", "maybe", "secret"].map { table in
      try "\(file.query("SELECT * FROM \(table)").map { $0.map(\.shown) })"
    }
  }
}

private func residentMemory() -> Int {
  let words = (try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8))?.split(separator: " ") ?? []
  return (words.count > 1 ? Int(words[1]) ?? 0 : 0) * 4096
}

/// Answers what a node answers, or something else.
private final class Teller: Sendable {
  private struct State {
    var known: [[UInt8]: [UInt8]] = [:]
    /// Nil: the truth.
    var random: Seeded?
    var asked = 0
  }

  private static let extremes: [UInt64] = [
    0, 1, 127, 1 << 31 - 1, 1 << 31, 1 << 32 - 1, 1 << 32, 1 << 34, 1 << 62 - 1, 1 << 62, .max,
  ]
  private let honest: @Sendable ([UInt8]) throws -> [UInt8]
  private let state = Mutex(State())

  init(_ honest: @escaping @Sendable ([UInt8]) throws -> [UInt8]) { self.honest = honest }

  /// The true answers so far.
  var known: [[UInt8]] { state.withLock { Array($0.known.values) } }

  func begin(_ random: Seeded) { state.withLock { ($0.random, $0.asked) = (random, 0) } }

  func answer(_ question: [UInt8]) throws -> [UInt8] {
    let known = try state.withLock { $0.known[question] } ?? honest(question)
    return try state.withLock { state in
      if state.known.count < 1000 { state.known[question] = known }
      state.asked += 1
      // A table without an end.
      if state.asked > 200 { throw OriginSource.TooLarge() }
      guard var random = state.random else { return known }
      defer { state.random = random }
      return random.below(3) == 0 ? Self.mutated(known, &random) : known
    }
  }

  static func mutated(_ honest: [UInt8], _ random: inout Seeded) -> [UInt8] {
    var bytes = honest
    for _ in 0..<(1 + random.below(3)) {
      // Most numbers are at the beginning.
      let at = random.below(max(1, min(bytes.count, random.below(3) == 0 ? bytes.count : 40)))
      switch random.below(5) {
      case 0 where !bytes.isEmpty: bytes[at] = UInt8.random(in: 0...255, using: &random)
      case 1 where !bytes.isEmpty: bytes[at] ^= 1 << UInt8(random.below(8))
      case 2: bytes = Array(bytes.prefix(at))
      case 3:
        var number = ByteWriter()
        number.appendVarint(extremes[random.below(extremes.count)])
        let end = min(bytes.count, at + 1 + random.below(2))
        bytes.replaceSubrange(min(at, end)..<end, with: Array(number.bytes))
      default: bytes.insert(contentsOf: random.bytes(9), at: min(at, bytes.count))
      }
    }
    return bytes
  }
}

/// Judges what is read once, without waiting.
private struct SettlingAtOnce: Settling {
  func settle(_ look: RowLook, _ verdict: RowVerdict, keyed: [Suspect]) throws -> ProvenDifferences {
    let (source, target) = (try look.rows(.source, keyed), try look.rows(.target, keyed))
    var settlement = ProvenDifferences()
    for suspect in keyed {
      settlement.differences += try verdict.differences(source[suspect.hash]?.first, target[suspect.hash] ?? [])
    }
    return settlement
  }

  func settle(
    _ look: RowLook, _ verdict: RowVerdict, whole: [UInt64], _ report: (ProvenDifferences) throws -> Void
  ) throws {
    let (source, target) = (try look.counts(.source, whole), try look.counts(.target, whole))
    for hash in whole {
      let difference = try verdict.difference(
        source[hash] - target[hash], source: source.row(hash), target: target.row(hash))
      try report(ProvenDifferences(differences: difference.map { [$0] } ?? []))
    }
  }
}
