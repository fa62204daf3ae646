import Changes
import Testing

@testable import SQLiteKit

/// The journal rows that hold statements, without a database.
@Suite struct JournalRowTests {
  private func image(_ values: [Value]) -> [UInt8] {
    var writer = ByteWriter()
    for value in values { writer.append(value) }
    return Array(writer.bytes)
  }

  private func append(_ log: inout JournalStatements, _ text: JournalStatements.Text, _ place: Int64, _ values: [Value])
  {
    image(values).withUnsafeBytes {
      log.append(
        text, .init(before: place, last: place + 1, rowsAffected: 1, now: place == 7 ? -5 : nil, isNowUnknown: false),
        parameterCount: values.count, parameters: $0)
    }
  }

  private func seen(_ bytes: [UInt8], isEnd: Bool) throws -> [String] {
    var row = try JournalStatementRow(bytes, isEnd: isEnd)
    return try row.statements.map { statement in
      try row.with(statement) { text, parameters in
        let values = try ImageView(bytes: parameters).values().map { $0?.shown ?? "missing" }
        return "\(statement.before) \(String(decoding: text, as: UTF8.self)) \(values.joined(separator: ","))"
          + (statement.now.map { " at \($0)" } ?? "")
      }
    }
  }

  @Test func `values that are bound again are in a row once`() throws {
    var log = JournalStatements()
    let (a, b) = (JournalStatements.Text("A", tables: ["t"]), JournalStatements.Text("B", tables: nil))
    let long = Value.text([UInt8](repeating: 0x78, count: 1000))
    for place in stride(from: Int64(5), to: 25, by: 2) {
      append(&log, a, place, [.integer(place), long, .null])
      append(&log, b, place + 1, place == 15 ? [.null, .real(0.5)] : [.null, .integer(3)])
    }
    let bytes = log.takeEnd(first: 5, time: 99) { Array($0) }
    #expect(bytes.count < 1500 && log.isEmpty)
    let row = try JournalStatementRow(bytes, isEnd: true)
    #expect(row.end?.first == 5 && row.end?.time == 99 && row.texts.map(\.tables) == [["t"], nil])
    let seen = try seen(bytes, isEnd: true)
    #expect(seen.count == 20)
    #expect(seen[0] == "5 A 5,\(long.shown),NULL" && seen[18] == "23 A 23,\(long.shown),NULL")
    #expect(seen[2] == "7 A 7,\(long.shown),NULL at -5")
    #expect(seen[9] == "14 B NULL,3" && seen[11] == "16 B NULL,0.5" && seen[13] == "18 B NULL,3")
  }

  @Test func `a rolled back transaction is forgotten, also if a part was written since`() throws {
    var log = JournalStatements()
    let (a, b) = (JournalStatements.Text("A", tables: nil), JournalStatements.Text("B", tables: nil))
    append(&log, a, 1, [.integer(1)])
    var marks = [log.mark()]
    append(&log, b, 2, [.integer(2)])
    log.rollBack(to: marks[0])
    append(&log, a, 2, [.integer(1)])
    append(&log, b, 3, [.integer(3)])
    marks = [log.mark()]
    append(&log, a, 4, [.integer(4)])
    let part = log.takePart(savepoints: &marks) { Array($0) }
    #expect(try seen(part, isEnd: false) == ["1 A 1", "2 A 1", "3 B 3", "4 A 4"])
    append(&log, a, 6, [.integer(6)])
    // The part is taken back with the savepoint: what it held of before comes again.
    log.rollBack(to: marks[0])
    append(&log, b, 4, [.integer(3)])
    let end = log.takeEnd(first: 1, time: 0) { Array($0) }
    #expect(try seen(end, isEnd: true) == ["1 A 1", "2 A 1", "3 B 3", "4 B 3"])
  }

  @Test func `a row that is cut short is refused, and never traps`() throws {
    var log = JournalStatements()
    let a = JournalStatements.Text("A", tables: ["t", "u"])
    for place in Int64(7)...9 { append(&log, a, place, [.integer(place), .text("x")]) }
    let bytes = log.takeEnd(first: 7, time: 0) { Array($0) }
    for count in bytes.indices {
      for change in [0, 1, 0x80, 0xff] {
        var damaged = Array(bytes.prefix(count + (change == 0 ? 0 : 1)))
        if change != 0 { damaged[count] ^= UInt8(change) }
        do { _ = try seen(damaged, isEnd: true) } catch { #expect(error is DecodingError) }
      }
    }
  }

  /// A row with `count` items of one kind, which an application can write at a byte or a few for each.
  private func crowded(_ kind: Crowd, _ count: Int) -> [UInt8] {
    var row = ByteWriter()
    func text(_ tables: Int) {
      row.append(JournalStatements.textTag)
      row.appendString("")
      row.append(1)
      row.appendVarint(UInt64(tables))
      for _ in 0..<tables { row.appendString("") }
    }
    func statement(_ parameters: Int) {
      row.append(JournalStatements.statementTag)
      for value in [0, 0, 0, 0] { row.appendVarint(UInt64(value)) }
      row.append(0)
      row.appendVarint(UInt64(parameters))
      row.appendCounted([UInt8](repeating: 0, count: parameters))
    }
    row.append(JournalStatements.version)
    row.appendVarint(0)
    switch kind {
    case .names:
      text(count - 1)
      text(1)
    case .texts: for _ in 0..<count { text(0) }
    case .statements:
      text(0)
      for _ in 0..<count { statement(0) }
    case .parameters:
      text(0)
      statement(count)
    }
    return Array(row.bytes)
  }

  private enum Crowd { case names, texts, statements, parameters }

  @Test func `a row with more items than a program's library writes is refused`() throws {
    for (kind, most) in [(Crowd.names, 1 << 18), (.texts, 1 << 16), (.statements, 1 << 16), (.parameters, 1 << 18)] {
      _ = try JournalStatementRow(crowded(kind, most), isEnd: false)
      #expect(throws: DecodingError.self, "\(kind)") {
        try JournalStatementRow(crowded(kind, most + 1), isEnd: false)
      }
    }
  }
}
