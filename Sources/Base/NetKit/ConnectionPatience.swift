/// The time limits of a listener for one connection. Times are in ms on a monotonic clock.
struct ConnectionPatience: Equatable, Sendable {
  enum Phase: Equatable, Sendable {
    /// The connection waits for a request. The first wait includes the TLS handshake.
    case waiting(isFirst: Bool)
    /// The server computes its answer. There is no time limit.
    case handling
    case moving
    /// The connection receives a body that the server ignores.
    case dropping
    /// The connection receives a body from a client that has not shown a valid certificate.
    case receivingFromStranger
  }

  private(set) var phase: Phase
  private var since: Int64
  private var moved: UInt64 = 0
  private var bodyBegun: Int64?

  init(now: Int64) { (phase, since) = (.waiting(isFirst: true), now) }

  mutating func enter(_ phase: Phase, now: Int64) {
    // A refused body has one time limit, however many parts arrive.
    if phase == .dropping, self.phase == .dropping { return }
    if case .waiting = phase { bodyBegun = nil }
    guard phase == .receivingFromStranger else { return (self.phase, since) = (phase, now) }
    // The body of a client without a proven identity has one time limit too.
    let begun = bodyBegun ?? now
    (self.phase, since, bodyBegun) = (phase, begun, begun)
  }

  /// Returns whether the connection has exceeded the time limit of its phase and must be ended.
  ///
  /// - Parameter now: The time of a monotonic clock, in ms.
  /// - Parameter moved: The number of bytes sent and received since the accept.
  mutating func isOver(now: Int64, moved: UInt64, _ limits: HTTPLimits) -> Bool {
    let seconds: Int
    switch phase {
    case .handling: return false
    case .waiting(let isFirst): seconds = isFirst ? limits.handshakeSeconds : limits.idleSeconds
    case .dropping: seconds = limits.idleSeconds
    case .receivingFromStranger: seconds = limits.handshakeSeconds
    case .moving:
      if moved != self.moved { (self.moved, since) = (moved, now) }
      seconds = limits.idleSeconds
    }
    return now - since > Int64(seconds) * 1000
  }
}
