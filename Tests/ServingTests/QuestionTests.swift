import Changes
import Configuring
import Foundation
import Mapping
import SQLiteKit
import SystemKit
import TestServers
import Testing
import Trails

@testable import Comparing
@testable import Serving

/// What a node answers to questions about the rows of its sources, to peers that mean well and to others.
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

  private func rows(_ node: TestNode) throws -> [String] {
    let file = try node.database("pos.db")
    return try ["item", "word", "note", "maybe", "secret"].map { table in
      try "\(file.query("SELECT * FROM \(table)").map { $0.map(\.shown) })"
    }
  }
}
