import Changes
import CodecKit
import SQLiteKit
import SystemKit
import Trails

/// Captures one SQLite file into a trail: by triggers, journal and refresh (`docs/sqlite-capture.md`).
///
/// One blocking worker on one thread. The seam to the trail is ``TrailWriter``; another way of finding the changes of
/// an SQLite file takes the place of this type and of the journal behind it.
package final class SQLiteCapture {
  package struct Options: Sendable {
    package var tables = TablePatterns()
    package var journalCapRows = Journal.defaultCapRows
    package var journalCapBytes = Journal.capBytes
    /// Where the trail is: told to whoever wants to capture the same source.
    package var place = ""
    /// Whether the rows are sent that are there when capture begins; else another way brings them.
    package var copiesRows = true
    /// Whether what applies write goes into the trail too.
    package var relays = false
    /// How far the clocks of other nodes may be ahead of ours, µs: no note of an apply moves the trail's clock further.
    package var skewMicrosecondsMax: Int64 = 60_000_000
    /// Whether it is an error that there is no table yet.
    package var needsTables = true
    /// Whether statements that programs tell of go into the trail.
    package var statements = true
    /// Of all that is found at one look, only what it comes to goes into the trail: as one transaction, without statements.
    package var folds = false
    package init() {}
  }

  /// Between transactions of the trail that tell nothing but what apply has noted.
  private static let notesMilliseconds: Int64 = 1000

  private let path: String
  private let options: Options
  private let trail: TrailWriter
  private let clock: Clock
  private let progress: CaptureProgress
  private let source: Database
  private let journal: Journal
  private let sourceSync: SourceSync
  private var reader = JournalReader()
  private var refresher = TableRefresher()

  private var layouts: [Int64: Layout] = [:]
  /// What is in the trail, synced.
  private var position: SourcePosition
  /// What the source is marked with.
  private var marked: SourcePosition.Mark
  private var schemaVersion: Int64 = -1
  private var isWAL = true
  private var identity: FileIdentity?
  private var markedAt = Clock.monotonicMilliseconds
  private var takenAt = Clock.monotonicMilliseconds
  /// The last journal row that a look has seen: behind it may stand nothing but notes of apply's, which wait.
  private var seenThrough: Int64 = 0
  private var tellsNotesAtOnce = false

  private var ignored: IgnoredObjects
  private var doubtful: Set<Int64> = []
  /// Of the look that is under way.
  private var part: Part?
  /// Layouts whose copies were asked for, and the trail has been told.
  private var awaited: Set<Int64> = []
  /// What the apply noted whose rows are read.
  private var relay: AppliedNote?
  /// By the layout that takes over: the shape before it, without the indexes that it has not.
  private var relaxed: [Int64: TableSchema] = [:]
  /// Found at the start: the journal dropped rows that had not been marked as taken.
  private var hasLostRows = false
  private var statements: Statements
  private var isWaitingForLock = false
  /// Ends the run, also within a transaction that is being taken.
  private var stop = StopSignal()
  private var unseenWrites = UnseenWrites()
  /// The bytes of the journal's rows, by which the cap follows.
  private var rowBytes = RowBytes()
  /// Tables and columns whose texts SQLite reads as others than they are, and of which a notice has gone out.
  private var illFormed: Set<NameKey> = []

  /// Statements that are run at every look.
  private struct Statements {
    let begin, commit, schemaVersion, lastRow, lastChange, firstRow, mark: Statement
    init(_ source: Database) throws {
      begin = try source.prepare("BEGIN")
      commit = try source.prepare("COMMIT")
      schemaVersion = try source.prepare("PRAGMA schema_version")
      lastRow = try source.prepare("SELECT seq FROM cairn_journal ORDER BY seq DESC LIMIT 1")
      lastChange = try source.prepare(
        "SELECT seq FROM cairn_journal WHERE seq > ? AND code <> \(JournalNotes.code) ORDER BY seq DESC LIMIT 1")
      firstRow = try source.prepare("SELECT seq FROM cairn_journal ORDER BY seq LIMIT 1")
      mark = try source.prepare("SELECT taken, nonce FROM cairn_control WHERE id = 0")
    }
  }

  // MARK: Opening

  /// Opens the source, puts capture into it where it is not, and proves that it is where the trail ends.
  ///
  /// Errors: everything that ``SQLiteError`` maps to; `source-captured`, `source-went-back`, `table-refused`.
  package init(
    path: String, trail: TrailWriter, options: Options, clock: Clock = .system, progress: CaptureProgress = .init()
  ) throws {
    (self.path, self.trail, self.options, self.clock, self.progress) = (path, trail, options, clock, progress)
    source = try Database(path: path)
    journal = Journal(source)
    sourceSync = SourceSync(path: path)
    try source.executeScript("PRAGMA recursive_triggers = OFF; PRAGMA foreign_keys = OFF")
    isWAL = try source.text("PRAGMA journal_mode") == "wal"
    // In WAL mode a commit of ours need not be synced: what must be durable is synced by itself.
    try source.execute("PRAGMA synchronous = \(isWAL ? "NORMAL" : "FULL")")
    source.setTriggersEnabled(false)
    source.forbidForeignCode()
    try source.watchText()
    try source.checkOwnTables()

    let stored = try trail.lastHeader.map { try SourcePosition(decoding: $0.sourcePosition) }
    position = stored ?? Self.fresh()
    marked = position.mark
    try Self.checkOwner(journal, trail: trail, options: options)
    if stored != nil, let error = try journal.orphanedTriggers() { throw error }
    let (journal, source) = (journal, source)
    let (position, isFirst) = (position, stored == nil)
    let written = try journal.isInstalled() ? journal.writtenLayouts() : nil
    var doubtful: Set<Int64> = []
    var adopted: Int64 = -1
    try source.transaction {
      if try !journal.isInstalled() {
        guard isFirst else { throw Self.wentBack(path, "it has no journal any more") }
        try journal.install(
          trail: trail.id, place: options.place, capRows: options.journalCapRows, mark: position.mark,
          tables: options.tables)
      }
      if try journal.isUnclaimed() {
        guard isFirst else { throw Self.wentBack(path, "its journal was made anew, and belongs to no trail") }
        try journal.claim(trail: trail.id, place: options.place, copiesRows: options.copiesRows)
      }
      // Another capture may have been put in since the look before this transaction.
      if let owner = try journal.owner(), owner.trail != trail.id { throw Self.captured(path, owner.place) }
      try journal.upgrade(capRows: options.journalCapRows, clock)
      try journal.remember(options.tables)
      try journal.setRelay(options.relays)
      // What stands in a table that comes later was written before its triggers were there.
      doubtful = try journal.adopt(
        options.tables, written: written, copies: options.copiesRows || !isFirst ? .all : .none)
      // When all tables were dropped, that is still to be told; when none is meant, that is a mistake.
      let isEmptied = try !isFirst && !source.userTables().contains { $0.refusal == nil }
      guard try !options.needsTables || isEmptied || !journal.activeLayouts().isEmpty else {
        throw CairnError(
          .noTables, "\(path) has no table that could be captured",
          hint: "create a table first, or look at --tables", remedy: .badInput)
      }
      // Within the transaction: a program may change the schema right after it.
      adopted = try source.integer("PRAGMA schema_version") ?? -1
    }
    schemaVersion = adopted
    statements = try Statements(source)
    ignored = try IgnoredObjects(source)
    try resume(isFirst: isFirst)
    if self.position.knowledge.hasUnnamed { try self.position.knowledge.name(by: journal.applied(clock)) }
    try reloadLayouts()
    forgetFinishedRefresh()
    if let refresh = self.position.refresh, doubtful.contains(refresh.layout) { self.position.refresh = nil }
    reader.mayHaveVacuumed = true
    rowBytes.noted = try journal.rowBytes()
    identity = FileIdentity(path: path)
    for table in try source.userTables() where options.tables.includes(table.name) {
      if let refusal = table.refusal { progress.tell("table \(table.name) is not captured: \(refusal)") }
    }
  }

  private static func fresh() -> SourcePosition {
    let mark = SourcePosition.Mark(taken: 0, nonce: nonce())
    return SourcePosition(mark: mark, previous: mark, checksum: 0)
  }

  private static func nonce() -> Int64 {
    randomBytes(8).withUnsafeBytes { $0.loadUnaligned(as: Int64.self) }
  }

  /// What is wrong with a source whose journal belongs to another trail that was kept where this one is.
  package static let otherState =
    "its journal belongs to another trail that was kept in the same place, so this state folder is not the one that was used last"

  /// One capture per source. A capture whose state was kept where ours is, is gone: its journal is made anew, unless it
  /// took what our trail does not have.
  private static func checkOwner(_ journal: Journal, trail: TrailWriter, options: Options) throws {
    guard let owner = try journal.owner(), owner.trail != trail.id else { return }
    if owner.place == options.place, !owner.place.isEmpty {
      guard trail.lastHeader == nil else { throw wentBack(journal.database.path, otherState) }
      return try journal.uninstall()
    }
    throw captured(journal.database.path, owner.place)
  }

  private static func captured(_ path: String, _ place: String) -> CairnError {
    CairnError(
      .sourceCaptured, "\(path) is already captured into another trail, kept in \(place)",
      hint:
        "if that is the replication between these two databases, run with --state \(place); else end it first, with 'cairn detach sqlite:\(path)'"
    )
  }

  static func wentBack(_ path: String, _ how: String) -> CairnError {
    CairnError(
      .sourceWentBack, "the source \(path) is not where the trail ends: \(how)",
      hint:
        "it was restored or replaced; if both ends are written, the other end may hold newer rows: run 'cairn detach' on both and replicate into a new --state from the end that is to be kept, with --existing overwrite"
    )
  }

  /// Proves that the rows behind the source's mark are those that the trail has.
  private func resume(isFirst: Bool) throws {
    guard let marked = try SourcePosition.Mark(of: source) else {
      throw Self.wentBack(path, "its table cairn_control is empty, or holds what Cairn did not write")
    }
    self.marked = marked
    if isFirst {
      // Installed by a run that ended before its first transaction was in the trail.
      position = SourcePosition(mark: marked, previous: marked, checksum: 0)
      return
    }
    switch try SourceStanding(source, marked: marked, position) {
    case .atMark: break
    case .behind(let checksum): reader.checksum = checksum
    case .lostRows: hasLostRows = true
    case .other(let how): throw Self.wentBack(path, how)
    }
  }

  private func reloadLayouts() throws {
    layouts = try journal.layoutsByID()
    awaited.formIntersection(layouts.values.filter(\.passesChanges).map(\.id))
    let waiting = try layouts.values.filter { try isDue($0) }.count
    progress.update { $0.tablesToCopy = waiting }
  }

  /// A refresh of a table without key cannot go on after a restart: a VACUUM may have given rows other numbers. One
  /// that was asked for begins anew.
  private func forgetFinishedRefresh() {
    guard let refresh = position.refresh else { return }
    // One that is done and yet wanted was asked for again; or we ended before that was noted, and it is made once more.
    if refresh.isDone {
      position.refresh = nil
    } else if layouts[refresh.layout].map({ $0.ended != nil || $0.refreshMethod == .whole || $0.refresh == .asked })
      ?? true
    {
      position.refresh = nil
    }
  }

  private func finishRefresh(_ layout: Int64) throws {
    if let layout = layouts[layout] { try journal.finishRefresh(layout) }
    try reloadLayouts()
  }

  // MARK: Running

  /// Takes what the source commits until `stop` is set; with `untilCaughtUp`, until everything that was committed
  /// before the call is in the trail and every table is copied.
  package func run(stop: StopSignal, untilCaughtUp: Bool) throws {
    var watch = try SourceWatch(database: path)
    self.stop = stop
    tellsNotesAtOnce = untilCaughtUp
    progress.noteDurable(trail.end.position)
    if hasLostRows { try recoverFromLoss() }
    while !stop.isSet {
      do {
        let found = try take()
        isWaitingForLock = false
        progress.update { $0.isCaughtUp = !found }
        if found { continue }
        if untilCaughtUp { break }
        try checkIdentity()
        try markIfQuiet()
        watch.wait(found: false, atMost: min(marked == position.mark ? .max : 100, untilNotesAreTold), stop: stop)
        try lookUntilFound(&watch, stop)
      } catch is Stopped {
        break
      } catch let error as SQLiteError where error.primary == 1 {
        try checkOwnTablesAreThere()
        throw error
      } catch let error as SQLiteError where error.isBusy && !untilCaughtUp {
        waitForLock(error)
      }
    }
    try markSource(waitMilliseconds: 2000)
  }

  /// The stop signal was set while a transaction was taken. The trail drops what it has of it, and the next run takes it.
  private struct Stopped: Error {}

  /// Throws `source-went-back` if tables of capture are gone: a program has dropped what it does not know.
  private func checkOwnTablesAreThere() throws {
    if let error = try journal.orphanedTriggers() { throw error }
    guard try journal.isInstalled() else { throw Self.wentBack(path, "Cairn was detached from it meanwhile") }
  }

  /// The tables that were written to, although no trigger fired.
  private func findUnseenWrites(last: Int64) throws -> [Layout] {
    // An unhooked table is copied when it is hooked again, and may have other columns until then.
    let unhooked = Set(try journal.unhooked().map(\.sqliteKey))
    let active = layouts.values.filter { $0.ended == nil && !unhooked.contains($0.schema.name.sqliteKey) }
    guard position.refresh == nil, active.allSatisfy({ $0.refresh == nil }) else {
      unseenWrites.forget()
      return []
    }
    return try unseenWrites.find(
      source, active.sorted { $0.id < $1.id }, last: last, schema: schemaVersion,
      idle: Clock.monotonicMilliseconds - takenAt, isWAL: isWAL)
  }

  private func copyUnseen(_ unseen: [Layout]) throws -> Bool {
    let names = unseen.map(\.schema.name).joined(separator: ", ")
    progress.tell(
      "writes-unseen: an application wrote to \(names) of \(path) and fired no trigger, by blob I/O or with its triggers switched off: copying what differs again; see 'What is not captured' in docs/sqlite-capture.md"
    )
    try source.transaction { for layout in unseen { try journal.setRefresh(.lostChanges, layout: layout.id) } }
    unseenWrites.forget()
    try reloadLayouts()
    return true
  }

  /// A program holds the lock for longer than the busy timeout: a capture at work goes on when the lock is free.
  private func waitForLock(_ error: SQLiteError) {
    reader.endTransaction()
    if !isWaitingForLock { progress.tell("\(path) is locked by another program (\(error.message)): waiting for it") }
    isWaitingForLock = true
    progress.update { $0.isCaughtUp = false }
    Pulse.beat()
  }

  /// Looks, as long as an event's ladder lasts, without beginning a transaction.
  private func lookUntilFound(_ watch: inout SourceWatch, _ stop: StopSignal) throws {
    // Other programs' readers make events too; they must not keep us from marking and purging.
    let limit = Clock.monotonicMilliseconds + 100
    while !stop.isSet, Clock.monotonicMilliseconds < limit {
      if try Self.scalar(statements.schemaVersion) != schemaVersion { return }
      if try Self.scalar(statements.lastRow) > max(position.mark.taken, seenThrough) { return }
      guard watch.isClimbing else { return }
      watch.wait(found: false, atMost: .max, stop: stop)
    }
  }

  private static func scalar(_ statement: Statement) throws -> Int64 {
    defer { statement.reset() }
    return try statement.step() ? statement.integer(0) : 0
  }

  /// Takes one snapshot: all journal rows behind what is in the trail, and a chunk of a refresh. False when there was
  /// nothing.
  private func take() throws -> Bool {
    _ = try statements.begin.step()
    var isOpen = true
    defer { if isOpen { try? source.execute("ROLLBACK") } }
    let version = try Self.scalar(statements.schemaVersion)
    guard version == schemaVersion else {
      // First the triggers, then the rows: the rows of this snapshot may already be of another shape.
      isOpen = false
      _ = try statements.commit.step()
      try adoptSchema()
      return true
    }
    let last = try Self.scalar(statements.lastRow)
    try checkMark(last: last)
    let from = position.mark.taken
    seenThrough = last
    let readsTables = try position.look != nil || nextRefresh(last: last) != nil
    let through = readsTables || untilNotesAreTold == 0 ? last : try lastChange(behind: from)
    guard through > from || readsTables else {
      let unseen = try findUnseenWrites(last: last)
      isOpen = false
      _ = try statements.commit.step()
      if !unseen.isEmpty { return try copyUnseen(unseen) }
      return false
    }
    let begin = position.look?.from ?? from
    if last > begin, try Self.scalar(statements.firstRow) > begin + 1 {
      isOpen = false
      _ = try statements.commit.step()
      try recoverFromLoss()
      return true
    }
    try sourceSync.sync(isWAL: isWAL)

    let (readAt, begun) = (clock.microseconds(), Clock.monotonicMicroseconds)
    relaxed = [:]
    part = Part(readAt: readAt, checksum: reader.checksum, look: .init(from: begin, through: last), next: position)
    do {
      try appendLook(from: from, through: through, last: last)
    } catch {
      try? abandonPart()
      throw error
    }
    part = nil
    isOpen = false
    _ = try statements.commit.step()
    let end = try trail.sync()
    progress.noteDurable(end.position, (readAt, Clock.monotonicMicroseconds - begun))
    guard doubtful.isEmpty else {
      // Some rows cannot be told apart: they are left out, which may only be when their copy is certain to come.
      try refreshDoubtful()
      return true
    }
    takenAt = Clock.monotonicMilliseconds
    rowBytes.endLook(refresher.takeSent())
    report(last: position.mark.taken)
    if let refresh = position.refresh, refresh.isDone {
      try finishRefresh(refresh.layout)
      position.refresh = nil
    }
    if takenAt - markedAt > 5000 { try markSource(waitMilliseconds: 5) }
    return true
  }

  // MARK: One look

  /// A look becomes one transaction of the trail, or several: each ends before a note of apply's, as what follows that
  /// was written by somebody who could see what apply had brought.
  private struct Part {
    let readAt: Int64
    /// Of the journal rows that the trail has.
    var checksum: UInt32
    let look: SourcePosition.Look
    var next: SourcePosition
    var isOpen = false
    var requested = RequestedRows()
  }

  /// Milliseconds; 0 when the notes at the end of the journal are to be told even where nothing follows them.
  private var untilNotesAreTold: Int32 {
    guard seenThrough > position.mark.taken else { return .max }
    return tellsNotesAtOnce
      ? 0 : Int32(clamping: max(0, takenAt + Self.notesMilliseconds - Clock.monotonicMilliseconds))
  }

  /// The last journal row that is no note; `from` when there is none behind it.
  private func lastChange(behind from: Int64) throws -> Int64 {
    defer { statements.lastChange.reset() }
    try statements.lastChange.bind([.integer(from)])
    return try statements.lastChange.step() ? statements.lastChange.integer(0) : from
  }

  /// All of a look. Where rows turn out that cannot be told apart, the part that has them is dropped, and ``doubtful``
  /// says of which tables they are.
  private func appendLook(from: Int64, through: Int64, last: Int64) throws {
    try appendJournal(from: from, through: through)
    guard doubtful.isEmpty else { return try abandonPart() }
    let readsTables = try nextRefresh(last: last) != nil || part?.requested.isPending ?? false || position.look != nil
    // What is read from tables shows what stands behind the last change too.
    if readsTables, through < last { try appendJournal(from: through, through: last) }
    // Where the last row ended a transaction of its own, there is nothing more to tell.
    if readsTables || position.mark.taken < through { try openPart() }
    guard doubtful.isEmpty else { return try abandonPart() }
    if let requested = part?.requested {
      try requested.append(layouts, from: source, to: trail, tell: progress.tell)
    }
    if let layout = try nextRefresh(last: last), let reason = layout.refresh {
      let state = part?.next.refresh.flatMap {
        $0.layout == layout.id && $0.isPartial == layout.isPartial ? $0 : nil
      }
      refresher.tellIllFormed = { [unowned self] in tellIllFormed($0, $1) }
      part?.next.refresh = try refresher.appendChunk(
        of: layout, reason: reason, state: state, from: source, to: trail)
      if layout.isPartial, let done = part?.next.refresh, done.isDone { try tellEarlyRows(layout, done.rows) }
    }
    try endPart(through: readsTables ? last : through, isLast: true)
  }

  /// Warns of rows that an application wrote right after it added a column, in a database that an apply writes too.
  private func tellEarlyRows(_ layout: Layout, _ count: UInt64) throws {
    guard count > 0,
      try source.integer("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'cairn_checkpoint'") != nil
    else { return }
    progress.tell(
      "table \(layout.schema.name): \(count) \(count == 1 ? "row was" : "rows were") written to a new column before capture saw the ALTER TABLE, and \(count == 1 ? "is" : "are") sent as a copy; if another node changed such a row meanwhile, both ends may differ in that column: run 'cairn compare', and write the row again"
    )
  }

  /// Begins a transaction of the trail where none is open. `time`: when it committed, if it is one of the source, exactly.
  private func openPart(committedAt time: Int64? = nil) throws {
    guard let part, !part.isOpen else { return }
    var header = TransactionHeader(commitTime: time ?? part.readAt, flags: time == nil ? [.group, .late] : [])
    header.follow(part.next.knowledge)
    if let relay, let origin = relay.origin { header.hand(on: origin, after: relay.clock) }
    _ = try trail.begin(header)
    self.part?.isOpen = true
    try beginAwaitedCopies(through: part.next.mark.taken)
    if let look = position.look { try goOn(look) }
  }

  /// From where copies were asked for to where they begin, what the journal says may be of rows that the reader does not
  /// have. `seq`: of the journal row at hand.
  private func beginAwaitedCopies(through seq: Int64) throws {
    for layout in layouts.values.sorted(by: { $0.id < $1.id }) where layout.passesChanges && layout.ended == nil {
      guard layout.since <= seq, part?.next.refresh?.layout != layout.id, awaited.insert(layout.id).inserted else {
        continue
      }
      try refresher.beginWait(for: layout, trail)
    }
  }

  /// Rows that were asked for are sent at the end of a look; another run may have begun with it.
  private func goOn(_ look: SourcePosition.Look) throws {
    guard part?.requested.isPending == false else { return }
    let statement = try source.prepare(
      "SELECT seq, code FROM cairn_journal WHERE seq > ? AND seq <= ? AND code % 8 = \(JournalKind.asked.rawValue) ORDER BY seq"
    )
    try statement.bind([.integer(look.from), .integer(position.mark.taken)])
    while try statement.step() {
      guard let layout = layouts[statement.integer(1) / 8] else { continue }
      try part?.requested.add(layout, at: statement.integer(0), to: trail)
    }
  }

  /// Ends the transaction of the trail that is open, if one is.
  private func endPart(through seq: Int64, isLast: Bool) throws {
    guard var part, part.isOpen else { return }
    part.next.previous = marked
    part.next.mark = .init(taken: seq, nonce: Self.nonce())
    part.next.checksum = reader.checksum
    let isToBeEnded = part.requested.isPending || !relaxed.isEmpty
    part.next.look = isLast || !isToBeEnded ? nil : part.look
    try appendProgress(part.next)
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

  private func report(last: Int64) {
    let name = position.refresh.flatMap { layouts[$0.layout]?.schema.name }
    progress.update {
      $0.taken = last
      $0.copying = position.refresh.flatMap { state in name.map { ($0, state.rows, 0) } }
    }
  }

  /// The source must still bear the mark that we gave it: a restore in place takes it back.
  private func checkMark(last: Int64) throws {
    defer { statements.mark.reset() }
    guard try statements.mark.step(), statements.mark.integer(0) == marked.taken,
      statements.mark.integer(1) == marked.nonce, last >= position.mark.taken, SourcePosition.places.contains(last)
    else {
      throw Self.wentBack(path, "its mark or its journal changed behind our back")
    }
  }

  private func checkIdentity() throws {
    guard let now = FileIdentity(path: path, followsLink: false) else {
      throw CairnError(
        .databaseMissing, "there is no database \(path) any more", hint: "put it back: what it holds is taken then")
    }
    guard now == identity else { throw Self.wentBack(path, "another file has taken its place") }
    guard now.owner == identity?.owner else {
      throw CairnError(
        .databaseUnsafe, "database \(path) belongs to another user than when capture started",
        hint: "if an administrator gave it away, start the capture again; else find out which user did: ls -l \(path)")
    }
  }

  /// The table whose turn it is to be copied; its layout must be in force already.
  private func nextRefresh(last: Int64) throws -> Layout? {
    if let current = position.refresh, let layout = layouts[current.layout], try isDue(layout) { return layout }
    return try layouts.values.filter { try $0.since <= last && isDue($0) }.min { $0.id < $1.id }
  }

  /// Whether the table is to be copied as its layout tells it. Of an unhooked one it may be true no more: it is copied
  /// under another layout when it is hooked again.
  private func isDue(_ layout: Layout) throws -> Bool {
    try layout.ended == nil && layout.refresh != nil && !journal.isUnhooked(layout.schema.name)
  }

  private func appendJournal(from: Int64, through last: Int64) throws {
    relay = nil
    guard last > from else { return }
    try announceDroppedIndexes(behind: from)
    let statement = try source.prepare("SELECT * FROM cairn_journal WHERE seq > ? AND seq <= ? ORDER BY seq")
    try statement.bind([.integer(from), .integer(last)])
    var expected = from + 1
    var count: UInt64 = 0
    let feed =
      try journal.isEmbedded() && !options.folds
      ? StatementFeed(source, from: from, through: last, withStatements: options.statements) : nil
    reader.fold = options.folds ? try ChangeFold() : nil
    defer { reader.fold = nil }
    // Of the last row: as a rule, also of the next.
    var known: Layout?
    while try statement.step() {
      let seq = statement.integer(0)
      let code = statement.integer(1)
      guard seq == expected else { throw Self.wentBack(path, "journal row \(expected) is missing") }
      expected += 1
      if seq & 1023 == 0, stop.isSet { throw Stopped() }
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
      default:
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

  /// Takes a journal row of a table; false when it tells of other layouts.
  private func take(_ statement: Statement, seq: Int64, code: Int64, _ known: Layout?) throws -> Bool {
    guard let kind = JournalKind(rawValue: code % 8), code == 0 || known != nil else {
      throw CairnError(
        .databaseDamaged, "journal row \(seq) of \(path) has code \(code), which no layout explains",
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
    // Of triggers that an older version left at a table which is not captured any more.
    if kind != .asked, let ended = layout.ended, seq > abs(ended) { return true }
    if kind == .asked { try reader.fold?.write(to: trail) }
    if kind == .asked { try part?.requested.add(layout, at: seq, to: trail) }
    let refresh = part?.next.refresh
    try reader.emit(kind, layout, to: trail) { rowid in Self.isWanted(layout, rowid, refresh) }
    return true
  }

  /// Before journal row `seq`: begins the transaction and the statements that begin with it. False when what stands before
  /// cannot be told.
  private func begin(_ feed: StatementFeed, at seq: Int64) throws -> Bool {
    if let end = feed.end?.1, end.first == seq {
      guard try endTransaction(through: seq - 1) else { return false }
      try openPart(committedAt: end.time)
    }
    if try feed.hasStatement(at: seq) {
      try openPart()
      try feed.beginStatements(at: seq, layouts, &reader, to: trail)
    }
    return true
  }

  /// Ends the transaction of the trail, if one is open; false when it cannot be told.
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

  /// What apply brought ends the part before it; false when that part cannot be told.
  private func take(note statement: Statement, seq: Int64) throws -> Bool {
    guard try endTransaction(through: seq - 1) else { return false }
    reader.read(statement, seq: seq, code: JournalNotes.code, first: 3, count: 1)
    guard var note = AppliedNote(statement.text(3)) else {
      throw CairnError(
        .databaseDamaged, "journal row \(seq) of \(path) is a note of apply's that this cairn does not understand",
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
      "column \(name) of table \(schema.name) holds a text that is not well-formed UTF-16: the target gets it altered, as SQLite reads it"
    )
  }

  private func noteDoubt(_ layouts: Set<Int64>) {
    for layout in layouts where self.layouts[layout]?.refresh == nil { doubtful.insert(layout) }
  }

  /// A change is left out when a chunk that is still to come will show it.
  private static func isWanted(_ layout: Layout, _ rowid: Int64?, _ refresh: SourcePosition.RefreshState?) -> Bool {
    guard layout.refresh != nil, !layout.isPartial, !layout.passesChanges else { return true }
    guard let refresh, refresh.layout == layout.id, !refresh.isPartial else { return false }
    if refresh.isDone || layout.refreshMethod == .byKey { return true }
    guard let rowid, case .integer(let cursor)? = refresh.cursor?.first else { return false }
    return rowid <= cursor
  }

  /// Tells the trail of the shapes that came, went and changed at this place of the journal.
  private func announce(marker: Int64) throws {
    // Where it came by an apply, the trail of that stands there.
    let applied =
      try source.text("SELECT v0 FROM cairn_journal WHERE seq = \(marker) AND code = \(JournalKind.marker.rawValue)")
      ?? ""
    let all = layouts.values.sorted { $0.id < $1.id }
    let succeeded = Set(all.compactMap(\.previous))
    for layout in all {
      if layout.ended == marker, !succeeded.contains(layout.id) {
        try append(DDL(action: .drop, before: try schemaID(layout), after: 0), applied)
      }
    }
    let fresh = all.filter { $0.since == marker && $0.action != nil }
    // Tables that take each other's names step aside first.
    let taken = Set(fresh.filter { $0.previous != nil }.map { $0.schema.name.sqliteKey })
    var aside: [Int64: UInt64] = [:]
    for layout in fresh {
      guard let before = layout.previous.flatMap({ layouts[$0] }),
        before.schema.name.sqliteKey != layout.schema.name.sqliteKey,
        taken.contains(before.schema.name.sqliteKey)
      else { continue }
      var schema = relaxed[layout.id] ?? before.schema
      schema.name = "cairn_moving_\(layout.id)"
      let id = try trail.schemaID(schema, token: layout.token | 1 << 62)
      try append(DDL(action: .rename, before: try relaxedID(layout) ?? schemaID(before), after: id), applied)
      aside[layout.id] = id
    }
    for layout in fresh {
      guard let action = layout.action else { continue }
      let before =
        try aside[layout.id] ?? relaxedID(layout) ?? layout.previous.flatMap { layouts[$0] }.map { try schemaID($0) }
        ?? 0
      let isRefreshed = layout.refresh != nil && !layout.isPartial
      let origins = layout.previous.flatMap { layouts[$0] }.flatMap { layout.origins(from: $0.schema) }
      try append(
        DDL(
          action: action, before: before, after: try schemaID(layout), isRefreshed: isRefreshed, origins: origins),
        applied)
      if layout.isPartial { try refresher.begin(layout, trail) }
    }
    for layout in all {
      if let before = layout.previous.flatMap({ layouts[$0] }), before.since == marker {
        try relax(before, for: layout)
      }
    }
  }

  /// An index that the program dropped no longer held for rows that stand before the marker of that change. So the
  /// target has to drop it before them, as soon as it has the shape before; what else changed follows at the marker.
  ///
  /// Where another run has begun with the look, it has told of it, and the target is as it was told.
  private func announceDroppedIndexes(behind from: Int64) throws {
    relaxed = [:]
    for layout in layouts.values.sorted(by: { $0.id < $1.id }) where layout.since > from {
      guard let before = layout.previous.flatMap({ layouts[$0] }), before.since <= from else { continue }
      try relax(before, for: layout, isTold: position.look.map { layout.since <= $0.through } ?? false)
    }
  }

  /// Whoever dropped an index through the embedded API, or as apply, has put the marker where it happened.
  private func relax(_ before: Layout, for layout: Layout, isTold: Bool = false) throws {
    guard !layout.isExact, let schema = layout.relaxing(before.schema) else { return }
    relaxed[layout.id] = schema
    guard !isTold else { return }
    try openPart()
    let id = try trail.schemaID(schema, token: layout.token | 1 << 61)
    try append(DDL(action: .reshape, before: try schemaID(before), after: id, origins: Array(schema.columns.indices)))
  }

  private func relaxedID(_ layout: Layout) throws -> UInt64? {
    try relaxed[layout.id].map { try trail.schemaID($0, token: layout.token | 1 << 61) }
  }

  private func schemaID(_ layout: Layout) throws -> UInt64 { try trail.schemaID(layout.schema, token: layout.token) }

  private func append(_ ddl: DDL, _ applied: String = "") throws {
    var ddl = ddl
    ddl.applied = applied
    var writer = ByteWriter(capacity: 64)
    writer.append(ddl)
    try trail.append(kind: RecordKind.ddl, writer.bytes)
  }

  private func appendProgress(_ position: SourcePosition) throws {
    var writer = ByteWriter(capacity: 128)
    writer.appendCounted(position.encoded)
    writer.appendZigzag(clock.microseconds())
    try trail.append(kind: RecordKind.progress, writer.bytes)
  }

  // MARK: Schema, loss, mark

  /// Brings the triggers in step with a schema that is not the one we know.
  private func adoptSchema() throws {
    try source.checkOwnTables()
    try checkOwnTablesAreThere()
    let written = try journal.writtenLayouts()
    var doubtful: Set<Int64> = []
    try source.transaction {
      doubtful = try journal.adopt(options.tables, written: written)
      schemaVersion = try Self.scalar(statements.schemaVersion)
    }
    // Whatever changed, it may have been a VACUUM, which gives rows without key other numbers.
    if let refresh = position.refresh,
      layouts[refresh.layout]?.refreshMethod == .whole || doubtful.contains(refresh.layout)
    {
      position.refresh = nil
    }
    reader.mayHaveVacuumed = true
    try reloadLayouts()
    for sentence in try ignored.news(source) { progress.tell(sentence) }
  }

  private func refreshDoubtful() throws {
    guard !doubtful.isEmpty else { return }
    for layout in doubtful { try journal.setRefresh(.lostChanges, layout: layout) }
    doubtful = []
    try reloadLayouts()
  }

  /// The journal reached its cap and dropped rows that had not been taken.
  private func recoverFromLoss() throws {
    let from = position.mark.taken
    progress.tell("the journal of \(path) reached its cap of \(options.journalCapRows) rows: copying all tables again")
    var next = position
    next.look = nil
    relaxed = [:]
    try source.transaction {
      try journal.refreshAll(.lostChanges)
      // Notes are among what was lost.
      for note in try journal.applied(clock) where note.trail != trail.name.description {
        next.knowledge.note(note)
      }
      let last = try journal.place("SELECT max(seq) FROM cairn_journal")
      next.mark = .init(taken: last, nonce: Self.nonce())
      try source.run(
        "UPDATE cairn_control SET taken = ?, nonce = ? WHERE id = 0",
        [.integer(next.mark.taken), .integer(next.mark.nonce)])
    }
    next.previous = marked
    next.refresh = nil
    try reloadLayouts()
    try sourceSync.sync(isWAL: isWAL)
    var header = TransactionHeader(commitTime: clock.microseconds(), flags: [.group, .late])
    header.follow(next.knowledge)
    _ = try trail.begin(header)
    do {
      let places = Set(layouts.values.flatMap { [$0.since, $0.ended.map(abs) ?? 0] })
      for place in places.sorted() where place > from && place <= next.mark.taken { try announce(marker: place) }
      reader.checksum = 0
      next.checksum = 0
      next.previous = next.mark
      try appendProgress(next)
      try trail.commit()
    } catch {
      try? trail.abandon()
      throw error
    }
    _ = try trail.sync()
    position = next
    marked = next.mark
  }

  /// Writes the mark when the program seems to pause, so that no program that writes all the time finds our lock; and
  /// purges then. A program that writes all the time purges by itself, in its triggers.
  private func markIfQuiet() throws {
    guard Clock.monotonicMilliseconds - takenAt >= 100 else { return }
    try markSource(waitMilliseconds: 0)
    try purgeSlice()
  }

  private func markSource(waitMilliseconds: Int32) throws {
    // What a look has still to end, it reads from rows before the mark.
    guard marked != position.mark, position.look == nil else { return }
    try writePatiently(waitMilliseconds) {
      try source.run(
        "UPDATE cairn_control SET taken = ?, nonce = ? WHERE id = 0",
        [.integer(position.mark.taken), .integer(position.mark.nonce)])
      if let bytes = rowBytes.news() {
        try journal.note(rowBytes: bytes, capRows: options.journalCapRows, capBytes: options.journalCapBytes)
      }
      if try source.integer("SELECT 1 FROM cairn_stage LIMIT 1") != nil {
        try source.execute("DELETE FROM cairn_stage")
      }
      marked = position.mark
      reader.checksum = 0
    }
    markedAt = Clock.monotonicMilliseconds
  }

  /// Deletes some 2,000 rows at most, which takes a millisecond or two; the rest follows at the next quiet moment.
  private func purgeSlice() throws {
    let first = try Self.scalar(statements.firstRow)
    guard first > 0, first < marked.taken else { return }
    try writePatiently(0) {
      try source.run(
        "DELETE FROM cairn_journal WHERE seq < ?", [.integer(min(first + 2000, marked.taken))])
    }
  }

  /// A short write transaction; a program that holds the lock goes first.
  private func writePatiently(_ waitMilliseconds: Int32, _ body: () throws -> Void) throws {
    source.setBusyTimeout(milliseconds: waitMilliseconds)
    defer { source.setBusyTimeout(milliseconds: 10_000) }
    let before = (marked, reader.checksum)
    do {
      try source.transaction { try body() }
    } catch let error as SQLiteError where error.isBusy {
      (marked, reader.checksum) = before
    }
  }
}
