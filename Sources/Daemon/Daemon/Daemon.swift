import Changes
import Configuring
import ControlAPI
import Endpoints
import Glibc
import PostgresKit
import ServiceKit
import Synchronization
import SystemKit
import Trails

/// A running node: its workers, control socket, metrics, and its messages to systemd.
///
/// ```swift
/// let daemon = Daemon(configuration, version: Product.version, log: log, load: load)
/// let status = try daemon.run(signals)
/// ```
package final class Daemon: Sendable {
  /// A function that loads the conf of the node again.
  package typealias Load = @Sendable () -> LoadedConfiguration

  private static let tickMilliseconds = 250
  private static let publishMilliseconds: Int64 = 1_000
  private static let budgetMilliseconds: Int64 = 5_000
  // Milliseconds for workers to finish their transaction when the daemon ends. Later workers are abandoned, as in a
  // crash.
  private static let endMillisecondsMax: Int64 = 20_000
  // Milliseconds without progress after which a worker is reported, without a watchdog.
  private static let silentMilliseconds: Int64 = 300_000

  private let context: ServiceContext
  private let supervisor: Supervisor
  private let refreshes: RefreshCoordinator
  private let leftSlots: LeftSlots
  private let indexer: Indexer
  private let board = Mutex(TransferStatus())
  private let load: Load
  private let version: String
  private let startedAt = Clock.system.microseconds()
  private let published: Mutex<NodeStatus>
  private let refusal = Mutex<NodeStatus.Problem?>(nil)
  private let listening = Mutex<MetricsListener?>(nil)
  private let loadedAt: Atomic<Int64>
  private let isEnding = Atomic<Bool>(false)
  private let reloading = Mutex(())

  /// Creates a daemon, without starting it.
  ///
  /// - Throws: `state-foreign` if the state folder has a list of paused workers that cannot be read.
  package init(_ configuration: Configuration, version: String, log: ServiceLog, load: @escaping Load) throws {
    (self.version, self.load) = (version, load)
    loadedAt = Atomic(startedAt)
    context = ServiceContext(configuration, log: log)
    let process = getpid()
    let hanging = getenv("CAIRN_TEST_HANG").map { String(cString: $0) }
    let pauses = try WorkerPauses(state: configuration.node.state)
    supervisor = Supervisor(context, pauses: pauses, hanging: hanging) { kill(process, SIGUSR1) }
    refreshes = RefreshCoordinator(context, supervisor)
    leftSlots = LeftSlots(context)
    indexer = Indexer(context)
    published = Mutex(
      NodeStatus(
        node: configuration.node.name, version: version, process: process, now: startedAt, startedAt: startedAt,
        loadedAt: startedAt))
  }

  // Trails and paths are up to a second old. Workers and conf are the present ones: the state before an order would
  // mislead the operator who gave it.
  private var status: NodeStatus {
    var status = published.withLock { $0 }
    status.workers = supervisor.workers()
    status.isEnding = isEnding.load(ordering: .relaxed)
    status.loadedAt = loadedAt.load(ordering: .relaxed)
    status.refusal = refusal.withLock { $0 }
    status.metricsProblem = listening.withLock { $0 }?.problem
    status.now = Clock.system.microseconds()
    return status
  }

  /// Runs until a signal ends the daemon, and returns the exit status. The signals must be blocked in all threads.
  package func run(_ signals: sigset_t) throws -> Int32 {
    let configuration = context.configuration
    let socket = ControlClient.path(given: configuration.control.socket, state: configuration.node.state)
    let lock = try StateLock(configuration.node.state, socket: socket)
    return try withExtendedLifetime(lock) { try serve(configuration, socket, signals) }
  }

  /// Blocks SIGINT, SIGTERM, SIGHUP and SIGUSR1 in this thread and in threads that it starts later. Returns this set.
  package static func blockSignals() -> sigset_t {
    signal(SIGPIPE, SIG_IGN)
    var signals = sigset_t()
    sigemptyset(&signals)
    for number in [SIGINT, SIGTERM, SIGHUP, SIGUSR1] { sigaddset(&signals, number) }
    pthread_sigmask(SIG_BLOCK, &signals, nil)
    return signals
  }

  private func serve(_ configuration: Configuration, _ socket: String, _ signals: sigset_t) throws -> Int32 {
    let desk = ControlHandler(
      context: context, supervisor: supervisor, status: { [self] in status }, reload: { [self] in try reload() })
    let control = try ControlServer(socket, group: configuration.control.group) { try desk.answer($0, from: $1) }
    defer { control.close() }
    let metrics = MetricsListener(context) { [self] in status }
    defer { metrics.close() }
    supervisor.adopt(WorkerPlan(configuration))
    supervisor.tick()
    publish()
    metrics.keep()
    listening.withLock { $0 = metrics }
    let (captures, applies) = (configuration.captures.count, configuration.applies.count)
    context.log.write(
      LogEntry(
        .info,
        "cairnd \(version), node \(configuration.node.name): \(captures.counted("capture")), \(applies.counted("apply", "applies")), state in \(configuration.node.state)"
      ))
    ServiceManager.notify("READY=1")
    loop(signals, metrics)
    return 0
  }

  // A jump makes lags and commit times wrong, but not the rows and their order.
  private func tell(jump: Int64) {
    let size = Lag.text(milliseconds: Double(abs(jump)) / 1000)
    context.log.write(
      LogEntry(
        .warning,
        "the clock jumped \(size) \(jump > 0 ? "forward" : "back"): lags and commit times are wrong by that amount",
        hint: "check the clock ('timedatectl'); rows still arrive, and in their order"))
  }

  // MARK: The loop

  private func loop(_ blocked: sigset_t, _ metrics: MetricsListener) {
    var signals = blocked
    var endSince: Int64?
    var publishedAt = Clock.monotonicMilliseconds
    var budgetAt = publishedAt
    var silentTold: [WorkerName] = []
    var forecast = FillForecast()
    var clock = ClockWatch(wall: Clock.system.microseconds(), steady: Clock.monotonicMicroseconds)
    let watchdog = ServiceManager.watchdogMilliseconds
    while true {
      var wait = timespec(tv_sec: 0, tv_nsec: Self.tickMilliseconds * 1_000_000)
      switch sigtimedwait(&signals, nil, &wait) {
      case SIGTERM, SIGINT:
        // A second signal ends the daemon at once, and loses nothing either.
        if endSince != nil { _exit(0) }
        endSince = Clock.monotonicMilliseconds
        PostgresConnection.isEnding.withLock { $0 = { true } }
        begin(ending: "shutting down: workers stop at the next transaction border")
      case SIGHUP where endSince == nil: reloadAsService()
      default: break
      }
      supervisor.tick()
      if let jump = clock.jump(wall: Clock.system.microseconds(), steady: Clock.monotonicMicroseconds) {
        tell(jump: jump)
      }
      let now = Clock.monotonicMilliseconds
      if let since = endSince {
        let alive = supervisor.alive
        if alive.isEmpty { break }
        if now - since > Self.endMillisecondsMax {
          let names = alive.map(\.description).joined(separator: ", ")
          context.log.write(
            LogEntry(.warning, "\(names) did not stop in time, and the daemon ends without them; nothing is lost"))
          _exit(0)
        }
      }
      if now - budgetAt >= Self.budgetMilliseconds, endSince == nil {
        budgetAt = now
        supervisor.keepBudget()
        leftSlots.look()
        indexer.keep()
        noteDisk(&forecast, now)
      }
      if now - publishedAt >= Self.publishMilliseconds {
        publishedAt = now
        if endSince == nil { refreshes.look() }
        publish()
        metrics.keep()
        ServiceManager.tell(status.summary)
      }
      let life = WatchdogRule(supervisor.signs, limit: watchdog ?? Self.silentMilliseconds)
      if watchdog != nil, life.feeds { ServiceManager.notify("WATCHDOG=1") }
      tell(life, &silentTold)
    }
    indexer.end()
    context.log.write(LogEntry(.info, "ended"))
  }

  private func begin(ending text: String) {
    isEnding.store(true, ordering: .relaxed)
    context.log.write(LogEntry(.info, text))
    ServiceManager.notify("STOPPING=1")
    supervisor.stopAll()
  }

  private func tell(_ life: WatchdogRule, _ told: inout [WorkerName]) {
    for worker in life.silent where !told.contains(worker.name) {
      context.log.write(
        worker.isInStatement
          ? LogEntry(
            .error,
            "SQLite has been running one statement for too long; other workers continue",
            worker: worker.name.description, code: .databaseBusy,
            hint:
              "check the disk, and the CHECKs, generated columns and indexes of the file: a program with write access "
              + "may have added an expression that takes very long; drop it, then restart the daemon")
          : LogEntry(
            .error, "has shown no sign of life for too long" + (life.feeds ? "; other workers continue" : ""),
            worker: worker.name.description, code: .bug,
            hint: life.feeds
              ? "check the disk and the database of this worker, then restart the daemon: no other order ends the worker"
              : "the watchdog of systemd restarts the daemon; without one, restart it"))
    }
    told = life.silent.map(\.name)
  }

  // MARK: Conf

  private func reloadAsService() {
    ServiceManager.reloading()
    do { _ = try reload() } catch {
      // The refusal is in the log and in the status; the old conf stays in force.
    }
    ServiceManager.notify("READY=1")
  }

  private func reload() throws -> WorkerPlan.Change { try reloading.withLock { _ in try loadAnew() } }

  private func loadAnew() throws -> WorkerPlan.Change {
    do {
      let old = context.configuration
      let loaded = load()
      guard let new = loaded.configuration else {
        for problem in loaded.problems { context.log.write(LogEntry(problem.error, .error)) }
        throw try refusal(loaded)
      }
      if let refusal = WorkerPlan.refusal(from: old, to: new) { throw refusal }
      var change = WorkerPlan(old).change(to: WorkerPlan(new))
      change.notices = TakenOut.notices(from: old, to: new)
      context.configuration = new
      context.log.setLevel(new.log.serviceLevel)
      supervisor.adopt(WorkerPlan(new))
      refusal.withLock { $0 = nil }
      loadedAt.store(Clock.system.microseconds(), ordering: .relaxed)
      let words = [("new", change.added), ("gone", change.removed), ("changed", change.altered)].filter {
        !$0.1.isEmpty
      }
      .map { "\($0.0): \($0.1.map(\.description).joined(separator: ", "))" }
      context.log.write(
        LogEntry(
          .info,
          "conf reloaded" + (words.isEmpty ? ", no worker is affected" : "; " + words.joined(separator: "; "))))
      for notice in change.notices { context.log.write(LogEntry(.warning, notice)) }
      return change
    } catch {
      let error = CairnError(enveloping: error, doing: "load the conf")
      refusal.withLock {
        $0 = NodeStatus.Problem(
          code: error.code.rawValue, message: error.message.cutMessage, hint: error.hint.cutMessage, times: 1)
      }
      context.log.write(
        LogEntry(
          .error, "the new conf is refused, and the former one stays in force: \(error.message)", code: error.code,
          hint: error.hint, context: error.context))
      throw error
    }
  }

  private func refusal(_ loaded: LoadedConfiguration) throws -> CairnError {
    do { _ = try loaded.get() } catch { return error }
    return CairnError(.bug, "a conf without problems gave no configuration", hint: "please report this", remedy: .bug)
  }

  // MARK: Status and metrics

  private func publish() {
    var now = NodeStatus(
      node: context.node, version: version, process: getpid(), now: Clock.system.microseconds(), startedAt: startedAt,
      loadedAt: loadedAt.load(ordering: .relaxed))
    now.trails = trails()
    now.sources = context.sourceFacts
    now.paths = paths(now.now)
    now.leftSlots = leftSlots.slots
    published.withLock { published in
      now.disk = published.disk
      published = now
    }
  }

  private func trails() -> [NodeStatus.Trail] {
    let (keeps, history) = (context.configuration.histories, supervisor.histories)
    return context.trailInfos.values.sorted { $0.name.description < $1.name.description }.map { info in
      let name = info.name.description
      var trail = NodeStatus.Trail(
        name: name, bytes: info.onDisk, segments: info.segments.count, end: info.end.position.description,
        oldest: info.segments.first?.created ?? 0)
      trail.keep = keeps[name].map {
        .init(
          text: $0.text, milliseconds: $0.age?.milliseconds, maxBytes: $0.bytes, bytes: history.bytes[name] ?? 0,
          isShortened: history.shortened.contains(name))
      }
      return trail
    }
  }

  private func paths(_ now: Int64) -> [NodeStatus.Path] {
    let infos = context.trailInfos
    let configuration = context.configuration
    let keys = PeerReaders.keys(configuration, infos.values.map(\.name), besides: context.leftOut)
    var standings: [String: TrailStanding] = [:]
    for trail in Set(keys.map(\.trail)) {
      standings[trail.description] = try? SegmentSource.open(folder: context.folder(of: trail)).standing()
    }
    let peers = Dictionary(configuration.pumps.map { ($0.name, $0.peer ?? $0.url.host) }) { first, _ in first }
    let monotonic = Clock.monotonicMilliseconds
    return board.withLock { board in
      board.paths(
        transfers: supervisor.transfers(), keys: keys, book: { context.peers[$0] }, givenUp: supervisor.givenUp,
        pumpPeers: peers, standings: standings, infos: infos, now: now, monotonic: monotonic)
    }
  }

  private func noteDisk(_ forecast: inout FillForecast, _ now: Int64) {
    let bytes = context.trailInfos.values.reduce(0) { $0 + $1.onDisk }
    var info = statvfs()
    let isKnown = statvfs(context.statePath, &info) == 0
    let free = isKnown ? UInt64(info.f_bavail) * UInt64(info.f_frsize) : 0
    let limit = context.configuration.limits.diskBytes
    // History gives way before the disk is full.
    let history = supervisor.histories.bytes.values.reduce(0, +)
    forecast.note(used: Int64(clamping: bytes) - Int64(clamping: min(history, bytes)), now: now)
    let room = min(limit ?? .max, Int64(clamping: bytes &+ free))
    let disk = NodeStatus.Disk(
      bytes: bytes, limitBytes: limit, freeBytes: free, secondsUntilFull: forecast.secondsUntil(room))
    published.withLock { $0.disk = disk }
  }
}

extension Configuration.Log {
  package var serviceLevel: LogEntry.Level { LogEntry.Level(name: level.rawValue) ?? .info }
}
