import Changes
import Conflicts
import SystemKit
import Trails
import Versions

/// The conflict handling of one two-way apply. It selects the rows that are resolved from all their versions.
///
/// These rows are resolved at the end of their transaction. All other rows are written at once.
final class TwoWaySession<Table: AnyObject> {
  /// A row that is resolved at the end of its transaction, with the version that the transaction makes of it.
  struct Row {
    let name: RowName
    let table: Table
    var version: StoredVersion
    /// Whether the transaction makes a version of the row. False if the transaction inserted and then deleted the row.
    var isVersion: Bool { version.before != nil || version.after != nil }

    func with(_ table: Table?) -> Row { table.map { Row(name: name, table: $0, version: version) } ?? self }
  }

  let shared: TwoWay
  let names: RowNames
  private let trail: TrailName
  /// The trail whose apply has the rules.
  private let ruled: TrailName
  private let clock: Clock
  private let reader: VersionReader
  /// The last transaction for which apply resolves all rows from their versions, because a row differed from the trail;
  /// 0: none.
  private var settlesThrough: UInt64 = 0
  private var lockedFirst = LockedFirst()
  private var locksFirst = false
  private(set) var hasLocked = false
  private var waits = 0
  let gate: ClockGate
  private(set) var place = VersionPlace(stamp: VersionStamp(clock: 0, origin: "", number: 0), begin: .start)
  private(set) var seen: [String: UInt64] = [:]
  private var met: MetTransaction?
  /// The last transaction of each trail that this database has, including the open group.
  private var reached: [String: UInt64] = [:]
  /// Whether the author of the present transaction knew changes that have not arrived here.
  private(set) var isAhead = false
  /// Whether the present transaction's author knew changes that the target lacks.
  private(set) var mayDiffer = false
  private var settlesAll = false
  /// The rows that applications have changed in commits that capture has not read yet.
  private var uncaptured: Set<RowName> = []
  private let deferred: DeferredRows<Table>
  /// The rows that the present transaction inserted into tables with the rule `insert-only`.
  private var inserted: [RowName: [KeyedRow]] = [:]
  /// A cache, for at most 8 transactions: the rows that each transaction wrote, if other rows may have the same row
  /// names.
  private var spelled: [VersionStamp: Set<Spelled>] = [:]
  private var written: [RowName] = []
  private var watchesRows = false
  /// A cache for 16 transactions: the rows that each deleted or gave another key, by the rows that they referenced.
  var leavers: [VersionStamp: [RowName: [(parent: [Value], rows: [KeyedRow])]]] = [:]
  /// A cache for 4 transactions: the keys of the rows that each of them referenced, by the rows' names.
  var referred: [VersionStamp: [RowName: Set<[Value]>]] = [:]

  private var columns: ColumnsNow

  /// - Parameter ruled: The trail whose apply has the rules, if it is not `trail`.
  init(_ shared: TwoWay, _ trail: TrailName, _ names: RowNames, _ clock: Clock, rulesOf ruled: TrailName? = nil) {
    (self.shared, self.trail, self.names, self.clock) = (shared, trail, names, clock)
    self.ruled = ruled ?? trail
    gate = ClockGate(trail, clock, skewMicrosecondsMax: shared.limits.skewMicrosecondsMax)
    columns = names.columnsNow
    names.roots = shared.roots
    reader = VersionReader(seen: shared.window.seen)
    deferred = DeferredRows(bytesMax: shared.limits.deferredBytesMax)
  }

  /// Updates the known renames and drops of tables and columns, after this database's trail was read. Returns whether
  /// they have changed, so that tables must be opened again.
  func learnColumns() -> Bool {
    let (steps, count) = (shared.window.columnSteps + shared.arrivedSteps.withLock { $0.all }, shared.roots.count)
    guard steps != columns.steps || count != counts.roots else { return false }
    (columns.steps, counts.roots) = (steps, count)
    reader.forgetTransactions()
    return true
  }

