import Applying
import Capturing
import Changes
import Endpoints
import Mapping
import Replicating
import SQLiteKit
import Synchronization
import SystemKit

/// One synchronisation from start to end, like `cairn replicate --two-way --once`.
final class SynchronizationRun: Sendable {
  private static let lookMilliseconds: Int32 = 50

  private struct State {
    var isCancelled = false
    var replication: Replication?
    /// The last journal row that the peer is known to have applied or put into quarantine.
    var applied: Int64 = 0
    var putsAside = false
    /// A journal row up to which the trail has all rows, and the end of the trail at that time. When apply reaches that
    /// end, the peer has these rows.
    var taken: (journal: Int64, end: Position)?
  }

  private let state = Mutex(State())
  private let notices = Mutex<[String]>([])
  /// The time at which the run cancels itself, in milliseconds of the monotonic clock.
  private let limit: Int64

  init(until limit: Int64 = .max) { self.limit = limit }

  /// The number of the journal row up to which the peer is known to have all rows; 0 while transactions are in
  /// quarantine at the peer.
  var applied: Int64 { state.withLock { $0.putsAside ? 0 : $0.applied } }

  func cancel() {
    let replication = state.withLock { state in
      state.isCancelled = true
      return state.replication
    }
    replication?.stop()
  }

  func run(
    _ ends: SynchronizedEnds, _ options: Synchronizer.Options, _ progress: (SynchronizationProgress) -> Void
  ) throws -> SynchronizationOutcome {
    let begun = Clock.monotonicMicroseconds
    let firstCopy = try ends.firstCopy(options.firstCopy)
    let isDown = firstCopy == .down
    try options.checkRules(ends)
    let (from, to) = isDown ? (ends.peer, ends.own) : (ends.own, ends.peer)
    let overwrites = overwrites(ends, options)
    try ends.checkTrail(isDown ? ends.trails.own : ends.trails.peer, isKnownAt: from, forgets: overwrites)
    if overwrites { try Self.forgetWaiting(to) }
    let replication = try Replication(
      from: from, to: to, options: try chosen(ends, options, firstCopy),
      notice: { [weak self] in self?.keep($0.text) })
    let folder = try replication.prepare()
    defer { withExtendedLifetime(folder) {} }
    try publish(replication)
    let flows = Flows(replication, isDown: isDown)
    do { try follow(replication, flows, progress) } catch {
      try? noteSent(ends, flows, isWhole: false)
      throw error
    }
    try noteSent(ends, flows, isWhole: true)
    try ends.noteInitialized()
    return flows.outcome(
      notices: notices.withLock { $0 }, duration: .microseconds(Clock.monotonicMicroseconds - begun))
  }

  /// Writes to the state folder which commits of this database the peer has.
  /// - Parameter isWhole: Whether the run ended without an error.
  private func noteSent(_ ends: SynchronizedEnds, _ flows: Flows, isWhole: Bool) throws {
    let apply = flows.sent.apply.snapshot
    // Write `refused` first, because the peer's position also passes transactions in quarantine.
    try ends.noteRefused(apply.quarantined, isWhole: isWhole)
    try ends.noteSent(
      journal: flows.sent.capture.snapshot.taken == 0 ? nil : state.withLock { $0.applied },
      transaction: apply.transactions,
      position: apply.position)
  }

  private func keep(_ notice: String) { notices.withLock { if $0.count < 100 { $0.append(notice) } } }

  /// Returns whether the first copy of tables and rows may replace rows. False after both trails exist, even with the
  /// option `overwrites`.
  private func overwrites(_ ends: SynchronizedEnds, _ options: Synchronizer.Options) -> Bool {
    options.overwrites && !ends.isBegun()
  }

  /// Deletes the journal rows that capture has not read. Call this before the first copy of tables replaces the
  /// database's rows, so that these changes are not sent.
  private static func forgetWaiting(_ end: DatabaseURL) throws {
    guard case .sqlite(let path) = end, FileIdentity(path: path) != nil else { return }
    try EmbeddedCapture(OwnTables.openChecked(path, isReader: false)).forgetWaiting()
  }

