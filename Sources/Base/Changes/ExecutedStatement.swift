/// One SQL statement as an application executed it, with everything needed to execute it again (`docs/trail-format.md`,
/// statement).
package struct ExecutedStatement: Equatable, Sendable {
  package var dialect: Engine
  @ByBytes package var text: String
  /// The bound values by parameter number, from 1; a parameter without a bound value is NULL.
  package var parameters: [Value]
  /// The number of changed rows as the engine reports it. Rows that triggers or foreign key actions changed do not
  /// count.
  package var rowsAffected: UInt64
  /// The value of CURRENT_TIMESTAMP in the statement, µs since 1970 UTC; nil if the statement did not ask for the time.
  package var now: Int64?
  package var flags: Flags

  package struct Flags: OptionSet, Sendable {
    package let rawValue: UInt64
    package init(rawValue: UInt64) { self.rawValue = rawValue }
    static let hasNow = Flags(rawValue: 1)
    /// The flag of a statement for which the source cannot report the value of CURRENT_TIMESTAMP.
    package static let nowUnknown = Flags(rawValue: 2)
    /// The flag of a statement that touched tables which are not captured, so that the trail has only some of the
    /// statement's changes.
    package static let isPartial = Flags(rawValue: 4)
  }

  package init(
    dialect: Engine, text: String, parameters: [Value] = [], rowsAffected: UInt64, now: Int64? = nil,
    flags: Flags = []
  ) {
    self.dialect = dialect
    self.text = text
    self.parameters = parameters
    self.rowsAffected = rowsAffected
    self.now = now
    self.flags = flags
  }
}

/// A statement record that is read without a copy, and is valid only as long as the record's bytes.
package struct StatementView {
  package let dialect: Engine
  package let flags: ExecutedStatement.Flags
  package let rowsAffected: UInt64
  package let now: Int64?
  package let text: UnsafeRawBufferPointer
  package let parameterCount: Int
  private let parameterBytes: UnsafeRawBufferPointer

  init(_ reader: inout ByteReader) throws {
    let engine = try reader.readByte()
    guard let dialect = Engine(rawValue: engine) else {
      throw DecodingError(offset: 0, problem: "dialect \(engine) is unknown")
    }
    self.dialect = dialect
    flags = .init(rawValue: try reader.readVarint())
    rowsAffected = try reader.readNumber("count of rows")
    now = flags.contains(.hasNow) ? try reader.readTime() : nil
    text = try reader.readCounted()
    parameterCount = try reader.readCount()
    parameterBytes = try reader.readCounted()
  }

  /// The number of bytes of the text and the parameters.
  package var byteCount: Int { text.count + parameterBytes.count }

  /// Returns a copy of the values that were bound to the statement's parameters.
  package func parameters() throws -> [Value] {
    var reader = ByteReader(parameterBytes)
    return try (0..<parameterCount).map { _ in try reader.readColumn().value ?? .null }
  }

  package func executed() throws -> ExecutedStatement {
    ExecutedStatement(
      dialect: dialect, text: String(decoding: text, as: UTF8.self), parameters: try parameters(),
      rowsAffected: rowsAffected, now: now, flags: flags.subtracting(.hasNow))
  }
}

/// The record after the last change that a statement caused.
///
///     StatementEnd(changes: 3, digest: StatementDigest())
package struct StatementEnd: Equatable, Sendable {
  package var changes: UInt64
  package var digest: StatementDigest
  package init(changes: UInt64, digest: StatementDigest) {
    self.changes = changes
    self.digest = digest
  }
}

extension ByteWriter {
  package mutating func append(_ statement: ExecutedStatement) {
    var parameters = ByteWriter(capacity: 256)
    for value in statement.parameters { parameters.append(value) }
    var text = statement.text
    text.withUTF8 {
      appendStatement(
        statement.dialect, statement.flags, statement.rowsAffected, statement.now, text: UnsafeRawBufferPointer($0),
        parameterCount: statement.parameters.count, parameters: parameters.bytes)
    }
  }

  /// Appends a statement record.
  package mutating func appendStatement(
    _ dialect: Engine, _ flags: ExecutedStatement.Flags, _ rowsAffected: UInt64, _ now: Int64?,
    text: UnsafeRawBufferPointer, parameterCount: Int, parameters: UnsafeRawBufferPointer
  ) {
    append(dialect.rawValue)
    appendVarint((now == nil ? flags.subtracting(.hasNow) : flags.union(.hasNow)).rawValue)
    appendVarint(rowsAffected)
    if let now { appendZigzag(now) }
    appendCounted(text)
    appendVarint(UInt64(parameterCount))
    appendCounted(parameters)
  }

  package mutating func append(_ end: StatementEnd) {
    appendVarint(end.changes)
    appendVarint(end.digest.written)
    appendVarint(end.digest.gone)
    appendFixed(end.digest.low)
    appendFixed(end.digest.high)
  }
}

extension ByteReader {
  mutating func readStatementEnd() throws -> StatementEnd {
    StatementEnd(
      changes: try readNumber("count of changes"),
      digest: StatementDigest(
        written: try readNumber("count of rows"), gone: try readNumber("count of rows"), low: try readFixed(),
        high: try readFixed()))
  }
}