  /// The numbers of renamed tables and of schema changes when this session last looked at them.
  private var counts = (roots: 0, shapes: -1)

  private var arriving: [ColumnStep] = []

  /// Adds the renames and drops of a schema change to the known names of tables and columns.
  ///
  /// Must only be called after apply has made the change.
  func learn(_ ddl: DDL, _ before: TableSchema?, _ after: TableSchema?) {
    guard !shared.isEcho(ddl), let before, let after else { return }
    names.learn(ddl, before, after)
    reader.forgetTransactions()
    let origins = TableDifference(before, after, origins: ddl.origins(from: before, to: after)).origins
    guard let was = columns.mapped(before), let now = columns.mapped(after),
      let step = ColumnStep(
        was, now, origins: origins, applied: ddl.applied, number: place.stamp.number, of: trail.description)
    else { return }
    arriving.append(step)
    columns.steps.append(step)
  }

  /// Returns both names of a table that was renamed here. Nil if it was not, or if the present transaction's author
  /// knew the rename.
  func move(of table: TableSchema) -> ColumnsNow.Move? {
    columns.move(of: table, knowing: known, of: trail.description)
  }

  func named(_ table: TableSchema, _ move: ColumnsNow.Move) -> TableSchema { columns.named(table, move.now) }

  /// Returns those columns of a table that this database still has, under their present names. Nil if no name has
  /// changed, or if a key column was dropped.
  func part(of table: TableSchema) -> NextFittingSchema.Part? {
    columns.part(of: table, knowing: known, of: trail.description)
  }

  /// Returns the last transaction that the present transaction's author knew, of the trail from which `step` comes.
  private func known(_ step: ColumnStep) -> UInt64 {
    if step.origin.isEmpty { return seen[shared.own.description] ?? 0 }
    return step.origin.hasSameBytes(as: trail.description) ? .max : seen[step.origin] ?? 0
  }

  private func readVersions(_ row: RowName, at place: VersionPlace) throws -> [StoredVersion] {
    let admitted = admittedRows(of: place.stamp.origin)
    return try reader.read(row, at: place, folder: shared.folder(of: place.stamp.origin)) { schema, change in
      // The reader may keep the result for other rows: it must not depend on `row`.
      admitted?.includes(schema) == false ? [] : try names.names(schema, change)
    }.map { columns.version($0, own: shared.own.description) }
  }

  private var admitted: [String: AdmittedRows] = [:]

  func admittedRows(of origin: String) -> AdmittedRows? {
    if let known = admitted[origin] { return known }
    admitted[origin] = shared.admittedRows(of: origin)
    return admitted[origin]
  }

  /// Returns the names of the rows that a change in this database's trail touches or references.
  func ownNames(_ schema: TableSchema, _ change: ChangeView) throws -> ChangedRows {
    try names.namesAndReferences(schema, change, from: nil)
  }

  /// Returns the rows to which the foreign keys of a row version refer.
  ///
  /// A foreign key counts if the target has it, or if the version's trail may write the referenced table.
  func parents(of version: StoredVersion, _ row: [Value?]) -> [RowNames.Parent] {
    names.parents(version.schema, row, from: admittedRows(of: version.stamp.origin))
  }

  func forEachRow(
    at place: VersionPlace, _ body: (TableSchema, ChangeView, _ isCopied: Bool) throws -> Void
  ) throws {
    let admitted = admittedRows(of: place.stamp.origin)
    try reader.forEachRow(at: place, folder: shared.folder(of: place.stamp.origin)) { schema, change, isCopied in
      if admitted?.includes(schema) != false { try body(schema, change, isCopied) }
    }
  }

  /// Reads the target's foreign keys if an apply of this database has changed a table since the last call.
  func lookAtKeys(_ keys: () throws -> RowNames.Catalog) throws {
    let count = shared.shapeCount
    guard count != counts.shapes else { return }
    (names.alternates, names.ownKeys, names.holders) = try keys()
    reader.forgetTransactions()
    counts.shapes = count
  }

