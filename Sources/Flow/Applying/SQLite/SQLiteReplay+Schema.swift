import Changes
import Mapping
import SQLiteKit

// Schema changes.
extension SQLiteReplay {
  /// The error for a record that the target refuses, such as a schema change. The record's table is then suspended.
  struct Refusal: Error {
    let position: Position
    let error: CairnError
  }

  /// The place at which a table is suspended: a record, and the checkpoint before the record's transaction.
  struct Place {
    let from: Position
    let checkpoint: Checkpoint
    let number: UInt64
  }

  private var place: Place { Place(from: reader.position, checkpoint: reader.checkpoint, number: cursor.whole) }

  private struct Names {
    let before: String?
    let after: String?
    var isMoved: Bool { before.map { old in after.map { $0.sqliteKey != old.sqliteKey } ?? true } ?? true }
  }

  func apply(_ ddl: DDL) throws {
    try parked.settle(putBack)
    let name = try parked.isEmpty || ddl.before == 0 ? nil : targetName(of: schema(ddl.before))
    try carryOut(ddl)
    guard let name, parked.hasRows(of: name) else { return }
    if ddl.after == 0 { return parked.forget(name) }
    if let table = try table(ddl.after) { try parked.move(from: name, to: table) }
  }

  private func carryOut(_ ddl: DDL) throws {
    let before = ddl.before == 0 ? nil : try schema(ddl.before)
    let after = ddl.after == 0 ? nil : try schema(ddl.after)
    let names = names(before, after)
    defer { forgetShapes() }
    switch scope {
    case .main:
      if try isPassedOver(ddl, names) { return }
      if options.twoWay?.isEcho(ddl) == true { return try note(before, after) }
    case .catchUp(let key):
      guard let catchUpName, (names.before ?? names.after)?.sqliteKey == catchUpName.sqliteKey else { return }
      if desk != nil, options.twoWay?.isEcho(ddl) == true {
        try note(before, after)
        if let after = names.after { try follow(key, to: after) }
        return
      }
    }
    do {
      // No rule fits the schema before the change. So the change is not skipped, and the table stays suspended for that
      // reason.
      if case .catchUp = scope, after != nil, let before, before.treatment?.refusal != nil {
        _ = try TableMapping(before, to: .sqlite)
      }
      var change = ShapeChange(
        ddl, before: before, after: after,
        origins: before.flatMap { was in after.flatMap { ddl.origins(from: was, to: $0) } })
      if let desk {
        if try isPassedBack(before, after, desk) { return forgetShapes() }
        change.takeNames(desk.part)
      }
      if try scope == .main || change.skipUnfit(ddl, fits: fits, later: nextFittingSchema) {
        try checkFree(names)
        try adoptBefore(ddl)
        try make(change)
      }
    } catch let error as CairnError where error.suspendsTable {
      throw Refusal(position: reader.position, error: error)
    }
    if case .catchUp(let key) = scope, let after = names.after { try follow(key, to: after) }
  }

  /// Notes that the catch-up's table has another name from the present record on.
  func follow(_ key: NameKey, to name: String) throws {
    catchUpName = name
    guard var known = target.tables[key],
      let place = known.waiting?.names.firstIndex(where: { $0.sqliteKey == name.sqliteKey }), place > 0
    else { return }
    known.waiting?.names.removeFirst(place)
    try save(name, known)
  }

  private func names(_ before: TableSchema?, _ after: TableSchema?) -> Names {
    let old = before.map(targetName)
    guard let after else { return Names(before: old, after: nil) }
    let name = TableMapping.targetName(of: after, in: .sqlite)
    // A table whose name changes only in case is not in its own way.
    if old?.sqliteKey == name.sqliteKey { return Names(before: old, after: name) }
    return Names(before: old, after: targetName(of: after))
  }

  // MARK: Tables that wait

  /// Throws ``Refusal`` if a rule of the conf for the table cannot be carried out for the present change.
  ///
  /// A catch-up does not throw if the trail has a later refresh of the table.
  func refuse(_ table: SQLiteApplyTable) throws {
    guard let error = reader.refusal else { return }
    guard case .catchUp = scope,
      try ahead.isCopied(table.source)
    else { throw Refusal(position: reader.position, error: error) }
    if table.removal != .applied {
      target.progress.note(NextFittingSchema.unseen(table.source, since: reader.position))
    }
    var known = target.tables[key(table.schema.name)] ?? .init()
    (known.refreshing, known.isAwaited) = (.byKey, true)
    try save(table.schema.name, known)
  }

