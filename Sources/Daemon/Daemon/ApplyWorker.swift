import Applying
import Changes
import Configuring
import ControlAPI
import Deploying
import Endpoints
import Mapping
import Replicating
import ServiceKit
import Synchronization
import SystemKit
import Trails
import Transforming

/// The worker that applies a trail to a database.
final class ApplyWorker: Worker {
  let name: WorkerName
  let apply: Configuration.Apply
  private let database: Configuration.Database
  private let context: ServiceContext
  let progress = ApplyProgress()
  private let makesFirstCopies = Atomic<Bool>(false)
  private let waitsForTrail = Atomic<Bool>(false)
  private let noticesTold = Mutex(0)
  private let audit = Mutex<Audit?>(nil)
  private let backlog = Mutex(Backlog(since: Clock.system.microseconds()))
  private let driftsTold = Mutex<Set<NameKey>>([])
  private let auditProblemTold = Mutex<CairnError?>(nil)
  // The tables that the option `tables` of this apply does not list, by their names at the target.
  private let leftOut = Mutex<[String]>([])
  private let ruleUpkeep: RuleUpkeep
  private let listedNames: ListedNames

  init(_ name: WorkerName, _ apply: Configuration.Apply, _ database: Configuration.Database, _ context: ServiceContext)
  {
    (self.name, self.apply, self.database, self.context) = (name, apply, database, context)
    ruleUpkeep = RuleUpkeep(apply.name, context)
    listedNames = ListedNames(apply, context)
  }

  func run(stop: StopSignal) throws {
    let trail = try context.trailName(apply.trail)
    let folder = context.folder(of: trail)
    let location = try database.location().canonical
    if let notice = location.trustNotice { context.log.write(LogEntry(.warning, notice, worker: name.description)) }
    progress.forgetConnection()
    defer { progress.forgetConnection() }
    guard waitForTrail(folder, stop) else { return }
    try checkStillThere(location)
    try context.alone(name, at: DatabaseIdentity(location).map { .apply($0, trail: apply.trail) }) {
      try run(trail, folder, location, stop)
    }
  }

  private func run(_ trail: TrailName, _ folder: String, _ location: DatabaseURL, _ stop: StopSignal) throws {
    let rules = apply.rules
    let entry = ApplyEntry(
      name: apply.name, target: location, trail: trail, folder: folder, existing: apply.existing, rules: rules,
      names: apply.names, scope: TargetScope(apply.tables), context: context)
    var options = ApplyOptions()
    options.scope = entry.scope
    options.fireTriggers = apply.fireTriggers
    // Rows of another node fit into a block. Values that expressions compute from them must not be much larger.
    if trail.origin != context.node {
      options.valueBytesMax = Int32(clamping: max(256 << 20, BlockMemory.shared.blockBytesMax))
    }
    options.rules = rules
    ruleUpkeep.rest()
    let (asked, changed) = try entry.prove()
    ruleUpkeep.begin(rules, changed)
    options.noteLeftOut = try beginLeavingOut()
    (options.changedRules, options.refusesRowsElsewhere) = (changed, apply.existing == nil)
    (options.askedBehind, options.askedAt) = (asked?.behind ?? 0, asked?.at)
    options.existing = apply.existing ?? .overwrite
    let first = FirstCopies(state: context.statePath, apply: apply.name)
    options.refusesRows = apply.existing == nil && first.areUnderWay
    makesFirstCopies.store(options.refusesRows, ordering: .relaxed)
    options.existingHolds = true
    options.names = apply.names
    options.misfits = apply.misfits
    options.ddl = apply.ddl
    options.localWrites = apply.localWritesPlan
    options.replay = apply.replay
    options.statements.mark = "\(context.statePath)/applies/\(apply.name).statement"
    options.quarantines = apply.onError == .quarantine
    options.twoWay = context.twoWays.twoWay(for: apply, at: location, in: context)
    if options.twoWay == nil {
      options.refused.decisions = try RowDecisionFile(state: context.statePath, apply: apply.name)
        .decisions(of: Trail.info(folder: folder).id)
    }
    let relay = context.configuration.relayPlan(apply)
    (options.relays, options.ownTrail) = (relay.relays, relay.ownTrail)
    // If the target is captured, applied transactions move the clock of its trail.
    if trail.origin != context.node, relay.ownTrail != nil {
      options.skewMicrosecondsMax = apply.maxClockSkew.milliseconds * 1000
    }
    if let line = context.configuration.lineOnLacking(apply) { context.tell(name, line) }
    let gate = TwoWayGate(apply: apply, context: context)
    try gate.check(warns: true)
    let stopLooking = StopSignal()
    let looking = try gate.checkOnceCopied(progress, stop: stopLooking) { [context, name] in context.restart(name) }
    let watching = try listedNames.watch(progress, at: location, stop: stopLooking)
    defer {
      stopLooking.set()
      _ = looking?.join()
      _ = watching?.join()
    }
    let (auditing, stopAudit) = try startAudit(of: trail, location, goesBothWays: options.twoWay != nil)
    defer {
      stopAudit.set()
      _ = auditing?.join()
    }
    do {
      try ApplyRun(location, trail: trail, folder: folder, options: options)
        .run(stop: stop, drain: stop, progress: progress)
    } catch let error as CairnError {
      if options.twoWay != nil,
        let other = error.ofOtherTrail(than: trail, at: context.node, folder: { context.folder(of: $0) })
      {
        throw other
      }
      throw error.hinted(
        for: name, trail: folder, isReceived: trail.origin != context.node,
        copyBack: context.configuration.copyBack(of: apply)
      ).decidable(by: apply.name, goesBothWays: context.configuration.captureBehind(apply) != nil)
    }
  }

