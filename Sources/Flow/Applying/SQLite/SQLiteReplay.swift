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

  /// The open group: transactions that are applied and not yet committed.
  struct Group {
    var last = TransactionHeader(commitTime: 0)
    var rows = 0
    /// Whether the group changes the database. If not, no applied note is written for it.
    var isOfChanges = false
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
  let folder: String
  /// The conflict handling of two-way replication; nil if the apply is one-way.
  let desk: Desk?
  /// The resolution of conflicts; nil if the apply is one-way.
  private(set) lazy var resolver = desk.map { RowResolver(self, $0, name, target.clock) }
  /// The trail's transactions in quarantine; nil while one of them is being retried.
  let shelf: QuarantineStore?
  /// The object that chooses the statements of the source that apply executes instead of writing their rows. Nil: apply
  /// writes all rows.
  let statements: StatementSession?
  /// A record that was read ahead of time and is handled next; nil if there is none.
  var ahead: Record?

  private(set) var current: UInt64 = 0
  private(set) var currentPlace = VersionPlace(stamp: VersionStamp(clock: 0, origin: "", number: 0), begin: .start)
  private var isAside = false
  private(set) var number: UInt64
  private(set) var limit = UInt64.max
  private var segment: UInt64 = 0
  private var bySchema: [UInt64: SQLiteApplyTable?] = [:]
  /// The table's name at the present position in the trail, in a catch-up; nil before the table was created.
  var catchUpName: String?
  var halt: Place?
  private var skipped = 0

  var copying: SQLiteApplyTable?
  /// The table whose target-only columns are saved while a refresh chunk replaces its rows; nil if none.
  var aside: SQLiteApplyTable?
  var copied: UInt64 = 0
  var estimated: UInt64 = 0
  /// The tables that were already checked for existing rows when a refresh began.
  var started: Set<NameKey> = []
  /// The transactions in which refreshes began since apply's last commit, by the table's lower-case name at the source.
  var copiesBegun: [NameKey: UInt64] = [:]
  var changedRules: ChangedRules
  var tablesCopied = 0
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
    self.number = checkpoint == nil ? target.options.begin.number : number
    (database, state, options) = (target.database, target.state, target.options)
    (name, isUTF16, self.folder) = (target.trail, target.isUTF16, folder)
    reader = try ApplyReader.open(folder: folder, for: checkpoint, options: options, to: .sqlite)
    groupStart = reader.checkpoint
    changedRules = ChangedRules(options.changedRules, besides: target.adopted)
    if case .catchUp(let key) = scope, let waiting = target.tables[key]?.waiting {
      catchUpName = waiting.from == nil ? waiting.names.first : nil
    }
  }

  // MARK: Groups

  /// Begins a write transaction, and applies transactions until a commit is due, none after transaction `limit`. The
  /// caller commits. Nil, without a transaction, if there was nothing to apply.
  func applyGroup(through limit: UInt64 = .max, _ stop: StopSignal) throws -> Group? {
    gate.beginGroup()
    guard number < limit else { return nil }
    return try reader.decodingGroup { try readGroup(through: limit, stop) }
  }

  private func readGroup(through limit: UInt64, _ stop: StopSignal) throws -> Group? {
    self.limit = limit
    groupStart = reader.checkpoint
    definitionBytes = 0
    guard var record = try next() else { return nil }
    guard try target.begin(stop) else { throw ApplyStopped() }
    if let desk {
      desk.beginGroup()
      if try desk.informsEarly { try inform(desk) }
    }
    if case .catchUp(let key) = scope, let waiting = target.tables[key]?.waiting {
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
          stamp: VersionStamp(clock: header.clock, origin: name.description, number: header.number),
          begin: reader.position)
        isAside = try options.isOwn(header) || putAside(header)
      case .commit(let number, let changes):
        try statements?.checkIdle()
        group.rows += Int(changes)
        if isAside { skipped += Int(changes) }
        self.number = number
        try endChunk()
        try resolver?.resolve(stop)
        try settleEarly()
        if !parked.isEmpty { try settleParked() }
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
          .trailDamaged, "trail \(name) ends inside transaction \(group.last.number)",
          hint: "run 'cairn trail verify \(name)'", remedy: .bug)
      }
      record = following
    }
  }

  private lazy var gate = ClockGate(name, target.clock, skewMicrosecondsMax: options.skewMicrosecondsMax)

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
    // A statement may have millions of changes, so this comes first.
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
      try resolvingLocalWrites(table) { try apply(change, table) }
    case .refreshRow(let id, let image):
      try statements?.checkIdle()
      guard let table = try table(id), !table.state.isAwaited, try !keepsOwn(id, image, table) else {
        skipped += 1
        return
      }
      before.removeAll(keepingCapacity: true)
      try decode(image, into: &after, &madeAfter, table)
      try checkWhole(table)
      try resolvingLocalWrites(table) { try takeCopied(table) }
      copied += 1
    case .waitingRow(let row): try takeWaiting(row)
    case .refresh(let refresh):
      try statements?.checkIdle()
      if let table = try table(refresh.schemaID) {
        let source = try schema(refresh.schemaID)
        // Apply's state still has the table under its former name.
        if scope == .main, let move = desk?.move(of: source) {
          throw Refusal(position: reader.position, error: move.unmade(source, at: database.path))
        }
        try apply(refresh, table)
      }
    case .ddl(let ddl):
      try statements?.checkIdle()
      if reader.takesNameAway(ddl) { try resolver?.resolve(stop) }
      isShapeMade = false
      try apply(ddl)
      if let desk {
        if isShapeMade { desk.learn(ddl, reader.schema(ddl.before), reader.schema(ddl.after)) }
        desk.shared.noteShapes()
        try desk.lookAtKeys { try SQLiteApplyTable.foreignKeys(database) }
      }
    case .schema(let id, _): if reader.position.segment == segment { bySchema[id] = nil }
    case .begin, .commit, .progress, .marker, .sequence: break
    case .reserved(let kind, _):
      throw CairnError(
        .trailVersion, "record kind \(kind) at \(reader.position) of trail \(name) is unknown to this version",
        hint: "use a newer version of Cairn")
    }
  }

  private func pass(_ record: Record) throws {
    if case .schema(let id, _) = record, reader.position.segment == segment { bySchema[id] = nil }
  }

  // MARK: Tables

  func table(_ id: UInt64) throws -> SQLiteApplyTable? {
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
      let codes: [ErrorCode] = [.schemaStopped, .tableRefused, .nameCollision, .ruleRefused]
      guard let why, codes.contains(why.code) else { throw error }
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

  func schema(_ id: UInt64) throws -> TableSchema {
    guard let schema = reader.schema(id) else {
      throw CairnError(
        .trailDamaged, "schema \(id) at \(reader.position) of trail \(name) is not in its segment",
        hint: "run 'cairn trail verify \(name)'")
    }
    return schema
  }

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
    bySchema.removeAll(keepingCapacity: true)
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
    bySchema.removeAll(keepingCapacity: true)
  }

  /// Drops the TEMP triggers of apply's connection before a schema change.
  func releaseTriggers() throws {
    try target.fired.release()
    try target.releaseHooks()
    forgetShapes()
  }

  func forgetShapes() { bySchema.removeAll(keepingCapacity: true) }
}
