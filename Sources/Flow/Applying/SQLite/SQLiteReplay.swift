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

  let file: SQLiteTarget
  let cursor: TrailCursor
  let tables: SQLiteTables
  let rows: SQLiteRows
  let target: SQLiteConflictTarget
  let schema: SQLiteSchema
  let refresh: SQLiteRefresh
  /// The resolution of conflicts; nil if the apply is one-way.
  let resolver: RowResolver<SQLiteConflictTarget>?
  /// The trail's transactions in quarantine; nil while one of them is being retried.
  let shelf: QuarantineStore?
  /// The object that chooses the statements of the source that apply executes instead of writing their rows. Nil: apply
  /// writes all rows.
  let statements: StatementSession?
  private let replayed: SQLiteStatementReplay?
  private(set) var groupStart: Checkpoint
  var group = ApplyGroup()

  /// Opens the trail in `folder`.
  ///
  /// - Throws: `checkpoint-foreign` if the checkpoint is not in the trail.
  init(
    _ file: SQLiteTarget, trail folder: String, at checkpoint: Checkpoint?, number: UInt64, scope: Scope = .main,
    refusals: [Position: CairnError] = [:], overtaken: [Position: ResyncPoint] = [:], desk: Desk? = nil,
    shelf: QuarantineStore? = nil, statements: StatementSession? = nil
  ) throws {
    (self.file, self.shelf, self.statements) = (file, shelf, statements)
    statements?.begin()
    let options = file.options
    cursor = TrailCursor(after: checkpoint == nil ? options.begin.number : number)
    let reader = try ApplyReader.open(folder: folder, for: checkpoint, options: options, to: .sqlite)
    groupStart = reader.checkpoint
    let ahead = TrailAhead(reader: reader, cursor: cursor, folder: folder, rules: options.rules, engine: .sqlite)
    tables = SQLiteTables(file, scope, reader, cursor, ahead, desk)
    rows = SQLiteRows(tables)
    target = SQLiteConflictTarget(rows)
    resolver = desk.map { [target] in RowResolver(target, $0, file.trail, file.clock) }
    schema = SQLiteSchema(rows, refusals: refusals, overtaken: overtaken)
    refresh = SQLiteRefresh(schema, resolver)
    replayed = statements.map { [schema] in SQLiteStatementReplay($0, schema) }
  }

  var scope: Scope { tables.scope }
  var reader: ApplyReader { tables.reader }
  var database: Database { file.database }
  var options: ApplyOptions { file.options }
  var name: TrailName { file.trail }
  var desk: Desk? { tables.desk }
  var refusals: [Position: CairnError] { schema.refusals }
  var halt: Place? { tables.halt }

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

  private(set) lazy var gate = ClockGate(name, file.clock, skewMicrosecondsMax: options.skewMicrosecondsMax)

  // MARK: Two-way

  /// Reads which rows applications have changed: from this database's own trail, and from the journal. Runs in the
  /// group's transaction.
  ///
  /// - Throws: ``LocalAhead`` if the journal has too many rows that the trail lacks.
  func inform(_ desk: Desk) throws {
    let window = desk.shared.window
    try desk.lookAtKeys { try SQLiteApplyTable.foreignKeys(database) }
    _ = try window.catchUp(rowNames: desk.ownNames, learn: desk.names.learn)
    if desk.learnColumns() { tables.forgetShapes() }
    guard case .journal(let rows) = desk.shared.local else { return desk.inform() }
    var uncaptured: Set<RowName> = []
    let isShown = try rows(database, window.ownReach.sourcePosition) { schema, values in
      if let name = desk.names.name(schema, values) { uncaptured.insert(name) }
      uncaptured.formUnion(desk.names.parents(schema, values, from: nil).map(\.name.reference))
      uncaptured.formUnion(desk.names.alternates(schema, values))
    }
    guard isShown else { throw LocalAhead() }
    if uncaptured.isEmpty {
      if let number = desk.shared.noteCaptured() { try StoredReturns(database).close(by: number) }
      desk.shared.noteOwnRead(about: name)
    }
    desk.inform(uncaptured: uncaptured)
  }

  /// Returns whether a change is resolved as a possible conflict at the end of its transaction.
  private func defers(_ change: ChangeView, _ table: SQLiteApplyTable) throws -> Bool {
    guard let resolver, let schema = reader.given(change.schemaID) else { return false }
    do { return try resolver.defers(change, schema, table) } catch let error as CairnError
      where error.code == .tableRefused
    { throw Refusal(position: reader.position, error: error) }
  }

  /// Returns whether apply skips a row of a refresh because the target's own version of the row must stay.
  private func keepsOwn(_ id: UInt64, _ image: ImageView, _ table: SQLiteApplyTable) throws -> Bool {
    guard let resolver, let schema = reader.given(id) else { return false }
    return try resolver.keepsOwn(image, schema, table)
  }
}