  // Returns a function that records and logs one more skipped table.
  private func beginLeavingOut() throws -> @Sendable (LeftOutTable) throws -> Void {
    let note = try LeftOutNote(state: context.statePath, apply: apply.name).open()
    let titles = note.tables.map(LeftOutNote.title).sorted()
    leftOut.withLock { $0 = titles }
    return { [context, name, weak self] table in
      guard try note.add(table) else { return }
      let title = LeftOutNote.title(table)
      self?.leftOut.withLock { $0.insert(title, at: $0.place(of: title)) }
      context.tell(name, "table \(title) is left out: \(table.reason("[apply.\(name.name)]"))")
    }
  }

  /// Starts an audit, which compares source and target while the apply works. Returns the thread of the audit (nil: no
  /// audit), and the signal that stops it.
  private func startAudit(
    of trail: TrailName, _ target: DatabaseURL, goesBothWays: Bool
  ) throws -> (WorkerThread<Void>?, StopSignal) {
    let stop = StopSignal()
    guard let rate = context.configuration.auditRate(apply, goesBothWays: goesBothWays) else { return (nil, stop) }
    let source: Audit.Source
    let tables: TablePatterns
    if trail.origin != context.node {
      // The origin answers, and reports the tables that it captures.
      (source, tables) = (.origin(context.origin(of: trail, for: name.description, stop: stop), trail), TablePatterns())
    } else {
      guard let capture = context.capture(of: trail), let database = context.configuration.database(capture.database)
      else { return (nil, stop) }
      (source, tables) = (.database(try database.location().canonical), TablePatterns(capture.tables))
    }
    let audit = Audit(
      from: source, to: target, trail: trail, statePath: context.statePath,
      tables: tables, names: apply.names, rules: apply.rules,
      scope: TargetScope(apply.tables), bytesPerSecond: rate, stop: stop)
    self.audit.withLock { $0 = audit }
    let progress = progress
    return (try WorkerThread { audit.run { progress.snapshot.isCaughtUp } }, stop)
  }

  // A missing SQLite file is not created again, because the operator may have moved it and may put it back.
  private func checkStillThere(_ location: DatabaseURL) throws {
    guard case .sqlite(let path) = location, progress.snapshot.position != .start, FileIdentity(path: path) == nil
    else { return }
    throw CairnError(
      .databaseMissing, "database \(path) no longer exists",
      hint: "put it back: apply continues where it stopped", remedy: .retry)
  }

  // Returns false if `stop` was set first.
  private func waitForTrail(_ folder: String, _ stop: StopSignal) -> Bool {
    defer { waitsForTrail.store(false, ordering: .relaxed) }
    while !Trail.exists(folder: folder) {
      waitsForTrail.store(true, ordering: .relaxed)
      if stop.wait(milliseconds: 200) { return false }
    }
    return !stop.isSet
  }

