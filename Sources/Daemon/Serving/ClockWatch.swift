/// A detector for a machine clock that was set: the time of day then moves by another amount than the clock that only
/// runs forward.
struct ClockWatch: Equatable, Sendable {
  /// A smaller drift means that the clock is being adjusted, not set.
  private static let leastMicroseconds: Int64 = 1_000_000

  private var wall: Int64
  private var steady: Int64

  /// Starts at these times.
  ///
  /// - Parameter wall: The time of day in µs.
  /// - Parameter steady: The time in µs of a clock that never jumps.
  init(wall: Int64, steady: Int64) { (self.wall, self.steady) = (wall, steady) }

  /// Returns by how many µs the time of day has jumped since the last call; nil if it has not.
  mutating func jump(wall: Int64, steady: Int64) -> Int64? {
    let jump = (wall - self.wall) - (steady - self.steady)
    (self.wall, self.steady) = (wall, steady)
    return abs(jump) >= Self.leastMicroseconds ? jump : nil
  }
}
