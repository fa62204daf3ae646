/// Detects that the time of day of the machine was set, by comparison with a monotonic clock.
struct ClockWatch: Equatable, Sendable {
  // Smaller jumps come from the gradual adjustment of the clock.
  private static let leastMicroseconds: Int64 = 1_000_000

  private var wall: Int64
  private var steady: Int64

  /// Creates a detector with the present times of both clocks.
  ///
  /// - Parameter wall: The time of day in µs.
  /// - Parameter steady: The time of a monotonic clock in µs.
  init(wall: Int64, steady: Int64) { (self.wall, self.steady) = (wall, steady) }

  /// Returns the µs by which the time of day was set since the last call, negative if it was set back. Nil if the jump
  /// is less than 1 s.
  mutating func jump(wall: Int64, steady: Int64) -> Int64? {
    let jump = (wall - self.wall) - (steady - self.steady)
    (self.wall, self.steady) = (wall, steady)
    return abs(jump) >= Self.leastMicroseconds ? jump : nil
  }
}
