import Changes
import Conflicts
import Mapping
import SQLiteKit
import SystemKit
import Trails
import Versions

/// Reads a trail from one place on and writes what is in its scope to an SQLite target, in groups of whole transactions.
///
/// It leaves the transaction of a group open: whoever asked for it moves the checkpoint and commits. After an error it
/// is of no use.
final class SQLiteReplay {
  /// Programs that write to the target wait while a commit of ours is under way.
  static let commitRowsUsual = 5000
  enum Scope: Equatable {
    /// All tables but those that wait.
    case main
    /// One table that waits: its name in apply's state, in lower case.
    case lane(NameKey)
  }

  /// What a group was.
  struct Group {
    var last = TransactionHeader(commitTime: 0)
    var rows = 0
    /// Whether the trail has anything in it that a database could be another one by.
    var isOfChanges = false
  }

  let target: SQLiteTarget
  let scope: Scope
  let reader: ApplyReader
  /// The border before the group.
  private(set) var groupStart: Checkpoint
  /// Changes that are known not to be made, by their place in the trail, with the reason.
  let refusals: [Position: CairnError]
  /// Copies with which the lane's table goes on instead, by the record that it waits with.
  let overtaken: [Position: LaterCopy]
  let database: Database
  let state: TargetState
  let options: ApplyOptions
  let name: TrailName
  let isUTF16: Bool
  let folder: String
  /// Where the database is captured, and others write to its rows as well.
  let desk: Desk?
  /// The resolution of conflicts in that case; nil: one-way.
  private(set) lazy var resolver = desk.map { RowResolver(self, $0, name, target.clock) }
  /// Transactions that are put aside; nil: this replay brings one of them back.
  let shelf: QuarantineShelf?
  /// Statements that may be executed once more; nil: none.
  let statements: StatementDesk?
  /// It was read while a statement was executed.
  var ahead: Record?

  /// The transaction that was begun last.
  private(set) var current: UInt64 = 0
  private(set) var currentPlace = VersionPlace(stamp: Stamp(clock: 0, origin: "", number: 0), begin: .start)
  /// It is passed over.
  private var isAside = false
  /// The last transaction that was applied.
  private(set) var number: UInt64
  /// The last one that this replay may look at.
  private(set) var limit = UInt64.max
  private var segment: UInt64 = 0
  private var bySchema: [UInt64: TargetTable?] = [:]
  /// The lane's table, as the trail calls it here; nil before it was created.
  var laneName: String?
  /// Where the lane's table waits, once it has been brought up to there: nothing of it is applied behind that.
  var halt: Place?
  /// Changes of the group that were left to others, or out.
  private var skipped = 0

  /// The table and range into which refresh rows go.
  var copying: TargetTable?
  /// Of which rows are being replaced that have values which only the target knows.
  var aside: TargetTable?
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
  var early = EarlyUpdates()
  var held = HeldRows()
  var before: [ColumnView] = []
  var after: [ColumnView] = []
  /// Values that were made from those of another engine, of the row before and the row after.
  var madeBefore = ByteWriter(capacity: 256)
  var madeAfter = ByteWriter(capacity: 256)

  /// The table of the record at hand; nil: of none.
  private var idAtHand: UInt64?

  /// Opens the trail in `folder`. Errors: `checkpoint-foreign` when the checkpoint is not in it.
  init(
    _ target: SQLiteTarget, trail folder: String, at checkpoint: Checkpoint?, number: UInt64, scope: Scope = .main,
    refusals: [Position: CairnError] = [:], overtaken: [Position: LaterCopy] = [:], desk: Desk? = nil,
    shelf: QuarantineShelf? = nil, statements: StatementDesk? = nil
  ) throws {
    (self.target, self.scope, self.refusals, self.overtaken) = (target, scope, refusals, overtaken)
    (self.desk, self.shelf, self.statements) = (desk, shelf, statements)
    statements?.begin()
    self.number = checkpoint == nil ? target.options.begin.number : number
    (database, state, options) = (target.database, target.state, target.options)
    (name, isUTF16, self.folder) = (target.trail, target.isUTF16, folder)
    reader = try ApplyReader.open(folder: folder, for: checkpoint, options: options, to: .sqlite)
    groupStart = reader.checkpoint
    changedRules = ChangedRules(options.changedRules, besides: target.adopted)
    if case .lane(let key) = scope, let waiting = target.tables[key]?.waiting {
      laneName = waiting.from == nil ? waiting.names.first : nil
    }
  }

