import Changes
import Conflicts
import SystemKit
import Trails
import Versions

/// One apply's part in two-way replication. It finds the rows of the transaction at hand that must be settled from all
/// their versions at its end. The others are written as they come.
final class TwoWayDesk<Table: AnyObject> {
  /// A row that is settled when its transaction ends, with what the transaction makes of it.
  struct Row {
    let name: RowName
    let table: Table
    var version: StoredVersion
    /// False: the transaction inserted the row and deleted it again.
    var isVersion: Bool { version.before != nil || version.after != nil }

    /// Returns the row in another form of its table; nil: unchanged.
    func with(_ table: Table?) -> Row { table.map { Row(name: name, table: $0, version: version) } ?? self }
  }

  let shared: TwoWay
  let names: RowNames
  private let trail: TrailName
  private let clock: Clock
  private let reader: VersionReader
  /// The last transaction that is settled row by row, as a row of it or before it did not fit; 0: none.
  private var settlesThrough: UInt64 = 0
  /// The transactions whose rows are locked before local commits to them are looked for.
  private var lockedFirst = LockedFirst()
  private var locksFirst = false
  /// Whether the rows of the transaction at hand are locked until its group ends.
  private(set) var hasLocked = false
  /// The number of times that a group was rolled back for local commits, since the last commit.
  private var waits = 0
  let gate: ClockGate
  private(set) var place = VersionPlace(stamp: Stamp(clock: 0, origin: "", number: 0), begin: .start)
  private(set) var seen: [String: UInt64] = [:]
  private var met: MetTransaction?
  /// By trail, the last transaction that the database has, or gets with the present group.
  private var reached: [String: UInt64] = [:]
  /// Whether the author of the transaction at hand knew changes that have not come here yet.
  private(set) var isAhead = false
  /// Whether the author knew changes that have not come here, or that suspended tables lack: rows here may well differ.
  private(set) var mayDiffer = false
  private var settlesAll = false
  /// The rows of local commits that capture has not taken yet.
  private var uncaptured: Set<RowName> = []
  /// The rows that are settled when the transaction at hand ends.
  private let deferred: DeferredRows<Table>
  /// The rows that the transaction at hand inserted into tables that only take rows in, by name.
  private var inserted: [RowName: [KeyedRow]] = [:]
  /// By transaction, its rows whose names other rows may well share; see ``made(_:at:isCopied:)``.
  private var spelled: [Stamp: Set<Spelled>] = [:]
  /// The rows that the group writes, to find out whether applications commit to them meanwhile.
  private var written: [RowName] = []
  private var watchesRows = false
  /// By transaction, the rows that it deleted, by the rows that these referenced. At most 16 transactions are kept.
  private var leavers: [Stamp: [RowName: [RowName]]] = [:]

  /// The tables and columns that were renamed or dropped here.
  private var columns: ColumnsNow

  init(_ shared: TwoWay, _ trail: TrailName, _ names: RowNames, _ clock: Clock) {
    (self.shared, self.trail, self.names, self.clock) = (shared, trail, names, clock)
    gate = ClockGate(trail, clock, skewMicrosecondsMax: shared.skewMicrosecondsMax)
    columns = names.columnsNow
    names.roots = shared.roots
    reader = VersionReader(seen: shared.window.seen)
    deferred = DeferredRows(bytesMax: shared.deferredBytesMax)
  }

  /// Learns which tables and columns were renamed or dropped here, after the own trail has been read. Returns true if
  /// that has changed: then tables must be opened again.
  func learnColumns() -> Bool {
    let (steps, count) = (shared.window.columnSteps + shared.arrivedSteps.withLock { $0.all }, shared.roots.count)
    guard steps != columns.steps || count != rootsCount else { return false }
    (columns.steps, rootsCount) = (steps, count)
    return true
  }

  /// The value of ``TableRoots/count`` when the renamed tables were last learnt.
  private var rootsCount = 0

  /// The changes of the present group by which tables or columns lost their names.
  private var arriving: [ColumnStep] = []

