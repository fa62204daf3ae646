import Changes

/// The part of a trail after the last whole transaction that was cut off when the trail was opened.
package struct TrailRecovery: Equatable, Sendable {
  package var bytes: UInt64
  /// The end of the trail after the recovery.
  package var position: Position
}
