import Changes
import Trails

/// The functions by which pumps and the listener ask the node for its state and report to it. They are called on the
/// threads of connections and transfers.
package struct PumpHooks: Sendable {
  /// Returns the position up to which every apply of this node has applied the trail; nil if no apply reads the trail,
  /// or if one of them has not begun.
  package var applied: @Sendable (TrailName) -> Position? = { _ in nil }
  /// Returns whether the capture of this node that writes the trail has opened it. Until then, the trail may seem too
  /// short, because a power cut can leave an old durable mark.
  package var isOpen: @Sendable (TrailName) -> Bool = { _ in true }
  /// Returns the open requests for copies of a trail's tables, to be sent towards the trail's node. Empty for a trail
  /// that begins at this node, because this node makes the copies itself.
  package var requests: @Sendable (TrailName) -> [CopyRequest] = { _ in [] }
  /// Returns the requests for copies of tables, as ``requests`` returns them, for all trails of other nodes.
  package var allRequests: @Sendable () -> [TrailName: [CopyRequest]] = { [:] }
  /// Stores all requests for copies of a trail's tables that a peer has open now.
  ///
  /// - Parameter peer: The name in the peer's certificate, or the address at which this node dials it.
  /// - Returns: The number of refused requests. A request is refused if the peer makes too many, or if it is invalid or
  ///   cannot be stored.
  package var asked: @Sendable (_ peer: String, TrailName, [CopyRequest]) -> Int = { _, _, _ in 0 }
  /// The questions about rows of sources at other nodes, asked by this node or its peers, that are not answered yet.
  package var questions = QuestionBook()
  /// Answers a question about the rows of a trail's source, or forwards it towards the trail's node. It is called on
  /// the thread that waits for the answer.
  ///
  /// - Parameter asker: The peer, named as in ``asked``.
  package var answer: Answer = { _, _, _, _ in throw PumpDesk.nothing }
  package typealias Answer =
    @Sendable (_ asker: String, TrailName, _ question: [UInt8], _ isOver: () -> Bool) throws -> [UInt8]
  /// Returns an error that says why this node accepts no bytes of other nodes' trails now; nil if it accepts them.
  package var full: @Sendable () -> CairnError? = { nil }
  /// Returns an error that says why a pump must not begin to copy a trail to this node; nil if it may.
  package var surplus: @Sendable (TrailName) -> CairnError? = { _ in nil }
  /// Called when bytes of other nodes' trails have arrived, with the number of bytes.
  package var come: @Sendable (Int) -> Void = { _ in }
  /// Called when a peer has reported that it has a trail durably up to a position.
  package var acknowledged: @Sendable (_ peer: String, TrailName, TrailPlace) -> Void = { _, _, _ in }
  /// Called when a peer has reported that it has applied a trail up to a position.
  package var peerApplied: @Sendable (_ peer: String, TrailName, Position) -> Void = { _, _, _ in }
  /// Called when the copy of a trail at this node was started again at a later segment. The changes between the former
  /// end of the copy and that segment are missing.
  package var restarted: @Sendable (TrailName) -> Void = { _ in }

  package init() {}

  /// Returns whether a peer's copy of a trail has diverged from the trail. Call it if the copy ends after the trail's
  /// end at this node (`node`).
  ///
  /// It returns true at the node where the trail begins, after capture has opened the trail: that trail has everything
  /// that was ever sent. At any other node it returns false, because the missing bytes may still arrive.
  func isFork(_ trail: TrailName, behindEndAt node: String) -> Bool { trail.origin == node && isOpen(trail) }
}
