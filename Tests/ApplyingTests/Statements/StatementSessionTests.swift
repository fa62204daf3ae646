import Changes
import Mapping
import Statements
import SystemKit
import Testing

@testable import Applying

/// The time and the size of statements that apply may execute.
struct StatementSessionTests {
  private static let table = TableSchema(
    epoch: 1, engine: .sqlite, name: "item",
    columns: [.init(name: "id", declaredType: "INTEGER", isNotNull: true, keyOrdinal: 1)])

  private func session(_ progress: ApplyProgress) throws -> StatementSession {
    var options = ApplyOptions()
    options.replay = .statements
    return try #require(try StatementSession(options, progress))
  }

  private func statement(_ text: String, _ parameters: [Value] = [], rows: UInt64 = 1) -> ExecutedStatement {
    ExecutedStatement(dialect: .sqlite, text: text, parameters: parameters, rowsAffected: rows, now: nil)
  }

  /// Offers a statement as the trail has it. Returns the reasons why its rows are applied.
  private func reasons(
    _ statement: ExecutedStatement, _ session: StatementSession, _ progress: ApplyProgress
  ) throws -> [String] {
    let known = progress.snapshot.statements.reasons
    var record = ByteWriter()
    record.append(statement)
    try record.bytes.withUnsafeBytes { bytes in
      guard case .statement(let view)? = try Record.decode(kind: RecordKind.statement, bytes) else {
        Issue.record("no statement")
        return
      }
      try session.offer(view, at: .start)
    }
    session.committed(through: .start)
    return progress.snapshot.statements.reasons.filter { $0.value > known[$0.key] ?? 0 }.map(\.key)
  }

  @Test func `a statement that is too long to read goes as rows`() throws {
    let progress = ApplyProgress()
    let session = try session(progress)
    let megabyte = [UInt8](repeating: 0x61, count: 1 << 20)
    let sql = "INSERT INTO item(id) VALUES (1)"
    #expect(try reasons(statement(sql, [.blob(megabyte)]), session, progress).isEmpty)
    let long = statement(sql, [Value](repeating: .blob(megabyte), count: 10))
    #expect(try reasons(long, session, progress) == ["it has more than 10 MiB with its values"])
    let many = statement(sql, [Value](repeating: .null, count: 250_001))
    #expect(try reasons(many, session, progress) == ["it has too many parameters"])
  }

  @Test(.timeLimit(.minutes(20)))
  func `the time to judge statements counts, also if the target can execute them`() throws {
    let progress = ApplyProgress()
    let session = try session(progress)
    let slow = statement("DELETE FROM item WHERE id IN (\((1...24_000).map(String.init).joined(separator: ",")))")
    let begun = Clock.monotonicMilliseconds
    var (judged, isPaused) = (0, false)
    while !isPaused, Clock.monotonicMilliseconds < begun + 50_000 {
      let decision = try session.judge(slow, for: .sqlite) { _ in StatementTable(Self.table, isGuarded: true) }
      guard case .yes = decision else {
        Issue.record("\(decision)")
        return
      }
      session.took(since: try session.noteBegin(), StatementDigest())
      judged += 1
      isPaused = try !reasons(statement("DELETE FROM item"), session, progress).isEmpty
    }
    #expect(isPaused, "after \(judged) statements")
  }
}
