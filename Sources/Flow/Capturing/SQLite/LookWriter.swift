import Changes
import CodecKit
import SQLiteKit
import SystemKit
import Trails

/// Writes one reading of the source into the trail: journal rows, schema changes, requested rows and chunks. A
/// transaction of the trail ends before each applied note of the journal.
final class LookWriter {
  /// Rows of tables must be read, but capture lacks the lock that keeps two-way applies from writing.
  struct NeedsTurn: Error {}

  private struct Part {
    let readAt: Int64
    /// The checksum of all journal rows in the trail after the row that the source stores as the last captured one.
    var checksum: UInt32
    let look: SourcePosition.Look
    var next: SourcePosition
    var isOpen = false
    var requested = RequestedRows()
    /// Whether the reading may include rows that were written before Cairn's new triggers existed.
    var hasEarlyRows = false
    /// The room for definitions of tables at the begin of the open transaction, in bytes.
    var schemaRoom = 0
  }

  private let path: String
  private let source: Database
  private let journal: Journal
  private let trail: TrailWriter
  private let options: SQLiteCapture.Options
  private let clock: Clock
  private let progress: CaptureProgress

  private var history = LayoutHistory()
  var position: SourcePosition
  /// The journal row that the source stores as the last captured one, with the random number stored for it.
  private(set) var marked: SourcePosition.Mark
  /// The layout ids of tables whose rows a VACUUM may have renumbered.
  private(set) var doubtful: Set<Int64> = []
  var rowBytes = RowBytes()
  private var reader = JournalReader()
  private var refresher = TableRefresher()
  private var part: Part?
  /// The layouts whose requested refresh has begun in the trail.
  private var awaited: Set<Int64> = []
  /// The commit time of the next transaction whose end the journal has, µs since 1970; nil if there is none.
  private var nextCommit: Int64?
  /// The applied note that names the origin of the rows being read; nil if an application wrote these rows.
  private var relay: AppliedNote?
  private var stop = StopSignal()
  private var mayReadTables = true
  /// The columns, as `TABLE\nCOLUMN`, that were reported for ill-formed texts.
  private var illFormed: Set<NameKey> = []

  init(
    path: String, source: Database, journal: Journal, trail: TrailWriter, options: SQLiteCapture.Options, clock: Clock,
    progress: CaptureProgress, position: SourcePosition
  ) {
    (self.path, self.source, self.journal, self.trail) = (path, source, journal, trail)
    (self.options, self.clock, self.progress) = (options, clock, progress)
    (self.position, marked) = (position, position.mark)
  }

  var layouts: [Int64: CaptureInstance] { history.layouts }

  // MARK: Standing

  /// Sets the position to `mark`, the journal row that the source stores as the last captured one: the trail is empty.
  func begin(at mark: SourcePosition.Mark) {
    marked = mark
    position = SourcePosition(mark: mark, previous: mark, checksum: 0)
  }

  /// Sets, after a restart, the journal row that the source stores as the last captured one.
  /// - Parameter checksum: The checksum of the later journal rows in the trail.
  func resume(marked: SourcePosition.Mark, checksum: UInt32 = 0) {
    self.marked = marked
    reader.checksum = checksum
  }

  var isMarked: Bool { marked == position.mark }

  /// Registers that the source now stores the trail's last journal row as the last captured one.
  func noteMarked() {
    marked = position.mark
    reader.checksum = 0
  }

  /// The journal row that the source stores as the last captured one, and the checksum of later journal rows in the
  /// trail.
  var standing: (SourcePosition.Mark, UInt32) {
    get { (marked, reader.checksum) }
    set { (marked, reader.checksum) = newValue }
  }

  /// Begins the running refresh of a table again if the table's layout is in `layouts`.
  ///
  /// - Parameter orWhole: Whether a refresh of a table without a key begins again too, as a VACUUM may renumber rows.
  func forgetRefresh(of layouts: Set<Int64>, orWhole: Bool = false) {
    guard let refresh = position.refresh else { return }
    if orWhole && self.layouts[refresh.layout]?.refreshMethod == .whole || layouts.contains(refresh.layout) {
      position.refresh = nil
    }
  }

  /// Registers a changed schema version. A VACUUM, which renumbers rows of tables without a key, may be the cause.
  func noteSchemaChange() { reader.mayHaveVacuumed = true }

