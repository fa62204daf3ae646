import Changes
import PostgresKit

/// Sends the statements for many rows before it reads the answers. Similar changes are sent together.
///
/// Statements have succeeded only when ``settle()`` returns.
final class PostgresSink {
  /// The failure of a statement: the server refused it, or it changed an unexpected number of rows.
  ///
  /// Apply then applies the group again, one statement at a time.
  struct Fault: Error {
    let error: PostgresError?
  }

  private static let statementsMax = 500
  private static let bytesMax = 1 << 20
  private static let batchBytesMax = 2 << 20
  /// The maximum number of rows of one statement that gets its values as arrays.
  private static let arrayRowsMax = 2000
  /// The minimum number of changes of the same form for which one statement with arrays is used.
  private static let manyMin = 16
  private static let copyMin = 48
  /// The number of inserts at which a batch is sent at once, if it has only inserts and no other batch is open.
  private static let directMin = 256
  private static let changesBetweenFlushes = 64
  /// The maximum number of bytes of COPY lines that wait in memory for the server.
  private static let unsentBytesMax = 2 << 20
  private static let preparedMax = 400
  private static let any: Int64 = -1

  let connection: PostgresConnection
  private var isPiping = false
  private var expected: [Int64] = []
  private var pushed: [[Int64]] = []
  private var bytes = 0
  private var parameters: [PostgresParameter] = []
  private var prepared: [PostgresStatement] = []

  private var batches: [RowBatch] = []
  private var batchBytes = 0
  private var arrays = PostgresArrays()
  private final class Kept { var row = RowText() }
  private let (one, other, none) = (Kept(), Kept(), Kept())
  private var copying: PostgresApplyTable?
  private var copied: Int64 = 0
  private var unsentBytes = 0
  private var changeCount = 0
  private var lines = ByteWriter(capacity: 1 << 16)

  init(_ connection: PostgresConnection) { self.connection = connection }

  // MARK: Rows

  /// Sends the collected changes of `table`, and queues a statement that must change `count` rows; nil: any number.
  func queue(
    _ statement: PostgresStatement, of table: PostgresApplyTable, _ before: borrowing RowText,
    _ after: borrowing RowText,
    expecting count: Int64?
  ) throws {
    try endCopy()
    if !table.batch.isEmpty { try send(table.batch) }
    try send(statement, before, after, expecting: count)
  }

  func insert(_ row: borrowing RowText, into table: PostgresApplyTable) throws {
    if batches.isEmpty, copying === table { return try copy(row, into: table) }
    try change(table) {
      $0.insert(row)
      return true
    }
    if batches.count == 1, table.batch.insertCount >= Self.directMin, table.batch.holdsInsertsOnly {
      try send(table.batch)
    }
  }

  func update(
    _ before: borrowing RowText, _ after: borrowing RowText, of table: PostgresApplyTable, set: ColumnMask,
    checks: ColumnMask
  ) throws {
    try change(table) { $0.update(before, after, set: set, checks: checks) }
  }

  func delete(_ row: borrowing RowText, of table: PostgresApplyTable, checks: ColumnMask) throws {
    try change(table) { $0.delete(row, checks: checks) }
  }

  private func change(_ table: PostgresApplyTable, _ body: (RowBatch) -> Bool) throws {
    let batch = table.batch
    if batch.isEmpty { batches.append(batch) }
    let had = batch.byteCount
    if body(batch) {
      batchBytes += batch.byteCount - had
    } else {
      try send(batch)
      batches.append(batch)
      guard body(batch) else { preconditionFailure("an empty batch takes any change") }
      batchBytes += batch.byteCount
    }
    if batchBytes > Self.batchBytesMax { return try sendBatches() }
    changeCount &+= 1
    if changeCount % Self.changesBetweenFlushes == 0 { try keepServerBusy() }
  }

  private func keepServerBusy() throws {
    if copying != nil || !pushed.isEmpty { try connection.tryFlush("pipeline") }
  }

  func copy(_ row: borrowing RowText, into table: PostgresApplyTable) throws {
    if copying !== table { try beginCopy(table) }
    row.appendLine(to: &lines)
    try copyLine()
  }

  // MARK: Batches

  /// Sends all batches: first the deletes and updates of all tables, then the inserts.
  private func sendBatches() throws {
    try endCopy()
    let batches = self.batches
    for batch in batches { try sendChanges(batch) }
    if isPiping, !expected.isEmpty { try push() }
    for batch in batches { try sendInserts(batch) }
    for batch in batches { batch.removeAll() }
    self.batches.removeAll(keepingCapacity: true)
    batchBytes = 0
  }

