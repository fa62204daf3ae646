import Changes
import Conflicts
import Mapping
import PostgresKit
import SystemKit
import Versions

// Two-way: rows that somebody else has written to as well.
extension PostgresReplay {
  typealias Desk = TwoWayDesk<MappedTable>
  /// So many are in memory while rows are looked through.
  private static let keysMax = 1000

  /// What tables that wait still lack counts as known to nobody.
  func holdWindow() {
    desk?.shared.hold(name, through: heldThrough)
  }

  func inform(_ desk: Desk) throws {
    try desk.lookAtKeys { try MappedTable.alternates(connection) }
    try desk.shared.window.catchUp(rowNames: desk.names.namesAndReferences)
    if desk.learnColumns() { forgetShapes() }
    desk.inform(watchesRows: true)
  }

  /// Before the commit, with all rows locked that were written: whoever wrote to them before has committed. What they did
  /// is looked for, once capture has it.
  func checkDesk(_ desk: Desk, _ stop: StopSignal) throws {
    if let committed = try rowsPassed(desk, stop) { try desk.check(committed: committed) }
    desk.shared.noteCaptured()
  }

  /// Locks the rows of a transaction that applications have overtaken, before its first change, and reads what they
  /// committed to these rows. No session writes to the rows until the commit, so most changes can be sent as usual.
  func lockRows(_ desk: Desk, _ stop: StopSignal) throws {
    try sink.settle()
    var batches: [NameKey: (table: MappedTable, keys: Set<[Value]>)] = [:]
    var tables: [(schema: TableSchema, table: MappedTable?)] = []
    var count = 0
    func send() throws {
      for (table, keys) in batches.values { try table.lock(keys, connection) }
      batches.removeAll()
    }
    try desk.forEachChange { schema, change in
      count += 1
      if count % 1024 == 0, stop.isSet { throw PostgresApply.Stopped() }
      let place = tables.lastIndex { $0.schema == schema } ?? tables.count
      if place == tables.count { tables.append((schema, try tableToLock(like: schema, desk))) }
      guard let table = tables[place].table else { return }
      let form = PostgresForm(table: table, names: options.names)
      for row in [try change.before?.values(), try change.after?.values()] {
        guard let row, let key = try form.key(row, of: schema) else { continue }
        batches[table.stateKey, default: (table, [])].keys.insert(key)
      }
      if batches[table.stateKey]?.keys.count ?? 0 >= Self.keysMax { try send() }
    }
    try send()
    if let committed = try rowsPassed(desk, stop) { try desk.check(committed: committed) }
    desk.noteLocks()
  }

  /// The table whose rows are locked for changes of this shape; nil if there is none that goes both ways.
  private func tableToLock(like schema: TableSchema, _ desk: Desk) throws -> MappedTable? {
    guard let key = scope.key(schema.sourceKey), let known = tables[key],
      options.goesBothWays(known.schema, known.name)
    else { return nil }
    if let table = openTable(key, given: schema) { return table.isWholeRow ? nil : table }
    let part = desk.part(of: schema) ?? .init(schema)
    let mapped = try TableMapping(part.schema, to: .postgres, names: options.names).target
    guard let target = try PostgresTargetTable.read(known.schema, known.name, connection) else { return nil }
    let kept = mapped.columns.indices.filter { target.column(mapped.columns[$0].name) != nil }
    guard part.schema.key.allSatisfy(kept.contains) else { return nil }
    let table = MappedTable(
      key: key, given: schema, part: .init(part.schema.keeping(kept), kept.map { part.positions[$0] }),
      mapped: mapped.keeping(kept), target: target, state: known, number: 0)
    return table.isWholeRow ? nil : table
  }

  /// Waits until capture has passed what programs have committed, and reads it: the rows of it; nil: there was nothing to
  /// wait for.
  private func rowsPassed(_ desk: Desk, _ stop: StopSignal) throws -> Set<RowName>? {
    guard case .stream(let capture) = desk.shared.local else { return nil }
    try sink.settle()
    let now = try moment()
    if let now, desk.shared.quiet.withLock({ $0.isQuiet(at: now, own: transaction) }) { return nil }
    guard let answer = try capture.pass(stop, true) else {
      if stop.isSet { throw PostgresApply.Stopped() }
      throw LocalAhead()
    }
    let committed = try rowsCommitted(desk)
    if let now, case .passed(let passed) = answer {
      desk.shared.quiet.withLock { $0.pass(now, message: passed.message, own: transaction) }
    }
    return committed
  }