  // MARK: Groups

  private(set) var isInformed = false
  /// Whether apply must read, at the begin of each group and not only before its first change, which rows applications
  /// have changed.
  var informsEarly: Bool { get throws { try shared.readsOwn } }

  func beginGroup() {
    (uncaptured, watchesRows, isInformed, candidatesLeft) = ([], false, false, nil)
    arriving.removeAll()
    reached = shared.appliedNumbers
    written.removeAll(keepingCapacity: true)
    endTransaction()
  }

  /// Stores the rows that applications have changed in commits that this database's trail lacks. Called before the
  /// group's first change.
  ///
  /// - Parameter watchesRows: Whether the group's rows are checked for such commits at its end.
  func inform(uncaptured: Set<RowName> = [], watchesRows: Bool = false) {
    (self.uncaptured, self.watchesRows, isInformed) = (uncaptured, watchesRows, true)
  }

  /// Returns whether all rows of transactions through `number` can still be requested to be resolved from versions.
  func maySettle(through number: UInt64) -> Bool { number > settlesThrough }

  /// Requests that all rows of transactions through `number` are resolved from versions.
  func settle(through number: UInt64) { settlesThrough = max(settlesThrough, number) }

  var isToLock: Bool { locksFirst && !hasLocked }

  func noteLocks() { hasLocked = true }

  /// Passes all row changes of the present transaction to `body`, without TRUNCATE and refreshed rows. Reads them from
  /// the trail once more.
  func forEachChange(_ body: (TableSchema, ChangeView) throws -> Void) throws {
    try forEachRow(at: place) { schema, change, isCopied in
      if !isCopied { try body(schema, change) }
    }
  }

  /// Throws ``LocalAhead`` if the group wrote one of `rows`, which applications have changed in commits that capture
  /// has not read.
  func check(committed rows: Set<RowName>) throws {
    if !rows.isEmpty, written.contains(where: rows.contains) { throw LocalAhead() }
  }

  /// Notes that a group through transaction `number` failed because applications changed its rows.
  func overtaken(at number: UInt64) { lockedFirst.note(number, isAgain: waits > 0) }

  func waitForCapture(_ stop: StopSignal) throws {
    try shared.waitForCapture(stop, waits)
    waits += 1
  }

  /// Notes a commit through transaction `number` for all applies of the database. Nil: of a catch-up or the quarantine.
  func committed(_ number: UInt64?) throws {
    waits = 0
    noteCandidates()
    shared.note(arrived: arriving)
    arriving.removeAll()
    if let number { shared.note(applied: number, of: trail) }
    try shared.window.commit(trail)
  }

  // MARK: Transactions

  /// Begins a transaction.
  ///
  /// - Throws: ``ClockGate/Ahead`` if the transaction's clock is too far ahead of this node's clock. `trail-forked` if
  ///   the author knew transactions that this database's trail lacks.
  func begin(_ told: TransactionHeader, at begin: Position) throws {
    try gate.check(told)
    let header = try shared.window.believed(told, of: trail)
    inserted.removeAll(keepingCapacity: true)
    reader.forgetTransactions()
    place = VersionPlace(
      stamp: VersionStamp(clock: header.clock, origin: trail.description, number: header.number), begin: begin)
    seen = shared.window.seen(header)
    // This database has all of its own transactions, also those after the present one.
    if trail != shared.own {
      reached[place.stamp.origin] = max(reached[place.stamp.origin] ?? 0, header.number)
    }
    isAhead = shared.isAhead(header, seen: seen)
    mayDiffer = isAhead || shared.knowsHeld(seen)
    (locksFirst, hasLocked) = (shared.limits.locksFirst || lockedFirst.contains(header.number), false)
    settlesAll = mayDiffer || header.number <= settlesThrough
    met = shared.window.meet(header, of: trail, at: begin)
  }

