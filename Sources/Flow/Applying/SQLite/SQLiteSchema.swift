import Changes
import Mapping
import SQLiteKit
import Trails

/// Opens the tables of a trail at an SQLite target, and creates, changes and drops them as the trail and the rules say.
final class SQLiteSchema {
  typealias Desk = SQLiteReplay.Desk
  typealias Names = SQLiteTables.Names
  /// The errors of the records that the target refuses, by the record's position in the trail. Apply suspends the table
  /// of such a record.
  let refusals: [Position: CairnError]
  /// For each position at which the catch-up's table is suspended: the later refresh in the trail with which the table
  /// continues.
  let overtaken: [Position: ResyncPoint]
  let tables: SQLiteTables
  let rows: SQLiteRows
  var changedRules: ChangedRules
  /// Whether apply itself makes the present schema change. False if an operator has already made it at the target.
  var isShapeMade = false
  /// The memory that the table definitions in this group's schema changes take, in bytes.
  var definitionBytes = 0
  /// The id of the present record's schema; nil if the record has none.
  var idAtHand: UInt64?

  init(_ rows: SQLiteRows, refusals: [Position: CairnError], overtaken: [Position: ResyncPoint]) {
    (tables, self.rows, self.refusals, self.overtaken) = (rows.tables, rows, refusals, overtaken)
    changedRules = ChangedRules(rows.target.options.changedRules, besides: rows.target.adopted)
  }

  var target: SQLiteTarget { tables.target }
  var database: Database { tables.database }
  var state: SQLiteApplyState { tables.state }
  var options: ApplyOptions { tables.options }
  var reader: ApplyReader { tables.reader }
  var cursor: TrailCursor { tables.cursor }
  var ahead: TrailAhead { tables.ahead }
  var desk: Desk? { tables.desk }
  private var place: SQLiteReplay.Place {
    SQLiteReplay.Place(from: reader.position, checkpoint: reader.checkpoint, number: cursor.whole)
  }

  /// Returns the schema record with this id, which the present segment must have.
  func schema(_ id: UInt64) throws -> TableSchema { try reader.schema(id, of: tables.name) }

  func apply(_ ddl: DDL) throws {
    try rows.parked.settle(rows.putBack)
    let name = try rows.parked.isEmpty || ddl.before == 0 ? nil : tables.targetName(of: schema(ddl.before))
    try carryOut(ddl)
    guard let name, rows.parked.hasRows(of: name) else { return }
    if ddl.after == 0 { return rows.parked.forget(name) }
    if let table = try table(ddl.after) { try rows.parked.move(from: name, to: table) }
  }

  private func carryOut(_ ddl: DDL) throws {
    let before = ddl.before == 0 ? nil : try schema(ddl.before)
    let after = ddl.after == 0 ? nil : try schema(ddl.after)
    let names = tables.names(before, after)
    defer { tables.forgetShapes() }
    switch tables.scope {
    case .main:
      if try isPassedOver(ddl, names) { return }
      if options.twoWay?.isEcho(ddl) == true { return try note(before, after) }
    case .catchUp(let key):
      guard let catchUpName = tables.catchUpName, (names.before ?? names.after)?.sqliteKey == catchUpName.sqliteKey
      else { return }
      if desk != nil, options.twoWay?.isEcho(ddl) == true {
        try note(before, after)
        if let after = names.after { try tables.follow(key, to: after) }
        return
      }
    }
    do {
      // No rule fits the schema before the change. So the change is not skipped, and the table stays suspended for that
      // reason.
      if case .catchUp = tables.scope, after != nil, let before, before.treatment?.refusal != nil {
        _ = try TableMapping(before, to: .sqlite)
      }
      var change = ShapeChange(
        ddl, before: before, after: after,
        origins: before.flatMap { was in after.flatMap { ddl.origins(from: was, to: $0) } })
      if let desk {
        if try isPassedBack(before, after, desk) { return tables.forgetShapes() }
        change.takeNames(desk.part)
      }
      if try tables.scope == .main || change.skipUnfit(ddl, fits: tables.fits, later: tables.nextFittingSchema) {
        try checkFree(names)
        try adoptBefore(ddl)
        try make(change)
      }
    } catch let error as CairnError where error.suspendsTable {
      throw SQLiteReplay.Refusal(position: reader.position, error: error)
    }
    if case .catchUp(let key) = tables.scope, let after = names.after { try tables.follow(key, to: after) }
  }

