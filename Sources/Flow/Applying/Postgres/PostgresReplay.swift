import Changes
import Conflicts
import Mapping
import PostgresKit
import SystemKit
import Trails
import Versions

/// Reads a trail from one checkpoint on, and writes its transactions to a PostgreSQL target over one connection.
///
/// Rows are sent many at a time. If the target refuses one, a new replay sends them one by one, to find the row.
///
/// A table whose schema change cannot be made is suspended. A *catch-up*, which is another replay, continues it later.
final class PostgresReplay {
  /// The default number of rows after which apply commits a group.
  static let commitRowsUsual = 20_000
  let connection: PostgresConnection
  let name: TrailName
  let options: PostgresApply.Options
  let clock: Clock
  let progress: ApplyProgress
  let state: PostgresApplyState
  let reader: ApplyReader
  let sink: PostgresSink
  let isCareful: Bool
  let folder: String
  /// The conflict handling of two-way replication; nil if the apply is one-way.
  let desk: Desk?
  private(set) lazy var resolver = desk.map { RowResolver(self, $0, name, clock) }
  /// The trail's transactions in quarantine; nil if this replay puts none there.
  let shelf: QuarantineStore?
  /// The quarantined transaction that this replay retries; nil for any other replay.
  let retried: QuarantinedTransaction?
  /// The object that chooses the statements of the source that apply executes instead of writing their rows. Nil: apply
  /// writes all rows.
  let statements: StatementSession?
  let pruning: ConflictPruning

  /// The errors of the records that the target refuses, by the record's position in the trail. Apply suspends the table
  /// of such a record.
  let refusals: [Position: CairnError]
  /// For each position at which a table of the catch-up is suspended: the later refresh in the trail with which the
  /// table continues.
  let overtaken: [Position: ResyncPoint]

  private var checkpoint: Checkpoint?
  var cursor: TrailCursor
  var group = ApplyGroup()
  /// The last transaction that the target had applied when this replay began; 0 in a catch-up.
  private let wholeNumber: UInt64
  private(set) var applied: UInt64
  var tables: [NameKey: PostgresApplyState.Table]
  /// The suspended tables that a catch-up applies, or that any other replay skips.
  private(set) var waiting: [PostgresApplyState.Waiting]
  /// The tables of a catch-up that this group suspends again, or that continue with a refresh later in the trail. The
  /// keys are their names in apply's state.
  private var halted: [NameKey: Halt] = [:]
  var scope: ReplayScope
  /// In a catch-up: the last transaction that is applied to every suspended table outside of the catch-up; nil if there
  /// is no such table.
  private let heldElsewhere: UInt64?
  /// The statements that apply committed before the transactions that need them, such as new enum labels.
  let madeAhead: Set<NameKey>
  var scripts: [NameKey: String] = [:]
  /// The objects of the server that table definitions from the trail may use.
  var reach: ServerReach
  let own: OwnStatements
  /// The transaction number in the applied note of this group. Nil before the group's transaction begins at the target.
  private(set) var head: UInt64?
  private(set) var groupNumber: UInt64 = 0
  /// For each table of this group that runs code which an untrusted role may change: the check that the code is
  /// unchanged.
  private var watched: [OwnersWatch] = []
  var checked = GroupChecks()
  var transaction: UInt64?
  var openTables = SegmentTables<PostgresApplyTable>()
  private var byKey: [NameKey: PostgresApplyTable] = [:]
  private var tableCount = 0

  var before = RowText()
  var after = RowText()
  var early = OutOfOrderChanges()
  var outOfOrderRows = OutOfOrderRows()
  var isReread = false
  var parked = ParkedRows<PostgresApplyTable, String?>()
  var unchecked = DeferredUniqueChecks()
  var sequences = SequenceUpkeep()
  var refreshes = RefreshTracker<PostgresApplyTable>()
  var changedRules: ChangedRules
  var conflicts = 0
  /// Whether apply itself has made the present schema change. False if the target's table already had the change, for
  /// example because an operator made it.
  var isShapeMade = false
  private var guardsAreDue = false
  var misfitsNulled: UInt64 = 0
  /// The rows that COPY has sent since the server's last answer, to send them again one by one after an error.
  var piece = ByteWriter(capacity: 1 << 16)
  var pieceTable: PostgresApplyTable?

