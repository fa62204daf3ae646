/// Decides when the server counts as silent: after nine seconds without any message. `now` is monotonic time in ms.
struct ServerSilence {
  private static let silentMilliseconds: Int64 = 9000
  private var heardAt: Int64
  private var isSilent = false

  init(now: Int64) { heardAt = now }

  /// Registers a message of the server, and returns whether the server counted as silent before.
  mutating func heard(now: Int64) -> Bool {
    heardAt = now
    defer { isSilent = false }
    return isSilent
  }

  mutating func heardNothing(now: Int64) -> Bool {
    guard !isSilent, now - heardAt > Self.silentMilliseconds else { return false }
    isSilent = true
    return true
  }
}