  /// Learns from a schema change of the trail which tables and columns have other names, as the own trail lacks it so
  /// far. A change that comes back is ignored, as tables may have changed since.
  ///
  /// Call this only for a change that apply itself has made here: changes of an operator are in the own trail. A change
  /// that was not made here would make two tables of this database count as one.
  func learn(_ ddl: DDL, _ before: TableSchema?, _ after: TableSchema?) {
    guard !shared.isEcho(ddl), let before, let after else { return }
    names.learn(ddl, before, after)
    let origins = TableDifference(before, after, origins: ddl.origins(from: before, to: after)).origins
    guard let was = columns.mapped(before), let now = columns.mapped(after),
      let step = ColumnStep(
        was, now, origins: origins, applied: ddl.applied, number: place.stamp.number, of: trail.description)
    else { return }
    arriving.append(step)
    columns.steps.append(step)
  }

  /// Returns the names that a table of the transaction at hand had here and has now. Nil if its author knew the present
  /// name.
  func move(of table: TableSchema) -> ColumnsNow.Move? {
    columns.move(of: table, knowing: known, of: trail.description)
  }

  /// Returns a table of the trail under the name that it has here now.
  func named(_ table: TableSchema, _ move: ColumnsNow.Move) -> TableSchema { columns.named(table, move.now) }

  /// Returns the part of a table of the transaction at hand that is still here, under present names. Nil if the table
  /// is as it came.
  func part(of table: TableSchema) -> LaterShape.Part? {
    columns.part(of: table, knowing: known, of: trail.description)
  }

  /// Returns the last transaction of the trail of a rename or drop that the author of the transaction at hand knew.
  private func known(_ step: ColumnStep) -> UInt64 {
    if step.origin.isEmpty { return seen[shared.own.description] ?? 0 }
    return step.origin.hasSameBytes(as: trail.description) ? .max : seen[step.origin] ?? 0
  }

  private func readVersions(_ row: RowName, at place: VersionPlace) throws -> [StoredVersion] {
    try read(row, at: place, names.names).map { columns.version($0, own: shared.own.description) }
  }

  /// By trail, the rows that may be versions of rows here.
  private var admitted: [String: AdmittedRows] = [:]

  private func admittedRows(of origin: String) -> AdmittedRows? {
    if let known = admitted[origin] { return known }
    admitted[origin] = shared.admittedRows(of: origin)
    return admitted[origin]
  }

  /// Returns the names of the rows that a change of the own trail touches, and of those that it references.
  func ownNames(_ schema: TableSchema, _ change: ChangeView) throws -> ChangedRows {
    try names.namesAndReferences(schema, change, from: nil)
  }

  /// Returns the rows that a version of a row references, as far as the trail's foreign keys count here.
  func parents(of version: StoredVersion, _ row: [Value?]) -> [RowNames.Parent] {
    names.parents(version.schema, row, from: admittedRows(of: version.stamp.origin))
  }

  private func read(
    _ row: RowName, at place: VersionPlace, _ rowNames: (TableSchema, ChangeView) throws -> ChangedRows
  ) throws -> [StoredVersion] {
    let admitted = admittedRows(of: place.stamp.origin)
    return try reader.read(row, at: place, folder: shared.folder(of: place.stamp.origin)) { schema, change in
      admitted?.includes(schema) == false ? [] : try rowNames(schema, change)
    }
  }

  private func forEachRow(
    at place: VersionPlace, _ body: (TableSchema, ChangeView, _ isCopied: Bool) throws -> Void
  ) throws {
    let admitted = admittedRows(of: place.stamp.origin)
    try reader.forEachRow(at: place, folder: shared.folder(of: place.stamp.origin)) { schema, change, isCopied in
      if admitted?.includes(schema) != false { try body(schema, change, isCopied) }
    }
  }

  /// The value of ``TwoWay/shapeCount`` when the foreign keys of the target were last read; -1: never.
  private var shapeCount = -1

