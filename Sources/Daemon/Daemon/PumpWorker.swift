import Changes
import Configuring
import ControlAPI
import Deploying
import Endpoints
import Pumping
import ServiceKit
import Synchronization
import SystemKit
import Trust

/// The worker that pushes trails to another node, or pulls them from there, with one transfer for each trail.
final class PumpWorker: Worker {
  let name: WorkerName
  private let pump: Configuration.Pump
  // The certificate files of `[receive]`, for a pump without its own.
  private let own: Configuration.PeerFiles?
  private let context: ServiceContext
  private let plan: @Sendable () -> RetentionPlan
  private let running = Mutex<Pump?>(nil)
  private let notes = Mutex(TransferNotes())

  /// Creates the worker.
  ///
  /// - Parameter plan: Returns the segments that may be deleted; called when bytes arrive.
  init(
    _ name: WorkerName, _ pump: Configuration.Pump, _ own: Configuration.PeerFiles?, _ context: ServiceContext,
    plan: @escaping @Sendable () -> RetentionPlan
  ) {
    (self.name, self.pump, self.own, self.context, self.plan) = (name, pump, own, context, plan)
  }

  func run(stop: StopSignal) throws {
    let tls = try NetworkTLS.client(pump, own: own, state: context.statePath)
    let transferPlan = PumpPlan(
      pump.way == .push ? .push : .pull, url: pump.url.description, trails: pump.trails, node: context.node, tls: tls,
      bytesPerSecond: pump.bytesPerSecond.map { Int64($0) },
      trailsMax: pump.way == .pull ? context.share(of: pump.node)?.trails ?? Pump.transfersMax : Pump.transfersMax)
    let reader = pump.way == .push ? name : nil
    let hooks = NetworkHooks(
      context: context, reader: { _, _ in reader }, worker: name, plan: plan,
      dialled: pump.way == .pull ? pump.node : nil
    ).hooks
    let made = Pump(transferPlan, PumpShared(copies: context.copies, hooks: hooks))
    let ended = StopSignal()
    let renewing = try WorkerThread<Void> { [self] in renew(until: ended) }
    running.withLock { $0 = made }
    defer {
      ended.set()
      _ = renewing.join()
      running.withLock { $0 = nil }
    }
    try made.run(stop: stop)
  }

  private func renew(until ended: StopSignal) {
    let peers = PeerFolder(state: context.statePath)
    guard pump.url.isTLS, pump.tls == nil, own == nil, let hub = NetworkTLS.joined(pump, state: context.statePath)
    else {
      return
    }
    let joining = Joining(peers, node: context.node, stop: ended)
    while !ended.isSet {
      do {
        let now = Clock.system.microseconds()
        if let fresh = try joining.renewIfDue(hub, base: pump.url.description, now: now) {
          context.tell(
            name, "has a new certificate from \(hub), good until \(UTCTime(fresh.notAfter).description.prefix(10))")
        }
      } catch {
        guard !ended.isSet else { return }
        let error = CairnError(enveloping: error, doing: "renew a certificate")
        context.log.write(
          LogEntry(
            .warning, "cannot renew the certificate from \(hub): \(error.message)", worker: name.description,
            code: error.code, hint: error.hint))
      }
      _ = ended.wait(milliseconds: Int32(clamping: ReceiveWorker.upkeepMilliseconds))
    }
  }

  /// Whether a transfer has stopped after an error. Only a restart of the worker starts it again.
  var isPartlyAtRest: Bool { progress.contains { $0.state == .stopped } }

  private var progress: [TransferProgress] { running.withLock { $0 }?.progress ?? [] }

  func paths() -> [NodeStatus.Path] {
    progress.compactMap { transfer in
      if transfer.state == .leftOut {
        context.leaveOut(.init(name, transfer.trail))
        return nil
      }
      var path = NodeStatus.Path(
        transfer.trail.description, pump.peer ?? (transfer.peer.isEmpty ? pump.url.host : transfer.peer),
        transfer.direction == .push ? .push : .pull, Self.state(transfer))
      path.worker = name.description
      (path.bytes, path.seenAt) = (transfer.bytes, transfer.heardAt)
      if let copied = transfer.copied { path.durable = "\(copied.segment.hex(8)):\(copied.offset)" }
      path.problem = transfer.error.map { hinted($0, transfer.trail) }.map {
        NodeStatus.Problem(code: $0.code.rawValue, message: $0.message.cutMessage, hint: $0.hint.cutMessage, times: 1)
      }
      return path
    }
  }

