import Changes
import PostgresKit

/// Sends the statements of many rows before it reads the answers, and long runs of inserts by COPY.
///
/// What is sent counts only after ``settle()``: then every answer has been read, and each statement has touched as many
/// rows as it had to. Memory is bounded: a batch is settled when it holds 500 statements or 1 MiB.
final class PostgresSink {
  /// A statement did not touch what it had to, or was refused. Which row that was is found by doing it all again, one
  /// statement at a time.
  struct Fault: Error {
    /// What the server said; nil where a count was wrong.
    let error: PostgresError?
  }

  private static let statementsMax = 500
  private static let bytesMax = 1 << 20
  /// Inserts into one table after which they go by COPY.
  private static let runMin = 48
  private static let preparedMax = 400
  private static let any: Int64 = -1

  let connection: PostgresConnection
  private var isPiping = false
  private var expected: [Int64] = []
  private var bytes = 0
  private var parameters: [PostgresParameter] = []
  private var prepared: [PostgresStatement] = []

  /// Inserts into one table of which there may be more.
  private final class Kept { var row = RowText() }
  private var run: [Kept] = (0..<runMin).map { _ in Kept() }
  private var runCount = 0
  private var runBytes = 0
  private var runTable: MappedTable?
  private var copying: MappedTable?
  private var copied: Int64 = 0
  private var lines = ByteWriter(capacity: 1 << 16)
  private let none = Kept()

  init(_ connection: PostgresConnection) { self.connection = connection }

  // MARK: Rows

  /// Queues a statement that must touch `count` rows; nil: any number.
  func queue(
    _ statement: PostgresStatement, _ before: borrowing RowText, _ after: borrowing RowText, expecting count: Int64?
  ) throws {
    try endRun()
    try send(statement, before, after, expecting: count)
  }

  /// Queues a strict insert.
  func insert(_ row: borrowing RowText, into table: MappedTable) throws {
    if let copying {
      if copying === table { return try copy(row) }
      try endCopy()
    }
    if runTable !== table {
      try endRun()
      runTable = table
    }
    run[runCount].row.assign(row)
    runCount += 1
    runBytes += row.byteCount
    guard runCount == Self.runMin || runBytes > Self.bytesMax else { return }
    let count = runCount
    (runTable, runCount, runBytes) = (nil, 0, 0)
    try beginCopy(table)
    for index in 0..<count { try copy(run[index].row) }
  }

  /// Queues a row for COPY, which is begun if need be.
  func copy(_ row: borrowing RowText, into table: MappedTable) throws {
    if copying !== table { try beginCopy(table) }
    try copy(row)
  }

  /// Sends what waits for company, and ends a COPY.
  private func endRun() throws {
    if copying != nil { try endCopy() }
    guard let table = runTable else { return }
    let count = runCount
    (runTable, runCount, runBytes) = (nil, 0, 0)
    let statement = table.statement(.insert(.strict))
    for index in 0..<count { try send(statement, none.row, run[index].row, expecting: 1) }
  }

  private func send(
    _ statement: PostgresStatement, _ before: borrowing RowText, _ after: borrowing RowText, expecting count: Int64?
  ) throws {
    if expected.count >= Self.statementsMax || bytes > Self.bytesMax { try drain() }
    if !isPiping {
      try connection.enterPipeline()
      isPiping = true
    }
    if !statement.isPrepared {
      try connection.pipe(prepare: statement.name, statement.sql)
      expected.append(Self.any)
      statement.isPrepared = true
      prepared.append(statement)
    }
    statement.fill(&parameters, before, after)
    try connection.pipe(prepared: statement.name, parameters)
    expected.append(count ?? Self.any)
    bytes += before.byteCount + after.byteCount
  }

  /// Queues a statement of our own.
  func queue(_ sql: String, _ values: [String?]) throws {
    try endRun()
    if !isPiping {
      try connection.enterPipeline()
      isPiping = true
    }
    none.row.assign(values)
    parameters.removeAll(keepingCapacity: true)
    for index in values.indices { parameters.append(none.row.parameter(index)) }
    try connection.pipe(sql, parameters)
    none.row.removeAll()
    expected.append(Self.any)
  }