  private func send(_ batch: RowBatch) throws {
    try endCopy()
    try sendChanges(batch)
    try sendInserts(batch)
    batchBytes -= batch.byteCount
    batch.removeAll()
    batches.removeAll { $0 === batch }
  }

  private func sendChanges(_ batch: RowBatch) throws {
    var groups = [[Int]](repeating: [], count: batch.shapes.count)
    for (index, entry) in batch.entries.enumerated() { groups[entry.shape].append(index) }
    for kind in [RowBatch.Kind.delete, .update] {
      for (shape, group) in zip(batch.shapes, groups) where shape.kind == kind && !group.isEmpty {
        if group.count < Self.manyMin {
          let single: PostgresApplyTable.Shape =
            kind == .delete ? .delete(checks: shape.checks) : .update(set: shape.set, checks: shape.checks)
          try sendSingly(batch, group, single)
          continue
        }
        let many: PostgresApplyTable.Shape =
          kind == .delete ? .deleteMany(checks: shape.checks) : .updateMany(set: shape.set, checks: shape.checks)
        for start in stride(from: 0, to: group.count, by: Self.arrayRowsMax) {
          try sendTogether(batch, group[start..<min(start + Self.arrayRowsMax, group.count)], many)
        }
      }
    }
  }

  private func sendInserts(_ batch: RowBatch) throws {
    let group = batch.entries.indices.filter { batch.shapes[batch.entries[$0].shape].kind == .insert }
    guard group.count >= Self.copyMin else { return try sendSingly(batch, group, .insert(.strict)) }
    try beginCopy(batch.table)
    for index in group {
      if let row = batch.entries[index].after { batch.rows.appendLine(row, to: &lines) }
      try copyLine()
    }
  }

  private func sendSingly(_ batch: RowBatch, _ group: [Int], _ shape: PostgresApplyTable.Shape) throws {
    let statement = batch.table.statement(shape)
    for index in group {
      batch.rows.copy(batch.entries[index].before, to: &one.row)
      batch.rows.copy(batch.entries[index].after, to: &other.row)
      try send(statement, one.row, other.row, expecting: 1)
    }
  }

  private func sendTogether(_ batch: RowBatch, _ group: ArraySlice<Int>, _ shape: PostgresApplyTable.Shape) throws {
    let statement = batch.table.statement(shape)
    arrays.removeAll()
    for parameter in statement.parameters {
      arrays.begin(count: group.count)
      for index in group { appendValue(parameter, batch, batch.entries[index]) }
    }
    try pipeIfNeeded()
    try connection.pipe(statement.sql, arrays)
    expected.append(Int64(group.count))
    try push()
  }

  private func appendValue(_ parameter: PostgresStatement.Parameter, _ batch: RowBatch, _ entry: RowBatch.Entry) {
    let row: Int?
    let column: Int
    switch parameter {
    case .old(let index): (row, column) = (batch.row(entry.before, entry.after, giving: index), index)
    case .new(let index): (row, column) = (batch.row(entry.after, entry.before, giving: index), index)
    }
    if let row, batch.rows.span(column, of: row).hasText {
      arrays.append(batch.rows.text(column, of: row))
    } else {
      arrays.appendNull()
    }
  }

  // MARK: Statements

  private func pipeIfNeeded() throws {
    guard !isPiping else { return }
    try endCopy()
    try connection.enterPipeline()
    isPiping = true
  }

  private func send(
    _ statement: PostgresStatement, _ before: borrowing RowText, _ after: borrowing RowText, expecting count: Int64?
  ) throws {
    if expected.count >= Self.statementsMax || bytes > Self.bytesMax { try push() }
    try pipeIfNeeded()
    try prepareIfNeeded(statement)
    statement.fill(&parameters, before, after)
    try connection.pipe(prepared: statement.name, parameters)
    expected.append(count ?? Self.any)
    bytes += before.byteCount + after.byteCount
  }

  private func prepareIfNeeded(_ statement: PostgresStatement) throws {
    guard !statement.isPrepared else { return }
    try connection.pipe(prepare: statement.name, statement.sql)
    expected.append(Self.any)
    statement.isPrepared = true
    prepared.append(statement)
  }

  func queue(_ statement: PostgresStatement, _ values: [String?] = []) throws {
    try sendBatches()
    try pipeIfNeeded()
    try prepareIfNeeded(statement)
    none.row.assign(values)
    parameters.removeAll(keepingCapacity: true)
    for index in values.indices { parameters.append(none.row.parameter(index)) }
    try connection.pipe(prepared: statement.name, parameters)
    none.row.removeAll()
    expected.append(Self.any)
  }

