import Changes
import Conflicts
import Mapping
import PostgresKit
import SystemKit
import Versions

// Two-way: rows that applications have written at the target too.
extension PostgresReplay {
  /// The maximum number of rows that apply locks with one statement, or fetches from a cursor at once.
  private static let keysMax = 1000
  private static let keyBytesMax = 16 << 20
  /// The number of keys that one FETCH returns. Compressed keys have up to some 600 KiB.
  private static let fetchedMax = 64

  /// Stores, for conflict handling, after which transaction of this trail the target may lack changes.
  func holdWindow() {
    desk?.shared.hold(name, through: heldThrough)
  }

  func inform(_ desk: Desk) throws {
    try desk.lookAtKeys { try PostgresApplyTable.foreignKeys(connection) }
    try desk.shared.window.catchUp(rowNames: desk.ownNames, learn: desk.names.learn)
    if desk.learnColumns() { forgetShapes() }
    desk.inform(watchesRows: true)
  }

  /// Checks, before the commit of a group, whether applications have committed changes of the group's rows.
  ///
  /// - Throws: ``LocalAhead`` if an application has written one of these rows, or if capture does not answer in time.
  func checkDesk(_ desk: Desk, _ stop: StopSignal) throws {
    if let committed = try rowsPassed(desk, stop) { try desk.check(committed: committed) }
    if let number = desk.shared.noteCaptured() { try attempt { try storedReturns.close(by: number) } }
  }