  // The oldest unanswered request of this apply for copies from another node.
  private var askedFromAfar: (origin: String, tables: String, at: Int64)? {
    guard let trail = TrailName(apply.trail), trail.origin != context.node else { return nil }
    let open = context.requests.open(trail).filter { $0.asker == .apply(apply.name) }
    guard let first = open.min(by: { $0.askedAt < $1.askedAt }) else { return nil }
    return (trail.origin, first.tables.isEmpty ? "everything" : first.tables.joined(separator: ", "), first.askedAt)
  }

  func describe(_ status: inout NodeStatus.Worker) {
    let now = progress.snapshot
    status.trail = apply.trail
    status.place = (try? database.location().place) ?? ""
    (status.rows, status.transactions) = (now.rows, now.transactions)
    status.position = now.position == .start ? (now.needs?.description ?? "") : now.position.description
    status.lags = now.lags
    (status.conflicts, status.lastChangeAt) = (now.conflicts, now.lastCommitTime > 0 ? now.lastCommitTime : nil)
    status.waits = now.waiting.map { NodeStatus.Wait($0.name, $0.code, $0.message, hint: $0.hint) }
    status.quarantined = now.quarantined
    status.leftOut = leftOut.withLock { $0 }
    status.rowsWaiting = context.twoWays.rowsWaiting(for: apply)
    (status.statements.replayed, status.statements.asRows) = (now.statements.replayed, now.statements.asRows)
    status.statements.reasons = now.statements.ordered.map { .init(text: $0.reason, count: $0.count) }
    let end = context.end(of: apply.trail)
    let toCopy = ruleUpkeep.awaited
    // Records after the last transaction of a trail are read, but do not change the position.
    let hasReadAll = now.isCaughtUp
    let isBehind = !hasReadAll && (end.map { $0 > max(now.position, now.needs ?? .start) } ?? false)
    let isDue = context.tablesToCopy(of: apply.trail)
    let isAtEnd = hasReadAll || (end != nil && !isBehind)
    let awaitsFirst = isAtEnd && lacksFirstCopy(now)
    status.isCaughtUp =
      isAtEnd && !now.awaitsCopies && toCopy.isEmpty && now.copying == nil && isDue == 0 && !awaitsFirst
    let moment = Clock.system.microseconds()
    let since = backlog.withLock { backlog in
      if status.isCaughtUp { backlog.noteNone(now: moment) }
      return backlog.since(lastCommitTime: now.lastCommitTime)
    }
    // Until the copy of a table has arrived, the lag is the age of the rows that the table held before.
    let lags = isBehind || now.awaitsCopies || !toCopy.isEmpty
    status.lagMilliseconds = CurrentLag.milliseconds(
      commitTime: lags ? since : now.lastCommitTime, tookMicroseconds: now.lagMicroseconds, isBehind: lags, now: moment)
    status.tablesCopied = now.tablesCopied
    if now.awaitsCopies { status.detail = "waits for copies of tables" }
    if let asked = askedFromAfar {
      status.detail =
        "node \(asked.origin) was asked at \(UTCTime(asked.at).description.prefix(19))Z to copy \(asked.tables), and has not started"
    }
    if let first = toCopy.first {
      status.detail = "waits for copies of \(toCopy.count.counted("table")) with changed rules, the first \(first)"
    }
    if isDue > 0 {
      status.detail = "waits for copies of \(isDue.counted("table")), which the capture has yet to read"
    }
    if let copying = now.copying {
      status.detail = "copies table \(copying.table), \(copying.rows.counted("row")) so far"
      status.copying = .init(
        table: copying.table, rows: copying.rows, estimated: copying.estimated, tablesDone: now.tablesCopied)
    }
    status.versionsKept = context.twoWays.versionsKept(for: apply) ?? 0
    if let silence = status.silence { status.detail = silence }
    if now.quarantined > 0 {
      status.detail =
        "\(now.quarantined.counted("transaction is", "transactions are")) in quarantine: run 'cairn quarantine list --config DIR' with the folder of the daemon's conf"
    }
    if let open = now.openGuards.first { status.detail = open.message }
    if let table = now.waiting.first { status.detail = "table \(table.name) is suspended: \(table.message)" }
    let audited = audit.withLock { $0?.snapshot }
    if status.detail.isEmpty, let unlisted = listedNames.detail { status.detail = unlisted }
    if status.detail.isEmpty, let problem = audited?.problem { status.detail = "no audit: \(problem.message)" }
    let drifts = audited?.drifts ?? []
    status.driftedTables = drifts.count
    if let drift = drifts.first {
      status.detail =
        "drift in \(drifts.count.counted("table")), the first \(drift.table): run 'cairn compare \(apply.name)'"
    }
    guard status.state == .running else { return }
    if waitsForTrail.load(ordering: .relaxed) {
      status.state = .waiting
      let isOurs = apply.trail.hasPrefix(context.node + ".")
      status.detail =
        "waits for trail \(apply.trail)\(isOurs ? ", which its capture has not begun yet" : ", which is not received yet")"
    } else if now.isReconnecting {
      status.state = .waiting
      status.detail = "waits for the server of \(status.place)"
    } else if let until = now.heldUntil {
      let time = UTCTime(until).description.prefix(19)
      status.detail =
        "waits until \(time)Z: the clock of \(apply.trail) was further ahead than max_clock_skew allows; a larger max_clock_skew and a reload end the wait"
    } else if now.isWaitingForCapture {
      status.detail = "waits for the capture of its own database, which has not read all that was committed there"
    } else if now.isWaitingForLock {
      status.detail = "waits for a lock on the target\(now.lockHolder.map { ", which \($0) holds" } ?? "")"
    } else if awaitsFirst {
      status.state = .waiting
      status.detail = "waits for its first copy: trail \(apply.trail) has brought nothing yet"
    }
  }