  /// Reads apply's state, and opens the trail.
  ///
  /// - Parameter catchUp: The suspended tables to apply; nil: every table that is not suspended.
  /// - Throws: ``PostgresError``, and `checkpoint-foreign` if the checkpoint is of another trail, or the first segment
  ///   to read is purged.
  init(
    _ connection: PostgresConnection, trail folder: String, name: TrailName, options: PostgresApply.Options,
    clock: Clock, progress: ApplyProgress, isCareful: Bool, madeAhead: Set<NameKey>,
    refusals: [Position: CairnError], catchUp: [PostgresApplyState.Waiting]? = nil, heldElsewhere: UInt64? = nil,
    overtaken: [Position: ResyncPoint] = [:], desk: Desk? = nil, shelf: QuarantineStore? = nil,
    retried: QuarantinedTransaction? = nil, statements: StatementSession? = nil, pruning: ConflictPruning = .init()
  ) throws {
    (self.desk, self.shelf, self.retried) = (desk, shelf, retried)
    (self.statements, self.pruning) = (statements, pruning)
    statements?.begin()
    (self.connection, self.name, self.options, self.madeAhead) = (connection, name, options, madeAhead)
    reach = ServerReach(options.scope, connection)
    (self.folder, self.overtaken, self.heldElsewhere) = (folder, overtaken, heldElsewhere)
    (self.clock, self.progress, self.isCareful, self.refusals) = (clock, progress, isCareful, refusals)
    changedRules = ChangedRules(options.changedRules, besides: progress.snapshot.rulesAdopted)
    state = PostgresApplyState(connection, of: name)
    sink = PostgresSink(connection)
    own = OwnStatements(PostgresStateDatabase(connection: connection))
    let stored = catchUp == nil ? try state.checkpoints.checkpoint(of: name) : nil
    if let first = catchUp?.first {
      (checkpoint, applied) = (first.table.checkpoint, first.table.number)
    } else if let retried {
      (checkpoint, applied) = (retried.border, retried.number - 1)
    } else {
      (checkpoint, applied) = (stored?.checkpoint, stored?.number ?? options.begin.number)
    }
    cursor = TrailCursor(after: applied)
    wholeNumber = stored?.number ?? 0
    reader = try ApplyReader.open(folder: folder, for: checkpoint, options: options, to: .postgres)
    tables = try state.tables()
    waiting = try catchUp ?? state.waiting(of: name)
    scope = ReplayScope(waiting: waiting, isCatchUp: catchUp != nil)
  }

  var shape: PostgresSchemaChanges {
    PostgresSchemaChanges(
      connection: connection, state: state, progress: progress, tables: tables,
      waiting: Set(waiting.map(\.source.nameKey)), isCatchUp: scope.isCatchUp, proof: proof, scope: options.scope)
  }

  var proof: OwnersProof { OwnersProof(connection: connection, options: options) }

  func reload() throws {
    tables = try state.tables()
    changedRules.leave(progress.snapshot.rulesAdopted)
    if !scope.isCatchUp {
      waiting = try state.waiting(of: name)
      scope = ReplayScope(waiting: waiting, isCatchUp: false)
    }
    byKey.removeAll()
    openTables.forgetAll()
  }

  var awaitsCopies: Bool {
    options.askedBehind > 0 && applied <= options.askedBehind || tables.values.contains(where: \.isAwaited)
  }

  // MARK: Groups

  private struct Halt {
    let place: String
    let from: Position
    let checkpoint: Checkpoint
    let number: UInt64
  }

  private(set) lazy var gate = ClockGate(name, clock, skewMicrosecondsMax: options.skewMicrosecondsMax)

