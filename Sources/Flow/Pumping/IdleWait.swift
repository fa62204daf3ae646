/// The pause, in seconds, of an idle transfer between two requests for the peer's applied position. The pause is
/// ``longest`` if the peer has applied all bytes. Otherwise it begins with 1 s and doubles up to ``longest``.
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