  /// Returns the row with this index among those that are resolved at the end of the transaction.
  func row(_ index: Int) throws -> Row { try row(deferred[index]) }

  /// Calls `body` with each row that is resolved at the end of the transaction, and the row's index.
  func forEachRow(_ body: (Int, Row) throws -> Void) throws {
    for index in 0..<deferred.count { try body(index, row(index)) }
  }

  private func row(_ row: DeferredRows<Table>.Row) -> Row {
    var version = version(row.fold)
    if !columns.steps.isEmpty { version = columns.version(version, own: shared.own.description) }
    return Row(name: row.name, table: row.table, version: version)
  }

  func list<Element>() -> SpilledList<Element> { SpilledList(bytesMax: shared.limits.deferredBytesMax) }

  /// The rows of other tables that the present transaction concerns.
  private var referenced = ReferencedRows()
  var deferredCount: Int { deferred.count }
  var isToSettle: Bool { !deferred.isEmpty || !referenced.isEmpty }
  /// The rows that rows of the present transaction referenced before, and that the window has versions of.
  var leftRows: [RowNames.Parent] { referenced.left }

  func endTransaction() {
    referenced.removeAll()
    deferred.removeAll()
    reader.forgetTransactions()
  }

  private func isDeferred(_ row: KeyedRow) throws -> Bool { try deferredRow(row) != nil }

  private func deferredRow(_ row: KeyedRow) throws -> Row? {
    try deferred.last(of: row.name) { row.isSameKey(names.key(of: version($0))) }.map { self.row($0.row) }
  }

  /// Returns whether a change is deferred to the end of its transaction, because it may conflict with other versions.
  ///
  /// - Parameter schema: The table in the trail.
  /// - Parameter isReferenced: Whether foreign keys reference the table.
  /// - Parameter mayWait: Whether a row that the table lacks may be a waiting row.
  func defers(
    _ change: ChangeView, _ schema: TableSchema, _ table: Table, isReferenced: Bool, takesRowsIn: Bool, mayWait: Bool
  ) throws -> Bool {
    let rows = try names.names(schema, change)
    if rows.isEmpty { throw Self.keyless(schema) }
    let admitted = admittedRows(of: trail.description)
    if try names.parents(schema, change, from: admitted).contains(where: need) { try needRows(schema, change) }
    try watch(rows)
    let alternates = try names.alternates(schema, change)
    for name in alternates { try shared.window.note(name, place) }
    try referenced.leave(schema, change, from: admitted, names, shared.window, place)
    let isGone = isReferenced && (change.operation == .delete || rows.count == 2)
    if isGone { for name in [rows[0]] + alternates { try watch([name.reference]) } }
    let isDeferred =
      try settlesAll || isGone || mayWait || (takesRowsIn && !comesIn(change, schema))
      || (!deferred.isEmpty && rows.contains(where: deferred.holds))
    if !isDeferred, let met, try shared.window.follow(rows, met) { return false }
    if change.operation == .insert, let lacking = try change.after?.values().firstIndex(of: nil) {
      let column = lacking < schema.columns.count ? schema.columns[lacking].name : ""
      throw incompleteRow(schema, column: column, at: place.begin, of: trail)
    }
    // Both rows of a change of the key may have one name.
    for (index, row) in rows.enumerated() where index == 0 || row != rows[0] {
      for step in try VersionFold.Step.all(change, schema, rows, row) {
        try deferred.fold(row, table, schema, step)
      }
    }
    return true
  }

  /// Returns whether a table's rule is `insert-only`, so that apply inserts rows of this trail and changes no existing
  /// ones.
  func takesRowsIn(_ table: String, _ columns: [String]) throws -> Bool {
    let rules = try shared.rules(ruled, table, columns)
    guard rules.rule == .insertOnly else { return false }
    return rules.decider == nil || rules.deciding(source: ruled.description, target: shared.own.description) != nil
  }