  // MARK: Groups

  /// Applies transactions until a commit is due or transaction `limit` was applied; nil when there is none.
  func applyGroup(through limit: UInt64 = .max, _ stop: StopSignal) throws -> Group? {
    gate.beginGroup()
    guard number < limit else { return nil }
    return try reader.decoding { try readGroup(through: limit, stop) }
  }

  private func readGroup(through limit: UInt64, _ stop: StopSignal) throws -> Group? {
    self.limit = limit
    groupStart = reader.checkpoint
    guard var record = try next() else { return nil }
    guard try target.begin(stop) else { throw ApplyStopped() }
    if let desk {
      desk.beginGroup()
      if try desk.informsEarly { try inform(desk) }
    }
    if case .lane(let key) = scope, let waiting = target.tables[key]?.waiting {
      try state.checkWaiting(waiting.names.last ?? key.text, at: groupStart, waiting.from)
    }
    let begun = Clock.monotonicMilliseconds
    var group = Group()
    skipped = 0
    var count = 0
    while true {
      // A large transaction commits only at its end, so the next run does it again.
      count += 1
      if count % 1024 == 0, stop.isSet { throw ApplyStopped() }
      switch record {
      case .begin(let header):
        try checkClock(header)
        try desk?.begin(header, at: reader.position)
        (group.last, current) = (header, header.number)
        currentPlace = VersionPlace(
          stamp: Stamp(clock: header.clock, origin: name.description, number: header.number), begin: reader.position)
        isAside = try options.isOwn(header) || putAside(header)
      case .commit(let number, let changes):
        try statements?.checkIdle()
        group.rows += Int(changes)
        if isAside { skipped += Int(changes) }
        self.number = number
        try endChunk()
        try resolver?.resolve(stop)
        try settleEarly()
        if !held.isEmpty { try settleHeld() }
        let isDue =
          number >= limit || halt != nil || group.rows - skipped >= options.commitRows ?? Self.commitRowsUsual
          || Clock.monotonicMilliseconds - begun > options.commitMilliseconds
        if !isDue, let following = try next() {
          if case .begin(let header) = following, header.relay?.origin != group.last.relay?.origin {
            ahead = following
          } else {
            record = following
            continue
          }
        }
        group.rows = max(0, group.rows - skipped)
        try resolver?.judge()
        return group
      default:
        if record.isOfChanges {
          group.isOfChanges = true
          if let desk, !desk.isInformed { try inform(desk) }
          if !isAside { try target.beginRelay(group.last, at: reader.position) }
        }
        try isAside ? pass(record) : apply(record, stop)
      }
      guard let following = try next() else {
        throw CairnError(
          .trailDamaged, "trail \(name) ends inside of transaction \(group.last.number)",
          hint: "run 'cairn trail verify \(name)'", remedy: .bug)
      }
      record = following
    }
  }

  private lazy var gate = ClockGate(name, target.clock, skewMicrosecondsMax: options.skewMicrosecondsMax)

  /// Throws ``ClockGate/Ahead``. One way: tables that wait come after the main stream, and the desk looks two-way.
  private func checkClock(_ header: TransactionHeader) throws {
    guard desk == nil, scope == .main else { return }
    try gate.check(header)
  }

  // MARK: Records

  private func next() throws -> Record? {
    guard let ahead else { return try reader.next() }
    self.ahead = nil
    return ahead
  }

