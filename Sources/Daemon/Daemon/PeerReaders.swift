import Changes
import Configuring
import ControlAPI
import Trails

/// The readers of this node's trails at other nodes. Segments that one of them needs are not deleted.
package enum PeerReaders {
  /// Returns the readers of `trails` at other nodes: each peer that may pull one of the trails, and each pump that
  /// pushes one.
  ///
  /// - Parameter besides: The readers to leave out: pumps that skip a trail because it comes from the node to which
  ///   they push.
  package static func keys(
    _ configuration: Configuration, _ trails: [TrailName], besides: Set<PeerRegistry.Key>
  ) -> [PeerRegistry.Key] {
    var keys: [PeerRegistry.Key] = []
    for trail in trails {
      for pump in configuration.pumps
      where pump.way == .push && pump.trails.includes(trail) && trail.origin != pump.peer ?? pump.url.host {
        keys.append(.init(WorkerName(.pump, pump.name), trail))
      }
      guard configuration.receive != nil else { continue }
      for peer in configuration.peers where peer.pull.includes(trail) && trail.origin != peer.name {
        keys.append(.init(WorkerName(.peer, peer.name), trail))
      }
    }
    return keys.filter { !besides.contains($0) }
  }

  static func mayRead(_ key: PeerRegistry.Key, _ configuration: Configuration) -> Bool {
    key.reader.kind == .pump
      ? configuration.pumps.contains {
        $0.name == key.reader.name && $0.way == .push && $0.trails.includes(key.trail)
      } : configuration.peers.contains { $0.name == key.reader.name && $0.pull.includes(key.trail) }
  }

  /// Returns a reader at another node, for the ``RetentionPlan``. A reader without a known position needs the whole
  /// trail.
  ///
  /// - Parameter givenUpIn: The segment at the reader's position when it expired (0: the position was unknown); nil if
  ///   it has not expired.
  package static func reader(
    _ key: PeerRegistry.Key, _ entry: PeerRegistry.Entry?, _ info: TrailInfo?, givenUpIn: UInt64?
  ) -> RetentionPlan.Reader {
    let known = entry.flatMap { entry in info.flatMap { $0.id.description == entry.id ? entry : nil } }
    let first = info?.segments.first?.number ?? 0
    let live = info?.segments.last
    let isAtEnd = known.map { $0.segment == live?.number && $0.offset >= live?.bytes ?? 0 } ?? false
    return RetentionPlan.Reader(
      name: key.reader, trail: key.trail.description, segment: known?.segment, isAtEnd: isAtEnd,
      isExpired: known.map { $0.segment < first || $0.segment <= givenUpIn ?? 0 } ?? (givenUpIn != nil))
  }
}