  /// Called before each record. Begins to apply the catch-up's table at the first record that the table lacks.
  ///
  /// Suspends the table of `record` if the target refused the record, or if capture lacks memory for its schema change.
  func leaveRefused(_ record: Record) throws {
    if case .catchUp(let key) = scope, catchUpName == nil, halt == nil, let waiting = target.tables[key]?.waiting,
      let from = waiting.from, reader.position >= from
    {
      catchUpName = waiting.names.first
      forgetShapes()
    }
    if let copy = overtaken[reader.position], catchUpName != nil { return try goOn(with: copy) }
    guard let error = try refusals[reader.position] ?? excess(record) else { return }
    switch record {
    case .change(let change): try beginToWait(schema(change.schemaID), error)
    case .refreshRow(let id, _): try beginToWait(schema(id), error)
    case .waitingRow(let row): try beginToWait(schema(row.schemaID), error)
    case .refresh(let refresh): try beginToWait(schema(refresh.schemaID), error)
    case .ddl(let ddl): try beginToWait(schema(ddl.before == 0 ? ddl.after : ddl.before), error)
    default: break
    }
  }

  /// Returns the error if the group changes more table definitions than the target's capture has memory for; nil
  /// otherwise.
  private func excess(_ record: Record) throws -> CairnError? {
    guard scope == .main, options.schemaFollower != nil, case .ddl(let ddl) = record,
      options.twoWay?.isEcho(ddl) != true
    else { return nil }
    let schemas = try [ddl.before, ddl.after].filter { $0 != 0 }.map { try schema($0) }
    guard let name = schemas.first.map(targetName), target.tables[name.sqliteKey]?.waiting == nil else { return nil }
    let bytes = schemas.reduce(0) { $0 + $1.memoryBytes }
    guard bytes > options.followedDefinitionBytesMax - definitionBytes else {
      definitionBytes += bytes
      return nil
    }
    return CairnError(
      .schemaStopped,
      "the transaction changes more than \(options.followedDefinitionBytesMax >> 20) MiB of table definitions, which the capture of \(target.database.path) has no room for",
      hint: "nothing to do: the table follows by itself, after the others", context: ["table": name])
  }

  /// Suspends the present record's table. The table's records before this one are applied.
  func beginToWait(_ schema: TableSchema, _ error: CairnError) throws {
    let name = targetName(of: schema)
    defer { forgetShapes() }
    if case .catchUp = scope {
      guard catchUpName?.sqliteKey == name.sqliteKey else { return }
      try leaveParked(name, error)
      (halt, catchUpName) = (place, nil)
      return
    }
    var known = target.tables[name.sqliteKey] ?? SQLiteApplyState.Table(claim: TableClaim.none)
    guard known.waiting == nil else { return }
    try leaveParked(name, error)
    let listed = try database.integer("SELECT count(*) FROM cairn_table") ?? 0
    try WaitingTable.checkCount(target.waiting(in: reader.id).count, listed: listed, of: self.name, error)
    if isStranger(name.sqliteKey) { (known.refreshing, known.isAwaited) = (.byKey, true) }
    let table = WaitingTable(
      name: schema.fullName, checkpoint: place.checkpoint, number: cursor.whole, code: error.code,
      message: error.message,
      hint: error.hint)
    known.waiting = .init(table: table, names: [name], from: reader.position)
    try save(name, known)
  }

  /// Throws ``Refusal`` if a row of the table still waits for a unique value of another row. The table is then
  /// suspended at the record of the first such row.
  private func leaveParked(_ name: String, _ error: CairnError) throws {
    try parked.settle(putBack)
    if let position = parked.start(of: name) { throw Refusal(position: position, error: error) }
  }