  /// Returns the columns with the rule `delta`, as indexes in the trail's table.
  func summed(_ table: String, _ columns: [String], in schema: TableSchema) throws -> [Int] {
    try shared.rules(ruled, table, columns).columns.filter { $0.value == .delta }.keys.sorted().compactMap { index in
      schema.columns.firstIndex { $0.name.sqliteKey == columns[index].sqliteKey }
    }
  }

  /// Returns whether a change inserts a row, or changes a row that the present transaction has inserted.
  private func comesIn(_ change: ChangeView, _ schema: TableSchema) throws -> Bool {
    let rows = try names.keyed(schema, change)
    if change.operation == .insert {
      for row in rows { inserted[row.name, default: []].append(row) }
      return true
    }
    return rows.count == 1 && inserted[rows[0].name, default: []].contains(where: rows[0].isSame)
  }

  /// Notes that the present transaction references a row. Returns whether the row has versions that the transaction's
  /// author did not know.
  private func need(_ parent: RowNames.Parent) throws -> Bool {
    try watch([parent.name])
    try shared.window.note(parent.reference, place)
    return try !shared.window.concurrent(parent.name, with: place.stamp, seen: seen).counted(by: shared, at: place)
      .isEmpty
  }

  private func needRows(_ schema: TableSchema, _ change: ChangeView) throws {
    for parent in try names.parents(
      schema, change, from: admittedRows(of: trail.description), withKeys: true)
    where try need(parent) {
      referenced.needed += try rows(of: parent).map(\.name)
    }
  }

  /// Returns the deleted rows that may have to be restored, with their known versions.
  ///
  /// These are rows that the present transaction references, and rows that those rows referenced when they were
  /// deleted.
  func neededRows() throws -> [(row: KeyedRow, versions: [StoredVersion])] {
    var (open, met): ([RowName], Set<RowName>) = ([], [])
    for name in referenced.needed where met.insert(name).inserted { open.append(name) }
    var rows: [(row: KeyedRow, versions: [StoredVersion])] = []
    while !open.isEmpty {
      let name = open.removeFirst()
      let versions = try others(name)
      // A reference has only the name of a row, so all rows with that name are examined.
      rows += try apart(name, versions).filter { group in try deferredRow(group.row).map { !$0.isVersion } ?? true }
      for version in versions where version.after == nil {
        for parent in parents(of: version, version.before ?? []) {
          for row in try self.rows(of: parent) where met.insert(row.name).inserted {
            try watch([row.name])
            open.append(row.name)
          }
        }
      }
    }
    return rows
  }

  private func apart(_ name: RowName, _ versions: [StoredVersion]) -> [(row: KeyedRow, versions: [StoredVersion])] {
    var rows: [(row: KeyedRow, versions: [StoredVersion])] = []
    for version in versions {
      let key = names.key(of: version)
      if let index = rows.firstIndex(where: { $0.row.isSameKey(key) }) {
        rows[index].versions.append(version)
      } else {
        rows.append((KeyedRow(name, key), [version]))
      }
    }
    return rows
  }

  func rows(of parent: RowNames.Parent) throws -> [KeyedRow] {
    if parent.isByKey { return [KeyedRow(parent.name, parent.key)] }
    var rows: [KeyedRow] = []
    for place in try otherPlaces(parent.name) {
      try forEachRow(at: place) { schema, change, isCopied in
        guard !isCopied, try names.isAlternate(parent, schema, change) else { return }
        rows += try names.keyed(schema, change)
      }
    }
    return rows.reduce(into: []) { rows, row in if !rows.contains(where: row.isSame) { rows.append(row) } }
  }

  /// Notes that the group depends on these rows. Throws ``LocalAhead`` if an application has committed a change of one
  /// of them that capture has not read.
  func watch(_ rows: ChangedRows) throws {
    if !uncaptured.isEmpty, rows.contains(where: uncaptured.contains) { throw LocalAhead() }
    if watchesRows { written += rows }
  }

