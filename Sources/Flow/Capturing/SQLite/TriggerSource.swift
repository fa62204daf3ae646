import Changes
import CodecKit
import SQLiteKit
import SystemKit
import Trails

/// Finds the changes of an SQLite file by triggers, which write them into a journal
/// (`docs/explanation/sqlite-capture.md`). ``LookWriter`` writes the changes to the trail.
final class TriggerSource: ChangeSource {
  struct Look: ChangeLook {
    let readAt: Int64
    let begun: Int64
    fileprivate let from: Int64
    fileprivate let through: Int64
    /// The last journal row in the snapshot.
    fileprivate let last: Int64
    /// The journal row after which this reading began. It is before `from` if the trail already has a part of the
    /// reading.
    fileprivate let begin: Int64
  }

  /// The shortest time between two transactions of the trail that contain only applied notes, ms.
  private static let notesMilliseconds: Int64 = 1000
  /// The shortest time, under load, between two writes of the last captured journal row into the source, ms.
  private static let markMilliseconds: Int64 = 5000
  private static let quietMilliseconds: Int64 = 100

  private let path: String
  private let trail: TrailWriter
  private let options: SQLiteCapture.Options
  private let clock: Clock
  private let progress: CaptureProgress
  private let source: Database
  private let journal: Journal
  private let sourceSync: SourceSync
  private let writer: LookWriter
  private let isWAL: Bool
  private let statements: Statements
  private var schemaVersion: Int64
  private var markedAt = Clock.monotonicMilliseconds
  private var takenAt = Clock.monotonicMilliseconds
  /// The last journal row that capture has seen. Up to that row, the trail lacks at most applied notes.
  private var seenThrough: Int64 = 0
  var takesNotesAtOnce = false
  private var ignored: IgnoredObjects
  private var hasLostRows = false
  private var unseenWrites = UnseenWrites()
  /// Whether capture holds the lock that keeps two-way applies from writing.
  private var hasTurn = false
  /// Whether the next reading needs table rows, and so the lock that keeps two-way applies from writing.
  private var wantsTurn = false
  /// The pause before another attempt to take the lock that keeps two-way applies from writing, ms.
  private static let turnMilliseconds = 2

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

