import Changes
import Conflicts
import SystemKit
import Versions

/// Resolves conflicts in two-way replication. A row then becomes equal at all nodes, in whatever order its writes
/// arrive.
final class RowResolver<Target: ApplyTarget> {
  typealias Table = Target.Table
  typealias Desk = TwoWaySession<Target.Table>

  unowned let target: Target
  let desk: Desk
  let trail: TrailName
  let clock: Clock
  private var resolvedBefore = SettledBefore<Target.Table>()
  /// The refreshed rows that have the same unique value as another row. Before the commit, apply decides which of the
  /// rows wait.
  var displacedCopies: [ContestedRow] = []
  /// The rows that could not be written because other rows have the same unique values.
  private var displaced: [ContestedRow] = []
  private var longResolves = 0
  /// The waiting rows that refreshes brought since apply last decided which rows wait.
  var met: [ContestedRow] = []
  /// The trails that last wrote the waiting rows which refreshes brought since apply last decided which rows wait.
  var metTrails: Set<NameKey> = []

  init(_ target: Target, _ desk: Desk, _ trail: TrailName, _ clock: Clock) {
    (self.target, self.desk, self.trail, self.clock) = (target, desk, trail, clock)
  }

  // MARK: Classification

  /// Returns whether a change is deferred to the end of its transaction, because it may conflict with other versions.
  ///
  /// - Parameter schema: The table's schema in the trail.
  /// - Throws: `table-refused` if a column with the rule `delta` has no former value.
  func defers(_ change: ChangeView, _ schema: TableSchema, _ table: Table) throws -> Bool {
    guard table.goesBothWays, change.operation != .truncate else { return false }
    let takesRowsIn = try takesRowsIn(table, schema)
    try Desk.checkSums(change, schema, table.summed)
    return try desk.defers(
      change, schema, table, isReferenced: target.hasReferrers(table), takesRowsIn: takesRowsIn,
      mayWait: hasCandidates && table.isContested && table.mayHoldRows)
  }

  /// Returns whether the table's rule is `insert-only`. Reads the rule only once for each table.
  func takesRowsIn(_ table: Table, _ schema: TableSchema) throws -> Bool {
    if let known = table.takesRowsIn { return known }
    let (name, columns) = (table.shape.plainName, table.columnNames)
    table.summed = try desk.summed(name, columns, in: schema)
    let found = try desk.takesRowsIn(name, columns)
    table.takesRowsIn = found
    return found
  }

  /// Returns whether the target's row stays although a refresh brings the row. If the refresh's author did not know
  /// versions of the row, writes the columns that those versions lack.
  func keepsOwn(_ image: ImageView, _ schema: TableSchema, _ table: Table) throws -> Bool {
    guard table.goesBothWays else { return false }
    guard let row = try desk.names.keyed(schema, image), let copied = try desk.names.copied(schema, image) else {
      throw Desk.keyless(schema)
    }
    switch try desk.copiedRow(row, copied: copied) {
    case .replaced: return false
    case .kept: return true
    case .changed(let versions):
      try merge(image, schema, row, into: table, versions)
      return true
    }
  }

  /// Returns whether apply may delete a row of the target because a refresh of the table lacks the row.
  ///
  /// - Parameter row: A row; only its key columns are used.
  func mayRemove(_ row: [Value], of table: Table) throws -> Bool {
    guard let keyed = desk.names.keyed(table.shape, row), let copied = desk.names.copied(table.shape, row) else {
      return false
    }
    return try !desk.keepsUnmentioned(keyed, copied: copied, isContested: table.isContested)
  }

  // MARK: The end of a transaction

  /// Resolves and writes the rows that were deferred to the end of the transaction because of possible conflicts.
  func resolve(_ stop: StopSignal) throws {
    guard desk.isToSettle else { return }
    var watch = LongResolve(now: Clock.monotonicMilliseconds)
    let (gone, puts) = try resolveRows(stop, &watch)
    try puts.forEach {
      try write($0)
      tellIfLong(&watch)
    }
    try judgeDisplaced()
    try keepReferred(gone)
    try removeLeft()
    try bringBackNeeded()
    try judgeDisplaced()
    desk.endTransaction()
  }

