import Changes
import Conflicts
import Mapping
import PostgresKit
import SystemKit
import Trails
import Versions

/// Applies a trail over one connection, from the checkpoint that the target has when it begins.
///
/// Rows are sent many at a time; where one of them is not taken, the whole group of transactions is rolled back, and
/// another replay does it again *carefully*: one transaction at a time, one statement at a time, so that a row which has
/// to wait for another can wait, and one that is wrong is named.
///
/// Tables whose schema change cannot be made wait, and are left out; a replay of its own, a *lane*, brings them on from
/// their own checkpoint.
final class PostgresReplay {
  /// Nobody waits for our locks but who writes to the same rows.
  private static let commitRowsUsual = 20_000
  let connection: PostgresConnection
  let name: TrailName
  let options: PostgresApply.Options
  let clock: Clock
  let progress: ApplyProgress
  let state: PostgresTargetState
  let reader: ApplyReader
  let sink: PostgresSink
  let isCareful: Bool
  let folder: String
  /// Where the database is captured, and others write to its rows as well.
  let desk: Desk?
  /// The resolution of conflicts in that case; nil: one-way.
  private(set) lazy var resolver = desk.map { RowResolver(self, $0, name, clock) }
  /// Transactions that are put aside.
  let shelf: QuarantineShelf?
  /// The one of them that this replay brings back; nil: it goes on from the checkpoint.
  let retried: QuarantinedTransaction?
  /// Statements that may be executed once more; nil: none.
  let statements: StatementDesk?
  let pruning: ConflictPruning
  /// The transaction that was begun is passed over.
  private var isAside = false
  /// The last transaction that it may look at.
  private(set) var limit = UInt64.max

  /// Records whose table is known not to be as they need it, with the reason: it waits from there on.
  let refusals: [Position: CairnError]
  /// Copies with which tables of a lane go on instead, by the records that they wait with.
  let overtaken: [Position: LaterCopy]

  private var checkpoint: Checkpoint?
  /// The last transaction that was begun.
  private(set) var number: UInt64
  private(set) var currentPlace = VersionPlace(stamp: Stamp(clock: 0, origin: "", number: 0), begin: .start)
  /// The last one that was read to its end.
  private var passed: UInt64
  /// The last one that the target had when this replay began.
  private let wholeNumber: UInt64
  /// The last one that was committed: the border at which the group began.
  private(set) var applied: UInt64
  var tables: [NameKey: PostgresTargetState.Table]
  /// The begin of a transaction that was read, and belongs into the next group.
  private var ahead: Record?
  /// Of the main way: those that it leaves out. Of a lane: those that it brings on.
  private(set) var waiting: [PostgresTargetState.Waiting]
  /// Of a lane: where tables wait that have been brought up to there, by their name in state.
  private var halted: [NameKey: Halt] = [:]
  var scope: ReplayScope
  /// Of a lane: the last transaction before which no table waits that it does not bring on.
  private let heldElsewhere: UInt64?
  /// Statements that were run ahead of the transaction that needs them.
  let madeAhead: Set<NameKey>
  /// By the names that they had: scripts of tables that have been renamed, and are to be reshaped.
  var scripts: [NameKey: String] = [:]
  /// What definitions of the trail may use here.
  var reach: ServerReach
  let own: OwnStatements
  /// The transaction that heads the group at the target; nil: nothing of it has been sent.
  private(set) var head: UInt64?
  /// Counts the groups of this replay.
  private var groupNumber: UInt64 = 0
  /// The tables of the group that an untrusted role may change.
  private var watched: [OwnersWatch] = []
  /// The tables of the transaction that were looked at before rows that wait were judged there.
  var judgeable: [NameKey: Bool] = [:]
  /// The group's transaction, as the server counts them; nil where that was not asked.
  var transaction: UInt64?
  private var segment: UInt64 = 0
  private var bySchema: [UInt64: MappedTable?] = [:]
  private var byKey: [NameKey: MappedTable] = [:]
  private var tableCount = 0

