import Changes
import Mapping
import SystemKit
import Trails

/// The steps in which a replay reads transactions of the trail and hands their records to its target, in groups. Both
/// engines have these steps in common; the requirements are what each engine does in them.
protocol GroupApplier: AnyObject {
  /// The object that writes rows for the resolution of conflicts.
  associatedtype Target: ApplyTarget
  /// The object that writes rows which applications at a one-way target may write too.
  associatedtype OneWay: OneWayTarget where OneWay.Table == Target.Table
  typealias Desk = TwoWaySession<Target.Table>
  static var engine: Engine { get }
  /// The number of changes after which a group is committed, if the conf has none.
  static var commitRowsUsual: Int { get }

  var name: TrailName { get }
  var options: ApplyOptions { get }
  var reader: ApplyReader { get }
  /// The conflict handling of two-way replication; nil if the apply is one-way.
  var desk: Desk? { get }
  /// The resolution of conflicts; nil if the apply is one-way.
  var resolver: RowResolver<Target>? { get }
  /// The object that chooses the statements of the source that apply executes; nil: apply writes all rows.
  var statements: StatementSession? { get }
  var oneWay: OneWay { get }
  /// Whether apply carries out decisions of the operator about single rows here.
  var takesDecisions: Bool { get }
  var gate: ClockGate { get }
  var cursor: TrailCursor { get }
  var group: ApplyGroup { get set }
  var openTables: SegmentTables<Target.Table> { get set }
  var refreshes: RefreshTracker<Target.Table> { get set }
  var changedRules: ChangedRules { get set }
  /// Whether apply itself makes the present schema change. False if the target's table already had the change, for
  /// example because an operator made it.
  var isShapeMade: Bool { get set }
  /// Whether the clocks of transactions are checked here. A two-way apply checks them when it reads ahead.
  var checksClocks: Bool { get }
  /// Whether the group must be committed after the present transaction, whatever its size.
  var endsGroup: Bool { get }

  // MARK: A group

  /// Prepares the target for a group, before the group's first record.
  func openGroup(_ stop: StopSignal) throws
  func inform(_ desk: Desk) throws
  /// Returns whether a transaction is in quarantine, or joins it now.
  func putAside(_ header: TransactionHeader) throws -> Bool
  /// Prepares the target for a record that changes it, in a transaction that is not skipped.
  func beginChange(_ stop: StopSignal) throws
  func endTransaction(_ stop: StopSignal) throws

  // MARK: Records

  /// Returns the open table of a schema record, and opens it if necessary; nil if apply skips the table.
  func table(_ id: UInt64) throws -> Target.Table?
  /// Prepares for a record that is applied.
  func reach(_ record: Record) throws
  func take(_ change: ChangeView) throws
  func take(_ id: UInt64, _ image: ImageView) throws
  func take(_ row: WaitingRow) throws
  func take(_ refresh: Refresh) throws
  func take(_ sequence: SequenceState) throws
  /// Ends the writes of copied rows, then runs a body that applies a record of a table.
  ///
  /// - Parameter id: The id of the schema of the record's table.
  func betweenRows(of id: UInt64, _ body: () throws -> Void) throws
  /// Ends all writes of rows, before a schema change.
  func endRows() throws
  func apply(_ ddl: DDL) throws
  func foreignKeys() throws -> RowNames.Catalog
}

extension GroupApplier {
  /// The number of records between two looks at the stop signal.
  private var recordsBetweenLooks: Int { 256 }

  /// Applies transactions until a commit is due, which the caller makes. Nil if there was nothing to apply.
  ///
  /// - Parameters:
  ///   - limit: The last transaction to apply.
  ///   - most: The number of transactions to apply at most.
  func readGroup(through limit: UInt64, count most: UInt64 = .max, _ stop: StopSignal) throws -> ApplyGroup? {
    gate.beginGroup()
    guard cursor.whole < limit else { return nil }
    let (last, isOver) = cursor.whole.addingReportingOverflow(most)
    let limits = ApplyGroup.Limits(
      rows: options.commitRows ?? Self.commitRowsUsual, milliseconds: options.commitMilliseconds,
      last: isOver ? limit : min(limit, last))
    (cursor.limit, cursor.refreshes) = (limit, nil)
    guard var record = try next() else { return nil }
    let begun = Clock.monotonicMilliseconds
    group = ApplyGroup()
    try openGroup(stop)
    if let desk {
      desk.beginGroup()
      if try desk.informsEarly { try inform(desk) }
    }
    var count = 0
    while true {
      // A large transaction is committed only at its end, so the next run does it again.
      count += 1
      if count % recordsBetweenLooks == 0, stop.isSet { throw ApplyStopped() }
      switch record {
      case .begin(let header): try begin(header)
      case .commit(_, let changes):
        try end(changes, stop)
        let isDue = endsGroup || group.isDue(limits, age: Clock.monotonicMilliseconds - begun)
        if !isDue, let following = try next() {
          record = following
          guard case .begin(let header) = following, !group.takes(header) else { continue }
          cursor.ahead = following
        }
        return group
      default: try applyOrSkip(record, stop)
      }
      guard let following = try next() else {
        throw CairnError(
          .trailDamaged, "trail \(name) ends inside transaction \(group.last.number)",
          hint: "run 'cairn trail verify \(name)'", remedy: .bug)
      }
      record = following
    }
  }

