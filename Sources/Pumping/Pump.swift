import Changes
import NetKit
import Synchronization
import SystemKit
import Trails

/// The trails that go to or come from a peer, and how.
package struct PumpPlan: Sendable {
  package var direction: LaneProgress.Direction
  /// `https://HOST:PORT` of the peer.
  package var url: String
  package var trails: TrailPatterns
  /// The name of this node.
  package var node: String
  package var tls: ClientTLS?
  /// The rate limit of all lanes together.
  package var rate: RateLimit?

  package init(
    _ direction: LaneProgress.Direction, url: String, trails: TrailPatterns, node: String, tls: ClientTLS? = nil,
    bytesPerSecond: Int64? = nil
  ) {
    (self.direction, self.url, self.trails, self.node) = (direction, url, trails, node)
    self.tls = tls
    rate = bytesPerSecond.map { RateLimit(bytesPerSecond: Int(clamping: $0)) }
  }
}

/// The objects that all pumps and the listener of a node share.
package struct PumpShared: Sendable {
  package var copies: TrailCopies
  package var bell: TrailBell
  package var hooks: PumpHooks

  package init(copies: TrailCopies, bell: TrailBell, hooks: PumpHooks = PumpHooks()) {
    (self.copies, self.bell, self.hooks) = (copies, bell, hooks)
  }
}

/// A pump: a lane, on a thread of its own, for each trail that its patterns match. Lanes come and go with their trails.
package final class Pump: Sendable {
  private struct Running: Sendable {
    let gauge: LaneGauge
    let stop: StopSignal
    let thread: WorkerThread<Void>
  }

  private struct State {
    var lanes: [TrailName: Running] = [:]
    var error: CairnError?
  }

  private static let lookMilliseconds: Int32 = 2000
  /// The most trails of one pump, each of which takes a thread.
  static let lanesMax = 4096

  package let plan: PumpPlan
  private let shared: PumpShared
  private let state = Mutex(State())

  package init(_ plan: PumpPlan, _ shared: PumpShared) { (self.plan, self.shared) = (plan, shared) }

  /// The progress of each lane, in the order of the trails' names.
  package var progress: [LaneProgress] {
    let lanes = state.withLock { $0.lanes }
    return lanes.sorted { $0.key.description < $1.key.description }.map { $0.value.gauge.value }
  }

  /// The reason why the pump cannot find out which trails there are; nil if it can.
  package var error: CairnError? { state.withLock { $0.error } }

  /// Runs until `stop` is set, and returns when no lane runs any more. Failures meanwhile are tried again, or are in
  /// the progress.
  ///
  /// - Throws: `bad-url`.
  package func run(stop: StopSignal) throws {
    let link = try PumpLink(plan, stop: stop)
    let ended = StopSignal()
    let ear = WorkerThread<Void> { [self] in
      let lanes = { [self] in progress.filter { [.moving, .waiting].contains($0.state) }.map(\.trail) }
      RequestEar(plan, shared.hooks, trails: lanes).run(until: ended)
    }
    defer {
      endAll()
      ended.set()
      _ = ear.join()
    }
    var patience = LanePatience()
    var pause = Self.lookMilliseconds
    repeat {
      do {
        adjust(to: try wanted(link))
        patience.calm()
        pause = Self.lookMilliseconds
        state.withLock { $0.error = nil }
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
      let wanted = Set(names.filter { plan.trails.includes($0) && $0.origin != plan.node })
      guard wanted.count <= Self.lanesMax else {
        throw CairnError(
          .diskBudget,
          "the node at \(plan.url) names \(wanted.count) trails that this pump would fetch: it fetches \(Self.lanesMax) at most",
          hint: "narrow 'trail' of the pump, or divide the trails among several", remedy: .retry)
      }
      return wanted
    }
  }

  private func adjust(to wanted: Set<TrailName>) {
    let known = state.withLock { $0.lanes }
    let ended = known.filter { !wanted.contains($0.key) }
    for lane in ended.values { lane.stop.set() }
    for lane in ended.values { _ = lane.thread.join() }
    let begun = wanted.filter { known[$0] == nil }.map { ($0, begin($0)) }
    state.withLock { state in
      for name in ended.keys { state.lanes[name] = nil }
      for (name, lane) in begun { state.lanes[name] = lane }
    }
  }

  private func begin(_ trail: TrailName) -> Running {
    let gauge = LaneGauge(trail, plan.direction)
    let stop = StopSignal()
    let (plan, shared) = (plan, shared)
    let thread = WorkerThread<Void> {
      switch plan.direction {
      case .push: PushLane(trail, plan, shared, gauge: gauge, stop: stop).run()
      case .pull: PullLane(trail, plan, shared, gauge: gauge, stop: stop).run()
      }
    }
    return Running(gauge: gauge, stop: stop, thread: thread)
  }

  private func endAll() {
    let lanes = state.withLock { $0.lanes }
    for lane in lanes.values { lane.stop.set() }
    for lane in lanes.values { _ = lane.thread.join() }
  }
}