  /// Opens the source, adds missing triggers and tables, and checks that the source has everything that the trail has.
  init(
    path: String, trail: TrailWriter, options: SQLiteCapture.Options, clock: Clock, progress: CaptureProgress
  ) throws {
    (self.path, self.trail, self.options, self.clock, self.progress) = (path, trail, options, clock, progress)
    let source = try Database(path: path)
    let journal = Journal(source)
    (self.source, self.journal) = (source, journal)
    sourceSync = SourceSync(path: path)
    try source.executeScript("PRAGMA recursive_triggers = OFF; PRAGMA foreign_keys = OFF")
    isWAL = try source.text("PRAGMA journal_mode") == "wal"
    // In WAL mode a commit of ours need not be synced: what must be durable is synced by itself.
    try source.execute("PRAGMA synchronous = \(isWAL ? "NORMAL" : "FULL")")
    source.setTriggersEnabled(false)
    source.forbidForeignCode()
    try source.watchText()
    try source.checkOwnTables()
    try source.checkOwnSizes()
    let stored = try trail.lastHeader.map { try SourcePosition(decoding: $0.sourcePosition) }
    let position = stored ?? Self.fresh()
    if try stored != nil || journal.isInstalled() { try journal.checkTables() }
    try Self.checkOwner(journal, trail: trail, options: options)
    let isFirst = stored == nil
    // A capture that ended before its first transaction has a journal with the tables that were there at its start.
    let isBegun = try !isFirst || journal.owner()?.trail == trail.id
    let written = try journal.isInstalled() ? journal.writtenLayouts() : nil
    var (doubtful, adopted): (Set<Int64>, Int64) = ([], -1)
    try source.transaction {
      if try !journal.isInstalled() {
        guard isFirst else { throw SQLiteCapture.wentBack(path, "its journal is gone") }
        try journal.install(
          trail: trail.id, place: options.place, capRows: options.journalCapRows, mark: position.mark,
          tables: options.tables)
      }
      if try journal.isUnclaimed() {
        guard isFirst else { throw SQLiteCapture.wentBack(path, "its journal is new, and belongs to no trail") }
        try journal.claim(trail: trail.id, place: options.place, copiesRows: options.copiesRows)
      }
      // Another capture may have been installed since the check before this transaction.
      if let owner = try journal.owner(), owner.trail != trail.id { throw Self.captured(path, owner.place) }
      try journal.upgrade(capRows: options.journalCapRows, clock)
      try journal.remember(options.tables)
      try journal.setRelay(options.relays)
      // Rows of a table that comes later were written before its triggers existed.
      doubtful = try journal.adopt(
        options.tables, written: written, copies: options.copiesRows || isBegun ? .all : .none)
      // If all tables were dropped, the trail must record that; if the patterns select none, that is a mistake.
      let isEmptied = try !isFirst && !source.userTables().contains { $0.refusal == nil }
      guard try !options.needsTables || isEmptied || !journal.activeLayouts().isEmpty else {
        throw CairnError(
          .noTables, "\(path) has no table that can be captured",
          hint: "create a table first, or check the patterns of 'tables' (--tables)", remedy: .badInput)
      }
      // Within the transaction: a program may change the schema right after it.
      adopted = try source.integer("PRAGMA schema_version") ?? -1
    }
    schemaVersion = adopted
    statements = try Statements(source)
    ignored = try IgnoredObjects(source)
    writer = LookWriter(
      path: path, source: source, journal: journal, trail: trail, options: options, clock: clock, progress: progress,
      position: position)
    try resume(isFirst: isFirst)
    if writer.position.knowledge.hasUnnamed { try writer.position.knowledge.name(by: journal.applied(clock)) }
    try writer.reloadLayouts()
    forgetFinishedRefresh()
    writer.forgetRefresh(of: doubtful)
    writer.noteSchemaChange()
    writer.rowBytes.noted = try journal.rowBytes()
    for table in try source.userTables() where options.tables.includes(table.name) {
      if let refusal = table.refusal { progress.tell("table \(table.name) is not captured: \(refusal)") }
    }
    if isFirst { for notice in try StartNotices.of(source) { progress.tell(notice) } }
  }

  private static func fresh() -> SourcePosition {
    let mark = SourcePosition.Mark(taken: 0, nonce: SourcePosition.Mark.nonce())
    return SourcePosition(mark: mark, previous: mark, checksum: 0)
  }

  /// Throws `source-captured` if the journal belongs to a trail in another folder. If it belongs to an earlier trail in
  /// the same folder, removes the journal, unless the present trail has begun.
  private static func checkOwner(_ journal: Journal, trail: TrailWriter, options: SQLiteCapture.Options) throws {
    guard let owner = try journal.owner(), owner.trail != trail.id else { return }
    if owner.place == options.place, !owner.place.isEmpty {
      guard trail.lastHeader == nil else {
        throw SQLiteCapture.wentBack(journal.database.path, SQLiteCapture.otherState)
      }
      return try journal.uninstall()
    }
    throw captured(journal.database.path, owner.place)
  }

  private static func captured(_ path: String, _ place: String) -> CairnError {
    CairnError(
      .sourceCaptured, "\(path) is already captured into another trail, kept in \(place)",
      hint:
        "if that is the replication between these two databases, run with --state \(place.shellArgument); else run 'cairn detach \("sqlite:\(path)".shellArgument)' first"
    )
  }

