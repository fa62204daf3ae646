/// Sees when somebody sets the clock of the machine: the time of day then moves by another amount than the clock that only
/// runs forward.
struct ClockWatch: Equatable, Sendable {
  /// What drifts by less is being adjusted, not set.
  private static let leastMicroseconds: Int64 = 1_000_000

  private var wall: Int64
  private var steady: Int64

  /// `wall` is the time of day, `steady` a clock that never jumps, both in µs.
  init(wall: Int64, steady: Int64) { (self.wall, self.steady) = (wall, steady) }

  /// By how many µs the time of day has jumped since the last call; nil: it has not.
  mutating func jump(wall: Int64, steady: Int64) -> Int64? {
    let jump = (wall - self.wall) - (steady - self.steady)
    (self.wall, self.steady) = (wall, steady)
    return abs(jump) >= Self.leastMicroseconds ? jump : nil
  }
}
