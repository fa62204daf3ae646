import Changes
import Conflicts
import Mapping
import PostgresKit
import SystemKit
import Versions

/// Two-way: the commits of applications at a PostgreSQL target, which must not change rows that apply writes.
final class PostgresLocalCommits {
  typealias Desk = TwoWaySession<PostgresApplyTable>
  /// The maximum number of rows that apply locks with one statement.
  private static let keysMax = 1000
  private static let keyBytesMax = 16 << 20
  private let session: PostgresSession
  private let tables: PostgresTables
  private let copy: PostgresCopy
  private let target: PostgresTarget
  /// The server's number of apply's open transaction; nil if it has none.
  private var transaction: UInt64?

  init(_ session: PostgresSession, _ tables: PostgresTables, _ copy: PostgresCopy, _ target: PostgresTarget) {
    (self.session, self.tables, self.copy, self.target) = (session, tables, copy, target)
  }

  private var connection: PostgresConnection { session.connection }
  private var sink: PostgresSink { session.sink }
  private var options: ApplyOptions { session.options }

  func openGroup() { transaction = nil }

  func inform(_ desk: Desk) throws {
    try desk.lookAtKeys { try PostgresApplyTable.foreignKeys(connection) }
    try desk.shared.window.catchUp(rowNames: desk.ownNames, learn: desk.names.learn)
    if desk.learnColumns() { tables.forgetShapes() }
    desk.inform(watchesRows: true)
  }

  /// Checks, before the commit of a group, whether applications have committed changes of the group's rows.
  ///
  /// - Throws: ``LocalAhead`` if an application has written one of these rows, or if capture does not answer in time.
  func check(_ desk: Desk, _ stop: StopSignal) throws {
    if let committed = try rowsPassed(desk, stop) { try desk.check(committed: committed) }
    if let number = desk.shared.noteCaptured() { try sink.attempt { try target.storedReturns.close(by: number) } }
  }

  /// Locks all rows that a transaction of the trail changes, before apply writes the first of them. Throws
  /// ``LocalAhead`` if an application has changed one of the group's rows.
  func lockRows(_ desk: Desk, _ stop: StopSignal) throws {
    try sink.settle()
    var batches: [NameKey: (table: PostgresApplyTable, keys: Set<[Value]>)] = [:]
    var budget = RowBudget(rows: 10 * Self.keysMax, bytes: Self.keyBytesMax)
    var locked: [(schema: TableSchema, table: PostgresApplyTable?)] = []
    var count = 0
    func send() throws {
      for (table, keys) in batches.values { try table.lock(keys, connection) }
      batches.removeAll()
      budget.clear()
    }
    try desk.forEachChange { schema, change in
      count += 1
      if count % 1024 == 0, stop.isSet { throw ApplyStopped() }
      let place = locked.lastIndex { $0.schema == schema } ?? locked.count
      if place == locked.count {
        // A table with code of another role is refused later, when its change is applied.
        do { locked.append((schema, try tableToLock(like: schema, desk))) } catch let error as CairnError
          where error.code == .ownersCode
        { locked.append((schema, nil)) }
      }
      guard let table = locked[place].table else { return }
      let form = target.form(of: table)
      for row in [try change.before?.values(), try change.after?.values()] {
        guard let row, let key = try form.key(row, of: schema) else { continue }
        let bytes = key.reduce(64) { $0 + $1.memoryBytes }
        if !budget.hasRoom(for: bytes) { try send() }
        if batches[table.stateKey, default: (table, [])].keys.insert(key).inserted { _ = budget.take(bytes) }
      }
      if batches[table.stateKey]?.keys.count ?? 0 >= Self.keysMax { try send() }
    }
    try send()
    if let committed = try rowsPassed(desk, stop) { try desk.check(committed: committed) }
    desk.noteLocks()
  }

