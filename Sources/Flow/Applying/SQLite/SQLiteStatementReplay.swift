import Changes
import SQLiteKit
import Statements
import SystemKit

/// Executes statements of the source again instead of applying the rows that they wrote.
final class SQLiteStatementReplay {
  private let statements: StatementSession
  private let schema: SQLiteSchema

  init(_ statements: StatementSession, _ schema: SQLiteSchema) { (self.statements, self.schema) = (statements, schema) }

  private var rows: SQLiteRows { schema.rows }
  private var target: SQLiteTarget { schema.target }
  private var database: Database { schema.database }
  private var options: ApplyOptions { schema.options }
  private var reader: ApplyReader { schema.reader }
  private var cursor: TrailCursor { schema.cursor }

  /// Returns whether to skip a change, because apply executes the statement that made it. Executes the statement at the
  /// statement's first change.
  func isReplayed(_ change: ChangeView) throws -> Bool {
    if try statements.passes(change, reader) { return true }
    guard let (statement, position) = statements.takeOffered() else { return false }
    switch try plan(statement, change) {
    case .no(let reason):
      statements.refuse(reason)
      return false
    case .yes(let plan):
      return try run(statement, at: position, plan, change)
    }
  }

  private func run(
    _ statement: ExecutedStatement, at position: Position, _ plan: ReplayPlan, _ change: ChangeView
  ) throws -> Bool {
    let given = reader.given(change.schemaID)
    let running = StatementSession.Running(position: position, text: statement.text, table: plan.table)
    // A statement with few rows is done before a thread would have started.
    let isLarge = statement.rowsAffected >= StatementSession.rowsMin
    let (begun, limit) = (try statements.noteBegin(), statements.millisecondsMax(statement))
    func executed() throws -> StatementDigest {
      var digest: StatementDigest?
      defer { statements.took(since: begun, digest) }
      let found = try database.within(milliseconds: limit, diskBytes: StatementSession.diskBytesMax) {
        try execute(plan, given)
      }
      digest = found
      return found
    }
    do {
      if isLarge {
        statements.run(running)
        _ = try statements.passes(change, reader)
        let (digest, next) = try RowsPassed.passing(reader, statements) { try executed() }
        statements.ran(digest)
        cursor.ahead = next
        return true
      }
      let digest = try executed()
      statements.run(running)
      statements.ran(digest)
      return try statements.passes(change, reader)
    } catch let error as SQLiteError where error.isInterrupted {
      // SQLite has rolled the whole group back: it is done again.
      statements.ranOut(statement, after: Clock.monotonicMilliseconds - begun)
      throw StatementDiffers(running, StatementSession.tooLong)
    } catch let error as SQLiteError where error.isOfStatement {
      // Some of the statement's rows may have been written, or SQLite may have rolled back the transaction. So the group is
      // done again.
      throw StatementDiffers(running, StatementSession.notTaken)
    }
  }

  private func plan(_ statement: ExecutedStatement, _ change: ChangeView) throws -> Replayable {
    guard let given = reader.given(change.schemaID) else {
      return .no(reason: "its table is not known")
    }
    guard rows.early.isEmpty, rows.parked.isEmpty else { return .no(reason: "earlier rows wait for other rows") }
    _ = try schema.table(change.schemaID)
    let judged = try statements.judge(statement, for: .sqlite) { [self] name in
      guard let schema = statements.source(name, reader), (try? isWhole(schema)) ?? false else { return nil }
      return StatementTable(schema, isGuarded: options.isGuarded("", schema.name))
    }
    if case .yes(let plan) = judged, plan.table != given.name {
      return .no(reason: "its first change is one of another table")
    }
    return judged
  }

  private func isWhole(_ schema: TableSchema) throws -> Bool {
    guard schema.engine == .sqlite, let known = target.tables[schema.name.sqliteKey], known.waiting == nil,
      known.refreshing == nil, !known.isAwaited, known.existing == .overwrite
    else { return false }
    // Such a clause may delete rows that SQLite does not report.
    let clause =
      "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ? COLLATE NOCASE AND sql LIKE '%on%conflict%'"
    guard try database.query(clause, [.text(schema.name)]).isEmpty else { return false }
    let there = try database.query("SELECT name FROM pragma_table_xinfo(?) WHERE hidden = 0", [.text(schema.name)])
    return there.map { $0[0].string.sqliteKey } == schema.columns.map { $0.name.sqliteKey }
  }

  private func execute(_ plan: ReplayPlan, _ schema: TableSchema?) throws -> StatementDigest {
    let areReal = schema?.columns.map { $0.affinity == "REAL" } ?? []
    let isTold = try !plan.deletes && WrittenRows.areTold && !hasHiddenColumns(plan.table)
    // SQLite may read a text in another way than the parser that judged it.
    return try database.writing(only: plan.table) {
      let statement = try database.prepare(isTold ? plan.sql : plan.sql + plan.returning)
      try statement.bind(Array(plan.parameters.prefix(statement.parameterCount)))
      return try isTold ? told(statement, plan.table, areReal) : returned(statement, plan, areReal)
    }
  }

  /// Executes a statement, and returns the digest of the rows that it writes.
  private func told(_ statement: Statement, _ name: String, _ areReal: [Bool]) throws -> StatementDigest {
    let table = StatementDigest.Table(name: name)
    var digest = StatementDigest()
    var image = ByteWriter(capacity: 256)
    try WrittenRows.watch(database, name) { row in
      image.removeAll()
      for column in areReal.indices { row.encode(column, isReal: areReal[column], into: &image) }
      digest.addWritten(image.bytes, of: table)
    } _: {
      while try statement.step() {}
    }
    return digest
  }

  /// Executes a statement, and returns the digest of the rows that its RETURNING clause gives.
  ///
  /// In a REAL column, RETURNING gives whole numbers as integers (seen in SQLite 3.40); this function converts them to
  /// REAL.
  private func returned(_ statement: Statement, _ plan: ReplayPlan, _ areReal: [Bool]) throws -> StatementDigest {
    let table = StatementDigest.Table(name: plan.table)
    var digest = StatementDigest()
    var image = ByteWriter(capacity: 256)
    while try statement.step() {
      image.removeAll()
      for column in 0..<statement.columnCount {
        if areReal[column], case .integer(let number) = statement.view(column) {
          image.appendReal(Double(number))
        } else {
          statement.encode(column, into: &image)
        }
      }
      if plan.deletes { digest.addGone(image.bytes, of: table) } else { digest.addWritten(image.bytes, of: table) }
    }
    return digest
  }

  /// Returns whether a table has generated or hidden columns.
  private func hasHiddenColumns(_ table: String) throws -> Bool {
    try !database.query("SELECT 1 FROM pragma_table_xinfo(?) WHERE hidden <> 0 LIMIT 1", [.text(table)]).isEmpty
  }
}

extension SQLiteError {
  fileprivate var isOfStatement: Bool { isConstraint || [1, 7, 10, 13, 18, 20, 25].contains(primary) }
}
