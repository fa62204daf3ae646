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
  let session: PostgresSession
  let cursor: TrailCursor
  let tables: PostgresTables
  let rows: PostgresRows
  let target: PostgresTarget
  let refresh: PostgresRefresh
  let schema: PostgresSchema
  let commits: PostgresLocalCommits
  let notes: PostgresNotes
  /// The conflict handling of two-way replication; nil if the apply is one-way.
  let desk: Desk?
  let resolver: RowResolver<PostgresTarget>?
  /// The object that chooses the statements of the source that apply executes instead of writing their rows. Nil: apply
  /// writes all rows.
  let statements: StatementSession?
  private let replayed: PostgresStatementReplay?
  private let pruning: ConflictPruning
  var group = ApplyGroup()

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
    (self.desk, self.statements, self.pruning) = (desk, statements, pruning)
    statements?.begin()
    let stored = catchUp == nil ? try Checkpoints(connection).checkpoint(of: name) : nil
    let (checkpoint, applied): (Checkpoint?, UInt64) =
      if let first = catchUp?.first {
        (first.table.checkpoint, first.table.number)
      } else if let retried {
        (retried.border, retried.number - 1)
      } else {
        (stored?.checkpoint, stored?.number ?? options.begin.number)
      }
    cursor = TrailCursor(after: applied, at: checkpoint)
    let reader = try ApplyReader.open(folder: folder, for: checkpoint, options: options, to: .postgres)
    session = PostgresSession(
      connection, name, options, clock, progress, reader, applied: applied, isCareful: isCareful)
    tables = try PostgresTables(session, cursor, catchUp: catchUp)
    let writer = PostgresRowWriter(session, cursor)
    let ahead = TrailAhead(reader: reader, cursor: cursor, folder: folder, rules: options.rules, engine: .postgres)
    rows = PostgresRows(writer, PostgresLocalWrites(writer, cursor), ahead, tables)
    let copy = PostgresCopy(rows)
    target = PostgresTarget(session, tables, rows, copy)
    let resolver = desk.map { [target] in RowResolver(target, $0, name, clock) }
    self.resolver = resolver
    refresh = PostgresRefresh(session, cursor, tables, rows, copy, target, resolver)
    schema = PostgresSchema(
      cursor, tables, rows, copy, refresh, desk, madeAhead: madeAhead, refusals: refusals, overtaken: overtaken)
    commits = PostgresLocalCommits(session, tables, copy, target)
    replayed = statements.map { [tables, rows, target, refresh, schema] in
      PostgresStatementReplay($0, tables, rows, target, refresh, schema)
    }
    notes = PostgresNotes(
      session: session, tables: tables, shelf: shelf, retried: retried, heldElsewhere: heldElsewhere,
      wholeNumber: stored?.number ?? 0)
  }

  var connection: PostgresConnection { session.connection }
  var name: TrailName { session.name }
  var options: ApplyOptions { session.options }
  var clock: Clock { session.clock }
  var progress: ApplyProgress { session.progress }
  var state: PostgresApplyState { session.state }
  var reader: ApplyReader { session.reader }
  var sink: PostgresSink { session.sink }
  var isCareful: Bool { session.isCareful }
  var applied: UInt64 { session.applied }
  var waiting: [PostgresApplyState.Waiting] { tables.waiting }
  var position: Position { (cursor.start ?? options.begin.checkpoint)?.position ?? .start }

  func reload() throws {
    schema.changedRules.leave(progress.snapshot.rulesAdopted)
    try tables.reload()
  }

  var awaitsCopies: Bool {
    options.askedBehind > 0 && session.applied <= options.askedBehind
      || tables.tables.values.contains(where: \.isAwaited)
  }

  func abandon() { session.abandon() }

  // MARK: Groups

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
        try refresh.endChunk()
        if session.head != nil { try resolver?.judge() }
        try commits.check(desk, stop)
      }
      try commit(group, isCatchUpDone: isCatchUpDone && cursor.whole >= limit)
      return true
    }
  }

  /// Begins the target's transaction for a group, and writes the group's applied note into it.
  ///
  /// - Parameter number: The transaction in the note; 0 if the group has no changes.
  func begin(_ header: TransactionHeader, as number: UInt64, hasRows: Bool = true) throws {
    var note = notes.note(header, as: number)
    if hasRows { note.origin = options.origin(of: header, in: name) }
    try session.begin(note, as: number)
  }

  private func commit(_ group: ApplyGroup, isCatchUpDone: Bool) throws {
    let (last, number) = (group.last, cursor.whole)
    if session.head == nil { try begin(last, as: 0, hasRows: false) }
    try refresh.endChunk()
    try rows.writer.checkUncheckedRows()
    try session.proveWatched(tables.open)
    try sink.settle()
    try session.sequences.carry(sink, progress, options.scope)
    try session.pruneConflicts(pruning)
    // From this commit on, the database has everything before the noted transaction.
    if tables.scope.isCatchUp, desk != nil, session.head != 0 {
      try sink.queue(session.own.message, [notes.catchUpNote(last).text])
    } else if let head = session.head, head != 0, head != last.number {
      try sink.queue(session.own.message, [notes.note(last, as: last.number).text])
    }
    let reached = reader.checkpoint
    if let desk, group.changes == 0 { try commits.noteQuiet(desk) }
    holdWindow()
    if let retried = notes.retried {
      try sink.settle()
      try QuarantineLog(connection).remove(retried.id)
      try connection.execute("COMMIT")
    } else if let checkpoint = cursor.start, !tables.scope.isCatchUp {
      try moveAndCommit(from: checkpoint, to: reached)
    } else {
      try sink.settle()
      if tables.scope.isCatchUp {
        try tables.moveCatchUp(to: reached, isDone: isCatchUpDone)
      } else {
        try state.checkpoints.begin(name, at: reached, number: number, now: clock.microseconds())
      }
      try connection.execute("COMMIT")
    }
    (cursor.start, session.applied) = (reached, number)
    let isMain = !tables.scope.isCatchUp && notes.retried == nil
    if isMain {
      notes.shelf?.forgetFailed(through: number)
      statements?.committed(through: reached.position)
    }
    let (awaitsCopies, quarantined) = (awaitsCopies, notes.shelf?.count)
    let adopted = schema.changedRules.noteCommit()
    schema.scripts.removeAll()
    if isMain {
      progress.noteLag(last.commitTime, now: clock.microseconds(), isCopying: refresh.tracker.current != nil)
    }
    let (misfitsNulled, conflicts) = (rows.writer.encoder.misfitsNulled, session.conflicts)
    let guardsAreDue = tables.takeGuardsDue()
    progress.update {
      refresh.tracker.report(to: &$0)
      $0.misfitsNulled += misfitsNulled
      $0.conflicts += conflicts
      $0.isWaitingForLock = false
      $0.rulesAdopted.formUnion(adopted)
      if let quarantined { $0.quarantined = quarantined }
      if guardsAreDue { $0.guards.noteChange() }
      if !tables.scope.isCatchUp { $0.rows += UInt64(group.rows) }
      guard isMain else { return }
      $0.transactions = number
      $0.position = reached.position
      $0.copying = refresh.tracker.shown { $0.source.name }
      $0.isCaughtUp = false
      $0.awaitsCopies = awaitsCopies
    }
    (rows.writer.encoder.misfitsNulled, session.conflicts) = (0, 0)
    try desk?.committed(isMain ? number : nil)
  }

  /// Moves the trail's checkpoint and commits in one round trip. Throws `checkpoint-moved` if the stored checkpoint is
  /// not `from`.
  private func moveAndCommit(from: Checkpoint, to: Checkpoint) throws {
    let values = Checkpoints.values(name, from: from, to: to, number: cursor.whole, now: clock.microseconds())
    let move = (session.own.move, values.map(\.postgresInput))
    do { try sink.run([move, (session.own.commit, [])]) } catch let fault as PostgresSink.Fault
      where fault.error?.sqlState == Checkpoints.notMoved
    { throw state.checkpoints.moved(name) }
  }

  // MARK: Two-way

  /// Stores, for conflict handling, after which transaction of this trail the target may lack changes.
  func holdWindow() { desk?.shared.hold(name, through: notes.heldThrough) }

  /// Writes waiting rows to their tables if their unique values have become free. Uses its own transaction.
  func lookAtCandidates(_ stop: StopSignal) throws {
    guard let desk, let resolver, desk.shared.mayHaveCandidates else { return }
    try sink.settle()
    desk.shared.note(waiting: try target.candidates.counts())
    guard desk.shared.mayHaveCandidates else { return }
    desk.beginGroup()
    try inform(desk)
    let note = AppliedNote(trail: name.description, number: 0, clock: 0, position: position)
    try connection.execute(session.own.begin.sql)
    session.beginAlone()
    do {
      // By this message, capture recognizes the transaction as one of ours.
      try connection.query(session.own.message.sql, [note.text])
      let isChanged = try resolver.judge()
      if isChanged { try commits.check(desk, stop) }
      try connection.execute(isChanged ? "COMMIT" : "ROLLBACK")
      desk.noteCandidates()
    } catch {
      connection.rollback()
      throw error
    }
  }
}

