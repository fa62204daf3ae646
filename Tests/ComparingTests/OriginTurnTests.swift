import Changes
import Foundation
import SQLiteKit
import SystemKit
import Testing
import Trails

@testable import Comparing

/// Peers that ask a source for as much work as they can.
@Suite struct OriginTurnTests {
  private static let rows = 500
  private let folder: String
  private var path: String { folder + "/pos.db" }
  private let trail: Comparing.TrailPlace

  init() throws {
    folder = NSTemporaryDirectory() + "/cairn-turns-" + UUID().uuidString
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    trail = TrailPlace(state: folder, name: try #require(TrailName("till.pos")))
    try Database(path: path, mode: .create).executeScript(
      """
      CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT);
      WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(Self.rows))
        INSERT INTO item SELECT i, 'x' FROM n
      """)
  }

  /// Each table of the file is as Cairn makes it, but with more rows than Cairn writes.
  @Test func `a file whose table of Cairn was filled is neither compared nor asked about rows`() throws {
    try Database(path: path, mode: .readWrite).executeScript(
      """
      CREATE TABLE cairn_unhooked(name TEXT PRIMARY KEY COLLATE NOCASE) WITHOUT ROWID;
      WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i <= 100000)
        INSERT INTO cairn_unhooked SELECT i FROM n
      """)
    let place = CompareEnds.Place.sqlite(path: path)
    let ways: [() throws -> Void] = [
      { _ = try CompareEnds(source: place, target: place).reader(.source) },
      { _ = try OpenSource(place, statementMilliseconds: 1000) },
    ]
    for (index, open) in ways.enumerated() {
      var code: ErrorCode?
      do { try open() } catch let error as CairnError { code = error.code }
      #expect(code == .databaseUnsafe, "way \(index)")
    }
  }

  private func asked(_ database: CompareDatabase) throws -> QuestionedTable {
    QuestionedTable(try #require(try ComparePlan(database, database, TablePatterns(), .fold).tables.first), seed: 7)
  }

  private func asked() throws -> QuestionedTable { try asked(CompareDatabase(.sqlite(Database(path: path)))) }

  private static func bytes(_ question: OriginQuestion) -> [UInt8] {
    var writer = ByteWriter()
    writer.append(question)
    return Array(writer.bytes)
  }

  private static func ask(
    _ answers: OriginAnswers, _ question: OriginQuestion, of asker: String = "evil", isOver: () -> Bool = { false }
  ) throws -> [UInt8] {
    try answers.answer(bytes(question), of: asker, mayRepair: { _ in false }, isOver: isOver)
  }

  @Test func `a source reads for one question at a time, and then rests as long as that took`() throws {
    let answers = OriginAnswers(.sqlite(path: path), patterns: TablePatterns(), trail: trail)
    let table = try asked()
    let scan = OriginQuestion.scan(table, .behind(nil, limit: 10), naming: true)
    let (isReading, goOn) = (StopSignal(), StopSignal())
    // The first one to ask does not wait for its turn, so that it is asked with the first row.
    let first = try WorkerThread<(begun: Int64, ended: Int64)> {
      var isFirst = true
      let begun = Clock.monotonicMilliseconds
      _ = try? Self.ask(answers, scan, of: "slow") {
        if isFirst { isReading.set() }
        isFirst = false
        return !goOn.wait(milliseconds: 10_000)
      }
      return (begun, Clock.monotonicMilliseconds)
    }
    #expect(isReading.wait(milliseconds: 10_000))
    let others = try (0..<4).map { number in
      try WorkerThread<Result<Int64, any Error>> {
        Result {
          _ = try Self.ask(answers, .parts(table), of: "peer \(number / 2)")
          return Clock.monotonicMilliseconds
        }
      }
    }
    Clock.sleep(milliseconds: 600)
    #expect(others.allSatisfy { $0.outcome == nil })
    // Each asker has two questions here at most.
    let error = #expect(throws: CairnError.self) { try Self.ask(answers, .parts(table), of: "peer 0") }
    #expect(error?.code == .busy)
    goOn.set()
    let (begun, ended) = try #require(first.join())
    let took = ended - begun
    for other in others {
      let answered = try #require(try other.join()?.get())
      #expect(answered >= ended + took - 50, "\(answered - ended) ms after an answer that took \(took) ms")
    }
  }

  @Test func `an answer has 15 seconds`() { #expect(OriginAnswers.millisecondsMax == 15_000) }

  @Test func `an answer that is not ready in its time is none`() throws {
    let answers = OriginAnswers(.sqlite(path: path), patterns: TablePatterns(), trail: trail, millisecondsMax: 400)
    let begun = Clock.monotonicMilliseconds
    let answer = try Self.ask(answers, .scan(asked(), .behind(nil, limit: Self.rows), naming: true)) {
      Clock.sleep(milliseconds: 10)
      return false
    }
    #expect(answer == [OriginAnswer.tooLarge])
    #expect((400..<2_000).contains(Clock.monotonicMilliseconds - begun))
    #expect(try Self.ask(answers, .parts(asked())).first == OriginAnswer.whole)
  }

  @Test func `a statement that finds no row is ended, too`() throws {
    let file = try Database(path: path)
    try file.executeScript(
      """
      DROP TABLE item; CREATE TABLE maybe(a INT, b INT, PRIMARY KEY (a, b));
      WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000000)
        INSERT INTO maybe SELECT i, i FROM n
      """)
    try check(.sqlite(path: path), asked(CompareDatabase(.sqlite(file))))
  }

  /// Asks for rows with NULL in their key. There are none, so no row asks whether it goes on.
  private func check(_ place: CompareEnds.Place, _ table: QuestionedTable) throws {
    let question = OriginQuestion.scan(table, .nullKeys, naming: true)
    func time(_ millisecondsMax: Int64) throws -> (answer: [UInt8], took: Int64) {
      let answers = OriginAnswers(place, patterns: TablePatterns(), trail: trail, millisecondsMax: millisecondsMax)
      // Opens the database.
      _ = try Self.ask(answers, .parts(table))
      Clock.sleep(milliseconds: 100)
      let begun = Clock.monotonicMilliseconds
      let answer = try Self.ask(answers, question)
      return (answer, Clock.monotonicMilliseconds - begun)
    }
    let whole = try time(60_000)
    try #require(whole.answer.first == OriginAnswer.whole && whole.took >= 60, "\(whole)")
    let cut = try time(whole.took / 4)
    #expect(cut.answer == [OriginAnswer.tooLarge] && cut.took < whole.took * 3 / 4, "\(cut) of \(whole.took) ms")
  }
}
