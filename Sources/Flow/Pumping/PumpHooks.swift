import Changes
import Trails

/// The functions by which pumps and the listener ask the node for its state and report to it. They are called on the
/// threads of connections and transfers.
package struct PumpHooks: Sendable {
  /// Returns the position up to which every apply of this node has processed the trail; nil if there is no such
  /// position.
  package var applied: @Sendable (TrailName) -> Position? = { _ in nil }
  /// Returns whether capture has opened a trail of this node for writing. From then on, the trail's end is after
  /// everything that was ever synced.
  package var isOpen: @Sendable (TrailName) -> Bool = { _ in true }
  /// Returns the requests of this node for copies of a trail's tables that a capture of another node must make.
  package var requests: @Sendable (TrailName) -> [CopyRequest] = { _ in [] }
  /// Returns the requests that ``requests`` returns, for all trails of other nodes.
  package var allRequests: @Sendable () -> [TrailName: [CopyRequest]] = { [:] }
  /// Stores the requests for copies of a trail's tables that a peer has at present.
  ///
  /// - Parameter peer: The name in the peer's certificate, or the address at which this node dials it.
  /// - Returns: The number of copies that are refused because they exceed the peer's limit.
  package var asked: @Sendable (_ peer: String, TrailName, [CopyRequest]) -> Int = { _, _, _ in 0 }
  /// The open questions of this node and of its peers to the origins of trails at other nodes.
  package var questions = QuestionBook()
  /// Answers a question about the rows of a trail's source, or passes it on towards the origin. It is called on the
  /// thread that waits for the answer.
  ///
  /// - Parameter asker: The peer, named as in ``asked``.
  package var answer: Answer = { _, _, _, _ in throw PumpDesk.nothing }
  package typealias Answer =
    @Sendable (_ asker: String, TrailName, _ question: [UInt8], _ isOver: () -> Bool) throws -> [UInt8]
  /// Returns the reason why this node accepts no bytes of other nodes' trails now; nil if it accepts them.
  package var full: @Sendable () -> CairnError? = { nil }
  /// Returns the reason why a pump must not begin to copy a trail to this node; nil if it may.
  package var surplus: @Sendable (TrailName) -> CairnError? = { _ in nil }
  /// Reports that this number of bytes of other nodes' trails has arrived.
  package var come: @Sendable (Int) -> Void = { _ in }
  /// Reports that a peer has stored everything in the trail before the place durably.
  package var acknowledged: @Sendable (_ peer: String, TrailName, TrailPlace) -> Void = { _, _, _ in }
  /// Reports that a peer has applied everything in the trail before the position.
  package var peerApplied: @Sendable (_ peer: String, TrailName, Position) -> Void = { _, _, _ in }
  /// Reports that the copy of a trail at this node started again at a later segment, so that the changes in between are
  /// missing.
  package var restarted: @Sendable (TrailName) -> Void = { _ in }

  package init() {}

  /// Returns whether a peer's copy that is longer than the trail at this node must have diverged from the trail.
  ///
  /// At the trail's origin that is so once capture has opened the trail: everything that was ever sent is then before
  /// the trail's end. At any other node the missing part may still arrive.
  func isFork(_ trail: TrailName, behindEndAt node: String) -> Bool { trail.origin == node && isOpen(trail) }
}