  private func begin(_ header: TransactionHeader) throws {
    if checksClocks, desk == nil { try gate.check(header) }
    try desk?.begin(header, at: reader.position)
    group.last = header
    cursor.begin(header, of: name.description, at: reader.position)
    if try options.isOwn(header) || putAside(header) { cursor.skip() }
  }

  private func end(_ changes: UInt64, _ stop: StopSignal) throws {
    try statements?.checkIdle()
    group.add(changes: Int(clamping: changes), areSkipped: cursor.isSkipped)
    try endTransaction(stop)
    cursor.end()
  }

  private func applyOrSkip(_ record: Record, _ stop: StopSignal) throws {
    if record.isOfChanges {
      group.isOfChanges = true
      if let desk, !desk.isInformed { try inform(desk) }
      if !cursor.isSkipped { try beginChange(stop) }
    }
    if !cursor.isSkipped { return try apply(record, stop) }
    if case .schema(let id, _) = record { openTables.forget(id, in: reader.position.segment) }
  }

  private func next() throws -> Record? {
    defer { cursor.ahead = nil }
    return try cursor.ahead ?? reader.next()
  }

  private func apply(_ record: Record, _ stop: StopSignal) throws {
    // A statement may have millions of changes, so this comes first.
    if case .change(let change) = record, let statements, try statements.passes(change, reader) { return }
    try reach(record)
    cursor.isCopiedRow = if case .refreshRow = record { true } else { false }
    if !options.refused.decisions.isEmpty, try isDecided(record) { return }
    switch record {
    case .statement(let statement): try statements?.offer(statement, at: reader.position)
    case .statementEnd(let end): try statements?.end(end)
    case .change(let change): try take(change)
    case .refreshRow(let id, let image):
      try statements?.checkIdle()
      try take(id, image)
    case .waitingRow(let row):
      try statements?.checkIdle()
      try take(row)
    case .refresh(let refresh):
      try statements?.checkIdle()
      try take(refresh)
    case .ddl(let ddl):
      try statements?.checkIdle()
      try endRows()
      // A schema change may take long, and a transaction may have many.
      if stop.isSet { throw ApplyStopped() }
      if let resolver, reader.takesNameAway(ddl) { try resolver.resolve(stop) }
      isShapeMade = false
      try apply(ddl)
      if let desk {
        if isShapeMade { desk.learn(ddl, reader.schema(ddl.before), reader.schema(ddl.after)) }
        desk.shared.noteShapes()
        try desk.lookAtKeys(foreignKeys)
      }
    case .schema(let id, _): openTables.forget(id, in: reader.position.segment)
    case .sequence(let sequence): try take(sequence)
    case .begin, .commit, .progress, .marker: break
    case .reserved(let kind, _):
      throw CairnError(
        .trailVersion, "record kind \(kind) at \(reader.position) of trail \(name) is unknown to this version",
        hint: "use a newer version of Cairn")
    }
  }

  func take(_ row: WaitingRow) throws { try resolve(row) }

  // SQLite has no sequences, and has written each row at once.
  func take(_ sequence: SequenceState) throws {}

  func endRows() throws {}

  // MARK: What a record means for its table

  /// Resolves the conflicts of a row that waits, at the source, for a unique value.
  func resolve(_ row: WaitingRow) throws {
    guard let resolver, let schema = reader.given(row.schemaID), let table = try table(row.schemaID),
      !table.isAwaited
    else { return }
    try resolver.takeWaiting(row, schema, table)
  }

  /// Returns the schema record with this id, which the present segment must have.
  func schema(_ id: UInt64) throws -> TableSchema { try reader.schema(id, of: name) }

  /// Returns whether apply skips a change, because a refresh will bring its row.
  func leavesOut(_ change: ChangeView, _ table: Target.Table) -> Bool {
    options.leavesOut(change, in: cursor.present, isAwaited: table.isAwaited, goesBothWays: table.goesBothWays)
  }

  /// Returns whether a changed rule sends a table's rows to another target table, which by the options must be empty.
  func isLedElsewhere(_ id: UInt64) -> Bool {
    reader.given(id).map { changedRules.isLedElsewhere($0, options, to: Self.engine) } ?? false
  }

  /// Notes that a refresh of a table begins, to report it after the commit.
  ///
  /// - Parameter source: The table's schema under the conf's rules.
  func noteBegin(of id: UInt64, _ source: TableSchema, _ method: Refresh.Method) {
    guard let given = reader.given(id), method != .rows || source.treatment?.isHistory == true else { return }
    refreshes.begun[given.plainName] = cursor.present
    changedRules.finish(given)
  }
}