  var before = RowText()
  var after = RowText()
  var early = EarlyUpdates()
  var earlyRows = EarlyRows()
  /// The rows of the present chunk may have been copied before, and are read again.
  var isReread = false
  var held = PostgresHeldRows()
  var unchecked = UncheckedRows()
  var sequences = SequenceUpkeep()
  /// The table into which refresh rows go, how many came, and of how many.
  var copying: MappedTable?
  /// Of which rows are being replaced that have values which only the target knows.
  var aside: MappedTable?
  var copied: UInt64 = 0
  var estimated: UInt64 = 0
  /// Tables of which a copy has begun.
  var started: Set<NameKey> = []
  /// Since the last commit.
  var copiesBegun: [NameKey: UInt64] = [:]
  var changedRules: ChangedRules
  var tablesCopied = 0
  /// Of rows, that were settled in the group.
  var conflicts = 0
  /// Since the last commit: tables are to be guarded, or no longer.
  private var guardsAreDue = false
  var misfitsNulled: UInt64 = 0
  /// Refresh rows that were sent by COPY and not yet answered, to be sent again one by one.
  var piece = ByteWriter(capacity: 1 << 16)
  var pieceTable: MappedTable?

  /// `lane`: the tables to bring on, all from one checkpoint; nil: all but those that wait. `heldElsewhere`: of a lane, the
  /// last transaction before which no other table waits. Errors: ``PostgresError``;
  /// `checkpoint-foreign` when the target was fed from another trail, or needs what the trail no longer has.
  init(
    _ connection: PostgresConnection, trail folder: String, name: TrailName, options: PostgresApply.Options,
    clock: Clock, progress: ApplyProgress, isCareful: Bool, madeAhead: Set<NameKey>,
    refusals: [Position: CairnError], lane: [PostgresTargetState.Waiting]? = nil, heldElsewhere: UInt64? = nil,
    overtaken: [Position: LaterCopy] = [:], desk: Desk? = nil, shelf: QuarantineShelf? = nil,
    retried: QuarantinedTransaction? = nil, statements: StatementDesk? = nil, pruning: ConflictPruning = .init()
  ) throws {
    (self.desk, self.shelf, self.retried) = (desk, shelf, retried)
    (self.statements, self.pruning) = (statements, pruning)
    statements?.begin()
    (self.connection, self.name, self.options, self.madeAhead) = (connection, name, options, madeAhead)
    reach = ServerReach(options.scope, connection)
    (self.folder, self.overtaken, self.heldElsewhere) = (folder, overtaken, heldElsewhere)
    (self.clock, self.progress, self.isCareful, self.refusals) = (clock, progress, isCareful, refusals)
    changedRules = ChangedRules(options.changedRules, besides: progress.snapshot.rulesAdopted)
    state = PostgresTargetState(connection, of: name)
    sink = PostgresSink(connection)
    own = OwnStatements(PostgresStateDatabase(connection: connection))
    let stored = lane == nil ? try state.checkpoint(of: name) : nil
    if let first = lane?.first {
      checkpoint = first.table.checkpoint
      number = first.table.number
    } else if let retried {
      checkpoint = retried.border
      number = retried.number - 1
    } else {
      checkpoint = stored?.checkpoint
      number = stored?.number ?? options.begin.number
    }
    wholeNumber = stored?.number ?? 0
    (applied, passed) = (number, number)
    reader = try ApplyReader.open(folder: folder, for: checkpoint, options: options, to: .postgres)
    tables = try state.tables()
    waiting = try lane ?? state.waiting(of: name)
    scope = ReplayScope(waiting: waiting, isLane: lane != nil)
  }

  var shape: PostgresShape {
    PostgresShape(
      connection: connection, state: state, progress: progress, tables: tables,
      waiting: Set(waiting.map(\.source.nameKey)), isLane: scope.isLane, scope: options.scope)
  }

  /// After another replay has written to the target: between groups.
  func reload() throws {
    tables = try state.tables()
    changedRules.leave(progress.snapshot.rulesAdopted)
    if !scope.isLane {
      waiting = try state.waiting(of: name)
      scope = ReplayScope(waiting: waiting, isLane: false)
    }
    byKey.removeAll()
    bySchema.removeAll(keepingCapacity: true)
  }

  /// Copies were asked for that have not begun.
  var awaitsCopies: Bool {
    options.askedBehind > 0 && applied <= options.askedBehind || tables.values.contains(where: \.isAwaited)
  }

  // MARK: Groups

  /// Where a table waits again: its name there, the record, and the border before its transaction.
  private struct Halt {
    let place: String
    let from: Position
    let checkpoint: Checkpoint
    let number: UInt64
  }

  private lazy var gate = ClockGate(name, clock, skewMicrosecondsMax: options.skewMicrosecondsMax)

