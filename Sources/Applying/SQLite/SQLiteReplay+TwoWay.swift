import Changes
import Conflicts
import Mapping
import SQLiteKit
import SystemKit
import Versions

// Two-way: rows that somebody else has written to as well.
extension SQLiteReplay {
  typealias Desk = TwoWayDesk<TargetTable>
  /// So many are in memory while rows are looked through.
  private static let keysMax = 1000

  /// Inside of the group's transaction: what is committed here, as far as anybody can know.
  func inform(_ desk: Desk) throws {
    let window = desk.shared.window
    try desk.lookAtKeys { try TargetTable.alternates(database) }
    _ = try window.catchUp(rowNames: desk.names.namesAndReferences)
    if desk.learnColumns() { forgetShapes() }
    guard case .journal(let rows) = desk.shared.local else { return desk.inform() }
    var uncaptured: Set<RowName> = []
    let isShown = try rows(database, window.ownReach.sourcePosition) { schema, values in
      if let name = desk.names.name(schema, values) { uncaptured.insert(name) }
      uncaptured.formUnion(desk.names.parents(schema, values).map(\.name.reference))
      uncaptured.formUnion(desk.names.alternates(schema, values))
    }
    guard isShown else { throw LocalAhead() }
    if uncaptured.isEmpty { desk.shared.noteCaptured() }
    desk.inform(uncaptured: uncaptured)
  }

  /// Whether a change is settled when its transaction ends.
  func defers(_ change: ChangeView, _ table: TargetTable) throws -> Bool {
    guard let desk, table.goesBothWays, change.operation != .truncate, let schema = reader.given(change.schemaID) else {
      return false
    }
    let names = table.schema.columns.map(\.name)
    if table.takesRowsIn == nil { table.summed = try desk.summed(table.schema.plainName, names, in: schema) }
    let takesRowsIn = try table.takesRowsIn ?? desk.takesRowsIn(table.schema.plainName, names)
    table.takesRowsIn = takesRowsIn
    do { try Desk.checkSums(change, schema, table.summed) } catch let error as CairnError {
      throw Refusal(position: reader.position, error: error)
    }
    return try desk.defers(
      change, schema, table, isReferenced: !table.referrers.isEmpty, takesRowsIn: takesRowsIn,
      mayWait: hasCandidates && table.mayCollide && isLenient(table))
  }

  /// Whether a row that a copy brings gives way to what was written here.
  func keepsOwn(_ id: UInt64, _ image: ImageView, _ table: TargetTable) throws -> Bool {
    guard let desk, table.goesBothWays, let schema = reader.given(id) else { return false }
    guard let row = try desk.names.keyed(schema, image), let copied = try desk.names.copied(schema, image) else {
      throw Desk.keyless(schema)
    }
    return try desk.keeps(row, copied: copied)
  }

  /// Removes what the target has in a range, but for rows of which the author of the copy does not know what was done to
  /// them here.
  func removeKnown(_ range: Refresh.Range?, _ table: TargetTable, _ desk: Desk) throws {
    var last: [Value]?
    while true {
      let keys = try table.keys(in: range, after: last, limit: Self.keysMax)
      for key in keys {
        var row = [Value](repeating: .null, count: table.schema.columns.count)
        for (index, value) in zip(table.schema.key, key) { row[index] = value }
        guard let keyed = desk.names.keyed(table.schema, row), let copied = desk.names.copied(table.schema, row),
          try !desk.keepsUnmentioned(keyed, copied: copied)
        else { continue }
        try table.put(nil, key)
      }
      guard keys.count == Self.keysMax else { return }
      last = keys.last
    }
  }