  /// Locks all rows that a transaction of the trail changes, before apply writes the first of them. Throws
  /// ``LocalAhead`` if an application has changed one of the group's rows.
  func lockRows(_ desk: Desk, _ stop: StopSignal) throws {
    try sink.settle()
    var batches: [NameKey: (table: PostgresApplyTable, keys: Set<[Value]>)] = [:]
    var budget = RowBudget(rows: 10 * Self.keysMax, bytes: Self.keyBytesMax)
    var tables: [(schema: TableSchema, table: PostgresApplyTable?)] = []
    var count = 0
    func send() throws {
      for (table, keys) in batches.values { try table.lock(keys, connection) }
      batches.removeAll()
      budget.clear()
    }
    try desk.forEachChange { schema, change in
      count += 1
      if count % 1024 == 0, stop.isSet { throw ApplyStopped() }
      let place = tables.lastIndex { $0.schema == schema } ?? tables.count
      if place == tables.count {
        // A table with code of another role is refused later, when its change is applied.
        do { tables.append((schema, try tableToLock(like: schema, desk))) } catch let error as CairnError
          where error.code == .ownersCode
        { tables.append((schema, nil)) }
      }
      guard let table = tables[place].table else { return }
      let form = PostgresForm(table: table, names: options.names)
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
    guard let key = scope.key(schema.sourceKey), var known = tables[key] else { return nil }
    if let move = desk.move(of: schema) { (known.schema, known.name) = (move.now.namespace, move.now.name) }
    guard options.goesBothWays(known.schema, known.name) else { return nil }
    // Such a table is refused later, when its change is applied, or the change needs no more rights.
    let missing = try TableRights.missing(TableRights.ofLocks, on: (known.schema, known.name), connection)
    guard missing.isEmpty else { return nil }
    if let table = openTable(key, given: schema) {
      if let watch = table.watch { try look(watch) }
      return table.isWholeRow ? nil : table
    }
    let part = desk.part(of: schema) ?? .init(schema)
    let mapped = try TableMapping(part.schema, to: .postgres, names: options.names).target
    guard let target = try PostgresTargetTable.read(known.schema, known.name, connection) else { return nil }
    let kept = mapped.columns.indices.filter { target.column(mapped.columns[$0].name) != nil }
    guard part.schema.key.allSatisfy(kept.contains) else { return nil }
    let table = PostgresApplyTable(
      key: key, given: schema, part: .init(part.schema.keeping(kept), kept.map { part.positions[$0] }),
      mapped: mapped.keeping(kept), target: target, state: known, number: 0)
    try checkOwners(table, isWrittenNow: true)
    return table.isWholeRow ? nil : table
  }

  /// Throws `schema-stopped` if this database has given a table another name, and a second table now has the former
  /// name.
  func checkFormerName(_ move: ColumnsNow.Move, of schema: TableSchema) throws {
    let former = "\(move.former.namespace.quotedName).\(move.former.name.quotedName)"
    let found = try connection.first(
      "SELECT 1 FROM pg_class WHERE oid = to_regclass($1) AND relkind IN ('r', 'p', 'f')", [former])
    if found != nil { throw move.taken(schema, at: connection.place) }
  }

  /// Replaces, in a schema change from the trail, a table's former name by the name that the table has here now.
  ///
  /// - Returns: False if the change is the same rename, so that nothing is left to do; true otherwise.
  func nameAsNow(_ made: inout ShapeChange, _ move: ColumnsNow.Move, _ desk: Desk, _ key: String) throws -> Bool {
    guard let before = made.before, let after = made.after, var known = tables[key] else { return true }
    let place = TableMapping.targetPlace(of: after, in: .postgres, names: options.names)
    if place.namespace.hasSameBytes(as: move.now.namespace), place.name.hasSameBytes(as: move.now.name) { return false }
    let named = desk.named(after, move)
    let now = TableMapping.targetPlace(of: named, in: .postgres, names: options.names)
    guard before.fullName.hasSameBytes(as: after.fullName), now.namespace.hasSameBytes(as: move.now.namespace),
      now.name.hasSameBytes(as: move.now.name)
    else { throw move.unmade(before, at: connection.place) }
    try checkFormerName(move, of: before)
    (known.schema, known.name) = (move.now.namespace, move.now.name)
    try save(key, known)
    (made.before, made.after) = (desk.named(before, move), named)
    return true
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

  /// Returns whether a change may be in conflict, and is resolved at the end of its transaction instead of written now.
  func defers(_ change: ChangeView, _ table: PostgresApplyTable) throws -> Bool {
    guard let resolver, let schema = reader.given(change.schemaID) else { return false }
    let isDeferred = try resolver.defers(change, schema, table)
    if isDeferred, checked.entitled.insert(NameKey(table.target.qualifiedName)).inserted {
      try endPiece()
      try sink.settle()
      try TableRights.check(table.target, named: table.source.fullName, connection)
    }
    // At the end of the transaction, apply may look for rows that refer to this one.
    if isDeferred, try hasReferrers(table) { _ = try provedReferrers(of: table) }
    return isDeferred
  }

  /// Returns whether a row of a refresh is skipped, because the target's own version of the row must stay.
  func keepsOwn(_ id: UInt64, _ image: ImageView, _ table: PostgresApplyTable) throws -> Bool {
    guard let resolver, let schema = reader.given(id) else { return false }
    return try resolver.keepsOwn(image, schema, table)
  }

  /// Deletes rows that a refresh replaces, except rows that have changed here if the author of the refresh did not know
  /// the change.
  func removeKnown(
    _ rows: (condition: String, values: [String?]), _ table: PostgresApplyTable, _ resolver: RowResolver<PostgresReplay>
  ) throws {
    let form = PostgresForm(table: table, names: options.names)
    // A cursor returns the rows that were there when it was opened, whatever happens to them.
    try connection.run("DECLARE cairn_known NO SCROLL CURSOR FOR \(table.keysText)\(rows.condition)", rows.values)
    var keys: [[Value]]
    repeat {
      keys = try connection.query("FETCH \(Self.fetchedMax) FROM cairn_known").map(form.row)
      for row in keys where try resolver.mayRemove(row, of: table) {
        try table.put(nil, table.key.map { row[$0] }, connection)
      }
    } while keys.count == Self.fetchedMax
    try connection.execute("CLOSE cairn_known")
  }

  /// Writes waiting rows to their tables if their unique values have become free. Uses its own transaction.
  func lookAtCandidates(_ stop: StopSignal) throws {
    guard let desk, let resolver, desk.shared.mayHaveCandidates else { return }
    try sink.settle()
    desk.shared.note(waiting: try candidates.counts())
    guard desk.shared.mayHaveCandidates else { return }
    desk.beginGroup()
    try inform(desk)
    let note = AppliedNote(trail: name.description, number: 0, clock: 0, position: position)
    try connection.execute(own.begin.sql)
    checked = GroupChecks()
    do {
      // By this message, capture recognizes the transaction as one of ours.
      try connection.query(own.message.sql, [note.text])
      let isChanged = try resolver.judge()
      if isChanged { try checkDesk(desk, stop) }
      try connection.execute(isChanged ? "COMMIT" : "ROLLBACK")
      desk.noteCandidates()
    } catch {
      connection.rollback()
      throw error
    }
  }

  /// In the group's transaction, deletes conflicts older than 30 days from the conflict log. Does so at most once an
  /// hour, and only if the group logged conflicts.
  func pruneConflicts() throws {
    guard conflicts > 0, let before = pruning.due(clock) else { return }
    try sink.settle()
    _ = try ConflictLog(connection).prune(before: before)
  }
}

// The parts of conflict resolution that depend on PostgreSQL. Each statement is answered before the next: conflicts are
// few.
extension PostgresReplay: ApplyTarget {
  func flush() throws {
    // An open COPY may be undone, with all statements after its begin.
    try endPiece()
    try sink.settle()
  }

  func attempt<Result>(_ body: () throws -> Result) throws -> Result { try sink.attempt(body) }

  func table(like schema: TableSchema) throws -> PostgresApplyTable? {
    try sink.attempt { try openTable(like: schema) }
  }

  func form(of table: PostgresApplyTable) -> PostgresForm { PostgresForm(table: table, names: options.names) }

  func hasReferrers(_ table: PostgresApplyTable) throws -> Bool { try !referrers(of: table).isEmpty }

  func mergesCopies(at row: ContestedRow) -> Bool {
    tables.values.contains {
      $0.schema.hasSameBytes(as: row.namespace) && $0.name.hasSameBytes(as: row.table) && $0.existing != .overwrite
    }
  }

  func row(_ key: [Value], of table: PostgresApplyTable) throws -> [Value]? {
    try sink.settle()
    return try table.row(key, connection).map(form(of: table).row)
  }

  func put(_ row: RowVersion.Row?, _ key: [Value], in table: PostgresApplyTable) throws -> Bool {
    do { try put(row, key, table) } catch let error as PostgresError where error.isUniqueness {
      return false
    } catch let error as PostgresError { throw refusal(table, error) }
    return true
  }

  func put(_ row: RowVersion.Row?, _ key: [Value], _ table: PostgresApplyTable) throws {
    if let row, table.mayCollide {
      try sink.attempt { try table.put(row, key, connection) }
    } else {
      try sink.settle()
      guard let row else { return try table.put(nil, key, connection) }
      let isThere: Bool
      do { isThere = try table.update(row, key, connection) } catch let error as PostgresError where error.isUniqueness
      {
        throw refusal(table, error)
      }
      if !isThere { try sink.attempt { try table.insert(row, connection) } }
    }
    guard let row, !table.uncheckedIndexes.isEmpty else { return }
    after.assign(row.map { $0.flatMap(\.postgresInput) })
    unchecked.note(table, after, at: reader.position)
  }

  private func referrers(of table: PostgresApplyTable) throws -> [Reference] {
    if let referrers = table.referrers { return referrers.list }
    try sink.settle()
    let referrers = try sink.attempt { try table.lookUpReferrers(connection) }
    table.referrers = (referrers, nil)
    return referrers
  }

  /// Returns the foreign keys that reference a table, after apply has locked and checked the tables that have them.
  /// Does so once for each group.
  private func provedReferrers(of table: PostgresApplyTable) throws -> [Reference] {
    if let known = table.referrers, known.group == groupNumber { return known.list }
    try endPiece()
    try sink.settle()
    do {
      let before = try connection.first("SELECT current_setting('lock_timeout')") ?? "0"
      try connection.execute("SET LOCAL lock_timeout = \(lockMilliseconds)")
      let list = try proof.referrers(of: table)
      try connection.query("SELECT set_config('lock_timeout', $1, true)", [before])
      table.referrers = (list, groupNumber)
      return list
    } catch let error as PostgresError where error.isLockTimeout {
      // A transaction that failed accepts no query.
      abandon()
      let name = table.mapped.fullName
      throw SchemaStop(
        key: table.stateKey, position: reader.position,
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
    parked.take(key: key.map(\.postgresInput), of: table).map { form(of: $0.table).row($0.values) }
  }

  func settle(_ rows: MetRows, by function: String, in table: PostgresApplyTable) throws -> RowVersion.Row? {
    try sink.attempt { try SettlingFunction(function, table, connection).row(rows) }
  }

  var candidates: PostgresDisplacedRows {
    PostgresDisplacedRows(connection, attempt: { [sink] body in try sink.attempt(body) }, isTrusted: mayJudge)
  }
  var decisions: Decisions { Decisions(connection) }
  var storedReturns: StoredReturns { StoredReturns(connection) }

  func log(_ record: ConflictRecord) throws {
    try sink.queue(own.noteConflict, ConflictColumns.texts(record))
    conflicts += 1
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