  /// Converts a row of a refresh into a version of the row by the present transaction, with the present column names.
  func version(_ image: ImageView, _ schema: TableSchema) throws -> StoredVersion {
    let version = StoredVersion(
      stamp: place.stamp, seen: seen, schema: schema, before: nil, after: try image.values())
    return columns.version(version, own: shared.own.description)
  }

  private func version(_ fold: VersionFold) -> StoredVersion {
    StoredVersion(stamp: place.stamp, seen: seen, schema: fold.schema, before: fold.before, after: fold.after)
  }

  /// The fate of the target's row when a refresh brings the row.
  enum CopiedRow {
    case replaced
    /// The target's row stays, because a refresh with a later stamp has already brought it.
    case kept
    /// The target keeps its values of the columns in these versions, which the refresh's author did not know. The
    /// refresh brings the other columns.
    case changed([StoredVersion])
  }

  /// Returns what becomes of the target's row when a refresh brings the row.
  func copiedRow(_ row: KeyedRow, copied: RowName) throws -> CopiedRow {
    try watch([row.name])
    if let met, !shared.window.mayConcur(met) {
      try shared.window.note(copied, place)
      return .replaced
    }
    let copies = try shared.window.concurrent(copied, with: place.stamp, seen: seen).counted(by: shared, at: place)
    try shared.window.note(copied, place)
    if try copies.contains(where: { try $0.stamp > place.stamp && made(row, at: $0, isCopied: true) }) { return .kept }
    let versions = try shared.window.concurrent(row.name, with: place.stamp, seen: seen).counted(by: shared, at: place)
      .filter { try made(row, at: $0, isCopied: false) }.flatMap { try readVersions(row.name, at: $0) }
    return versions.isEmpty ? .replaced : .changed(versions.filter { row.isSameKey(names.key(of: $0)) })
  }

  private func isConcurrent(_ row: KeyedRow) throws -> Bool {
    try shared.window.concurrent(row.name, with: place.stamp, seen: seen).counted(by: shared, at: place).contains {
      // A transaction that inserted the row and deleted it again made no version of it.
      try made(row, at: $0, isCopied: false) && !readVersions(row.name, at: $0).isEmpty
    }
  }

  /// A row, given by its row name and exact key, because another row may have the same row name.
  private struct Spelled: Hashable {
    let name: RowName
    let spelling: [UInt8]
    let isCopied: Bool
  }

  /// Returns whether the transaction at a place wrote exactly this row, or refreshed it if `isCopied`. Another row may
  /// have the same row name.
  private func made(_ row: KeyedRow, at place: VersionPlace, isCopied: Bool) throws -> Bool {
    // All other names are hashes of their keys alone, which no other row shares.
    guard row.isLoose else { return true }
    func forEach(_ body: (KeyedRow, _ isCopied: Bool) throws -> Void) throws {
      try forEachRow(at: place) { schema, change, isCopied in
        if !isCopied {
          for row in try names.keyed(schema, change) { try body(row, false) }
        } else if let image = change.after, let row = try names.keyed(schema, image) {
          try body(row, true)
        }
      }
    }
    if spelled[place.stamp] == nil {
      var rows: Set<Spelled> = []
      try forEach { if $0.isLoose { rows.insert(Spelled(name: $0.name, spelling: $0.spelling, isCopied: $1)) } }
      if spelled.count >= 8 { spelled.removeAll() }
      spelled[place.stamp] = rows
    }
    let looked = Spelled(name: row.name, spelling: row.spelling, isCopied: isCopied)
    if spelled[place.stamp]?.contains(looked) == true { return true }
    // One engine's text may be another one's number.
    var isFound = false
    try forEach { if $1 == isCopied, $0.isSame(as: row) { isFound = true } }
    return isFound
  }