  func run(_ statements: [(PostgresStatement, [String?])]) throws {
    for (statement, values) in statements { try queue(statement, values) }
    try drain()
    try leavePipeline()
  }

  // MARK: Answers

  private func push() throws {
    guard !expected.isEmpty else { return }
    try connection.pushPipeline()
    pushed.append(expected)
    expected.removeAll(keepingCapacity: true)
    bytes = 0
    guard pushed.count > 2 else { return }
    let wanted = pushed.removeFirst()
    try answered(wanted) { try connection.readAnswers(wanted.count, $0) }
  }

  func settle() throws {
    try sendBatches()
    try endCopy()
    try drain()
    try leavePipeline()
    guard prepared.count > Self.preparedMax else { return }
    try connection.execute("DEALLOCATE ALL")
    for statement in prepared { statement.isPrepared = false }
    prepared.removeAll()
  }

  private func leavePipeline() throws {
    guard isPiping else { return }
    isPiping = false
    try connection.exitPipeline()
  }

  /// Reads all answers and drops the prepared statements, so that another sink can use the connection.
  func rest() throws {
    try settle()
    guard !prepared.isEmpty else { return }
    try connection.execute("DEALLOCATE ALL")
    for statement in prepared { statement.isPrepared = false }
    prepared.removeAll()
  }

  private func drain() throws {
    let wanted = pushed.joined() + expected
    guard !wanted.isEmpty else { return }
    pushed.removeAll()
    expected.removeAll(keepingCapacity: true)
    bytes = 0
    try answered(wanted) { try connection.drain($0) }
  }

  private func answered(_ wanted: [Int64], _ read: ((Int, Int64) -> Void) throws -> Void) throws {
    var isWrong = false
    do {
      try read { index, touched in
        if index < wanted.count, wanted[index] >= 0, wanted[index] != touched { isWrong = true }
      }
    } catch let failed as PostgresBatchError {
      throw Self.fault(failed.error)
    }
    if isWrong { throw Fault(error: nil) }
  }

  private static func fault(_ error: PostgresError) -> any Error {
    error.isServerGone || error.isTransient || error.isCancelled ? error : Fault(error: error)
  }

  // MARK: COPY

  private func beginCopy(_ table: PostgresApplyTable) throws {
    try endCopy()
    try drain()
    try leavePipeline()
    do {
      try connection.beginCopyIn("COPY \(table.target.qualifiedName)(\(table.columnList)) FROM STDIN")
    } catch let error as PostgresError { throw Self.fault(error) }
    (copying, copied) = (table, 0)
    lines.removeAll()
  }

  private func copyLine() throws {
    copied += 1
    guard lines.count >= 1 << 16 else { return }
    unsentBytes += lines.count
    if try connection.sendCopy(lines.bytes, isUrgent: unsentBytes > Self.unsentBytesMax) { unsentBytes = 0 }
    lines.removeAll()
    lines.shrink(above: 1 << 20)
  }

  private func endCopy() throws {
    guard copying != nil else { return }
    let wanted = copied
    (copying, unsentBytes) = (nil, 0)
    let touched: Int64
    do {
      try connection.sendCopy(lines.bytes)
      lines.removeAll()
      touched = try connection.endCopy()
    } catch let error as PostgresError { throw Self.fault(error) }
    if touched != wanted { throw Fault(error: nil) }
  }

  // MARK: One at a time

  func run(
    _ statement: PostgresStatement, _ before: borrowing RowText, _ after: borrowing RowText
  ) throws -> Int64 {
    try settle()
    return try attempt { try connection.run(statement.sql, statement.strings(before, after)) }
  }

  func rows(
    _ statement: PostgresStatement, _ before: borrowing RowText, _ after: borrowing RowText
  ) throws -> [[String?]] {
    try settle()
    return try attempt { try connection.query(statement.sql, statement.strings(before, after)) }
  }

  /// Reads the answers to all queued statements, and runs `body` in a savepoint. A server error undoes only what `body`
  /// did, and is thrown.
  func attempt<T>(_ body: () throws -> T) throws -> T {
    try settle()
    try connection.execute("SAVEPOINT cairn_one")
    do {
      let result = try body()
      try connection.execute("RELEASE cairn_one")
      return result
    } catch let error as PostgresError where !error.isServerGone {
      try connection.executeScript("ROLLBACK TO cairn_one; RELEASE cairn_one")
      throw error
    }
  }

  /// Rolls back the open transaction, with everything that was sent or collected. Afterwards, this sink cannot be used.
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