  /// Throws ``ClockGate/Ahead``. One way: tables that wait come after the main stream, and the desk looks two-way.
  private func checkClock(_ header: TransactionHeader) throws {
    guard desk == nil, !scope.isLane, retried == nil else { return }
    try gate.check(header)
  }

  /// Applies what is there as one commit, at most `count` transactions and through transaction `limit`; false when nothing
  /// is. After an error the replay is of no use: see ``abandon()``.
  func applyAvailable(
    _ stop: StopSignal, through limit: UInt64 = .max, count most: UInt64 = .max, isLaneDone: Bool = false
  ) throws -> Bool {
    try reader.decoding { try readAvailable(stop, through: limit, count: most, isLaneDone: isLaneDone) }
  }

  private func readAvailable(
    _ stop: StopSignal, through limit: UInt64, count most: UInt64, isLaneDone: Bool
  ) throws -> Bool {
    self.limit = limit
    gate.beginGroup()
    guard number < limit, var record = try next() else { return false }
    let begun = Clock.monotonicMilliseconds
    (head, transaction) = (nil, nil)
    var rows = 0
    // Of them, those of transactions that are put aside.
    var skipped = 0
    var count = 0
    var last = TransactionHeader(commitTime: 0)
    while true {
      switch record {
      case .begin(let header):
        if last.number == 0, let desk {
          desk.beginGroup()
          if try desk.informsEarly { try inform(desk) }
        }
        try checkClock(header)
        try desk?.begin(header, at: reader.position)
        (last, number) = (header, header.number)
        currentPlace = VersionPlace(
          stamp: Stamp(clock: header.clock, origin: name.description, number: header.number), begin: reader.position)
        isAside = try options.isOwn(header) || putAside(header)
      case .commit(_, let changes):
        try statements?.checkIdle()
        rows += Int(changes)
        if isAside { skipped += Int(changes) }
        try endTransaction(stop)
        passed = number
        let isDue =
          isCareful || !halted.isEmpty || number >= limit || number - applied >= most
          || rows >= options.commitRows ?? Self.commitRowsUsual
          || Clock.monotonicMilliseconds - begun > options.commitMilliseconds
        if !isDue, let following = try next() {
          if case .begin(let header) = following, header.relay?.origin != last.relay?.origin {
            ahead = following
          } else {
            record = following
            continue
          }
        }
        if let desk, rows > 0 {
          try endChunk()
          if head != nil { try resolver?.judge() }
          try checkDesk(desk, stop)
        }
        try commit(last, rows: rows, skipped: skipped, isLaneDone: isLaneDone && number >= limit)
        return true
      default:
        if record.isOfChanges {
          if let desk, !desk.isInformed { try inform(desk) }
          if !isAside, head == nil { try begin(last, as: last.number) }
          if let desk, !isAside, desk.isToLock {
            try endChunk()
            try lockRows(desk, stop)
          }
        }
        try isAside ? pass(record) : apply(record, stop)
      }
      count += 1
      if count % 256 == 0, stop.isSet { throw ApplyStopped() }
      guard let following = try next() else {
        throw CairnError(
          .trailDamaged, "trail \(name) ends inside of transaction \(last.number)",
          hint: "run 'cairn trail verify \(name)'", remedy: .bug)
      }
      record = following
    }
  }

  /// Capture on the target's database knows our transactions by this message, which therefore comes first. A group that
  /// changes nothing is not to be noted there: else two databases would tell each other of that for ever.
  func begin(_ header: TransactionHeader, as number: UInt64, hasRows: Bool = true) throws {
    head = number
    groupNumber += 1
    watched.removeAll(keepingCapacity: true)
    judgeable.removeAll()
    try sink.queue(own.begin)
    var note = note(header, as: number)
    if hasRows { note.origin = options.origin(of: header, in: name) }
    try sink.queue(own.message, [note.text])
  }

  /// What is told as applied is all up to there: where something is put aside, or a table waits, no more than before it.
  private func note(_ header: TransactionHeader, as number: UInt64) -> AppliedNote {
    let known = min(retried == nil ? number : wholeNumber, heldThrough ?? .max)
    return AppliedNote(
      trail: name.description, id: reader.id, number: known, clock: header.clock, position: reader.position)
  }

  private func next() throws -> Record? {
    defer { ahead = nil }
    return try ahead ?? reader.next()
  }

