import Changes
import Trails

/// The questions of the network to the node that it serves, and its reports to it. Called on the threads of connections
/// and lanes.
package struct PumpHooks: Sendable {
  /// Returns the position that every apply of this node has finished with; nil if there is none.
  package var applied: @Sendable (TrailName) -> Position? = { _ in nil }
  /// Returns whether the writer of a trail that begins here has opened it. From then on, everything that was ever
  /// synced is before its end.
  package var isOpen: @Sendable (TrailName) -> Bool = { _ in true }
  /// Returns the copies of tables that this node waits for and that no capture of this node makes.
  package var requests: @Sendable (TrailName) -> [CopyRequest] = { _ in [] }
  /// Returns the same for all trails that begin elsewhere.
  package var allRequests: @Sendable () -> [TrailName: [CopyRequest]] = { [:] }
  /// Takes the copies of tables for which a peer waits now. Returns the number of copies that exceed the limit and are
  /// refused. `peer` is the name of its certificate, or the address at which this node dials it.
  package var asked: @Sendable (_ peer: String, TrailName, [CopyRequest]) -> Int = { _, _, _ in 0 }
  /// The questions of this node and of other nodes for the origins of trails elsewhere.
  package var questions = QuestionBook()
  /// Answers a question about the rows of a trail's source, here or by handing it on; called on the asker's thread. The
  /// asker is known as in ``asked``.
  package var answer: Answer = { _, _, _, _ in throw PumpDesk.nothing }
  package typealias Answer =
    @Sendable (_ asker: String, TrailName, _ question: [UInt8], _ isOver: () -> Bool) throws -> [UInt8]
  /// Returns the reason why this node takes no bytes of other nodes' trails now; nil if it takes them.
  package var full: @Sendable () -> CairnError? = { nil }
  /// Returns why the copy of a trail that is fetched may not begin; nil: it may.
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

  /// Returns whether a copy that ends after a trail at `node`, which is this node, has another history.
  ///
  /// At the trail's origin, everything that was ever sent is before its end when its writer has opened it. At any other
  /// node the missing part may still arrive.
  func isFork(_ trail: TrailName, behindEndAt node: String) -> Bool { trail.origin == node && isOpen(trail) }
}
