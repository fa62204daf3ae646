/// The pause of an idle transfer before it asks the peer again for the applied position, in seconds. The pause grows
/// while received bytes are not applied.
struct IdleWait: Equatable, Sendable {
  static let longest = 10
  private var next = 1

  mutating func begin() { next = 1 }

  mutating func seconds(isApplyBehind: Bool) -> Int {
    guard isApplyBehind else { return Self.longest }
    defer { next = min(next * 2, Self.longest) }
    return next
  }
}
