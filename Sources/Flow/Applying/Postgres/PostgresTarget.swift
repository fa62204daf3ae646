import Changes
import Conflicts
import Mapping
import PostgresKit
import Versions

/// Writes rows to a PostgreSQL target for the resolution of conflicts. Each statement is answered before the next:
/// conflicts are few.
final class PostgresTarget: ApplyTarget {
  private let session: PostgresSession
  private let tables: PostgresTables
  private let rows: PostgresRows
  private let copy: PostgresCopy

  init(_ session: PostgresSession, _ tables: PostgresTables, _ rows: PostgresRows, _ copy: PostgresCopy) {
    (self.session, self.tables, self.rows, self.copy) = (session, tables, rows, copy)
  }

  var progress: ApplyProgress { session.progress }
  private var connection: PostgresConnection { session.connection }
  private var sink: PostgresSink { session.sink }

  func flush() throws {
    // An open COPY may be undone, with all statements after its begin.
    try copy.endPiece()
    try sink.settle()
  }

  func attempt<Result>(_ body: () throws -> Result) throws -> Result { try sink.attempt(body) }

  func table(like schema: TableSchema) throws -> PostgresApplyTable? {
    try sink.attempt { try tables.ownTable(of: schema) }
  }

  /// Opens the target's table for rows with exactly these columns; nil if there is no such table.
  func table(with schema: TableSchema) throws -> PostgresApplyTable? {
    try sink.attempt { try tables.openTable(like: schema) }
  }

  func wide(_ table: PostgresApplyTable) throws -> PostgresApplyTable? { try tables.wide(table) }

  func form(of table: PostgresApplyTable) -> PostgresForm { PostgresForm(table: table, names: session.options.names) }

  func hasReferrers(_ table: PostgresApplyTable) throws -> Bool { try !referrers(of: table).isEmpty }

  func row(_ key: [Value], of table: PostgresApplyTable) throws -> [Value]? {
    try sink.settle()
    return try table.row(key, connection).map(form(of: table).row)
  }

  func put(_ row: RowVersion.Row?, _ key: [Value], in table: PostgresApplyTable) throws -> Bool {
    do { try rows.writer.put(row, key, table) } catch let error as PostgresError where error.isUniqueness {
      return false
    } catch let error as PostgresError { throw rows.writer.errors.refusal(table, error) }
    return true
  }

  private func referrers(of table: PostgresApplyTable) throws -> [Reference] {
    if let referrers = table.lookups.referrers { return referrers.list }
    try sink.settle()
    let referrers = try sink.attempt { try table.lookUpReferrers(connection) }
    table.lookups.referrers = (referrers, nil)
    return referrers
  }

  /// Returns the foreign keys that reference a table, after apply has locked and checked the tables that have them.
  /// Does so once for each group.
  private func provedReferrers(of table: PostgresApplyTable) throws -> [Reference] {
    if let known = table.lookups.referrers, known.group == session.group { return known.list }
    try copy.endPiece()
    try sink.settle()
    do {
      let before = try connection.first("SELECT current_setting('lock_timeout')") ?? "0"
      try connection.execute("SET LOCAL lock_timeout = \(tables.shape.lockMilliseconds)")
      let list = try session.proof.referrers(of: table)
      try connection.query("SELECT set_config('lock_timeout', $1, true)", [before])
      table.lookups.referrers = (list, session.group)
      return list
    } catch let error as PostgresError where error.isLockTimeout {
      // A transaction that failed accepts no query.
      session.abandon()
      let name = table.mapped.fullName
      throw SchemaStop(
        key: table.stateKey, position: session.reader.position,
        error: CairnError(
          .schemaStopped,
          "records of table \(name) are not applied at \(connection.place) yet: a table whose foreign key references it is in use by another session",
          hint: "Cairn tries again by itself; end the transaction that locks the table if it should not be open",
          context: ["table": name]), isLocked: true)
    }
  }

  func isReferred(_ row: [Value], key: [Value], of table: PostgresApplyTable) throws -> Bool {
    let referrers = try provedReferrers(of: table)
    return try sink.attempt { try table.isReferred(row.map(\.postgresInput), referrers, key, connection) }
  }

  func takeParked(_ key: [Value], of table: PostgresApplyTable) -> [Value]? {
    rows.parked.take(key: key.map(\.postgresInput), of: table).map { form(of: $0.table).row($0.values) }
  }

  func settle(_ rows: MetRows, by function: String, in table: PostgresApplyTable) throws -> RowVersion.Row? {
    try sink.attempt { try SettlingFunction(function, table, connection).row(rows) }
  }

  var candidates: PostgresDisplacedRows {
    PostgresDisplacedRows(connection, attempt: { [sink] body in try sink.attempt(body) }, isTrusted: session.mayJudge)
  }

  var decisions: Decisions { Decisions(connection) }

  var storedReturns: StoredReturns { StoredReturns(connection) }

  func mergesCopies(at row: ContestedRow) -> Bool {
    tables.tables.values.contains {
      $0.schema.hasSameBytes(as: row.namespace) && $0.name.hasSameBytes(as: row.table) && $0.existing != .overwrite
    }
  }

  func log(_ record: ConflictRecord) throws { try session.log(record) }

  // MARK: Deferred rows

  /// Checks, for a change that is deferred to the end of its transaction, what its resolution may need then.
  func prepareDeferred(_ table: PostgresApplyTable) throws {
    if session.areRightsDue(on: table) {
      try flush()
      try TableRights.check(table.target, named: table.source.fullName, connection)
    }
    // At the end of the transaction, apply may look for rows that refer to this one.
    if try hasReferrers(table) { _ = try provedReferrers(of: table) }
  }
}

extension PostgresApplyTable: ApplyTable, ParkingTable {
  var stateName: String { stateKey }
  var rowKey: [Int] { key }
  var columnCount: Int { columns.count }
  var shape: TableSchema { mapped }
  var refreshing: Refresh.Method? { state.refreshing }
  var isAwaited: Bool { state.isAwaited }
  var isPartitioned: Bool { source.flags.contains(.partitioned) }
}
