import Changes
import Conflicts
import Mapping
import PostgresKit

/// The tables of a trail at a PostgreSQL target: apply's state of them, and those that are open.
final class PostgresTables {
  /// The place at which a table of a catch-up is suspended again.
  private struct Halt {
    let place: String
    let from: Position
    let checkpoint: Checkpoint
    let number: UInt64
  }

  /// Apply's state of each table, by its name there.
  private(set) var tables: [NameKey: PostgresApplyState.Table]
  /// The suspended tables that a catch-up applies, or that any other replay skips.
  private(set) var waiting: [PostgresApplyState.Waiting]
  var scope: ReplayScope
  /// The open tables by the ids of their schema records.
  var openTables = SegmentTables<PostgresApplyTable>()
  /// The tables of a catch-up that this group suspends again, or that continue with a refresh later in the trail. The
  /// keys are their names in apply's state.
  private var halted: [NameKey: Halt] = [:]
  private var byKey: [NameKey: PostgresApplyTable] = [:]
  private var count = 0
  private var guardsAreDue = false
  private let session: PostgresSession
  private let cursor: TrailCursor

  /// Reads apply's state.
  ///
  /// - Parameter catchUp: The suspended tables to apply; nil: every table that is not suspended.
  init(_ session: PostgresSession, _ cursor: TrailCursor, catchUp: [PostgresApplyState.Waiting]?) throws {
    (self.session, self.cursor) = (session, cursor)
    tables = try session.state.tables()
    waiting = try catchUp ?? session.state.waiting(of: session.name)
    scope = ReplayScope(waiting: waiting, isCatchUp: catchUp != nil)
  }

  private var connection: PostgresConnection { session.connection }
  private var sink: PostgresSink { session.sink }
  private var state: PostgresApplyState { session.state }
  private var options: ApplyOptions { session.options }
  private var progress: ApplyProgress { session.progress }

  /// Reads apply's state again, after another replay has changed it.
  func reload() throws {
    tables = try state.tables()
    if !scope.isCatchUp {
      waiting = try state.waiting(of: session.name)
      scope = ReplayScope(waiting: waiting, isCatchUp: false)
    }
    forgetShapes()
  }

  var shape: PostgresSchemaChanges {
    PostgresSchemaChanges(
      connection: connection, state: state, progress: progress, tables: tables,
      waiting: Set(waiting.map(\.source.nameKey)), isCatchUp: scope.isCatchUp, proof: session.proof,
      scope: options.scope)
  }

  /// Returns whether the group must end, because a table of the catch-up is suspended again.
  var hasHalted: Bool { !halted.isEmpty }

  /// The last transactions that tables of the catch-up have, which this group suspends again.
  var haltedNumbers: [UInt64] { halted.values.map(\.number) }

  /// The open tables, with their present shapes.
  var open: some Sequence<PostgresApplyTable> { byKey.values }

  // MARK: Open tables

  func openTable(_ key: String, given schema: TableSchema) -> PostgresApplyTable? {
    byKey[key].flatMap { $0.given == schema ? $0 : nil }
  }

  /// Returns the open table with this name in apply's state; nil if it is not open.
  func openTable(_ key: String) -> PostgresApplyTable? { byKey[key] }

  func note(_ table: PostgresApplyTable, _ key: String) { byKey[key] = table }

  /// Returns a number that makes the names of a table's prepared statements unique.
  func nextNumber() -> Int {
    count += 1
    return count
  }

  /// Opens the target table for rows of this shape; nil if there is no such table, or if it lacks a column.
  func openTable(like schema: TableSchema) throws -> PostgresApplyTable? {
    let mapped = try TableMapping(schema, to: .postgres, names: options.names).target
    guard let target = try PostgresTargetTable.read(mapped.namespace, mapped.name, connection),
      mapped.columns.allSatisfy({ target.column($0.name) != nil })
    else { return nil }
    return try opened(schema, .init(schema), mapped, target)
  }

  /// Opens the target's table for a table of any trail, with the columns and the key that the target's table has. Nil
  /// if there is no such table, or if it has no key.
  func ownTable(of schema: TableSchema) throws -> PostgresApplyTable? {
    let (namespace, name) = TableMapping.targetPlace(of: schema, in: .postgres, names: options.names)
    guard let target = try PostgresTargetTable.read(namespace, name, connection) else { return nil }
    var own = TableSchema(epoch: 0, engine: .postgres, namespace: namespace, name: name, columns: [])
    if target.isPartitioned { own.flags.insert(.partitioned) }
    own.columns = target.columns.filter { !$0.isGenerated }.map {
      TableSchema.Column(name: $0.name, declaredType: $0.type.name)
    }
    let key = try KeyCheck.key(of: (namespace, name), connection)
    own.setKey(key, like: schema, .postgres) { schema.engine == .postgres ? $0 : options.names.postgresName($0) }
    let table = try opened(schema, .init(own), own, target)
    return table.key.isEmpty ? nil : table
  }