  // Whether the trail has brought nothing yet, although its capture copies the rows of the source.
  private func lacksFirstCopy(_ now: ApplyProgress.Snapshot) -> Bool {
    guard now.position == .start, now.needs == nil, let trail = TrailName(apply.trail) else { return false }
    if let capture = context.capture(of: trail) { return capture.copiesRows }
    // At the other node, the capture of a two-way pair may copy nothing.
    return context.configuration.captureBehind(apply) == nil
  }

  // Reports each problem once, and only for a source at another node.
  private func auditProblem() -> [LogEntry] {
    guard TrailName(apply.trail)?.origin != context.node else { return [] }
    let problem = audit.withLock { $0?.snapshot.problem }
    return auditProblemTold.withLock { told in
      defer { told = problem }
      guard let problem, told?.isReported(as: problem) != true else { return [] }
      return [
        LogEntry(
          .warning, "the audit is interrupted: \(problem.message)", worker: name.description, code: problem.code,
          hint: problem.hint)
      ]
    }
  }

  func news() -> [LogEntry] {
    let now = progress.snapshot
    if now.isCaughtUp, now.copying == nil, !now.awaitsCopies, now.tablesCopied > 0,
      makesFirstCopies.exchange(false, ordering: .relaxed)
    {
      FirstCopies(state: context.statePath, apply: apply.name).end()
    }
    let notices = now.notices
    let fresh = noticesTold.withLock { told in
      defer { told = notices.count }
      return notices.dropFirst(told).map { LogEntry(.notice, $0, worker: name.description) }
    }
    let drifts = audit.withLock { $0?.snapshot.drifts ?? [] }
    let problem = auditProblem()
    let ofRules = TrailName(apply.trail).map { ruleUpkeep.look(now, $0) } ?? []
    return fresh + problem + ofRules
      + driftsTold.withLock { told in
        told.formIntersection(drifts.map(\.table.nameKey))
        return drifts.filter { told.insert($0.table).inserted }.map { drift in
          LogEntry(
            .error, "table \(drift.table) differs from the source: \(drift.kind.rawValue) \(drift.key)",
            worker: name.description, code: .driftFound, hint: "run 'cairn compare \(apply.name) --repair'",
            context: ["table": drift.table])
        }
      }
  }
}

extension [String] {
  /// Returns the index of a sorted list at which a text keeps the order.
  fileprivate func place(of text: String) -> Int {
    var (low, high) = (0, count)
    while low < high {
      let middle = (low + high) / 2
      if self[middle] < text { low = middle + 1 } else { high = middle }
    }
    return low
  }
}