  /// Applies the available transactions in one commit: at most `count`, and none after transaction `limit`. Returns
  /// false if there are none.
  ///
  /// After an error, only ``abandon()`` may be called.
  func applyAvailable(
    _ stop: StopSignal, through limit: UInt64 = .max, count most: UInt64 = .max, isCatchUpDone: Bool = false
  ) throws -> Bool {
    try reader.decodingGroup {
      guard let group = try readGroup(through: limit, count: most, stop) else { return false }
      if let desk, group.changes > 0 {
        try endChunk()
        if head != nil { try resolver?.judge() }
        try checkDesk(desk, stop)
      }
      try commit(group, isCatchUpDone: isCatchUpDone && cursor.whole >= limit)
      return true
    }
  }

  /// Begins the target's transaction for a group, and writes the group's applied note into it. By the note, capture
  /// recognizes apply's transaction.
  ///
  /// - Parameter number: The transaction in the note; 0 if the group has no changes.
  func begin(_ header: TransactionHeader, as number: UInt64, hasRows: Bool = true) throws {
    head = number
    groupNumber += 1
    watched.removeAll(keepingCapacity: true)
    checked = GroupChecks()
    try sink.queue(own.begin)
    var note = note(header, as: number)
    if hasRows { note.origin = options.origin(of: header, in: name) }
    try sink.queue(own.message, [note.text])
  }

  private func note(_ header: TransactionHeader, as number: UInt64) -> AppliedNote {
    let known = min(retried == nil ? number : wholeNumber, heldThrough ?? .max)
    return AppliedNote(
      trail: name.description, id: reader.id, number: known, clock: header.clock, position: reader.position)
  }

  /// Returns the applied note of a catch-up's commit. It names the last transaction that all tables then have.
  private func catchUpNote(_ last: TransactionHeader) -> AppliedNote {
    let held = halted.values.map(\.number) + [heldBesides].compactMap { $0 }
    let known = held.reduce(last.number, min)
    return AppliedNote(
      trail: name.description, id: reader.id, number: known, clock: last.clock, position: reader.position)
  }

  /// The transaction after which the target may lack changes, because of suspended tables or the quarantine. Nil if the
  /// target lacks no changes.
  var heldThrough: UInt64? { (waiting.map(\.table.number) + [heldBesides].compactMap { $0 }).min() }

  /// The transaction after which the target may lack changes, because of the quarantine or of suspended tables that
  /// this replay does not apply. Nil if there are no such changes.
  private var heldBesides: UInt64? {
    [heldElsewhere, shelf?.quarantine.heldThrough(besides: retried)].compactMap { $0 }.min()
  }