  /// Resolves each deferred row, and deletes the rows whose result is a delete. This frees their unique values.
  ///
  /// - Returns: The deleted rows that other rows may reference (`gone`), and the rows that are still to be written
  ///   (`puts`).
  private func resolveRows(
    _ stop: StopSignal, _ watch: inout LongResolve
  ) throws -> (gone: SpilledList<GoneRow>, puts: SpilledList<SettledPut>) {
    var gone: SpilledList<GoneRow> = desk.list()
    var puts: SpilledList<SettledPut> = desk.list()
    var count = 0
    try desk.forEachRow { index, narrow in
      guard narrow.isVersion else { return }
      count += 1
      if count % 256 == 0, stop.isSet { throw ApplyStopped() }
      tellIfLong(&watch)
      let row = try wide(narrow)
      let form = target.form(of: row.table)
      let key = try form.key(row.version)
      let waiting = try takeCandidate(row.table, key)
      var resolved = try resolved(row, key, waiting: waiting)
      if row.version.after == nil, resolved.row != nil {
        resolved = try self.resolved(whole(row, key), key, waiting: waiting)
      }
      try desk.checkStops(resolved, row.table.shape, key)
      let isAhead = desk.mayDiffer || narrow.table.refreshing != nil
      for record in resolved.records(
        desk.place, of: trail, row.table.shape, key: key, now: clock.microseconds(), isAhead: isAhead)
      { try target.log(record) }
      try desk.note(row)
      try noteDecision(resolved, row.table, key)
      guard let outcome = resolved.outcome else {
        if !desk.isAhead, try target.hasReferrers(row.table), let there = try target.row(key, of: row.table) {
          try gone.append(GoneRow(index: index, key: key, there: there))
        }
        _ = try target.takeParked(key, of: row.table)
        _ = try target.put(nil, key, in: row.table)
        return
      }
      // The rest of the row comes with the copy.
      if resolved.isPartial, narrow.table.mayHoldRows { return }
      try puts.append(
        SettledPut(
          index: index, key: key, put: waiting == nil ? resolved.row : outcome, outcome: outcome,
          stamp: resolved.stamp))
    }
    return (gone, puts)
  }

  // The progress keeps each notice, so only the first 20 such transactions are reported.
  private func tellIfLong(_ watch: inout LongResolve) {
    guard longResolves < 20, watch.isDue(now: Clock.monotonicMilliseconds) else { return }
    longResolves += 1
    target.progress.note(
      "transaction \(desk.place.stamp.number) of trail \(trail): apply resolves \(desk.deferredCount.counted("row", "rows")) one by one; applications that write them, in SQLite any row, wait until it commits"
    )
  }

  private func write(_ one: SettledPut) throws {
    let row = try wide(desk.row(one.index))
    var put = one.put
    // The row may have waited for the end of the transaction: columns that are not written now stay as they were meant.
    if let held = try target.takeParked(one.key, of: row.table) {
      put = put.map { $0.enumerated().map { $1 ?? ($0 < held.count ? held[$0] : nil) } }
    }
    try write(put, one.key, in: row.table, outcome: one.outcome) { try one.stamp ?? desk.lastStamp(row) }
  }

  /// Writes a row, or makes it a waiting row if another row has the same unique value.
  ///
  /// - Parameter put: The columns to write; nil for those that keep their values.
  /// - Parameter outcome: The row with all columns.
  /// - Parameter stamp: Returns the stamp of the last write to the row.
  func write(
    _ put: RowVersion.Row?, _ key: [Value], in table: Table, outcome: [Value?], stamp: () throws -> VersionStamp
  ) throws {
    if try target.put(put, key, in: table) { return }
    _ = try target.put(nil, key, in: table)
    let waiting = try desk.ranked(DisplacedRow(table.shape, key: key, row: outcome, stamp: try stamp()))
    try target.attempt { try target.candidates.add(waiting) }
    displaced.append(waiting.row)
    hasCandidates = true
  }