  // MARK: Tables that wait

  /// Called before each record. Begins to apply the catch-up's table at the first record that the table lacks.
  ///
  /// Suspends the table of `record` if the target refused the record, or if capture lacks memory for its schema change.
  func leaveRefused(_ record: Record) throws {
    if case .catchUp(let key) = tables.scope, tables.catchUpName == nil, tables.halt == nil,
      let waiting = target.tables[key]?.waiting,
      let from = waiting.from, reader.position >= from
    {
      tables.catchUpName = waiting.names.first
      tables.forgetShapes()
    }
    if let copy = overtaken[reader.position], tables.catchUpName != nil { return try goOn(with: copy) }
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
    guard tables.scope == .main, options.schemaFollower != nil, case .ddl(let ddl) = record,
      options.twoWay?.isEcho(ddl) != true
    else { return nil }
    let schemas = try [ddl.before, ddl.after].filter { $0 != 0 }.map { try schema($0) }
    guard let name = schemas.first.map(tables.targetName), target.tables[name.sqliteKey]?.waiting == nil else {
      return nil
    }
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
    let name = tables.targetName(of: schema)
    defer { tables.forgetShapes() }
    if case .catchUp = tables.scope {
      guard tables.catchUpName?.sqliteKey == name.sqliteKey else { return }
      try leaveParked(name, error)
      (tables.halt, tables.catchUpName) = (place, nil)
      return
    }
    var known = target.tables[name.sqliteKey] ?? SQLiteApplyState.Table(claim: TableClaim.none)
    guard known.waiting == nil else { return }
    try leaveParked(name, error)
    let listed = try database.integer("SELECT count(*) FROM cairn_table") ?? 0
    try WaitingTable.checkCount(target.waiting(in: reader.id).count, listed: listed, of: tables.name, error)
    if tables.isStranger(name.sqliteKey) { (known.refreshing, known.isAwaited) = (.byKey, true) }
    let table = WaitingTable(
      name: schema.fullName, checkpoint: place.checkpoint, number: cursor.whole, code: error.code,
      message: error.message,
      hint: error.hint)
    known.waiting = .init(table: table, names: [name], from: reader.position)
    try tables.save(name, known)
  }

  /// Throws ``Refusal`` if a row of the table still waits for a unique value of another row. The table is then
  /// suspended at the record of the first such row.
  private func leaveParked(_ name: String, _ error: CairnError) throws {
    try rows.parked.settle(rows.putBack)
    if let position = rows.parked.start(of: name) { throw SQLiteReplay.Refusal(position: position, error: error) }
  }

