import Changes
import Mapping
import PostgresKit

// Tables that are created, changed and dropped.
extension PostgresReplay {
  /// The longest time that a schema change waits for the lock of its table, in ms.
  var lockMilliseconds: Int { shape.lockMilliseconds }

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
    if !scope.isCatchUp || desk != nil, options.twoWay?.isEcho(ddl) == true {
      return try note(before: before, after: after, old, new)
    }
    var made = ShapeChange(ddl, before: before, after: after, origins: ddl.origins)
    do {
      if let desk, let move = desk.move(of: named) {
        if before == nil { return forgetShape(new) }
        guard after != nil else { throw move.unmade(named, at: connection.place) }
        if try !nameAsNow(&made, move, desk, old) { return try note(before: before, after: after, old, new) }
      }
      if let desk { made.takeNames(desk.part) }
      if scope.isCatchUp, after != nil, let before, before.treatment?.refusal != nil { _ = try mapped(before) }
      let isLeft =
        try !scope.isCatchUp
        || made.skipUnfit(ddl, fits: { fits($0, new) }, later: { try nextFittingSchema(of: $0, new) })
      guard isLeft else { return forgetShape(new) }
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
      abandon()
      let error = try inUse(made.before, made.after, made.origins, named, tables[old])
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
      return scope.key(after.sourceKey).map { ($0, $0) }
    case (.drop, let before?, _): return scope.key(before.sourceKey).map { ($0, $0) }
    case (_, let before?, let after?):
      let old = scope.key(before.sourceKey)
      guard let new = scope.rename(before.sourceKey, to: after.sourceKey) else {
        if !scope.isCatchUp, !before.sourceKey.hasSameBytes(as: after.sourceKey) {
          try renameWaiting(before.sourceKey, to: after.sourceKey, name: after.fullName)
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
  private func isStranger(_ key: String) -> Bool { options.expectsStrangers && tables[key] == nil }

  /// Creates a table at the target at its first record, if apply has not read the record of its creation. A refresh then
  /// brings the rows.
  func meet(_ source: TableSchema, _ mapped: TableSchema, _ key: String) throws {
    guard options.expectsStrangers else { return }
    if let known = tables[key] { guard known.isAwaited, try shape.read(known) == nil else { return } }
    try state.lock()
    try create(source, key, isAwaited: true)
  }

  func create(_ after: TableSchema, _ key: String, isAwaited: Bool) throws {
    try shape.refusing(["create table \(after.fullName)"], after) { try make(after, key, isAwaited: isAwaited) }
  }

  private func make(_ after: TableSchema, _ key: String, isAwaited: Bool) throws {
    let target = try mapped(after)
    var known = PostgresApplyState.Table(schema: target.namespace, name: target.name)
    _ = try register(key, after, target, known, isSaved: false)
    let claim = try claimRows(of: after, as: target, key)
    if options.ddl ?? .follow == .follow, try shape.read(known) == nil { try ensureLabels(target, after) }
    known.isCreated = try shape.create(after, target, options.ddl ?? .follow)
    // A table that Cairn created at its first copy is still Cairn's at a later one.
    if !known.isCreated, let was = tables[key] { known = was }
    if isAwaited { (known.refreshing, known.isAwaited) = (.byKey, true) }
    known.claim = claim
    try save(key, known)
    forgetShape(key)
  }

  private func drop(_ made: ShapeChange, _ before: TableSchema, _ key: String) throws {
    guard let known = tables[key] else { return }
    let plan = SchemaPlan(made, .init(right: try right(.removes, known), ddl: options.ddl))
    try shape.drop(before, try mapped(before), known, plan, sink)
    try forget(key)
  }

  private func right(_ effect: SchemaRight.Effect, _ table: PostgresApplyState.Table) throws -> SchemaRight {
    SchemaRight(
      effect, isCreated: table.isCreated, isCreatedElsewhere: try state.isCreatedElsewhere(table.schema, table.name),
      others: SchemaRight.others(try state.feeders(of: table.schema, table.name)),
      goesBothWays: options.goesBothWays(table.schema, table.name))
  }

  private func note(before: TableSchema?, after: TableSchema?, _ old: String, _ new: String) throws {
    defer { forgetShape(new) }
    guard let after else { return try forget(old) }
    let target = try mapped(after)
    var known = tables[old] ?? .init(schema: target.namespace, name: target.name)
    if let before, !before.fullName.hasSameBytes(as: after.fullName) {
      (known.schema, known.name) = (target.namespace, target.name)
      try forget(old)
    }
    _ = try register(new, after, target, known, isSaved: false)
    try save(new, known)
  }

  func change(_ made: ShapeChange, _ before: TableSchema, _ after: TableSchema, _ old: String, _ new: String)
    throws
  {
    try shape.refusing(TableDifference(before, after, origins: made.origins).phrases, after) {
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
    let own = tables[old] ?? .init(schema: was.namespace, name: was.name)
    let right = try right(.init(of: source), own)
    let plan = SchemaPlan(made, options.schemaFacts(right, own, now.namespace, now.name, of: name))
    let change = PostgresSchemaChanges.Change(source: source, before: was, after: now, plan: plan)
    var known = own
    known.isCreated = right.isCreated
    if plan.policy == .follow { try makeLabels(change, after) }
    let isOpen = try plan.policy == .follow && shape.isOpen(change, own)
    var moved = try shape.make(change, known, sink)
    // The trail that created the table decides what a copy does to its rows.
    if known.isCreated || own.isCreated { moved.isCreated = own.isCreated }
    try forget(old)
    _ = try register(new, after, change.after, moved, isSaved: false)
    try save(new, moved)
    forgetShape(new)
    if !made.isRefreshed { try shape.makeForeignKeys(sink) }
    isShapeMade = isOpen
  }

  // MARK: Labels of enums

  private func makeLabels(_ change: PostgresSchemaChanges.Change, _ source: TableSchema) throws {
    for statement in PostgresAlteration(change.before, change.after, origins: change.source.origins).labels
    where try !PostgresAlteration.isLabel(statement) && shape.reaches(labelOf: statement, in: change.after) {
      // Another table with this type may have renamed the label before.
      do {
        _ = try sink.attempt { try connection.run(statement, []) }
        group.areLabelsRenamed = true
      } catch let error as PostgresError where error.isOfShape {}
    }
    try ensureLabels(change.after, source)
  }

  /// Adds the missing enum labels of a table.
  ///
  /// - Throws: ``Ahead`` if the labels must be committed first: PostgreSQL cannot use a label in the transaction that
  ///   adds it. `schema-stopped` if apply may not add them, or if the name of a type is taken.
  private func ensureLabels(_ mapped: TableSchema, _ source: TableSchema) throws {
    let refusal = SchemaRefusal(place: connection.place, phrases: ["use the types of table \(mapped.fullName)"])
    if let taken = try shape.takenTypeName(in: mapped) {
      throw refusal.error(
        "\(taken) there is another kind of type, or a table", table: source.fullName,
        hint: "drop or rename \(taken) at the target")
    }
    let missing = try PostgresAlteration.missingLabels(of: mapped) { type in
      guard try connection.first("SELECT to_regtype($1)", [type]) != nil else { return nil }
      return try connection.query(
        "SELECT enumlabel FROM pg_enum WHERE enumtypid = to_regtype($1) ORDER BY enumsortorder", [type]
      ).compactMap { $0[0].map(NameKey.init) }
    }
    if let statement = try missing.first(where: { try !shape.reaches(labelOf: $0, in: mapped) }) {
      throw refusal.error(
        "a label is missing, and apply may not add it, because tables that 'tables' does not include, or none, use the type",
        table: source.fullName, hint: "run at the target: \(statement)")
    }
    // The committed types lack the new names of labels, and an addition before them would come to a wrong place. Added in
    // the group, a label can be used only after it: apply then sends the transactions one by one.
    let fresh = group.areLabelsRenamed ? [] : missing.filter { !madeAhead.contains($0) }
    guard fresh.isEmpty else { throw Ahead(statements: fresh) }
    for statement in missing { try connection.run(statement, []) }
  }
}