  /// Returns whether a schema change is skipped because its table is suspended. If so, stores the table's new name, or
  /// that the source dropped the table.
  private func isPassedOver(_ ddl: DDL, _ names: Names) throws -> Bool {
    if let before = names.before {
      guard let known = target.tables[before.sqliteKey], let waiting = known.waiting else { return false }
      var moved = known
      guard let after = names.after, names.isMoved else {
        moved.waiting?.isGone = names.after == nil
        if moved.waiting != waiting { try save(before, moved) }
        return true
      }
      guard target.tables[after.sqliteKey]?.waiting == nil else {
        throw CairnError(
          .schemaStopped,
          "suspended table \(before) is renamed to \(after), and another table of that name is suspended too: \(waiting.table.message)",
          hint: waiting.table.hint, context: ["table": before])
      }
      moved.waiting?.names.append(after)
      moved.waiting?.table.name = try schema(ddl.after).fullName
      try state.forget(before)
      target.tables[before.sqliteKey] = nil
      try save(after, moved)
      return true
    }
    guard let after = names.after, var known = target.tables[after.sqliteKey], known.waiting != nil else {
      return false
    }
    known.waiting?.isGone = false
    try save(after, known)
    return true
  }

  /// Throws `schema-stopped` if the new name of a created or renamed table is the name of a suspended table.
  private func checkFree(_ names: Names) throws {
    guard let after = names.after, names.isMoved else { return }
    let own = key(names.before ?? after)
    for (key, table) in target.tables where key != own {
      guard let waiting = table.waiting, waiting.holds(after) else { continue }
      // A table that begins to wait at a later record takes the name later.
      guard waiting.from ?? waiting.table.checkpoint.position < reader.position else { continue }
      throw SchemaRefusal(
        place: database.path,
        phrases: [names.before.map { "rename table \($0) to \(after)" } ?? "create table \(after)"]
      ).error(
        "the name is that of table \(waiting.table.name), which waits", table: after,
        hint: "first follow the hint of that table")
    }
  }

  /// Returns whether to skip the creation of a table that this database already has under another name.
  ///
  /// - Throws: `schema-stopped` for any other schema change of such a table under its former name.
  private func isPassedBack(_ before: TableSchema?, _ after: TableSchema?, _ desk: Desk) throws -> Bool {
    guard let named = before ?? after, let move = desk.move(of: named) else { return false }
    if before == nil { return true }
    if case .catchUp = scope, after != nil {
      let there = try underNameThere(mapping(named)).target.name
      if there.isSameInSQLite(as: move.now.name) { return false }
    }
    throw move.unmade(named, at: database.path)
  }

  // MARK: Making it

  /// Returns the mapping of a source table to the target, without foreign keys to tables that apply may not write.
  func mapping(_ schema: TableSchema) throws -> TableMapping {
    try schema.checkHasColumns()
    return try TableMapping(schema, to: .sqlite, reach: TargetReach(options.scope))
  }

  func make(_ made: ShapeChange) throws {
    target.guardsAreDue = true
    try releaseTriggers()
    var before = try made.before.map(mapping)
    var after = try made.after.map(mapping)
    after?.notices.forEach(target.progress.note)
    let isMoved = before.flatMap { was in after.map { !$0.target.name.hasSameBytes(as: was.target.name) } } ?? false
    if !isMoved {
      before = try before.map(underNameThere)
      after = try after.map(underNameThere)
    } else if let was = try before.map(underNameThere), let now = after,
      was.target.name.hasSameBytes(as: now.target.name)
    {
      // The table already has the new name.
      before = was
    }
    let known = before.flatMap { target.tables[key($0.target.name)] }
    let right =
      try before.map {
        try self.right(.init(of: made.difference), $0.target.name, isCreated: known?.isCreated ?? false)
      }
      ?? SchemaRight(isCreated: known?.isCreated ?? false)
    let name = (after ?? before)?.target.name ?? ""
    let change = SQLiteSchemaChanges.Change(
      before: before, after: after, origins: made.origins, isRename: made.action == .rename,
      plan: SchemaPlan(made, options.schemaFacts(right, known, "", name, of: self.name)))
    let step = SchemaPlan.step(
      made, isStranger: before.map { isStranger(key($0.target.name)) } ?? false,
      isCopyAsked: cursor.present <= options.askedBehind)
    switch (step, before, after) {
    case (.create(let isAwaited), _, let after?): try create(after, isAwaited: isAwaited)
    case (.drop, let before?, _):
      try target.shape.drop(change)
      try state.saveOrigin(before.target.name, nil)
      try forget(before.target.name)
    case (.alter, let before?, let after?):
      // If a table is renamed, its triggers show its former name.
      if before.target.name.hasSameBytes(as: after.target.name) { try target.release(after.target.name) }
      let isUnderItsNames = zip([made.before, made.after], [before, after]).allSatisfy { given, there in
        guard let given else { return false }
        return TableMapping.targetName(of: given, in: .sqlite).isSameInSQLite(as: there.target.name)
      }
      let isOpen = try change.plan.policy == .follow && isUnderItsNames && target.shape.isOpen(change)
      try target.shape.reshape(change)
      isShapeMade = isOpen
      try move(before, after)
    default: break
    }
  }