  private func hinted(_ error: CairnError, _ trail: TrailName) -> CairnError {
    error.hinted(
      for: name, trail: context.folder(of: trail), isReceived: trail.origin != context.node,
      copyBack: context.capture(of: trail).flatMap { context.configuration.copyBack(into: $0) })
  }

  private static func state(_ transfer: TransferProgress) -> NodeStatus.Path.State {
    switch transfer.state {
    case .moving, .waiting: .connected
    case .starting, .retrying, .leftOut: .waiting
    case .stopped: .failed
    }
  }

  func describe(_ status: inout NodeStatus.Worker) {
    let transfers = progress.filter { $0.state != .leftOut }
    status.trail = pump.trails.patterns.joined(separator: ", ")
    status.place = "\(pump.way == .push ? "to" : "from") \(pump.url)"
    status.isCaughtUp = transfers.allSatisfy { $0.state == .waiting }
    if let copied = transfers.first?.copiedPosition, transfers.count == 1 { status.position = copied.description }
    let troubled = transfers.filter { $0.error != nil }
    let problem = running.withLock { $0 }?.error ?? troubled.first?.error
    guard let problem else {
      if transfers.count > 1 { status.detail = "\(status.place), \(transfers.count.counted("trail"))" }
      return
    }
    if status.state == .running, let state = Self.state(transfers, running.withLock { $0 }?.error) {
      status.state = state
    }
    let others = troubled.count > 1 ? ", and \((troubled.count - 1).counted("more trail"))" : ""
    status.detail = "[\(problem.code.rawValue)] \(problem.message)\(others)"
    if let heardAt = transfers.compactMap(\.heardAt).max() {
      status.detail += "; last contact at \(UTCTime(heardAt).description.prefix(19))Z"
    }
  }

  // The state of the worker if all transfers fail; otherwise nil. A trail that does not exist yet is no failure.
  private static func state(_ transfers: [TransferProgress], _ error: CairnError?) -> NodeStatus.WorkerState? {
    let failing = transfers.filter { $0.error.map { $0.code != .trailMissing } ?? false }
    if transfers.isEmpty { return error == nil ? nil : .retrying }
    guard failing.count == transfers.count else { return nil }
    return transfers.allSatisfy { $0.state == .stopped } ? .failed : .retrying
  }

  func news() -> [LogEntry] {
    guard let pump = running.withLock({ $0 }) else { return [] }
    var problems: [String: CairnError] = [:]
    for transfer in pump.progress {
      problems[transfer.trail.description] = transfer.error.map { hinted($0, transfer.trail) }
    }
    if let error = pump.error { problems[""] = error }
    return notes.withLock { $0.note(problems) }.map { note in
      LogEntry(
        // A trail that does not exist yet, at this node or the peer, is waited for.
        note.error == nil || note.error?.code == .trailMissing ? .notice : .warning, note.text,
        worker: name.description, code: note.error?.code,
        hint: note.error?.hint)
    }
  }
}

/// The log messages about the transfers of a pump: one when a problem begins, and one when it ends.
struct TransferNotes {
  struct Note {
    var text: String
    var error: CairnError?
  }

  private var told: [String: CairnError] = [:]

  /// Returns the messages for problems that began or changed since the last call, and for problems that ended since
  /// then.
  ///
  /// - Parameter problems: The present problems by trail; the problem of the whole pump has an empty name.
  mutating func note(_ problems: [String: CairnError]) -> [Note] {
    var notes: [Note] = []
    for (trail, error) in problems.sorted(by: { $0.key < $1.key }) {
      if let last = told.updateValue(error, forKey: trail), last.isReported(as: error) { continue }
      let isNamed = trail.isEmpty || error.message.contains("trail \(trail) ")
      notes.append(Note(text: (isNamed ? "" : "trail \(trail): ") + error.message, error: error))
    }
    for trail in told.keys.sorted() where problems[trail] == nil {
      told[trail] = nil
      notes.append(Note(text: trail.isEmpty ? "reaches the other node again" : "trail \(trail) continues"))
    }
    return notes
  }
}
