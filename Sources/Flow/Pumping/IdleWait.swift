/// The time, in seconds, that an idle transfer waits before it exchanges the applied position with the peer again.
///
/// New bytes are applied soon after they arrive, so the first waits are short. Each further wait is longer while the
/// bytes are not applied.
struct IdleWait: Equatable, Sendable {
  static let longest = 10
  private var next = 1

  /// Makes the next wait the shortest one, because bytes were transferred.
  mutating func begin() { next = 1 }

  mutating func seconds(isApplyBehind: Bool) -> Int {
    guard isApplyBehind else { return Self.longest }
    defer { next = min(next * 2, Self.longest) }
    return next
  }
}