  /// The same of a lane's group, with which its tables have come further.
  private func laneNote(_ last: TransactionHeader) -> AppliedNote {
    let held = halted.values.map(\.number) + [heldBesides].compactMap { $0 }
    let known = held.reduce(last.number, min)
    return AppliedNote(
      trail: name.description, id: reader.id, number: known, clock: last.clock, position: reader.position)
  }

  /// What came behind that transaction may have come out of its order.
  var heldThrough: UInt64? { (waiting.map(\.table.number) + [heldBesides].compactMap { $0 }).min() }

  /// The same, but for the tables that wait here.
  private var heldBesides: UInt64? {
    [heldElsewhere, shelf?.quarantine.heldThrough(besides: retried)].compactMap { $0 }.min()
  }

  private func endTransaction(_ stop: StopSignal) throws {
    if let desk, desk.isToSettle {
      try endChunk()
      try sink.settle()
      try resolver?.resolve(stop)
    }
    try settleEarly()
    try putBackHeldRows()
  }

  private func commit(_ last: TransactionHeader, rows: Int, skipped: Int, isLaneDone: Bool) throws {
    if head == nil { try begin(last, as: 0, hasRows: false) }
    try endChunk()
    try checkUncheckedRows()
    try proveWatched()
    try sink.settle()
    try sequences.carry(sink, progress, options.scope)
    try pruneConflicts()
    // What stands before it is in the database from this commit on.
    if scope.isLane, desk != nil, head != 0 {
      try sink.queue(own.message, [laneNote(last).text])
    } else if let head, head != 0, head != last.number {
      try sink.queue(own.message, [note(last, as: last.number).text])
    }
    let reached = reader.checkpoint
    if let desk, rows == 0 { try noteQuiet(desk) }
    holdWindow()
    if let retried {
      try sink.settle()
      try QuarantineLog(connection).remove(retried.id)
      try connection.execute("COMMIT")
    } else if let checkpoint, !scope.isLane {
      try moveAndCommit(from: checkpoint, to: reached)
    } else {
      try sink.settle()
      if scope.isLane {
        try moveLane(to: reached, isDone: isLaneDone)
      } else {
        try state.begin(name, at: reached, number: number, now: clock.microseconds())
      }
      try connection.execute("COMMIT")
    }
    (checkpoint, applied) = (reached, number)
    let isMain = !scope.isLane && retried == nil
    if isMain {
      shelf?.forgetFailed(through: number)
      statements?.committed(through: reached.position)
    }
    let (awaitsCopies, quarantined) = (awaitsCopies, shelf?.count)
    let adopted = changedRules.noteCommit()
    scripts.removeAll()
    if isMain {
      progress.noteLag(last.commitTime, now: clock.microseconds(), isCopying: copying != nil)
    }
    progress.update {
      $0.tablesCopied += tablesCopied
      $0.misfitsNulled += misfitsNulled
      $0.conflicts += conflicts
      $0.isWaitingForLock = false
      $0.copiesBegun.merge(copiesBegun) { $1 }
      $0.rulesAdopted.formUnion(adopted)
      if let quarantined { $0.quarantined = quarantined }
      if guardsAreDue { $0.guardsAreDue = true }
      if !scope.isLane { $0.rows += UInt64(rows - skipped) }
      guard isMain else { return }
      $0.transactions = number
      $0.position = reached.position
      $0.copying = copying.map { ($0.source.name, copied, estimated) }
      $0.isCaughtUp = false
      $0.awaitsCopies = awaitsCopies
    }
    (tablesCopied, misfitsNulled, conflicts, guardsAreDue) = (0, 0, 0, false)
    try desk?.committed(isMain ? number : nil)
    copiesBegun.removeAll()
  }

  /// In one round trip: a checkpoint that is not at `from` is an error, behind which nothing is committed.
  private func moveAndCommit(from: Checkpoint, to: Checkpoint) throws {
    let values = PostgresTargetState.values(name, from: from, to: to, number: number, now: clock.microseconds())
    do { try sink.run([(own.move, values), (own.commit, [])]) } catch let fault as PostgresSink.Fault
      where fault.error?.sqlState == PostgresTargetState.notMoved
    { throw state.moved(name) }
  }