  /// Continues the trail from the journal. Throws `source-went-back` if the file does not fit the trail, such as a
  /// restored backup.
  ///
  /// The file records the last captured journal row. The trail must end at that row, or at a later row of the same
  /// journal.
  private func resume(isFirst: Bool) throws {
    guard let marked = try SourcePosition.Mark(of: source) else {
      throw SQLiteCapture.wentBack(path, "its table cairn_control is empty, or holds what Cairn did not write")
    }
    // If the trail is empty, an earlier run created the journal and ended before its first transaction.
    guard !isFirst else { return writer.begin(at: marked) }
    switch try SourceStanding(source, marked: marked, writer.position) {
    case .atMark: writer.resume(marked: marked)
    case .behind(let checksum): writer.resume(marked: marked, checksum: checksum)
    case .lostRows:
      writer.resume(marked: marked)
      hasLostRows = true
    case .other(let how): throw SQLiteCapture.wentBack(path, how)
    }
  }

  /// Drops a refresh after a restart if it is done or was requested, or if its layout has ended or has no key.
  private func forgetFinishedRefresh() {
    guard let refresh = writer.position.refresh else { return }
    // A finished copy that is still wanted was requested again, or its end was not stored before a crash.
    if refresh.isDone {
      writer.position.refresh = nil
    } else if writer.layouts[refresh.layout].map({
      $0.ended != nil || $0.refreshMethod == .whole || $0.refresh == .asked
    })
      ?? true
    {
      writer.position.refresh = nil
    }
  }

  // MARK: Looking

  func begin() throws { if hasLostRows { try recoverFromLoss() } }

  func look() throws -> Found<Look> {
    if wantsTurn, !takeTurn() { return .settled }
    _ = try statements.begin.step()
    var isOpen = true
    defer { if isOpen { try? source.execute("ROLLBACK") } }
    func endRead() throws {
      isOpen = false
      _ = try statements.commit.step()
    }
    let version = try Self.scalar(statements.schemaVersion)
    guard version == schemaVersion else {
      // The triggers are adapted before rows are read: rows of this snapshot may already be of another shape.
      try endRead()
      try adoptSchema()
      return .settled
    }
    let last = try Self.scalar(statements.lastRow)
    try checkMark(last: last)
    let from = writer.position.mark.taken
    seenThrough = last
    let readsTables = try writer.readsTables(last: last)
    if readsTables, !mayReadTables {
      // The snapshot from which tables are read must begin while the lock against two-way applies is held.
      try endRead()
      wantsTurn = true
      return .settled
    }
    let through = readsTables || untilNotesAreTaken == 0 ? last : try lastChange(behind: from)
    guard through > from || readsTables else {
      let unseen = try findUnseenWrites(last: last)
      try endRead()
      guard !unseen.isEmpty else { return .nothing }
      try copyUnseen(unseen)
      return .settled
    }
    let begin = writer.position.look?.from ?? from
    if last > begin, try Self.scalar(statements.firstRow) > begin + 1 {
      try endRead()
      try recoverFromLoss()
      return .settled
    }
    try sourceSync.sync(isWAL: isWAL)
    isOpen = false
    return .found(
      Look(
        readAt: clock.microseconds(), begun: Clock.monotonicMicroseconds, from: from, through: through, last: last,
        begin: begin))
  }

  func write(_ look: Look, stop: StopSignal) throws {
    var isOpen = true
    defer { if isOpen { try? source.execute("ROLLBACK") } }
    do {
      try writer.write(
        from: look.from, through: look.through, last: look.last, begin: look.begin, readAt: look.readAt,
        mayReadTables: mayReadTables, stop: stop)
    } catch is LookWriter.NeedsTurn {
      writer.release()
      wantsTurn = true
    }
    isOpen = false
    _ = try statements.commit.step()
  }

  func finish(_ look: Look) throws {
    // Some journal rows do not show which row they change. They are left out, so a copy of their table must follow.
    guard writer.doubtful.isEmpty else { return try writer.refreshDoubtful() }
    takenAt = Clock.monotonicMilliseconds
    writer.finishLook()
    if wantsTurn { try writer.reloadLayouts() }
    if let refresh = writer.position.refresh, refresh.isDone {
      if let layout = writer.layouts[refresh.layout] { try journal.finishRefresh(layout) }
      try writer.reloadLayouts()
      writer.position.refresh = nil
    }
    if takenAt - markedAt > Self.markMilliseconds { try markSource(waitMilliseconds: 5) }
  }

