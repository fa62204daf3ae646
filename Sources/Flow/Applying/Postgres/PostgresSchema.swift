import Changes
import Mapping
import PostgresKit

/// Opens the tables of a trail at a PostgreSQL target, and creates, changes and drops them as the trail and the rules
/// say.
final class PostgresSchema {
  typealias Desk = TwoWaySession<PostgresApplyTable>
  /// The errors of the records that the target refuses, by the record's position in the trail. Apply suspends the table
  /// of such a record.
  let refusals: [Position: CairnError]
  /// For each position at which a table of the catch-up is suspended: the later refresh in the trail with which the
  /// table continues.
  let overtaken: [Position: ResyncPoint]
  /// The statements that apply committed before the transactions that need them, such as new enum labels.
  let madeAhead: Set<NameKey>
  var changedRules: ChangedRules
  /// Whether apply itself has made the present schema change. False if the target's table already had the change, for
  /// example because an operator made it.
  var isShapeMade = false
  /// Whether the group has renamed labels of enums. The committed types then have other labels than the group's.
  var areLabelsRenamed = false
  /// The scripts of the group's altered tables, by the names that the tables have in the trail.
  var scripts: [NameKey: String] = [:]
  /// The objects of the server that table definitions from the trail may use.
  var reach: ServerReach
  let session: PostgresSession
  let cursor: TrailCursor
  let tables: PostgresTables
  let rows: PostgresRows
  let copy: PostgresCopy
  let refresh: PostgresRefresh
  /// The conflict handling of two-way replication; nil if the apply is one-way.
  let desk: Desk?

  init(
    _ cursor: TrailCursor, _ tables: PostgresTables, _ rows: PostgresRows, _ copy: PostgresCopy,
    _ refresh: PostgresRefresh, _ desk: Desk?, madeAhead: Set<NameKey>, refusals: [Position: CairnError],
    overtaken: [Position: ResyncPoint]
  ) {
    (session, self.cursor, self.tables, self.rows) = (rows.session, cursor, tables, rows)
    (self.copy, self.refresh, self.desk) = (copy, refresh, desk)
    (self.madeAhead, self.refusals, self.overtaken) = (madeAhead, refusals, overtaken)
    let options = rows.session.options
    changedRules = ChangedRules(options.changedRules, besides: rows.session.progress.snapshot.rulesAdopted)
    reach = ServerReach(options.scope, rows.session.connection)
  }

  var connection: PostgresConnection { session.connection }
  var sink: PostgresSink { session.sink }
  var reader: ApplyReader { session.reader }
  var state: PostgresApplyState { session.state }
  var options: ApplyOptions { session.options }
  var progress: ApplyProgress { session.progress }
  var ahead: TrailAhead { rows.ahead }
  var isCareful: Bool { session.isCareful }
  var lockMilliseconds: Int { tables.shape.lockMilliseconds }

  /// Prepares for a group, before its first record.
  func openGroup() { areLabelsRenamed = false }

  /// Returns the schema record with this id, which the present segment must have.
  func schema(_ id: UInt64) throws -> TableSchema { try reader.schema(id, of: session.name) }

  func apply(_ ddl: DDL) throws {
    let key = try settleRows(before: ddl)
    try carryOut(ddl)
    if let key { try followRows(of: key, after: ddl) }
  }

  private func carryOut(_ ddl: DDL) throws {
    let before = ddl.before == 0 ? nil : try schema(ddl.before)
    let after = ddl.after == 0 ? nil : try schema(ddl.after)
    guard let named = before ?? after else { return }
    try leaveRefused(named)
    try adoptBefore(ddl)
    guard let (old, new) = try follow(ddl.action, before, after) else { return }
    if !tables.scope.isCatchUp || desk != nil, options.twoWay?.isEcho(ddl) == true {
      return try note(before: before, after: after, old, new)
    }
    var made = ShapeChange(ddl, before: before, after: after, origins: ddl.origins)
    do {
      if let desk, let move = desk.move(of: named) {
        if before == nil { return tables.forgetShape(new) }
        guard after != nil else { throw move.unmade(named, at: connection.place) }
        if try !nameAsNow(&made, move, desk, old) { return try note(before: before, after: after, old, new) }
      }
      if let desk { made.takeNames(desk.part) }
      if tables.scope.isCatchUp, after != nil, let before, before.treatment?.refusal != nil { _ = try mapped(before) }
      let isLeft =
        try !tables.scope.isCatchUp
        || made.skipUnfit(ddl, fits: { tables.fits($0, new) }, later: { try nextFittingSchema(of: $0, new) })
      guard isLeft else { return tables.forgetShape(new) }
      // Several trails may create the same table.
      if made.action == .create || isStranger(old) { try state.lock() }
      try connection.execute("SET LOCAL lock_timeout = \(lockMilliseconds)")
      let step = SchemaPlan.step(
        made, isStranger: isStranger(old), isCopyAsked: cursor.present <= options.askedBehind)
      switch (step, made.before, made.after) {
      case (.create(let isAwaited), _, let after?): try create(after, new, isAwaited: isAwaited)
      case (.drop, let before?, _): try drop(made, before, old)
      case (.alter, let before?, let after?): try change(made, before, after, old, new)
      default: break
      }
      try connection.execute("SET LOCAL lock_timeout = 0")
    } catch let error as CairnError where error.suspendsTable {
      throw SchemaStop(key: new, position: reader.position, error: error)
    } catch let error as PostgresError where error.isLockTimeout {
      // A transaction that failed accepts no query.
      session.abandon()
      let error = try inUse(made.before, made.after, made.origins, named, tables.tables[old])
      throw SchemaStop(key: new, position: reader.position, error: error, isLocked: true)
    }
  }