  /// Reads the foreign keys of the target again if tables have changed. Called before rows are named.
  func lookAtKeys(_ keys: () throws -> RowNames.Catalog) throws {
    let count = shared.shapeCount
    guard count != shapeCount else { return }
    (names.alternates, names.ownKeys, names.holders) = try keys()
    shapeCount = count
  }

  // MARK: Groups

  /// Whether this group has looked for local commits, as far as they can be known.
  private(set) var isInformed = false
  /// Whether a group must look for local commits even if it changes nothing.
  var informsEarly: Bool { get throws { try shared.readsOwn } }

  func beginGroup() {
    (uncaptured, watchesRows, isInformed) = ([], false, false)
    candidatesLeft = nil
    arriving.removeAll()
    reached = shared.appliedNumbers
    written.removeAll(keepingCapacity: true)
    endTransaction()
  }

  /// Records the local commits that were found before the first change of a group. `uncaptured`: their rows that the
  /// own trail lacks. `watchesRows`: whether later commits are looked for when the group ends.
  func inform(uncaptured: Set<RowName> = [], watchesRows: Bool = false) {
    (self.uncaptured, self.watchesRows, isInformed) = (uncaptured, watchesRows, true)
  }

  /// Makes transactions through `number` be settled row by row, as a row did not fit. Returns false if they are.
  func settle(through number: UInt64) -> Bool {
    guard number > settlesThrough else { return false }
    settlesThrough = number
    return true
  }

  /// Whether the rows of the transaction at hand are to be locked before its next change.
  var isToLock: Bool { locksFirst && !hasLocked }

  /// Records that the rows of the transaction at hand are locked, and that local commits to them have been read.
  func noteLocks() { hasLocked = true }

  /// Passes all changes of the transaction at hand to `body`, except TRUNCATE. It reads ahead to the transaction's end.
  func forEachChange(_ body: (TableSchema, ChangeView) throws -> Void) throws {
    try forEachRow(at: place) { schema, change, isCopied in
      if !isCopied { try body(schema, change) }
    }
  }

  /// Throws ``LocalAhead`` if applications have committed one of the rows that the group wrote.
  func check(committed rows: Set<RowName>) throws {
    if !rows.isEmpty, written.contains(where: rows.contains) { throw LocalAhead() }
  }

  /// Records that applications have overtaken a group through transaction `number`.
  func overtaken(at number: UInt64) { lockedFirst.note(number, isAgain: waits > 0) }

  func waitForCapture(_ stop: StopSignal) throws {
    try shared.waitForCapture(stop, waits)
    waits += 1
  }

  /// Records the commit of a group through transaction `number`; nil: of a lane, or of a transaction from quarantine.
  func committed(_ number: UInt64?) throws {
    waits = 0
    noteCandidates()
    shared.note(arrived: arriving)
    arriving.removeAll()
    if let number { shared.note(applied: number, of: trail) }
    try shared.window.commit(trail)
  }

  // MARK: Transactions

  /// Begins a transaction. Throws ``ClockGate/Ahead``, and `trail-forked` as ``VersionWindow/believed(_:of:)`` does.
  func begin(_ told: TransactionHeader, at begin: Position) throws {
    try gate.check(told)
    let header = try shared.window.believed(told, of: trail)
    inserted.removeAll(keepingCapacity: true)
    place = VersionPlace(
      stamp: Stamp(clock: header.clock, origin: trail.description, number: header.number), begin: begin)
    seen = shared.window.seen(header)
    reached[place.stamp.origin] = max(reached[place.stamp.origin] ?? 0, header.number)
    isAhead = shared.isAhead(header, seen: seen)
    mayDiffer = isAhead || shared.knowsHeld(seen)
    (locksFirst, hasLocked) = (lockedFirst.contains(header.number), false)
    settlesAll = mayDiffer || header.number <= settlesThrough
    met = shared.window.meet(header, of: trail, at: begin)
  }

  /// Returns the row with this index among those that are settled when the transaction at hand ends.
  func row(_ index: Int) throws -> Row { try row(deferred[index]) }

