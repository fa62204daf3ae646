import Changes
import NetKit
import SystemKit
import Trails

/// Lets requests for copies of tables travel at once, besides the lanes of a pump, which may have nothing to say for ten
/// seconds: hears what the peer waits for where trails are pushed, and asks for what this node waits for where they are
/// pulled. What fails here is left to the lanes. Belongs to one thread.
final class RequestEar {
  private static let lookMilliseconds: Int32 = 500
  private static let againMilliseconds: Int32 = 10_000

  private let plan: PumpPlan
  private let hooks: PumpHooks
  private let trails: () -> [TrailName]
  private var asked: [TrailName: [CopyRequest]] = [:]
  private var known: String?

  /// `trails` are those of lanes that have reached the peer.
  init(_ plan: PumpPlan, _ hooks: PumpHooks, trails: @escaping () -> [TrailName]) {
    (self.plan, self.hooks, self.trails) = (plan, hooks, trails)
  }

  func run(until stop: StopSignal) {
    while !stop.isSet {
      do {
        let link = try PumpLink(plan, stop: stop)
        repeat {
          guard !trails().isEmpty else { continue }
          if plan.direction == .push { try hear(link) } else { try ask(link) }
        } while !stop.wait(milliseconds: Self.lookMilliseconds)
      } catch {
        known = nil
        _ = stop.wait(milliseconds: Self.againMilliseconds)
      }
    }
  }

  private func hear(_ link: PumpLink) throws {
    let told = try link.requests(known: known)
    for (trail, requests) in told.requests where plan.trails.includes(trail) {
      _ = hooks.asked(told.node, trail, requests)
    }
    known = told.mark
  }

  private func ask(_ link: PumpLink) throws {
    for trail in trails() {
      let wanted = hooks.requests(trail)
      guard wanted != asked[trail] ?? [] else { continue }
      // What is too much at once, the lane asks for again.
      do { try link.ask(wanted, trail) } catch let error as CairnError where error.code == .busy {}
      asked[trail] = wanted
    }
  }
}