  /// At the end of a transaction.
  func settleDeferred(_ stop: StopSignal) throws {
    guard let desk, desk.isToSettle else { return }
    var held: [ContestedRow] = []
    var gone: SpilledList<GoneRow> = desk.list()
    var puts: SpilledList<SettledPut> = desk.list()
    var count = 0
    try desk.forEachRow { index, narrow in
      guard narrow.isVersion else { return }
      count += 1
      if count % 256 == 0, stop.isSet { throw Stopped() }
      let row = try wide(narrow)
      let form = SQLiteForm(row.table)
      let key = try form.key(row.version)
      let waiting = try takeCandidate(row.table, key)
      var settled = try settle(row, key, waiting, form, desk)
      if row.version.after == nil, settled.row != nil {
        settled = try settle(whole(row, key, form, desk), key, waiting, form, desk)
      }
      try desk.checkStops(settled, row.table.schema, key)
      let records = settled.records(
        desk.place, of: name, row.table.schema, key: key, now: target.clock.microseconds(),
        isAhead: desk.mayDiffer || narrow.table.state.refreshing != nil)
      for record in records { try log(record) }
      try desk.note(row)
      try note(settled, row.table, key, desk)
      guard let outcome = settled.outcome else {
        // Rows that go make room for the unique values of others before those are put in place.
        if !row.table.referrers.isEmpty, !desk.isAhead, let there = try row.table.row(key) {
          try gone.append(GoneRow(index: index, key: key, there: there))
        }
        _ = self.held.take(key: key, of: row.table)
        try row.table.put(nil, key)
        return
      }
      // The rest of it comes with the copy.
      if settled.isPartial, isLenient(narrow.table) { return }
      try puts.append(
        SettledPut(
          index: index, key: key, put: waiting == nil ? settled.row : outcome, outcome: outcome, stamp: settled.stamp))
    }
    try puts.forEach { one in
      var one = one
      let row = try wide(desk.row(one.index))
      // The row may have waited for another one: what is not written to it now stays as it was meant.
      if let waiting = self.held.take(key: one.key, of: row.table) {
        one.put = one.put.map { $0.enumerated().map { $1 ?? ($0 < waiting.values.count ? waiting.values[$0] : nil) } }
      }
      try put((one.put, one.outcome, row.table), one.key, one.stamp ?? desk.lastStamp(row), held: &held)
    }
    try judge(&held)
    try keepReferred(gone, desk, held: &held)
    try bringBackNeeded(desk, held: &held)
    try judge(&held)
    desk.endTransaction()
  }

  private func wide(_ row: Desk.Row) throws -> Desk.Row { try row.with(row.table.wide()) }

  /// Puts a row in place, or lets it wait where another one has a unique value of its. `outcome`: all of it, nil: it goes; `stamp`: of the
  /// last that was written to it.
  private func put(
    _ row: (put: RowVersion.Row?, outcome: [Value?]?, table: TargetTable), _ key: [Value],
    _ stamp: @autoclosure () throws -> Stamp,
    held: inout [ContestedRow]
  ) throws {
    do { try row.table.put(row.put, key) } catch let error as SQLiteError where error.isUniqueness {
      guard let outcome = row.outcome else { return }
      try row.table.put(nil, key)
      let waiting = Candidate(row.table.schema, key: key, row: outcome, stamp: try stamp())
      let candidate = try desk?.ranked(waiting) ?? waiting
      try candidates.add(candidate)
      held.append(candidate.row)
    } catch let error as SQLiteError where error.isConstraint { throw refused(row.table, error) }
  }

  private func judge(_ held: inout [ContestedRow]) throws {
    guard !held.isEmpty else { return }
    hasCandidates = true
    _ = try judgeCandidates(fresh: held + heldCopies)
    (held, heldCopies) = ([], [])
  }

  // MARK: Rows that others refer to

  /// Those to which nobody refers when all of them have gone: the rows of a ring refer only to each other. The rest stays.
  private func keepReferred(_ gone: SpilledList<GoneRow>, _ desk: Desk, held: inout [ContestedRow]) throws {
    guard !gone.isEmpty else { return }
    try putBackReferred(gone, desk).forEach { one in
      let (row, key) = (try wide(desk.row(one.index)), one.key)
      let form = SQLiteForm(row.table)
      guard let kept = try settle(whole(row, key, form, desk), key, nil, form, desk).living() else { return }
      try put((kept, kept, row.table), key, desk.lastStamp(row), held: &held)
      try log(
        SettledRow.returned(kept, desk.place, of: name, row.table.schema, key: key, now: target.clock.microseconds()))
    }
  }

