import Capturing
import Changes
import SQLiteKit
import SystemKit

/// The connection of a ``CapturedDatabase`` with its prepared statements and its open transaction. Not thread-safe.
final class Session {
  let program: ProgramDatabase
  private let database: Database
  let isCaptured: Bool
  private let keepsStatements: Bool
  private let clock: Clock
  private let control: Control

  private var cache = StatementCache()
  private var parameters = BoundParameters()
  private var readCount = 0
  var synchronizations = 0

  private(set) var isTransacting = false
  /// The number of the current transaction. A ``CapturedTransaction`` with another number has ended.
  private(set) var serial: UInt64 = 0
  private var log = JournalStatements()
  private var savepoints: [Place] = []
  private var marks: [JournalStatements.Mark] = []

  var isReading: Bool { readCount > 0 }

  /// The first and last journal row that the open transaction had when a savepoint began; `first` is 0 if it had none.
  private struct Place {
    var first: Int64
    var last: Int64
  }

  /// The prepared statements that the session runs itself, such as BEGIN and COMMIT.
  private struct Control {
    let begin, commit, schemaVersion: Statement
    let lastRow, write: Statement?
    init(_ database: Database, isCaptured: Bool) throws {
      begin = try database.prepare("BEGIN IMMEDIATE")
      commit = try database.prepare("COMMIT")
      schemaVersion = try database.prepare("PRAGMA schema_version")
      lastRow = isCaptured ? try database.prepare("SELECT seq FROM cairn_journal ORDER BY seq DESC LIMIT 1") : nil
      write = isCaptured ? try database.prepare("INSERT INTO cairn_journal(code, v0) VALUES (?, ?)") : nil
    }
  }

  init(_ program: ProgramDatabase, isCaptured: Bool, keepsStatements: Bool, clock: Clock = .system) throws {
    self.program = program
    database = program.database
    self.isCaptured = isCaptured
    self.keepsStatements = keepsStatements && isCaptured
    self.clock = clock
    if isCaptured {
      try EmbeddedCapture(program.database, clock: clock).install()
      program.beginWatching()
      program.checkpointBeside()
    }
    control = try Control(program.database, isCaptured: isCaptured)
  }

  // MARK: Statements

  /// Runs a statement and discards its rows. Returns the number of rows that it changed.
  func execute(_ sql: String, _ values: [any SQLConvertible]) throws -> Int {
    let prepared = try cache.statement(sql, program)
    guard !isCaptured, prepared.isChange else { return try run(prepared, values, nil) }
    // Without capture, nothing goes into the journal: use the fastest path.
    try bind(prepared, values)
    while try prepared.statement.step() {}
    return Int(database.changes)
  }

  /// Runs a statement and calls `body` with each of its rows.
  func query(_ sql: String, _ values: [any SQLConvertible], _ body: (Row) throws -> Void) throws {
    let prepared = try cache.statement(sql, program)
    guard !prepared.isReadOnly else { return try read(prepared, values, body) }
    // SQLite makes all changes before it returns the first row (RETURNING). The statement is kept before the closure
    // can execute others.
    var rows: [Row] = []
    _ = try run(prepared, values) { rows.append($0) }
    for row in rows { try body(row) }
  }

  private func read(
    _ prepared: PreparedStatement, _ values: [any SQLConvertible], _ body: (Row) throws -> Void
  ) throws {
    prepared.isBusy = true
    readCount += 1
    defer {
      prepared.statement.reset()
      prepared.isBusy = false
      readCount -= 1
    }
    try checkCount(prepared, values)
    // The closure may execute other statements, which reuse the buffer of the parameters.
    try prepared.statement.bindCopies(of: values)
    while try prepared.statement.step() { try body(row(prepared)) }
  }

  private func row(_ prepared: PreparedStatement) -> Row {
    let statement = prepared.statement
    return Row(columns: prepared.columns, values: (0..<statement.columnCount).map { SQLValue(statement.view($0)) })
  }

  private func run(
    _ prepared: PreparedStatement, _ values: [any SQLConvertible], _ collect: ((Row) -> Void)?
  ) throws -> Int {
    try bind(prepared, values)
    switch prepared.kind {
    case .change:
      guard isCaptured, !database.isInTransaction else { return try change(prepared, collect) }
      return try changeAlone(prepared, collect)
    case .schemaChange(let table):
      guard isCaptured else { return try change(prepared, collect) }
      guard database.isInTransaction else { return try transact { try changeSchema(prepared, table) }.value }
      return try savepoint { try changeSchema(prepared, table) }
    case .other:
      program.settle()
      while try prepared.statement.step() { collect?(row(prepared)) }
      return 0
    }
  }