  func endLook() {
    guard hasTurn else { return }
    hasTurn = false
    options.turns?.unlock(.reader)
  }

  private var mayReadTables: Bool { hasTurn || options.turns == nil }

  /// Tries to take the lock that keeps two-way applies from writing. If an apply holds it, waits 2 ms and returns
  /// false.
  private func takeTurn() -> Bool {
    hasTurn = options.turns?.tryLock(.reader) ?? true
    if !hasTurn { Clock.sleep(milliseconds: Self.turnMilliseconds) }
    wantsTurn = !hasTurn
    return hasTurn
  }

  func hasNews() throws -> Bool {
    if try Self.scalar(statements.schemaVersion) != schemaVersion { return true }
    return try Self.scalar(statements.lastRow) > max(writer.position.mark.taken, seenThrough)
  }

  var idleMilliseconds: Int32 { min(writer.isMarked ? .max : 100, untilNotesAreTaken) }

  /// The time until the last journal rows must go into the trail, if they are only applied notes, ms.
  private var untilNotesAreTaken: Int32 {
    guard seenThrough > writer.position.mark.taken else { return .max }
    return takesNotesAtOnce
      ? 0 : Int32(clamping: max(0, takenAt + Self.notesMilliseconds - Clock.monotonicMilliseconds))
  }

  /// If nothing was captured for 100 ms, stores the last captured journal row in the source and purges a part of the
  /// journal.
  func rest() throws {
    guard Clock.monotonicMilliseconds - takenAt >= Self.quietMilliseconds else { return }
    try markSource(waitMilliseconds: 0)
    try purgeSlice()
  }

  func release() { writer.release() }

  func end() throws { try markSource(waitMilliseconds: 2000) }

  /// Throws `source-went-back` if an application dropped Cairn's tables. In that case, first removes the triggers.
  func checkParts() throws {
    try journal.checkTables()
    guard try journal.isInstalled() else { throw SQLiteCapture.wentBack(path, "Cairn was detached from it meanwhile") }
  }

  private static func scalar(_ statement: Statement) throws -> Int64 {
    defer { statement.reset() }
    return try statement.step() ? statement.integer(0) : 0
  }

  /// Returns the last journal row after `from` that is not an applied note; `from` if there is none.
  private func lastChange(behind from: Int64) throws -> Int64 {
    defer { statements.lastChange.reset() }
    try statements.lastChange.bind([.integer(from)])
    return try statements.lastChange.step() ? statements.lastChange.integer(0) : from
  }

  private func findUnseenWrites(last: Int64) throws -> [CaptureInstance] {
    // A table whose capture is stopped (`unhook`) is copied after `rehook`, and may have other columns until then.
    let unhooked = Set(try journal.unhooked().map(\.sqliteKey))
    let active = writer.layouts.values.filter { $0.ended == nil && !unhooked.contains($0.schema.name.sqliteKey) }
    guard writer.position.refresh == nil, active.allSatisfy({ $0.refresh == nil }) else {
      unseenWrites.forget()
      return []
    }
    return try unseenWrites.find(
      source, active.sorted { $0.id < $1.id }, last: last, schema: schemaVersion,
      idle: Clock.monotonicMilliseconds - takenAt, isWAL: isWAL)
  }

  private func copyUnseen(_ unseen: [CaptureInstance]) throws {
    let names = unseen.map(\.schema.name).joined(separator: ", ")
    progress.tell(
      "writes-unseen: an application wrote to \(names) of \(path) without firing a trigger, by blob I/O or with triggers switched off: copying the rows that differ; see 'What is not captured' in docs/explanation/sqlite-capture.md"
    )
    try source.transaction { for layout in unseen { try journal.setRefresh(.lostChanges, layout: layout.id) } }
    unseenWrites.forget()
    try writer.reloadLayouts()
  }

