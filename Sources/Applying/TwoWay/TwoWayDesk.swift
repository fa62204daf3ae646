import Changes
import Conflicts
import SystemKit
import Trails
import Versions

/// One apply's part in two-way replication: which rows of the transaction at hand are written as they come, and which
/// are settled from all their versions when it ends.
final class TwoWayDesk<Table: AnyObject> {
  /// A row to be settled, with what the transaction at hand makes of it.
  struct Row {
    let name: RowName
    let table: Table
    var version: StoredVersion
    /// False: it was made and taken away again.
    var isVersion: Bool { version.before != nil || version.after != nil }

    /// In another form of its table; nil: as it is.
    func with(_ table: Table?) -> Row { table.map { Row(name: name, table: $0, version: version) } ?? self }
  }

  let shared: TwoWay
  let names: RowNames
  private let trail: TrailName
  private let clock: Clock
  private let reader: VersionReader
  /// Transactions through this one are settled row by row: one of them was not as the target has it.
  private var settlesThrough: UInt64 = 0
  /// Of which transactions rows are locked before it is asked what programs did to them.
  private var lockedFirst = LockedFirst()
  private var locksFirst = false
  /// The rows of the transaction at hand are locked until its group ends.
  private(set) var hasLocked = false
  /// How often a group was sent back for local commits, since the last that was committed.
  private var waits = 0
  let gate: ClockGate
  private(set) var place = VersionPlace(stamp: Stamp(clock: 0, origin: "", number: 0), begin: .start)
  private(set) var seen: [String: UInt64] = [:]
  private var met: MetTransaction?
  /// Of each peer's trail, the last transaction that the database has, or is given by the group at hand.
  private var reached: [String: UInt64] = [:]
  /// The author of the transaction knew what has not come here yet.
  private(set) var isAhead = false
  /// That, or what tables that wait here still lack: rows may well be others than he took them for.
  private(set) var mayDiffer = false
  private var settlesAll = false
  /// Rows of local commits that capture has not taken.
  private var uncaptured: Set<RowName> = []
  /// Rows that are settled when the transaction ends.
  private let deferred: DeferredRows<Table>
  /// The rows that the transaction inserted into tables that only take rows in, by name.
  private var inserted: [RowName: [KeyedRow]] = [:]
  /// The rows of some transactions whose keys are likely to share their names, see ``made(_:at:isCopied:)``.
  private var spelled: [Stamp: Set<Spelled>] = [:]
  /// Rows of the group, among which those are looked for that are committed meanwhile.
  private var written: [RowName] = []
  private var watchesRows = false
  /// Of the last transactions that were asked for, which rows they deleted that referred to others.
  private var leavers: [Stamp: [RowName: [RowName]]] = [:]

  /// The columns that were renamed or dropped here.
  private var columns: ColumnsNow

  init(_ shared: TwoWay, _ trail: TrailName, _ names: RowNames, _ clock: Clock) {
    (self.shared, self.trail, self.names, self.clock) = (shared, trail, names, clock)
    gate = ClockGate(trail, clock, skewMicrosecondsMax: shared.skewMicrosecondsMax)
    columns = names.columnsNow
    reader = VersionReader(seen: shared.window.seen)
    deferred = DeferredRows(bytesMax: shared.deferredBytesMax)
  }

  /// Learns which columns were renamed or dropped here, after the own trail has been read. Returns true if there are more
  /// of them than before: tables are to be opened again then.
  func learnColumns() -> Bool {
    let steps = shared.window.columnSteps
    guard steps != columns.steps else { return false }
    columns.steps = steps
    return true
  }

  /// Returns the part of a table of the transaction at hand that is still here, with the names of now; nil if it is the
  /// table as it came.
  func part(of table: TableSchema) -> LaterShape.Part? {
    columns.part(of: table, knowing: seen[shared.own.description] ?? 0, of: trail.description)
  }