  /// Returns whether a schema change is skipped because its table is suspended. If so, stores the table's new name, or
  /// that the source dropped the table.
  private func isPassedOver(_ ddl: DDL, _ names: Names) throws -> Bool {
    if let before = names.before {
      guard let known = target.tables[before.sqliteKey], let waiting = known.waiting else { return false }
      var moved = known
      guard let after = names.after, names.isMoved else {
        moved.waiting?.isGone = names.after == nil
        if moved.waiting != waiting { try tables.save(before, moved) }
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
      try tables.save(after, moved)
      return true
    }
    guard let after = names.after, var known = target.tables[after.sqliteKey], known.waiting != nil else {
      return false
    }
    known.waiting?.isGone = false
    try tables.save(after, known)
    return true
  }

  /// Throws `schema-stopped` if the new name of a created or renamed table is the name of a suspended table.
  private func checkFree(_ names: Names) throws {
    guard let after = names.after, names.isMoved else { return }
    let own = tables.key(names.before ?? after)
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
    if case .catchUp = tables.scope, after != nil {
      let there = try tables.underNameThere(tables.mapping(named)).target.name
      if there.isSameInSQLite(as: move.now.name) { return false }
    }
    throw move.unmade(named, at: database.path)
  }

  // MARK: Making it

  func make(_ made: ShapeChange) throws {
    target.guardsAreDue = true
    try tables.releaseTriggers()
    var before = try made.before.map(tables.mapping)
    var after = try made.after.map(tables.mapping)
    after?.notices.forEach(target.progress.note)
    let isMoved = before.flatMap { was in after.map { !$0.target.name.hasSameBytes(as: was.target.name) } } ?? false
    if !isMoved {
      before = try before.map(tables.underNameThere)
      after = try after.map(tables.underNameThere)
    } else if let was = try before.map(tables.underNameThere), let now = after,
      was.target.name.hasSameBytes(as: now.target.name)
    {
      // The table already has the new name.
      before = was
    }
    let known = before.flatMap { target.tables[tables.key($0.target.name)] }
    let right =
      try before.map {
        try tables.right(.init(of: made.difference), $0.target.name, isCreated: known?.isCreated ?? false)
      }
      ?? SchemaRight(isCreated: known?.isCreated ?? false)
    let name = (after ?? before)?.target.name ?? ""
    let change = SQLiteSchemaChanges.Change(
      before: before, after: after, origins: made.origins, isRename: made.action == .rename,
      plan: SchemaPlan(made, options.schemaFacts(right, known, "", name, of: tables.name)))
    let step = SchemaPlan.step(
      made, isStranger: before.map { tables.isStranger(tables.key($0.target.name)) } ?? false,
      isCopyAsked: cursor.present <= options.askedBehind)
    switch (step, before, after) {
    case (.create(let isAwaited), _, let after?): try create(after, isAwaited: isAwaited)
    case (.drop, let before?, _):
      try target.shape.drop(change)
      try state.saveOrigin(before.target.name, nil)
      try tables.forget(before.target.name)
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
    let was = target.tables[tables.key(name)]
    after.notices.forEach(target.progress.note)
    try tables.releaseTriggers()
    var known = SQLiteApplyState.Table()
    known.source = was?.source ?? ""
    try tables.claim(&known, for: after)
    let rows = try tables.claimRows(of: after.source, as: name)
    let change = SQLiteSchemaChanges.Change(after: after, plan: SchemaPlan(creating: options.ddl))
    let right = try tables.right(.removes, name, isCreated: was?.isCreated ?? false)
    known.isCreated = try target.shape.create(change, isOwn: right.isCreated)
    // A table that Cairn created at its first copy is still Cairn's at a later one.
    if !known.isCreated, let was { known = was }
    known.waiting = was?.waiting
    if isAwaited { (known.refreshing, known.isAwaited) = (.byKey, true) }
    try tables.claim(&known, for: after)
    known.claim = rows
    try tables.save(name, known)
    try tables.saveOrigin(after)
  }

  private func note(_ before: TableSchema?, _ after: TableSchema?) throws {
    guard let after else { return try before.map { try tables.forget(tables.targetName(of: $0)) } ?? () }
    // Tables that swap names have a name in between that no table can have here.
    let mapping = try? tables.mapping(after)
    let (old, new) = (before.map(tables.targetName), tables.targetName(of: after))
    if !(old?.isSameInSQLite(as: new) ?? false) {
      var known = target.tables[tables.key(old ?? new)] ?? .init()
      if let old {
        try state.saveOrigin(old, nil)
        if known.waiting == nil { try tables.forget(old) }
        known.source = ""
      }
      if let mapping { try tables.claim(&known, for: mapping) }
      try tables.save(new, known)
    }
    if let mapping { try tables.saveOrigin(mapping) }
  }

  private func move(_ before: TableMapping, _ after: TableMapping) throws {
    if !before.source.fullName.hasSameBytes(as: after.source.fullName) {
      let (old, new) = (before.target.name, after.target.name)
      var known = target.tables[tables.key(old)] ?? .init()
      try state.saveOrigin(old, nil)
      if known.waiting == nil { try tables.forget(old) }
      known.source = ""
      try tables.claim(&known, for: after)
      try tables.save(new, known)
    }
    try tables.saveOrigin(after)
  }
}
