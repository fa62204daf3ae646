import Changes
import Conflicts
import Mapping
import SystemKit
import TestServers
import Trails
import Versions

@testable import Applying

/// Reads a trail from one checkpoint on, and writes its transactions to a database in memory, in groups.
final class MemoryReplay {
  typealias Row = RowVersion.Row
  static let engine = Engine.sqlite
  static let commitRowsUsual = 5000

  let database: MemoryDatabase
  let name: TrailName
  let options: ApplyOptions
  let clock: Clock
  let progress: ApplyProgress
  let reader: ApplyReader
  let desk: Desk?
  let gate: ClockGate
  let statements: StatementSession? = nil
  private(set) lazy var resolver = desk.map { RowResolver(self, $0, name, clock) }
  let cursor: TrailCursor
  var group = ApplyGroup()
  var openTables = SegmentTables<MemoryTable>()
  var refreshes = RefreshTracker<MemoryTable>()
  var changedRules = ChangedRules([], besides: [])
  var isShapeMade = false
  var conflicts = 0
  var early = OutOfOrderChanges()
  var parked = ParkedRows<MemoryTable, Value>()

  init(
    _ database: MemoryDatabase, trail folder: String, _ name: TrailName, _ options: ApplyOptions, _ clock: Clock,
    _ progress: ApplyProgress, desk: Desk?
  ) throws {
    (self.database, self.name, self.options) = (database, name, options)
    (self.clock, self.progress, self.desk) = (clock, progress, desk)
    let stored = database.checkpoints[name.description.nameKey]
    cursor = TrailCursor(after: stored?.number ?? 0)
    reader = try ApplyReader.open(folder: folder, for: stored?.checkpoint, options: options, to: Self.engine)
    gate = ClockGate(name, clock, skewMicrosecondsMax: options.skewMicrosecondsMax)
  }
}

extension MemoryReplay: GroupApplier {
  typealias Target = MemoryReplay
  var checksClocks: Bool { true }
  var endsGroup: Bool { false }
  var oneWay: MemoryReplay { self }
  var takesDecisions: Bool { true }

  func openGroup(_ stop: StopSignal) throws {
    cursor.start = reader.checkpoint
    try database.begin()
  }

  /// The own trail has each commit of an application at once.
  func inform(_ desk: Desk) throws {
    try desk.lookAtKeys(foreignKeys)
    try desk.shared.window.catchUp(rowNames: desk.ownNames, learn: desk.names.learn)
    if desk.learnColumns() { openTables.forgetAll() }
    if let number = desk.shared.noteCaptured() { try storedReturns.close(by: number) }
    desk.inform()
  }

  func putAside(_ header: TransactionHeader) -> Bool { false }
  func beginChange(_ stop: StopSignal) {}

  func endTransaction(_ stop: StopSignal) throws {
    try resolver?.resolve(stop)
    try resolve(early.takeAll())
    try settleParked()
  }

  func table(_ id: UInt64) throws -> MemoryTable? {
    if let table = openTables.find(id, in: reader.position.segment) { return table }
    let table = try MemoryTable(schema(id), database, options)
    guard database.tables[table.name] != nil else {
      throw CairnError(.schemaStopped, "the target lacks table \(table.shape.name)", hint: "")
    }
    openTables.note(table, id)
    return table
  }

  func reach(_ record: Record) {}

  func take(_ change: ChangeView) throws {
    guard let table = try table(change.schemaID), !leavesOut(change, table) else { return group.skipChange() }
    if let resolver, let schema = reader.given(change.schemaID), try resolver.defers(change, schema, table) { return }
    let (before, after) = try rows(of: change, table)
    try resolvingLocalWrites(table, before, after) { try apply(change, before, after, table) }
  }

  func take(_ id: UInt64, _ image: ImageView) throws {
    guard let table = try table(id), !table.isAwaited else { return group.skipChange() }
    if let resolver, let schema = reader.given(id), try resolver.keepsOwn(image, schema, table) {
      return group.skipChange()
    }
    let row = try image.values().map { $0.map(MemoryForm.plain) ?? .null }
    try resolvingLocalWrites(table, nil, row) { try takeCopied(row, table) }
    refreshes.noteRow()
  }