  private func chosen(
    _ ends: SynchronizedEnds, _ chosen: Synchronizer.Options, _ firstCopy: Synchronizer.Options.FirstCopy
  ) throws -> Replication.Options {
    var options = Replication.Options()
    options.tables = TablePatterns(chosen.tables)
    options.state = ends.state
    options.existing = overwrites(ends, chosen) ? .overwrite : nil
    options.once = true
    options.isTwoWay = true
    options.trailNames =
      firstCopy == .down ? (ends.trails.peer, ends.trails.own) : (ends.trails.own, ends.trails.peer)
    options.takesOtherApplies = true
    options.folds = firstCopy == .down ? (false, chosen.folds) : (chosen.folds, false)
    options.conflicts = try chosen.conflictPlan()
    options.quarantines = chosen.refusal == .setAside
    options.ddl =
      switch chosen.schemaChanges {
      case nil: nil
      case .follow: .follow
      case .stop: .stop
      case .ignore: .ignore
      }
    return options
  }

  private func publish(_ replication: Replication) throws {
    let isCancelled = state.withLock { state in
      state.replication = replication
      return state.isCancelled
    }
    if isCancelled { throw cancelled() }
  }

  private func cancelled() -> SynchronizationError {
    SynchronizationError(
      .cancelled, "the synchronisation was cancelled", hint: "the next synchronisation continues where this one ended")
  }

  private func follow(
    _ replication: Replication, _ flows: Flows, _ progress: (SynchronizationProgress) -> Void
  ) throws {
    let ended = StopSignal()
    let workers = try replication.start { [weak replication] in if replication?.isRunning != true { ended.set() } }
    while !ended.wait(milliseconds: Self.lookMilliseconds) {
      note(flows)
      progress(flows.progress)
      if Clock.monotonicMilliseconds >= limit { cancel() }
    }
    for worker in workers { _ = worker.join() }
    note(flows)
    progress(flows.progress)
    if let error = replication.error { throw error }
    if state.withLock({ $0.isCancelled }) { throw cancelled() }
  }

  private func note(_ flows: Flows) {
    let (capture, apply) = (flows.sent.capture.snapshot, flows.sent.apply.snapshot)
    state.withLock { state in
      if apply.quarantined > 0 { state.putsAside = true }
      if let taken = state.taken, apply.position >= taken.end {
        state.applied = max(state.applied, taken.journal)
        state.taken = nil
      }
      if state.taken == nil, capture.taken > state.applied { state.taken = (capture.taken, capture.position) }
    }
  }
}

/// The progress of both directions of a replication.
private struct Flows {
  let sent: (capture: CaptureProgress, apply: ApplyProgress)
  let received: (capture: CaptureProgress, apply: ApplyProgress)

  init(_ replication: Replication, isDown: Bool) {
    let forth = (capture: replication.captureProgress, apply: replication.applyProgress)
    let back = replication.back.map { (capture: $0.captureProgress, apply: $0.applyProgress) } ?? forth
    (sent, received) = isDown ? (back, forth) : (forth, back)
  }

  var progress: SynchronizationProgress {
    let (up, down) = (sent.apply.snapshot, received.apply.snapshot)
    let copying = down.copying ?? up.copying
    return SynchronizationProgress(
      sent: up.rows, received: down.rows, conflicts: up.conflicts + down.conflicts,
      copying: copying.map { .init(table: $0.table, rows: $0.rows, expected: $0.estimated) })
  }

  func outcome(notices: [String], duration: Duration) -> SynchronizationOutcome {
    let (up, down) = (sent.apply.snapshot, received.apply.snapshot)
    return SynchronizationOutcome(
      sent: up.rows, received: down.rows, conflicts: up.conflicts + down.conflicts,
      refused: up.quarantined + down.quarantined,
      notices: notices + (up.notices + down.notices).filter { !notices.contains($0) }, duration: duration)
  }
}
