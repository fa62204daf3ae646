import Applying
import Capturing
import Changes
import Configuring
import Conflicts
import Endpoints
import Synchronization
import SystemKit
import Trails
import Versions

/// The state that the applies of each two-way database of this node share.
final class TwoWayRegistry: Sendable {
  private let known = Mutex<[String: (plan: TwoWayPlan, twoWay: TwoWay)]>([:])
  private let links = Mutex<[String: CaptureLink]>([:])

  /// Returns the object through which applies cooperate with the capture of their target. The first call creates it.
  func link(to capture: Configuration.Capture, at location: DatabaseURL) -> CaptureLink {
    links.withLock { links in
      let key = "\(capture.name) \(location.place)"
      if let link = links[key] { return link }
      let link = CaptureLink(location)
      links[key] = link
      return link
    }
  }

  /// Returns the state that the applies of a two-way database share; nil if the apply is one-way.
  func twoWay(for apply: Configuration.Apply, at location: DatabaseURL, in context: ServiceContext) -> TwoWay? {
    let conf = context.configuration
    guard let capture = conf.captureBehind(apply), let plan = TwoWayPlan(apply, conf) else { return nil }
    let link = link(to: capture, at: location)
    return known.withLock { known in
      if let made = known[apply.database], made.plan == plan, made.twoWay.isSound { return made.twoWay }
      var limits = TwoWay.Limits()
      limits.skewMicrosecondsMax = plan.skew.milliseconds * 1000
      limits.movedKeys.areRefusedHere = !plan.acceptsMovedKeys
      limits.movedKeys.refusedTrails = plan.refusingMovedKeys
      let twoWay = TwoWay(
        own: (plan.own, context.folder(of: plan.own)),
        applied: plan.applied.map { ($0.trail, context.folder(of: $0.trail), $0.tables) },
        captured: TablePatterns(plan.captured), copiesRows: plan.copiesRows, link: link,
        limits: limits, after: known[apply.database]?.twoWay
      ) { trail, table, columns in
        (plan.rules[trail.description] ?? ConflictPlan()).rules(forTarget: table, columns: columns)
      }
      known[apply.database] = (plan, twoWay)
      return twoWay
    }
  }

  /// Makes all applies of each two-way database that has a trail start again, without what they have read of the trail.
  /// Call it after its copy was begun again at a later segment.
  func noteRestarted(_ trail: TrailName) {
    known.withLock { known in for entry in known.values { entry.twoWay.window.noteRestarted(trail) } }
  }

  // The smallest size of the version window, in versions, that the status reports.
  private static let manyVersions = 100_000

  /// Returns the number of versions in the version window. Nil if there are fewer than 100,000, or if the peer that
  /// writes the apply's trail knows all of them.
  func versionsKept(for apply: Configuration.Apply) -> Int? {
    guard let trail = TrailName(apply.trail), let twoWay = known.withLock({ $0[apply.database]?.twoWay }) else {
      return nil
    }
    let count = twoWay.window.count
    guard count >= Self.manyVersions, (try? twoWay.window.isKept(for: trail)) == true else { return nil }
    return count
  }

  /// Returns the number of waiting rows in the target of an apply, by table.
  func rowsWaiting(for apply: Configuration.Apply) -> [NameKey: Int] {
    known.withLock { $0[apply.database]?.twoWay }?.waitingRows ?? [:]
  }

  /// Returns, for each trail, the oldest position whose changes may still be needed to resolve a conflict.
  func needs() -> [TrailName: Position] {
    known.withLock { known in
      var needs: [TrailName: Position] = [:]
      for entry in known.values {
        for (trail, position) in (try? entry.twoWay.window.needs()) ?? [:] {
          needs[trail] = min(position, needs[trail] ?? position)
        }
      }
      return needs
    }
  }
}