  func reloadLayouts() throws {
    history.set(try journal.layoutsByID())
    awaited.formIntersection(layouts.values.filter(\.passesChanges).map(\.id))
    let waiting = try layouts.values.filter { try isDue($0) }.count
    progress.update { $0.tablesToCopy = waiting }
  }

  /// Returns whether capture must read table rows in addition to the journal rows through `last`.
  func readsTables(last: Int64) throws -> Bool { try position.look != nil || nextRefresh(last: last) != nil }

  func release() { reader.endTransaction() }

  func refreshDoubtful() throws {
    for layout in doubtful { try journal.setRefresh(.lostChanges, layout: layout) }
    doubtful = []
    try reloadLayouts()
  }

  func finishLook() {
    rowBytes.endLook(refresher.takeSent())
    // No reading may follow that removes a finished refresh from the progress.
    let running = position.refresh.flatMap { $0.isDone ? nil : $0 }
    let copying = running.flatMap { state in layouts[state.layout].map { ($0.schema.name, state.rows, UInt64(0)) } }
    progress.update { ($0.taken, $0.copying) = (position.mark.taken, copying) }
  }

  // MARK: One look

  /// Writes one reading of the source to the trail, as one or more transactions.
  ///
  /// - Parameters:
  ///   - from: The last journal row in the trail.
  ///   - through: The last journal row to write.
  ///   - last: The last journal row of the snapshot.
  ///   - begin: The journal row after which the reading began; before `from` if an earlier run wrote a part of it.
  ///   - readAt: The time of the snapshot, µs since 1970.
  ///   - mayReadTables: Whether rows may be read from tables.
  /// - Throws: ``NeedsTurn`` if rows of tables are needed and may not be read. The trail then has only whole
  ///   transactions of this reading, or none.
  func write(
    from: Int64, through: Int64, last: Int64, begin: Int64, readAt: Int64, mayReadTables: Bool, stop: StopSignal
  ) throws {
    (self.stop, self.mayReadTables) = (stop, mayReadTables)
    history.forgetDroppedIndexes()
    part = Part(readAt: readAt, checksum: reader.checksum, look: .init(from: begin, through: last), next: position)
    part?.hasEarlyRows = try OutOfOrderRows.may(layouts, in: .init(from: begin, through: last), of: source)
    do {
      try appendLook(from: from, through: through, last: last)
    } catch {
      try? abandonPart()
      throw error
    }
    part = nil
  }

  /// Writes one reading of the source to the trail. If a VACUUM may have renumbered rows, drops the open transaction
  /// and sets ``doubtful``.
  private func appendLook(from: Int64, through: Int64, last: Int64) throws {
    try appendJournal(from: from, through: through)
    guard doubtful.isEmpty else { return try abandonPart() }
    // If the journal has shown the request for a copy just now, the next reading of the source reads the table.
    let next = mayReadTables ? try nextRefresh(last: last) : nil
    let hasEarlyRows = part?.hasEarlyRows ?? false
    if hasEarlyRows, !mayReadTables { throw NeedsTurn() }
    let readsTables = next != nil || hasEarlyRows || part?.requested.isPending ?? false || position.look != nil
    // Rows of tables show changes up to the end of the snapshot, so these changes must come before the rows.
    if readsTables, through < last { try appendJournal(from: through, through: last) }
    // If the last row ended a transaction of its own, there is nothing more to write.
    if readsTables || position.mark.taken < through { try openPart() }
    guard doubtful.isEmpty else { return try abandonPart() }
    if let requested = part?.requested {
      try requested.append(layouts, from: source, to: trail, tell: progress.tell)
    }
    if hasEarlyRows, let look = part?.look {
      let count = try OutOfOrderRows.append(layouts, in: look, from: source, to: trail, tellIllFormed: tellIllFormed)
      progress.update { $0.changes += count }
    }
    if mayReadTables, let layout = try nextRefresh(last: last), let reason = layout.refresh, hasRoom(for: layout) {
      let state = part?.next.refresh.flatMap {
        $0.layout == layout.id && $0.isPartial == layout.isPartial ? $0 : nil
      }
      refresher.tellIllFormed = { [unowned self] in tellIllFormed($0, $1) }
      part?.next.refresh = try refresher.appendChunk(
        of: layout, reason: reason, state: state, from: source, to: trail)
    }
    try endPart(through: readsTables ? last : through, isLast: true)
  }