  /// Passes each row that is settled when the transaction at hand ends to `body`, with its index.
  func forEachRow(_ body: (Int, Row) throws -> Void) throws {
    for index in 0..<deferred.count { try body(index, row(index)) }
  }

  private func row(_ row: DeferredRows<Table>.Row) -> Row {
    var version = version(row.fold)
    if !columns.steps.isEmpty { version = columns.version(version, own: shared.own.description) }
    return Row(name: row.name, table: row.table, version: version)
  }

  /// Returns an empty list for the results of a transaction's rows.
  func list<Element>() -> SpilledList<Element> { SpilledList(bytesMax: shared.deferredBytesMax) }

  /// The rows that the transaction at hand references, and that other nodes wrote without its author's knowledge.
  private var needed: [RowName] = []
  var isToSettle: Bool { !deferred.isEmpty || !needed.isEmpty }

  func endTransaction() {
    needed.removeAll(keepingCapacity: true)
    deferred.removeAll()
  }

  private func isDeferred(_ row: KeyedRow) throws -> Bool { try deferredRow(row) != nil }

  /// Returns the deferred row with this key; nil if there is none.
  private func deferredRow(_ row: KeyedRow) throws -> Row? {
    try deferred.last(of: row.name) { row.isSameKey(names.key(of: version($0))) }.map { self.row($0.row) }
  }

  /// Returns whether a change is resolved when its transaction ends. `schema`: the table in the trail. `isReferenced`:
  /// whether foreign keys lead to the table. `takesRowsIn`: see ``takesRowsIn(_:_:)``. `mayWait`: whether rows may wait
  /// for a unique value, and a write would not show that the row is missing.
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
    for parent in try names.left(schema, change, from: admitted) { try shared.window.note(parent.name.leavers, place) }
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

  /// Returns whether this direction only adds rows to a table, and changes none that is there (`insert-only`).
  func takesRowsIn(_ table: String, _ columns: [String]) throws -> Bool {
    let rules = try shared.rules(trail, table, columns)
    guard rules.rule == .insertOnly else { return false }
    return rules.decider == nil || rules.deciding(source: trail.description, target: shared.own.description) != nil
  }

  /// Returns the columns whose changes are summed (`delta`), by their places in the trail's schema.
  func summed(_ table: String, _ columns: [String], in schema: TableSchema) throws -> [Int] {
    try shared.rules(trail, table, columns).columns.filter { $0.value == .delta }.keys.sorted().compactMap { index in
      schema.columns.firstIndex { $0.name.sqliteKey == columns[index].sqliteKey }
    }
  }

  /// Returns whether a change inserts a row, or changes a row that the transaction at hand has inserted.
  private func comesIn(_ change: ChangeView, _ schema: TableSchema) throws -> Bool {
    let rows = try names.keyed(schema, change)
    if change.operation == .insert {
      for row in rows { inserted[row.name, default: []].append(row) }
      return true
    }
    return rows.count == 1 && inserted[rows[0].name, default: []].contains(where: rows[0].isSame)
  }

  /// Records a reference to a row. Returns whether the row has versions that the transaction's author did not know.
  private func need(_ parent: RowNames.Parent) throws -> Bool {
    try watch([parent.name])
    try shared.window.note(parent.name.reference, place)
    return try !shared.window.concurrent(parent.name, with: place.stamp, seen: seen).isEmpty
  }

  private func needRows(_ schema: TableSchema, _ change: ChangeView) throws {
    for parent in try names.parents(
      schema, change, from: admittedRows(of: trail.description), withKeys: true)
    where try need(parent) {
      needed += try rows(of: parent).map(\.name)
    }
  }