  /// Those to which somebody refers, as they were; each of them may refer to others in its turn.
  private func putBackReferred(_ gone: SpilledList<GoneRow>, _ desk: Desk) throws -> SpilledList<GoneRow> {
    var (gone, back): (SpilledList<GoneRow>, SpilledList<GoneRow>) = (gone, desk.list())
    var isMoving = true
    while isMoving {
      let open = gone
      gone = desk.list()
      try open.forEach { row in
        let table = try wide(desk.row(row.index)).table
        if try table.isReferred(row.there) {
          // If another row holds one of its unique values by now, the contest decides when the resolved row is written.
          do { try table.put(row.there, row.key) } catch let error as SQLiteError where error.isUniqueness {}
          try back.append(row)
        } else {
          try gone.append(row)
        }
      }
      isMoving = gone.count < open.count
    }
    return back
  }

  private func whole(_ row: Desk.Row, _ key: [Value], _ form: SQLiteForm, _ desk: Desk) throws -> Desk.Row {
    try desk.whole(row) { try form.isSame(key, form.key($0)) }
  }

  /// Rows to which others refer come back where deletes of them do not count, and so do those to which they refer
  /// themselves: of these none does, and they stay as they are where they are there.
  private func bringBackNeeded(_ desk: Desk, held: inout [ContestedRow]) throws {
    // One that has to wait for a unique value is not there afterwards, and may be one of a ring.
    var met: Set<KeyedRow> = []
    for needed in try desk.neededRows() {
      var open = try bringBack(needed.row, needed.versions, desk, isReferred: true, held: &held)
      while let row = open.popLast() {
        guard met.insert(row).inserted else { continue }
        open += try bringBack(row, desk.others(row), desk, isReferred: false, held: &held)
      }
    }
  }

  /// Returns the rows to which it refers, where it came back. `isReferred`: it is the first of them; what it is now may
  /// have stood while less was known of who refers to it.
  private func bringBack(
    _ keyed: KeyedRow, _ versions: [StoredVersion], _ desk: Desk, isReferred: Bool, held: inout [ContestedRow]
  ) throws -> [KeyedRow] {
    let name = keyed.name
    guard let last = versions.last else { return [] }
    let table = TargetTable(try TableMapping(last.schema, to: .sqlite), state: .init(), database: database)
    let form = SQLiteForm(table)
    let key = try form.key(last)
    let local = try table.row(key)
    let history = RowHistory(try versions.filter { try form.isSame(key, form.key($0)) }.map(form.version))
    if local != nil, !isReferred || !history.versions.contains(where: \.isDelete) { return [] }
    let names = table.schema.columns.map(\.name)
    let rules = try desk.rules(table.schema.plainName, names)
    let settled = try SettledRow.row(history, rules, columns: names) { version in
      try isReferred ? desk.counts(version, of: name, in: table.schema) : !version.isDelete
    }
    guard let row = settled, !row.isAll(of: local) else { return [] }
    try SettledRow.checkWhole(row, history.versions.last(where: \.isDelete)?.stamp, table.schema, key)
    try put((row, row, table), key, desk.lastStamp(keyed), held: &held)
    try log(
      SettledRow.returned(
        row, local: local, desk.place, of: self.name, table.schema, key: key, now: target.clock.microseconds()))
    return try desk.names.parents(last.schema, last.after ?? last.before ?? []).flatMap { try desk.rows(of: $0) }
  }

  /// `waiting`: the row as it is where it waits for a unique value.
  private func settle(_ row: Desk.Row, _ key: [Value], _ waiting: [Value]?, _ form: SQLiteForm, _ desk: Desk) throws
    -> SettledRow
  {
    let incoming = try form.version(row.version)
    let others = try settledBefore.others(row.name, key, in: row.table, beside: incoming, desk, isSame: form.isSame) {
      try desk.read(row.name, $0).map { (try form.key($0), try form.version($0)) }
    }
    let names = row.table.schema.columns.map(\.name)
    let table = row.table.schema.plainName
    return try SettledRow(
      others + [incoming], local: try row.table.row(key) ?? waiting, try desk.rules(table, names),
      deciding: try desk.decidingRules(table, names), columns: names
    ) { try desk.counts($0, of: row.name, in: row.table.schema) }
  }

