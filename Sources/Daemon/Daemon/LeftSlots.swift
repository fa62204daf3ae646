import Changes
import Configuring
import ControlAPI
import Deploying
import Endpoints
import ServiceKit
import Synchronization
import SystemKit

/// Reports the replication slots of captures that were removed from the conf, until the slots are dropped.
final class LeftSlots: Sendable {
  private static let lookMilliseconds: Int64 = 60_000
  // Milliseconds before the next check, while a removed capture still reads its slot.
  private static let soonMilliseconds: Int64 = 5_000

  private struct State {
    var left: [NodeStatus.LeftSlot] = []
    var looked: [LeftSlot] = []
    var lookAt: Int64 = 0
    var thread: WorkerThread<Void>?
    var told: Set<String> = []
  }

  private let context: ServiceContext
  private let state = Mutex(State())

  init(_ context: ServiceContext) { self.context = context }

  var slots: [NodeStatus.LeftSlot] { state.withLock { $0.left } }

  /// Starts a check of the slots on another thread, if one is due. A check is due once a minute, or sooner if the slots
  /// change or a capture still reads one of the slots.
  func look() {
    let configuration = context.configuration
    let all = LeftSlot.all(
      state: context.statePath, node: context.node, captures: Set(configuration.captures.map(\.name)))
    let now = Clock.monotonicMilliseconds
    state.withLock { state in
      if all.isEmpty { state.left = [] }
      guard all != state.looked || (now >= state.lookAt && !all.isEmpty) else { return }
      if let running = state.thread {
        guard running.outcome != nil else { return }
        _ = running.join()
      }
      (state.looked, state.lookAt) = (all, now + Self.lookMilliseconds)
      // If no thread can be started, the next check tries it again.
      state.thread = try? WorkerThread { [self] in ask(all, configuration) }
    }
  }

  private func ask(_ all: [LeftSlot], _ configuration: Configuration) {
    var left: [NodeStatus.LeftSlot] = []
    for slot in all {
      let standing = slot.standing(configuration.databases)
      if standing == .gone { slot.forget() }
      if standing == .inUse { state.withLock { $0.lookAt = Clock.monotonicMilliseconds + Self.soonMilliseconds } }
      if let status = NodeStatus.LeftSlot(slot, standing) { left.append(status) }
    }
    let fresh = state.withLock { state in
      (state.left, state.told) = (left, state.told.intersection(left.map(\.slot)))
      return left.filter { state.told.insert($0.slot).inserted }
    }
    for slot in fresh {
      context.log.write(
        LogEntry(
          .warning, slot.text, worker: WorkerName(.capture, slot.capture).description, hint: slot.hint))
    }
  }
}
