import Changes
import SQLiteKit
import Trails

/// Reads ahead in the journal to find executed statements and the ends of transactions.
///
/// In the journal, a statement comes after its changes. In the trail, a statement comes before its changes.
final class StatementFeed {
  private let ends: Statement
  private let packs: Statement?
  private let path: String
  /// The next end of a transaction: its journal row number, and its content; nil if there is none.
  private(set) var end: (seq: Int64, JournalStatementRow.End)?
  private var pack: (seq: Int64, row: JournalStatementRow)?
  private var next = 0
  /// The last journal row of the open statement; nil if no statement is open.
  private(set) var openThrough: Int64?
  private var record = ByteWriter()
  private var lastEnd: Int64 = -1
  private var lastPack: Int64 = -1

  init(_ source: Database, from: Int64, through: Int64, withStatements: Bool) throws {
    path = source.path
    func cursor(_ codes: String) throws -> Statement {
      let statement = try source.prepare(
        "SELECT seq, code, v0 FROM cairn_journal WHERE seq > ? AND seq <= ? AND code IN (\(codes)) ORDER BY seq")
      try statement.bind([.integer(from), .integer(through)])
      return statement
    }
    ends = try cursor("\(JournalStatements.endCode)")
    packs = withStatements ? try cursor("\(JournalStatements.endCode), \(JournalStatements.partCode)") : nil
    try advanceEnd()
    try advancePack()
  }

  func advanceEnd() throws {
    end = nil
    guard try ends.step() else { return }
    let seq = ends.integer(0)
    try Journal.check(seq, after: &lastEnd, path)
    guard case .blob(let bytes) = ends.view(2) else { throw damaged(seq, "it is empty") }
    do { end = (seq, try JournalStatementRow.end(of: bytes)) } catch let error as DecodingError {
      throw damaged(seq, error.description)
    }
  }

  private func advancePack() throws {
    (pack, next) = (nil, 0)
    while let packs, try packs.step() {
      let seq = packs.integer(0)
      try Journal.check(seq, after: &lastPack, path)
      guard case .blob(let bytes) = packs.value(2) else { throw damaged(seq, "it is empty") }
      do {
        let row = try JournalStatementRow(bytes, isEnd: packs.integer(1) == JournalStatements.endCode)
        guard !row.statements.isEmpty else { continue }
        pack = (seq, row)
        return
      } catch let error as DecodingError { throw damaged(seq, error.description) }
    }
  }

  private func damaged(_ seq: Int64, _ problem: String) -> CairnError {
    CairnError(
      .databaseDamaged,
      "journal row \(seq) of \(path) holds statements that this version of Cairn cannot read: \(problem)",
      hint: "run 'cairn detach' on the source and replicate again")
  }

  func hasStatement(at seq: Int64) throws -> Bool {
    while openThrough == nil, let (packSeq, row) = pack {
      // After the journal row that lists a statement, no change belongs to the statement any more.
      if next < row.statements.count { return row.statements[next].before < seq || packSeq <= seq }
      try advancePack()
    }
    return false
  }

  func beginStatements(
    at seq: Int64, _ captured: CapturedSpans, _ reader: inout JournalReader, to trail: TrailWriter
  ) throws {
    while try hasStatement(at: seq), let packSeq = pack?.seq, var row = pack?.row {
      try CaptureStopped.check()
      let statement = row.statements[next]
      next += 1
      // Otherwise its remembered values would be copied.
      pack = nil
      var flags = statement.flags
      if isPartial(statement, row.texts[statement.text], captured) { flags.insert(.isPartial) }
      record.removeAll()
      do {
        try row.with(statement) { text, parameters in
          record.appendStatement(
            .sqlite, flags, statement.rowsAffected, statement.now, text: text,
            parameterCount: statement.parameterCount, parameters: parameters)
        }
      } catch let error as DecodingError { throw damaged(packSeq, error.description) }
      pack = (packSeq, row)
      try trail.append(kind: RecordKind.statement, record.bytes)
      reader.beginStatement()
      openThrough = statement.last
      if statement.last < seq { try endStatement(behind: .max, &reader, to: trail) }
    }
  }

  func endStatement(
    behind seq: Int64, _ reader: inout JournalReader, to trail: TrailWriter
  ) throws {
    guard let last = openThrough, seq >= last else { return }
    openThrough = nil
    record.removeAll()
    record.append(reader.endStatement())
    try trail.append(kind: RecordKind.statementEnd, record.bytes)
  }

  /// Returns whether an executed statement wrote to a table that was not captured when the statement ran.
  private func isPartial(
    _ statement: JournalStatementRow.Executed, _ text: JournalStatementRow.Text, _ captured: CapturedSpans
  ) -> Bool {
    guard let tables = text.tables else { return statement.rowsAffected > 0 && statement.count == 0 }
    return !tables.allSatisfy { captured.hasTable($0, after: statement.before, through: statement.last) }
  }
}
