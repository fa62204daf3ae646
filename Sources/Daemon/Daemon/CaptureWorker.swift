import Applying
import Capturing
import Changes
import Configuring
import ControlAPI
import Deploying
import Endpoints
import Replicating
import ServiceKit
import Synchronization
import SystemKit
import Trails

/// The worker that captures a database into its trail.
final class CaptureWorker: Worker {
  let name: WorkerName
  private let capture: Configuration.Capture
  private let database: Configuration.Database
  private let context: ServiceContext
  let progress: CaptureProgress
  private let sight: Mutex<Sight>

  init(
    _ name: WorkerName, _ capture: Configuration.Capture, _ database: Configuration.Database, _ context: ServiceContext
  ) {
    (self.name, self.capture, self.database, self.context) = (name, capture, database, context)
    let log = context.log
    sight = Mutex(Sight(now: Clock.system.microseconds()))
    progress = CaptureProgress { notice in
      log.write(LogEntry(.notice, notice.text, worker: name.description))
    }
  }

  private var trail: TrailName { TrailName(origin: context.node, name: capture.name) }

  func run(stop: StopSignal) throws {
    let folder = context.folder(of: trail)
    var run = CaptureRun(try database.location().canonical, trail: trail, folder: folder, place: folder)
    if let notice = run.source.trustNotice { context.log.write(LogEntry(.warning, notice, worker: name.description)) }
    run.tables = TablePatterns(capture.tables)
    run.journalRows = Int64(capture.journalRows)
    run.statements = capture.statements
    run.copiesRows = capture.copiesRows
    run.transactionBytesMax = context.configuration.limits.diskBytes.map { UInt64(clamping: $0) }
    run.relays = context.configuration.handsOn(capture)
    run.goesBothWays = context.configuration.goesBothWays(capture)
    let applies = context.configuration.applies.filter { $0.database == capture.database }
    if let skew = applies.map(\.maxClockSkew.milliseconds).max() { run.skewMicrosecondsMax = skew * 1000 }
    if let line = context.configuration.lineOnApplied(capture) { context.tell(name, line) }
    if mayMissWrites { context.tell(name, SQLiteCapture.unseenNotice) }
    // Without copies, apply creates the tables, and capture reads what applications write to them from the start.
    run.needsTables = capture.copiesRows
    if !capture.copiesRows, case .sqlite(let path) = run.source, !Trail.exists(folder: folder) {
      try SQLiteApply.makeFile(path)
    }
    run.link = context.twoWays.link(to: capture, at: run.source)
    if run.relays, try RelayedRows.areMissing(in: folder, of: trail, at: run.source, run.tables) {
      try CopyRequest.askCapture(folder)
      context.tell(name, RelayedRows.notice(trail, at: run.source))
    }
    run.copiesAgain = CopyRequest.isAskedOfCapture(folder)
    // If nothing was captured yet, the first copy answers the request.
    if run.copiesAgain, Trail.exists(folder: folder) { try SourceDatabase(run.source).askForRefresh() }
    context.opened(trail, false)
    run.opened = { [context, trail] in context.opened(trail, true) }
    progress.forgetConnection()
    defer { sight.withLock { $0.isOpen = false } }
    do {
      try refuseSlips(at: run.source, folder)
      try context.alone(name, at: DatabaseIdentity(run.source).map { .capture($0) }) {
        try run.run(stop: stop, untilCaughtUp: false, progress: progress) {
          if case .postgres = run.source { try? LeftSlot.note(source: database.url, folder: folder) }
          sight.withLock { $0.isOpen = true }
          if run.copiesAgain { CopyRequest.settleCapture(folder) }
          RelayedRows.note(run.relays, in: folder)
          ListedTables.note(capture.tables, in: folder)
          tellUnhooked(run.source)
          tellUnmatched(run.source)
        }
      }
    } catch let error as CairnError {
      throw error.hinted(for: name, trail: folder, copyBack: context.configuration.copyBack(into: capture))
    }
  }

  // Changes of tables that `cairn unhook` has switched off do not reach targets until `cairn rehook`.
  private func tellUnhooked(_ source: DatabaseURL) {
    guard case .sqlite(let path) = source,
      let names = try? Journal(Ends.open(path, mode: .readOnly)).unhooked(), !names.isEmpty
    else { return }
    context.log.write(
      LogEntry(
        .warning, "capture is off: writes to \(names.joined(separator: ", ")) reach no target",
        worker: name.description, hint: "run 'cairn rehook \(database.name)' after the schema change"))
  }