  /// Throws `source-went-back` if the source no longer stores the last captured journal row as capture wrote it. Also
  /// throws if its journal ends before the trail does.
  private func checkMark(last: Int64) throws {
    defer { statements.mark.reset() }
    guard try statements.mark.step(), statements.mark.integer(0) == writer.marked.taken,
      statements.mark.integer(1) == writer.marked.nonce, last >= writer.position.mark.taken,
      SourcePosition.places.contains(last)
    else {
      throw SQLiteCapture.wentBack(path, "another program changed its mark or its journal")
    }
  }

  // MARK: Schema, loss, mark

  private func adoptSchema() throws {
    try source.checkOwnTables()
    try checkParts()
    let written = try journal.writtenLayouts()
    var doubtful: Set<Int64> = []
    try source.transaction {
      doubtful = try journal.adopt(options.tables, written: written)
      schemaVersion = try Self.scalar(statements.schemaVersion)
    }
    writer.forgetRefresh(of: doubtful, orWhole: true)
    writer.noteSchemaChange()
    try writer.reloadLayouts()
    for sentence in try ignored.news(source) { progress.tell(sentence) }
  }

  /// Schedules refreshes of all tables, because the journal reached its size limit and dropped rows that the trail
  /// lacks.
  private func recoverFromLoss() throws {
    let from = writer.position.mark.taken
    progress.tell("the journal of \(path) is full (\(options.journalCapRows.counted("row"))): copying all tables again")
    var next = writer.position
    next.look = nil
    try source.transaction {
      try journal.refreshAll(.lostChanges)
      // The lost rows may include notes of applies.
      for note in try journal.applied(clock) where note.trail != trail.name.description {
        next.knowledge.note(note)
      }
      let last = try journal.place("SELECT max(seq) FROM cairn_journal")
      next.mark = .init(taken: last, nonce: SourcePosition.Mark.nonce())
      try source.run(
        "UPDATE cairn_control SET taken = ?, nonce = ? WHERE id = 0",
        [.integer(next.mark.taken), .integer(next.mark.nonce)])
    }
    next.previous = writer.marked
    next.refresh = nil
    try writer.reloadLayouts()
    try sourceSync.sync(isWAL: isWAL)
    try writer.recover(to: next, from: from)
  }

  private func markSource(waitMilliseconds: Int32) throws {
    // A reading of the source that is not complete reads its first rows again.
    guard !writer.isMarked, writer.position.look == nil else { return }
    try writePatiently(waitMilliseconds) {
      try source.run(
        "UPDATE cairn_control SET taken = ?, nonce = ? WHERE id = 0",
        [.integer(writer.position.mark.taken), .integer(writer.position.mark.nonce)])
      if let bytes = writer.rowBytes.news() {
        try journal.note(rowBytes: bytes, capRows: options.journalCapRows, capBytes: options.journalCapBytes)
      }
      if try source.integer("SELECT 1 FROM cairn_stage LIMIT 1") != nil {
        try source.execute("DELETE FROM cairn_stage")
      }
      writer.noteMarked()
    }
    markedAt = Clock.monotonicMilliseconds
  }

  private func purgeSlice() throws {
    let first = try Self.scalar(statements.firstRow)
    guard first > 0, first < writer.marked.taken else { return }
    try writePatiently(0) {
      try source.run(
        "DELETE FROM cairn_journal WHERE seq < ?", [.integer(min(first + 2000, writer.marked.taken))])
    }
  }

  /// Runs `body` in a short write transaction. If an application holds the file's lock for `waitMilliseconds`, writes
  /// nothing.
  private func writePatiently(_ waitMilliseconds: Int32, _ body: () throws -> Void) throws {
    source.setBusyTimeout(milliseconds: waitMilliseconds)
    defer { source.setBusyTimeout(milliseconds: 10_000) }
    let before = writer.standing
    do {
      try source.transaction { try body() }
    } catch let error as SQLiteError where error.isBusy {
      writer.standing = before
    }
  }
}

extension SourcePosition.Mark {
  /// Returns a random number, which the source stores with the last captured journal row.
  static func nonce() -> Int64 { randomBytes(8).withUnsafeBytes { $0.loadUnaligned(as: Int64.self) } }
}