  private func readVersions(_ row: RowName, at place: VersionPlace) throws -> [StoredVersion] {
    try reader.read(row, at: place, folder: shared.folder(of: place.stamp.origin), rowNames: names.names).map {
      columns.version($0, own: shared.own.description)
    }
  }

  /// ``TwoWay/shapeCount`` when the foreign keys of the target were looked at.
  private var shapeCount = -1

  /// Before rows are named.
  func lookAtKeys(_ alternates: () throws -> RowNames.Alternates) throws {
    let count = shared.shapeCount
    guard count != shapeCount else { return }
    names.alternates = try alternates()
    shapeCount = count
  }

  // MARK: Groups

  /// What was committed here has been looked at, as far as anybody can know, in the group under way.
  private(set) var isInformed = false
  /// Whether a group needs that even if it changes nothing.
  var informsEarly: Bool { get throws { try shared.readsOwn } }

  func beginGroup() {
    (uncaptured, watchesRows, isInformed) = ([], false, false)
    candidatesLeft = nil
    reached = shared.appliedNumbers
    written.removeAll(keepingCapacity: true)
    endTransaction()
  }

  /// Before the first change of a group. `uncaptured`: rows of local commits that the own trail does not hold yet.
  /// `watchesRows`: such commits are looked for when the group ends.
  func inform(uncaptured: Set<RowName> = [], watchesRows: Bool = false) {
    (self.uncaptured, self.watchesRows, isInformed) = (uncaptured, watchesRows, true)
  }

  /// A row did not fit: its group is to be done again, through that transaction row by row. False: it was already.
  func settle(through number: UInt64) -> Bool {
    guard number > settlesThrough else { return false }
    settlesThrough = number
    return true
  }

  /// Whether the rows of the transaction at hand are to be locked before its next change.
  var isToLock: Bool { locksFirst && !hasLocked }

  /// Its rows have been locked, and what programs committed to them has been read.
  func noteLocks() { hasLocked = true }

  /// Passes all changes of the transaction at hand to `body`, also those that are still to come, except for TRUNCATE.
  func forEachChange(_ body: (TableSchema, ChangeView) throws -> Void) throws {
    try reader.forEachRow(at: place, folder: shared.folder(of: place.stamp.origin)) { schema, change, isCopied in
      if !isCopied { try body(schema, change) }
    }
  }

  /// Throws ``LocalAhead`` where one of the rows that were written has been committed locally meanwhile.
  func check(committed rows: Set<RowName>) throws {
    if !rows.isEmpty, written.contains(where: rows.contains) { throw LocalAhead() }
  }

  /// A group through that transaction was overtaken by programs.
  func overtaken(at number: UInt64) { lockedFirst.note(number, isAgain: waits > 0) }

  func waitForCapture(_ stop: StopSignal) throws {
    try shared.waitForCapture(stop, waits)
    waits += 1
  }

  /// The group was committed, through transaction `number`; nil: it stands before what the main way has applied.
  func committed(_ number: UInt64?) throws {
    waits = 0
    noteCandidates()
    if let number { shared.note(applied: number, of: trail) }
    try shared.window.commit(trail)
  }

  // MARK: Transactions

  /// Throws ``ClockGate/Ahead``, and `trail-forked` as of ``VersionWindow/believed(_:of:)``.
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

  /// The row with that index among those that are to be settled now.
  func row(_ index: Int) throws -> Row { try row(deferred[index]) }

  /// Passes the rows that are to be settled now to `body`, each once, with its index.
  func forEachRow(_ body: (Int, Row) throws -> Void) throws {
    for index in 0..<deferred.count { try body(index, row(index)) }
  }

  private func row(_ row: DeferredRows<Table>.Row) -> Row {
    var version = version(row.fold)
    if !columns.steps.isEmpty { version = columns.version(version, own: shared.own.description) }
    return Row(name: row.name, table: row.table, version: version)
  }

  /// A list of what the rows of a transaction come to.
  func list<Element>() -> SpilledList<Element> { SpilledList(bytesMax: shared.deferredBytesMax) }