  private func wide(_ row: Desk.Row) throws -> Desk.Row { try row.with(target.wide(row.table)) }

  private func whole(_ row: Desk.Row, _ key: [Value]) throws -> Desk.Row {
    let form = target.form(of: row.table)
    return try desk.whole(row) { version in
      try form.knownKey(version).map { form.isSame(key, $0) } ?? false
    }
  }

  /// Computes the resolved row from all known versions of the row.
  ///
  /// - Parameter waiting: The row's content if it is a waiting row; else nil.
  private func resolved(_ row: Desk.Row, _ key: [Value], waiting: [Value]?) throws -> ResolvedRow {
    let table = row.table
    let form = target.form(of: table)
    let incoming = try form.version(row.version)
    let others = try resolvedBefore.others(row.name, key, in: table, beside: incoming, desk, isSame: form.isSame) {
      try form.fitting(desk.read(row.name, $0)).map { ($0.key, $0.version) }
    }
    let (name, columns) = (table.shape.plainName, table.columnNames)
    let keyed = KeyedRow(row.name, desk.names.key(of: row.version))
    return try naming(key, of: table) {
      try ResolvedRow(
        others + [incoming], local: try target.row(key, of: table) ?? waiting, try desk.rules(name, columns),
        deciding: try desk.decidingRules(name, columns), columns: columns,
        function: { [target] function, rows in try target.settle(rows, by: function, in: table) }
      ) { try desk.counts($0, of: keyed, in: table.shape) }
    }
  }

  /// Stores this node's decision about a row; without a decision, removes an earlier one. After the commit, apply
  /// writes the decision as a separate change.
  private func noteDecision(_ row: ResolvedRow, _ table: Table, _ key: [Value]) throws {
    let decisions = target.decisions
    if let decision = row.openDecision(table.shape, key: key) {
      try target.attempt { try decisions.note(decision, keepsEarlier: row.isKept) }
      desk.shared.mayHaveDecisions = true
    } else if desk.shared.mayHaveDecisions, !row.isKept {
      try target.attempt { _ = try decisions.forget(table.shape.namespace, table.shape.name, table.key(key)) }
    }
  }

  // MARK: Referenced rows

  /// Restores rows in `gone`, which this transaction deleted, if existing rows reference them, directly or through
  /// other deleted rows.
  private func keepReferred(_ gone: SpilledList<GoneRow>) throws {
    guard !gone.isEmpty else { return }
    try putBackReferred(gone).forEach { one in
      let row = try wide(desk.row(one.index))
      guard let kept = try resolved(whole(row, one.key), one.key, waiting: nil).living() else { return }
      try write(kept, one.key, in: row.table, outcome: kept) { try desk.lastStamp(row) }
      try target.log(
        ResolvedRow.returned(
          kept, desk.place, of: trail, row.table.shape, key: one.key, now: clock.microseconds()))
    }
  }

  /// Restores the rows in `gone` that other rows reference, and returns them.
  private func putBackReferred(_ gone: SpilledList<GoneRow>) throws -> SpilledList<GoneRow> {
    var (gone, back): (SpilledList<GoneRow>, SpilledList<GoneRow>) = (gone, desk.list())
    var isMoving = true
    while isMoving {
      let open = gone
      gone = desk.list()
      try open.forEach { row in
        let table = try wide(desk.row(row.index)).table
        if try target.isReferred(row.there, key: row.key, of: table) {
          // If another row has one of its unique values by now, that is decided when the resolved row is written.
          _ = try target.put(row.there, row.key, in: table)
          try back.append(row)
        } else {
          try gone.append(row)
        }
      }
      isMoving = gone.count < open.count
    }
    return back
  }

