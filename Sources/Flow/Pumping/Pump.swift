import Changes
import NetKit
import Synchronization
import SystemKit
import Trails

/// The trails that a pump sends to or fetches from a peer, and the settings of the transfers.
///
///     let trails = TrailPatterns(["till.*"])
///     let plan = PumpPlan(.push, url: "https://hq.example:7420", trails: trails, node: "till")
package struct PumpPlan: Sendable {
  package var direction: TransferProgress.Direction
  /// The URL of the peer, `https://HOST:PORT`.
  package var url: String
  package var trails: TrailPatterns
  /// The name of this node.
  package var node: String
  package var tls: ClientTLS?
  /// The limit in bytes per second for all transfers of the pump together; nil means no limit.
  package var rate: RateLimit?
  /// The maximum number of concurrent transfers.
  package var trailsMax: Int

  package init(
    _ direction: TransferProgress.Direction, url: String, trails: TrailPatterns, node: String, tls: ClientTLS? = nil,
    bytesPerSecond: Int64? = nil, trailsMax: Int = Pump.transfersMax
  ) {
    (self.direction, self.url, self.trails, self.node) = (direction, url, trails, node)
    self.tls = tls
    self.trailsMax = min(trailsMax, Pump.transfersMax)
    rate = bytesPerSecond.map { RateLimit(bytesPerSecond: Int(clamping: $0)) }
  }
}

/// The objects that all pumps and the listener of a node share.
///
///     let shared = PumpShared(copies: TrailCopies(state: state))
package struct PumpShared: Sendable {
  package var copies: TrailCopies
  package var hooks: PumpHooks

  package init(copies: TrailCopies, hooks: PumpHooks = PumpHooks()) {
    (self.copies, self.hooks) = (copies, hooks)
  }
}

/// A pump, with one transfer and thread for each trail that matches its patterns. The pump regularly looks for new and
/// deleted trails.
///
///     let pump = Pump(plan, PumpShared(copies: copies))
///     try pump.run(stop: stop)
package final class Pump: Sendable {
  private struct Running: Sendable {
    let gauge: TransferGauge
    let stop: StopSignal
    let thread: WorkerThread<Void>
  }

  private struct State {
    var transfers: [TrailName: Running] = [:]
    var error: CairnError?
  }

  private static let lookMilliseconds: Int32 = 2000
  /// The maximum number of concurrent transfers of one pump.
  package static let transfersMax = 512

  package let plan: PumpPlan
  private let shared: PumpShared
  private let state = Mutex(State())

  package init(_ plan: PumpPlan, _ shared: PumpShared) { (self.plan, self.shared) = (plan, shared) }

  /// The progress of each transfer, in the order of the trails' names.
  package var progress: [TransferProgress] {
    let transfers = state.withLock { $0.transfers }
    return transfers.sorted { $0.key.description < $1.key.description }.map { $0.value.gauge.value }
  }

  /// The present error of the pump itself, not of a transfer; nil if there is none.
  package var error: CairnError? { state.withLock { $0.error } }

  /// Runs until `stop` is set, and returns after all transfers have ended. Errors of transfers are in ``progress``.
  ///
  /// - Throws: `bad-url`; `io-failed` if no thread can be started.
  package func run(stop: StopSignal) throws {
    let link = try PumpLink(plan, stop: stop)
    let ended = StopSignal()
    let ear = try WorkerThread<Void> { [self] in
      let transfers = { [self] in progress.filter { [.moving, .waiting].contains($0.state) }.map(\.trail) }
      RefreshRequestPoller(plan, shared.hooks, trails: transfers).run(until: ended)
    }
    defer {
      endAll()
      ended.set()
      _ = ear.join()
    }
    var patience = TransferPatience()
    var pause = Self.lookMilliseconds
    repeat {
      do {
        let all = try wanted(link)
        try adjust(to: Self.chosen(all, most: plan.trailsMax, own: plan.node))
        patience.calm()
        pause = Self.lookMilliseconds
        let surplus = all.count > plan.trailsMax ? surplus(all.count) : nil
        state.withLock { $0.error = surplus }
      } catch is HTTPClient.Stopped {
        return
      } catch {
        let error = (error as? PumpFault)?.error ?? (error as? CairnError)
        state.withLock { $0.error = error }
        if let error { pause = Int32(clamping: patience.next(error, chance: .random(in: 0...1)) ?? 30_000) }
      }
    } while !stop.wait(milliseconds: pause)
  }

  private func wanted(_ link: PumpLink) throws -> Set<TrailName> {
    if let only = plan.trails.only { return [only] }
    switch plan.direction {
    case .push: return Set(try Trail.names(state: shared.copies.state).filter { plan.trails.includes($0) })
    case .pull:
      let names = try link.trails().map(\.standing.name)
      return Set(names.filter { plan.trails.includes($0) && $0.origin != plan.node })
    }
  }

  private func surplus(_ count: Int) -> CairnError {
    let names =
      plan.direction == .pull
      ? "the node at \(plan.url) offers \(count) trails that this pump would fetch, and the limit is"
      : "this pump would send \(count) trails to \(plan.url), and the limit is"
    return CairnError(
      .diskBudget, "\(names) \(plan.trailsMax)",
      hint: "name fewer trails in 'trail' of the pump, or use several pumps; [peer.NAME] trails may be a lower limit",
      remedy: .retry)
  }

  /// Returns at most `most` trails: first the trails of this node, then one of each other node in turn.
  static func chosen(_ wanted: Set<TrailName>, most: Int, own: String) -> Set<TrailName> {
    guard wanted.count > most else { return wanted }
    let lists = Dictionary(grouping: wanted, by: \.origin).mapValues { $0.sorted { $0.name < $1.name } }
    var chosen = Set((lists[own] ?? []).prefix(most))
    let others = lists.filter { $0.key != own }.sorted { $0.key < $1.key }.map(\.value)
    for turn in 0..<(others.map(\.count).max() ?? 0) {
      for list in others where turn < list.count && chosen.count < most { chosen.insert(list[turn]) }
    }
    return chosen
  }

  /// Ends and starts transfers so that there is one for each of these trails. If a transfer cannot start, the error is
  /// thrown, and the transfers that run continue.
  private func adjust(to wanted: Set<TrailName>) throws {
    let known = state.withLock { $0.transfers }
    let ended = known.filter { !wanted.contains($0.key) }
    for transfer in ended.values { transfer.stop.set() }
    for transfer in ended.values { _ = transfer.thread.join() }
    state.withLock { state in for name in ended.keys { state.transfers[name] = nil } }
    for name in wanted where known[name] == nil {
      let transfer = try begin(name)
      state.withLock { $0.transfers[name] = transfer }
    }
  }

  private func begin(_ trail: TrailName) throws -> Running {
    let gauge = TransferGauge(trail, plan.direction)
    let stop = StopSignal()
    let (plan, shared) = (plan, shared)
    let thread = try WorkerThread<Void> {
      switch plan.direction {
      case .push: TrailPush(trail, plan, shared, gauge: gauge, stop: stop).run()
      case .pull: TrailPull(trail, plan, shared, gauge: gauge, stop: stop).run()
      }
    }
    return Running(gauge: gauge, stop: stop, thread: thread)
  }

  private func endAll() {
    let transfers = state.withLock { $0.transfers }
    for transfer in transfers.values { transfer.stop.set() }
    for transfer in transfers.values { _ = transfer.thread.join() }
  }
}