  // With a misspelled `!secrt`, capture would send a table that the operator meant to exclude; with `itme`, not send one.
  // A name that was in the list before is only logged, as its table may have been dropped since. An apply may still create
  // a table that is to be sent.
  private func refuseSlips(at source: DatabaseURL, _ folder: String) throws {
    let names = TablePatterns(capture.tables).patterns
    let known = Trail.exists(folder: folder) ? ListedTables.read(in: folder)?.patterns ?? names : []
    let added = names.filter { name in !known.contains { $0.hasSameBytes(as: name) } }
    guard added.contains(where: { !TablePatterns.isPattern($0) }) else { return }
    let unmatched = try SourceDatabase(source).unmatched(TablePatterns(added))
    let mistakes = unmatched.filter(\.isMistake)
    guard !mistakes.isEmpty else { return }
    let coming = TablesToCome(context.configuration, in: capture.database)
    guard let slip = mistakes.first(where: { $0.isExclusion || !coming.mayHave($0.name) }) else { return }
    throw slip.error(listName, at: source.place)
  }

  private var listName: String { "'tables' of [capture.\(capture.name)]" }

  // The table may be created later, or its name may be misspelled.
  private func tellUnmatched(_ source: DatabaseURL) {
    for name in (try? SourceDatabase(source).unmatched(TablePatterns(capture.tables))) ?? [] {
      let error = name.error(listName, at: source.place)
      context.log.write(
        LogEntry(.warning, error.message, worker: self.name.description, code: error.code, hint: error.hint))
    }
  }

  /// Whether capture may miss writes of programs that switch triggers off: the source is an SQLite file, and no apply
  /// here audits the trail.
  private var mayMissWrites: Bool {
    guard case .sqlite? = try? database.location() else { return false }
    return context.configuration.isUnaudited(capture)
  }

  func describe(_ status: inout NodeStatus.Worker) {
    let now = progress.snapshot
    status.trail = trail.description
    status.place = (try? database.location().place) ?? ""
    (status.rows, status.transactions) = (now.changes + now.rowsCopied, now.transactions)
    status.position = now.position == .start ? "" : now.position.description
    context.note(end: now.position, tablesToCopy: now.tablesToCopy, of: trail)
    status.lags = now.lags
    status.lastChangeAt = now.lastCommitTime > 0 ? now.lastCommitTime : nil
    let moment = Clock.system.microseconds()
    let blind = sight.withLock { $0.blindMicroseconds(isConnected: !now.isReconnecting, now: moment) }
    status.lagMilliseconds =
      blind.map { Double($0) / 1000 }
      ?? CurrentLag.milliseconds(
        commitTime: now.lastCommitTime, tookMicroseconds: now.lagMicroseconds, isBehind: false, now: moment)
    status.isCaughtUp = now.isCaughtUp && blind == nil
    var lines = [context.configuration.lineOnApplied(capture)].compactMap { $0 }
    if mayMissWrites { lines.append("no audit: writes with triggers switched off may stay unnoticed") }
    if !lines.isEmpty { status.detail = ([status.place] + lines).joined(separator: "; ") }
    if let copying = now.copying, now.tablesToCopy > 0 { status.detail = "copies table \(copying.table)" }
    status.waits = now.waits.map { .init($0.table, $0.code, $0.message, hint: $0.hint) }
    if let table = now.waits.first { status.detail = "table \(table.table) is suspended: \(table.message)" }
    if now.isReconnecting, status.state == .running {
      status.state = .waiting
      status.detail = "waits for the server of \(status.place)"
    }
  }
}

/// Measures for how long a capture has not been able to read its source.
struct Sight: Equatable, Sendable {
  var isOpen = false
  private var seenAt: Int64

  init(now: Int64) { seenAt = now }

  /// Returns how long the capture has not been able to read its source, in µs; nil if it can read now.
  ///
  /// - Parameter now: The time of day in µs.
  mutating func blindMicroseconds(isConnected: Bool, now: Int64) -> Int64? {
    guard isOpen, isConnected else { return max(0, now - seenAt) }
    seenAt = now
    return nil
  }
}

extension NodeStatus.Wait {
  /// Creates the entry with texts of at most 4 KiB each.
  init(_ table: String, _ code: ErrorCode, _ message: String, hint: String) {
    self.init(table: table.cutMessage, code: code.rawValue, message: message.cutMessage, hint: hint.cutMessage)
  }
}