// The steps of a group that depend on SQLite.
extension SQLiteReplay: GroupApplier {
  static let engine = Engine.sqlite
  var checksClocks: Bool { scope == .main }
  var endsGroup: Bool { tables.halt != nil }
  var oneWay: SQLiteRows { rows }
  var takesDecisions: Bool { scope == .main && shelf != nil }
  var openTables: SegmentTables<SQLiteApplyTable> {
    get { tables.openTables }
    set { tables.openTables = newValue }
  }
  var refreshes: RefreshTracker<SQLiteApplyTable> {
    get { refresh.tracker }
    set { refresh.tracker = newValue }
  }
  var changedRules: ChangedRules {
    get { schema.changedRules }
    set { schema.changedRules = newValue }
  }
  var isShapeMade: Bool {
    get { schema.isShapeMade }
    set { schema.isShapeMade = newValue }
  }

  func openGroup(_ stop: StopSignal) throws {
    groupStart = reader.checkpoint
    cursor.start = groupStart
    schema.definitionBytes = 0
    guard try file.begin(stop) else { throw ApplyStopped() }
    if case .catchUp(let key) = scope, let waiting = file.tables[key]?.waiting {
      try file.state.checkWaiting(waiting.names.last ?? key.text, at: groupStart, waiting.from)
    }
  }

  func beginChange(_ stop: StopSignal) throws { try file.beginRelay(group.last, at: reader.position) }

  func endTransaction(_ stop: StopSignal) throws {
    try refresh.endChunk()
    try resolver?.resolve(stop)
    try rows.settleEarly()
    if !rows.parked.isEmpty { try rows.settleParked() }
  }

  // MARK: Records

  func table(_ id: UInt64) throws -> SQLiteApplyTable? { try schema.table(id) }

  func reach(_ record: Record) throws {
    if refresh.tracker.aside != nil {
      if case .refreshRow = record {} else { try refresh.endChunk() }
    }
    try schema.leaveRefused(record)
    schema.idAtHand = record.schemaID
  }

  func take(_ change: ChangeView) throws {
    if let replayed, try replayed.isReplayed(change) { return }
    guard let table = try schema.table(change.schemaID), !leavesOut(change, table) else { return group.skipChange() }
    if change.treatment.contains(.refused) {
      try tables.refuse(table)
      return group.skipChange()
    }
    if try defers(change, table) { return }
    try rows.resolvingLocalWrites(table) {
      try rows.apply(change, table)
      if change.operation == .truncate { try refresh.truncate(table) }
    }
  }

  func take(_ id: UInt64, _ image: ImageView) throws {
    guard let table = try schema.table(id), !table.state.isAwaited, try !keepsOwn(id, image, table) else {
      return group.skipChange()
    }
    try rows.decode(copied: image, table)
    try rows.checkWhole(table)
    try rows.resolvingLocalWrites(table) { try refresh.takeCopied(table) }
    refresh.tracker.noteRow()
  }

  func take(_ refresh: Refresh) throws {
    let id = refresh.schemaID
    guard let table = try schema.table(id) else { return }
    let source = try schema.schema(id)
    // Apply's state still has the table under its former name.
    if scope == .main, let move = desk?.move(of: source) {
      throw Refusal(position: reader.position, error: move.unmade(source, at: database.path))
    }
    let begun = try self.refresh.apply(refresh, table, isLedElsewhere: isLedElsewhere(id))
    if let begun { noteBegin(of: id, begun.table.source, begun.method) }
  }

  func betweenRows(of id: UInt64, _ body: () throws -> Void) throws { try body() }

  func apply(_ ddl: DDL) throws { try schema.apply(ddl) }

  func foreignKeys() throws -> RowNames.Catalog { try SQLiteApplyTable.foreignKeys(database) }
}