  func take(_ refresh: Refresh) throws {
    guard let table = try table(refresh.schemaID) else { return }
    var state = table.content.state
    switch refresh.event {
    case _ where table.isAwaited && !refresh.isStart(behind: options.askedBehind, in: cursor.present): break
    case .start(let reason, let method, let rows):
      let plan = RefreshPlan(
        reason, method, state,
        .init(
          existing: options.existing, existingHolds: options.existingHolds,
          isForOthers: options.isForOthers(reason, isAwaited: table.isAwaited), localWrites: table.localWrites,
          holdsRows: method != .rows && !table.content.rows.isEmpty, hasRanges: false,
          refusesRows: options.refusesRows))
      if let refusal = plan.refusal { throw refusal.error(table.shape.name, of: table.shape.name) }
      state.beginRefresh(method, plan)
      database.tables[table.name]?.state = state
      if plan.emptiesTable { try empty(table) }
      refreshes.begin(table, estimated: rows)
      noteBegin(of: refresh.schemaID, table.source, method)
    case .chunk(let range):
      try resolver?.beginChunk(of: table)
      if case .row(let key) = range {
        try table.put(nil, table.shape.key.map { key[$0].map(MemoryForm.plain) ?? .null })
      }
    case .end:
      refreshes.end(isCopy: state.endRefresh(table.localWrites, existing: options.existing))
      database.tables[table.name]?.state = state
    }
  }

  private func empty(_ table: MemoryTable) throws {
    guard let resolver, table.goesBothWays else {
      database.tables[table.name]?.rows = [:]
      return
    }
    for (key, row) in table.content.rows where try resolver.mayRemove(row, of: table) { try table.put(nil, key) }
  }

  func betweenRows(of id: UInt64, _ body: () throws -> Void) throws { try body() }

  // MARK: Schema changes

  func apply(_ ddl: DDL) throws {
    try parked.settle(putBack)
    defer { openTables.forgetAll() }
    let before = ddl.before == 0 ? nil : try TableMapping(schema(ddl.before), to: .sqlite).target
    let after = ddl.after == 0 ? nil : try TableMapping(schema(ddl.after), to: .sqlite).target
    let change = ShapeChange(
      ddl, before: before, after: after,
      origins: before.flatMap { was in after.flatMap { ddl.origins(from: was, to: $0) } })
    switch (SchemaPlan.step(change, isStranger: false, isCopyAsked: false), before, after) {
    case (.create, _, let after?):
      if database.tables[after.name.sqliteKey] == nil { database.tables[after.name.sqliteKey] = .init(schema: after) }
    case (.drop, let before?, _):
      parked.forget(before.name)
      let isCreated = database.tables[before.name.sqliteKey]?.state.isCreated ?? false
      switch SchemaPlan(change, .init(right: SchemaRight(isCreated: isCreated), ddl: options.ddl)).dropping(before.name)
      {
      case .drop: database.tables[before.name.sqliteKey] = nil
      case .keep(let notice): progress.note(notice)
      case .refuse(let why): throw CairnError(.schemaStopped, why, hint: "")
      }
    case (.alter, let before?, let after?): try alter(before, after, change.origins, ddl.after)
    default: break
    }
    isShapeMade = true
  }

  private func alter(_ before: TableSchema, _ after: TableSchema, _ origins: [Int?]?, _ id: UInt64) throws {
    guard var table = database.tables.removeValue(forKey: before.name.sqliteKey) else { return }
    let rows = table.rows.values
    table.schema = after
    table.rows = [:]
    let places = TableDifference(before, after, origins: origins).origins
    for row in rows {
      let row = places.map { $0.map { row[$0] } ?? .null }
      table.rows[table.key(of: row)] = row
    }
    database.tables[after.name.sqliteKey] = table
    openTables.forgetAll()
    guard parked.hasRows(of: before.name), let table = try self.table(id) else { return }
    try parked.move(from: before.name, to: table)
  }