  private func commit(_ group: ApplyGroup, isCatchUpDone: Bool) throws {
    let (last, number) = (group.last, cursor.whole)
    if head == nil { try begin(last, as: 0, hasRows: false) }
    try endChunk()
    try checkUncheckedRows()
    try proveWatched()
    try sink.settle()
    try sequences.carry(sink, progress, options.scope)
    try pruneConflicts()
    // From this commit on, the database has everything before the noted transaction.
    if scope.isCatchUp, desk != nil, head != 0 {
      try sink.queue(own.message, [catchUpNote(last).text])
    } else if let head, head != 0, head != last.number {
      try sink.queue(own.message, [note(last, as: last.number).text])
    }
    let reached = reader.checkpoint
    if let desk, group.changes == 0 { try noteQuiet(desk) }
    holdWindow()
    if let retried {
      try sink.settle()
      try QuarantineLog(connection).remove(retried.id)
      try connection.execute("COMMIT")
    } else if let checkpoint, !scope.isCatchUp {
      try moveAndCommit(from: checkpoint, to: reached)
    } else {
      try sink.settle()
      if scope.isCatchUp {
        try moveCatchUp(to: reached, isDone: isCatchUpDone)
      } else {
        try state.checkpoints.begin(name, at: reached, number: number, now: clock.microseconds())
      }
      try connection.execute("COMMIT")
    }
    (checkpoint, applied) = (reached, number)
    let isMain = !scope.isCatchUp && retried == nil
    if isMain {
      shelf?.forgetFailed(through: number)
      statements?.committed(through: reached.position)
    }
    let (awaitsCopies, quarantined) = (awaitsCopies, shelf?.count)
    let adopted = changedRules.noteCommit()
    scripts.removeAll()
    if isMain {
      progress.noteLag(last.commitTime, now: clock.microseconds(), isCopying: refreshes.current != nil)
    }
    progress.update {
      refreshes.report(to: &$0)
      $0.misfitsNulled += misfitsNulled
      $0.conflicts += conflicts
      $0.isWaitingForLock = false
      $0.rulesAdopted.formUnion(adopted)
      if let quarantined { $0.quarantined = quarantined }
      if guardsAreDue { $0.guards.noteChange() }
      if !scope.isCatchUp { $0.rows += UInt64(group.rows) }
      guard isMain else { return }
      $0.transactions = number
      $0.position = reached.position
      $0.copying = refreshes.shown { $0.source.name }
      $0.isCaughtUp = false
      $0.awaitsCopies = awaitsCopies
    }
    (misfitsNulled, conflicts, guardsAreDue) = (0, 0, false)
    try desk?.committed(isMain ? number : nil)
  }

  /// Moves the trail's checkpoint and commits in one round trip. Throws `checkpoint-moved` if the stored checkpoint is
  /// not `from`.
  private func moveAndCommit(from: Checkpoint, to: Checkpoint) throws {
    let values = Checkpoints.values(name, from: from, to: to, number: cursor.whole, now: clock.microseconds())
    let move = (own.move, values.map(\.postgresInput))
    do { try sink.run([move, (own.commit, [])]) } catch let fault as PostgresSink.Fault
      where fault.error?.sqlState == Checkpoints.notMoved
    { throw state.checkpoints.moved(name) }
  }

  /// Moves the checkpoints of the catch-up's tables to `reached`. If `isDone`, ends their suspension.
  private func moveCatchUp(to reached: Checkpoint, isDone: Bool) throws {
    for (key, halt) in halted {
      guard let index = waiting.firstIndex(where: { $0.source.nameKey == key }) else { continue }
      let table = waiting.remove(at: index)
      try state.move(table, to: (halt.checkpoint, halt.number, halt.place, halt.from))
    }
    halted.removeAll()
    for index in waiting.indices {
      let table = waiting[index]
      let place = scope.place(of: table.source) ?? (table.place, table.from)
      try state.move(table, to: isDone ? nil : (reached, cursor.whole, place.name, place.from))
      (waiting[index].place, waiting[index].from) = (place.name, place.from)
      (waiting[index].table.checkpoint, waiting[index].table.number) = (reached, cursor.whole)
    }
    guard isDone else { return }
    let keys = Set(waiting.map(\.source.nameKey))
    try PostgresSchemaChanges(
      connection: connection, state: state, progress: progress, tables: tables, waiting: [], isCatchUp: true,
      proof: proof, scope: options.scope
    )
    .makeForeignKeys(sink, of: tables.filter { keys.contains($0.key) }.map(\.value))
  }

  var position: Position { (checkpoint ?? options.begin.checkpoint)?.position ?? .start }

  func keepUpIdentities(isLast: Bool) throws { try sequences.keepUp(connection, isLast: isLast) }

  func abandon() { sink.abandon() }

  // MARK: Records