  /// The checkpoints of its tables; where the others are, they wait no longer.
  private func moveLane(to reached: Checkpoint, isDone: Bool) throws {
    for (key, halt) in halted {
      guard let index = waiting.firstIndex(where: { $0.source.nameKey == key }) else { continue }
      let table = waiting.remove(at: index)
      try state.move(table, to: (halt.checkpoint, halt.number, halt.place, halt.from))
    }
    halted.removeAll()
    for index in waiting.indices {
      let table = waiting[index]
      let place = scope.place(of: table.source) ?? (table.place, table.from)
      try state.move(table, to: isDone ? nil : (reached, number, place.name, place.from))
      (waiting[index].place, waiting[index].from) = (place.name, place.from)
      (waiting[index].table.checkpoint, waiting[index].table.number) = (reached, number)
    }
    guard isDone else { return }
    let keys = Set(waiting.map(\.source.nameKey))
    try PostgresShape(
      connection: connection, state: state, progress: progress, tables: tables, waiting: [], isLane: true,
      scope: options.scope
    )
    .makeForeignKeys(sink, of: tables.filter { keys.contains($0.key) }.map(\.value))
  }

  /// Where the target stands, durably.
  var position: Position { (checkpoint ?? options.begin.checkpoint)?.position ?? .start }

  /// At the trail's end, and when apply ends.
  func keepUpIdentities(isLast: Bool) throws { try sequences.keepUp(connection, isLast: isLast) }

  func abandon() { sink.abandon() }

  // MARK: Records

  private func apply(_ record: Record, _ stop: StopSignal) throws {
    try reader.checkBarred()
    // There may be millions of them.
    if case .change(let change) = record, let statements, try statements.passes(change, reader) { return }
    if scope.reach(reader.position) { bySchema.removeAll(keepingCapacity: true) }
    switch record {
    case .statement(let statement): try statements?.offer(statement, at: reader.position)
    case .statementEnd(let end): try statements?.end(end)
    case .change(let change):
      try endChunk()
      try onTable(change.schemaID) {
        if try isReplayed(change) { return }
        try again { try self.apply(change) }
      }
    case .refreshRow(let id, let image):
      try statements?.checkIdle()
      try onTable(id) {
        try again {
          guard let table = try self.table(id), try !self.keepsOwn(id, image, table) else { return }
          try self.apply(row: image, of: table)
        }
      }
    case .refresh(let refresh):
      try statements?.checkIdle()
      try endChunk()
      try onTable(refresh.schemaID) { try apply(refresh) }
    case .ddl(let ddl):
      try statements?.checkIdle()
      try endChunk()
      try proveWatched()
      try sink.settle()
      if reader.takesNameAway(ddl) { try resolver?.resolve(stop) }
      try apply(ddl)
      if let desk {
        desk.shared.noteShapes()
        try sink.settle()
        try desk.lookAtKeys { try MappedTable.alternates(connection) }
      }
    case .schema(let id, _): if reader.position.segment == segment { bySchema[id] = nil }
    // Where writes go both ways, each node counts by itself: to follow one another, sequences would run away.
    case .sequence(let sequence): if options.twoWay == nil { sequences.note(sequence) }
    case .begin, .commit, .progress, .marker: break
    case .reserved(let kind, _):
      throw CairnError(
        .trailVersion, "record kind \(kind) at \(reader.position) of trail \(name) cannot be applied by this version",
        hint: "use a newer cairn")
    }
  }

  /// Of a transaction that is not applied: what others need to know.
  private func pass(_ record: Record) throws {
    if case .schema(let id, _) = record, reader.position.segment == segment { bySchema[id] = nil }
  }

  /// A table that is not as it should be waits from here on.
  func onTable(_ id: UInt64, _ body: () throws -> Void) throws {
    if refusals[reader.position] != nil || overtaken[reader.position] != nil {
      try endChunk()
      try leaveRefused(try schema(id))
    }
    do { try body() } catch let error as CairnError
      where [.schemaStopped, .nameCollision, .tableRefused, .ruleRefused, .ownersCode].contains(error.code)
    {
      let schema = try schema(id)
      let names = [schema.fullName, TableMapping.targetName(of: schema, in: .postgres, names: options.names)]
      guard let table = error.context["table"], names.contains(table), let key = scope.key(schema.sourceKey) else {
        throw error
      }
      throw SchemaStop(key: key, position: reader.position, error: error)
    }
  }

