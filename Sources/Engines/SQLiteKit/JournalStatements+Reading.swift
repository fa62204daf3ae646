import Changes

/// A decoded row of the journal with the statements that an application executed.
///
///     let row = try JournalStatementRow(bytes, isEnd: true)
///     row.statements.count
package struct JournalStatementRow {
  /// The head of a journal row that ends a transaction.
  package struct End: Equatable {
    /// The sequence number of the first journal row of the transaction.
    package var first: Int64
    /// The time of the commit, µs since 1970 UTC.
    package var time: Int64
  }

  package struct Executed {
    /// The sequence number of the last journal row before the statement.
    package var before: Int64
    package var count: Int64
    package var rowsAffected: UInt64
    package var now: Int64?
    package var flags: ExecutedStatement.Flags
    package var text: Int
    package var parameterCount: Int
    fileprivate var parameters: Range<Int>

    package var last: Int64 { before + count }
  }

  package struct Text {
    fileprivate var range: Range<Int>
    /// The tables that the statement's text reads or changes; nil if they are not known.
    package var tables: [String]?
  }

  // An application can write such rows too, at one byte for an empty name. The library writes a row once it has
  // 256 KiB, plus one statement.
  static let namesMax = 1 << 18
  static let textsMax = 1 << 16
  static let statementsMax = 1 << 16
  static let parametersMax = 1 << 18

  package let end: End?
  package private(set) var texts: [Text] = []
  package private(set) var statements: [Executed] = []
  private let bytes: [UInt8]
  /// The encoded parameters that were last bound to each SQL text. The key is the text's index in `texts`.
  private var latest: [Int: [UInt8]] = [:]

  /// Decodes the head of a journal row that ends a transaction, without the statements.
  package static func end(of bytes: UnsafeRawBufferPointer) throws -> End {
    var reader = ByteReader(bytes)
    try check(&reader)
    return try readEnd(&reader)
  }

  package init(_ bytes: [UInt8], isEnd: Bool) throws {
    var texts: [Text] = []
    var statements: [Executed] = []
    var names = 0
    end = try bytes.withUnsafeBytes { raw in
      var reader = ByteReader(raw)
      try Self.check(&reader)
      let end = isEnd ? try Self.readEnd(&reader) : nil
      var place = Int64(clamping: try reader.readVarint())
      while !reader.isAtEnd {
        switch try reader.readByte() {
        case JournalStatements.textTag:
          guard texts.count < Self.textsMax else { throw reader.problem("it has more than \(Self.textsMax) texts") }
          texts.append(try Self.readText(&reader, &names))
        case JournalStatements.statementTag:
          guard statements.count < Self.statementsMax else {
            throw reader.problem("it has more than \(Self.statementsMax) statements")
          }
          let statement = try Self.readStatement(&reader, behind: place)
          guard statement.text < texts.count else { throw reader.problem("text \(statement.text) is not in the row") }
          place = statement.last
          statements.append(statement)
        case let tag: throw reader.problem("tag \(tag) is unknown")
        }
      }
      return end
    }
    self.bytes = bytes
    (self.texts, self.statements) = (texts, statements)
  }

  /// Calls `body` with the text and the parameters of a statement, both encoded. Call it for all statements of the row,
  /// in their order.
  package mutating func with<T>(
    _ statement: Executed, _ body: (_ text: UnsafeRawBufferPointer, _ parameters: UnsafeRawBufferPointer) throws -> T
  ) throws -> T {
    let bound = try bound(statement)
    latest[statement.text] = bound
    return try bytes.withUnsafeBytes { raw in
      try bound.withUnsafeBytes { parameters in
        try body(UnsafeRawBufferPointer(rebasing: raw[texts[statement.text].range]), parameters)
      }
    }
  }

  private func bound(_ statement: Executed) throws -> [UInt8] {
    guard let before = latest[statement.text] else {
      let whole = Array(bytes[statement.parameters])
      // An application can write such rows too: the counts that a trail states must be true.
      try whole.withUnsafeBytes { bytes in
        var reader = ByteReader(bytes)
        for _ in 0..<statement.parameterCount where try reader.readColumn().isUnchanged {
          throw reader.problem("a parameter is the one before, and there is none")
        }
        guard reader.isAtEnd else { throw reader.problem("there are more parameters than it says") }
      }
      return whole
    }
    return try bytes.withUnsafeBytes { raw in
      try before.withUnsafeBytes { before in
        var (packed, last) = (
          ByteReader(UnsafeRawBufferPointer(rebasing: raw[statement.parameters])), ByteReader(before)
        )
        var whole = ByteWriter(capacity: max(64, before.count))
        for _ in 0..<statement.parameterCount {
          let (start, old) = (packed.offset, last.offset)
          let value = try packed.readColumn()
          if !last.isAtEnd { _ = try last.readColumn() }
          if value.isUnchanged {
            whole.append(UnsafeRawBufferPointer(rebasing: before[old..<last.offset]))
          } else {
            whole.append(
              UnsafeRawBufferPointer(
                rebasing: raw[statement.parameters][
                  (statement.parameters.lowerBound + start)..<(statement.parameters.lowerBound + packed.offset)]))
          }
        }
        return Array(whole.bytes)
      }
    }
  }

  private static func check(_ reader: inout ByteReader) throws {
    let version = try reader.readByte()
    guard version == JournalStatements.version else { throw reader.problem("version \(version) is unknown") }
  }

  private static func readEnd(_ reader: inout ByteReader) throws -> End {
    End(first: Int64(clamping: try reader.readVarint()), time: try reader.readTime())
  }

  /// - Parameter names: The number of table names that the row has had so far.
  private static func readText(_ reader: inout ByteReader, _ names: inout Int) throws -> Text {
    let range = try reader.readCountedRange()
    guard try reader.readByte() == 1 else { return Text(range: range, tables: nil) }
    let count = try reader.readCount()
    names += count
    guard names <= namesMax else { throw reader.problem("it has more than \(namesMax) names of tables") }
    return Text(range: range, tables: try (0..<count).map { _ in try reader.readString() })
  }

  private static func readStatement(_ reader: inout ByteReader, behind place: Int64) throws -> Executed {
    let text = Int(clamping: try reader.readVarint())
    let before = place.addingReportingOverflow(Int64(clamping: try reader.readVarint()))
    let count = Int64(clamping: try reader.readVarint())
    guard !before.overflow, !before.partialValue.addingReportingOverflow(count).overflow else {
      throw reader.problem("a place in the journal is beyond its end")
    }
    let affected = try reader.readNumber("count of rows")
    let flags = try reader.readByte()
    let now = flags & 1 != 0 ? try reader.readTime() : nil
    let parameterCount = try reader.readCount()
    guard parameterCount <= parametersMax else {
      throw reader.problem("a statement has more than \(parametersMax) parameters")
    }
    return Executed(
      before: before.partialValue, count: count, rowsAffected: affected, now: now,
      flags: flags & 2 != 0 ? .nowUnknown : [], text: text, parameterCount: parameterCount,
      parameters: try reader.readCountedRange())
  }
}

extension ByteReader {
  fileprivate mutating func readCountedRange() throws -> Range<Int> {
    let bytes = try readCounted()
    return offset - bytes.count..<offset
  }

  fileprivate func problem(_ problem: String) -> DecodingError { DecodingError(offset: offset, problem: problem) }
}