  private func right(_ effect: SchemaRight.Effect, _ name: String, isCreated: Bool) throws -> SchemaRight {
    SchemaRight(
      effect, isCreated: isCreated, isCreatedElsewhere: try state.isCreatedElsewhere(name),
      others: SchemaRight.others(try state.feeders(of: name)), goesBothWays: options.goesBothWays("", name))
  }

  /// Returns whether apply skipped the record that created the table. A requested refresh then brings the rows.
  private func isStranger(_ key: NameKey) -> Bool { options.expectsStrangers && target.tables[key] == nil }

  /// Creates a table at its first record, if apply skipped the record that created it. A requested refresh then brings
  /// the rows.
  func meet(_ mapping: TableMapping, _ key: NameKey) throws {
    guard options.expectsStrangers else { return }
    if let known = target.tables[key] {
      guard known.isAwaited, try !target.shape.exists(mapping.target.name) else { return }
    }
    try create(mapping, isAwaited: true)
  }

  func create(_ after: TableMapping, isAwaited: Bool) throws {
    let name = after.target.name
    let was = target.tables[key(name)]
    after.notices.forEach(target.progress.note)
    try releaseTriggers()
    var known = SQLiteApplyState.Table()
    known.source = was?.source ?? ""
    try claim(&known, for: after)
    let rows = try claimRows(of: after.source, as: name)
    let change = SQLiteSchemaChanges.Change(after: after, plan: SchemaPlan(creating: options.ddl))
    let right = try right(.removes, name, isCreated: was?.isCreated ?? false)
    known.isCreated = try target.shape.create(change, isOwn: right.isCreated)
    // A table that Cairn created at its first copy is still Cairn's at a later one.
    if !known.isCreated, let was { known = was }
    known.waiting = was?.waiting
    if isAwaited { (known.refreshing, known.isAwaited) = (.byKey, true) }
    try claim(&known, for: after)
    known.claim = rows
    try save(name, known)
    try saveOrigin(after)
  }

  private func note(_ before: TableSchema?, _ after: TableSchema?) throws {
    guard let after else { return try before.map { try forget(targetName(of: $0)) } ?? () }
    // Tables that swap names have a name in between that no table can have here.
    let mapping = try? mapping(after)
    let (old, new) = (before.map(targetName), targetName(of: after))
    if !(old?.isSameInSQLite(as: new) ?? false) {
      var known = target.tables[key(old ?? new)] ?? .init()
      if let old {
        try state.saveOrigin(old, nil)
        if known.waiting == nil { try forget(old) }
        known.source = ""
      }
      if let mapping { try claim(&known, for: mapping) }
      try save(new, known)
    }
    if let mapping { try saveOrigin(mapping) }
  }

  private func move(_ before: TableMapping, _ after: TableMapping) throws {
    if !before.source.fullName.hasSameBytes(as: after.source.fullName) {
      let (old, new) = (before.target.name, after.target.name)
      var known = target.tables[key(old)] ?? .init()
      try state.saveOrigin(old, nil)
      if known.waiting == nil { try forget(old) }
      known.source = ""
      try claim(&known, for: after)
      try save(new, known)
    }
    try saveOrigin(after)
  }

  /// Stores the definition that the table has in PostgreSQL, if Cairn created the table here.
  private func saveOrigin(_ mapping: TableMapping) throws {
    guard target.tables[key(mapping.target.name)]?.isCreated ?? false else { return }
    let source = mapping.source
    try state.saveOrigin(mapping.target.name, source.engine == .postgres ? source : source.original)
  }
}