  /// From a record on that is known to be refused, its table waits: what stands before that has been applied.
  func leaveRefused(_ schema: TableSchema) throws {
    let name = schema.sourceKey
    if let copy = overtaken[reader.position], let key = scope.key(name) { return try goOn(with: copy, name, key) }
    guard let error = refusals[reader.position], let key = scope.key(name) else { return }
    try sink.settle()
    let (from, border) = (reader.position, reader.checkpoint)
    if scope.isLane {
      halted[key] = Halt(place: name, from: from, checkpoint: border, number: passed)
    } else {
      // Another table that waits has its name: one after the other, then.
      if waiting.contains(where: { $0.source.hasSameBytes(as: name) }) { throw error }
      try WaitingTable.checkCount(waiting.count, of: self.name, error)
      var table = PostgresTargetState.Waiting(
        source: name, place: name, from: from,
        table: WaitingTable(
          name: schema.fullName, checkpoint: border, number: passed, code: error.code, message: error.message,
          hint: error.hint))
      table.id = try state.add(table, self.name)
      waiting.append(table)
    }
    scope.leave(name)
    forgetShape(key)
  }

  /// A table of the lane waits at a copy further on.
  func halt(_ key: String, called name: String, at copy: LaterCopy) {
    halted[key] = Halt(
      place: copy.now.sourceKey, from: copy.from, checkpoint: copy.checkpoint, number: copy.number)
    scope.leave(name)
    forgetShape(key)
  }

  /// A column was made text in the middle of a row: from its beginning, then.
  private func again(_ body: () throws -> Void) throws {
    while true {
      do { return try body() } catch let widening as Widening {
        guard let table = byKey[widening.table] else { throw widening }
        try widen(widening.index, table)
      }
    }
  }

  // MARK: Tables

  func schema(_ id: UInt64) throws -> TableSchema {
    guard let schema = reader.schema(id) else {
      throw CairnError(
        .trailDamaged, "schema \(id) at \(reader.position) of trail \(name) is not in its segment",
        hint: "run 'cairn trail verify \(name)'")
    }
    return schema
  }

  /// The table for a schema id, which counts within a segment; nil when it waits, or is left out.
  func table(_ id: UInt64) throws -> MappedTable? {
    if reader.position.segment != segment {
      segment = reader.position.segment
      bySchema.removeAll(keepingCapacity: true)
    }
    if let table = bySchema[id] {
      if let watch = table?.watch { try look(watch) }
      return table
    }
    let schema = try schema(id)
    let table = try scope.key(schema.sourceKey).flatMap { try self.table(for: schema, $0, id) }
    bySchema[id] = .some(table)
    if let watch = table?.watch { try look(watch) }
    return table
  }

  /// Once in each group, before the first row of a table whose code another role may change.
  func look(_ watch: OwnersWatch) throws {
    guard head != nil, watch.isDue(in: groupNumber) else { return }
    try endPiece()
    try watch.look(in: groupNumber, sink)
    watched.append(watch)
  }

  /// Queues the proof that the names still mean the tables that were looked at. Tables whose shape has been forgotten since
  /// were proved before the change.
  private func proveWatched() throws {
    guard !watched.isEmpty else { return }
    let known = Set(byKey.values.compactMap { $0.watch.map(ObjectIdentifier.init) })
    for watch in watched where known.contains(ObjectIdentifier(watch)) { try watch.prove(sink) }
  }

  /// Refuses a table of the target whose code belongs to another role.
  /// - Parameter isWrittenNow: no look comes between this one and the rows.
  func checkOwners(_ table: MappedTable, isWrittenNow: Bool = false) throws {
    let code = try provedCode(of: table.target, table.mapped.fullName, isWrittenNow: isWrittenNow)
    guard code.openness != .closed else { return }
    table.watch = OwnersWatch(table.target, code, number: tableCount)
  }

  private func provedCode(of target: PostgresTargetTable, _ name: String, isWrittenNow: Bool) throws -> OwnersCode {
    func read() throws -> OwnersCode {
      let code = try OwnersCode.read(target.qualifiedName, connection)
      let triggers = try code.triggerOwners(connection)
      try code.check(name, place: connection.place) { options.fires($0, among: triggers) }
      return code
    }
    let code = try read()
    if code.hasForeignParts { try connection.allowForeignTables() }
    if code.runsFunctions { try connection.allowViews() }
    guard code.openness != .closed, isWrittenNow, connection.isInTransaction else { return code }
    for lock in code.locks(target.rowsName) { try connection.execute(lock) }
    return try read()
  }