  /// Returns whether a chunk of a table fits into the open transaction. A chunk always fits if the transaction has no
  /// table definition yet.
  private func hasRoom(for layout: CaptureInstance) -> Bool {
    guard let part else { return true }
    return layout.schema.memoryBytes <= trail.schemaRoom || trail.schemaRoom == part.schemaRoom
  }

  /// Begins a transaction of the trail if none is open.
  ///
  /// - Parameter time: The commit time, µs since 1970; nil for a transaction that may combine several of the source.
  private func openPart(committedAt time: Int64? = nil) throws {
    guard let part, !part.isOpen else { return }
    let latest = min(part.readAt, nextCommit ?? .max)
    var header = TransactionHeader(commitTime: time ?? latest, flags: time == nil ? [.group, .late] : [])
    header.follow(part.next.knowledge)
    if let relay, let origin = relay.origin { header.hand(on: origin, after: relay.clock) }
    _ = try trail.begin(header)
    self.part?.isOpen = true
    self.part?.schemaRoom = trail.schemaRoom
    try beginAwaitedCopies(through: part.next.mark.taken)
    if let look = position.look { try goOn(look) }
  }

  /// Appends the record that begins each requested refresh, unless the trail has this record. Leaves out layouts that
  /// begin after journal row `seq`.
  private func beginAwaitedCopies(through seq: Int64) throws {
    var count = 0
    for layout in layouts.values.sorted(by: { $0.id < $1.id }) where layout.passesChanges && layout.ended == nil {
      guard layout.since <= seq, part?.next.refresh?.layout != layout.id, awaited.insert(layout.id).inserted else {
        continue
      }
      if count > 0, layout.schema.memoryBytes > trail.schemaRoom - trail.schemaSpare {
        // Another transaction has room for the rest, and begins with them.
        awaited.remove(layout.id)
        try endPart(through: seq, isLast: false)
        return try openPart()
      }
      count += 1
      try refresher.beginWait(for: layout, trail)
    }
  }

  /// Continues a reading of the journal that an earlier run wrote in part, and finds that reading's requests for rows.
  private func goOn(_ look: SourcePosition.Look) throws {
    guard part?.requested.isPending == false else { return }
    let statement = try source.prepare(
      "SELECT seq, code FROM cairn_journal WHERE seq > ? AND seq <= ? AND code % 8 = \(JournalKind.asked.rawValue) ORDER BY seq"
    )
    try statement.bind([.integer(look.from), .integer(position.mark.taken)])
    var last = look.from
    while try statement.step() {
      try Journal.check(statement.integer(0), after: &last, path)
      guard let layout = layouts[statement.integer(1) / 8] else { continue }
      try part?.requested.add(layout, at: statement.integer(0), to: trail)
    }
  }

  private func endPart(through seq: Int64, isLast: Bool) throws {
    guard var part, part.isOpen else { return }
    part.next.previous = marked
    part.next.mark = .init(taken: seq, nonce: SourcePosition.Mark.nonce())
    part.next.checksum = reader.checksum
    let isToBeEnded = part.requested.isPending || part.hasEarlyRows || history.hasDroppedIndexes
    part.next.look = isLast || !isToBeEnded ? nil : part.look
    try trail.append(position: part.next.encoded, at: clock.microseconds())
    try trail.commit()
    (part.isOpen, part.checksum) = (false, reader.checksum)
    position = part.next
    self.part = part
    progress.update { $0.transactions += 1 }
  }

  private func abandonPart() throws {
    if let part { reader.checksum = part.checksum }
    part = nil
    awaited = []
    try trail.abandon()
  }

  /// Writes the schema changes of lost journal rows to the trail. Refreshes of all tables replace the lost rows.
  ///
  /// - Parameters:
  ///   - given: The position in the source after the lost rows.
  ///   - from: The last journal row in the trail.
  func recover(to given: SourcePosition, from: Int64) throws {
    var next = given
    history.forgetDroppedIndexes()
    var header = TransactionHeader(commitTime: clock.microseconds(), flags: [.group, .late])
    header.follow(next.knowledge)
    _ = try trail.begin(header)
    do {
      let places = Set(layouts.values.flatMap { [$0.since, $0.ended.map(abs) ?? 0] })
      for place in places.sorted() where place > from && place <= next.mark.taken { try announce(marker: place) }
      reader.checksum = 0
      next.checksum = 0
      next.previous = next.mark
      try trail.append(position: next.encoded, at: clock.microseconds())
      try trail.commit()
    } catch {
      try? trail.abandon()
      throw error
    }
    _ = try trail.sync()
    position = next
    marked = next.mark
  }

