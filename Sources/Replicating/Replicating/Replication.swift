import Applying
import Capturing
import Changes
import Conflicts
import Endpoints
import Glibc
import Mapping
import PostgresKit
import SQLiteKit
import Synchronization
import SystemKit
import Trails

/// A replication from one database to another: a capture and an apply, each on its own thread. Two-way replication has
/// a second pair for the opposite direction. Example: `Replication(from: a, to: b, options: .init()) { print($0) }`.
package final class Replication: Sendable {
  /// The settings of one replication. Example: `options.once = true`.
  package struct Options: Sendable {
    package var tables = TablePatterns()
    package var state: String?
    package var existing: ExistingRows?
    package var once = false
    package var journalRows = Journal.defaultCapRows
    package var names = NamePolicy.fold
    package var misfits = MisfitPolicies()
    /// The reaction to schema changes; nil: follow for tables that Cairn created, stop for all others.
    package var ddl: DDLPolicy?
    /// Whether apply writes changed rows, or executes the application's SQL statements again.
    package var replay = ReplayPolicy.rows
    /// The maximum number of bytes of rows per second that an audit reads in both databases together; nil for no audit.
    package var auditBytesPerSecond: Int?
    /// Whether changes of applications in the target are replicated to the source.
    package var isTwoWay = false
    /// Whether two-way SQLite tables may have a foreign key to themselves with ON UPDATE CASCADE.
    package var acceptsMovedKeys = false
    /// The names of the trails from the source and from the target; nil for names made from the databases.
    package var trailNames: (forth: TrailName, back: TrailName)?
    /// Whether a PostgreSQL source also sends rows that other replications write to it.
    package var takesOtherApplies = false
    /// Whether to require that rows which other replications write to the source are sent to the target (`--cascade`).
    /// If those rows would return to the source, true makes the start fail.
    package var cascades = false
    /// Whether capture reduces each reading to its net effect: `forth` at the source, `back` at the target.
    package var folds = (forth: false, back: false)
    /// Whether a refused transaction goes into quarantine. If false, apply stops at that transaction.
    package var quarantines = false
    /// The treatment of applications' changes in the target of a one-way replication.
    package var localWrites = LocalWrites.stop
    /// The rules that resolve conflicts in both directions.
    package var conflicts = ConflictPlan()
    /// Whether this replication may read the trail of another `cairn replicate` that captures the SQLite source.
    package var joinsCapture = false
    package init() {}
  }

  package let source: DatabaseURL
  package let target: DatabaseURL
  package let statePath: String
  package var trail: TrailName { home.withLock { $0.trail } }
  package let captureProgress: CaptureProgress
  package let applyProgress = ApplyProgress()
  /// The audit of this replication; nil if none was requested.
  package let audit: Audit?
  /// The direction from the target to the source; nil in one-way replication.
  package let back: Direction?
  private let twoWay: (source: TwoWay, target: TwoWay)?
  /// The objects that capture and apply share at each database of a two-way replication; nil in one-way replication.
  private let links: (source: CaptureLink, target: CaptureLink)?
  let options: Options
  /// The state folder with the trail from the source. It may belong to another replication of the same file.
  let home: Mutex<CaptureHome>
  /// The signal that stops the capture in this process; nil while another process captures.
  let turn = Mutex<StopSignal?>(nil)
  let stopSignal = StopSignal()
  let drainSignal = StopSignal()
  let readySignal = StopSignal()
  let failure = Mutex<CairnError?>(nil)
  private let running: Atomic<Int>
  let applying: Atomic<Int>
  let copiesAgain = Atomic<Bool>(false)
  let joinable = Atomic<Bool>(false)
  /// Whether rows that other replications write to the source are sent to the target. False if the rows would return to
  /// the source.
  let relays = Atomic<Bool>(false)
  /// The trails of captures that read the target, by the name of their slot.
  private let targetTrails = Mutex<Set<String>>([])
  let asked = Mutex<CopyRequest.Asked?>(nil)
  private let existing = Mutex(ExistingRows.overwrite)

  package init(
    from: DatabaseURL, to: DatabaseURL, options: Options,
    notice: @escaping @Sendable (CaptureProgress.Notice) -> Void
  ) throws {
    (source, target) = (from.canonical, to.canonical)
    self.options = options
    let state = options.state.map { $0.hasPrefix("/") ? $0 : FileIdentity.canonical("./" + $0) }
    statePath = state ?? StateFolder.defaultPath(from: source, to: target)
    let trail = options.trailNames?.forth ?? TrailName(origin: "local", name: source.stem)
    home = Mutex(CaptureHome(place: statePath, trail: trail))
    let ways = options.isTwoWay ? 2 : 1
    running = Atomic(ways * 2)
    applying = Atomic(ways)
    back =
      options.isTwoWay
      ? Direction(
        from: target, to: source,
        trail: options.trailNames?.back ?? TrailName(origin: "remote", name: target.stem), state: statePath,
        notice: notice) : nil
    captureProgress = CaptureProgress(notice: notice)
    for text in Self.notices(source, target, options) { notice(.init(text)) }
    let links = (source: CaptureLink(source), target: CaptureLink(target))
    self.links = back == nil ? nil : links
    let plan = options.conflicts
    let rules: TwoWay.RuleBook = { _, table, columns in plan.rules(forTarget: table, columns: columns) }
    let (tables, acceptsMovedKeys) = (options.tables, options.acceptsMovedKeys)
    twoWay = back.map { [statePath] back in
      let (forth, backwards) = ((trail, "\(statePath)/\(trail)"), (back.trail, back.folder))
      let admitted = AdmittedTables(TargetScope(), names: options.names)
      var limits = TwoWay.Limits()
      limits.movedKeys.areRefusedHere = !acceptsMovedKeys
      limits.movedKeys.refusedTrails = acceptsMovedKeys ? [] : [forth.0, backwards.0]
      return (
        TwoWay(
          own: forth, applied: [(backwards.0, backwards.1, admitted)], captured: tables, copiesRows: true,
          link: links.source, limits: limits, rules: rules),
        TwoWay(
          own: backwards, applied: [(forth.0, forth.1, admitted)], captured: tables, link: links.target,
          limits: limits, rules: rules)
      )
    }
    audit = options.auditBytesPerSecond.map { [source, target, statePath, stopSignal] rate in
      Audit(
        from: .database(source), to: target, statePath: statePath, tables: options.tables, names: options.names,
        bytesPerSecond: rate, stop: stopSignal)
    }
  }

  var folder: String { home.withLock { $0.folder } }
  /// The replications that read the trail from the source; nil if the trail cannot be shared.
  var readers: TrailReaders? {
    guard source.engine == .sqlite, back == nil else { return nil }
    return TrailReaders(home.withLock { $0 }, source: source.place)
  }

  // MARK: Before anything is written

  /// Checks both databases and locks the state folder. Keep the returned object until the replication ends: it holds
  /// the lock.
  package func prepare() throws -> StateFolder {
    let (from, to) = try openEnds()
    try findCapture(from, freesWrites: true)
    if back != nil { try checkTwoWay(from, to) }
    let state = try StateFolder(statePath, from: source.place, to: target.place)
    if back == nil { try lookForWayBack(from, to, state) } else { try nameOtherApplies(from, to) }
    try state.remember(home: home.withLock { $0.place })
    let isNew = try enroll(to)
    do { try prepare(from, to, state) } catch {
      // A replication that has never begun must not keep any of the trail.
      if isNew { try readers?.remove(statePath) }
      throw error
    }
    return state
  }

  private func prepare(_ from: SourceDatabase, _ to: TargetDatabase, _ state: StateFolder) throws {
    let checkpoint = try to.checkpoint(of: trail)
    let info = try Trail.exists(folder: folder) ? Trail.info(folder: folder) : nil
    let remembered = try state.existing
    let isOrdered = options.existing == .overwrite && (info?.lastTransaction ?? 0) > 0
    let plan = StartPlan(
      checkpoint, trail: info.map(StartPlan.Extent.init), request: isOrdered ? .ordered : .none,
      rules: .init(
        existing: options.existing ?? remembered, replacesForeign: options.existing != nil,
        copiesPurged: options.existing != nil))
    if case .refuse(let refusal) = plan { throw error(refusal, checkpoint) }
    // `--existing` also decides about tables that the target knows.
    if plan.proves.contains(.noRows) { try checkExisting(from, to, options.tables) }
    let hasCheckpoint = checkpoint != nil && checkpoint?.trail == info?.id
    for name in try from.unmatched(options.tables) {
      let error = name.error("--tables", at: source.place)
      // In a later run, the table may have been dropped or renamed.
      guard hasCheckpoint || !name.isMistake else { throw error }
      captureProgress.tell("\(error.message); \(error.hint)")
    }
    if !hasCheckpoint { try to.checkFeeders(from.tables(options.tables), of: trail, options.names) }
    if let given = options.existing, given != remembered { try state.remember(given) }
    if back != nil { try state.rememberTwoWay() }
    existing.withLock { $0 = options.existing ?? remembered ?? .overwrite }
    asked.withLock { $0 = nil }
    if let info {
      if case .copyAll(let copy) = plan {
        try askForCopies(from, info, isPurged: copy.isLost)
      } else if let asked = try request.asked(of: info.id) {
        self.asked.withLock { $0 = asked }
      }
      if try relays.load(ordering: .acquiring)
        && RelayedRows.areMissing(in: folder, of: trail, at: source, options.tables)
      {
        captureProgress.tell(RelayedRows.notice(trail, at: source))
        try askForCopies(from, info, isPurged: plan.isLost)
      }
      if hasCheckpoint, !plan.isLost, !copiesAgain.load(ordering: .acquiring) {
        try askForAdded(from, to, info, before: StateFolder.tables(in: statePath))
      }
    }
    // The request is durable by now, so a crash only repeats the copy.
    if plan.forgets, checkpoint != nil { try to.forgetCheckpoint(of: trail) }
    // Do this last: the previous list is needed to find added tables.
    try state.remember(options.tables, options.names)
  }

  private func error(_ refusal: StartPlan.Refusal, _ checkpoint: Checkpoint?) -> CairnError {
    guard refusal == .purged, let checkpoint else {
      return CairnError(
        .checkpointForeign,
        "the target \(target.place) was filled from trail \(trail), which is not in \(statePath)",
        hint: "name that replication's state folder with --state; if it is lost, \(copyingAgain)")
    }
    return CairnError(
      .checkpointForeign,
      "the target \(target.place) continues at \(checkpoint.position), which is purged from trail \(trail)",
      hint: copyingAgain, context: ["trail": trail.description])
  }

  /// Decides whether rows that other replications write to the source are sent to the target.
  private func lookForWayBack(_ from: SourceDatabase, _ to: TargetDatabase, _ state: StateFolder) throws {
    let leadsBack = try to.leadsBack(to: from)
    guard !leadsBack || !options.cascades else {
      throw CairnError(
        .usage,
        "--cascade is refused: another replication sends rows of \(target.place) back to \(source.place)",
        hint: "leave --cascade out, or end the other replication", remedy: .badInput)
    }
    relays.store(!leadsBack, ordering: .releasing)
    let trails = try to.capturedTrails()
    targetTrails.withLock { $0 = trails }
    if try to.isCaptured() {
      try state.checkOneWay()
      captureProgress.tell(
        leadsBack
          ? "the target is also captured; applied rows do not go into that trail, as another replication leads back to the source"
          : "the target is also captured; applied rows go into that trail if that capture includes them")
    }
    guard try !from.appliedTrails().isEmpty else { return }
    captureProgress.tell(
      leadsBack
        ? "rows that other replications write to \(source.place) are not sent to \(target.place), as another replication leads back"
        : "rows that other replications write to \(source.place) are sent to \(target.place) too")
  }

  /// Writes a notice about other replications that write to the source or the target, because their rows are not sent
  /// to the other database.
  private func nameOtherApplies(_ from: SourceDatabase, _ to: TargetDatabase) throws {
    try nameOtherApplies(at: from, source, beside: to, target)
    guard !to.isMissing else { return }
    try nameOtherApplies(at: SourceDatabase(target), target, beside: TargetDatabase(source), source)
  }

  private func nameOtherApplies(
    at end: SourceDatabase, _ here: DatabaseURL, beside other: TargetDatabase, _ there: DatabaseURL
  ) throws {
    guard try !end.appliedTrails().isSubset(of: other.capturedTrails()) else { return }
    captureProgress.tell(
      "rows that other replications write to \(here.place) are not sent to \(there.place), as both ends take writes: replicate them from their source to \(there.place) directly"
    )
  }

  var request: CopyRequest { CopyRequest(state: statePath, apply: trail.description) }

  /// Requests a refresh of all tables. Apply then skips each table's changes until its refresh begins.
  private func askForCopies(_ from: SourceDatabase, _ info: TrailInfo, isPurged: Bool) throws {
    try readers?.ask(options.tables, for: statePath)
    var asked = CopyRequest.Asked(info)
    if !isPurged { asked.at = nil }
    try request.note(asked, of: info.id)
    self.asked.withLock { $0 = asked }
    copiesAgain.store(true, ordering: .releasing)
  }

  /// Checks the source and the target, and that an initial load would overwrite no rows. Writes nothing.
  package func checkTarget(_ patterns: TablePatterns) throws -> TargetDatabase {
    let (from, to) = try openEnds()
    try findCapture(from)
    if try to.checkpoint(of: trail) == nil { try checkExisting(from, to, patterns) }
    return to
  }

  private func openEnds() throws -> (SourceDatabase, TargetDatabase) {
    guard source != target else { throw Ends.same(source.place) }
    let from = try SourceDatabase(source)
    let to = try TargetDatabase(target)
    guard try !to.isSame(as: from) else { throw Ends.same(source.place) }
    return (from, to)
  }

  private func checkExisting(_ from: SourceDatabase, _ to: TargetDatabase, _ patterns: TablePatterns) throws {
    try to.checkHoldsNothingElse(from, patterns, options.names)
  }

  // MARK: Running

  /// Starts all workers.
  /// - Parameter ended: Called on a worker's thread when that worker has ended.
  /// - Throws: `io-failed` if the process cannot start more threads; then no worker runs.
  package func start(ended: @escaping @Sendable () -> Void) throws -> [WorkerThread<Void>] {
    var bodies: [@Sendable () throws -> Void] = [{ try self.capture() }, { try self.apply() }]
    if let back {
      bodies = [
        { try self.hinting(at: self.source) { try self.capture() } },
        { try self.finishing { try self.hinting(at: self.target) { try self.apply() } } },
        { try self.hinting(at: self.target) { try self.captureBack(back) } },
        { try self.finishing { try self.hinting(at: self.source) { try self.applyBack(back) } } },
      ]
    }
    var workers: [WorkerThread<Void>] = []
    do {
      for body in bodies {
        workers.append(try WorkerThread({ self.work(body) }, finished: { self.end(ended) }))
      }
      if let back, options.once { workers.append(try WorkerThread { self.drainOnceCaughtUp(back) }) }
      if let audit { workers.append(try WorkerThread { audit.run { self.applyProgress.snapshot.isCaughtUp } }) }
    } catch {
      stop()
      for worker in workers { _ = worker.join() }
      throw error
    }
    return workers
  }

  package var isRunning: Bool { running.load(ordering: .acquiring) > 0 }
  package var error: CairnError? { failure.withLock { $0 } }

  /// Stops all workers at the next transaction boundary.
  package func stop() {
    stopSignal.set()
    // Apply waits for the drain signal.
    drainSignal.set()
    turn.withLock { $0 }?.set()
  }

  private func end(_ ended: @Sendable () -> Void) {
    running.subtract(1, ordering: .acquiringAndReleasing)
    ended()
  }

  private func capture() throws {
    defer {
      // In two-way replication, the capture of the target may still have changes to read.
      if back == nil || stopSignal.isSet { drainSignal.set() }
      readySignal.set()
    }
    var run = CaptureRun(source, trail: trail, folder: folder, place: home.withLock { $0.place })
    run.tables = options.tables
    run.journalRows = options.journalRows
    run.copiesAgain = copiesAgain.load(ordering: .acquiring)
    run.link = links?.source
    run.goesBothWays = back != nil
    run.applies = applies
    run.relays = relays.load(ordering: .acquiring)
    run.folds = options.folds.forth
    if let readers { return try capture(run, readers) }
    do {
      try run.run(stop: stopSignal, untilCaughtUp: options.once && back == nil, progress: captureProgress) {
        if back == nil { RelayedRows.note(run.relays, in: folder) }
        readySignal.set()
      }
    } catch  where captureProgress.snapshot.endedBesidesTables {
      // Apply still has to apply the rows of the other tables.
      note(error)
    }
  }

  private func apply() throws {
    while !readySignal.isSet { _ = readySignal.wait(milliseconds: 1000) }
    // Wait for the capture of the target: it must record all changes that applications make to a new table.
    if let back { while !back.ready.isSet { _ = back.ready.wait(milliseconds: 1000) } }
    if stopSignal.isSet { return }
    // Only now is it certain that the copies will be made.
    if copiesAgain.load(ordering: .acquiring) { try TargetDatabase(target).expectRefresh(of: trail) }
    var options = applyOptions(applyProgress)
    options.existing = existing.withLock { $0 }
    if options.relays, Trail.exists(folder: folder) {
      // Trail names come from file names here, so two of them may be equal.
      let id = try Trail.info(folder: folder).id
      options.originName = TrailName(origin: PostgresSource.name(of: id), name: trail.name)
      options.ownOrigins = targetTrails.withLock { $0 }
    }
    let asked = asked.withLock { $0 }
    (options.askedBehind, options.askedAt) = (asked?.behind ?? 0, asked?.at)
    options.existingHolds = asked?.at != nil
    if let readers { share(&options, with: readers) }
    if let twoWay {
      options.twoWay = twoWay.target
      options.alsoNeeded = { [trail] in try twoWay.source.window.needs()[trail] }
    }
    let run = ApplyRun(target, trail: trail, folder: folder, options: options)
    defer { applyEnded() }
    try run.run(stop: stopSignal, drain: drainSignal, progress: applyProgress)
  }

  private func applyOptions(_ progress: ApplyProgress) -> ApplyOptions {
    var options = ApplyOptions()
    // The operator knows which tables the option leaves out.
    options.noteLeftOut = { if $0.isReserved { progress.note("table \($0.name) is left out: \($0.reason(""))") } }
    options.purgesTrail = true
    options.names = self.options.names
    options.misfits = self.options.misfits
    options.ddl = self.options.ddl
    options.scope.listed = self.options.tables
    (options.replay, options.statements.mark) = (self.options.replay, "\(statePath)/\(trail).statement")
    options.localWrites = LocalWritesPlan(self.options.localWrites)
    options.quarantines = self.options.quarantines
    options.relays = relays.load(ordering: .acquiring)
    return options
  }

  /// The trails whose transactions capture skips after apply has written them to the source; nil for all trails.
  private var applies: Set<String>? {
    options.takesOtherApplies ? Set([trail, back?.trail].compactMap { $0?.description }) : nil
  }

  // MARK: The way back

  /// Captures the target for the opposite direction. Capture must start before apply creates tables, because
  /// applications may write to them at once.
  private func captureBack(_ back: Direction) throws {
    defer { back.ready.set() }
    // The list of tables of a PostgreSQL capture must be separate from the list of the other capture.
    let place = back.source.engine == .postgres ? back.folder : statePath
    var run = CaptureRun(back.source, trail: back.trail, folder: back.folder, place: place)
    run.tables = options.tables
    run.needsTables = false
    run.journalRows = options.journalRows
    run.copiesRows = false
    run.link = links?.target
    run.goesBothWays = true
    run.applies = applies
    run.folds = options.folds.back
    if case .sqlite(let path) = back.source { try SQLiteApply.makeFile(path) }
    try run.run(stop: stopSignal, untilCaughtUp: false, progress: back.captureProgress) { back.ready.set() }
  }

  private func applyBack(_ back: Direction) throws {
    defer { applyEnded() }
    while !back.ready.isSet, !drainSignal.isSet { _ = back.ready.wait(milliseconds: 100) }
    if stopSignal.isSet || !back.ready.isSet { return }
    var options = applyOptions(back.applyProgress)
    if let twoWay {
      options.twoWay = twoWay.source
      options.alsoNeeded = { try twoWay.target.window.needs()[back.trail] }
    }
    try ApplyRun(back.target, trail: back.trail, folder: back.folder, options: options)
      .run(stop: stopSignal, drain: drainSignal, progress: back.applyProgress)
  }
}