  /// Rows that were referred to by somebody who does not know what was done to them.
  private var needed: [RowName] = []
  var isToSettle: Bool { !deferred.isEmpty || !needed.isEmpty }

  func endTransaction() {
    needed.removeAll(keepingCapacity: true)
    deferred.removeAll()
  }

  private func isDeferred(_ row: KeyedRow) throws -> Bool { try deferredRow(row) != nil }

  /// The row at hand with that key.
  private func deferredRow(_ row: KeyedRow) throws -> Row? {
    try deferred.last(of: row.name) { row.isSameKey(names.key(of: version($0))) }.map { self.row($0.row) }
  }

  /// Whether a change is left to the end of its transaction. `schema`: as the trail has it. `isReferenced`: others refer to
  /// rows of the table. `takesRowsIn`: as of ``takesRowsIn(_:_:)``. `mayWait`: rows of the table may wait for a unique
  /// value, and it would not be told that one is not there.
  func defers(
    _ change: ChangeView, _ schema: TableSchema, _ table: Table, isReferenced: Bool, takesRowsIn: Bool, mayWait: Bool
  ) throws -> Bool {
    let rows = try names.names(schema, change)
    if rows.isEmpty { throw Self.keyless(schema) }
    if try names.parents(schema, change).contains(where: need) { try needRows(schema, change) }
    try watch(rows)
    let alternates = try names.alternates(schema, change)
    for name in alternates { try shared.window.note(name, place) }
    for parent in try names.left(schema, change) { try shared.window.note(parent.name.leavers, place) }
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

  /// Whether this way only takes rows into a table, and changes none that is there (`insert-only`).
  func takesRowsIn(_ table: String, _ columns: [String]) throws -> Bool {
    let rules = try shared.rules(trail, table, columns)
    guard rules.rule == .insertOnly else { return false }
    return rules.decider == nil || rules.deciding(source: trail.description, target: shared.own.description) != nil
  }

  /// The columns whose changes are summed (`delta`), by their place in the trail's schema.
  func summed(_ table: String, _ columns: [String], in schema: TableSchema) throws -> [Int] {
    try shared.rules(trail, table, columns).columns.filter { $0.value == .delta }.keys.sorted().compactMap { index in
      schema.columns.firstIndex { $0.name.sqliteKey == columns[index].sqliteKey }
    }
  }

  /// Throws `table-refused` for an update that does not say what a column was whose changes are summed: PostgreSQL logs
  /// that with REPLICA IDENTITY FULL only.
  static func checkSums(_ change: ChangeView, _ schema: TableSchema, _ summed: [Int]) throws {
    guard !summed.isEmpty, change.operation == .update, schema.engine == .postgres else { return }
    let before = try change.before?.values() ?? []
    guard let index = summed.first(where: { $0 >= before.count || before[$0] == nil }) else { return }
    let name = "\(schema.namespace.isEmpty ? "" : schema.namespace.quotedName + ".")\(schema.name.quotedName)"
    throw CairnError(
      .tableRefused,
      "column \(schema.columns[index].name) of table \(schema.fullName) is to be summed (delta), and its source logged a change without the value before it",
      hint: "run at the source: ALTER TABLE \(name) REPLICA IDENTITY FULL; then copy the table again",
      context: ["table": schema.fullName])
  }

  /// Of a row that the transaction at hand inserts.
  private func comesIn(_ change: ChangeView, _ schema: TableSchema) throws -> Bool {
    let rows = try names.keyed(schema, change)
    if change.operation == .insert {
      for row in rows { inserted[row.name, default: []].append(row) }
      return true
    }
    return rows.count == 1 && inserted[rows[0].name, default: []].contains(where: rows[0].isSame)
  }

  /// Another row refers to it. True: its versions may say that it is deleted.
  private func need(_ parent: RowNames.Parent) throws -> Bool {
    try watch([parent.name])
    try shared.window.note(parent.name.reference, place)
    return try !shared.window.concurrent(parent.name, with: place.stamp, seen: seen).isEmpty
  }

  private func needRows(_ schema: TableSchema, _ change: ChangeView) throws {
    for parent in try names.parents(schema, change, withKeys: true)
    where try need(parent) {
      needed += try rows(of: parent).map(\.name)
    }
  }

  /// Of which deletes may count no more, with their other versions: rows that were referred to, those to which these
  /// referred where they were deleted, and so on. Without those of which the transaction makes a version itself.
  func neededRows() throws -> [(row: KeyedRow, versions: [StoredVersion])] {
    var (open, met): ([RowName], Set<RowName>) = ([], [])
    for name in needed where met.insert(name).inserted { open.append(name) }
    var rows: [(row: KeyedRow, versions: [StoredVersion])] = []
    while !open.isEmpty {
      let name = open.removeFirst()
      let versions = try others(name)
      // A reference is known by the name of its row alone, here as where the delete comes: all rows of the name are asked.
      rows += try apart(name, versions).filter { group in try deferredRow(group.row).map { !$0.isVersion } ?? true }
      for version in versions where version.after == nil {
        for parent in names.parents(version.schema, version.before ?? []) {
          for row in try self.rows(of: parent) where met.insert(row.name).inserted {
            try watch([row.name])
            open.append(row.name)
          }
        }
      }
    }
    return rows
  }

  /// Versions of one name, by their rows.
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

  /// By their keys.
  func rows(of parent: RowNames.Parent) throws -> [KeyedRow] {
    if parent.isByKey { return [KeyedRow(parent.name, parent.key)] }
    var rows: [KeyedRow] = []
    for place in try otherPlaces(parent.name) {
      _ = try reader.read(parent.name, at: place, folder: shared.folder(of: place.stamp.origin)) { schema, change in
        if try names.isAlternate(parent, schema, change) { rows += try names.keyed(schema, change) }
        return []
      }
    }
    return rows.reduce(into: []) { rows, row in if !rows.contains(where: row.isSame) { rows.append(row) } }
  }

  /// What is committed locally to these rows, or was and is not captured, has to be known before.
  private func watch(_ rows: ChangedRows) throws {
    if !uncaptured.isEmpty, rows.contains(where: uncaptured.contains) { throw LocalAhead() }
    if watchesRows { written += rows }
  }

  /// Nobody could say which rows of two databases are one.
  static func keyless(_ schema: TableSchema) -> CairnError {
    let what =
      schema.key.isEmpty || schema.flags.contains(.wholeRow) ? "the table has no key" : "a row has NULL in its key"
    return CairnError(
      .constraintFailed, "table \(schema.fullName) cannot go both ways: \(what)",
      hint:
        "give every row a key that is not NULL, or leave the table out: --tables \("*,!\(schema.fullName)".shellWord)",
      context: ["table": schema.fullName])
  }

  private func version(_ fold: VersionFold) -> StoredVersion {
    StoredVersion(stamp: place.stamp, seen: seen, schema: fold.schema, before: fold.before, after: fold.after)
  }

  /// Whether a row stays as it is here that a copy brings: it was written to here, which goes there, or a later copy has it
  /// of which this one's author did not know.
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
      try made(row, at: $0, isCopied: false)
    }
  }

  /// A row whose name others are likely to share, as a transaction spells it.
  private struct Spelled: Hashable {
    let name: RowName
    let spelling: [UInt8]
    let isCopied: Bool
  }

  /// Whether a transaction that wrote a row of this name, or copied one, did so with this one.
  private func made(_ row: KeyedRow, at place: VersionPlace, isCopied: Bool) throws -> Bool {
    // Names of others are hashes of their keys alone.
    guard row.isLoose else { return true }
    let folder = try shared.folder(of: place.stamp.origin)
    func forEach(_ body: (KeyedRow, _ isCopied: Bool) throws -> Void) throws {
      try reader.forEachRow(at: place, folder: folder) { schema, change, isCopied in
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

  /// Whether a row stays that the author of a transaction has not, or not any more, and of which it says no more.
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

  /// The other versions of a row that are known, as their trails have them. Who made a row and took it away again in one
  /// transaction made no version of it.
  private func others(_ row: RowName) throws -> [StoredVersion] { try otherPlaces(row).flatMap { try read(row, $0) } }

  func others(_ row: KeyedRow) throws -> [StoredVersion] {
    try others(row.name).filter { row.isSameKey(names.key(of: $0)) }
  }

  /// Where they stand.
  func otherPlaces(_ row: RowName) throws -> [VersionPlace] { try places(row).filter { $0.stamp != place.stamp } }

  /// Where versions of a row stand that the database has, or is given by the group at hand, by rising stamps.
  ///
  /// The window has those of a group that was rolled back as well. Who writes to the row before they come again knows nothing of
  /// them, so the row must not be what they made of it.
  private func places(_ row: RowName) throws -> [VersionPlace] {
    try shared.window.versions(row).filter { $0.stamp.number <= reached[$0.stamp.origin] ?? .max }
  }

  /// Of the versions of a row but that of the transaction at hand; `without`: and but for that of another one.
  func fingerprint(_ row: RowName, without other: Stamp? = nil) throws -> VersionFingerprint {
    try shared.window.fingerprint(row, upTo: reached, without: [place.stamp] + (other.map { [$0] } ?? []))
  }

  func read(_ row: RowName, _ place: VersionPlace) throws -> [StoredVersion] { try readVersions(row, at: place) }

  /// All that the transaction at hand made of a row, as its trail has it: what it did to the row before it deleted it was
  /// written as it came.
  func whole(_ row: Row, isSame: (StoredVersion) throws -> Bool) throws -> Row {
    let versions = try readVersions(row.name, at: place)
    guard let version = try versions.first(where: isSame) else { return row }
    return Row(name: row.name, table: row.table, version: version)
  }

  // MARK: Rows that wait for a unique value

  /// The number of rows that wait, by table, when they were judged last; it counts after the commit. Nil if the group under
  /// way has judged none.
  var candidatesLeft: [String: Int]?

  /// What is under way has been committed, or has changed nothing.
  func noteCandidates() { if let candidatesLeft { shared.note(waiting: candidatesLeft) } }

  /// The stamp of the last write to a row that some node may not know; nil if there is none. A delete is no write: if the row
  /// is there all the same, the delete did not count.
  private func lastWrite(_ row: KeyedRow, behind copy: Stamp? = nil) throws -> Stamp? {
    for place in try places(row.name).reversed() {
      if let copy, place.stamp < copy { return nil }
      let versions = try readVersions(row.name, at: place)
      if versions.contains(where: { $0.after != nil && row.isSameKey(names.key(of: $0)) }) { return place.stamp }
    }
    return shared.window.lastForgotten(row.name)
  }

  /// The stamp by which a row is judged beside another one with a unique value of it. A row of which no node can tell any more
  /// is earlier than all others.
  func lastStamp(_ row: KeyedRow) throws -> Stamp { try lastWrite(row) ?? Stamp(clock: 0, origin: "", number: 0) }

  /// As ``lastStamp(_:)-(KeyedRow)``, of a row of the transaction at hand.
  func lastStamp(_ row: Row) throws -> Stamp { try lastStamp(KeyedRow(row.name, names.key(of: row.version))) }

  /// Notes what the transaction at hand makes of a row that is settled.
  func note(_ row: Row) throws { try shared.window.note(row.name.ended(row.version.after == nil), place) }

  /// Of the last copy that brought a row, as far as anybody may not know of it. That is later than all that its author knew
  /// of the row, whether that has come here or not.
  private func lastCopy(_ row: ContestedRow) throws -> Stamp? {
    try places(row.copied).last { try made(row.keyed, at: $0, isCopied: true) }?.stamp
      ?? shared.window.lastForgotten(row.copied)
  }

  /// A row that waits with the rank that copies of it give it.
  func ranked(_ candidate: Candidate) throws -> Candidate {
    guard let copy = try lastCopy(candidate.row), copy > candidate.stamp else { return candidate }
    return Candidate(candidate.row, copy, earlier: candidate.earlier)
  }

  /// As ``UniqueContest/rank(of:against:)``. What capture has not taken yet is later than all that has waited before.
  /// `isMerged`: what copies bring to the table joins what it holds. That may still have to be copied itself, and is not
  /// taken away before it has been.
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

  /// Whether a row stays that is in the way of one that a copy brings, until both are judged: else it is one that the copy's
  /// author has no longer.
  func contests(_ row: ContestedRow) throws -> Bool {
    try isDeferred(row.keyed) || keepsUnmentioned(row.keyed, copied: row.copied, isContested: true)
  }

  /// All versions of a row that waits, where something was done to it since; none: nothing. Nil: that is not known yet.
  func versions(of candidate: Candidate) throws -> [StoredVersion]? {
    let name = candidate.row.name
    if watchesRows { written.append(name) }
    if uncaptured.contains(name) { return nil }
    let places = try places(name)
    guard let last = places.last, last.stamp > candidate.stamp else { return [] }
    return try places.flatMap { try readVersions(name, at: $0) }
  }

  /// A row that has waited is there again.
  func noteReturn(of row: ContestedRow) { shared.noteReturn(of: row.keyed, by: trail, place.stamp.number) }

  /// Whether a delete of a row counts: not where somebody began to refer to the row, and neither knew of the other; nor where
  /// the row that he referred to refers to it.
  func counts(_ version: RowVersion, of row: RowName, in table: TableSchema) throws -> Bool {
    guard version.isDelete, shared.window.mayBeReferred(beside: version.stamp, seen: version.seen) else { return true }
    return try !isNeeded([row] + names.alternates(table, version.before ?? []), beside: version)
  }

  /// Whether somebody referred to one of these rows, or to one that referred to it and is deleted, too: that one comes back.
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

  /// Rows that a transaction deleted, by those to which they referred.
  private func leavers(at place: VersionPlace) throws -> [RowName: [RowName]] {
    if let known = leavers[place.stamp] { return known }
    var found: [RowName: [RowName]] = [:]
    _ = try reader.read(RowName(hash: 0), at: place, folder: shared.folder(of: place.stamp.origin)) { schema, change in
      for parent in try names.left(schema, change) {
        found[parent.name, default: []] += try names.names(schema, change).prefix(1) + names.alternates(schema, change)
      }
      return []
    }
    if leavers.count >= 16 { leavers.removeAll() }
    leavers[place.stamp] = found
    return found
  }

  /// How conflicts of a table are settled on this way.
  func rules(_ table: String, _ columns: [String]) throws -> ConflictRules {
    try shared.rules(trail, table, columns).between(source: trail.description, target: shared.own.description)
  }

  /// How this node decides them for all others; nil: it does not.
  func decidingRules(_ table: String, _ columns: [String]) throws -> ConflictRules? {
    try shared.rules(trail, table, columns).deciding(source: trail.description, target: shared.own.description)
  }

  /// Throws where a rule says that apply is to stop before a conflict.
  func checkStops(_ row: SettledRow, _ table: TableSchema, _ key: [Value]) throws {
    guard let conflict = row.conflicts.first(where: row.rules.stops) else { return }
    let shown = zip(table.key, key).map { "\(table.columns[$0].name)=\($1.shown)" }.joined(separator: ", ")
    throw CairnError(
      .conflictStopped,
      "table \(table.fullName), row \(shown): \(conflict.kind.rawValue) between \(conflict.incoming.origin) and \(conflict.other.origin), and the rule is stop",
      hint: "write the row as it is to be at one of the nodes, or choose another rule",
      context: ["table": table.fullName])
  }
}
