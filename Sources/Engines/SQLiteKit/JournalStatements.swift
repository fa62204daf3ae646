import Changes

/// The statements that an application executed, encoded as a journal row (`docs/explanation/sqlite-capture.md`,
/// Statements).
///
/// The statements of a transaction are gathered in memory and written as one row before its commit. If they reach
/// ``partBytes``, they are written at once as a part.
///
///     var log = JournalStatements()
///     log.isEmpty   // true
package struct JournalStatements: ~Copyable {
  /// The `code` of a journal row that ends a transaction.
  package static let endCode: Int64 = 2
  /// The `code` of a journal row with statements that is written before the end of the transaction.
  package static let partCode: Int64 = 3
  static let version: UInt8 = 1
  /// The size of the gathered statements, in bytes, at which they are written before the commit.
  package static let partBytes = 1 << 18

  static let textTag: UInt8 = 0
  static let statementTag: UInt8 = 1

  /// The text of a statement that can be executed repeatedly.
  ///
  ///     let text = JournalStatements.Text("DELETE FROM item WHERE id = ?", tables: ["item"])
  package final class Text {
    fileprivate let definition: [UInt8]
    fileprivate var generation: UInt64 = 0
    fileprivate var index: UInt64 = 0
    /// The encoded values that were last bound to the text. Dropping or rolling back statements makes them invalid.
    fileprivate var latest = ByteWriter(capacity: 256)

    /// Creates a text that can be executed repeatedly.
    ///
    /// - Parameter tables: The tables that the text reads or changes; nil if they are not known.
    package init(_ text: String, tables: [String]?) {
      var writer = ByteWriter(capacity: 256)
      writer.append(JournalStatements.textTag)
      writer.appendString(text)
      writer.append(tables == nil ? 0 : 1)
      if let tables {
        writer.appendVarint(UInt64(tables.count))
        for table in tables { writer.appendString(table) }
      }
      definition = Array(writer.bytes)
    }
  }

  /// One execution of a statement.
  package struct Execution {
    /// The sequence number of the last journal row before the statement.
    package var before: Int64
    package var last: Int64
    package var rowsAffected: Int64
    /// The current time that SQLite gave to the statement, µs since 1970 UTC. Nil if the statement did not ask for it.
    package var now: Int64?
    package var isNowUnknown: Bool
    package init(before: Int64, last: Int64, rowsAffected: Int64, now: Int64?, isNowUnknown: Bool) {
      (self.before, self.last, self.rowsAffected) = (before, last, rowsAffected)
      (self.now, self.isNowUnknown) = (now, isNowUnknown)
    }
  }

  /// The state of the gathered statements at a savepoint. A rollback to the savepoint restores it.
  package struct Mark {
    fileprivate var count: Int
    fileprivate var textCount: UInt64
    fileprivate var base: Int64
    fileprivate var end: Int64
    fileprivate var parts: Int
    /// The gathered statements at the savepoint, encoded; nil if no part was written to the journal since.
    fileprivate var kept: [UInt8]?
  }

  private var entries = ByteWriter(capacity: 4096)
  private var packed = ByteWriter(capacity: 256)
  private var textCount: UInt64 = 0
  private var generation: UInt64 = 1
  /// The sequence number of the last journal row before the first gathered statement.
  private var base: Int64 = 0
  private var end: Int64 = 0
  private var parts = 0

  package init() {}

  package var isEmpty: Bool { entries.count == 0 }
  package var isFull: Bool { entries.count >= Self.partBytes }

  /// Adds an executed statement; `parameters` are values encoded as in images.
  package mutating func append(
    _ text: Text, _ execution: Execution, parameterCount: Int, parameters: UnsafeRawBufferPointer
  ) {
    if entries.count == 0 {
      base = execution.before
      end = base
    }
    let isKnown = text.generation == generation
    if !isKnown {
      entries.append(text.definition)
      (text.generation, text.index) = (generation, textCount)
      textCount += 1
    }
    entries.append(Self.statementTag)
    entries.appendVarint(text.index)
    entries.appendVarint(UInt64(max(0, execution.before - end)))
    entries.appendVarint(UInt64(max(0, execution.last - execution.before)))
    entries.appendVarint(UInt64(max(0, execution.rowsAffected)))
    entries.append((execution.now == nil ? 0 : 1) | (execution.isNowUnknown ? 2 : 0))
    if let now = execution.now { entries.appendZigzag(now) }
    entries.appendVarint(UInt64(parameterCount))
    append(parameters, count: parameterCount, to: isKnown ? text : nil)
    text.latest.removeAll()
    text.latest.shrink(above: 1 << 16)
    text.latest.append(parameters)
    end = max(execution.last, execution.before)
  }

  private mutating func append(_ parameters: UnsafeRawBufferPointer, count: Int, to text: Text?) {
    guard let text, count > 0 else { return entries.appendCounted(parameters) }
    packed.removeAll()
    packed.shrink(above: Self.partBytes)
    var (now, before) = (ByteReader(parameters), ByteReader(text.latest.bytes))
    for _ in 0..<count {
      let (start, last) = (now.offset, before.offset)
      // Both buffers were encoded by this type.
      guard (try? now.readColumn()) != nil, (try? before.readColumn()) != nil else { break }
      let value = UnsafeRawBufferPointer(rebasing: parameters[start..<now.offset])
      if value.isSame(as: UnsafeRawBufferPointer(rebasing: text.latest.bytes[last..<before.offset])) {
        packed.appendUnchanged()
      } else {
        packed.append(value)
      }
    }
    entries.appendCounted(packed.bytes)
  }

  /// Calls `body` with the journal row that ends a transaction, and removes all gathered statements.
  ///
  /// - Parameter first: The sequence number of the transaction's first journal row.
  package mutating func takeEnd<T>(first: Int64, time: Int64, _ body: (UnsafeRawBufferPointer) throws -> T) rethrows
    -> T
  {
    try take(
      head: {
        $0.appendVarint(UInt64(first)); $0.appendZigzag(time)
      }, body)
  }

  /// Calls `body` with a journal row of the statements gathered so far, and removes these statements.
  ///
  /// - Parameter savepoints: The open savepoints. They keep a copy of the removed statements, for a rollback.
  package mutating func takePart<T>(
    savepoints: inout [Mark], _ body: (UnsafeRawBufferPointer) throws -> T
  ) rethrows -> T {
    for index in savepoints.indices where savepoints[index].parts == parts && savepoints[index].kept == nil {
      savepoints[index].kept = Array(entries.bytes[..<savepoints[index].count])
    }
    parts += 1
    return try take(head: { _ in }, body)
  }

  private mutating func take<T>(
    head: (inout ByteWriter) -> Void, _ body: (UnsafeRawBufferPointer) throws -> T
  ) rethrows -> T {
    var row = ByteWriter(capacity: 32 + entries.count)
    row.append(Self.version)
    head(&row)
    row.appendVarint(UInt64(base))
    row.append(entries.bytes)
    removeAll()
    return try body(row.bytes)
  }

  /// Drops all gathered statements at the end of a transaction, committed or not.
  package mutating func removeAll() {
    entries.removeAll()
    entries.shrink(above: Self.partBytes * 2)
    forgetTexts()
  }

  private mutating func forgetTexts() {
    generation += 1
    textCount = 0
  }

  package func mark() -> Mark {
    Mark(count: entries.count, textCount: textCount, base: base, end: end, parts: parts)
  }

  /// Removes the statements that were gathered after a savepoint.
  package mutating func rollBack(to mark: Mark) {
    if let kept = mark.kept {
      entries.removeAll()
      entries.append(kept)
    } else {
      entries.truncate(to: mark.count)
    }
    (base, end, parts) = (mark.base, mark.end, mark.parts)
    // Texts defined after the savepoint must be defined again; defining the others again is harmless.
    generation += 1
    textCount = mark.textCount
  }
}