  private func bind(_ prepared: PreparedStatement, _ values: [any SQLConvertible]) throws {
    try checkCount(prepared, values)
    try parameters.bind(values, to: prepared.statement, asImage: keepsStatements)
  }

  private func checkCount(_ prepared: PreparedStatement, _ values: [any SQLConvertible]) throws {
    let expected = prepared.statement.parameterCount
    guard values.count == expected else {
      throw DatabaseError(
        .parameterCount(expected: expected, given: values.count),
        "the statement has \(expected.counted("parameter")), and \(values.count.counted("value was", "values were")) given",
        sql: prepared.sql)
    }
  }

  // MARK: Capture

  private func change(_ prepared: PreparedStatement, _ collect: ((Row) -> Void)?) throws -> Int {
    guard isCaptured else {
      while try prepared.statement.step() { collect?(row(prepared)) }
      guard case .change = prepared.kind else { return 0 }
      return Int(database.changes)
    }
    return try kept(prepared) {
      var now: Int64?
      guard keepsStatements, program.isOwned else {
        while try prepared.statement.step() { collect?(row(prepared)) }
        return (Int(database.changes), nil)
      }
      var hasRow = try program.step(prepared.statement, now: &now)
      while hasRow {
        collect?(row(prepared))
        hasRow = try prepared.statement.step()
      }
      return (Int(database.changes), now)
    }
  }

  /// Begins a transaction, runs a statement that changes rows, and commits. Returns the number of changed rows. If OR
  /// FAIL or RAISE(FAIL) stops the statement, the rows that it had written are committed, as in SQLite.
  private func changeAlone(_ prepared: PreparedStatement, _ collect: ((Row) -> Void)?) throws -> Int {
    var refusal: SQLiteError?
    let count = try transact {
      do { return try change(prepared, collect) } catch let error as SQLiteError where error.isConstraint {
        guard database.isInTransaction else { throw error }
        refusal = error
        return 0
      }
    }.value
    if let refusal { throw refusal }
    return count
  }

  private func changeSchema(_ prepared: PreparedStatement, _ table: String?) throws -> Int {
    try kept(prepared) {
      let capture = EmbeddedCapture(database, clock: clock)
      let version = try capture.prepareSchemaChange()
      if let table { try capture.release(table) }
      var now: Int64?
      if program.isOwned {
        while try program.step(prepared.statement, now: &now) {}
      } else {
        while try prepared.statement.step() {}
      }
      if try scalar(control.schemaVersion) != version { try capture.adopt() }
      return (0, now)
    }
  }

  /// Runs a statement with `body` in the caller's transaction. If the statement changed rows, stores its text for the
  /// journal. Returns the number of changed rows.
  private func kept(_ prepared: PreparedStatement, _ body: () throws -> (affected: Int, now: Int64?)) throws -> Int {
    let isOwned = program.isOwned
    if !isOwned, keepsStatements { program.last = try lastRow() }
    var before = program.last
    let affected: Int
    let now: Int64?
    do { (affected, now) = try body() } catch {
      try settle()
      throw error
    }
    guard keepsStatements else { return affected }
    if !isOwned { program.last = try lastRow() }
    if case .change = prepared.kind, affected == 0, program.last == before { return 0 }
    if before == 0 { before = program.first > 0 ? program.first - 1 : try lastRow() }
    log.append(
      prepared.text,
      .init(
        before: before, last: max(before, program.last), rowsAffected: Int64(affected), now: now,
        isNowUnknown: !isOwned),
      parameterCount: prepared.statement.parameterCount, parameters: parameters.image)
    // Write now if the program itself commits, since the session has no later chance. On a shared connection, the
    // program may also roll back to its own savepoint, which undoes only changes that are in the journal.
    if log.isFull || !isTransacting || !isOwned { try writePart() }
    return affected
  }

  /// Corrects the stored range of the transaction's journal rows after SQLite has rolled back a failed statement.
  private func settle() throws {
    guard database.isInTransaction else { return forgetStatements() }
    guard isCaptured, program.last != 0 else { return }
    let last = try lastRow()
    if last < program.first { (program.first, program.last) = (0, 0) } else { program.last = last }
  }

  private func writePart() throws {
    try log.takePart(savepoints: &marks) { try write(JournalStatements.partCode, $0) }
  }

  /// Writes a row into the journal, in the open transaction. The program's last_insert_rowid() does not change.
  private func write(_ code: Int64, _ content: UnsafeRawBufferPointer) throws {
    guard let statement = control.write else { return }
    let rowid = database.lastInsertRowid
    defer { database.lastInsertRowid = rowid }
    try statement.bind(code, at: 1)
    try statement.bind(.blob(content), at: 2, copies: false)
    while try statement.step() {}
  }

  private func lastRow() throws -> Int64 { try control.lastRow.map(scalar) ?? 0 }

