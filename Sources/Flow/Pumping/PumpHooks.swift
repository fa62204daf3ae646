import Changes
import Trails

/// The functions by which pumps and the listener ask the node for its state and report to it. They are called on the
/// threads of connections and transfers.
package struct PumpHooks: Sendable {
  /// Returns the position that every apply of this node has finished with; nil if there is none.
  package var applied: @Sendable (TrailName) -> Position? = { _ in nil }
  /// Returns whether the writer of a trail that begins here has opened it. From then on, everything that was ever
  /// synced is before its end.
  package var isOpen: @Sendable (TrailName) -> Bool = { _ in true }
  /// Returns the copies of tables that this node waits for and that no capture of this node makes.
  package var requests: @Sendable (TrailName) -> [CopyRequest] = { _ in [] }
  /// Returns the requests as ``requests`` does, for all trails of other nodes.
  package var allRequests: @Sendable () -> [TrailName: [CopyRequest]] = { [:] }
  /// Records the copies of tables that a peer waits for now.
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
  /// Returns the reason why this node takes no bytes of other nodes' trails now; nil if it takes them.
  package var full: @Sendable () -> CairnError? = { nil }
  /// Returns the reason not to begin a copy of a trail that a pump fetches; nil if it may begin.
  package var surplus: @Sendable (TrailName) -> CairnError? = { _ in nil }
  /// Notes that bytes of other nodes' trails have arrived.
  package var come: @Sendable (Int) -> Void = { _ in }
  /// Notes that a peer has everything before the place durably.
  package var acknowledged: @Sendable (_ peer: String, TrailName, TrailPlace) -> Void = { _, _, _ in }
  /// Notes that a peer has applied everything before the position.
  package var peerApplied: @Sendable (_ peer: String, TrailName, Position) -> Void = { _, _, _ in }
  /// Notes that a copy started again at a later segment: the changes in between are missing here.
  package var restarted: @Sendable (TrailName) -> Void = { _ in }

  package init() {}

  /// Returns whether a peer's copy that is longer than the trail at this node must have another history.
  ///
  /// At the trail's origin that is so once the writer has opened the trail: everything that was ever sent is then
  /// before the trail's end. At any other node the missing part may still arrive.
  func isFork(_ trail: TrailName, behindEndAt node: String) -> Bool { trail.origin == node && isOpen(trail) }
}