  /// Suspends the present record's table if the target has refused the record. If the trail has a later refresh with
  /// which the table can continue, continues it with that refresh. Otherwise does nothing.
  func leaveRefused(_ schema: TableSchema) throws {
    let name = schema.sourceKey
    if let copy = overtaken[reader.position], let key = scope.key(name) { return try goOn(with: copy, name, key) }
    guard let error = refusals[reader.position], let key = scope.key(name) else { return }
    try sink.settle()
    try leaveOpenRows(key, error)
    let (from, border) = (reader.position, reader.checkpoint)
    if scope.isCatchUp {
      halted[key] = Halt(place: name, from: from, checkpoint: border, number: cursor.whole)
    } else {
      // A suspended table already has this name: the second one can wait only after the first continues.
      if waiting.contains(where: { $0.source.hasSameBytes(as: name) }) { throw error }
      try WaitingTable.checkCount(waiting.count, of: self.name, error)
      var table = PostgresApplyState.Waiting(
        source: name, place: name, from: from,
        table: WaitingTable(
          name: schema.fullName, checkpoint: border, number: cursor.whole, code: error.code, message: error.message,
          hint: error.hint))
      table.id = try state.add(table, self.name)
      waiting.append(table)
    }
    scope.leave(name)
    forgetShape(key)
  }

  /// Skips the records of a table up to `copy`, a refresh of the table later in the trail.
  func halt(_ key: String, called name: String, at copy: ResyncPoint) {
    halted[key] = Halt(
      place: copy.now.sourceKey, from: copy.from, checkpoint: copy.checkpoint, number: copy.number)
    scope.leave(name)
    forgetShape(key)
  }

  private func again(_ body: () throws -> Void) throws {
    while true {
      do { return try body() } catch let widening as Widening {
        guard let table = byKey[widening.table] else { throw widening }
        try widen(widening.index, table)
      }
    }
  }

  // MARK: Tables

  func table(_ id: UInt64) throws -> PostgresApplyTable? {
    if let table = openTables.find(id, in: reader.position.segment) {
      if let watch = table?.watch { try look(watch) }
      return table
    }
    let schema = try schema(id)
    let table = try scope.key(schema.sourceKey).flatMap { try self.table(for: schema, $0, id) }
    openTables.note(table, id)
    if let watch = table?.watch { try look(watch) }
    return table
  }

  /// Queues the check that a table's code is unchanged: once per group, before the group's first row of the table.
  func look(_ watch: OwnersWatch) throws {
    guard head != nil, watch.isDue(in: groupNumber) else { return }
    try endPiece()
    try watch.look(in: groupNumber, sink)
    watched.append(watch)
    // A fault is then known to be of this table.
    if isCareful { try sink.settle() }
  }

  /// Queues the check, for tables with code of untrusted roles, that their names still mean the checked tables.
  func proveWatched() throws {
    guard !watched.isEmpty else { return }
    let known = Set(byKey.values.compactMap { $0.watch.map(ObjectIdentifier.init) })
    for watch in watched where known.contains(ObjectIdentifier(watch)) { try watch.prove(sink) }
  }

  /// Throws `owners-code` if code of an untrusted role would run when the table is written. If such a role could change
  /// the code later, each transaction checks it.
  ///
  /// - Parameter isWrittenNow: Whether rows are written at once, so that the code must be locked now.
  func checkOwners(_ table: PostgresApplyTable, isWrittenNow: Bool = false) throws {
    let code = try proof.code(of: table.target, table.mapped.fullName, isWrittenNow: isWrittenNow)
    guard code.openness != .closed else { return }
    table.watch = OwnersWatch(table.target, code, number: tableCount)
  }

  /// Returns whether waiting rows may be written to a table. False if the write would run code of an untrusted role, or
  /// if apply lacks a right.
  func mayJudge(in target: PostgresTargetTable) throws -> Bool {
    let name = NameKey(target.qualifiedName)
    if let known = checked.judgeable[name] { return known }
    var isTrusted = true
    do {
      try TableRights.check(target, named: "\(target.schema).\(target.name)", connection)
      _ = try proof.code(of: target, "\(target.schema).\(target.name)", isWrittenNow: true)
    } catch let error as CairnError where [.ownersCode, .privilegeMissing].contains(error.code) {
      isTrusted = false
      progress.note("rows that wait for a unique value cannot be written yet: \(error.message)")
    }
    checked.judgeable[name] = isTrusted
    return isTrusted
  }