  /// Whether rows that wait may be judged in a table: not if its code belongs to another role. Looked at once in each
  /// transaction. Such rows wait on.
  func mayJudge(in target: PostgresTargetTable) throws -> Bool {
    let name = NameKey(target.qualifiedName)
    if let known = judgeable[name] { return known }
    var isTrusted = true
    do { _ = try provedCode(of: target, "\(target.schema).\(target.name)", isWrittenNow: true) } catch let error
      as CairnError
      where error.code == .ownersCode
    {
      isTrusted = false
      progress.note("rows that wait for a unique value wait on: \(error.message)")
    }
    judgeable[name] = isTrusted
    return isTrusted
  }

  /// Returns the table if it is open in that shape.
  func openTable(_ key: String, given schema: TableSchema) -> MappedTable? {
    byKey[key].flatMap { $0.given == schema ? $0 : nil }
  }

  private func table(for schema: TableSchema, _ key: String, _ id: UInt64) throws -> MappedTable? {
    if let table = openTable(key, given: schema) { return table }
    try sink.settle()
    guard let part = try part(of: schema, key) else { return nil }
    let source = part.schema
    let mapped = try TableMapping(source, to: .postgres, names: options.names).target
    try meet(source, mapped, key)
    try adopt(id, source, mapped, key)
    let claim = try claimRows(of: source, as: mapped, key)
    var known =
      try tables[key] ?? register(key, source, mapped, .init(schema: mapped.namespace, name: mapped.name))
    try options.checkAllowed(known.schema, known.name, in: .postgres)
    // A copy replaces nothing in a history: what comes before it counts as well.
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
    let narrow = LaterShape.Part(source.keeping(kept), kept.map { part.positions[$0] })
    let target = try shape.checked(narrow.schema, mapped.keeping(kept), known)
    tableCount += 1
    let writes = try localWrites(of: mapped.keeping(kept), from: narrow.schema)
    let table = MappedTable(
      key: key, given: schema, part: narrow, mapped: mapped.keeping(kept), target: target, state: known,
      number: tableCount, localWrites: writes, goesBothWays: options.goesBothWays(known.schema, known.name))
    if table.goesBothWays {
      try KeyCheck.check(source, mapped, in: .postgres(connection), includes: options.goesBothWays)
    }
    if table.isWholeRow, writes.areSettled { throw LocalWritesPlan.keyless(source.fullName, writes) }
    try checkOwners(table)
    byKey[key] = table
    if !table.goesBothWays { sequences.note(table) }
    return table
  }

  /// The table into which rows of this shape go, whichever trail has them; nil: there is none.
  func openTable(like schema: TableSchema) throws -> MappedTable? {
    let mapped = try TableMapping(schema, to: .postgres, names: options.names).target
    guard let target = try PostgresTargetTable.read(mapped.namespace, mapped.name, connection) else { return nil }
    tableCount += 1
    let table = MappedTable(
      key: schema.sourceKey, given: schema, part: .init(schema), mapped: mapped, target: target,
      state: .init(schema: mapped.namespace, name: mapped.name), number: tableCount)
    try checkOwners(table, isWrittenNow: true)
    return table
  }

  /// The same table with the columns that the target has besides: others may have written to those. Nil where there are
  /// none. Looked up once for a group.
  func wide(_ table: MappedTable) throws -> MappedTable? {
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
    let made = MappedTable(
      key: table.stateKey, given: schema, part: .init(schema), mapped: schema, target: target, state: table.state,
      number: tableCount, localWrites: table.localWrites, goesBothWays: table.goesBothWays)
    made.takesRowsIn = table.takesRowsIn
    made.watch = table.watch
    table.wider = (made, applied)
    return made
  }

  // MARK: Tables that the target cannot have

  /// Whether the target can have a table of this shape, and under its name; `key`: its own in state.
  func fits(_ schema: TableSchema, _ key: String) -> Bool {
    guard let mapped = try? TableMapping(schema, to: .postgres, names: options.names).target else { return false }
    return !tables.contains {
      $0.key != key.nameKey && $0.value.schema.hasSameBytes(as: mapped.namespace)
        && $0.value.name.hasSameBytes(as: mapped.name)
    }
  }

  /// Of a shape that does not fit; nil when there is none so far.
  func laterShape(of schema: TableSchema, _ key: String) throws -> LaterShape? {
    try LaterShape.find(
      of: schema, behind: reader.position, in: folder, from: checkpoint, through: limit, rules: options.rules,
      to: .postgres
    ) { fits($0, key) }
  }