  private func scalar(_ statement: Statement) throws -> Int64 {
    defer { statement.reset() }
    return try statement.step() ? statement.integer(0) : 0
  }

  // MARK: Transactions

  /// Begins a transaction, runs `body`, and commits. Rolls the transaction back if `body` or the commit throws.
  ///
  /// - Throws: `nestedTransaction` if a transaction is open already.
  func transact<T>(_ body: () throws -> T) throws -> (value: T, token: CommitToken) {
    guard !database.isInTransaction else {
      throw DatabaseError(.nestedTransaction, "a transaction is already open: use its savepoint")
    }
    while try control.begin.step() {}
    serial += 1
    isTransacting = true
    (program.first, program.last) = (0, 0)
    do {
      if isCaptured, !program.isOwned { program.first = try lastRow() + 1 }
      let value = try body()
      let token = try commit()
      // A program that commits without a pause would keep the synchronisation from the lock.
      if synchronizations > 0 { Clock.sleep(milliseconds: 1) }
      return (value, token)
    } catch {
      rollBack()
      throw error
    }
  }

  /// Throws `transactionEnded` if the transaction with this number has ended.
  func checkIsOpen(_ serial: UInt64) throws {
    guard isTransacting, serial == self.serial, database.isInTransaction else {
      throw DatabaseError(.transactionEnded, "the transaction has ended")
    }
  }

  /// Throws `transactionEnded` if SQLite has rolled back the transaction while its closure still runs.
  func checkIsNotOver() throws { if isTransacting { try checkIsOpen(serial) } }

  private func commit() throws -> CommitToken {
    try checkIsOpen(serial)
    guard isCaptured else {
      while try control.commit.step() {}
      forget()
      return CommitToken(sequence: 0)
    }
    let end = try writeEnd()
    while try control.commit.step() {}
    forget()
    return CommitToken(sequence: end)
  }

  /// Writes the end of the open transaction into the journal, unless the transaction changed nothing. Returns the
  /// number of the journal's last row; 0 if the journal is empty.
  private func writeEnd() throws -> Int64 {
    if program.isOwned {
      guard program.first > 0 || !log.isEmpty else { return try lastRow() }
      if program.first == 0 { program.first = try lastRow() + 1 }
    } else {
      let last = try lastRow()
      guard last >= program.first || !log.isEmpty else { return last }
    }
    try log.takeEnd(first: program.first, time: clock.microseconds()) { try write(JournalStatements.endCode, $0) }
    return program.isOwned ? program.last : try lastRow()
  }

  private func rollBack() {
    // The error may have rolled back already.
    if database.isInTransaction { try? database.execute("ROLLBACK") }
    forget()
  }

  private func forget() {
    isTransacting = false
    forgetStatements()
  }

  private func forgetStatements() {
    log.removeAll()
    savepoints.removeAll(keepingCapacity: true)
    marks.removeAll(keepingCapacity: true)
  }

  /// Runs `body` in a savepoint of the open transaction. Rolls back to the savepoint if `body` throws.
  func savepoint<T>(_ body: () throws -> T) throws -> T {
    let name = "cairn_\(savepoints.count)"
    try database.execute("SAVEPOINT \(name)")
    savepoints.append(Place(first: program.first, last: program.last))
    marks.append(log.mark())
    let depth = savepoints.count
    do {
      let value = try body()
      guard savepoints.count == depth else {
        throw DatabaseError(.transactionEnded, "the transaction has ended")
      }
      try database.execute("RELEASE \(name)")
      _ = (savepoints.popLast(), marks.popLast())
      return value
    } catch {
      guard database.isInTransaction, savepoints.count == depth else { throw error }
      try database.execute("ROLLBACK TO \(name)")
      try database.execute("RELEASE \(name)")
      if let place = savepoints.popLast() { (program.first, program.last) = (place.first, place.last) }
      if let mark = marks.popLast() { log.rollBack(to: mark) }
      throw error
    }
  }

  // MARK: Queries

  func pending() throws -> Pending {
    guard isCaptured else { return Pending(transactions: 0, rows: 0, isIncomplete: false) }
    let waiting = try EmbeddedCapture(database).waiting()
    return Pending(transactions: waiting.transactions, rows: waiting.rows, isIncomplete: waiting.hasDropped)
  }

  var lastInsertRowid: Int64 { database.lastInsertRowid }
}

extension SQLValue {
  init(_ view: ColumnView) {
    switch view {
    case .unchanged, .null: self = .null
    case .integer(let number): self = .integer(number)
    case .real(let number): self = .real(number)
    case .text(let bytes), .exact(let bytes): self = .text(String(decoding: bytes, as: UTF8.self))
    case .blob(let bytes): self = .blob(Array(bytes))
    }
  }
}