  private func apply(_ record: Record, _ stop: StopSignal) throws {
    try reader.checkBarred()
    // There may be millions of them.
    if case .change(let change) = record, let statements, try statements.passes(change, reader) { return }
    if aside != nil {
      if case .refreshRow = record {} else { try endChunk() }
    }
    try reach(record)
    idAtHand = record.schemaID
    switch record {
    case .statement(let statement): try statements?.offer(statement, at: reader.position)
    case .statementEnd(let end): try statements?.end(end)
    case .change(let change):
      if try isReplayed(change) { return }
      guard let table = try table(change.schemaID), !leavesOut(change, table) else {
        skipped += 1
        return
      }
      if change.treatment.contains(.refused) {
        try refuse(table)
        skipped += 1
        return
      }
      if try defers(change, table) { return }
      try settlingMeetings(table) { try apply(change, table) }
    case .refreshRow(let id, let image):
      try statements?.checkIdle()
      guard let table = try table(id), !table.state.isAwaited, try !keepsOwn(id, image, table) else {
        skipped += 1
        return
      }
      before.removeAll(keepingCapacity: true)
      try decode(image, into: &after, &madeAfter, table)
      try checkWhole(table)
      try settlingMeetings(table) { try takeCopied(table) }
      copied += 1
    case .refresh(let refresh):
      try statements?.checkIdle()
      if let table = try table(refresh.schemaID) { try apply(refresh, table) }
    case .ddl(let ddl):
      try statements?.checkIdle()
      if reader.takesNameAway(ddl) { try resolver?.resolve(stop) }
      try apply(ddl)
      if let desk {
        desk.shared.noteShapes()
        try desk.lookAtKeys { try TargetTable.alternates(database) }
      }
    case .schema(let id, _): if reader.position.segment == segment { bySchema[id] = nil }
    case .begin, .commit, .progress, .marker, .sequence: break
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

  // MARK: Tables

  /// The table for a schema id, which counts within a segment; nil when it is not in the scope, or left out.
  func table(_ id: UInt64) throws -> TargetTable? {
    if reader.position.segment != segment {
      segment = reader.position.segment
      bySchema.removeAll(keepingCapacity: true)
    }
    if let table = bySchema[id] { return table }
    do {
      let table = try openedAtOnce(id)
      bySchema[id] = .some(table)
      return table
    } catch let refusal as Unopened {
      // From this record on, the table waits; the rest of the group goes on.
      if refusal.isUndone, scope == .main, idAtHand == id {
        try beginToWait(schema(id), refusal.error)
        return nil
      }
      throw Refusal(position: reader.position, error: refusal.error)
    }
  }

  /// A table that is not as it should be.
  private struct Unopened: Error {
    let error: CairnError
    /// The target, and what is known of it, are as they were before.
    let isUndone: Bool
  }

  /// Opens a table, or changes nothing. Throws ``Unopened``.
  private func openedAtOnce(_ id: UInt64) throws -> TargetTable? {
    let (tables, areDue) = (target.tables, target.guardsAreDue)
    let version = try database.integer("PRAGMA schema_version")
    try database.execute("SAVEPOINT cairn_opening")
    do {
      let table = try opened(id)
      try database.execute("RELEASE cairn_opening")
      return table
    } catch {
      let why = (error as? Refusal)?.error ?? error as? CairnError
      let codes: [ErrorCode] = [.schemaStopped, .tableRefused, .nameCollision, .ruleRefused]
      guard let why, codes.contains(why.code) else { throw error }
      let isSame = try database.integer("PRAGMA schema_version") == version
      try database.execute("ROLLBACK TO cairn_opening")
      try database.execute("RELEASE cairn_opening")
      if isSame { (target.tables, target.guardsAreDue) = (tables, areDue) }
      throw Unopened(error: why, isUndone: isSame)
    }
  }

  private func opened(_ id: UInt64) throws -> TargetTable? {
    let schema = try schema(id)
    let targetName = self.targetName(of: schema)
    guard isInScope(targetName), let part = try part(of: schema) else { return nil }
    let mapping = try underNameThere(try mapping(part.schema))
    try meet(mapping, key(targetName))
    try adopt(id, mapping)
    var known = target.tables[key(targetName)] ?? .init()
    try claim(&known, for: mapping)
    let name = mapping.target.name
    try options.checkAllowed("", name, in: .sqlite)
    let claim = try claimRows(of: mapping.source, as: name)
    // A copy replaces nothing in a history: what comes before it counts as well.
    let isAwaited = known.isAwaited && mapping.source.treatment?.isHistory != true
    if known.claim != claim || known.isAwaited != isAwaited {
      if !isAwaited, known.isAwaited { (known.refreshing, known.isAwaited) = (nil, false) }
      known.claim = claim
      try save(name, known)
    }
    let columns = Set(
      try database.query("SELECT name FROM pragma_table_xinfo(?)", [.text(name)]).map { $0[0].string.sqliteKey })
    let there = mapping.target.columns.indices.filter {
      columns.contains(mapping.target.columns[$0].name.sqliteKey)
    }
    if options.policy(isCreated: known.isCreated) != .ignore {
      guard there.count == mapping.target.columns.count else { throw try lacking(mapping, there) }
    } else if columns.isEmpty {
      target.progress.note("table \(name) is left out: the target has none, and --ddl ignore creates none")
      return nil
    }
    for (index, column) in mapping.target.columns.enumerated() where !there.contains(index) {
      target.progress.note(
        "column \(name).\(column.name) is left out: the target has none, and --ddl ignore adds none")
    }
    try target.fired.keepInStep()
    try target.keepHooked()
    try target.noteQuietTriggers(of: name)
    if options.goesBothWays("", name) {
      try KeyCheck.check(mapping.source, mapping.target, in: .sqlite(database), includes: options.goesBothWays)
    }
    let table = TargetTable(
      mapping, state: known, database: database, there: there, image: (schema, part.positions),
      localWrites: try localWrites(of: mapping), goesBothWays: options.goesBothWays("", name))
    table.mayCollide = try table.goesBothWays && table.hasOtherUniqueValues()
    return table
  }

  private func isInScope(_ name: String) -> Bool {
    switch scope {
    case .main: target.tables[name.sqliteKey]?.waiting == nil
    case .lane: laneName?.sqliteKey == name.sqliteKey
    }
  }

  /// A person may have given a table that waits the name that it is to have later.
  func underNameThere(_ mapping: TableMapping) throws -> TableMapping {
    guard case .lane(let key) = scope, let names = target.tables[key]?.waiting?.names else { return mapping }
    let name = mapping.target.name
    if try target.shape.exists(name) {
      // It is that of another table by now.
      let isTaken = target.tables.contains { $0.key != key && $0.value.waiting?.holds(name) ?? false }
      guard isTaken, let later = try names.last(where: target.shape.exists) else { return mapping }
      return mapping.named(later)
    }
    return try names.first(where: target.shape.exists).map(mapping.named) ?? mapping
  }

  /// Where apply's state has a table that is called so here.
  func key(_ name: String) -> NameKey { if case .lane(let key) = scope { key } else { name.sqliteKey } }

  func schema(_ id: UInt64) throws -> TableSchema {
    guard let schema = reader.schema(id) else {
      throw CairnError(
        .trailDamaged, "schema \(id) at \(reader.position) of trail \(name) is not in its segment",
        hint: "run 'cairn trail verify \(name)'")
    }
    return schema
  }

  /// Two tables of PostgreSQL may have one name here: it belongs to the first.
  func claim(_ known: inout TargetState.Table, for mapping: TableMapping) throws {
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

  func save(_ name: String, _ table: TargetState.Table) throws {
    let key = key(name)
    var table = table
    table.isGuarded = options.isGuarded("", name)
    target.guardsAreDue = true
    try state.save(table.waiting?.names.last ?? name, table)
    target.tables[key] = table
    bySchema.removeAll(keepingCapacity: true)
  }

  /// A table that waits is remembered until its lane has reached the others.
  func forget(_ name: String) throws {
    let key = key(name)
    target.guardsAreDue = true
    if let waiting = target.tables[key]?.waiting {
      var known = TargetState.Table()
      known.waiting = waiting
      try save(name, known)
    } else {
      try state.forget(name)
      target.tables[key] = nil
    }
    bySchema.removeAll(keepingCapacity: true)
  }

  /// Takes the connection's own triggers off before a change of the schema. ``opened(_:)`` puts them back.
  func releaseTriggers() throws {
    try target.fired.release()
    try target.releaseHooks()
    forgetShapes()
  }

  func forgetShapes() { bySchema.removeAll(keepingCapacity: true) }
}

extension Record {
  /// The table whose rows the record changes or copies; nil for all other records.
  fileprivate var schemaID: UInt64? {
    switch self {
    case .change(let change): change.schemaID
    case .refreshRow(let id, _): id
    case .refresh(let refresh): refresh.schemaID
    default: nil
    }
  }
}