  func openTable(_ key: String, given schema: TableSchema) -> PostgresApplyTable? {
    byKey[key].flatMap { $0.given == schema ? $0 : nil }
  }

  private func table(for schema: TableSchema, _ key: String, _ id: UInt64) throws -> PostgresApplyTable? {
    if let table = openTable(key, given: schema) { return table }
    try sink.settle()
    guard let part = try part(of: schema, key) else { return nil }
    let source = part.schema
    try source.checkHasColumns()
    let mapped = try TableMapping(source, to: .postgres, names: options.names).target
    try meet(source, mapped, key)
    try adopt(id, source, mapped, key)
    let claim = try claimRows(of: source, as: mapped, key)
    var known =
      try tables[key] ?? register(key, source, mapped, .init(schema: mapped.namespace, name: mapped.name))
    if let move = desk?.move(of: schema) {
      try checkFormerName(move, of: schema)
      (known.schema, known.name) = (move.now.namespace, move.now.name)
    }
    try options.checkAllowed(known.schema, known.name, in: .postgres)
    try progress.snapshot.guards.check(known.schema, known.name, of: source.fullName)
    // In a history, a copy replaces nothing, so the changes before it are applied too.
    let isAwaited = known.isAwaited && source.treatment?.isHistory != true
    if known.claim != claim || known.isAwaited != isAwaited {
      if !isAwaited, known.isAwaited { (known.refreshing, known.isAwaited) = (nil, false) }
      known.claim = claim
      try save(key, known)
    }
    let kept: [Int]?
    if options.policy(isCreated: known.isCreated) == .ignore {
      kept = try shape.columnsThere(source, mapped, known)
    } else {
      kept = Array(source.columns.indices)
    }
    guard let kept else { return nil }
    let narrow = NextFittingSchema.Part(source.keeping(kept), kept.map { part.positions[$0] })
    let target = try shape.checked(
      narrow.schema, mapped.keeping(kept), known, goesBothWays: options.goesBothWays(known.schema, known.name))
    tableCount += 1
    let writes = try localWrites(of: mapped.keeping(kept), from: narrow.schema)
    let table = PostgresApplyTable(
      key: key, given: schema, part: narrow, mapped: mapped.keeping(kept), target: target, state: known,
      number: tableCount, localWrites: writes, goesBothWays: options.goesBothWays(known.schema, known.name))
    if table.goesBothWays {
      try KeyCheck.check(source, mapped, in: .postgres(connection), includes: options.goesBothWays)
      try options.twoWay?.limits.movedKeys.check(source, mapped, from: name)
    }
    if table.isWholeRow, writes.areSettled { throw LocalWritesPlan.keyless(source.fullName, writes) }
    try checkOwners(table)
    byKey[key] = table
    if !table.goesBothWays { sequences.note(table) }
    return table
  }

  /// Opens the target table for rows of this shape, from any trail; nil if there is no such table.
  func openTable(like schema: TableSchema) throws -> PostgresApplyTable? {
    let mapped = try TableMapping(schema, to: .postgres, names: options.names).target
    guard let target = try PostgresTargetTable.read(mapped.namespace, mapped.name, connection) else { return nil }
    tableCount += 1
    let table = PostgresApplyTable(
      key: schema.sourceKey, given: schema, part: .init(schema), mapped: mapped, target: target,
      state: .init(schema: mapped.namespace, name: mapped.name), number: tableCount)
    try checkOwners(table, isWrittenNow: true)
    return table
  }