  private func opened(
    _ given: TableSchema, _ part: NextFittingSchema.Part, _ mapped: TableSchema, _ target: PostgresTargetTable
  ) throws -> PostgresApplyTable {
    let table = try PostgresApplyTable(
      key: given.sourceKey, given: given, part: part, mapped: mapped, target: target,
      state: .init(schema: mapped.namespace, name: mapped.name), number: nextNumber())
    try checkOwners(table, isWrittenNow: true)
    return table
  }

  /// Returns the table extended by the columns that only the target has; nil if there are none.
  func wide(_ table: PostgresApplyTable) throws -> PostgresApplyTable? {
    if let wider = table.lookups.wider, wider.since == session.applied { return wider.table }
    try sink.settle()
    let names = try sink.attempt { try table.ownColumns(connection) }
    if names.isEmpty {
      table.lookups.wider = (nil, session.applied)
      return nil
    }
    if let made = table.lookups.wider?.table,
      made.columns.dropFirst(table.columns.count).map(\.name).hasSameBytes(as: names)
    {
      table.lookups.wider = (made, session.applied)
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
    let number = nextNumber()
    let made = try PostgresApplyTable(
      key: table.stateKey, given: schema, part: .init(schema), mapped: schema, target: target, state: table.state,
      number: number, localWrites: table.localWrites, goesBothWays: table.goesBothWays)
    made.takesRowsIn = table.takesRowsIn
    made.watch = table.watch
    table.lookups.wider = (made, session.applied)
    return made
  }

  /// Throws `owners-code` if code of an untrusted role would run when the table is written. If such a role could change
  /// the code later, each transaction checks it.
  ///
  /// - Parameter isWrittenNow: Whether rows are written at once, so that the code must be locked now.
  func checkOwners(_ table: PostgresApplyTable, isWrittenNow: Bool = false) throws {
    let code = try session.proof.code(of: table.target, table.mapped.fullName, isWrittenNow: isWrittenNow)
    guard code.openness != .closed else { return }
    table.watch = OwnersWatch(table.target, code, number: count)
  }

  /// Returns the policy for rows that applications at the target have changed. For a two-way table, the policy is
  /// `stop`.
  func localWrites(of table: TableSchema, from source: TableSchema) throws -> LocalWrites {
    if options.goesBothWays(table.namespace, table.name) { return .stop }
    return try options.localWrites.writes(of: table, source.treatment, called: source.fullName)
  }

  func forgetShapes() {
    byKey.removeAll()
    openTables.forgetAll()
  }

  func forgetShape(_ key: String) {
    byKey[key] = nil
    openTables.forgetAll()
  }

  // MARK: Apply's state

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
      of: session.name, with: try state.feeders(of: known?.schema ?? mapped.namespace, name), table: name,
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

  /// Returns whether tables that must refuse writes of applications have changed since the last call.
  func takeGuardsDue() -> Bool {
    defer { guardsAreDue = false }
    return guardsAreDue
  }

  // MARK: Suspended tables

  /// Suspends a table from the present record on.
  ///
  /// - Parameter error: The error with which the target refused the record.
  func suspend(_ key: String, _ schema: TableSchema, _ error: CairnError) throws {
    let name = schema.sourceKey
    let (from, border) = (session.reader.position, session.reader.checkpoint)
    if scope.isCatchUp {
      halted[key] = Halt(place: name, from: from, checkpoint: border, number: cursor.whole)
    } else {
      // A suspended table already has this name: the second one can wait only after the first continues.
      if waiting.contains(where: { $0.source.hasSameBytes(as: name) }) { throw error }
      try WaitingTable.checkCount(waiting.count, of: session.name, error)
      var table = PostgresApplyState.Waiting(
        source: name, place: name, from: from,
        table: WaitingTable(
          name: schema.fullName, checkpoint: border, number: cursor.whole, code: error.code, message: error.message,
          hint: error.hint))
      table.id = try state.add(table, session.name)
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

  /// Moves the checkpoints of the catch-up's tables to `reached`. If `isDone`, ends their suspension.
  func moveCatchUp(to reached: Checkpoint, isDone: Bool) throws {
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
      proof: session.proof, scope: options.scope
    )
    .makeForeignKeys(sink, of: tables.filter { keys.contains($0.key) }.map(\.value))
  }
}