  /// Returns the target's table for rows of this schema; nil if apply need not lock these rows.
  private func tableToLock(like schema: TableSchema, _ desk: Desk) throws -> PostgresApplyTable? {
    guard let key = tables.scope.key(schema.sourceKey), var known = tables.tables[key] else { return nil }
    if let move = desk.move(of: schema) { (known.schema, known.name) = (move.now.namespace, move.now.name) }
    guard options.goesBothWays(known.schema, known.name) else { return nil }
    // Such a table is refused later, when its change is applied, or the change needs no more rights.
    let missing = try TableRights.missing(TableRights.ofLocks, on: (known.schema, known.name), connection)
    guard missing.isEmpty else { return nil }
    if let table = tables.openTable(key, given: schema) {
      if let watch = table.watch { try copy.look(watch) }
      return table.isWholeRow ? nil : table
    }
    let part = desk.part(of: schema) ?? .init(schema)
    let mapped = try TableMapping(part.schema, to: .postgres, names: options.names).target
    guard let target = try PostgresTargetTable.read(known.schema, known.name, connection) else { return nil }
    let kept = mapped.columns.indices.filter { target.column(mapped.columns[$0].name) != nil }
    guard part.schema.key.allSatisfy(kept.contains) else { return nil }
    let table = try PostgresApplyTable(
      key: key, given: schema, part: .init(part.schema.keeping(kept), kept.map { part.positions[$0] }),
      mapped: mapped.keeping(kept), target: target, state: known, number: 0)
    try tables.checkOwners(table, isWrittenNow: true)
    return table.isWholeRow ? nil : table
  }

  /// Waits until capture has read all commits that applications have made, and returns the rows that they wrote since
  /// the last call.
  ///
  /// - Returns: Nil if no application has committed since the last call.
  /// - Throws: ``LocalAhead`` if capture does not answer in time.
  private func rowsPassed(_ desk: Desk, _ stop: StopSignal) throws -> Set<RowName>? {
    guard case .stream(let capture) = desk.shared.local else { return nil }
    try sink.settle()
    let now = try moment()
    if let now, desk.shared.quiet.withLock({ $0.isQuiet(at: now, own: transaction) }) { return nil }
    guard let answer = try capture.pass(stop, true) else {
      if stop.isSet { throw ApplyStopped() }
      throw LocalAhead()
    }
    let committed = try rowsCommitted(desk)
    if let now, case .passed(let passed) = answer {
      desk.shared.quiet.withLock { $0.pass(now, message: passed.message, own: transaction) }
    }
    return committed
  }

  /// Notes, before the commit of a group that changes no rows, that the transaction is apply's own. Apply then need not
  /// wait for capture to read the transaction.
  func noteQuiet(_ desk: Desk) throws {
    guard case .stream = desk.shared.local else { return }
    try sink.settle()
    _ = try moment()
    if let transaction { desk.shared.quiet.withLock { $0.note(ours: transaction) } }
  }

  /// Reads which transactions of the server have ended; nil if this cannot be read. Also stores the number of apply's
  /// open transaction.
  private func moment() throws -> ServerMoment? {
    let row = try connection.query("SELECT pg_current_snapshot(), pg_current_xact_id_if_assigned()").first
    transaction = row?[1].flatMap { UInt64($0) }
    return row?[0].flatMap { ServerMoment($0) }
  }

  /// Called after a group was rolled back: throws ``LocalAhead`` if applications have written rows of the group. Does
  /// nothing if apply had locked these rows before it changed them.
  func checkOvertaken(_ desk: Desk, _ stop: StopSignal) throws {
    guard !desk.hasLocked, case .stream(let capture) = desk.shared.local else { return }
    guard try capture.pass(stop, false) != nil else { throw ApplyStopped() }
    try desk.check(committed: rowsCommitted(desk))
  }

  /// Adds to the version window those transactions of this database's own trail that the window lacks. Returns the rows
  /// that applications wrote in them.
  private func rowsCommitted(_ desk: Desk) throws -> Set<RowName> {
    var committed: Set<RowName> = []
    try desk.shared.window.catchUp(
      rowNames: { schema, change in
        let rows = try desk.ownNames(schema, change)
        committed.formUnion(rows)
        return rows
      }, learn: desk.names.learn)
    return committed
  }
}