  // MARK: Answers

  /// Reads all answers; afterwards the connection takes any statement.
  func settle() throws {
    try endRun()
    try drain()
    guard isPiping else { return }
    isPiping = false
    try connection.exitPipeline()
    guard prepared.count > Self.preparedMax else { return }
    try connection.execute("DEALLOCATE ALL")
    for statement in prepared { statement.isPrepared = false }
    prepared.removeAll()
  }

  /// Between groups: another sink may use the connection then.
  func rest() throws {
    try settle()
    guard !prepared.isEmpty else { return }
    try connection.execute("DEALLOCATE ALL")
    for statement in prepared { statement.isPrepared = false }
    prepared.removeAll()
  }

  private func drain() throws {
    guard !expected.isEmpty else { return }
    let wanted = expected
    expected.removeAll(keepingCapacity: true)
    bytes = 0
    var isWrong = false
    do {
      try connection.drain { index, touched in
        if index < wanted.count, wanted[index] >= 0, wanted[index] != touched { isWrong = true }
      }
    } catch let failed as PostgresBatchError {
      throw Self.fault(failed.error)
    }
    if isWrong { throw Fault(error: nil) }
  }

  /// What has nothing to do with a row stays what it is.
  private static func fault(_ error: PostgresError) -> any Error {
    error.isServerGone || error.isTransient || error.isCancelled ? error : Fault(error: error)
  }

  // MARK: COPY

  private func beginCopy(_ table: MappedTable) throws {
    try settle()
    do {
      try connection.beginCopyIn("COPY \(table.target.qualifiedName)(\(table.columnList)) FROM STDIN")
    } catch let error as PostgresError { throw Self.fault(error) }
    (copying, copied) = (table, 0)
    lines.removeAll()
  }

  private func copy(_ row: borrowing RowText) throws {
    row.appendLine(to: &lines)
    copied += 1
    guard lines.count >= 1 << 16 else { return }
    try connection.sendCopy(lines.bytes)
    lines.removeAll()
    lines.shrink(above: 1 << 20)
  }

  private func endCopy() throws {
    let wanted = copied
    copying = nil
    let touched: Int64
    do {
      try connection.sendCopy(lines.bytes)
      lines.removeAll()
      touched = try connection.endCopy()
    } catch let error as PostgresError { throw Self.fault(error) }
    if touched != wanted { throw Fault(error: nil) }
  }

  // MARK: One at a time

  /// Runs a statement by itself, so that it may fail and the transaction go on; returns the rows that it touched.
  func run(
    _ statement: PostgresStatement, _ before: borrowing RowText, _ after: borrowing RowText
  ) throws -> Int64 {
    try settle()
    return try attempt { try connection.run(statement.sql, statement.strings(before, after)) }
  }

  /// The rows of a statement that is run by itself.
  func rows(
    _ statement: PostgresStatement, _ before: borrowing RowText, _ after: borrowing RowText
  ) throws -> [[String?]] {
    try settle()
    return try attempt { try connection.query(statement.sql, statement.strings(before, after)) }
  }

  /// Between savepoints: an error of the server undoes what `body` did, and nothing else.
  func attempt<T>(_ body: () throws -> T) throws -> T {
    try settle()
    try connection.execute("SAVEPOINT cairn_one")
    do {
      let result = try body()
      try connection.execute("RELEASE cairn_one")
      return result
    } catch let error as PostgresError where !error.isServerGone {
      try connection.execute("ROLLBACK TO cairn_one; RELEASE cairn_one")
      throw error
    }
  }

  /// Rolls back whatever was going on. The sink is of no use afterwards; the connection is, unless it is lost.
  func abandon() {
    guard connection.isUsable else { return }
    if copying != nil { _ = try? connection.endCopy(giveUp: "given up") }
    copying = nil
    if isPiping {
      _ = try? connection.drain { _, _ in }
      _ = try? connection.exitPipeline()
      isPiping = false
    }
    connection.rollback()
    if connection.isUsable { _ = try? connection.execute("DEALLOCATE ALL") }
  }
}