  /// Restores the deleted rows that the present transaction references, and the deleted rows that these rows reference.
  private func bringBackNeeded() throws {
    // A row that waits for a unique value is not in its table afterwards, and rows may reference each other in a ring.
    var met: Set<KeyedRow> = []
    for needed in try desk.neededRows() {
      var open = try bringBack(needed.row, needed.versions, isReferred: true)
      while let row = open.popLast() {
        guard met.insert(row).inserted else { continue }
        open += try bringBack(row, desk.others(row), isReferred: false)
      }
    }
  }

  // MARK: Two rows that want one unique value

  var hasCandidates: Bool {
    get { desk.shared.mayHaveCandidates }
    set { desk.shared.mayHaveCandidates = newValue }
  }

  /// Removes and returns the waiting row with this key; nil if there is none.
  private func takeCandidate(_ table: Table, _ key: [Value]) throws -> [Value]? {
    guard hasCandidates else { return nil }
    try target.flush()
    let candidates = target.candidates
    guard let found = try candidates.find(table.shape.namespace, table.shape.name, table.key(key)) else { return nil }
    try candidates.remove(found.row)
    return found.values(table.columnNames)
  }

  private func judgeDisplaced() throws {
    guard !displaced.isEmpty else { return }
    try judge()
  }

  /// Decides, before the commit, which of several rows with the same unique value is in the table. The other rows
  /// become waiting rows.
  ///
  /// - Returns: Whether a table or a waiting row was changed.
  @discardableResult func judge() throws -> Bool {
    guard hasCandidates else { return false }
    try target.flush()
    let fresh = displaced + displacedCopies
    if !fresh.isEmpty || !metTrails.isEmpty { try checkRoom() }
    let contest = DisplacedRowContest(
      target.candidates, fresh: fresh, met: met,
      .init(
        renew: renewed, ranked: desk.ranked,
        lastWrite: { [desk, target] row, isNew in
          try desk.rank(of: row, isNew: isNew, isMerged: target.mergesCopies(at: row))
        },
        noteReturn: noteReturn, log: log))
    (displaced, displacedCopies, met, metTrails) = ([], [], [], [])
    let isChanged = try contest.judge()
    desk.candidatesLeft = try target.candidates.counts()
    return isChanged
  }

  func noteReturn(_ row: ContestedRow) throws {
    let entries = desk.noteReturn(of: row)
    try target.attempt { for entry in entries { try target.storedReturns.note(entry) } }
  }

  /// Throws `constraint-failed` if the waiting rows of a trail take more bytes than the limit allows.
  ///
  /// If refreshes of this trail bring waiting rows of another applied trail, that trail's waiting rows may take half of
  /// the limit.
  private func checkRoom() throws {
    let (bytes, most) = (try target.candidates.byteCounts(), desk.shared.limits.waitingBytesMax)
    try checkRoom("of trail \(trail)", bytes[trail.description] ?? 0, most)
    let others = metTrails.filter { $0.text != trail.description }
    for other in others.sorted() where desk.shared.isApplied(other.text) {
      try checkRoom("of trail \(other) and from copies of other trails", bytes[other.text] ?? 0, most / 2)
    }
    if others.contains(where: { !desk.shared.isApplied($0.text) }) {
      let unknown = bytes.filter { !desk.shared.isApplied($0.key) }.values.reduce(Int64(0)) { $0.addingBounded($1) }
      try checkRoom("of trails that are not applied here", unknown, most)
    }
  }

  private func checkRoom(_ rows: String, _ bytes: Int64, _ most: Int64) throws {
    guard bytes > most else { return }
    throw CairnError(
      .constraintFailed,
      "\(bytes >> 20) MiB of rows \(rows) would wait for unique values that other rows have; the limit is \(most >> 20) MiB",
      hint:
        "run 'cairn conflicts list --waiting', and give these rows other values where they were written"
    )
  }

  private func log(_ row: ContestedRow, _ other: ContestedRow, _ stamp: VersionStamp?, isOurs: Bool) throws {
    try target.log(
      row.record(against: other, stamp, isOurs: isOurs, desk.place, of: trail, now: clock.microseconds()))
    try target.flush()
  }
}
