import Changes
import Mapping
import SQLiteKit
import SystemKit
import Trails

/// Applies a trail to an SQLite file: whole transactions, in order, with the checkpoint in the same commit.
///
/// One blocking worker on one thread. Small transactions share a commit. A row that is not as the trail says it must be
/// stops apply with an error that names it; nothing of its transaction stays.
package final class SQLiteApply {
  package typealias Options = ApplyOptions

  private let folder: String
  private let name: TrailName
  private let options: Options
  private let clock: Clock
  private let progress: ApplyProgress
  private let database: Database
  /// SQLite would alter text that is not valid UTF-8 when it converts it.
  private let isUTF16: Bool
  private let state: TargetState
  private let shape: TargetShape
  private let reader: TrailReader

  private var checkpoint: Checkpoint?
  private var number: UInt64
  private var tables: [String: TargetState.Table] = [:]
  private var bySchema: [UInt64: TargetTable] = [:]
  private var segment: UInt64 = 0
  /// The table and range into which refresh rows go.
  private var copying: TargetTable?
  private var copied: UInt64 = 0
  private var purgedBelow: UInt64 = 0
  private var early = EarlyUpdates()
  private var held = HeldRows()
  private var before: [ColumnView] = []
  private var after: [ColumnView] = []
  /// Values that were made from those of another engine, of the row before and the row after.
  private var madeBefore = ByteWriter(capacity: 256)
  private var madeAfter = ByteWriter(capacity: 256)

  /// Opens target and trail; creates the target's file when there is none. Errors: what ``SQLiteError`` maps to;
  /// `checkpoint-foreign` when the target was fed from another trail, or needs what the trail no longer has.
  package init(
    path: String, trail folder: String, name: TrailName, options: Options, clock: Clock = .system,
    progress: ApplyProgress = .init()
  ) throws {
    (self.folder, self.name, self.options, self.clock, self.progress) = (folder, name, options, clock, progress)
    let isNew = !Folder.exists(path)
    database = try Database(path: path, mode: .create)
    if isNew { try database.execute("PRAGMA journal_mode = WAL") }
    // The checkpoint must never be less durable than the trail's purge believes.
    let isWAL = try database.text("PRAGMA journal_mode") == "wal"
    try database.execute(
      "PRAGMA synchronous = \(isWAL ? "FULL" : "EXTRA"); PRAGMA foreign_keys = OFF; PRAGMA recursive_triggers = OFF; "
        + "PRAGMA cache_size = -16384; PRAGMA wal_autocheckpoint = 4000")
    database.setTriggersEnabled(false)
    isUTF16 = try database.text("PRAGMA encoding") != "UTF-8"
    state = TargetState(database)
    shape = TargetShape(database: database)
    let (state, database) = (state, database)
    try database.transaction { try state.isInstalled() ? state.upgrade() : state.install() }
    let stored = try state.checkpoint(of: name)
    checkpoint = stored?.checkpoint
    number = stored?.number ?? 0
    reader = try TrailReader.open(folder: folder, at: checkpoint)
    tables = try state.tables()
  }

  // MARK: The loop

  /// Applies until `stop` is set, which is seen within a second, or at once when `drain` is set with it; once `drain` is
  /// set, until the trail's end is reached.
  package func run(stop: StopSignal, drain: StopSignal) throws {
    while !stop.isSet {
      // Asked before the trail is read: what was appended before `drain` was set is still found.
      let isLast = drain.isSet
      if try applyAvailable(stop) { continue }
      progress.update { $0.isCaughtUp = true }
      if isLast { return }
      _ = try reader.wait(milliseconds: drain.isSet ? 0 : 1000, also: drain.descriptor)
    }
  }

  /// Applies what is there as one commit; false when nothing is.
  private func applyAvailable(_ stop: StopSignal) throws -> Bool {
    guard var record = try reader.next() else { return false }
    guard try beginPatiently(stop) else { return true }
    let begun = Clock.monotonicMilliseconds
    var rows = 0
    var last = TransactionHeader(commitTime: 0)
    do {
      while true {
        switch record {
        case .begin(let header): last = header
        case .commit(let number, let changes):
          rows += Int(changes)
          self.number = number
          try early.checkEmpty()
          if !held.isEmpty { try settleHeld() }
          let isDue = rows >= options.commitRows || Clock.monotonicMilliseconds - begun > options.commitMilliseconds
          if !isDue, let following = try reader.next() {
            record = following
            continue
          }
          try commit(last, rows: rows)
          return true
        default: try apply(record)
        }
        guard let following = try reader.next() else {
          throw CairnError(
            .trailDamaged, "trail \(name) ends inside of transaction \(last.number)",
            hint: "run 'cairn trail verify \(name)'", remedy: .bug)
        }
        record = following
      }
    } catch {
      early.removeAll()
      held.removeAll()
      if database.isInTransaction { try? database.execute("ROLLBACK") }
      throw error
    }
  }

  /// False when `stop` was set before the lock was ours.
  private func beginPatiently(_ stop: StopSignal) throws -> Bool {
    database.setBusyTimeout(milliseconds: 200)
    defer { database.setBusyTimeout(milliseconds: 10_000) }
    while !stop.isSet {
      do {
        try database.execute("BEGIN IMMEDIATE")
        progress.update { $0.isWaitingForLock = false }
        return true
      } catch let error as SQLiteError where error.isBusy {
        // Somebody's long transaction: it is told, and waited for.
        progress.update { $0.isWaitingForLock = true }
      }
    }
    return false
  }

  private func commit(_ last: TransactionHeader, rows: Int) throws {
    let reached = reader.checkpoint
    let now = clock.microseconds()
    try state.move(name, from: checkpoint, to: reached, number: number, now: now)
    try database.execute("COMMIT")
    checkpoint = reached
    progress.update {
      $0.rows += UInt64(rows)
      $0.transactions = number
      $0.lastCommitTime = last.commitTime
      $0.lagMicroseconds = clock.microseconds() - last.commitTime
      $0.position = reached.position
      $0.copying = copying.map { ($0.schema.name, copied, estimated) }
      $0.tablesCopied = tablesCopied
      $0.isCaughtUp = false
    }
    if options.purgesTrail, reached.position.segment > purgedBelow {
      purgedBelow = reached.position.segment
      _ = try Trail.purge(folder: folder, below: reached.position)
    }
  }

  private var estimated: UInt64 = 0
  private var tablesCopied = 0

  // MARK: Records

  private func apply(_ record: Record) throws {
    switch record {
    case .change(let change): try apply(change)
    case .refreshRow(let id, let image):
      let table = try table(id)
      if table.state.isAwaited { return }
      before.removeAll(keepingCapacity: true)
      try decode(image, into: &after, &madeAfter, table)
      _ = try write(table) { try table.insert(after, insertion(of: table, isCopy: true)) }
      copied += 1
    case .refresh(let refresh): try apply(refresh)
    case .ddl(let ddl): try apply(ddl)
    case .schema(let id, _): if reader.position.segment == segment { bySchema[id] = nil }
    case .begin, .commit, .progress, .marker, .sequence: break
    case .reserved(let kind, _):
      throw CairnError(
        .trailVersion, "record kind \(kind) at \(reader.position) of trail \(name) cannot be applied by this version",
        hint: "use a newer cairn")
    }
  }

  /// The table for a schema id, which counts within a segment.
  private func table(_ id: UInt64) throws -> TargetTable {
    if reader.position.segment != segment {
      segment = reader.position.segment
      bySchema.removeAll(keepingCapacity: true)
    }
    if let table = bySchema[id] { return table }
    let mapping = try mapping(id)
    var known = tables[mapping.target.name.lowercased()] ?? .init()
    try claim(&known, for: mapping)
    let table = TargetTable(mapping, state: known, database: database)
    bySchema[id] = table
    return table
  }

  private func mapping(_ id: UInt64) throws -> TableMapping { try TableMapping(try schema(id), to: .sqlite) }

  /// Two tables of PostgreSQL may have one name here: it belongs to the first.
  private func claim(_ known: inout TargetState.Table, for mapping: TableMapping) throws {
    guard mapping.source.engine == .postgres else { return }
    let name = mapping.source.fullName
    guard known.source.isEmpty || known.source == name else {
      throw TableMapping.collision(known.source, name, at: mapping.target.name)
    }
    known.source = name
  }

  private func schema(_ id: UInt64) throws -> TableSchema {
    guard let schema = reader.schema(id) else {
      throw CairnError(
        .trailDamaged, "schema \(id) at \(reader.position) of trail \(name) is not in its segment",
        hint: "run 'cairn trail verify \(name)'")
    }
    return schema
  }

  private func decode(
    _ image: ImageView, into columns: inout [ColumnView], _ made: inout ByteWriter, _ table: TargetTable
  ) throws {
    columns.removeAll(keepingCapacity: true)
    var reader = ByteReader(image.bytes)
    while !reader.isAtEnd { columns.append(try reader.readColumn()) }
    if isUTF16 { try checkUTF8(columns, table) }
    guard columns.count == table.schema.columns.count else {
      throw CairnError(
        .trailDamaged,
        "an image at \(self.reader.position) of trail \(name) has \(columns.count) columns, not \(table.schema.columns.count)",
        hint: "run 'cairn trail verify \(name)'")
    }
    if let converters = table.converters { try convert(&columns, converters, &made, image.bytes.count, table) }
  }

  /// Turns the values of another engine into those that SQLite keeps.
  private func convert(
    _ columns: inout [ColumnView], _ converters: [SQLiteValue], _ made: inout ByteWriter, _ bytes: Int,
    _ table: TargetTable
  ) throws {
    made.removeAll()
    made.shrink(above: 1 << 20)
    made.reserve(bytes)
    for (index, converter) in converters.enumerated() {
      do throws(Misfit) { columns[index] = try converter.convert(columns[index], scratch: &made) } catch {
        let shown = columns[index].value?.shown ?? "?"
        throw CairnError(
          .valueMisfit,
          "table \(table.schema.name), column \(table.schema.columns[index].name): \(shown) cannot be kept: \(error.reason) (trail \(name) at \(reader.position))",
          hint: "run 'cairn trail verify \(name)'", context: ["table": table.schema.name])
      }
    }
  }

  private func checkUTF8(_ columns: [ColumnView], _ table: TargetTable) throws {
    for (index, column) in columns.enumerated() {
      guard case .text(let bytes) = column, String(validating: bytes, as: UTF8.self) == nil else { continue }
      throw CairnError(
        .constraintFailed,
        "table \(table.schema.name), row \(describeKey(table, columns)): column \(table.schema.columns[index].name) holds text that is not valid UTF-8, which the UTF-16 database \(database.path) cannot keep (trail \(name) at \(reader.position))",
        hint: "replicate into a UTF-8 database, or mend the text at the source and copy again",
        context: ["table": table.schema.name])
    }
  }

  private func insertion(of table: TargetTable, isCopy: Bool) -> TargetTable.Insertion {
    if table.schema.flags.contains(.wholeRow) { return .strict }
    // What is sent row by row is to be as the source has it.
    if isCopy, table.state.refreshing == .rows { return .replacing }
    switch table.state.existing {
    case .keep: return .keeping
    case .merge: return .merging
    case .overwrite: return isCopy || isLenient(table) ? .replacing : .strict
    }
  }

  private func isLenient(_ table: TargetTable) -> Bool {
    table.state.refreshing != nil || table.state.existing != .overwrite || table.schema.flags.contains(.partitioned)
  }

  private func apply(_ change: ChangeView) throws {
    let table = try table(change.schemaID)
    if table.state.isAwaited { return }
    before.removeAll(keepingCapacity: true)
    after.removeAll(keepingCapacity: true)
    if let image = change.before { try decode(image, into: &before, &madeBefore, table) }
    if let image = change.after { try decode(image, into: &after, &madeAfter, table) }
    let isLenient = isLenient(table)
    if table.converters != nil { return try applyMapped(change, table, isLenient: isLenient) }
    switch change.operation {
    case .insert:
      _ = try write(table) { try table.insert(after, insertion(of: table, isCopy: false)) }
      if !early.isEmpty, let image = change.after { try settle(table, image.bytes) }
    case .delete:
      let isExpected = !isLenient && !change.flags.contains(.implied)
      let touched = try write(table) { try table.delete(before, isChecked: isExpected) }
      if touched != 1, isExpected { throw unexpected(table, "deleted") }
    case .update:
      let touched = try write(table) { try table.update(before, after, isChecked: !isLenient) }
      if touched == 1 {
        if !early.isEmpty { try settleUpdated(table) }
        return
      }
      guard isLenient else {
        let error = unexpected(table, "updated")
        guard error.code == .rowMissing, let old = change.before, let new = change.after else { throw error }
        let update = EarlyUpdates.Update(before: Array(old.bytes), after: Array(new.bytes), error: error)
        return try early.add(update, table: table.schema.name)
      }
      for (index, column) in after.enumerated() where column.isUnchanged { after[index] = before[index] }
      _ = try write(table) { try table.insert(after, insertion(of: table, isCopy: true)) }
    case .truncate: try table.deleteAll()
    }
  }

  // MARK: Changes of PostgreSQL

  /// A change as PostgreSQL gives it: perhaps without the row before, perhaps with columns that it does not repeat, and
  /// in an order of which only the end keeps to unique keys.
  private func applyMapped(_ change: ChangeView, _ table: TargetTable, isLenient: Bool) throws {
    switch change.operation {
    case .insert:
      let insertion = insertion(of: table, isCopy: false)
      try writeOrHold(table, after: { after.map { $0.value ?? .null } }) { try table.insert(after, insertion) }
    case .delete:
      let touched = try write(table) { try table.delete(before, isChecked: !isLenient) }
      guard touched != 1, !isLenient, held.take(before, of: table) == nil else { return }
      throw unexpected(table, "deleted")
    case .update:
      if before.isEmpty { before = Array(repeating: .unchanged, count: after.count) }
      for index in table.schema.key where before[index].isUnchanged { before[index] = after[index] }
      let touched = try writeOrHold(table, after: { try takeOut(table) }) {
        try table.update(before, after, isChecked: !isLenient)
      }
      guard touched == 0 else { return }
      if !isLenient {
        guard let row = held.take(before, of: table) else { throw unexpected(table, "updated") }
        return try write(held: .init(table: table, values: merged(row.values), error: row.error))
      }
      for (index, column) in after.enumerated() where column.isUnchanged { after[index] = before[index] }
      // What the source did not repeat is not known here: the chunk that holds the row brings it.
      if after.contains(where: \.isUnchanged) { return }
      _ = try write(table) { try table.insert(after, insertion(of: table, isCopy: true)) }
    case .truncate:
      held.forget(table)
      try table.deleteAll()
    }
  }

  /// Runs a write; where a unique key of the target is in its way, the row that it should have made waits.
  @discardableResult
  private func writeOrHold(_ table: TargetTable, after row: () throws -> [Value], _ body: () throws -> Int64) throws
    -> Int64
  {
    do { return try write(table, body) } catch let error as CairnError where error.code == .rowExists {
      guard !table.schema.flags.contains(.wholeRow) else { throw error }
      try hold(.init(table: table, values: try row(), error: error))
      return 1
    }
  }

  /// Takes the row that is to be updated out of the target; what it becomes.
  private func takeOut(_ table: TargetTable) throws -> [Value] {
    guard let found = try table.probe(before), try table.delete(before, isChecked: false) == 1 else {
      throw unexpected(table, "updated")
    }
    return merged(found)
  }

  private func merged(_ row: [Value]) -> [Value] { zip(row, after).map { $1.value ?? $0 } }

  private func hold(_ row: HeldRows.Row) throws {
    if held.isFull { try held.settle(insertHeld) }
    try held.add(row)
  }

  private func write(held row: HeldRows.Row) throws { if try !insertHeld(row) { try hold(row) } }

  private func insertHeld(_ row: HeldRows.Row) throws -> Bool {
    do { return try row.table.insert(row.values) == 1 } catch let error as SQLiteError where error.isUniqueness {
      return false
    }
  }

  private func settleHeld() throws {
    try held.settle(insertHeld)
    try held.checkEmpty()
  }

  // MARK: Changes out of order

  /// Makes the updates that waited for the row that `image` shows.
  private func settle(_ table: TargetTable, _ image: UnsafeRawBufferPointer) throws {
    guard let update = early.take(table: table.schema.name, image: image) else { return }
    try update.before.withUnsafeBytes { old in
      try update.after.withUnsafeBytes { new in
        try decode(ImageView(bytes: old), into: &before, &madeBefore, table)
        try decode(ImageView(bytes: new), into: &after, &madeAfter, table)
        guard try write(table, { try table.update(before, after, isChecked: true) }) == 1 else { throw update.error }
        try settleUpdated(table)
      }
    }
  }

  private func settleUpdated(_ table: TargetTable) throws {
    guard !early.isEmpty else { return }
    var image = ByteWriter(capacity: 256)
    for (old, new) in zip(before, after) { image.append((new.isUnchanged ? old : new).value) }
    try settle(table, image.bytes)
  }

  /// Runs a write; a constraint that refuses it becomes an error that names the row.
  private func write(_ table: TargetTable, _ body: () throws -> Int64) throws -> Int64 {
    do { return try body() } catch let error as SQLiteError where error.isConstraint {
      throw refused(table, error)
    }
  }

  // MARK: Refresh

  private func apply(_ refresh: Refresh) throws {
    let table = try table(refresh.schemaID)
    let name = table.schema.name
    switch refresh.event {
    // Of a copy that was given up for the one that is awaited.
    case _ where table.state.isAwaited && !refresh.isStart(behind: options.askedBehind, in: number + 1): break
    case .start(let reason, let method, let rows):
      var known = tables[name.lowercased()] ?? .init()
      if reason == .firstCopy, !known.isCreated { known.existing = options.existing }
      if reason == .asked { known.existing = .overwrite }
      (known.refreshing, known.isAwaited) = (method, false)
      known.source = table.state.source
      try save(name, known)
      let table = try self.table(refresh.schemaID)
      if method == .whole {
        if known.existing != .overwrite, try database.integer("SELECT 1 FROM \(name.quotedName) LIMIT 1") != nil {
          throw CairnError(
            .targetDiffers,
            "table \(name) has no key, so its rows cannot be told apart to \(known.existing.rawValue) them",
            hint: "empty it at the target, or use --existing overwrite", context: ["table": name])
        }
        try table.deleteAll()
      }
      // Ranges of keys that sort in another way here cannot be emptied one by one.
      if method == .byKey, known.existing == .overwrite, !table.sortsAsSource { try table.deleteAll() }
      (copying, copied, estimated) = (table, 0, rows)
    case .chunk(let range):
      if copying?.schema != table.schema { (copying, copied, estimated) = (table, 0, 0) }
      switch range {
      case .row: try table.delete(range)
      case .some: break
      case .nullKeys, .keys, .unkeyed:
        if table.state.existing == .overwrite, table.sortsAsSource { try table.delete(range) }
      }
    case .end:
      var known = tables[name.lowercased()] ?? .init()
      if known.refreshing != .rows { tablesCopied += 1 }
      known.refreshing = nil
      try save(name, known)
      copying = nil
    }
  }

  private func save(_ name: String, _ table: TargetState.Table) throws {
    try state.save(name, table)
    tables[name.lowercased()] = table
    bySchema.removeAll(keepingCapacity: true)
  }

  // MARK: Schema

  private func apply(_ ddl: DDL) throws {
    if !held.isEmpty { try settleHeld() }
    let before = ddl.before == 0 ? nil : try mapping(ddl.before)
    let after = ddl.after == 0 ? nil : try mapping(ddl.after)
    let isCreated = before.flatMap { tables[$0.target.name.lowercased()]?.isCreated } ?? false
    switch (ddl.action, before, after) {
    case (.create, _, let after?):
      var known = TargetState.Table()
      let was = tables[after.target.name.lowercased()]
      known.source = was?.source ?? ""
      try claim(&known, for: after)
      known.isCreated = try shape.create(after)
      // A table that Cairn made at its first copy is still its own at a later one.
      if !known.isCreated, let was { known = was }
      if number < options.askedBehind { (known.refreshing, known.isAwaited) = (.byKey, true) }
      try claim(&known, for: after)
      try save(after.target.name, known)
      try saveOrigin(after)
    case (.drop, let before?, _):
      try shape.drop(before.target, isCreated: isCreated)
      try state.saveOrigin(before.target.name, nil)
      try forget(before.target.name)
    case (.rename, let before?, let after?):
      try shape.rename(before.target, after.target, isCreated: isCreated)
      if isCreated { try shape.syncIndexes(after.target, isRefreshed: false) }
      try move(before, after)
    case (.reshape, let before?, let after?):
      try shape.reshape(before, after, isCreated: isCreated, isRefreshed: ddl.isRefreshed)
      try move(before, after)
    default: break
    }
    bySchema.removeAll(keepingCapacity: true)
  }

  private func move(_ before: TableMapping, _ after: TableMapping) throws {
    if before.source.fullName != after.source.fullName {
      var known = tables[before.target.name.lowercased()] ?? .init()
      try state.saveOrigin(before.target.name, nil)
      try forget(before.target.name)
      known.source = ""
      try claim(&known, for: after)
      try save(after.target.name, known)
    }
    try saveOrigin(after)
  }

  /// Keeps what a table of ours was in PostgreSQL.
  private func saveOrigin(_ mapping: TableMapping) throws {
    guard tables[mapping.target.name.lowercased()]?.isCreated ?? false else { return }
    let source = mapping.source
    try state.saveOrigin(mapping.target.name, source.engine == .postgres ? source : source.original)
  }

  private func forget(_ name: String) throws {
    try state.forget(name)
    tables[name.lowercased()] = nil
    bySchema.removeAll(keepingCapacity: true)
  }

  // MARK: What is not as expected

  private func unexpected(_ table: TargetTable, _ what: String) -> CairnError {
    let key = describeKey(table, before)
    let context = ["table": table.schema.name, "key": key, "position": reader.position.description]
    let hint =
      "the target was written to by something else; run again with --existing overwrite to copy the source's rows again"
    guard let found = try? table.probe(before) else {
      return CairnError(
        .rowMissing,
        "table \(table.schema.name), row \(key): the source \(what) it, but the target \(database.path) does not have it (trail \(name) at \(reader.position))",
        hint: hint, context: context)
    }
    let index = zip(before, found).enumerated().first { pair in
      !pair.element.0.isUnchanged && pair.element.0.value != pair.element.1
    }?.offset
    let column = index.map { table.schema.columns[$0].name } ?? "?"
    return CairnError(
      .rowDiffers,
      "table \(table.schema.name), row \(key): the source \(what) it, but in the target \(database.path) its column \(column) is not what it was at the source (trail \(name) at \(reader.position))",
      hint: hint, context: context)
  }

  private func refused(_ table: TargetTable, _ error: SQLiteError) -> CairnError {
    let row = after.isEmpty ? before : after.enumerated().map { $1.isUnchanged && $0 < before.count ? before[$0] : $1 }
    let key = describeKey(table, row)
    let context = ["table": table.schema.name, "key": key, "position": reader.position.description]
    let place = "(trail \(name) at \(reader.position))"
    if error.isUniqueness {
      return CairnError(
        .rowExists,
        "table \(table.schema.name), row \(key): the target \(database.path) has a row with the same \(error.message.hasPrefix("UNIQUE constraint failed: ") ? String(error.message.dropFirst(26)) : "key") already \(place)",
        hint:
          "the target was written to by something else; run again with --existing overwrite to copy the source's rows again",
        context: context)
    }
    return CairnError(
      .constraintFailed,
      "table \(table.schema.name), row \(key): the target \(database.path) refuses it: \(error.message) \(place)",
      hint: "make the target's constraints those of the source, then run again", context: context)
  }

  private func describeKey(_ table: TargetTable, _ row: [ColumnView]) -> String {
    let shown = table.schema.key.isEmpty ? Array(table.schema.columns.indices.prefix(3)) : table.schema.key
    let parts = shown.filter { $0 < row.count }.map { index in
      "\(table.schema.columns[index].name)=\(row[index].value?.shown ?? "?")"
    }
    return parts.joined(separator: ", ") + (table.schema.key.isEmpty ? ", …" : "")
  }
}
