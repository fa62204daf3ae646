import Changes
import ControlAPI
import ServiceKit
import SystemKit

// The state of the workers, for the status of the daemon.
extension Supervisor {
  package func workers() -> [NodeStatus.Worker] {
    let now = Clock.monotonicMilliseconds
    return state.withLock { state in
      state.entries.keys.sorted().compactMap { name in
        state.entries[name].map { describe(name, $0, state.pauseReason, now) }
      }
    }
  }

  /// Returns the transfers of trails between this node and other nodes.
  package func transfers() -> [NodeStatus.Path] {
    let workers = state.withLock { state in state.entries.keys.sorted().compactMap { state.entries[$0]?.worker } }
    return workers.flatMap { $0.paths() }
  }

  private func describe(_ name: WorkerName, _ entry: Entry, _ pause: String, _ now: Int64) -> NodeStatus.Worker {
    let supervision = entry.supervision
    let state: NodeStatus.WorkerState =
      switch supervision.state {
      case .running: .running
      case .ending: .ending
      case .due: supervision.hasPresentFailure ? .retrying : .waiting
      case .resting(.ordered): .stopped
      case .resting(.failed), .resting(.expired): .failed
      case .resting(.paused), .resting(.held): .paused
      }
    var status = NodeStatus.Worker(name, state)
    status.rowsPerSecond = entry.rate.perSecond
    status.restarts = supervision.restarts
    if case .due(let at) = supervision.state { status.retryInMilliseconds = max(0, at - now) }
    if entry.thread != nil { status.silentMilliseconds = max(0, now - entry.pulseAt) }
    entry.worker.describe(&status)
    if entry.isExpired, !Self.isBack(entry, context.trailInfos) {
      status.detail = "lags too far: everything is copied again when it returns"
    }
    if status.state == .paused {
      let detail = pauses.withLock { $0.detail(of: name) }
      status.detail = detail ?? pause
      status.pausedUntil = pauses.withLock { $0.end(of: name) }
    }
    status.detail = status.detail.cutMessage
    status.problem = supervision.failure.map {
      NodeStatus.Problem(
        code: $0.code.rawValue, message: $0.message.cutMessage, hint: $0.hint.cutMessage, times: $0.times,
        agoMilliseconds: max(0, now - $0.at),
        isPassed: $0.isPassed, row: $0.row)
    }
    return status
  }
}
