import Changes

/// The rights of peers to trails (`docs/reference/protocol.md`, Who is who).
package struct Grants: Equatable, Sendable {
  package enum Right: Sendable {
    case push
    case pull
  }

  package struct Peer: Equatable, Sendable {
    package var push: TrailPatterns
    package var pull: TrailPatterns
    package init(push: TrailPatterns, pull: TrailPatterns) { (self.push, self.pull) = (push, pull) }
  }

  package var peers: [String: Peer]

  package init(_ peers: [String: Peer]) { self.peers = peers }

  /// Returns whether a peer has a right to a trail.
  ///
  /// Names are compared by their bytes. A certificate may hold a text that is not a peer's name, yet equals one in
  /// Swift, as the Kelvin sign equals K.
  package func allow(_ peer: String, _ right: Right, _ trail: TrailName) -> Bool {
    guard TrailName.isValid(peer), let granted = peers[peer] else { return false }
    switch right {
    case .push: return granted.push.includes(trail)
    case .pull: return granted.pull.includes(trail)
    }
  }
}
