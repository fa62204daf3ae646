import Changes
import Trails

/// The functions by which pumps and the listener reach their node, called on the threads of connections and transfers.
///
///     var hooks = PumpHooks()
///     hooks.applied = { trail in positions[trail] }
package struct PumpHooks: Sendable {
  /// Returns the position up to which every apply of the trail at this node has applied it. Nil if there is no such
  /// apply, or if one of them has not begun.
  package var applied: @Sendable (TrailName) -> Position? = { _ in nil }
  /// Returns whether capture of this node has opened the trail. After a power cut, the trail may be too short before
  /// capture opens it.
  package var isOpen: @Sendable (TrailName) -> Bool = { _ in true }
  /// Returns this node's open requests for a refresh of a trail's tables. Empty for a trail of this node.
  package var requests: @Sendable (TrailName) -> [CopyRequest] = { _ in [] }
  /// Returns this node's open requests for a refresh of tables, for all trails of other nodes.
  package var allRequests: @Sendable () -> [TrailName: [CopyRequest]] = { [:] }
  /// Replaces a peer's stored requests for a refresh of a trail's tables by the peer's present list.
  ///
  /// - Parameter peer: The name in the peer's certificate, or the address at which this node dials it.
  /// - Returns: The number of refused requests: too many, invalid, or impossible to store.
  package var asked: @Sendable (_ peer: String, TrailName, [CopyRequest]) -> Int = { _, _, _ in 0 }
  /// The unanswered questions about rows of sources at other nodes.
  package var questions = OpenQuestions()
  /// Answers a question about the rows of a trail's source, or forwards it towards the trail's node. The call blocks
  /// until the answer arrives.
  ///
  /// - Parameter asker: The name in the peer's certificate, or the address at which this node dials it.
  package var answer: Answer = { _, _, _, _ in throw PumpHandler.nothing }
  package typealias Answer =
    @Sendable (_ asker: String, TrailName, _ question: [UInt8], _ isOver: () -> Bool) throws -> [UInt8]
  /// Returns why this node accepts no bytes of other nodes' trails now; nil if it accepts them.
  package var full: @Sendable () -> CairnError? = { nil }
  /// Returns why a pump must not begin to copy a trail to this node; nil if it may.
  package var surplus: @Sendable (TrailName) -> CairnError? = { _ in nil }
  /// The name of the node from which a pump fetches, by which its limits are known. Nil for a pump that pushes, and for
  /// the listener.
  package var dialled: String?
  /// Called with the number of bytes of other nodes' trails that have arrived.
  package var come: @Sendable (Int) -> Void = { _ in }
  /// Called when a peer has reported that it has a trail durably up to a position.
  package var acknowledged: @Sendable (_ peer: String, TrailName, TrailPlace) -> Void = { _, _, _ in }
  /// Called when a peer has reported that it has applied a trail up to a position.
  package var peerApplied: @Sendable (_ peer: String, TrailName, Position) -> Void = { _, _, _ in }
  /// Called when the copy of a trail at this node has begun again at a later segment. The copy lacks the changes
  /// between its former end and that segment.
  package var restarted: @Sendable (TrailName) -> Void = { _ in }

  /// Returns the names of the snapshots that a peer may fetch.
  package var snapshots: @Sendable (_ peer: String) -> [String] = { _ in [] }
  /// Returns the files of a snapshot, the newest first.
  package var snapshotFiles: @Sendable (_ name: String) throws -> [PublishedSnapshot] = { _ in [] }

  package init() {}

  /// Returns whether a peer's copy that is longer than the trail has other content than the trail. True only at the
  /// trail's own node, after capture has opened the trail.
  func isFork(_ trail: TrailName, behindEndAt node: String) -> Bool { trail.origin == node && isOpen(trail) }
}