  /// Returns the needed rows, whose deletes may not count, with their other versions. Adds the rows that these
  /// referenced when they were deleted, and so on. Leaves out rows that the transaction at hand writes itself.
  func neededRows() throws -> [(row: KeyedRow, versions: [StoredVersion])] {
    var (open, met): ([RowName], Set<RowName>) = ([], [])
    for name in needed where met.insert(name).inserted { open.append(name) }
    var rows: [(row: KeyedRow, versions: [StoredVersion])] = []
    while !open.isEmpty {
      let name = open.removeFirst()
      let versions = try others(name)
      // A reference has only the name of its row, here and where the delete comes: all rows with it are looked at.
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

  /// Returns the versions with one name, grouped by the keys of their rows.
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

  /// Returns the rows to which a reference leads, with their keys.
  func rows(of parent: RowNames.Parent) throws -> [KeyedRow] {
    if parent.isByKey { return [KeyedRow(parent.name, parent.key)] }
    var rows: [KeyedRow] = []
    for place in try otherPlaces(parent.name) {
      _ = try read(parent.name, at: place) { schema, change in
        if try names.isAlternate(parent, schema, change) { rows += try names.keyed(schema, change) }
        return []
      }
    }
    return rows.reduce(into: []) { rows, row in if !rows.contains(where: row.isSame) { rows.append(row) } }
  }

  /// Adds rows to those that the group writes. Throws ``LocalAhead`` if one has a local commit that is not captured.
  private func watch(_ rows: ChangedRows) throws {
    if !uncaptured.isEmpty, rows.contains(where: uncaptured.contains) { throw LocalAhead() }
    if watchesRows { written += rows }
  }

  /// Returns a row that waits at the author of the transaction at hand, as the author's last version of the row, under
  /// present names.
  func version(_ row: WaitingRow, _ schema: TableSchema) throws -> StoredVersion {
    let version = StoredVersion(
      stamp: place.stamp, seen: seen, schema: schema, before: nil, after: try row.image.values())
    return columns.version(version, own: shared.own.description)
  }

  private func version(_ fold: VersionFold) -> StoredVersion {
    StoredVersion(stamp: place.stamp, seen: seen, schema: fold.schema, before: fold.before, after: fold.after)
  }

  /// Returns whether a row here stays although a copy brings it. Either it was written here without the knowledge of
  /// the copy's author, or a later copy has it.
  func keeps(_ row: KeyedRow, copied: RowName) throws -> Bool {
    try watch([row.name])
    if let met, !shared.window.mayConcur(met) {
      try shared.window.note(copied, place)
      return false
    }
    let copies = try shared.window.concurrent(copied, with: place.stamp, seen: seen)
    try shared.window.note(copied, place)
    return try copies.contains { try $0.stamp > place.stamp && made(row, at: $0, isCopied: true) }
      || isConcurrent(row)
  }

  private func isConcurrent(_ row: KeyedRow) throws -> Bool {
    try shared.window.concurrent(row.name, with: place.stamp, seen: seen).contains {
      // A transaction that inserted the row and deleted it again made no version of it.
      try made(row, at: $0, isCopied: false) && !readVersions(row.name, at: $0).isEmpty
    }
  }

  /// A row as a transaction spells it, if other rows are likely to share its name.
  private struct Spelled: Hashable {
    let name: RowName
    let spelling: [UInt8]
    let isCopied: Bool
  }

  /// Returns whether a transaction wrote, or copied, this row, and not another one with the same name.
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

  /// Returns whether a row stays that a copy does not bring, as its author does not know what was done to it here.
  ///
  /// - Parameter isContested: Whether rows of the table may clash in unique values besides the key.
  func keepsUnmentioned(_ row: KeyedRow, copied: RowName, isContested: Bool) throws -> Bool {
    try watch([row.name])
    if isContested, shared.mayWait(row, at: trail, seen: seen) { return true }
    return try isConcurrent(row)
      || shared.window.concurrent(copied, with: place.stamp, seen: seen).contains {
        try made(row, at: $0, isCopied: true)
      }
  }

  /// Returns the other known versions of a row, as their trails have them. A transaction that inserted the row and
  /// deleted it again made no version of it.
  private func others(_ row: RowName) throws -> [StoredVersion] { try otherPlaces(row).flatMap { try read(row, $0) } }

  func others(_ row: KeyedRow) throws -> [StoredVersion] {
    try others(row.name).filter { row.isSameKey(names.key(of: $0)) }
  }

  /// Returns the places of a row's versions, except that of the transaction at hand.
  func otherPlaces(_ row: RowName) throws -> [VersionPlace] { try places(row).filter { $0.stamp != place.stamp } }

  /// Returns the places of a row's versions that the database has, or gets with the present group, by rising stamps.
  ///
  /// The window also has versions of a group that was rolled back. An application that writes to the row before they
  /// come again does not know them, so the row must not be as they made it.
  private func places(_ row: RowName) throws -> [VersionPlace] {
    try shared.window.versions(row).filter { $0.stamp.number <= reached[$0.stamp.origin] ?? .max }
  }

  /// Returns the fingerprint of a row's versions, without those of the transaction at hand and of `other`.
  func fingerprint(_ row: RowName, without other: Stamp? = nil) throws -> VersionFingerprint {
    try shared.window.fingerprint(row, upTo: reached, without: [place.stamp] + (other.map { [$0] } ?? []))
  }

  func read(_ row: RowName, _ place: VersionPlace) throws -> [StoredVersion] { try readVersions(row, at: place) }

  /// Returns a row with everything that the transaction at hand made of it, as the trail has it. Changes before a
  /// delete were written as they came.
  func whole(_ row: Row, isSame: (StoredVersion) throws -> Bool) throws -> Row {
    let versions = try readVersions(row.name, at: place)
    guard let version = try versions.first(where: isSame) else { return row }
    return Row(name: row.name, table: row.table, version: version)
  }

  // MARK: Rows that wait for a unique value

  /// The number of waiting rows by table when they were last judged, which counts after the commit. Nil if the present
  /// group has judged none.
  var candidatesLeft: [String: Int]?

  /// Stores the numbers of waiting rows, after a commit or after a group that changed nothing.
  func noteCandidates() { if let candidatesLeft { shared.note(waiting: candidatesLeft) } }

  /// Returns the stamp of the last write to a row that some node may not know; nil if there is none. A delete is no
  /// write: if the row is still there, the delete did not count.
  private func lastWrite(_ row: KeyedRow, behind copy: Stamp? = nil) throws -> Stamp? {
    for place in try places(row.name).reversed() {
      if let copy, place.stamp < copy { return nil }
      let versions = try readVersions(row.name, at: place)
      if versions.contains(where: { $0.after != nil && row.isSameKey(names.key(of: $0)) }) { return place.stamp }
    }
    return shared.window.lastForgotten(row.name)
  }

  /// Returns the stamp by which a row competes with another one for a unique value. A row whose writes are all
  /// forgotten is earlier than all others.
  func lastStamp(_ row: KeyedRow) throws -> Stamp { try lastWrite(row) ?? Stamp(clock: 0, origin: "", number: 0) }

  /// Returns the same as ``lastStamp(_:)-(KeyedRow)`` for a row of the transaction at hand.
  func lastStamp(_ row: Row) throws -> Stamp { try lastStamp(KeyedRow(row.name, names.key(of: row.version))) }

  /// Records in the window what the transaction at hand makes of a settled row.
  func note(_ row: Row) throws { try shared.window.note(row.name.ended(row.version.after == nil), place) }

  /// Returns the stamp of the last copy that brought a row, if some node may not know it; else nil. The copy is later
  /// than all that its author knew of the row, whether that has come here or not.
  private func lastCopy(_ row: ContestedRow) throws -> Stamp? {
    try places(row.copied).last { try made(row.keyed, at: $0, isCopied: true) }?.stamp
      ?? shared.window.lastForgotten(row.copied)
  }

  /// Returns a waiting row with the rank that copies of the row give it.
  func ranked(_ candidate: Candidate) throws -> Candidate {
    guard let copy = try lastCopy(candidate.row), copy > candidate.stamp else { return candidate }
    return Candidate(candidate.row, copy, earlier: candidate.earlier)
  }

  /// Returns the rank of a row for ``UniqueContest/rank(of:against:)``. A row that capture has not taken yet is later
  /// than all rows that wait. `isMerged`: whether copies merge with the rows of the table. Such rows may still have to
  /// be copied, and stay until then.
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

  /// Returns whether a row in the way of a copied row stays until both are judged. If not, the copy's author has it no
  /// longer.
  func contests(_ row: ContestedRow) throws -> Bool {
    try isDeferred(row.keyed) || keepsUnmentioned(row.keyed, copied: row.copied, isContested: true)
  }

  /// Returns all versions of a waiting row if it was written since; empty if not; nil if that is not known yet.
  func versions(of candidate: Candidate) throws -> [StoredVersion]? {
    let name = candidate.row.name
    if watchesRows { written.append(name) }
    if uncaptured.contains(name) { return nil }
    let places = try places(name)
    guard let last = places.last, last.stamp > candidate.stamp else { return [] }
    return try places.flatMap { try readVersions(name, at: $0) }
  }

  /// Records that a row which waited is back in its table. Returns the entries to store with the row.
  func noteReturn(of row: ContestedRow) -> [StoredReturns.Entry] {
    shared.noteReturn(of: row, by: trail, place.stamp.number)
  }

  /// Returns whether a delete of a row counts. It does not if a node referenced the row without knowing of the delete,
  /// or referenced a deleted row that references this one.
  func counts(_ version: RowVersion, of row: RowName, in table: TableSchema) throws -> Bool {
    guard version.isDelete, shared.window.mayBeReferred(beside: version.stamp, seen: version.seen) else { return true }
    return try !isNeeded([row] + names.alternates(table, version.before ?? []), beside: version)
  }

  /// Returns whether a node referenced one of these rows, or a deleted row that referenced one of them.
  private func isNeeded(_ rows: [RowName], beside delete: RowVersion) throws -> Bool {
    var (open, met) = (rows, Set(rows))
    while let row = open.popLast() {
      if try shared.window.isReferred(row, beside: delete.stamp, seen: delete.seen) { return true }
      for place in try places(row.leavers) {
        for other in try leavers(at: place)[row, default: []] where met.insert(other).inserted { open.append(other) }
      }
    }
    return false
  }

  /// Returns the rows that a transaction deleted, by the rows that they referenced.
  private func leavers(at place: VersionPlace) throws -> [RowName: [RowName]] {
    if let known = leavers[place.stamp] { return known }
    var found: [RowName: [RowName]] = [:]
    _ = try read(RowName(hash: 0), at: place) { schema, change in
      for parent in try names.left(schema, change, from: admittedRows(of: place.stamp.origin)) {
        found[parent.name, default: []] += try names.names(schema, change).prefix(1) + names.alternates(schema, change)
      }
      return []
    }
    if leavers.count >= 16 { leavers.removeAll() }
    leavers[place.stamp] = found
    return found
  }

  /// Returns the rules for conflicts of a table in this direction.
  func rules(_ table: String, _ columns: [String]) throws -> ConflictRules {
    try shared.rules(trail, table, columns).between(source: trail.description, target: shared.own.description)
  }

  /// Returns the rules by which this node decides conflicts of a table for all nodes; nil: it does not decide them.
  func decidingRules(_ table: String, _ columns: [String]) throws -> ConflictRules? {
    try shared.rules(trail, table, columns).deciding(source: trail.description, target: shared.own.description)
  }

  /// Throws `conflict-stopped` if a rule says that apply stops before a conflict of the row.
  func checkStops(_ row: SettledRow, _ table: TableSchema, _ key: [Value]) throws {
    guard let conflict = row.conflicts.first(where: row.rules.stops) else { return }
    let shown = zip(table.key, key).map { "\(table.columns[$0].name)=\($1.shown)" }.joined(separator: ", ")
    throw CairnError(
      .conflictStopped,
      "table \(table.fullName), row \(shown): \(conflict.kind.rawValue) between \(conflict.incoming.origin) and \(conflict.other.origin), and the rule is stop",
      hint: "write the wanted row at one of the nodes, or choose another rule",
      context: ["table": table.fullName])
  }
}
