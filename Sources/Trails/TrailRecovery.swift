import Changes

/// What the writer cut off behind the last whole transaction when it opened a trail.
package struct TrailRecovery: Equatable, Sendable {
  package var bytes: UInt64
  /// Where the trail ends now.
  package var position: Position
}
