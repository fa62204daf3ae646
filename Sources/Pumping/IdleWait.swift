/// How long a lane with nothing to move lets pass before it tells, or asks, what was applied: seconds.
///
/// What has just come is applied a moment later: that is told soon, and while it is not applied, ever more seldom.
struct IdleWait: Equatable, Sendable {
  static let longest = 10
  private var next = 1

  /// Something has moved.
  mutating func begin() { next = 1 }

  mutating func seconds(isApplyBehind: Bool) -> Int {
    guard isApplyBehind else { return Self.longest }
    defer { next = min(next * 2, Self.longest) }
    return next
  }
}
