import Changes
import Mapping
import PostgresKit
import Statements
import SystemKit

/// Executes statements of the source again instead of applying the rows that they wrote.
final class PostgresStatementReplay {
  private let statements: StatementSession
  private let session: PostgresSession
  private let tables: PostgresTables
  private let rows: PostgresRows
  private let target: PostgresTarget
  private let refresh: PostgresRefresh
  private let schema: PostgresSchema

  init(
    _ statements: StatementSession, _ tables: PostgresTables, _ rows: PostgresRows, _ target: PostgresTarget,
    _ refresh: PostgresRefresh, _ schema: PostgresSchema
  ) {
    (self.statements, session, self.tables, self.rows) = (statements, rows.session, tables, rows)
    (self.target, self.refresh, self.schema) = (target, refresh, schema)
  }

  private var connection: PostgresConnection { session.connection }
  private var sink: PostgresSink { session.sink }
  private var reader: ApplyReader { session.reader }
  private var options: ApplyOptions { session.options }
  private var progress: ApplyProgress { session.progress }

  /// Returns whether to skip a change, because apply executes the source's statement that made it. Executes the
  /// statement at the statement's first change.
  func isReplayed(_ change: ChangeView) throws -> Bool {
    if try statements.passes(change, reader) { return true }
    guard let (statement, position) = statements.takeOffered() else { return false }
    try refresh.endChunk()
    try sink.settle()
    switch try plan(statement, change) {
    case .no(let reason):
      statements.refuse(reason)
      return false
    case .yes(let plan):
      guard let table = try schema.table(change.schemaID), let form = ReturnedRows(table) else {
        statements.refuse("its rows could not be compared with the source's")
        return false
      }
      let (begun, limit) = (try statements.noteBegin(), statements.millisecondsMax(statement))
      do {
        var executed: StatementDigest?
        defer { statements.took(since: begun, executed) }
        let digest = try execute(plan, form, limit)
        executed = digest
        table.hasNewKeys = true
        statements.run(.init(position: position, text: statement.text, table: plan.table, digest: digest))
      } catch let error as PostgresError where error.isCancelled && Clock.monotonicMilliseconds - begun >= limit {
        statements.ranOut(statement, after: Clock.monotonicMilliseconds - begun)
        statements.refuse(StatementSession.tooLong)
        return false
      } catch let error as PostgresError where error.isServerGone {
        statements.serverEnded(during: statement.text)
        throw error
      } catch let error as PostgresError where !error.isTransient && !error.isCancelled {
        statements.failed(statement.text, StatementSession.notTaken)
        statements.refuse(StatementSession.notTaken)
        return false
      }
      return try statements.passes(change, reader)
    }
  }

  private func plan(_ statement: ExecutedStatement, _ change: ChangeView) throws -> Replayable {
    guard let given = reader.given(change.schemaID) else {
      return .no(reason: "its table is not known")
    }
    guard rows.local.early.isEmpty, rows.parked.isEmpty else { return .no(reason: "earlier rows wait for other rows") }
    guard let written = try schema.table(change.schemaID), written.uncheckedIndexes.isEmpty else {
      return .no(reason: "the target checks keys of its table later")
    }
    var failure: (any Error)?
    let judged = try statements.judge(statement, for: .postgres) { [self] name in
      guard failure == nil, let schema = statements.source(name, reader) else { return nil }
      do { return try whole(schema, written) } catch {
        failure = error
        return nil
      }
    }
    if let failure { throw failure }
    if case .yes(let plan) = judged, plan.table != given.name {
      return .no(reason: "its first change is one of another table")
    }
    return judged
  }

  /// Returns the table's names and columns at source and target. Nil unless the table has the same rows and columns at
  /// both.
  private func whole(_ schema: TableSchema, _ written: PostgresApplyTable) throws -> StatementTable? {
    guard schema.engine == .sqlite, let key = tables.scope.key(schema.sourceKey), let known = tables.tables[key],
      known.refreshing == nil, !known.isAwaited, known.existing == .overwrite
    else { return nil }
    guard let table = written.given == schema ? written : try target.table(with: schema),
      table.positions.count == schema.columns.count, table.columns.count == schema.columns.count,
      table.target.columns.filter({ !$0.isGenerated }).count == schema.columns.count, table.widened.isEmpty
    else { return nil }
    let isGuarded =
      options.isGuarded(known.schema, known.name) && progress.snapshot.guards.isMade(known.schema, known.name)
    return StatementTable(
      schema, isGuarded: isGuarded,
      postgres: .init(
        name: table.target.qualifiedName, rowsName: table.target.rowsName,
        columns: table.columns.map { (name: $0.name, type: $0.type) }))
  }

  /// Executes a statement of the source within a savepoint, for at most `milliseconds`. Returns the digest of the rows
  /// that the statement wrote at the target.
  private func execute(
    _ plan: ReplayPlan, _ form: ReturnedRows, _ milliseconds: Int64
  ) throws -> StatementDigest {
    let table = StatementDigest.Table(name: plan.table)
    var digest = StatementDigest()
    // The planner settings of apply suit single rows only.
    try sink.attempt {
      try connection.executeScript(Self.plannerFree)
      try connection.execute("SET LOCAL statement_timeout = \(milliseconds)")
      try connection.forEachRow(plan.sql, plan.parameters.map(\.string)) { fields in
        form.read(fields)
        if plan.deletes { digest.addGone(form.image, of: table) } else { digest.addWritten(form.image, of: table) }
      }
      try connection.executeScript(Self.plannerBound)
    }
    return digest
  }

  private static let plannerFree =
    "SET LOCAL enable_seqscan = on; SET LOCAL enable_hashjoin = on; SET LOCAL enable_mergejoin = on"
  private static let plannerBound =
    "SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off; SET LOCAL statement_timeout = 0"
}