  /// Before the commit of a group that changes no rows.
  func noteQuiet(_ desk: Desk) throws {
    guard case .stream = desk.shared.local else { return }
    try sink.settle()
    _ = try moment()
    if let transaction { desk.shared.quiet.withLock { $0.note(ours: transaction) } }
  }

  /// Which transactions of the server have ended. Learns which is the one under way.
  private func moment() throws -> ServerMoment? {
    let row = try connection.query("SELECT pg_current_snapshot(), pg_current_xact_id_if_assigned()").first
    transaction = row?[1].flatMap { UInt64($0) }
    return row?[0].flatMap { ServerMoment($0) }
  }

  /// When a group that has been rolled back was not as the target has it: whether that is for what programs did meanwhile,
  /// which throws ``LocalAhead``. Programs that waited for locked rows have written to them by now, which says nothing.
  func checkOvertaken(_ desk: Desk, _ stop: StopSignal) throws {
    guard !desk.hasLocked, case .stream(let capture) = desk.shared.local else { return }
    guard try capture.pass(stop, false) != nil else { throw PostgresApply.Stopped() }
    try desk.check(committed: rowsCommitted(desk))
  }

  /// Those that the own trail has now, and had not when it was read last.
  private func rowsCommitted(_ desk: Desk) throws -> Set<RowName> {
    var committed: Set<RowName> = []
    try desk.shared.window.catchUp { schema, change in
      let rows = try desk.names.namesAndReferences(schema, change)
      committed.formUnion(rows)
      return rows
    }
    return committed
  }

  /// Whether a change is settled when its transaction ends.
  func defers(_ change: ChangeView, _ table: MappedTable) throws -> Bool {
    guard let desk, table.goesBothWays, change.operation != .truncate, let schema = reader.given(change.schemaID) else {
      return false
    }
    let names = table.columns.map(\.name)
    if table.takesRowsIn == nil { table.summed = try desk.summed(table.mapped.plainName, names, in: schema) }
    let takesRowsIn = try table.takesRowsIn ?? desk.takesRowsIn(table.mapped.plainName, names)
    table.takesRowsIn = takesRowsIn
    try Desk.checkSums(change, schema, table.summed)
    return try desk.defers(
      change, schema, table, isReferenced: !referrers(of: table).isEmpty, takesRowsIn: takesRowsIn,
      mayWait: hasCandidates && table.isContested && isLenient(table))
  }

  /// Whether a row that a copy brings gives way to what was written here.
  func keepsOwn(_ id: UInt64, _ image: ImageView, _ table: MappedTable) throws -> Bool {
    guard let desk, table.goesBothWays, let schema = reader.given(id) else { return false }
    guard let row = try desk.names.keyed(schema, image), let copied = try desk.names.copied(schema, image) else {
      throw Desk.keyless(schema)
    }
    return try desk.keeps(row, copied: copied)
  }

