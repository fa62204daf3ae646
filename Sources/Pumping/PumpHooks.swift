import Changes
import Trails

/// What the network asks of the node that it serves, and tells it. Called on the threads of connections and lanes.
package struct PumpHooks: Sendable {
  /// What every apply of this node has finished with; nil where there is none.
  package var applied: @Sendable (TrailName) -> Position? = { _ in nil }
  /// Copies of tables that this node waits for and that no capture of its own brings.
  package var requests: @Sendable (TrailName) -> [CopyRequest] = { _ in [] }
  /// A peer asks for copies of tables: all that it waits for now.
  package var asked: @Sendable (_ peer: String, TrailName, [CopyRequest]) -> Void = { _, _, _ in }
  /// A peer holds everything before the place, durably.
  package var acknowledged: @Sendable (_ peer: String, TrailName, TrailPlace) -> Void = { _, _, _ in }
  /// A peer has applied everything before the position.
  package var peerApplied: @Sendable (_ peer: String, TrailName, Position) -> Void = { _, _, _ in }
  /// A copy began again at a later segment: what was in between is missing here.
  package var restarted: @Sendable (TrailName) -> Void = { _ in }

  package init() {}
}