  /// Returns the error for a schema change that cannot get its lock. The message names the session that uses the table.
  func inUse(
    _ before: TableSchema?, _ after: TableSchema?, _ origins: [Int?]?, _ table: TableSchema,
    _ known: PostgresApplyState.Table?
  ) throws -> CairnError {
    var phrases: [String] = []
    if let before, let after { phrases = TableDifference(before, after, origins: origins).phrases }
    if phrases.isEmpty { phrases = ["a change of the table"] }
    let target = try mapped(table)
    let users = try connection.query(
      """
      SELECT a.pid, a.usename, a.application_name, date_trunc('second', now() - a.xact_start)
      FROM pg_locks AS l LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid
      WHERE l.granted AND l.pid IS DISTINCT FROM pg_backend_pid()
        AND l.relation = to_regclass($1) AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
      ORDER BY a.xact_start LIMIT 1
      """,
      ["\((known?.schema ?? target.namespace).quotedName).\((known?.name ?? target.name).quotedName)"])
    let who = users.first.map { row in
      if row[0] == nil { return "a prepared transaction (see pg_prepared_xacts)" }
      let texts = row.map { $0 ?? "?" }
      return "process \(texts[0]) of \(texts[1]) (\(texts[2])), in a transaction open for \(texts[3])"
    }
    return CairnError(
      .schemaStopped,
      "\(phrases.joined(separator: ", ")) is not applied at \(connection.place) yet: the table is in use by \(who ?? "another session")",
      hint: "Cairn tries again by itself; end that transaction if it should not be open",
      context: ["table": table.fullName])
  }

  /// Renames a table in the list of tables that this replay applies, if a schema change renames it.
  ///
  /// - Returns: The table's old and new name in apply's state, which are equal for a create or drop. Nil if this replay
  ///   does not apply the table.
  private func follow(
    _ action: DDL.Action, _ before: TableSchema?, _ after: TableSchema?
  ) throws -> (old: String, new: String)? {
    switch (action, before, after) {
    case (.create, _, let after?):
      return tables.scope.key(after.sourceKey).map { ($0, $0) }
    case (.drop, let before?, _): return tables.scope.key(before.sourceKey).map { ($0, $0) }
    case (_, let before?, let after?):
      let old = tables.scope.key(before.sourceKey)
      guard let new = tables.scope.rename(before.sourceKey, to: after.sourceKey) else {
        if !tables.scope.isCatchUp, !before.sourceKey.hasSameBytes(as: after.sourceKey) {
          try tables.renameWaiting(before.sourceKey, to: after.sourceKey, name: after.fullName)
        }
        return nil
      }
      return (old ?? new, new)
    default: return nil
    }
  }

  func mapped(_ schema: TableSchema) throws -> TableSchema {
    try schema.checkHasColumns()
    let mapping = try TableMapping(schema, to: .postgres, names: options.names, reach: try reach.of([schema]))
    mapping.notices.forEach(progress.note)
    return mapping.target
  }

  /// Returns whether apply began to read the trail after the table's creation, and so does not know the table. A
  /// refresh then brings the rows.
  private func isStranger(_ key: String) -> Bool { options.expectsStrangers && tables.tables[key] == nil }

  /// Creates a table at the target at its first record, if apply has not read the record of its creation. A refresh then
  /// brings the rows.
  func meet(_ source: TableSchema, _ mapped: TableSchema, _ key: String) throws {
    guard options.expectsStrangers else { return }
    if let known = tables.tables[key] { guard known.isAwaited, try tables.shape.read(known) == nil else { return } }
    try state.lock()
    try create(source, key, isAwaited: true)
  }

  func create(_ after: TableSchema, _ key: String, isAwaited: Bool) throws {
    try tables.shape.refusing(["create table \(after.fullName)"], after) { try make(after, key, isAwaited: isAwaited) }
  }

