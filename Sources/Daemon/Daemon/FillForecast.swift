/// A forecast of when a disk, journal or log will be full, from its growth in the last five minutes.
package struct FillForecast: Equatable, Sendable {
  static let windowMilliseconds: Int64 = 300_000
  static let leastMilliseconds: Int64 = 20_000
  // The longest forecast, in seconds.
  static let secondsMax: Double = 30 * 86_400

  private struct Look: Equatable {
    var at: Int64
    var used: Int64
  }
  private var looks: [Look] = []

  package init() {}

  /// Adds a measurement.
  ///
  /// - Parameter used: The used part of the capacity, in the unit of the capacity, such as bytes or rows.
  /// - Parameter now: Milliseconds of a monotonic clock.
  package mutating func note(used: Int64, now: Int64) {
    looks.append(Look(at: now, used: used))
    looks.removeAll { now - $0.at > Self.windowMilliseconds }
  }

  /// Returns the seconds until `capacity` is reached at the measured growth. Nil if nothing grew, if the measurements
  /// span less than 20 s, or if it takes over 30 days.
  package func secondsUntil(_ capacity: Int64) -> Double? {
    guard let first = looks.first, let last = looks.last, last.at - first.at >= Self.leastMilliseconds,
      last.used > first.used
    else { return nil }
    let perSecond = Double(last.used - first.used) * 1000 / Double(last.at - first.at)
    let seconds = max(0, Double(capacity - last.used)) / perSecond
    return seconds <= Self.secondsMax ? seconds : nil
  }
}
