import Changes

/// The grants of peers: the trails that each peer may push or pull (`docs/reference/protocol.md`, Who is who).
///
///     let peer = Grants.Peer(push: TrailPatterns(["till.*"]), pull: TrailPatterns(["hq.erp"]))
///     let grants = Grants(["till": peer])
///     grants.allow("till", .push, TrailName("till.pos")!)   // true
package struct Grants: Equatable, Sendable {
  package enum Right: Sendable {
    case push
    case pull
  }

  /// The trails that one peer may push, and those that it may pull.
  ///
  ///     Grants.Peer(push: TrailPatterns(["till.*"]), pull: TrailPatterns(["hq.erp"]))
  package struct Peer: Equatable, Sendable {
    package var push: TrailPatterns
    package var pull: TrailPatterns
    package init(push: TrailPatterns, pull: TrailPatterns) { (self.push, self.pull) = (push, pull) }
  }

  package var peers: [String: Peer]

  package init(_ peers: [String: Peer]) { self.peers = peers }

  /// Returns whether a peer has a right to a trail. A text that is no valid name of a peer has no rights.
  package func allow(_ peer: String, _ right: Right, _ trail: TrailName) -> Bool {
    guard TrailName.isValid(peer), let granted = peers[peer] else { return false }
    switch right {
    case .push: return granted.push.includes(trail)
    case .pull: return granted.pull.includes(trail)
    }
  }
}