  /// Returns whether a row that a refresh lacks must stay, because the refresh's author did not know all changes of the
  /// row.
  ///
  /// - Parameter isContested: Whether two rows of the table may have the same unique value besides the key.
  func keepsUnmentioned(_ row: KeyedRow, copied: RowName, isContested: Bool) throws -> Bool {
    try watch([row.name])
    if isContested, shared.mayWait(row, at: trail, seen: seen) { return true }
    return try isConcurrent(row)
      || shared.window.concurrent(copied, with: place.stamp, seen: seen).counted(by: shared, at: place).contains {
        try made(row, at: $0, isCopied: true)
      }
  }

  private func others(_ row: RowName) throws -> [StoredVersion] { try otherPlaces(row).flatMap { try read(row, $0) } }

  func others(_ row: KeyedRow) throws -> [StoredVersion] {
    try others(row.name).filter { row.isSameKey(names.key(of: $0)) }
  }

  func otherPlaces(_ row: RowName) throws -> [VersionPlace] { try places(row).filter { $0.stamp != place.stamp } }

  /// Returns the transactions that made the versions of a row, in the order of their stamps.
  ///
  /// Leaves out versions of a group that was rolled back, and of transactions in quarantine.
  func places(_ row: RowName) throws -> [VersionPlace] {
    try shared.window.versions(row).filter { $0.stamp.number <= reached[$0.stamp.origin] ?? .max }
      .counted(by: shared, at: place)
  }

  /// Returns a hash of the set of a row's versions, to detect later whether the row has other versions. It leaves out
  /// the versions of the present transaction and of `other`.
  func fingerprint(_ row: RowName, without other: VersionStamp? = nil) throws -> VersionFingerprint {
    let aside = shared.aside
    var without = [place.stamp] + (other.map { [$0] } ?? [])
    if !aside.isEmpty { without += try shared.window.versions(row).map(\.stamp).filter(aside.contains) }
    return try shared.window.fingerprint(row, upTo: reached, without: without)
  }

  func read(_ row: RowName, _ place: VersionPlace) throws -> [StoredVersion] { try readVersions(row, at: place) }

  /// Returns a row with all changes that the present transaction made to it.
  func whole(_ row: Row, isSame: (StoredVersion) throws -> Bool) throws -> Row {
    let versions = try readVersions(row.name, at: place)
    guard let version = try versions.first(where: isSame) else { return row }
    return Row(name: row.name, table: row.table, version: version)
  }

  // MARK: Rows that wait for a unique value

  var candidatesLeft: [NameKey: Int]?

  func noteCandidates() { if let candidatesLeft { shared.note(waiting: candidatesLeft) } }

  /// Returns the stamp of a row's last insert or update. Nil if all nodes know it, or if its stamp is before `copy`.
  private func lastWrite(_ row: KeyedRow, behind copy: VersionStamp? = nil) throws -> VersionStamp? {
    for place in try places(row.name).reversed() {
      if let copy, place.stamp < copy { return nil }
      let versions = try readVersions(row.name, at: place)
      if versions.contains(where: { $0.after != nil && row.isSameKey(names.key(of: $0)) }) { return place.stamp }
    }
    return shared.window.lastForgotten(row.name)
  }

  /// Returns the stamp that decides the row's rank. If all nodes know the row's writes, the stamp has clock 0, before
  /// all other stamps.
  func lastStamp(_ row: KeyedRow) throws -> VersionStamp {
    try lastWrite(row) ?? VersionStamp(clock: 0, origin: "", number: 0)
  }

  /// Returns the stamp that decides the rank of a row of the present transaction.
  func lastStamp(_ row: Row) throws -> VersionStamp { try lastStamp(KeyedRow(row.name, names.key(of: row.version))) }

  /// Adds the present transaction's version of a resolved row to the version window.
  func note(_ row: Row) throws { try shared.window.note(row.name.ended(row.version.after == nil), place) }