  /// Whether all of a table's rows are copied further on.
  func isCopiedLater(_ schema: TableSchema) throws -> Bool {
    try LaterShape.isCopied(
      schema, behind: reader.position, in: folder, from: checkpoint, through: limit, rules: options.rules,
      to: .postgres)
  }

  /// Whether a row of the table may be missing, or differ, as a copy of the table follows.
  func excuses(_ table: MappedTable) throws -> Bool {
    try LaterShape.excuses(
      table.given, behind: reader.position, in: folder, from: checkpoint, through: limit, rules: options.rules,
      to: .postgres)
  }

  /// What can be written of rows of this shape; nil: nothing, as the table is dropped before it has one that fits.
  private func part(of schema: TableSchema, _ key: String) throws -> LaterShape.Part? {
    if let part = desk?.part(of: schema) { return part }
    guard scope.isLane, !fits(schema, key), let later = try laterShape(of: schema, key) else { return .init(schema) }
    if later.schema == nil { return nil }
    return later.part(of: schema) ?? .init(schema)
  }

  /// What of a table is the trail's. What two trails have had in common since before that was looked at goes on, with a
  /// notice, but is not copied.
  func claimRows(of source: TableSchema, as mapped: TableSchema, _ key: String, isCopied: Bool = false) throws
    -> TableClaim
  {
    let claim = TableClaim(source)
    // Writers that settle their conflicts share all rows.
    let (known, name) = (tables[key], tables[key]?.name ?? mapped.name)
    if options.goesBothWays(known?.schema ?? mapped.namespace, name) { return claim }
    let error = claim.collision(
      of: self.name, with: try state.feeders(of: known?.schema ?? mapped.namespace, name), table: name,
      source: source, at: connection.place)
    guard let error else { return claim }
    guard !isCopied, let known, known.claim.map({ $0 == claim }) ?? true else { throw error }
    progress.note("\(error.message): a copy would delete the others' rows, and is refused; \(error.hint)")
    return claim
  }

  /// Two tables of the source must not become one.
  func register(
    _ key: String, _ schema: TableSchema, _ mapped: TableSchema, _ known: PostgresTargetState.Table,
    isSaved: Bool = true
  ) throws -> PostgresTargetState.Table {
    if let other = tables.first(where: {
      $0.key != key.nameKey && $0.value.schema.hasSameBytes(as: known.schema)
        && $0.value.name.hasSameBytes(as: known.name)
    }) {
      throw CairnError(
        .nameCollision,
        "tables \(other.key) and \(schema.fullName) of the source would both be \(known.schema).\(known.name) at the target",
        hint: "rename one of them, or leave one out with --tables", context: ["table": schema.fullName])
    }
    if isSaved { try save(key, known) }
    return known
  }

  func save(_ key: String, _ table: PostgresTargetState.Table) throws {
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

  /// A table that waits has another name at the source; the target learns of it in the lane.
  func renameWaiting(_ old: String, to new: String, name: String) throws {
    try sink.settle()
    if waiting.contains(where: { $0.source.hasSameBytes(as: new) }) {
      throw CairnError(
        .schemaStopped, "tables \(old) and \(new) of the source both wait, and the one has the other's name now",
        hint: "make what the first of them waits for at the target, then run again", context: ["table": name])
    }
    guard let index = waiting.firstIndex(where: { $0.source.hasSameBytes(as: old) }) else { return }
    try state.rename(waiting[index], to: new, name: name)
    tables[new] = tables.removeValue(forKey: old.nameKey)
    (waiting[index].source, waiting[index].table.name) = (new, name)
    bySchema.removeAll(keepingCapacity: true)
  }

  /// All tables are looked at again before they are written to.
  func forgetShapes() {
    byKey.removeAll()
    bySchema.removeAll(keepingCapacity: true)
  }

  /// The table is looked at again before it is written to.
  func forgetShape(_ key: String) {
    byKey[key] = nil
    bySchema.removeAll(keepingCapacity: true)
  }
}

/// A table is not what it must be at the target, or its change cannot be made: it is to wait, from that record on.
struct SchemaStop: Error {
  /// In apply's state.
  let key: String
  let position: Position
  let error: CairnError
  /// Nothing is wrong with the change but that somebody uses the table.
  var isLocked = false
}

/// Statements that must be committed before the transaction that needs them.
struct Ahead: Error {
  let statements: [String]
}
