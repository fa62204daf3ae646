/// Decides whether the server of a capture counts as silent: it has sent nothing for nine seconds, although capture asks
/// for an answer every five seconds. This type does no I/O; `now` is monotonic time in ms.
struct ServerSilence {
  private static let silentMilliseconds: Int64 = 9000
  private var heardAt: Int64
  private var isSilent = false

  init(now: Int64) { heardAt = now }

  /// Restarts the nine seconds after which the server counts as silent, because a message came from it. Returns whether
  /// the server counted as silent before.
  mutating func heard(now: Int64) -> Bool {
    heardAt = now
    defer { isSilent = false }
    return isSilent
  }

  /// Checks how long the server has sent nothing. Returns true, once per silence, when the server begins to count as
  /// silent.
  mutating func heardNothing(now: Int64) -> Bool {
    guard !isSilent, now - heardAt > Self.silentMilliseconds else { return false }
    isSilent = true
    return true
  }
}
