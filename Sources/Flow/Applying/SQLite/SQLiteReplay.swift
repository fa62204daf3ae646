import Changes
import Conflicts
import Mapping
import SQLiteKit
import SystemKit
import Trails
import Versions

/// Reads a trail from one checkpoint on, and writes its transactions to an SQLite target, in groups.
///
/// The caller stores the new checkpoint and commits each group. After an error, the replay cannot be used.
final class SQLiteReplay {
  /// The default number of rows after which apply commits a group. Until the commit, applications cannot write to the
  /// target.
  static let commitRowsUsual = 5000
  enum Scope: Equatable {
    case main
    /// A replay of one suspended table, given by its lower-case name in apply's state.
    case catchUp(NameKey)
  }

  let target: SQLiteTarget
  let scope: Scope
  let reader: ApplyReader
  private(set) var groupStart: Checkpoint
  /// The memory that the table definitions in this group's schema changes take, in bytes.
  var definitionBytes = 0
  /// The errors of the records that the target refuses, by the record's position in the trail. Apply suspends the table
  /// of such a record.
  let refusals: [Position: CairnError]
  /// For each position at which the catch-up's table is suspended: the later refresh in the trail with which the table
  /// continues.
  let overtaken: [Position: ResyncPoint]
  let database: Database
  let state: SQLiteApplyState
  let options: ApplyOptions
  let name: TrailName
  let isUTF16: Bool
  let ahead: TrailAhead
  /// The conflict handling of two-way replication; nil if the apply is one-way.
  let desk: Desk?
  /// The resolution of conflicts; nil if the apply is one-way.
  private(set) lazy var resolver = desk.map { RowResolver(self, $0, name, target.clock) }
  /// The trail's transactions in quarantine; nil while one of them is being retried.
  let shelf: QuarantineStore?
  /// The object that chooses the statements of the source that apply executes instead of writing their rows. Nil: apply
  /// writes all rows.
  let statements: StatementSession?
  let cursor: TrailCursor
  var group = ApplyGroup()
  var openTables = SegmentTables<SQLiteApplyTable>()
  /// The table's name at the present position in the trail, in a catch-up; nil before the table was created.
  var catchUpName: String?
  var halt: Place?

  var refreshes = RefreshTracker<SQLiteApplyTable>()
  var changedRules: ChangedRules
  var conflicts = 0
  /// Whether apply itself makes the present schema change. False if an operator has already made it at the target.
  var isShapeMade = false
  var early = OutOfOrderChanges()
  var parked = ParkedRows<SQLiteApplyTable, Value>()
  var before: [ColumnView] = []
  var after: [ColumnView] = []
  var madeBefore = ByteWriter(capacity: 256)
  var madeAfter = ByteWriter(capacity: 256)

  private var idAtHand: UInt64?

  /// Opens the trail in `folder`.
  ///
  /// - Throws: `checkpoint-foreign` if the checkpoint is not in the trail.
  init(
    _ target: SQLiteTarget, trail folder: String, at checkpoint: Checkpoint?, number: UInt64, scope: Scope = .main,
    refusals: [Position: CairnError] = [:], overtaken: [Position: ResyncPoint] = [:], desk: Desk? = nil,
    shelf: QuarantineStore? = nil, statements: StatementSession? = nil
  ) throws {
    (self.target, self.scope, self.refusals, self.overtaken) = (target, scope, refusals, overtaken)
    (self.desk, self.shelf, self.statements) = (desk, shelf, statements)
    statements?.begin()
    cursor = TrailCursor(after: checkpoint == nil ? target.options.begin.number : number)
    (database, state, options) = (target.database, target.state, target.options)
    (name, isUTF16) = (target.trail, target.isUTF16)
    reader = try ApplyReader.open(folder: folder, for: checkpoint, options: options, to: .sqlite)
    groupStart = reader.checkpoint
    ahead = TrailAhead(reader: reader, cursor: cursor, folder: folder, rules: options.rules, engine: .sqlite)
    changedRules = ChangedRules(options.changedRules, besides: target.adopted)
    if case .catchUp(let key) = scope, let waiting = target.tables[key]?.waiting {
      catchUpName = waiting.from == nil ? waiting.names.first : nil
    }
  }

  // MARK: Groups

  /// Begins a write transaction, and applies transactions until a commit is due, none after transaction `limit`. The
  /// caller commits. Nil, without a transaction, if there was nothing to apply.
  func applyGroup(through limit: UInt64 = .max, _ stop: StopSignal) throws -> ApplyGroup? {
    try reader.decodingGroup {
      let group = try readGroup(through: limit, stop)
      if group != nil { try resolver?.judge() }
      return group
    }
  }

  private(set) lazy var gate = ClockGate(name, target.clock, skewMicrosecondsMax: options.skewMicrosecondsMax)

  // MARK: Tables