// The steps of a group that depend on PostgreSQL.
extension PostgresReplay: GroupApplier {
  static let engine = Engine.postgres
  var checksClocks: Bool { !tables.scope.isCatchUp && notes.retried == nil }
  var endsGroup: Bool { isCareful || tables.hasHalted }
  var oneWay: PostgresLocalWrites { rows.local }
  var takesDecisions: Bool { isCareful && !tables.scope.isCatchUp && notes.retried == nil }
  var openTables: SegmentTables<PostgresApplyTable> {
    get { tables.openTables }
    set { tables.openTables = newValue }
  }
  var refreshes: RefreshTracker<PostgresApplyTable> {
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
    session.openGroup()
    commits.openGroup()
    schema.openGroup()
  }

  func inform(_ desk: Desk) throws { try commits.inform(desk) }

  func beginChange(_ stop: StopSignal) throws {
    if session.head == nil { try begin(group.last, as: group.last.number) }
    guard let desk, desk.isToLock else { return }
    try refresh.endChunk()
    try commits.lockRows(desk, stop)
  }

  func endTransaction(_ stop: StopSignal) throws {
    if let desk, desk.isToSettle {
      try refresh.endChunk()
      try sink.settle()
      try resolver?.resolve(stop)
    }
    try rows.local.settleEarly()
    try rows.settleParked()
  }

