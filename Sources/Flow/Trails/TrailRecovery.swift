import Changes

/// The report of a recovery: how much after the last whole transaction was cut off when the trail was opened.
package struct TrailRecovery: Equatable, Sendable {
  package var bytes: UInt64
  /// The end of the trail after the recovery.
  package var position: Position
}