  // MARK: Tables

  /// Returns the layout of the table to refresh next; nil if there is none. Ignores layouts that begin after journal
  /// row `last`.
  private func nextRefresh(last: Int64) throws -> CaptureInstance? {
    if let current = position.refresh, let layout = layouts[current.layout], try isDue(layout) { return layout }
    return try layouts.values.filter { try $0.since <= last && isDue($0) }.min { $0.id < $1.id }
  }

  /// Returns whether a table waits for a refresh in this shape. False if capture of the table is stopped (`unhook`).
  private func isDue(_ layout: CaptureInstance) throws -> Bool {
    try layout.ended == nil && layout.refresh != nil && !journal.isUnhooked(layout.schema.name)
  }

  // MARK: Journal

  private func appendJournal(from: Int64, through last: Int64) throws {
    relay = nil
    guard last > from else { return }
    for change in try history.dropIndexes(behind: from, told: position.look?.through) {
      try openPart()
      try trail.append(change, by: "")
    }
    let statement = try source.prepare("SELECT * FROM cairn_journal WHERE seq > ? AND seq <= ? ORDER BY seq")
    try statement.bind([.integer(from), .integer(last)])
    var expected = from + 1
    var count: UInt64 = 0
    let feed =
      try journal.isEmbedded() && !options.folds
      ? StatementFeed(source, from: from, through: last, withStatements: options.statements) : nil
    reader.fold = options.folds ? try NetChanges() : nil
    nextCommit = feed?.end?.1.time
    defer { (reader.fold, nextCommit) = (nil, nil) }
    // The layout of the last journal row, which is usually that of the next row too.
    var known: CaptureInstance?
    while try statement.step() {
      let seq = statement.integer(0)
      let code = statement.integer(1)
      guard seq == expected else { throw SQLiteCapture.wentBack(path, "journal row \(expected) is missing") }
      expected += 1
      if seq & 1023 == 0, stop.isSet { throw CaptureStopped() }
      if let feed, try !begin(feed, at: seq) { return }
      switch code {
      case JournalNotes.code:
        try reader.fold?.write(to: trail)
        guard try take(note: statement, seq: seq) else { return }
      case JournalStatements.partCode:
        reader.read(statement, seq: seq, code: code, first: 3, count: 1)
      case JournalStatements.endCode:
        reader.read(statement, seq: seq, code: code, first: 3, count: 1)
        if options.folds {
          reader.endTransaction()
        } else {
          guard try endTransaction(through: seq) else { return }
        }
        try feed?.advanceEnd()
        nextCommit = feed?.end?.1.time
      default:
        if code == JournalKind.marker.rawValue, feed == nil, try !leaveRoom(through: seq - 1) { return }
        try openPart()
        if known?.id != code / 8 { known = layouts[code / 8] }
        if try take(statement, seq: seq, code: code, known) { count += 1 } else { known = nil }
        try feed?.endStatement(behind: seq, &reader, to: trail)
      }
    }
    try feed?.endStatement(behind: .max, &reader, to: trail)
    try reader.fold?.write(to: trail)
    noteDoubt(reader.endSnapshot())
    progress.update { $0.changes += count }
  }