  /// Returns the stamp of the last refresh that brought a row; nil if all nodes know the refresh.
  private func lastCopy(_ row: ContestedRow) throws -> VersionStamp? {
    try places(row.copied).last { try made(row.keyed, at: $0, isCopied: true) }?.stamp
      ?? shared.window.lastForgotten(row.copied)
  }

  /// Returns the waiting row `candidate`. If a refresh brought the row after its last write, the result has the stamp
  /// of that refresh.
  func ranked(_ candidate: DisplacedRow) throws -> DisplacedRow {
    guard let copy = try lastCopy(candidate.row), copy > candidate.stamp else { return candidate }
    return DisplacedRow(candidate.row, copy, earlier: candidate.earlier)
  }

  /// Returns the rank of a row that has the unique value of another row. Nil if all nodes know the row's last write.
  ///
  /// Returns the highest rank if capture has not read that write.
  ///
  /// - Parameter isNew: Whether the other row is from this group. If so, a write that capture has not read throws
  ///   ``LocalAhead``.
  /// - Parameter isMerged: Whether refreshes merge with the rows that the table has.
  func rank(of row: ContestedRow, isNew: Bool, isMerged: Bool) throws -> UniqueRank? {
    let name = row.name
    if watchesRows { written.append(name) }
    if uncaptured.contains(name) {
      if isNew { throw LocalAhead() }
      return .latest
    }
    let copy = try lastCopy(row)
    if let stamp = try lastWrite(row.keyed, behind: copy) ?? copy {
      return row.rank(max(stamp, copy ?? stamp))
    }
    return isMerged && shared.isToBeCopied(row.fullName) ? .latest : nil
  }

  /// Returns whether a row stays in its table for now although a refreshed row has the same unique value. Before the
  /// commit, apply decides which row waits.
  func contests(_ row: ContestedRow) throws -> Bool {
    try isDeferred(row.keyed) || keepsUnmentioned(row.keyed, copied: row.copied, isContested: true)
  }

  /// Returns all versions of a waiting row; empty if it was not written while it waited. Nil if capture has not read
  /// its last write.
  func versions(of candidate: DisplacedRow) throws -> [StoredVersion]? {
    let name = candidate.row.name
    if watchesRows { written.append(name) }
    if uncaptured.contains(name) { return nil }
    let places = try places(name)
    guard let last = places.last, last.stamp > candidate.stamp else { return [] }
    return try places.flatMap { try readVersions(name, at: $0) }
  }

  /// Notes that a waiting row is back in its table. Returns the entries to store in the target.
  func noteReturn(of row: ContestedRow) -> [StoredReturns.Entry] {
    shared.noteReturn(of: row, by: trail, place.stamp.number)
  }

  func rules(_ table: String, _ columns: [String]) throws -> ConflictRules {
    try shared.rules(ruled, table, columns).between(source: ruled.description, target: shared.own.description)
  }

  /// Returns the rules by which this node decides conflicts of a table for all nodes; nil if this node is not the
  /// decider.
  func decidingRules(_ table: String, _ columns: [String]) throws -> ConflictRules? {
    try shared.rules(ruled, table, columns).deciding(source: ruled.description, target: shared.own.description)
  }

  /// Throws `conflict-stopped` if the row has a conflict at which its rule stops apply.
  func checkStops(_ row: ResolvedRow, _ table: TableSchema, _ key: [Value]) throws {
    guard let conflict = row.conflicts.first(where: row.rules.stops) else { return }
    let shown = zip(table.key, key).map { "\(table.columns[$0].name)=\($1.shown)" }.joined(separator: ", ")
    throw CairnError(
      .conflictStopped,
      "table \(table.fullName), row \(shown): \(conflict.kind.rawValue) between \(conflict.incoming.origin) and \(conflict.other.origin), and the rule is stop",
      hint: "write the wanted row at one of the nodes, or choose another rule",
      context: ["table": table.fullName])
  }
}