  // MARK: Records

  func table(_ id: UInt64) throws -> PostgresApplyTable? { try schema.table(id) }

  func reach(_ record: Record) throws {
    if tables.scope.reach(reader.position) { tables.openTables.forgetAll() }
  }

  func take(_ change: ChangeView) throws {
    try refresh.endChunk()
    try schema.onTable(change.schemaID) {
      if let replayed, try replayed.isReplayed(change) { return }
      try schema.again { try apply(change) }
    }
  }

  private func apply(_ change: ChangeView) throws {
    guard let table = try schema.table(change.schemaID), !leavesOut(change, table) else { return }
    if change.treatment.contains(.refused) { return try rows.refuse(table) }
    if let resolver, let given = reader.given(change.schemaID), try resolver.defers(change, given, table) {
      return try target.prepareDeferred(table)
    }
    try rows.writer.encode(change, table)
    try rows.local.resolvingLocalWrites(table, isInsert: change.operation == .insert) {
      try rows.apply(change, table)
      if change.operation == .truncate { try refresh.remove(nil, table) }
    }
  }

  func take(_ id: UInt64, _ image: ImageView) throws {
    try schema.onTable(id) {
      try schema.again {
        guard let table = try schema.table(id), try !keepsOwn(id, image, table) else { return }
        try refresh.apply(row: image, of: table)
      }
    }
  }

  /// Returns whether a row of a refresh is skipped, because the target's own version of the row must stay.
  private func keepsOwn(_ id: UInt64, _ image: ImageView, _ table: PostgresApplyTable) throws -> Bool {
    guard let resolver, let given = reader.given(id) else { return false }
    return try resolver.keepsOwn(image, given, table)
  }

  func take(_ row: WaitingRow) throws { try betweenRows(of: row.schemaID) { try resolve(row) } }

  func take(_ refresh: Refresh) throws {
    let id = refresh.schemaID
    try betweenRows(of: id) {
      guard let table = try schema.table(id) else { return }
      let begun = try self.refresh.apply(refresh, table, isLedElsewhere: isLedElsewhere(id))
      if let method = begun { noteBegin(of: id, table.source, method) }
    }
  }

  func betweenRows(of id: UInt64, _ body: () throws -> Void) throws {
    try statements?.checkIdle()
    try refresh.endChunk()
    try schema.onTable(id) { try schema.again(body) }
  }

  func apply(_ ddl: DDL) throws { try schema.apply(ddl) }

  // Two-way, each node draws its own numbers: sequences that follow each other would run away.
  func take(_ sequence: SequenceState) throws { if options.twoWay == nil { session.sequences.note(sequence) } }

  func endRows() throws {
    try refresh.endChunk()
    try session.proveWatched(tables.open)
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
