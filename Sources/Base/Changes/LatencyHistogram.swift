/// A histogram of durations with fixed upper bounds, in µs.
///
///     var lags = LatencyHistogram()
///     lags.add(microseconds: 1500)
///     lags.count   // 1
package struct LatencyHistogram: Equatable, Sendable {
  /// The upper bounds of the histogram's steps, in µs. Longer durations are counted in one last step.
  package static let boundsMicroseconds: [Int64] = [
    1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000,
    10_000_000, 30_000_000, 60_000_000, 300_000_000,
  ]

  /// The number of durations in each step; the last step has no upper bound.
  package private(set) var counts = [UInt64](repeating: 0, count: boundsMicroseconds.count + 1)
  package private(set) var sumMicroseconds: UInt64 = 0

  package init() {}

  package var count: UInt64 { counts.reduce(0, +) }

  /// Adds a duration in µs. A negative duration is counted as 0.
  package mutating func add(microseconds: Int64) {
    let step = Self.boundsMicroseconds.firstIndex { microseconds <= $0 } ?? Self.boundsMicroseconds.count
    counts[step] += 1
    sumMicroseconds &+= UInt64(max(0, microseconds))
  }
}