  func table(_ id: UInt64) throws -> SQLiteApplyTable? {
    if let table = openTables.find(id, in: reader.position.segment) { return table }
    do {
      let table = try openedAtOnce(id)
      openTables.note(table, id)
      return table
    } catch let refusal as Unopened {
      // From this record on, the table is suspended; the rest of the group is applied.
      if refusal.isUndone, scope == .main, idAtHand == id {
        try beginToWait(schema(id), refusal.error)
        return nil
      }
      throw Refusal(position: reader.position, error: refusal.error)
    }
  }

  /// The error for a target table that does not fit the trail's schema.
  private struct Unopened: Error {
    let error: CairnError
    /// Whether the failed attempt to open the table left the target and apply's state unchanged.
    let isUndone: Bool
  }

  /// Opens a table; nil if apply skips it. If opening fails, undoes its effects and throws ``Unopened``.
  private func openedAtOnce(_ id: UInt64) throws -> SQLiteApplyTable? {
    let (tables, areDue) = (target.tables, target.guardsAreDue)
    let version = try database.integer("PRAGMA schema_version")
    try database.execute("SAVEPOINT cairn_opening")
    do {
      let table = try opened(id)
      try database.execute("RELEASE cairn_opening")
      return table
    } catch {
      let why = (error as? Refusal)?.error ?? error as? CairnError
      guard let why, why.suspendsTable else { throw error }
      let isSame = try database.integer("PRAGMA schema_version") == version
      try database.execute("ROLLBACK TO cairn_opening")
      try database.execute("RELEASE cairn_opening")
      if isSame { (target.tables, target.guardsAreDue) = (tables, areDue) }
      throw Unopened(error: why, isUndone: isSame)
    }
  }

  private func opened(_ id: UInt64) throws -> SQLiteApplyTable? {
    let schema = try schema(id)
    let targetName = self.targetName(of: schema)
    guard isInScope(targetName), let part = try part(of: schema) else { return nil }
    let mapping = try underNameThere(try mapping(part.schema))
    let move = desk?.move(of: schema)
    if let move, try target.shape.exists(move.former.name) { throw move.taken(schema, at: database.path) }
    try meet(mapping, key(targetName))
    if move == nil { try adopt(id, mapping) }
    var known = target.tables[key(targetName)] ?? .init()
    if move == nil { try claim(&known, for: mapping) }
    let name = mapping.target.name
    try options.checkAllowed("", name, in: .sqlite)
    let claim = try claimRows(of: mapping.source, as: name)
    // In a history, a copy replaces nothing, so the changes before it are applied too.
    let isAwaited = known.isAwaited && mapping.source.treatment?.isHistory != true
    if known.claim != claim || known.isAwaited != isAwaited {
      if !isAwaited, known.isAwaited { (known.refreshing, known.isAwaited) = (nil, false) }
      known.claim = claim
      // Until the trail uses the new name too, apply's state has the former one.
      try save(move == nil ? name : targetName, known)
    }
    let columns = Set(
      try database.query("SELECT name FROM pragma_table_xinfo(?)", [.text(name)]).map { $0[0].string.sqliteKey })
    let there = mapping.target.columns.indices.filter {
      columns.contains(mapping.target.columns[$0].name.sqliteKey)
    }
    if options.policy(isCreated: known.isCreated) != .ignore {
      guard there.count == mapping.target.columns.count else { throw try lacking(mapping, there) }
    } else if columns.isEmpty {
      target.progress.note("table \(name) is left out: the target lacks it, and 'ddl' is ignore")
      return nil
    }
    for (index, column) in mapping.target.columns.enumerated() where !there.contains(index) {
      target.progress.note(
        "column \(name).\(column.name) is left out: the target lacks it, and 'ddl' is ignore")
    }
    try target.fired.keepInStep()
    try target.keepHooked()
    try target.noteQuietTriggers(of: name)
    if options.goesBothWays("", name) {
      try KeyCheck.check(mapping.source, mapping.target, in: .sqlite(database), includes: options.goesBothWays)
      try options.twoWay?.limits.movedKeys.check(mapping.source, mapping.target, from: self.name)
    }
    let table = SQLiteApplyTable(
      mapping, state: known, database: database, there: there, image: (schema, part.positions),
      localWrites: try localWrites(of: mapping), goesBothWays: options.goesBothWays("", name))
    table.mayCollide = try table.goesBothWays && table.hasOtherUniqueValues()
    return table
  }

  private func isInScope(_ name: String) -> Bool {
    switch scope {
    case .main: target.tables[name.sqliteKey]?.waiting == nil
    case .catchUp: catchUpName?.sqliteKey == name.sqliteKey
    }
  }

