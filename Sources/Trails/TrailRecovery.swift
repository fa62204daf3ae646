import Changes

/// The part after the last whole transaction that was cut off when the trail was opened.
package struct TrailRecovery: Equatable, Sendable {
  package var bytes: UInt64
  /// The new end of the trail.
  package var position: Position
}