  /// What this node decides of a row: behind the commit, so that it follows what was applied.
  private func note(_ row: SettledRow, _ table: TargetTable, _ key: [Value], _ desk: Desk) throws {
    let decisions = SQLiteDecisions(database: database)
    if let decision = row.openDecision(table.schema, key: key) {
      try decisions.note(decision, keepsEarlier: row.isKept)
      desk.shared.mayHaveDecisions = true
    } else if desk.shared.mayHaveDecisions, !row.isKept {
      try decisions.forget(table.schema.name, ConflictRow(table.schema.key.map { table.schema.columns[$0].name }, key))
    }
  }

  func log(_ record: ConflictRecord) throws {
    try SQLiteConflictLog(database).append(record)
    conflicts += 1
  }

  // MARK: Two rows that cannot both be

  var candidates: SQLiteCandidates { SQLiteCandidates(database: database) }

  var hasCandidates: Bool {
    get { desk?.shared.mayHaveCandidates ?? false }
    set { desk?.shared.mayHaveCandidates = newValue }
  }

  /// What the row is that waits, which it does no longer; nil: none does.
  private func takeCandidate(_ table: TargetTable, _ key: [Value]) throws -> [Value]? {
    guard hasCandidates else { return nil }
    let names = table.schema.columns.map(\.name)
    guard let found = try candidates.find(table.schema.name, ConflictRow(table.schema.key.map { names[$0] }, key))
    else { return nil }
    try candidates.remove(found.row)
    return found.values(names)
  }

  /// Before the commit; true when anything changed. `fresh`: rows that came just now.
  func judgeCandidates(fresh: [ContestedRow] = []) throws -> Bool {
    guard let desk, hasCandidates else { return false }
    let contest = CandidateContest(
      candidates, fresh: fresh,
      .init(
        renew: { try self.renewed($0, desk) }, ranked: desk.ranked,
        lastWrite: { try desk.rank(of: $0, isNew: $1, isMerged: self.isMerged($0)) },
        noteReturn: desk.noteReturn(of:),
        log: { row, other, stamp, isOurs in
          try self.log(
            row.record(
              against: other, stamp, isOurs: isOurs, desk.place, of: self.name, now: self.target.clock.microseconds()))
        }))
    let isChanged = try contest.judge()
    desk.candidatesLeft = try candidates.counts()
    return isChanged
  }

  /// Whether what copies bring to its table joins what is there.
  private func isMerged(_ row: ContestedRow) -> Bool {
    target.tables[row.table.sqliteKey].map { $0.existing != .overwrite } ?? false
  }

  /// A row that waits may have been written again meanwhile.
  private func renewed(_ candidate: Candidate, _ desk: Desk) throws -> CandidateContest<SQLiteCandidates>.Renewal {
    guard let stored = try desk.versions(of: candidate) else { return .open }
    guard let last = stored.last else { return .asItWas }
    let table = TargetTable(try TableMapping(last.schema, to: .sqlite), state: .init(), database: database)
    let form = SQLiteForm(table)
    let key = candidate.row.key.columns.map(\.value)
    let names = table.schema.columns.map(\.name)
    let versions = try stored.filter { try form.isSame(key, form.key($0)) }.map(form.version)
    guard !versions.isEmpty else { return .asItWas }
    let settled = try SettledRow(
      versions, local: candidate.values(names), try desk.rules(table.schema.plainName, names), columns: names
    ) { try desk.counts($0, of: candidate.row.name, in: table.schema) }
    guard let row = settled.outcome else { return .gone }
    let renewed = Candidate(
      table.schema, key: key, row: row, stamp: try settled.stamp ?? desk.lastStamp(candidate.row.keyed))
    return renewed.row.row == candidate.row.row && renewed.stamp == candidate.stamp ? .asItWas : .later(renewed)
  }
}