  /// Returns the table extended by the columns that only the target has; nil if there are none.
  func wide(_ table: PostgresApplyTable) throws -> PostgresApplyTable? {
    if let wider = table.wider, wider.since == applied { return wider.table }
    try sink.settle()
    let names = try sink.attempt { try table.ownColumns(connection) }
    if names.isEmpty {
      table.wider = (nil, applied)
      return nil
    }
    if let made = table.wider?.table, made.columns.dropFirst(table.columns.count).map(\.name).hasSameBytes(as: names) {
      table.wider = (made, applied)
      return made
    }
    guard
      let target = try sink.attempt({ try PostgresTargetTable.read(table.target.schema, table.target.name, connection) }
      )
    else { return nil }
    var schema = table.mapped
    schema.columns += names.compactMap(target.column).map {
      TableSchema.Column(name: $0.name, declaredType: $0.type.name)
    }
    tableCount += 1
    let made = PostgresApplyTable(
      key: table.stateKey, given: schema, part: .init(schema), mapped: schema, target: target, state: table.state,
      number: tableCount, localWrites: table.localWrites, goesBothWays: table.goesBothWays)
    made.takesRowsIn = table.takesRowsIn
    made.watch = table.watch
    table.wider = (made, applied)
    return made
  }

  // MARK: Tables that the target cannot have

  /// Returns whether the target can have a table of this shape. False if another table of the trail has the same name
  /// at the target.
  ///
  /// - Parameter key: The table's name in apply's state.
  func fits(_ schema: TableSchema, _ key: String) -> Bool {
    guard !schema.columns.isEmpty, let mapped = try? TableMapping(schema, to: .postgres, names: options.names).target
    else { return false }
    return !tables.contains {
      $0.key != key.nameKey && $0.value.schema.hasSameBytes(as: mapped.namespace)
        && $0.value.name.hasSameBytes(as: mapped.name)
    }
  }

  func nextFittingSchema(of schema: TableSchema, _ key: String) throws -> NextFittingSchema? {
    try nextFittingSchema(of: schema) { fits($0, key) }
  }

  private func part(of schema: TableSchema, _ key: String) throws -> NextFittingSchema.Part? {
    if let part = desk?.part(of: schema) { return part }
    guard scope.isCatchUp, !fits(schema, key), let later = try nextFittingSchema(of: schema, key) else {
      return .init(schema)
    }
    if later.schema == nil { return nil }
    return later.part(of: schema) ?? .init(schema)
  }

  /// Returns which rows of a table belong to the trail. Throws if some of them also belong to another trail.
  ///
  /// - Parameter isCopied: Whether a refresh of the table begins. If not, and the trail's claim is not new, the
  ///   operator gets a notice instead of the error.
  func claimRows(of source: TableSchema, as mapped: TableSchema, _ key: String, isCopied: Bool = false) throws
    -> TableClaim
  {
    let claim = TableClaim(source)
    // Two-way applies resolve conflicts, so each of them may write all rows.
    let (known, name) = (tables[key], tables[key]?.name ?? mapped.name)
    if options.goesBothWays(known?.schema ?? mapped.namespace, name) { return claim }
    let error = claim.collision(
      of: self.name, with: try state.feeders(of: known?.schema ?? mapped.namespace, name), table: name,
      source: source, at: connection.place)
    guard let error else { return claim }
    guard !isCopied, let known, known.claim.map({ $0 == claim }) ?? true else { throw error }
    progress.note("\(error.message): a copy would delete rows of other trails, so there is none; \(error.hint)")
    return claim
  }

  func register(
    _ key: String, _ schema: TableSchema, _ mapped: TableSchema, _ known: PostgresApplyState.Table,
    isSaved: Bool = true
  ) throws -> PostgresApplyState.Table {
    if let other = tables.first(where: {
      $0.key != key.nameKey && $0.value.schema.hasSameBytes(as: known.schema)
        && $0.value.name.hasSameBytes(as: known.name)
    }) {
      throw CairnError(
        .nameCollision,
        "tables \(other.key) and \(schema.fullName) of the source would both be \(known.schema).\(known.name) at the target",
        hint: "rename one of them, or leave one out with 'tables' (--tables)", context: ["table": schema.fullName])
    }
    if isSaved { try save(key, known) }
    return known
  }