  private func make(_ after: TableSchema, _ key: String, isAwaited: Bool) throws {
    let target = try mapped(after)
    var known = PostgresApplyState.Table(schema: target.namespace, name: target.name)
    _ = try tables.register(key, after, target, known, isSaved: false)
    let claim = try tables.claimRows(of: after, as: target, key)
    if options.ddl ?? .follow == .follow, try tables.shape.read(known) == nil { try ensureLabels(target, after) }
    known.isCreated = try tables.shape.create(after, target, options.ddl ?? .follow)
    // A table that Cairn created at its first copy is still Cairn's at a later one.
    if !known.isCreated, let was = tables.tables[key] { known = was }
    if isAwaited { (known.refreshing, known.isAwaited) = (.byKey, true) }
    known.claim = claim
    try tables.save(key, known)
    tables.forgetShape(key)
  }

  private func drop(_ made: ShapeChange, _ before: TableSchema, _ key: String) throws {
    guard let known = tables.tables[key] else { return }
    let plan = SchemaPlan(made, .init(right: try right(.removes, known), ddl: options.ddl))
    try tables.shape.drop(before, try mapped(before), known, plan, sink)
    try tables.forget(key)
  }

  private func right(_ effect: SchemaRight.Effect, _ table: PostgresApplyState.Table) throws -> SchemaRight {
    SchemaRight(
      effect, isCreated: table.isCreated, isCreatedElsewhere: try state.isCreatedElsewhere(table.schema, table.name),
      others: SchemaRight.others(try state.feeders(of: table.schema, table.name)),
      goesBothWays: options.goesBothWays(table.schema, table.name))
  }

  private func note(before: TableSchema?, after: TableSchema?, _ old: String, _ new: String) throws {
    defer { tables.forgetShape(new) }
    guard let after else { return try tables.forget(old) }
    let target = try mapped(after)
    var known = tables.tables[old] ?? .init(schema: target.namespace, name: target.name)
    if let before, !before.fullName.hasSameBytes(as: after.fullName) {
      (known.schema, known.name) = (target.namespace, target.name)
      try tables.forget(old)
    }
    _ = try tables.register(new, after, target, known, isSaved: false)
    try tables.save(new, known)
  }

  func change(_ made: ShapeChange, _ before: TableSchema, _ after: TableSchema, _ old: String, _ new: String)
    throws
  {
    try tables.shape.refusing(TableDifference(before, after, origins: made.origins).phrases, after) {
      try alter(made, before, after, old, new)
    }
  }

  private func alter(_ made: ShapeChange, _ before: TableSchema, _ after: TableSchema, _ old: String, _ new: String)
    throws
  {
    var before = before
    // A table that was renamed on the way has no script. The script of the table before still has the names of its
    // keys.
    if before.createText.isEmpty, let script = scripts[before.sourceKey] { before.createText = script }
    if after.createText.isEmpty { scripts[after.sourceKey] = before.createText }
    try after.checkHasColumns()
    let shapes = try TableMapping.change(
      before, after, origins: made.origins, to: .postgres, names: options.names, reach: try reach.of([before, after]))
    shapes.after.notices.forEach(progress.note)
    let source = TableDifference(before, after, origins: made.origins)
    let (was, now) = (shapes.before.target, shapes.after.target)
    let own = tables.tables[old] ?? .init(schema: was.namespace, name: was.name)
    let right = try right(.init(of: source), own)
    let plan = SchemaPlan(made, options.schemaFacts(right, own, now.namespace, now.name, of: session.name))
    let change = PostgresSchemaChanges.Change(source: source, before: was, after: now, plan: plan)
    var known = own
    known.isCreated = right.isCreated
    if plan.policy == .follow { try makeLabels(change, after) }
    let isOpen = try plan.policy == .follow && tables.shape.isOpen(change, own)
    var moved = try tables.shape.make(change, known, sink)
    // The trail that created the table decides what a copy does to its rows.
    if known.isCreated || own.isCreated { moved.isCreated = own.isCreated }
    try tables.forget(old)
    _ = try tables.register(new, after, change.after, moved, isSaved: false)
    try tables.save(new, moved)
    tables.forgetShape(new)
    if !made.isRefreshed { try tables.shape.makeForeignKeys(sink) }
    isShapeMade = isOpen
  }

  // MARK: Rows that wait

  /// Before a schema change of a table, inserts the table's rows that the target refused earlier in the transaction.
  /// Leaves out rows whose unique values other rows have.
  ///
  /// - Returns: The table's name in apply's state, if the table still has parked rows or rows to check for unique values;
  ///   otherwise nil.
  private func settleRows(before ddl: DDL) throws -> String? {
    guard ddl.before != 0, !rows.parked.isEmpty || !rows.writer.unchecked.isEmpty,
      let key = tables.scope.key(try schema(ddl.before).sourceKey)
    else { return nil }
    return try rows.settle(of: key) ? key : nil
  }

  /// Assigns a table's parked rows, and its rows to check for unique values, to the table with its new schema. Forgets
  /// the rows if the schema change dropped the table.
  private func followRows(of key: String, after ddl: DDL) throws {
    guard ddl.after != 0 else { return rows.forget(key) }
    try onTable(ddl.after) {
      guard let table = try table(ddl.after) else { return }
      try rows.move(from: key, to: table)
    }
  }
}