  func foreignKeys() -> RowNames.Catalog {
    var alternates: RowNames.Alternates = [:]
    for reference in database.references {
      guard let parent = database.tables[reference.parent.sqliteKey]?.schema else { continue }
      let columns = reference.references.map(\.sqliteKey).sorted()
      if parent.key.map({ parent.columns[$0].name.sqliteKey }).sorted() == columns { continue }
      alternates[parent.name.sqliteKey, default: []].insert(columns)
    }
    let own = database.references.map { RowNames.OwnKey($0.child, $0.columns, to: $0.parent) }
    return (alternates, Set(own), TableHolders())
  }
}

// The parts of conflict resolution that depend on the database.
extension MemoryReplay: ApplyTarget, OneWayTarget {
  func flush() {}
  func attempt<Result>(_ body: () throws -> Result) throws -> Result { try body() }

  func table(like schema: TableSchema) throws -> MemoryTable? {
    let table = try MemoryTable(schema, database, options)
    return database.tables[table.name] == nil ? nil : table
  }

  func wide(_ table: MemoryTable) -> MemoryTable? { nil }
  func form(of table: MemoryTable) -> MemoryForm { MemoryForm(table: table) }

  private func referrers(of table: MemoryTable) -> [Reference] {
    database.references.filter { $0.parent.sqliteKey == table.name }
  }

  func hasReferrers(_ table: MemoryTable) -> Bool { !referrers(of: table).isEmpty }

  func isReferred(_ row: [Value], key: [Value], of table: MemoryTable) -> Bool {
    referrers(of: table).contains { reference in
      let isOwn = reference.child.sqliteKey == table.name
      return database.children(of: row, in: table.content, reference).contains { child in
        !isOwn || table.content.key(of: child) != key
      }
    }
  }

  func mergesCopies(at row: ContestedRow) -> Bool {
    database.tables[row.table.sqliteKey].map { $0.state.existing != .overwrite } ?? false
  }

  func row(_ key: [Value], of table: MemoryTable) -> [Value]? { table.content.rows[key] }

  func put(_ row: Row?, _ key: [Value], in table: MemoryTable) -> Bool {
    do { try write(row, key, to: table) } catch { return false }
    return true
  }

  func takeParked(_ key: [Value], of table: MemoryTable) -> [Value]? { parked.take(key: key, of: table)?.values }

  func settle(_ rows: MetRows, by function: String, in table: MemoryTable) throws -> Row? {
    try ResolvedRow.noFunction(function, rows)
  }

  var candidates: MemoryDisplacedRows { MemoryDisplacedRows(database: database) }
  var decisions: Decisions { Decisions(database.books) }
  var storedReturns: StoredReturns { StoredReturns(database.books) }

  func log(_ record: ConflictRecord) throws {
    try ConflictLog(database.books).append(record)
    conflicts += 1
  }

  /// Returns the row before and after a change. PostgreSQL gives the key only once if it stays as it is.
  func rows(of change: ChangeView, _ table: MemoryTable) throws -> (before: Row?, after: Row?) {
    var before = try change.before?.values().map { $0.map(MemoryForm.plain) }
    let after = try change.after?.values().map { $0.map(MemoryForm.plain) }
    if change.operation == .update, let after {
      before = before ?? after.map { _ in nil }
      for column in table.rowKey where before?[column] == nil { before?[column] = after[column] }
    }
    return (before, after)
  }

  func localRow(_ key: [Value], of table: MemoryTable) -> [Value]? { row(key, of: table) }
  func rows(inTheWayOf row: ContestedRow) -> [ContestedRow] { candidates.rows(inTheWayOf: row) }

  func write(_ row: Row?, _ key: [Value], to table: MemoryTable) throws(MemoryDatabase.Taken) {
    let there = table.content.rows[key]
    try table.put(row.map { $0.enumerated().map { $1 ?? there?[$0] ?? .null } }, key)
  }

  func naming<Result>(_ table: MemoryTable, _ body: () throws -> Result) throws -> Result {
    do { return try body() } catch is MemoryDatabase.Taken { throw error(.rowExists, table, [], "exists") }
  }
}
