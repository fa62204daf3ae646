import Changes
import Trails

/// What the network asks of the node that it serves, and tells it. Called on the threads of connections and lanes.
package struct PumpHooks: Sendable {
  /// What every apply of this node has finished with; nil where there is none.
  package var applied: @Sendable (TrailName) -> Position? = { _ in nil }
  /// Whether the writer of a trail that begins here has opened it, so that everything synced stands before its end.
  package var isOpen: @Sendable (TrailName) -> Bool = { _ in true }
  /// Copies of tables that this node waits for and that no capture of its own brings.
  package var requests: @Sendable (TrailName) -> [CopyRequest] = { _ in [] }
  /// The same of all trails that begin elsewhere.
  package var allRequests: @Sendable () -> [TrailName: [CopyRequest]] = { [:] }
  /// A peer asks for copies of tables: all that it waits for now. Returns how many of them are too much, and not taken.
  package var asked: @Sendable (_ peer: String, TrailName, [CopyRequest]) -> Int = { _, _, _ in 0 }
  /// Questions of this node, and of others, for the origins of trails elsewhere.
  package var questions = QuestionBook()
  /// Answers a question about the rows of a trail's source, here or by handing it on; called on the asker's thread.
  package var answer: Answer = { _, _, _, _ in throw PumpDesk.nothing }
  package typealias Answer =
    @Sendable (_ asker: String, TrailName, _ question: [UInt8], _ isOver: () -> Bool) throws -> [UInt8]
  /// Why no bytes of other nodes' trails may come at this moment; nil: they may.
  package var full: @Sendable () -> CairnError? = { nil }
  /// Bytes of other nodes' trails have come.
  package var come: @Sendable (Int) -> Void = { _ in }
  /// A peer holds everything before the place, durably.
  package var acknowledged: @Sendable (_ peer: String, TrailName, TrailPlace) -> Void = { _, _, _ in }
  /// A peer has applied everything before the position.
  package var peerApplied: @Sendable (_ peer: String, TrailName, Position) -> Void = { _, _, _ in }
  /// A copy began again at a later segment: what was in between is missing here.
  package var restarted: @Sendable (TrailName) -> Void = { _ in }

  package init() {}

  /// Whether a copy that stands behind the end of a trail at `node`, which is this one, has another history. Where the
  /// trail begins, all that anybody was ever sent stands before its end as soon as its writer has opened it; at any other
  /// node it may still come.
  func isFork(_ trail: TrailName, behindEndAt node: String) -> Bool { trail.origin == node && isOpen(trail) }
}
