/// The wait of a transfer that has nothing to transfer, in seconds. After it, the transfer exchanges the applied position with
/// the peer.
///
/// Bytes that have just arrived are applied a moment later, so the first waits are short. While they are not applied,
/// the waits grow.
struct IdleWait: Equatable, Sendable {
  static let longest = 10
  private var next = 1

  /// Starts again with the shortest wait, because something was transferred.
  mutating func begin() { next = 1 }

  mutating func seconds(isApplyBehind: Bool) -> Int {
    guard isApplyBehind else { return Self.longest }
    defer { next = min(next * 2, Self.longest) }
    return next
  }
}
