/// The seconds that a lane without bytes to move waits before it reports, or asks for, the applied position.
///
/// Bytes that have just arrived are applied a moment later, so the first waits are short. While they are not applied,
/// the waits grow.
struct IdleWait: Equatable, Sendable {
  static let longest = 10
  private var next = 1

  /// Notes that something has moved.
  mutating func begin() { next = 1 }

  mutating func seconds(isApplyBehind: Bool) -> Int {
    guard isApplyBehind else { return Self.longest }
    defer { next = min(next * 2, Self.longest) }
    return next
  }
}