  /// In a catch-up, returns the mapping with the name that the table has at the target. Otherwise, returns the mapping
  /// unchanged.
  func underNameThere(_ mapping: TableMapping) throws -> TableMapping {
    guard case .catchUp(let key) = scope, let names = target.tables[key]?.waiting?.names else { return mapping }
    let name = mapping.target.name
    if try target.shape.exists(name) {
      // Another table has this name by now.
      let isTaken = target.tables.contains { $0.key != key && $0.value.waiting?.holds(name) ?? false }
      guard isTaken, let later = try names.last(where: target.shape.exists) else { return mapping }
      return mapping.named(later)
    }
    return try names.first(where: target.shape.exists).map(mapping.named) ?? mapping
  }

  func key(_ name: String) -> NameKey { if case .catchUp(let key) = scope { key } else { name.sqliteKey } }

  /// Stores the name of the PostgreSQL table that is replicated to a target table. Does nothing for an SQLite source.
  ///
  /// - Throws: `name-collision` if another PostgreSQL table is already replicated to that table.
  func claim(_ known: inout SQLiteApplyState.Table, for mapping: TableMapping) throws {
    guard mapping.source.engine == .postgres else { return }
    let name = mapping.source.fullName
    if let owner = owner(besides: mapping.source) {
      throw TableMapping.collision(owner, name, at: mapping.target.name)
    }
    guard known.source.isEmpty || known.source.hasSameBytes(as: name) else {
      throw TableMapping.collision(known.source, name, at: mapping.target.name)
    }
    known.source = name
  }

  func save(_ name: String, _ table: SQLiteApplyState.Table) throws {
    let key = key(name)
    var table = table
    table.isGuarded = options.isGuarded("", name)
    target.guardsAreDue = true
    try state.save(table.waiting?.names.last ?? name, table)
    target.tables[key] = table
    openTables.forgetAll()
  }

  /// Removes apply's state of a table. A suspended table stays listed as suspended.
  func forget(_ name: String) throws {
    let key = key(name)
    target.guardsAreDue = true
    if let waiting = target.tables[key]?.waiting {
      var known = SQLiteApplyState.Table()
      known.waiting = waiting
      try save(name, known)
    } else {
      try state.forget(name)
      target.tables[key] = nil
    }
    openTables.forgetAll()
  }

  /// Drops the TEMP triggers of apply's connection before a schema change.
  func releaseTriggers() throws {
    try target.fired.release()
    try target.releaseHooks()
    forgetShapes()
  }

  func forgetShapes() { openTables.forgetAll() }
}

// The steps of a group that depend on SQLite.
extension SQLiteReplay: GroupApplier {
  typealias Target = SQLiteReplay
  var checksClocks: Bool { scope == .main }
  static let engine = Engine.sqlite
  var endsGroup: Bool { halt != nil }

  func openGroup(_ stop: StopSignal) throws {
    (groupStart, definitionBytes) = (reader.checkpoint, 0)
    cursor.start = groupStart
    guard try target.begin(stop) else { throw ApplyStopped() }
    if case .catchUp(let key) = scope, let waiting = target.tables[key]?.waiting {
      try state.checkWaiting(waiting.names.last ?? key.text, at: groupStart, waiting.from)
    }
  }

  func beginChange(_ stop: StopSignal) throws { try target.beginRelay(group.last, at: reader.position) }

  func endTransaction(_ stop: StopSignal) throws {
    try endChunk()
    try resolver?.resolve(stop)
    try settleEarly()
    if !parked.isEmpty { try settleParked() }
  }

  // MARK: Records

  func reach(_ record: Record) throws {
    if refreshes.aside != nil {
      if case .refreshRow = record {} else { try endChunk() }
    }
    try leaveRefused(record)
    idAtHand = record.schemaID
  }

  func take(_ change: ChangeView) throws {
    if try isReplayed(change) { return }
    guard let table = try table(change.schemaID), !leavesOut(change, table) else { return group.skipChange() }
    if change.treatment.contains(.refused) {
      try refuse(table)
      return group.skipChange()
    }
    if try defers(change, table) { return }
    try resolvingLocalWrites(table) { try apply(change, table) }
  }

  func take(_ id: UInt64, _ image: ImageView) throws {
    guard let table = try table(id), !table.state.isAwaited, try !keepsOwn(id, image, table) else {
      return group.skipChange()
    }
    before.removeAll(keepingCapacity: true)
    try decode(image, into: &after, &madeAfter, table)
    try checkWhole(table)
    try resolvingLocalWrites(table) { try takeCopied(table) }
    refreshes.noteRow()
  }

  func take(_ refresh: Refresh) throws {
    guard let table = try table(refresh.schemaID) else { return }
    let source = try schema(refresh.schemaID)
    // Apply's state still has the table under its former name.
    if scope == .main, let move = desk?.move(of: source) {
      throw Refusal(position: reader.position, error: move.unmade(source, at: database.path))
    }
    try apply(refresh, table)
  }

  func foreignKeys() throws -> RowNames.Catalog { try SQLiteApplyTable.foreignKeys(database) }
}
