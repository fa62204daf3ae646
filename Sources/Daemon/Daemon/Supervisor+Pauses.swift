import Changes
import ControlAPI
import ServiceKit
import SystemKit

// Pauses of workers by the operator, which last over restarts of the daemon.
extension Supervisor {
  /// Returns the worker that `text` names.
  ///
  /// - Throws: `usage` if there is no such worker.
  static func meant(_ text: String, _ state: State) throws -> WorkerName {
    let all = state.entries.filter { !$0.value.isLeaving }.keys.sorted()
    guard let name = WorkerName.meant(by: text, among: all) else {
      throw CairnError(
        .usage, "there is no worker '\(text)'",
        hint: "there are \(all.map(\.description).joined(separator: ", "))", remedy: .badInput)
    }
    return name
  }

  static func held(_ name: WorkerName) -> CairnError {
    CairnError(
      .usage, "\(name) is paused by the operator", hint: "run 'cairn resume \(name)'", remedy: .badInput)
  }

  /// Pauses a worker until ``resume(_:)`` or a time, also over restarts of the daemon. Returns the worker.
  ///
  /// - Parameter until: The end of the pause in µs since 1970 UTC; nil for no end.
  /// - Throws: `usage` if there is no such worker. Also errors of the disk if the pause cannot be stored; then the
  ///   worker continues.
  @discardableResult package func pause(_ text: String, until: Int64?) throws -> WorkerName {
    let name = try state.withLock { try Self.meant(text, $0) }
    try pauses.withLock { pauses in
      var changed = pauses
      changed.pause(name, until: until)
      try changed.save(state: context.statePath)
      pauses = changed
    }
    let now = Clock.monotonicMilliseconds
    state.withLock { end(&$0, name) { $0.stop(.held, now: now) } }
    wake()
    return name
  }

  /// Ends the pause of a worker. Returns the worker.
  ///
  /// - Throws: `usage` if there is no such worker, or if it is not paused. Also errors of the disk if the end of the
  ///   pause cannot be stored; then the worker stays paused.
  @discardableResult package func resume(_ text: String) throws -> WorkerName {
    let name = try state.withLock { try Self.meant(text, $0) }
    try pauses.withLock { pauses in
      var changed = pauses
      guard changed.resume(name) else {
        throw CairnError(
          .usage, "\(name) is not paused by the operator",
          hint: "see 'cairn status'; a stopped worker needs 'cairn start'",
          remedy: .badInput)
      }
      try changed.save(state: context.statePath)
      pauses = changed
    }
    start(resumed: name)
    return name
  }

  /// Starts the workers whose pauses have ended at the time `now`, in µs since 1970 UTC.
  func endPauses(now: Int64) {
    let ended = pauses.withLock { pauses in
      let ended = pauses.takeEnded(now: now)
      // An old entry that stays in the file has ended at the next start, too.
      if !ended.isEmpty { try? pauses.save(state: context.statePath) }
      return ended
    }
    for name in ended {
      start(resumed: name)
      context.log.write(LogEntry(.notice, "the pause has ended", worker: name.description))
    }
  }

  private func start(resumed name: WorkerName) {
    let now = Clock.monotonicMilliseconds
    state.withLock { state in
      state.entries[name]?.supervision.resume(now: now)
      // While the trails are over their disk limit, captures do not start.
      guard state.isPaused, state.entries[name]?.spec.bringsIn == true else { return }
      end(&state, name) { $0.stop(.paused, now: now) }
    }
    wake()
  }
}