  /// Removes rows of the target, but for those of which the author of the copy does not know what was done to them here.
  func removeKnown(_ rows: (condition: String, values: [String?]), _ table: MappedTable, _ desk: Desk) throws {
    let form = PostgresForm(table: table, names: options.names)
    // A cursor has the rows that were there when it was opened, whatever becomes of them.
    try connection.run("DECLARE cairn_known NO SCROLL CURSOR FOR \(table.keysText)\(rows.condition)", rows.values)
    var keys: [[Value]]
    repeat {
      keys = try connection.query("FETCH \(Self.keysMax) FROM cairn_known").map(form.row)
      for row in keys {
        guard let keyed = desk.names.keyed(table.mapped, row), let copied = desk.names.copied(table.mapped, row),
          try !desk.keepsUnmentioned(keyed, copied: copied)
        else { continue }
        try table.put(nil, table.key.map { row[$0] }, connection)
      }
    } while keys.count == Self.keysMax
    try connection.execute("CLOSE cairn_known")
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
      if count % 256 == 0, stop.isSet { throw PostgresApply.Stopped() }
      let row = try wide(narrow)
      let form = PostgresForm(table: row.table, names: options.names)
      let key = try form.key(row.version)
      let waiting = try takeCandidate(row.table, key)
      var settled = try settle(row, key, waiting, form, desk)
      if row.version.after == nil, settled.row != nil {
        settled = try settle(whole(row, key, form, desk), key, waiting, form, desk)
      }
      try desk.checkStops(settled, row.table.mapped, key)
      let records = settled.records(
        desk.place, of: name, row.table.mapped, key: key, now: clock.microseconds(),
        isAhead: desk.mayDiffer || narrow.table.state.refreshing != nil)
      for record in records { try log(record) }
      try desk.note(row)
      try note(settled, row.table.mapped, key, desk)
      guard let outcome = settled.outcome else {
        // Rows that go make room for the unique values of others before those are put in place.
        try sink.settle()
        if try !desk.isAhead && !referrers(of: row.table).isEmpty, let there = try row.table.row(key, connection) {
          let texts = there.map { text in text.map { Value.text(Array($0.utf8)) } ?? .null }
          try gone.append(GoneRow(index: index, key: key, there: texts))
        }
        _ = self.held.take(key: key.map(\.postgresInput), of: row.table)
        try put(nil, key, row.table)
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
      let row = try wide(try desk.row(one.index))
      // The row may have waited for another one: what is not written to it now stays as it was meant.
      if let waiting = self.held.take(key: one.key.map(\.postgresInput), of: row.table) {
        let meant = PostgresForm(table: waiting.table, names: options.names).row(waiting.values)
        one.put = one.put.map { $0.enumerated().map { $1 ?? ($0 < meant.count ? meant[$0] : nil) } }
      }
      try put((one.put, one.outcome, row.table), one.key, one.stamp ?? desk.lastStamp(row), held: &held)
    }
    try judge(&held)
    try keepReferred(gone, desk, held: &held)
    try bringBackNeeded(desk, held: &held)
    try judge(&held)
    desk.endTransaction()
  }

  private func wide(_ row: Desk.Row) throws -> Desk.Row { try row.with(wide(row.table)) }

  /// Puts a row in place, or lets it wait where another one has a unique value of its. `outcome`: all of it, nil: it goes; `stamp`: of the
  /// last that was written to it.
  private func put(
    _ row: (put: RowVersion.Row?, outcome: [Value?]?, table: MappedTable), _ key: [Value],
    _ stamp: @autoclosure () throws -> Stamp,
    held: inout [ContestedRow]
  ) throws {
    do { try put(row.put, key, row.table) } catch let error as PostgresError where error.isUniqueness {
      guard let outcome = row.outcome else { return }
      try put(nil, key, row.table)
      let waiting = Candidate(row.table.mapped, key: key, row: outcome, stamp: try stamp())
      let candidate = try desk?.ranked(waiting) ?? waiting
      try sink.attempt { try candidates.add(candidate) }
      held.append(candidate.row)
    } catch let error as PostgresError { throw refusal(row.table, error) }
  }

  private func judge(_ held: inout [ContestedRow]) throws {
    guard !held.isEmpty else { return }
    hasCandidates = true
    _ = try judgeCandidates(fresh: held + heldCopies)
    (held, heldCopies) = ([], [])
  }

  // MARK: Rows that others refer to

  /// Foreign keys of other tables that lead to a table.
  private func referrers(of table: MappedTable) throws -> [Reference] {
    if let referrers = table.referrers { return referrers }
    try sink.settle()
    let referrers = try sink.attempt { try table.lookUpReferrers(connection) }
    table.referrers = referrers
    return referrers
  }