  func save(_ key: String, _ table: PostgresApplyState.Table) throws {
    try sink.settle()
    var table = table
    table.isGuarded = options.isGuarded(table.schema, table.name)
    if table.isGuarded != tables[key]?.isGuarded ?? false { guardsAreDue = true }
    try state.save(key, table)
    tables[key] = table
    byKey[key]?.state = table
  }

  func forget(_ key: String) throws {
    try sink.settle()
    if tables[key]?.isGuarded ?? false { guardsAreDue = true }
    try state.forget(key)
    tables[key] = nil
    forgetShape(key)
  }

  /// Stores a new name that the source gave a suspended table. The target's table is renamed when the table continues.
  func renameWaiting(_ old: String, to new: String, name: String) throws {
    try sink.settle()
    if waiting.contains(where: { $0.source.hasSameBytes(as: new) }) {
      throw CairnError(
        .schemaStopped, "tables \(old) and \(new) of the source are suspended, and one now has the other's name",
        hint: "make the change for the first of them at the target, then run again", context: ["table": name])
    }
    guard let index = waiting.firstIndex(where: { $0.source.hasSameBytes(as: old) }) else { return }
    try state.rename(waiting[index], to: new, name: name)
    tables[new] = tables.removeValue(forKey: old.nameKey)
    (waiting[index].source, waiting[index].table.name) = (new, name)
    openTables.forgetAll()
  }

  func forgetShapes() {
    byKey.removeAll()
    openTables.forgetAll()
  }

  func forgetShape(_ key: String) {
    byKey[key] = nil
    openTables.forgetAll()
  }
}

// The steps of a group that depend on PostgreSQL.
extension PostgresReplay: GroupApplier {
  var checksClocks: Bool { !scope.isCatchUp && retried == nil }
  static let engine = Engine.postgres
  var start: Checkpoint? { checkpoint }
  var endsGroup: Bool { isCareful || !halted.isEmpty }

  func openGroup(_ stop: StopSignal) throws { (head, transaction) = (nil, nil) }

  func beginChange(_ stop: StopSignal) throws {
    if head == nil { try begin(group.last, as: group.last.number) }
    guard let desk, desk.isToLock else { return }
    try endChunk()
    try lockRows(desk, stop)
  }

  func endTransaction(_ stop: StopSignal) throws {
    if let desk, desk.isToSettle {
      try endChunk()
      try sink.settle()
      try resolver?.resolve(stop)
    }
    try settleEarly()
    try settleParked()
  }

  // MARK: Records

  func reach(_ record: Record) throws { if scope.reach(reader.position) { openTables.forgetAll() } }

  func take(_ change: ChangeView) throws {
    try endChunk()
    try onTable(change.schemaID) {
      if try isReplayed(change) { return }
      try again { try self.apply(change) }
    }
  }

  func take(_ id: UInt64, _ image: ImageView) throws {
    try onTable(id) {
      try again {
        guard let table = try self.table(id), try !self.keepsOwn(id, image, table) else { return }
        try self.apply(row: image, of: table)
      }
    }
  }

  func take(_ row: WaitingRow) throws { try betweenRows(of: row.schemaID) { try resolve(row) } }

  func take(_ refresh: Refresh) throws { try betweenRows(of: refresh.schemaID) { try apply(refresh) } }

  // Two-way, each node draws its own numbers: sequences that follow each other would run away.
  func take(_ sequence: SequenceState) throws { if options.twoWay == nil { sequences.note(sequence) } }

  func endRows() throws {
    try endChunk()
    try proveWatched()
    try sink.settle()
  }

  func foreignKeys() throws -> RowNames.Catalog {
    try sink.settle()
    return try PostgresApplyTable.foreignKeys(connection)
  }
}

/// The error for a record that the target refuses, such as a schema change. The record's table must be suspended.
struct SchemaStop: Error {
  let key: String
  let position: Position
  let error: CairnError
  /// Whether the schema change fails only because another session holds a lock on the table.
  var isLocked = false
}

/// The error that names statements to commit before the transaction that needs them, such as new enum labels.
struct Ahead: Error {
  let statements: [String]
}
