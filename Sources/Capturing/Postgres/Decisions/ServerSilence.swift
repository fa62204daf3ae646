/// Whether the server answers. Every five seconds capture asks it for an answer. A server that does not answer for nine
/// seconds counts as gone until it sends something. Pure; `now` is monotonic time in ms.
struct ServerSilence {
  private static let silentMilliseconds: Int64 = 9000
  private var heardAt: Int64
  private var isSilent = false

  init(now: Int64) { heardAt = now }

  /// Takes a message. Returns whether the server was silent before.
  mutating func heard(now: Int64) -> Bool {
    heardAt = now
    defer { isSilent = false }
    return isSilent
  }

  /// Takes the absence of a message. Returns whether the server counts as silent from now on.
  mutating func heardNothing(now: Int64) -> Bool {
    guard !isSilent, now - heardAt > Self.silentMilliseconds else { return false }
    isSilent = true
    return true
  }
}
