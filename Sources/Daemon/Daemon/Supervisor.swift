import Changes
import Configuring
import ControlAPI
import Endpoints
import Glibc
import ServiceKit
import Synchronization
import SystemKit
import Trails

/// Runs the workers of a daemon, each on its own thread, and starts them again after errors. One thread calls
/// ``tick()``.
package final class Supervisor: Sendable {
  /// The result of a worker's run: the error that ended the run, or nil if there was none.
  struct Ending: Sendable { var error: CairnError? }

  struct Entry {
    /// The worker's settings under the present conf.
    var spec: WorkerSpec
    var made: WorkerSpec
    var worker: any Worker
    var supervision: Supervision
    var thread: WorkerThread<Ending>?
    var stop = StopSignal()
    var pulse = Pulse()
    var pulseValue: UInt64 = 0
    var pulseAt: Int64 = 0
    var expiry: Expiry?
    var isLeaving = false
    var rate = Rate()
    var wait = WaitNote()
    var tableWaits: [NameKey: WaitNote] = [:]
  }

  struct State {
    var entries: [WorkerName: Entry] = [:]
    // The expired readers that are not applies, until they read again, with the first segment that they needed.
    var givenUp: [RetentionPlan.ReaderID: UInt64] = [:]
    var expiryNotes = ExpiryNotes()
    var isEnding = false
    var isPaused = false
    var pauseReason = ""
    // The trails whose history a disk limit shortens.
    var shortened: Set<NameKey> = []
    // The bytes of each trail that no reader needs.
    var historyBytes: [NameKey: UInt64] = [:]
  }

  let state = Mutex(State())
  let pauses: Mutex<WorkerPauses>
  let context: ServiceContext
  let wake: @Sendable () -> Void
  // The worker that hangs from its start, or "all": only for tests of the watchdog.
  private let hanging: String?
  // In milliseconds: after such a run, the worker's last error counts as over.
  private static let wellMilliseconds: Int64 = 15_000
  private static let expiredMilliseconds: Int64 = 5_000

  /// Creates a supervisor without workers.
  ///
  /// - Parameter pauses: The workers that are paused from the start.
  /// - Parameter wake: Called, on any thread, when it is time for a ``tick()``.
  package init(
    _ context: ServiceContext, pauses: WorkerPauses = WorkerPauses(), hanging: String? = nil,
    wake: @escaping @Sendable () -> Void
  ) {
    (self.context, self.hanging, self.wake) = (context, hanging, wake)
    self.pauses = Mutex(pauses)
    context.onRestart { [weak self] name in
      // A worker that the operator stopped carries out requests when it is started.
      guard let self, state.withLock({ $0.entries[name]?.supervision.rest }) != .ordered else { return }
      _ = try? order(.restart, name.description)
    }
  }

  // MARK: The conf

  /// Adds, removes and restarts workers as a new conf requires.
  package func adopt(_ plan: WorkerPlan) {
    let now = Clock.monotonicMilliseconds
    let pauses = pauses.withLock { $0 }
    state.withLock { state in
      var old = WorkerPlan()
      for (name, entry) in state.entries where !entry.isLeaving { old.specs[name] = entry.spec }
      let change = old.change(to: plan)
      for name in change.removed {
        state.entries[name]?.isLeaving = true
        end(&state, name) { $0.stop(.ordered, now: now) }
      }
      for name in change.altered + change.added {
        guard let spec = plan.specs[name] else { continue }
        if state.entries[name] == nil {
          state.entries[name] = Entry(
            spec: spec, made: spec, worker: make(name, spec), supervision: Supervision(startAt: now))
          if pauses.isPaused(name) { end(&state, name) { $0.stop(.held, now: now) } }
        } else {
          state.entries[name]?.isLeaving = false
          state.entries[name]?.spec = spec
          // A worker that the operator stopped stays stopped; it will be started with the new conf.
          if state.entries[name]?.supervision.rest != .ordered { end(&state, name) { $0.restart(now: now) } }
        }
      }
      // The operator who reloads the conf may have fixed the problem of pumps and listener.
      for (name, entry) in state.entries where [.pump, .receive].contains(name.kind) {
        guard entry.supervision.hasPresentFailure, case .due = entry.supervision.state else { continue }
        end(&state, name) { $0.start(now: now) }
      }
    }
    wake()
  }

  private func make(_ name: WorkerName, _ spec: WorkerSpec) -> any Worker {
    let plan: @Sendable () -> RetentionPlan = { [weak self] in
      self?.retention() ?? RetentionPlan(.init(), trails: [], readers: [], isPaused: false, now: 0)
    }
    return switch spec {
    case .capture(let capture, let database, _, _): CaptureWorker(name, capture, database, context)
    case .apply(let apply, let database, _, _, _): ApplyWorker(name, apply, database, context)
    case .snapshot(let snapshot, let database): SnapshotWorker(name, snapshot, database, context)
    case .heartbeat(let capture, let database):
      HeartbeatWorker(
        name, capture, database, context,
        taken: { [weak self] in self?.taken(by: WorkerName(.capture, capture.name)) },
        givesUp: { [weak self] in self?.givesUp($0) ?? false })
    case .purge(let trail, let every):
      PurgeWorker(name, trail, every: every, context, trails: { TrailName(trail).map { [$0] } ?? [] }, plan: plan)
    case .purgeOfCopies(let others):
      PurgeWorker(
        name, "", every: .seconds(10), context,
        trails: { [context] in
          let all = (try? Trail.names(state: context.statePath)) ?? []
          return all.filter { $0.origin != context.node && !others.contains($0.description) }
        }, plan: plan)
    case .pump(let pump, let tls): PumpWorker(name, pump, tls, context, plan: plan)
    case .receive(let receive): ReceiveWorker(receive, context, plan: plan)
    }
  }

  // MARK: Orders

  package enum Order: Sendable {
    case start
    case stop
    case restart
  }

  /// Executes a command of the operator. Returns the worker that `text` names.
  /// - Throws: `usage` if there is no such worker.
  @discardableResult package func order(_ order: Order, _ text: String) throws -> WorkerName {
    let now = Clock.monotonicMilliseconds
    let name = try state.withLock { state in
      let name = try Self.meant(text, state)
      if order != .stop, state.entries[name]?.supervision.isHeld == true { throw Self.held(name) }
      let isPartlyAtRest = state.entries[name]?.worker.isPartlyAtRest ?? false
      end(&state, name) { supervision in
        switch order {
        case .start: isPartlyAtRest ? supervision.restart(now: now) : supervision.start(now: now)
        case .stop: supervision.stop(.ordered, now: now)
        case .restart: supervision.restart(now: now)
        }
      }
      return name
    }
    wake()
    return name
  }

  func end(_ state: inout State, _ name: WorkerName, _ order: (inout Supervision) -> Bool) {
    guard var entry = state.entries[name] else { return }
    if order(&entry.supervision) { entry.stop.set() }
    state.entries[name] = entry
  }

  package func stopAll() {
    let now = Clock.monotonicMilliseconds
    state.withLock { state in
      state.isEnding = true
      for name in state.entries.keys { end(&state, name) { $0.stop(.ordered, now: now) } }
    }
    wake()
  }

  package var alive: [WorkerName] {
    state.withLock { state in state.entries.filter { $0.value.thread != nil }.keys.sorted() }
  }

  // MARK: Looking after them

  /// Handles workers that have ended, and starts workers that are due.
  package func tick() {
    endPauses(now: Clock.system.microseconds())
    let now = Clock.monotonicMilliseconds
    var entries: [LogEntry] = []
    state.withLock { state in
      var hasMoved = false
      for name in state.entries.keys.sorted() {
        guard var entry = state.entries[name] else { continue }
        if let ending = entry.thread?.outcome {
          _ = entry.thread?.join()
          entry.thread = nil
          entries += note(ending, name, &entry, now)
        }
        if entry.thread == nil, entry.isLeaving {
          if case .purge(let trail, _) = entry.spec { context.forget(trail: trail) }
          state.entries[name] = nil
          hasMoved = true
          continue
        }
        // Purged parts of the trail cannot be read: the next run copies everything again.
        if entry.isExpired, entry.supervision.rest == .failed, entry.supervision.failure?.code == .checkpointForeign {
          entry.supervision.tryAgain(at: now + Self.expiredMilliseconds)
        }
        let mayRun = !state.isEnding && !(state.isPaused && entry.spec.bringsIn)
        if entry.thread == nil, mayRun, entry.supervision.isDue(now: now) {
          hasMoved = hasMoved || entry.made != entry.spec
          entries += start(name, &entry, now)
        }
        if case .running(let since) = entry.supervision.state, now - since >= Self.wellMilliseconds,
          entry.supervision.failure != nil
        {
          if entry.supervision.hasPresentFailure {
            entries.append(LogEntry(.notice, "runs again", worker: name.description))
          }
          entry.supervision.isWell(now: now)
        }
        entries += look(name, &entry, now)
        entries += entry.worker.news()
        state.entries[name] = entry
      }
      if hasMoved { Self.startRefused(&state, now: now) }
      context.note(applied: Self.applied(state))
    }
    for entry in entries { context.log.write(entry) }
  }

  private static func applied(_ state: State) -> [String: Position] {
    var ends: [String: Position] = [:]
    for entry in state.entries.values {
      guard let apply = entry.worker as? ApplyWorker, !entry.isLeaving else { continue }
      let (trail, position) = (apply.apply.trail, apply.progress.snapshot.position)
      ends[trail] = min(ends[trail] ?? position, position)
    }
    return ends.filter { $0.value > .start }
  }

  // If no thread can be created, returns log entries, and a later call tries again.
  private func start(_ name: WorkerName, _ entry: inout Entry, _ now: Int64) -> [LogEntry] {
    if entry.made != entry.spec { (entry.made, entry.worker) = (entry.spec, make(name, entry.spec)) }
    let (worker, stop) = (entry.worker, StopSignal())
    let pulse = Pulse(stop: stop)
    let hangs = hanging == "all" || hanging == name.description
    (entry.stop, entry.pulse, entry.pulseValue, entry.pulseAt) = (stop, pulse, 0, now)
    entry.supervision.started(now: now)
    do throws(CairnError) {
      entry.thread = try WorkerThread(
        {
          pulse.attached {
            while hangs { Clock.sleep(milliseconds: 60_000) }
            do {
              try worker.run(stop: stop)
              return Ending(error: nil)
            } catch { return Ending(error: CairnError(enveloping: error, doing: "run \(name)")) }
          }
        }, finished: wake)
      return []
    } catch { return note(Ending(error: error), name, &entry, now) }
  }

  private func note(_ ending: Ending, _ name: WorkerName, _ entry: inout Entry, _ now: Int64) -> [LogEntry] {
    let before = entry.supervision.failure
    entry.supervision.ended(ending.error, now: now, jitter: Double.random(in: 0...1))
    guard let error = ending.error, let failure = entry.supervision.failure, failure != before else { return [] }
    let next =
      switch entry.supervision.state {
      case .due(let at): "; tried again in \(Lag.text(milliseconds: Double(max(0, at - now))))"
      case .resting(.failed): "; stopped until 'cairn start \(name)'"
      default: ""
      }
    if failure.times == 1 {
      return [
        LogEntry(
          .error, error.message + next, worker: name.description, code: error.code, hint: error.hint,
          context: error.context)
      ]
    }
    // A repeated error is logged only when its count has doubled.
    guard failure.times & (failure.times - 1) == 0 else { return [] }
    return [
      LogEntry(
        .warning, "again, \(failure.times.counted("time")): \(error.message)\(next)", worker: name.description,
        code: error.code,
        context: error.context)
    ]
  }

  private func look(_ name: WorkerName, _ entry: inout Entry, _ now: Int64) -> [LogEntry] {
    if entry.thread != nil, entry.pulse.value != entry.pulseValue {
      (entry.pulseValue, entry.pulseAt) = (entry.pulse.value, now)
    }
    var status = NodeStatus.Worker(WorkerName(.purge, ""), .running)
    entry.worker.describe(&status)
    entry.rate.note(status.rows, now: now)
    let isAlive = entry.thread != nil
    let text = isAlive && status.state == .waiting ? status.detail : ""
    var news: [LogEntry] = []
    if let told = entry.wait.note(text, now: now) {
      news.append(LogEntry(text.isEmpty ? .notice : .warning, told, worker: name.description))
    }
    let waits = Dictionary(status.waits.map { ($0.table.nameKey, $0) }) { first, _ in first }
    for key in Set(entry.tableWaits.keys).union(waits.keys).sorted() {
      let table = key.text
      let wait = isAlive ? waits[key] : nil
      let words = wait.map { "table \(table) is suspended: \($0.message.prefix { $0 != "\n" })" } ?? ""
      let told = entry.tableWaits[key, default: WaitNote()].note(words, now: now)
      if entry.tableWaits[key]?.isIdle == true { entry.tableWaits[key] = nil }
      guard let told else { continue }
      news.append(
        LogEntry(
          wait == nil ? .notice : .warning, wait == nil ? "table \(table) \(told)" : told, worker: name.description,
          code: wait.flatMap { ErrorCode(rawValue: $0.code) }, hint: wait?.hint, context: ["table": table]))
    }
    return news
  }

  /// Returns how long each worker with a thread has reported no progress.
  package var signs: [WatchdogRule.Sign] {
    let now = Clock.monotonicMilliseconds
    return state.withLock { state in
      state.entries.filter { $0.value.thread != nil }
        .map {
          WatchdogRule.Sign(
            name: $0.key, silentMilliseconds: now - $0.value.pulseAt, isInStatement: $0.value.pulse.isInStatement)
        }
        .sorted { $0.name < $1.name }
    }
  }

  // MARK: What they know of each other

  private func taken(by name: WorkerName) -> HeartbeatWorker.Taken? {
    let progress = state.withLock { state in
      state.entries[name].flatMap { $0.supervision.isAlive ? ($0.worker as? CaptureWorker)?.progress : nil }
    }
    return progress.map { progress in
      let now = progress.snapshot
      return HeartbeatWorker.Taken(transactions: now.transactions, journal: now.taken)
    }
  }

  private func givesUp(_ source: NodeStatus.Source) -> Bool {
    let isPaused = state.withLock { $0.isPaused }
    return SlotVerdict.givesUp(source, isPaused: isPaused, limits: context.configuration.limits)
  }
}