  /// Those to which nobody refers when all of them have gone: the rows of a ring refer only to each other. The rest stays.
  private func keepReferred(_ gone: SpilledList<GoneRow>, _ desk: Desk, held: inout [ContestedRow]) throws {
    guard !gone.isEmpty else { return }
    try putBackReferred(gone, desk).forEach { one in
      let (row, key) = (try wide(desk.row(one.index)), one.key)
      let form = PostgresForm(table: row.table, names: options.names)
      guard let kept = try settle(whole(row, key, form, desk), key, nil, form, desk).living() else { return }
      try put((kept, kept, row.table), key, desk.lastStamp(row), held: &held)
      try log(SettledRow.returned(kept, desk.place, of: name, row.table.mapped, key: key, now: clock.microseconds()))
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
        let (referrers, there) = (try referrers(of: table), row.there.map(\.postgresInput))
        if try sink.attempt({ try table.isReferred(there, referrers, row.key, connection) }) {
          // If another row holds one of its unique values by now, the contest decides when the resolved row is written.
          do { try put(PostgresForm(table: table, names: options.names).row(there), row.key, table) } catch let error
            as PostgresError where error.isUniqueness
          {}
          try back.append(row)
        } else {
          try gone.append(row)
        }
      }
      isMoving = gone.count < open.count
    }
    return back
  }

  private func whole(_ row: Desk.Row, _ key: [Value], _ form: PostgresForm, _ desk: Desk) throws -> Desk.Row {
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
    guard let last = versions.last, let table = try sink.attempt({ try table(like: last.schema) }) else { return [] }
    let form = PostgresForm(table: table, names: options.names)
    let key = try form.key(last)
    try sink.settle()
    let local = try table.row(key, connection).map(form.row)
    let history = RowHistory(try versions.filter { try form.isSame(key, form.key($0)) }.map(form.version))
    if local != nil, !isReferred || !history.versions.contains(where: \.isDelete) { return [] }
    let names = table.columns.map(\.name)
    let rules = try desk.rules(table.mapped.plainName, names)
    let settled = try SettledRow.row(history, rules, columns: names) { version in
      try isReferred ? desk.counts(version, of: name, in: table.mapped) : !version.isDelete
    }
    guard let row = settled, !row.isAll(of: local) else { return [] }
    try SettledRow.checkWhole(row, history.versions.last(where: \.isDelete)?.stamp, table.mapped, key)
    try put((row, row, table), key, desk.lastStamp(keyed), held: &held)
    try log(
      SettledRow.returned(
        row, local: local, desk.place, of: self.name, table.mapped, key: key, now: clock.microseconds()))
    return try desk.names.parents(last.schema, last.after ?? last.before ?? []).flatMap { try desk.rows(of: $0) }
  }

  func put(_ row: RowVersion.Row?, _ key: [Value], _ table: MappedTable) throws {
    if let row, table.mayCollide {
      try sink.attempt { try table.put(row, key, connection) }
    } else {
      try sink.settle()
      guard let row else { return try table.put(nil, key, connection) }
      let isThere: Bool
      do { isThere = try table.update(row, key, connection) } catch let error as PostgresError where error.isUniqueness
      {
        throw refusal(table, error)
      }
      if !isThere { try sink.attempt { try table.insert(row, connection) } }
    }
    guard let row, !table.uncheckedIndexes.isEmpty else { return }
    after.assign(row.map { $0.flatMap(\.postgresInput) })
    unchecked.note(table, after)
  }

  /// `waiting`: the row as it is where it waits for a unique value.
  private func settle(
    _ row: Desk.Row, _ key: [Value], _ waiting: [Value]?, _ form: PostgresForm, _ desk: Desk
  ) throws -> SettledRow {
    let incoming = try form.version(row.version)
    let others = try settledBefore.others(row.name, key, in: row.table, beside: incoming, desk, isSame: form.isSame) {
      try desk.read(row.name, $0).map { (try form.key($0), try form.version($0)) }
    }
    let names = row.table.columns.map(\.name)
    try sink.settle()
    let local = try row.table.row(key, connection)
    let table = row.table.mapped.plainName
    return try SettledRow(
      others + [incoming], local: local.map(form.row) ?? waiting, try desk.rules(table, names),
      deciding: try desk.decidingRules(table, names), columns: names,
      function: { [sink, connection] name, rows in
        try sink.attempt { try SettlingFunction(name, row.table, connection).row(rows) }
      }
    ) { try desk.counts($0, of: row.name, in: row.table.mapped) }
  }

  /// What this node decides of a row: behind the commit, so that it follows what was applied.
  private func note(_ row: SettledRow, _ table: TableSchema, _ key: [Value], _ desk: Desk) throws {
    let decisions = PostgresDecisions(connection: connection)
    if let decision = row.openDecision(table, key: key) {
      try sink.attempt { try decisions.note(decision, keepsEarlier: row.isKept) }
      desk.shared.mayHaveDecisions = true
    } else if desk.shared.mayHaveDecisions, !row.isKept {
      let key = ConflictRow(table.key.map { table.columns[$0].name }, key)
      try sink.attempt { try decisions.forget(table.namespace, table.name, key) }
    }
  }

  func log(_ record: ConflictRecord) throws {
    try sink.queue(own.noteConflict, PostgresConflictLog.parameters(record))
    conflicts += 1
  }

  /// Before the commit of a group with conflicts.
  func pruneConflicts() throws {
    guard conflicts > 0, let before = pruning.due(clock) else { return }
    try sink.settle()
    _ = try PostgresConflictLog(connection).prune(before: before)
  }

  // MARK: Two rows that cannot both be

  var candidates: PostgresCandidates {
    PostgresCandidates(connection) { [sink] body in try sink.attempt(body) }
  }

  var hasCandidates: Bool {
    get { desk?.shared.mayHaveCandidates ?? false }
    set { desk?.shared.mayHaveCandidates = newValue }
  }

  /// What the row is that waits, which it does no longer; nil: none does.
  private func takeCandidate(_ table: MappedTable, _ key: [Value]) throws -> [Value]? {
    guard hasCandidates else { return nil }
    let (schema, names) = (table.mapped, table.mapped.columns.map(\.name))
    try sink.settle()
    guard let found = try candidates.find(schema.namespace, schema.name, ConflictRow(schema.key.map { names[$0] }, key))
    else { return nil }
    try candidates.remove(found.row)
    return found.values(names)
  }

  /// A program may have made room for a row that waits for a unique value. In a transaction of its own.
  func lookAtCandidates(_ stop: StopSignal) throws {
    guard let desk, hasCandidates else { return }
    try sink.settle()
    desk.shared.note(waiting: try candidates.counts())
    guard hasCandidates else { return }
    desk.beginGroup()
    try inform(desk)
    let note = AppliedNote(trail: name.description, number: 0, clock: 0, position: position)
    try connection.execute(own.begin.sql)
    do {
      // By this, capture knows the transaction as one of ours.
      try connection.query(own.message.sql, [note.text])
      let isChanged = try judgeCandidates()
      if isChanged { try checkDesk(desk, stop) }
      try connection.execute(isChanged ? "COMMIT" : "ROLLBACK")
      desk.noteCandidates()
    } catch {
      connection.rollback()
      throw error
    }
  }

  /// Inside of a transaction at the target, when all that was sent has been answered; true when anything changed.
  /// `fresh`: rows that came just now.
  func judgeCandidates(fresh: [ContestedRow] = []) throws -> Bool {
    guard let desk else { return false }
    try sink.settle()
    let contest = CandidateContest(
      candidates, fresh: fresh,
      .init(
        renew: { try self.renewed($0, desk) }, ranked: desk.ranked,
        lastWrite: { try desk.rank(of: $0, isNew: $1, isMerged: self.isMerged($0)) },
        noteReturn: desk.noteReturn(of:),
        log: { row, other, stamp, isOurs in
          try self.log(
            row.record(against: other, stamp, isOurs: isOurs, desk.place, of: self.name, now: self.clock.microseconds())
          )
          try self.sink.settle()
        }))
    let isChanged = try contest.judge()
    desk.candidatesLeft = try candidates.counts()
    return isChanged
  }

  /// Whether what copies bring to its table joins what is there.
  private func isMerged(_ row: ContestedRow) -> Bool {
    tables.values.contains { $0.schema == row.namespace && $0.name == row.table && $0.existing != .overwrite }
  }

  /// A row that waits may have been written again meanwhile.
  private func renewed(_ candidate: Candidate, _ desk: Desk) throws -> CandidateContest<PostgresCandidates>.Renewal {
    guard let stored = try desk.versions(of: candidate) else { return .open }
    guard let last = stored.last, let table = try sink.attempt({ try table(like: last.schema) }) else {
      return .asItWas
    }
    let form = PostgresForm(table: table, names: options.names)
    let key = candidate.row.key.columns.map(\.value)
    let names = table.columns.map(\.name)
    let versions = try stored.filter { try form.isSame(key, form.key($0)) }.map(form.version)
    guard !versions.isEmpty else { return .asItWas }
    let settled = try SettledRow(
      versions, local: candidate.values(names), try desk.rules(table.mapped.plainName, names), columns: names
    ) { try desk.counts($0, of: candidate.row.name, in: table.mapped) }
    guard let row = settled.outcome else { return .gone }
    let renewed = Candidate(
      table.mapped, key: key, row: row, stamp: try settled.stamp ?? desk.lastStamp(candidate.row.keyed))
    return renewed.row.row == candidate.row.row && renewed.stamp == candidate.stamp ? .asItWas : .later(renewed)
  }
}