  /// Processes a journal row of a captured table. Returns false if the row marks a schema change instead.
  private func take(_ statement: Statement, seq: Int64, code: Int64, _ known: CaptureInstance?) throws -> Bool {
    guard let kind = JournalKind(rawValue: code % 8), code == 0 || known != nil else {
      throw CairnError(
        .databaseDamaged, "journal row \(seq) of \(path) has the unknown layout code \(code)",
        hint: "run 'cairn detach' on the source and replicate again")
    }
    guard kind != .marker, let layout = known else {
      reader.read(statement, seq: seq, code: code, first: 3, count: 0)
      try reader.fold?.write(to: trail)
      try reloadLayouts()
      try announce(marker: seq)
      try beginAwaitedCopies(through: seq)
      return false
    }
    reader.read(statement, seq: seq, code: code, first: 3, count: layout.valueCount)
    rowBytes.add(rows: 1, bytes: reader.rowBytes)
    if let column = source.takeIllFormedColumn() { tellIllFormed(layout.schema, column - 3) }
    // A trigger that was left over wrote the row: the table is no longer captured in this shape.
    if kind != .asked, let ended = layout.ended, seq > abs(ended) { return true }
    if kind == .asked {
      try reader.fold?.write(to: trail)
      guard mayReadTables else { throw NeedsTurn() }
      try part?.requested.add(layout, at: seq, to: trail)
    }
    let refresh = part?.next.refresh
    try reader.emit(kind, layout, to: trail) { rowid in layout.wantsChange(of: rowid, during: refresh) }
    return true
  }

  /// Begins the transaction and the statements that start at journal row `seq`. Returns false if a VACUUM may have
  /// renumbered rows of an earlier transaction.
  private func begin(_ feed: StatementFeed, at seq: Int64) throws -> Bool {
    if let end = feed.end?.1, end.first == seq {
      guard try endTransaction(through: seq - 1) else { return false }
      try openPart(committedAt: end.time)
    }
    if try feed.hasStatement(at: seq) {
      try openPart()
      try feed.beginStatements(at: seq, history.spans, &reader, to: trail)
    }
    return true
  }

  /// Ends the open transaction before a schema change if its segment has room for few further table definitions. A
  /// relayed transaction stays open. Returns false if a VACUUM may have renumbered rows.
  private func leaveRoom(through seq: Int64) throws -> Bool {
    guard part?.isOpen == true, relay == nil, trail.schemaRoom < 3 * trail.schemaSpare else { return true }
    try reader.fold?.write(to: trail)
    return try endTransaction(through: seq)
  }

  /// Ends the open transaction of the trail. Returns false if a VACUUM may have renumbered rows in it.
  private func endTransaction(through seq: Int64) throws -> Bool {
    reader.endTransaction()
    noteDoubt(reader.doubtful)
    guard doubtful.isEmpty else {
      _ = reader.endSnapshot()
      return false
    }
    try endPart(through: seq, isLast: false)
    return true
  }

  /// Ends the transaction before an applied note, then processes the note. Returns false if a VACUUM may have
  /// renumbered rows in that transaction.
  private func take(note statement: Statement, seq: Int64) throws -> Bool {
    guard try endTransaction(through: seq - 1) else { return false }
    reader.read(statement, seq: seq, code: JournalNotes.code, first: 3, count: 1)
    guard var note = AppliedNote(statement.text(3)) else {
      throw CairnError(
        .databaseDamaged, "journal row \(seq) of \(path) is a note of apply that this version of Cairn cannot read",
        hint: "run 'cairn detach' on the source and replicate again")
    }
    note.bound(now: clock.microseconds(), skewMicrosecondsMax: options.skewMicrosecondsMax)
    relay = note.origin == nil ? nil : note
    if relay == nil, note.number > 0, note.trail != trail.name.description { part?.next.knowledge.note(note) }
    return true
  }

  private func tellIllFormed(_ schema: TableSchema, _ column: Int) {
    guard schema.columns.indices.contains(column) else { return }
    let name = schema.columns[column].name
    guard illFormed.insert("\(schema.name)\n\(name)").inserted else { return }
    progress.tell(
      "column \(name) of table \(schema.name) holds a text that is not well-formed UTF-16: the target receives the text as SQLite converts it"
    )
  }

  private func noteDoubt(_ layouts: Set<Int64>) {
    for layout in layouts where self.layouts[layout]?.refresh == nil { doubtful.insert(layout) }
  }

  // MARK: Schema changes

  /// Writes the schema changes of journal row `marker` to the trail.
  private func announce(marker: Int64) throws {
    // If an apply made the schema change, the marker row has the name of its trail.
    let applier =
      try source.text("SELECT v0 FROM cairn_journal WHERE seq = \(marker) AND code = \(JournalKind.marker.rawValue)")
      ?? ""
    for step in try history.changes(at: marker) {
      try CaptureStopped.check()
      switch step {
      case .change(let change): try trail.append(change, by: applier)
      case .beginRows(let layout): try refresher.begin(layout, trail)
      }
    }
  }
}
